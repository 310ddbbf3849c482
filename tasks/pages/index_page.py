"""The index of a store as one HTML page: every flow and candidate as it is now, and a table of all evaluations."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from tasks.comparing.trend import Point
from tasks.comparing.wording import in_brief
from tasks.pages.index_data import Index, Line, Place
from tasks.pages.page import SITE_STYLE, rendered, stamp
from tasks.pages.page_names import page_name
from tasks.pages.queries import corrected_words, people_in_brief
from tasks.presentation.wording import Scored, coverage_words, interval_words, score_words, worst_case_words
from tasks.protocols import display_of
from tasks.text import bounded, money, number_words, one_line

LONGEST_NAME = 60
"""Longest name shown, in characters; the evaluation's page has a longer one whole."""
LONGEST_ALARM = 400
FIRST = 300
"""Number of evaluations that the table lays out at once; a button shows the others, and search finds them."""
LONGEST_REASON = 200
MOST_MARKS = 3
"""Most gaps listed for a trend, the newest; the page of an evaluation has all."""
WIDTH, HEIGHT, EDGE = 240, 48, 5
"""Size of a trend in units of its SVG, and distance of the outermost points from its edges."""
COLUMNS = (
    *("begun (UTC)", "flow", "candidate", "score", "95% interval", "corrected by people", "scored", "judge"),
    *("judge status", "price"),
)


def index_page(index: Index, pages: Collection[str]) -> str:
    """Return the index as HTML.

    Args:
        pages: names of the files beside the page.
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
        [SITE_STYLE, "index.css"],
    )


def _cells(line: Line, pages: Collection[str]) -> dict[str, Any]:
    """Return a line of the table for the template; `numbers` maps a place in `words` to a sort key."""
    name = page_name(line.run_id)
    corrected = line.people["corrected"] if line.people else None
    return {
        "run_id": line.run_id,
        "page": quote(name) if name in pages else "",
        # Identifies one of the evaluation's candidates in a command, where it is short enough for one.
        "candidate": line.candidate if len(line.candidate) <= LONGEST_NAME else "",
        "when": f"{line.started_at:%Y-%m-%d %H:%M}",
        "words": tuple(_words(line)),
        "numbers": {2: _sorted_by(line.value), 4: _sorted_by(corrected), 8: _sorted_by(line.price)},
    }


def _words(line: Line) -> Iterator[str]:
    yield from (line.flow, one_line(line.name, LONGEST_NAME))
    score = line.score
    yield from (score_words(score), interval_words(score)) if score else ("–", "")
    yield corrected_words(line.people) if line.people else ""
    yield _scored(score) if score else ""
    yield from (one_line(line.judge, LONGEST_NAME), line.status, money(line.price))


def _scored(score: Scored) -> str:
    return coverage_words(score) + (" incomplete" if score.scored < score.n else "")


def _sorted_by(value: float | None) -> str:
    return "-1" if value is None else f"{value:.6g}"


def _tile(place: Place, pages: Collection[str]) -> dict[str, Any]:
    """Return a flow and a candidate as it is now, for the template."""
    line = place.newest
    score = line.score
    return {
        "cells": _cells(line, pages),
        "flow": line.flow,
        "name": one_line(line.name, LONGEST_NAME),
        "score": score_words(score) if score else "nothing scored",
        "scale": display_of(line.flow).scale if score else "",
        "interval": interval_words(score) if score else "",
        "worst": worst_case_words(score) if score else "",
        "people": one_line(people_in_brief(line.people), LONGEST_ALARM) if line.people else "",
        "scored": _scored(score) if score else "",
        "change": _change(place),
        "judge": one_line(line.judge, LONGEST_NAME),
        "status": line.status,
        "price": money(line.price),
        "alarms": [one_line(words, LONGEST_ALARM) for words in place.alarms],
        "trend": sparkline(place.trend),
        "evaluations": len(place.trend),
        "marks": _marks(place.trend),
    }


def _change(place: Place) -> str:
    """Describe the change of the newest score since the last comparable one, or the reason why there is none."""
    line, change = place.newest, place.change
    if line.stopped:
        return "stopped at the budget"
    if not line.measured:
        return "it measured nothing new"
    if change:
        return f"since {change.since.started_at:%Y-%m-%d %H:%M}: {in_brief(change.found, line.flow)}"
    differs = f"; the last one differs in {one_line(place.otherwise, LONGEST_REASON)}" if place.otherwise else ""
    return f"no earlier evaluation compares{differs}"


def _marks(trend: Sequence[Point]) -> list[str]:
    """Describe the breaks of a trend, the newest first."""
    found = [
        f"gap before {point.started_at:%Y-%m-%d}: {one_line(point.break_reason, LONGEST_REASON)}"
        for point in reversed(trend[1:])
        if point.break_reason
    ]
    return bounded(found[:MOST_MARKS], len(found))


def sparkline(points: Sequence[Point]) -> Markup:
    """Draw a trend as a small line of SVG without axes; empty if it has fewer than two points.

    Args:
        points: scored ones, oldest first. The line has a gap where evaluations do not compare.
    """
    if len(points) < 2:
        return Markup("")
    places = _places(points)
    x, y = places[-1]
    body = f'{_strokes(_broken(points), places)}{_line(points, places)}<path class="dot" d="M{x} {y}h0"/>'
    words = escape(_trend_words(points))
    shape = f'class="sparkline" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"'
    return Markup(f'<svg role="img" aria-label="{words}" {shape}><title>{words}</title>{body}</svg>')


def _places(points: Sequence[Point]) -> list[tuple[float, float]]:
    scores = [point.score or 0.0 for point in points]
    low, reach = min(scores), (max(scores) - min(scores)) or 1.0
    step = (WIDTH - 2 * EDGE) / (len(points) - 1)
    return [
        (round(EDGE + at * step, 1), round(HEIGHT - EDGE - (score - low) / reach * (HEIGHT - 2 * EDGE), 1))
        for at, score in enumerate(scores)
    ]


def _broken(points: Sequence[Point]) -> list[int]:
    """Return the places of the points that do not compare with the one before."""
    return [at for at, point in enumerate(points) if at and point.break_reason]


def _line(points: Sequence[Point], places: Sequence[tuple[float, float]]) -> str:
    """Draw a path through the points, interrupted where a series breaks."""
    begins = {0, *_broken(points)}
    steps = [f"{'M' if at in begins else 'L'}{x} {y}" for at, (x, y) in enumerate(places)]
    return f'<path class="line" d="{" ".join(steps)}"/>'


def _strokes(at: Sequence[int], places: Sequence[tuple[float, float]]) -> str:
    """Draw a line across the drawing before each of these points."""
    middles = [round((places[each - 1][0] + places[each][0]) / 2, 1) for each in at]
    return "".join(f'<path class="break" d="M{x} 0 V{HEIGHT}"/>' for x in middles)


def _trend_words(points: Sequence[Point]) -> str:
    """Describe the line for readers who cannot see it."""
    first, last = points[0], points[-1]
    broken = len(_broken(points))
    ends = " to ".join(f"{number_words(each.score, 1)} on {each.started_at:%Y-%m-%d}" for each in (first, last))
    breaks = f", broken {broken} time{'s' * (broken > 1)}, where evaluations do not compare" if broken else ""
    return f"{len(points)} evaluations: {ends}{breaks}"
