"""The index of a store as one HTML page: every flow and candidate as it is now, and a table of all evaluations.

Owns the words of its cells and the bounds on texts; what stands on it is for `index_data`, that it is safe for
`self_contained`. It leads to the pages of evaluations that lie beside it, and to nothing else.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from tasks.comparing.points import Point
from tasks.comparing.wording import in_brief
from tasks.kinds import kind_of
from tasks.pages.index_data import Index, Place
from tasks.pages.index_lines import Line
from tasks.pages.page_names import page_name
from tasks.pages.people_words import corrected_words, people_in_brief
from tasks.pages.self_contained import rendered, stamp
from tasks.pages.sparkline import sparkline
from tasks.presentation.wording import coverage_words, interval_words, score_words, worst_case_words
from tasks.spending.money import money
from tasks.text import bounded, one_line

LONGEST_NAME = 60
"""Characters of a name; what is longer is no name, and its page has it whole."""
LONGEST_ALARM = 400
FIRST = 300
"""Evaluations of the table that are laid out at once; a button shows the others, and search finds them."""
LONGEST_REASON = 200
MOST_MARKS = 3
"""Gaps and bridges of a trend that are told, the newest; the page of an evaluation has all."""
COLUMNS = (
    *("begun (UTC)", "flow", "candidate", "score", "95% interval", "corrected by people", "scored", "judge"),
    *("judge status", "price"),
)


class Cells(NamedTuple):
    """A line of the table."""

    run_id: str
    page: str
    """Address of its page beside the index; empty: there is none."""
    candidate: str
    """What tells it from others of the same evaluation, for a command; empty where it is too long for one."""
    when: str
    words: tuple[str, ...]
    """The cells after the first."""
    numbers: tuple[str, ...]
    """What these are sorted by where that is not the words themselves."""


class Tile(NamedTuple):
    """A flow and a candidate as it is now."""

    cells: Cells
    flow: str
    name: str
    score: str
    scale: str
    """Where the score stands, in a few words; empty: nothing was scored."""
    interval: str
    worst: str
    people: str
    scored: str
    change: str
    judge: str
    status: str
    price: str
    alarms: list[str]
    trend: Markup
    evaluations: int
    """Of the trend."""
    marks: list[str]
    """What breaks and what joins it, in sentences."""


def index_page(index: Index, pages: Collection[str]) -> str:
    """The index as HTML.

    Args:
        pages: names of the files that lie beside it.
    """
    return rendered(
        "index.html.j2",
        "index.js",
        {
            "shows": stamp(),
            "tiles": [_tile(place, pages) for place in index.places],
            "lines": [_cells(line, pages) for line in index.lines],
            "columns": COLUMNS,
            "first": FIRST,
            "flows": sorted({line.flow for line in index.lines}),
            "shown": index.shown,
            "evaluations": index.evaluations,
        },
    )


def _cells(line: Line, pages: Collection[str]) -> Cells:
    name = page_name(line.run_id)
    return Cells(
        run_id=line.run_id,
        page=quote(name) if name in pages else "",
        candidate=line.candidate if len(line.candidate) <= LONGEST_NAME else "",
        when=f"{line.started_at:%Y-%m-%d %H:%M}",
        words=tuple(_words(line)),
        numbers=("", "", _sorted_by(line.value), "", _sorted_by(_corrected(line)), "", "", "", _sorted_by(line.price)),
    )


def _words(line: Line) -> Iterator[str]:
    yield from (line.flow, one_line(line.name, LONGEST_NAME))
    score = line.score
    yield from (score_words(score), interval_words(score)) if score else ("–", "")
    yield corrected_words(line.people) if line.people else ""
    yield coverage_words(score) if score else ""
    yield from (one_line(line.judge, LONGEST_NAME), line.status, money(line.price))


def _corrected(line: Line) -> float | None:
    return line.people["corrected"] if line.people else None


def _sorted_by(value: float | None) -> str:
    return "-1" if value is None else f"{value:.6g}"


def _tile(place: Place, pages: Collection[str]) -> Tile:
    line = place.newest
    score = line.score
    return Tile(
        cells=_cells(line, pages),
        flow=line.flow,
        name=one_line(line.name, LONGEST_NAME),
        score=score_words(score) if score else "nothing scored",
        scale=kind_of(line.flow).display.scale if score else "",
        interval=interval_words(score) if score else "",
        worst=worst_case_words(score) if score else "",
        people=one_line(people_in_brief(line.people), LONGEST_ALARM) if line.people else "",
        scored=coverage_words(score) if score else "",
        change=_change(place),
        judge=one_line(line.judge, LONGEST_NAME),
        status=line.status,
        price=money(line.price),
        alarms=[one_line(words, LONGEST_ALARM) for words in place.alarms],
        trend=sparkline(place.past.trend),
        evaluations=len(place.past.trend),
        marks=_marks(place.past.trend),
    )


def _change(place: Place) -> str:
    """What became of the newest score since the last one that compares, or why none does."""
    line, past = place.newest, place.past
    if line.stopped:
        return "stopped at the budget"
    if not line.measured:
        return "nothing was measured anew"
    if past.change:
        return f"since {past.change.since.started_at:%Y-%m-%d %H:%M}: {in_brief(past.change.found, line.flow)}"
    differs = f"; the last one differs in {one_line(past.otherwise, LONGEST_REASON)}" if past.otherwise else ""
    return f"no earlier evaluation compares{differs}"


def _marks(trend: Sequence[Point]) -> list[str]:
    """What breaks a trend and what joins it, the newest first."""
    found = [_mark(point) for point in reversed(trend[1:]) if point.break_reason or point.joint]
    return bounded(found[:MOST_MARKS], len(found))


def _mark(point: Point) -> str:
    if point.break_reason:
        return f"gap before {point.started_at:%Y-%m-%d}: {one_line(point.break_reason, LONGEST_REASON)}"
    return f"joined by a bridge on {point.started_at:%Y-%m-%d}: {one_line(point.joint or '', LONGEST_REASON)}"
