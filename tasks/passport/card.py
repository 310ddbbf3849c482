"""Card of a passport: results of the replies to its items, line by line.

It decides which lines pass, fail or could not be measured. Technical lines measure the form of replies, right or
wrong. Nothing is made up: a question without a reply counts as wrong only if no reply could change the line's result.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import NamedTuple

from tasks.ledger.passports import CardLine, LineState, PassportReply
from tasks.passport import lines
from tasks.passport.items import Item
from tasks.passport.lines import LINES, Line
from tasks.records import LimitsFound
from tasks.text import number_words, one_line

LONGEST = 160
"""Longest text on a line, in characters."""
REPEAT, SEEDED = "repeat", "seed"
TURNS = 4
"""Number of times that one question is asked again without a seed, and as often with one."""
READABLE = 0.9
"""Least share of replies in the form asked for: a run asks again for the others, and pays for them again."""
LEAST_PICTURE_TOKENS = 30
"""Least number of tokens for a second picture. Every model takes more, so below it pictures are not counted."""


class _Found(NamedTuple):
    """Result of a technical line."""

    state: LineState
    words: str


def turns(kind: str) -> list[str]:
    """Return names for the turns in which one question is asked again."""
    return [f"{kind} {number}" for number in range(1, TURNS + 1)]


def card_lines(
    items: Sequence[Item], rows: Sequence[PassportReply], limits: LimitsFound | None = None
) -> tuple[CardLine, ...]:
    """Return all lines of a card, in their order."""
    counting = {(item.line, item.number) for item in items if item.counts}
    technical = _measured(rows, limits)
    found: list[CardLine] = []
    for line in LINES:
        if line.name in technical:
            state, words = technical[line.name]
            found.append(_line(line, state, words))
            continue
        asked = [row for row in rows if not row.turn and (row.line, row.item) in counting and row.line == line.name]
        words = smallest_words(items, rows) if line.name == lines.TEXT else ""
        found.append(_line(line, state_of(line, asked), "; ".join(filter(None, (words, _trouble(asked)))), asked))
    return tuple(found)


def state_of(line: Line, asked: Sequence[PassportReply]) -> LineState:
    """Return whether a line is passed or failed, or not measured if the missing replies could change that."""
    right = sum(row.right for row in asked)
    missing = line.items - len(asked) + sum(row.status == "unavailable" for row in asked)
    if right >= line.pass_mark:
        return "passed"
    return "not measured" if right + missing >= line.pass_mark else "failed"


def smallest_words(items: Sequence[Item], rows: Sequence[PassportReply]) -> str:
    """Name the smallest letters read: of that size, and of each larger one, at least half of the words."""
    right = {(row.line, row.item): row.right for row in rows if not row.turn}
    by_size: dict[int, list[bool]] = {}
    for item in items:
        if item.letters:
            by_size.setdefault(item.letters, []).append(right.get((item.line, item.number), False))
    smallest = 0
    for size in sorted(by_size, reverse=True):
        if sum(by_size[size]) * 2 < len(by_size[size]):
            break
        smallest = size
    return f"smallest letters read: {smallest} pixels" if smallest else "no letters were read"


def _line(line: Line, state: LineState, words: str, asked: Sequence[PassportReply] = ()) -> CardLine:
    return CardLine(
        line=line.name,
        title=line.title,
        state=state,
        items=line.items,
        right_answers=sum(row.right for row in asked),
        unanswered=sum(row.status == "unavailable" for row in asked),
        pass_mark=line.pass_mark if line.items else 0,
        chance=line.chance,
        guessing=line.guessing if line.items else 0.0,
        found=one_line(words, LONGEST),
        needed_by=line.flows,
    )


def _trouble(asked: Sequence[PassportReply]) -> str:
    """Describe the most frequent trouble with answers: one given again and again, or none at all."""
    wrong = [row for row in asked if not row.right]
    unread = [row for row in wrong if row.status != "ok"]
    if unread:
        status, number = Counter(row.status for row in unread).most_common(1)[0]
        return f"{number} {status}: {next(row.error for row in unread if row.status == status)}"
    given = Counter(str(row.answer) for row in asked if row.answer != "")
    answer, number = given.most_common(1)[0] if wrong and given else ("", 0)
    return f"answered {answer} {number} of {len(asked)} times" if number * 2 > len(asked) else ""


def _measured(rows: Sequence[PassportReply], limits: LimitsFound | None) -> dict[str, _Found]:
    """Return technical line -> its result, over all replies of a passport."""
    asked = [row for row in rows if not row.turn]
    came = [row for row in asked if row.status in ("ok", "invalid", "truncated")]
    return {
        lines.FORMAT: _format(came),
        lines.USAGE: _usage(came),
        lines.REPEATS: _Found("told", _repeats(rows, REPEAT)),
        lines.SEED: _Found("told", _seed(rows)),
        lines.CACHE: _Found("told", _cached([row for row in rows if row.status == "ok"])),
        lines.LIMITS: _Found("told", (limits.in_words() if limits else "") or "none was met"),
        lines.LATENCY: _Found("told", _latency([row.seconds for row in came])),
    }


def _format(came: Sequence[PassportReply]) -> _Found:
    if not came:
        return _Found("not measured", "no reply")
    readable = sum(row.status == "ok" for row in came)
    left_out = sorted({name for row in came for name in row.not_sent})
    words = f"{came[-1].rung}, {readable} of {len(came)} read"
    without = f"; without {', '.join(left_out)}" if left_out else ""
    return _Found("passed" if readable >= READABLE * len(came) else "failed", words + without)


def _usage(came: Sequence[PassportReply]) -> _Found:
    """Check that tokens are reported, those of pictures included: two questions differ by little but a picture."""
    if not came:
        return _Found("not measured", "no reply")
    if not all(row.tokens_in for row in came):
        return _Found(
            "failed",
            "tokens are not always reported" if any(row.tokens_in for row in came) else "no tokens are reported",
        )
    one, two = ([row.tokens_in for row in came if row.line == line] for line in (lines.BLANK, lines.TWO))
    if not (one and two):
        return _Found("not measured", "too few replies")
    more = round(median(two) - median(one))
    if more < LEAST_PICTURE_TOKENS:
        return _Found("failed", "pictures are not counted")
    return _Found("passed", f"about {more:,} for a picture of 480 x 320 pixels")


def _same(rows: Sequence[PassportReply], kind: str, of: Callable[[PassportReply], object]) -> tuple[int, int]:
    """Count the replies of a kind of turn, and the different ones among them."""
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
