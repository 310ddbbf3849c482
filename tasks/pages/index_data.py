"""What stands on the index of a store: every flow and candidate as it is now, and every evaluation in a line.

Owns which flows and candidates stand above, with their open alarms. What the line of an evaluation says is for
`index_lines`, what lies behind the newest for `index_trends`, how it looks for `index_page`.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.comparing.alarms import Alarm, alarms
from tasks.comparing.moved_judges import MovedJudge, moved_judges
from tasks.history.asking import held_together
from tasks.pages.index_lines import Line, lines_of
from tasks.pages.index_trends import Past, Trends
from tasks.pages.queries import ask

MOST_PLACES = 200
"""Flows and candidates shown as they are now; the table has the others."""


class Place(NamedTuple):
    """A flow and a candidate (and tag) as its newest evaluation has it."""

    newest: Line
    past: Past
    alarms: list[str]
    """What is open, in sentences."""


class Index(NamedTuple):
    """All of it."""

    places: list[Place]
    lines: list[Line]
    """The newest first."""
    shown: int
    """Evaluations that they are of."""
    evaluations: int
    """In the history."""


def gather_index(store: Path) -> Index:
    """The index of a store, from its history as it is now.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: there is no history, or it cannot be asked.
    """
    with held_together(store):
        found = ask(store, "index_evaluations").rows
        if not found:
            return Index([], [], 0, 0)
        lines = lines_of(store, found)
        trends = Trends(store, found[-1]["started_at"], lines)
        return Index(_places(store, lines, trends), lines, len(found), found[0]["total"])


def _places(store: Path, lines: Iterable[Line], trends: Trends) -> list[Place]:
    """The newest line of every flow, candidate and tag, by flow, the best first."""
    newest: dict[tuple[str, str], Line] = {}
    for line in lines:
        newest.setdefault((line.flow, line.name), line)
    open_ones = [*_open(store)]
    found = [Place(each, trends.past(each), _said(each, open_ones)) for each in [*newest.values()][:MOST_PLACES]]
    return sorted(found, key=lambda place: (place.newest.flow, -(place.newest.value or 0), place.newest.name))


def _said(newest: Line, open_ones: Sequence[Alarm | MovedJudge]) -> list[str]:
    return [each.short for each in open_ones if each.flow == newest.flow and each.candidate in ("", newest.candidate)]


def _open(store: Path) -> Iterator[Alarm | MovedJudge]:
    """Open alarms of scores, and of judges, which concern all candidates."""
    yield from (each for each in alarms(store) if each.is_open)
    yield from moved_judges(store)
