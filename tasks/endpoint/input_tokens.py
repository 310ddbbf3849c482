"""Detection of servers that silently cut questions longer than their context, by the input tokens that they report.

Ollama reports as many as fit (a multiple of 1,024, or half of one plus two); no text has eight characters a token.
"""

from typing import NamedTuple

from tasks.endpoint.completion import Reply
from tasks.endpoint.known import known_at
from tasks.endpoint.requests import Request

CHARACTERS_A_TOKEN = 8
"""More characters a token than any tokenizer has; English has about four, other languages fewer."""
UNIT, SPARE = 1024, 2
"""Unit of context lengths, and the most tokens that a cut question has above a multiple of it."""
ALIKE, SHARE, LONGER = 3, 0.05, 1.1
"""Least number and share of replies with equal input tokens, and least ratio of their longest question to the shortest,
for that number to look like a limit. Chance alone makes no such pile."""
MEND = "Raise the context length of its server."
"""Advice for an unknown endpoint."""


class _Pile(NamedTuple):
    """Number of replies that report the same input tokens, and the lengths of their questions in characters."""

    replies: int
    shortest: int
    longest: int


class InputTokens:
    """Input tokens that a judge reports in one run; its size does not grow with the number of replies."""

    def __init__(self) -> None:
        self._replies = self._too_few = 0
        self._worst: tuple[int, int] | None = None
        self._piles: dict[int, _Pile] = {}

    def note(self, request: Request, reply: Reply) -> None:
        """Add a reply to a question; one that reports no tokens is ignored."""
        tokens = reply.tokens_in
        if not tokens:
            return
        self._replies += 1
        length = len(request.system) + sum(len(part) for part in request.content if isinstance(part, str))
        if tokens * CHARACTERS_A_TOKEN < length:
            self._too_few += 1
            self._worst = min(self._worst or (tokens, length), (tokens, length))
        elif tokens >= UNIT and tokens % UNIT <= SPARE:
            replies, shortest, longest = self._piles.get(tokens, _Pile(0, length, length))
            self._piles[tokens] = _Pile(replies + 1, min(shortest, length), max(longest, length))

    def warnings(self, base_url: str) -> list[str]:
        """Return at most one warning for the reader of the run, with advice."""
        seen = self._seen()
        known = known_at(base_url)
        mend = known.on_cut_input if known else ""
        return [f"the judge seems to read only the beginning of its questions: {seen}. {mend or MEND}"] if seen else []

    def _seen(self) -> str:
        if self._worst:
            tokens, length = self._worst
            return (
                f"{self._too_few:,} of {self._replies:,} replies report fewer input tokens than the text has, for "
                f"example {tokens:,} for {length:,} characters and the pictures"
            )
        limits = [tokens for tokens, pile in self._piles.items() if self._looks_like_a_limit(pile)]
        return f"questions of different lengths all report {limits[0]:,} input tokens" if limits else ""

    def _looks_like_a_limit(self, pile: _Pile) -> bool:
        often = pile.replies >= max(ALIKE, SHARE * self._replies)
        return often and pile.longest >= LONGER * pile.shortest
