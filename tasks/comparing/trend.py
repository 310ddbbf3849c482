"""Trend of a scheduled evaluation: its scores over time."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import NamedTuple

from markupsafe import Markup

from tasks.presentation import charts
from tasks.presentation.charts import GREY, WIDTH, Panel
from tasks.protocols.display import Level
from tasks.text import number_words, one_line

MOST_RUNS = 60
"""Most runs drawn of each series, the newest: more would be too close to distinguish."""


class Point(NamedTuple):
    """One evaluation in a series: a row of the view `trend`."""

    candidate: str
    dimension: str
    """`overall`, a dimension or a tag."""
    started_at: datetime
    """UTC."""
    run_id: str
    score: float | None
    """None: nothing was scored."""
    ci_low: float | None
    ci_high: float | None
    break_reason: str | None
    """Difference that forbids a comparison with the point before; None: there is none."""
    baseline_score: float | None = None
    """Baseline of the nightly alarm; None: it is no night, or there is no baseline yet."""
    dropped: bool = False
    """True if a drop below the baseline is open."""
    edited: bool | None = None
    """True if some questions differ from those of the point before."""


HEIGHT = 120
LEFT, BELOW = 40, 22
"""Pixels of the scores at the left of a panel, and of the times below it."""
LINE, BREAK = "#0072B2", "#D55E00"
"""Blue and vermilion of Okabe and Ito (2008); a break is dashed and labelled, too."""
TITLE = "Score over time (UTC), with its 95% interval"
LONGEST_REASON = 28
"""Letters of a reason, with its date, that half a panel has room for."""
STEP = 14
"""Pixels from the label of one break to that of the next, which may be close to it."""
LEVELS = 3
"""Lines of labels above the points."""
DATES = 4
"""Times named below a panel."""


def series_of(points: Iterable[Point]) -> list[list[Point]]:
    """Return the series of at least two scored evaluations, a candidate and dimension each.

    An evaluation without a score is left out, and the next one takes over its break.

    Args:
        points: sorted by candidate and dimension, then by time.
    """
    found = [list(_scored(each)) for _, each in groupby(points, key=lambda point: (point.candidate, point.dimension))]
    return [each for each in found if len(each) > 1]


def _scored(points: Iterable[Point]) -> Iterator[Point]:
    """Yield the scored points, each with the reasons of those left out before it."""
    reasons: list[str] = []
    for point in points:
        reasons += point.break_reason.split(", ") if point.break_reason else []
        if point.score is not None:
            yield point._replace(break_reason=", ".join(dict.fromkeys(reasons)) or None)
            reasons = []


def breaks(series: Sequence[Point]) -> list[Point]:
    """Return the points before which a series breaks, in the order of time; each has the reason."""
    return [point for point in series[1:] if point.break_reason is not None]


def trend_charts(series: Sequence[Sequence[Point]], level: Level | None = None) -> list[Markup]:
    """Return a chart for each of these series, which have at least two scored points each, for an HTML page.

    All have the same scales, so that the eye can compare them.

    Args:
        level: level that a line marks in each chart.
    """
    if not series:
        return []
    points = [point for each in series for point in each]
    drawn = [(point.score, point.ci_low, point.ci_high, point.baseline_score) for point in points]
    scores = [*(end for each in drawn for end in each if end is not None), *([level.score] if level else [])]
    ticks, times = charts.round_ticks(min(scores), max(scores)), [point.started_at for point in points]
    first, last = min(times), max(times)
    return [_Drawing(each, ticks, first, last, level).chart() for each in series]


def _words(point: Point) -> str:
    ends = [number_words(end, 1) for end in (point.ci_low, point.ci_high) if end is not None]
    interval = f" [{', '.join(ends)}]" if ends else ""
    dropped = f" dropped from {number_words(point.baseline_score, 1)}" if point.dropped else ""
    edited = " with edited questions" * bool(point.edited)
    return f"{point.started_at:%Y-%m-%d %H:%M} {number_words(point.score, 1)}{interval}{dropped}{edited}"


class _Drawing:
    """One series in a panel: labels of its breaks in a strip at the top, below them the scores over time."""

    def __init__(
        self, series: Sequence[Point], ticks: Sequence[float], first: datetime, last: datetime, level: Level | None
    ) -> None:
        """Begin a drawing of a series on these scales: ticks of scores, first and last time."""
        self._series, self._ticks, self._first, self._last, self._level = series, ticks, first, last, level
        self._strip = STEP * min(LEVELS, len(breaks(series)))

    def chart(self) -> Markup:
        """Return the axes and the marked level, then line and intervals of each part, and the breaks between them."""
        series = self._series
        parts = [mark for part in self._parts() for mark in self._part(part)]
        marks = charts.joined([*self._axes(), *self._level_line(), *parts, *self._breaks()])
        name = f"{series[0].candidate}: {series[0].dimension}"
        broken = {point: f"broken by another {one_line(point.break_reason or '')}, " for point in breaks(series)}
        words = "; ".join(broken.get(point, "") + _words(point) for point in series)
        panel = Panel(name, marks, self._strip + HEIGHT + BELOW)
        return charts.stacked("", [panel], LEFT, WIDTH + LEFT).on_page(f"{TITLE}. {one_line(name)}: {words}.")

    def _x(self, moment: datetime) -> float:
        reach = self._last - self._first
        return 10 + (WIDTH - 20) * ((moment - self._first) / reach if reach else 0.5)

    def _y(self, score: float) -> float:
        low, high = self._ticks[0], self._ticks[-1]
        return self._strip + HEIGHT * (high - score) / (high - low)

    def _places(self, points: Sequence[Point], name: str) -> list[tuple[float, float]]:
        """Return the pixels of a value of each point that has it."""
        values = ((point.started_at, getattr(point, name)) for point in points)
        return [(self._x(moment), self._y(value)) for moment, value in values if value is not None]

    def _axes(self) -> Iterator[Markup]:
        for tick in self._ticks:
            yield charts.rule(0, self._y(tick), WIDTH, self._y(tick), opacity=0.35)
            yield charts.text(-6, self._y(tick) + 4, f"{tick:g}", anchor="end")
        reach = self._last - self._first
        form = "%Y-%m-%d" if reach > timedelta(days=DATES) else "%m-%d %H:%M"
        for moment in (self._first + reach * share / (DATES - 1) for share in range(DATES)):
            yield charts.text(self._x(moment), self._strip + HEIGHT + 17, f"{moment:{form}}", anchor="middle", size=12)

    def _level_line(self) -> Iterator[Markup]:
        if self._level:
            y = self._y(self._level.score)
            yield charts.rule(0, y, WIDTH, y, width=1.5)
            yield charts.text(WIDTH, y - 3, f"{self._level.name} {self._level.score:g}", anchor="end", size=12)

    def _parts(self) -> list[list[Point]]:
        """Return the points that a line joins, in order: a break begins a new line."""
        parts: list[list[Point]] = []
        for point in self._series:
            if not parts or point.break_reason is not None:
                parts.append([])
            parts[-1].append(point)
        return parts

    def _part(self, points: Sequence[Point]) -> Iterator[Markup]:
        low, high = self._places(points, "ci_low"), self._places(points, "ci_high")
        if len(low) == len(high) > 1:
            yield charts.area([*low, *reversed(high)], LINE)
        yield from (charts.rule(*a, *b, LINE, opacity=0.6) for a, b in zip(low, high, strict=False))
        if len(baseline := self._places(points, "baseline_score")) > 1:
            yield charts.path(baseline, GREY, "2 3")
        yield charts.path(scores := self._places(points, "score"), LINE)
        for (x, y), point in zip(scores, points, strict=True):
            yield charts.dot(x, y, LINE, f"{_words(point)}, {one_line(point.run_id)}")
            if point.dropped:
                yield charts.text(x, y + 17, "▼", anchor="middle", color=BREAK)
            if point.edited:
                yield charts.text(x, y - 8, "edited", anchor="middle", size=12)

    def _breaks(self) -> Iterator[Markup]:
        """Draw a dashed line at each break, with the reason on top."""
        broken = [pair for pair in pairwise(self._series) if pair[1].break_reason is not None]
        for number, (before, point) in enumerate(broken):
            x = (self._x(before.started_at) + self._x(point.started_at)) / 2
            y = STEP * (number % LEVELS)
            yield charts.rule(x, y, x, self._strip + HEIGHT, BREAK, dash="5 4")
            # The label goes to the side with more room.
            dx, anchor = (-4, "end") if x > WIDTH / 2 else (4, "start")
            words = f"{point.started_at:%Y-%m-%d} {point.break_reason}"
            yield charts.text(x + dx, y + 11, words, longest=LONGEST_REASON, anchor=anchor, size=12)
