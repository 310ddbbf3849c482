"""The card of a passport: what the replies to its items come to, line by line.

Owns what passes, fails or could not be measured. Nothing is made up: a question to which no reply came counts as wrong
only where the line fails, or passes, whatever the reply would have been.
"""

from collections import Counter
from collections.abc import Sequence

from tasks.ledger.passports import CardLine, LineState, PassportReply
from tasks.passport import lines
from tasks.passport.items import Item
from tasks.passport.lines import LINES, Line
from tasks.passport.technical import measured
from tasks.records import LimitsFound
from tasks.text import one_line

LONGEST = 160
"""Most characters of what is told of a line."""


def card_lines(
    items: Sequence[Item], rows: Sequence[PassportReply], limits: LimitsFound | None = None
) -> tuple[CardLine, ...]:
    """All lines of a card, in their order."""
    counting = {(item.line, item.number) for item in items if item.counts}
    technical = measured(rows, limits)
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
    """Whether a line is passed, where the replies that are missing cannot change that."""
    right = sum(row.right for row in asked)
    missing = line.items - len(asked) + sum(row.status == "unavailable" for row in asked)
    if right >= line.pass_mark:
        return "passed"
    return "not measured" if right + missing >= line.pass_mark else "failed"


def smallest_words(items: Sequence[Item], rows: Sequence[PassportReply]) -> str:
    """The smallest letters read: of that size, and of each larger one, half of the words at least."""
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
    """What stands out among wrong answers: one that is given again and again, or no answer at all."""
    wrong = [row for row in asked if not row.right]
    unread = [row for row in wrong if row.status != "ok"]
    if unread:
        status, number = Counter(row.status for row in unread).most_common(1)[0]
        return f"{number} {status}: {next(row.error for row in unread if row.status == status)}"
    given = Counter(str(row.answer) for row in asked if row.answer != "")
    answer, number = given.most_common(1)[0] if wrong and given else ("", 0)
    return f"answered {answer} {number} of {len(asked)} times" if number * 2 > len(asked) else ""
