"""Lines of a passport: subject of the test, chance of guessing, pass mark, and flows that need it.

A mark is the highest that a good judge, right in `GOOD` of all items, misses in at most `MISSED` of its passports. A
line has so many items that guessing reaches that mark in less than 5%. `items` has the questions of a line, `card` the
measures of technical lines.
"""

from math import comb
from typing import NamedTuple

from tasks.parameters import FLOWS, PAIRWISE

EDITION = "1"
"""Version of pictures and questions: a new one changes the items of every seed."""
GOOD = 0.97
"""Share of items that a good judge answers rightly: it may slip."""
MISSED = 0.005
"""Largest share of passports in which a good judge may miss the mark of one line: of nine lines, at most 1 in 22."""

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
    flows: tuple[str, ...] = ()
    """Flows that need it."""
    items: int = 0
    """Number of questions that count; 0: a technical line, which measures all replies."""
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


TEXT, COUNTING, COLOR, POSITION, TWO, FIRST, BLANK, ORDER, FAINT = (
    *("text", "counting", "colors", "positions", "two_pictures", "which_is_first", "blank", "order", "faint"),
)
FORMAT, USAGE, REPEATS, SEED, CACHE, LIMITS, LATENCY = (
    *("reply_format", "usage", "repeats", "seed", "caching", "limits", "latency"),
)

_WORD = 1 / (len(CONSONANTS) * len(VOWELS)) ** SYLLABLES

LINES = (
    Line(TEXT, "reads small text", "labels are not read: faithfulness and readability are guessed", PAIRWISE, 8, _WORD),
    Line(COUNTING, "counts objects", "counts are guessed", ("counting",), 8, 1 / (MOST_COUNTED - LEAST_COUNTED + 1)),
    Line(COLOR, "tells colors", "colors of objects and of series are guessed", ("plot", "colors"), 12, 1 / len(COLORS)),
    Line(POSITION, "tells positions", "left and right, above and below are guessed", ("position",), 8, 1 / len(PLACES)),
    Line(TWO, "sees two pictures", "one figure of a pair is not seen", PAIRWISE, 8, 1 / comb(len(SHAPES), 2)),
    Line(FIRST, "tells which is first", "figures of a pair are taken for each other", PAIRWISE, 12, 1 / len(WHICH)),
    Line(BLANK, "recognizes blank pictures", "things are seen that are not there", FLOWS, 8, 1 / (len(SHAPES) + 1)),
    Line(ORDER, "reads shapes in order", "the order of boxes and bars is guessed", PAIRWISE, 6, 1 / 24),
    Line(FAINT, "sees faint faults", "small faults of a figure are not seen", PAIRWISE, 12, 1 / len(WHICH)),
    Line(FORMAT, "replies as asked", "replies cannot be read, and are asked for again and paid again", FLOWS),
    Line(USAGE, "reports its tokens", "the cost of a run is unknown"),
    Line(REPEATS, "repeats itself", ""),
    Line(SEED, "keeps to a seed", ""),
    Line(CACHE, "reads from a cache", ""),
    Line(LIMITS, "limits", ""),
    Line(LATENCY, "seconds a reply", ""),
)
"""All lines, in the order of the card."""
LINE = {line.name: line for line in LINES}


def needed(flow: str) -> tuple[Line, ...]:
    """Return the lines that a flow needs."""
    return tuple(line for line in LINES if flow in line.flows)
