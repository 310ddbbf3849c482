"""Lines of a passport: subject, chance of guessing and pass mark of each test, and the card in words."""

import shlex
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from math import comb
from pathlib import Path
from typing import NamedTuple

from tasks.ledger.passports import Card, CardLine, newest_card
from tasks.presentation.tables import Grid
from tasks.records.judge import Judge
from tasks.records.parameters import CHECKLIST, DEFAULT_STORE, FLOWS, PAIRWISE, default_store
from tasks.text import one_line

EDITION = "1"
"""Version of pictures and questions: a new one changes the items of every seed."""
GOOD = 0.97
"""Share of items that a good judge answers rightly: it may slip."""
MISSED = 0.005
"""Largest share of passports in which a good judge may miss the mark of one line: of ten lines, at most 1 in 20."""

SHAPES = ("ball", "ring", "star", "heart", "cross", "moon", "box", "diamond", "arrow", "house")
"""Shapes that are shown, which a judge can hardly confuse."""
COLORS = {"red": "#dc423e", "green": "#26a03e", "blue": "#3a74ec", "purple": "#9250bc", "gray": "#707070"}
"""Colors as bright as each other (112 of 255 in gray), so that brightness does not give them away."""
ASKED_COLORS = ("red", "green", "blue", "purple")
"""Colors asked for, each so often that a judge that confuses two fails; without their color they are gray."""
PLACES = ("left", "right", "above", "below")
MOST_COUNTED, LEAST_COUNTED = 7, 2
"""Most and fewest objects to count in one picture."""
WHICH = ("first", "second", "both", "neither")
"""Pictures of a pair that show something: with only the first and the second to choose from, half would be guessed."""
NOTHING = "nothing"
CONSONANTS, VOWELS, SYLLABLES = "bdfgkmnprstvz", "aeou", 3
"""Letters and number of syllables of the words to read: they mean nothing, so that only the letters identify them."""


class Line(NamedTuple):
    """One thing that a passport tests."""

    name: str
    title: str
    """Ability of a judge that passes."""
    without: str
    """Consequence for a flow if the line failed."""
    flows: tuple[str, ...]
    """Flows that need it."""
    items: int = 0
    """Number of questions that count; 0: the line measures all replies."""
    chance: float = 0.0
    """Share of items that are right by guessing."""

    @property
    def pass_mark(self) -> int:
        """Number of right answers from which on the line is passed."""
        return next(
            (mark for mark in range(self.items, 0, -1) if at_least(mark, self.items, GOOD) >= 1 - MISSED), self.items
        )

    @property
    def guessing(self) -> float:
        """Share of guessing judges that pass."""
        return at_least(self.pass_mark, self.items, self.chance)


def at_least(mark: int, items: int, share: float) -> float:
    """Return the chance of at least `mark` right answers, if each is right independently with this share."""
    return sum(comb(items, right) * share**right * (1 - share) ** (items - right) for right in range(mark, items + 1))


TEXT, COUNTING, COLOR, POSITION, TWO, FIRST, BLANK, ORDER, FAINT, YES_NO = (
    *("text", "counting", "colors", "positions", "two_pictures", "which_is_first", "blank", "order", "faint", "yes_no"),
)
FORMAT = "reply_format"

_COUNTS = MOST_COUNTED - LEAST_COUNTED + 1
_COLORED, _PLACED = ("plot", "colors", *CHECKLIST), ("position", *CHECKLIST)
_WORD = 1 / (len(CONSONANTS) * len(VOWELS)) ** SYLLABLES

LINES = (
    Line(TEXT, "reads small text", "labels are not read: faithfulness and readability are guessed", PAIRWISE, 8, _WORD),
    Line(COUNTING, "counts objects", "counts are guessed", ("counting", *CHECKLIST), 8, 1 / _COUNTS),
    Line(COLOR, "tells colors", "colors of objects and of series are guessed", _COLORED, 12, 1 / len(COLORS)),
    Line(POSITION, "tells positions", "left and right, above and below are guessed", _PLACED, 8, 1 / len(PLACES)),
    Line(TWO, "sees two pictures", "one figure of a pair is not seen", PAIRWISE, 8, 1 / comb(len(SHAPES), 2)),
    Line(FIRST, "tells which is first", "figures of a pair are taken for each other", PAIRWISE, 12, 1 / len(WHICH)),
    Line(BLANK, "recognizes blank pictures", "things are seen that are not there", FLOWS, 8, 1 / (len(SHAPES) + 1)),
    Line(ORDER, "reads shapes in order", "the order of boxes and bars is guessed", PAIRWISE, 6, 1 / 24),
    Line(FAINT, "sees faint faults", "small faults of a figure are not seen", PAIRWISE, 12, 1 / len(WHICH)),
    Line(YES_NO, "tells yes from no", "answers lean to yes or to no, and scores with them", CHECKLIST, 20, 1 / 2),
    Line(FORMAT, "replies as asked", "replies cannot be read, and are asked for again and paid again", FLOWS),
)
"""All lines, in the order of the card."""
LINE = {line.name: line for line in LINES}


