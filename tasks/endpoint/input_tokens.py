"""Whether a judge reads all that it is sent: some servers cut what is longer than their context, and do not say so.

Owns what can be seen of that in the input tokens that replies report beside what was asked. Ollama reports as many as
fit (a multiple of 1,024, or half of one and two more), whatever the question; and no text has eight characters a token.
"""

from collections import defaultdict

from tasks.endpoint.completion import Reply
from tasks.endpoint.known import known_at
from tasks.endpoint.requests import Request

CHARACTERS_A_TOKEN = 8
"""More than any tokenizer makes of a text; English has about four, other languages fewer."""
UNIT, SPARE = 1024, 2
"""Contexts are multiples of the one, and what is left of a cut question is up to the other more."""
ALIKE = 3
"""Questions of different lengths with the very same number of tokens before that looks like a limit."""
MEND = "Raise the context length of its server."
"""Where the endpoint is not known."""


class InputTokens:
    """The input tokens that a judge reports in one run."""

    def __init__(self) -> None:
        self._counted = 0
        self._too_few: list[tuple[int, int]] = []
        self._at_limit: defaultdict[int, set[int]] = defaultdict(set)

    def note(self, request: Request, reply: Reply) -> None:
        """Take in a reply to a question. One that reports no tokens says nothing."""
        if not reply.tokens_in:
            return
        self._counted += 1
        length = len(request.system) + sum(len(part) for part in request.content if isinstance(part, str))
        if reply.tokens_in * CHARACTERS_A_TOKEN < length:
            self._too_few.append((reply.tokens_in, length))
        elif reply.tokens_in >= UNIT and reply.tokens_in % UNIT <= SPARE:
            self._at_limit[reply.tokens_in].add(length)

    def warnings(self, base_url: str) -> list[str]:
        """What the reader of the run should know of it, at most one sentence with what to do."""
        seen = self._seen()
        known = known_at(base_url)
        mend = known.on_cut_input if known else ""
        return [f"the judge seems to read only the beginning of its questions: {seen}. {mend or MEND}"] if seen else []

    def _seen(self) -> str:
        if self._too_few:
            tokens, length = min(self._too_few)
            return (
                f"{len(self._too_few):,} of {self._counted:,} replies report fewer input tokens than the text has, for "
                f"example {tokens:,} for {length:,} characters and the pictures"
            )
        limits = [tokens for tokens, lengths in self._at_limit.items() if len(lengths) >= ALIKE]
        return f"questions of different lengths all report {limits[0]:,} input tokens" if limits else ""
