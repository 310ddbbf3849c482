"""The technical lines of a passport: how a judge replies, whatever it says.

Owns what is measured over all replies: their form, tokens, repeats, seeds, caching, limits and times.
"""

from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import NamedTuple

from tasks.ledger.passports import LineState, PassportReply
from tasks.passport import lines
from tasks.records import LimitsFound
from tasks.text import number_words

REPEAT, SEEDED = "repeat", "seed"
TURNS = 4
"""Times that one question is asked again without a seed, and as often with one."""
READABLE = 0.9
"""Share of replies that must have the form asked for: a run asks again for the others, and pays for them again."""
LEAST_PICTURE_TOKENS = 30
"""Fewer tokens for a second picture than any model takes: then pictures are not counted."""


class Found(NamedTuple):
    """What a technical line came to."""

    state: LineState
    words: str


def turns(kind: str) -> list[str]:
    """Names of the times that one question is asked again."""
    return [f"{kind} {number}" for number in range(1, TURNS + 1)]


def measured(rows: Sequence[PassportReply], limits: LimitsFound | None) -> dict[str, Found]:
    """Technical line -> what was found, over all replies of a passport."""
    asked = [row for row in rows if not row.turn]
    came = [row for row in asked if row.status in ("ok", "invalid", "truncated")]
    return {
        lines.FORMAT: _format(came),
        lines.USAGE: _usage(came),
        lines.REPEATS: Found("told", _repeats(rows, REPEAT)),
        lines.SEED: Found("told", _seed(rows)),
        lines.CACHE: Found("told", _cached([row for row in rows if row.status == "ok"])),
        lines.LIMITS: Found("told", (limits.in_words() if limits else "") or "none was met"),
        lines.LATENCY: Found("told", _latency([row.seconds for row in came])),
    }


def _format(came: Sequence[PassportReply]) -> Found:
    if not came:
        return Found("not measured", "no reply")
    readable = sum(row.status == "ok" for row in came)
    left_out = sorted({name for row in came for name in row.not_sent})
    words = f"{came[-1].rung}, {readable} of {len(came)} read"
    without = f"; without {', '.join(left_out)}" if left_out else ""
    return Found("passed" if readable >= READABLE * len(came) else "failed", words + without)


def _usage(came: Sequence[PassportReply]) -> Found:
    """Whether tokens are told, and those of pictures with them: two questions differ by little but a picture."""
    if not came:
        return Found("not measured", "no reply")
    if not all(row.tokens_in for row in came):
        return Found(
            "failed", "tokens are not always told" if any(row.tokens_in for row in came) else "no tokens are told"
        )
    one, two = ([row.tokens_in for row in came if row.line == line] for line in (lines.BLANK, lines.TWO))
    if not (one and two):
        return Found("not measured", "too few replies")
    more = round(median(two) - median(one))
    if more < LEAST_PICTURE_TOKENS:
        return Found("failed", "pictures are not counted")
    return Found("passed", f"about {more:,} for a picture of 480 x 320 pixels")


def _same(rows: Sequence[PassportReply], kind: str, of: Callable[[PassportReply], object]) -> tuple[int, int]:
    """Replies of a kind of turn, and how many different ones there are among them."""
    found = [of(row) for row in rows if row.turn.startswith(kind) and row.status == "ok"]
    return len(found), len(set(found))


def _repeats(rows: Sequence[PassportReply], kind: str) -> str:
    number, answers = _same(rows, kind, lambda row: row.answer)
    _, wordings = _same(rows, kind, lambda row: row.raw)
    return f"{number} replies to one question: {_several(answers, 'answer')}, {_several(wordings, 'wording')}"


def _several(number: int, thing: str) -> str:
    return f"{number} {thing}" + "s" * (number != 1)


def _seed(rows: Sequence[PassportReply]) -> str:
    if any("seed" in row.not_sent for row in rows if row.turn.startswith(SEEDED)):
        return "the endpoint refuses it"
    _, free = _same(rows, REPEAT, lambda row: row.raw)
    number, seeded = _same(rows, SEEDED, lambda row: row.raw)
    if number < TURNS:
        return "not measured: replies are missing"
    if seeded > 1:
        return f"no: {seeded} wordings in {number} replies with one seed"
    return "yes" if free > 1 else "cannot tell: replies are alike without one, too"


def _cached(replied: Sequence[PassportReply]) -> str:
    return f"{sum(row.tokens_cached > 0 for row in replied)} of {len(replied)} replies took tokens from a cache"


def _latency(seconds: Sequence[float]) -> str:
    if len(seconds) < 2:
        return "not measured: replies are missing"
    middle, most = number_words(median(seconds), 1), number_words(quantiles(seconds, n=10)[-1], 1)
    return f"{middle} in the middle, 9 in 10 within {most}"