def needed(flow: str) -> tuple[Line, ...]:
    """Return the lines that a flow needs."""
    return tuple(line for line in LINES if flow in line.flows)


STALE_DAYS = 30
"""Age from which on a passport shows little: the model behind a name changes."""
MATCHED = "It is the judge's by name and address: with another effort or detail it may see otherwise."
_MARKS = {"passed": "✓ passed", "failed": "✗ FAILED", "not measured": "? not measured"}


def card_grid(card: Card) -> Grid:
    """Tabulate the lines that have a pass mark, with the chance of passing by guesses."""
    header = ["", "right", "passes\nfrom", "guessing\npasses", "result"]
    shown = [line for line in card.lines if line.items]
    return Grid(header, [[line.title, *_figures(line), _MARKS[line.state]] for line in shown])


def _figures(line: CardLine) -> list[str]:
    guessing = "< 0.01%" if line.guessing < 0.0001 else f"{line.guessing:.2%}"
    return [f"{line.right_answers}/{line.items}", str(line.pass_mark), guessing]


def format_lines(card: Card) -> list[str]:
    """Describe the form of the replies."""
    return [f"{line.title}: {line.found} ({_MARKS[line.state]})" for line in card.lines if line.line == FORMAT]


def meaning_lines(card: Card) -> Iterator[str]:
    """Describe the consequences of the failed lines."""
    for line in card.failed():
        flows = "all flows" if len(line.needed_by) == len(FLOWS) else ", ".join(line.needed_by)
        without = LINE[line.line].without if line.line in LINE else ""
        yield f"{_MARKS[line.state]}: {line.title}{_why(line)}. For {flows}: {without}."


def _why(line: CardLine) -> str:
    """Return the findings on a line of items; those on the form of replies are shown above already."""
    missing = f"{line.unanswered} of {line.items} unanswered" if line.unanswered else ""
    words = "; ".join(filter(None, (missing, line.found if line.items else "")))
    return f" ({words})" if words else ""


def summary_line(card: Card) -> str:
    """Describe the card in one sentence."""
    failed = card.failed()
    words = f"; not passed: {_titles(failed)}" if failed else ""
    passed = f"{len(card.lines) - len(failed)} of {len(card.lines)} lines passed"
    return f"Passport of {one_line(card.judge)}, {_day(card)}: {passed}{words}. {MATCHED}"


def warning(
    store: Path,
    flow: str,
    judge: Judge,
    asked_store: str = DEFAULT_STORE,
    answered: Collection[str] = (),
    now: datetime | None = None,
) -> str:
    """Return the warning of a run without a good passport of its judge for the needs of the flow; else empty.

    Args:
        answered: names of the models that answered the run.
        asked_store: store as the run names it, for the command in the warning.
    """
    who, make = f"the judge {one_line(judge.model)}", f"`{_command(judge, asked_store)}`"
    card = newest_card(store, judge.model, judge.base_url)
    if card is None:
        return f"nobody has tested what {who} sees and keeps to: {make} does, with a few drawn pictures"
    if card.judge_answered and (others := sorted({*answered} - {*card.judge_answered.split(", ")})):
        models = f"{one_line(', '.join(others))} answers as {who}, whose passport of {_day(card)} is that of"
        return f"{models} {one_line(card.judge_answered)}: {make} makes a new one"
    failed = {line.line for line in card.failed()}
    if wanting := [line for line in needed(flow) if line.name in failed]:
        lacks = f"{who} does not do what this flow needs ({_titles(wanting)})"
        return f"by its passport of {_day(card)} {lacks}: {make} tests it again"
    days = ((now or datetime.now(UTC)) - datetime.fromisoformat(card.finished_at)).days
    old = f"the passport of {who} is {days} days old, and judges change behind their names: {make} makes a new one"
    return old if days > STALE_DAYS else ""


def _command(judge: Judge, store: str) -> str:
    options = {"--judge.model": judge.model, "--judge.base-url": judge.base_url}
    options |= {"--judge.api-key-env": judge.api_key_env} if judge.api_key_env else {}
    options |= {"--store": store} if store not in (DEFAULT_STORE, default_store()) else {}
    return " ".join(["jury judge exam", *(f"{name} {shlex.quote(value)}" for name, value in options.items())])


def _titles(found: Sequence[CardLine | Line]) -> str:
    return ", ".join(line.title for line in found)


def _day(card: Card) -> str:
    return card.finished_at[:10]
