"""Trend of a scheduled evaluation: its scores over time, joined to earlier judges by bridges."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from math import hypot
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from tasks.errors import InputError
from tasks.history.queries import one_opening, query
from tasks.presentation import charts
from tasks.presentation.charts import GREY, WIDTH, Chart, Panel
from tasks.protocols import display_of
from tasks.protocols.display import Level
from tasks.records import RunStart
from tasks.statistics.intervals import CANNOT_TELL, CONTINUED
from tasks.text import number_words, one_line

LONGEST_NAME = 24
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
    protocol_key: str = ""
    dataset_key: str = ""
    baseline_score: float | None = None
    """Baseline of the nightly alarm; None: it is no night, or there is no baseline yet."""
    dropped: bool = False
    """True if a drop below the baseline is open."""
    joint: str | None = None
    """Words on the bridge, for the first point of another judge that it joins: both judges, and the offset added."""


COLUMNS = tuple(name for name in Point._fields if name != "joint")
"""Columns of the view `trend` that make a point."""


class Joint(NamedTuple):
    """A bridge of one candidate and dimension: a row of the table `bridges`."""

    bridge_id: str
    candidate: str
    dimension: str
    dataset_key: str
    old_judge: str
    new_judge: str
    old_protocol_key: str
    new_protocol_key: str
    shift: float
    ci_low: float
    ci_high: float
    highest: float
    decision: str

    @property
    def moves(self) -> bool:
        """True if the older scores are moved; a history that may be continued is left unchanged."""
        return self.decision != CONTINUED

    def words(self, decimals: int) -> str:
        """Name the offset added to the older scores, and the judge of their units; a chart shows the beginning."""
        old, new = (one_line(name, LONGEST_NAME) for name in (self.old_judge, self.new_judge))
        shift = f"{self.shift:+.{decimals}f} " if self.moves else ""
        return f"{shift}→ {new} ({old} {'in its units' if self.moves else 'as it is'})"


class _Units(NamedTuple):
    """Conversion of scores by one protocol into the units of the newest one."""

    rank: int
    """Number of bridges between the two."""
    shift: float = 0.0
    below: float = 0.0
    """Error of the shift downwards, and upwards."""
    above: float = 0.0
    joint: Joint | None = None
    """Bridge that leads on to the next judge."""


def joined(store: Path, flow: str, points: Iterable[Point]) -> list[Point]:
    """Return the points, after those of earlier judges as far as bridges lead, in the units of the newest judge.

    Args:
        points: of one evaluation's series, sorted by candidate and dimension, then by time.
    """
    given = [*points]
    joints = _joints_of(store, flow) if given else []
    series = (list(its) for _, its in groupby(given, key=lambda point: (point.candidate, point.dimension)))
    return [point for each in series for point in _joined_line(store, flow, each, joints)]


def _joints_of(store: Path, flow: str) -> list[Joint]:
    """Return the joints of a flow, the newest first; empty for a history without bridges."""
    sql = f"""SELECT {", ".join(Joint._fields)} FROM bridges WHERE flow = $1 AND decision <> $2 AND shift IS NOT NULL
        ORDER BY bridge_id DESC"""
    try:
        return [Joint(*row) for row in query(store, sql, values=(flow, CANNOT_TELL)).rows]
    except InputError:
        return []


def _joined_line(store: Path, flow: str, series: list[Point], joints: Sequence[Joint]) -> list[Point]:
    """Join one series, not empty and oldest first, as far as bridges reach from its newest point."""
    units = _reached(series[-1], joints)
    if len(units) == 1:
        return series
    before = _earlier(store, flow, series, [*units]) if _is_reached(series[0], series[-1], units) else ()
    line = _in_order([*before, *series], series[-1], units)
    moved = [_moved(point, units) if _is_reached(point, series[-1], units) else point for point in line]
    line = [moved[0], *(_met(one, other, series[-1], units) for one, other in pairwise(moved))]
    return line[-MOST_RUNS:]


def _reached(newest: Point, joints: Sequence[Joint]) -> dict[str, _Units]:
    """Return protocol key -> its units, for all protocols that bridges lead back to from the newest point."""
    about = (newest.candidate, newest.dimension, newest.dataset_key)
    due = [each for each in joints if (each.candidate, each.dimension, each.dataset_key) == about]
    found = {newest.protocol_key: _Units(0)}
    keys = [newest.protocol_key]
    for key in keys:  # the list grows meanwhile
        for each in due:
            if each.new_protocol_key == key and each.old_protocol_key not in found:
                found[each.old_protocol_key] = _through(each, found[key])
                keys.append(each.old_protocol_key)
    return found


def _through(joint: Joint, then: _Units) -> _Units:
    if not joint.moves:
        return then._replace(rank=then.rank + 1, joint=joint)
    return _Units(
        then.rank + 1,
        then.shift + joint.shift,
        hypot(then.below, joint.shift - joint.ci_low),
        hypot(then.above, joint.ci_high - joint.shift),
        joint,
    )


def _is_reached(point: Point, newest: Point, units: dict[str, _Units]) -> bool:
    return point.protocol_key in units and point.dataset_key == newest.dataset_key


def _earlier(store: Path, flow: str, series: Sequence[Point], keys: list[str]) -> list[Point]:
    """Return points of other series by these protocols, with the same subject and from before it, oldest first."""
    first, newest = series[0], series[-1]
    sql = f"""SELECT {", ".join(COLUMNS)} FROM trend WHERE flow = $1 AND candidate = $2 AND dimension = $3
        AND dataset_key = $4 AND list_contains($5, protocol_key) AND started_at < $6
        ORDER BY started_at DESC, run_id DESC LIMIT {MOST_RUNS}"""
    values = (flow, newest.candidate, newest.dimension, newest.dataset_key, keys, first.started_at)
    return [Point(*row) for row in reversed(query(store, sql, values=values).rows)]


def _in_order(line: Sequence[Point], newest: Point, units: dict[str, _Units]) -> list[Point]:
    """Return the line without points of a judge from after its successor began: the two would overlap."""
    kept: list[Point] = []
    rank = 0
    for point in reversed(line):
        if not _is_reached(point, newest, units):
            kept.append(point)
        elif (own := units[point.protocol_key].rank) >= rank:
            rank = own
            kept.append(point)
    return kept[::-1]


def _moved(point: Point, units: dict[str, _Units]) -> Point:
    """Convert a point to the newest judge's units; its interval includes the error of the offset."""
    own = units[point.protocol_key]
    if point.score is None or own.joint is None or not (own.shift or own.below or own.above):
        return point
    highest, score = own.joint.highest, point.score + own.shift
    low = None if point.ci_low is None else score - hypot(point.score - point.ci_low, own.below)
    high = None if point.ci_high is None else score + hypot(point.ci_high - point.score, own.above)
    inside = [None if each is None else min(max(each, 0.0), highest) for each in (score, low, high)]
    # Its baseline is left out: that is in its own judge's units.
    return point._replace(score=inside[0], ci_low=inside[1], ci_high=inside[2], baseline_score=None)


def _met(one: Point, other: Point, newest: Point, units: dict[str, _Units]) -> Point:
    """Return a point after another one: joined by a bridge, on the same line, or still broken."""
    if not (_is_reached(one, newest, units) and _is_reached(other, newest, units)):
        return other
    between = units[one.protocol_key]
    passed = between.rank > units[other.protocol_key].rank
    joint = between.joint.words(2 if between.joint.highest <= 10 else 1) if passed and between.joint else None
    return other._replace(break_reason=None, joint=joint)


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


class Scales(NamedTuple):
    """Scales that the panels of one evaluation share, so that the eye can compare them."""

    scores: tuple[float, float]
    """Lowest and highest score to be drawn, interval ends and the marked level among them."""
    times: tuple[datetime, datetime]
    """Times of the first and the last evaluation."""
    level: Level | None
    """Level marked by a line in each panel."""


@one_opening
def trend_points(store: Path, start: RunStart) -> list[Point]:
    """Return the last runs of the series that a run belongs to, oldest first, with its headline scores.

    Runs of earlier judges come before them, as far as bridges lead there.
    """
    sql = f"""SELECT {", ".join(COLUMNS)} FROM trend
        WHERE flow = $1 AND dataset = $2 AND judge = $3 AND prompt_set = $4 AND list_contains($5, candidate)
          AND list_contains($6, dimension)
        QUALIFY row_number() OVER (PARTITION BY candidate, dimension ORDER BY started_at DESC) <= {MOST_RUNS}
        ORDER BY candidate, max(dimension_position(run_id, dimension)) OVER (PARTITION BY candidate, dimension),
            dimension, started_at"""
    combined = display_of(start.flow).combined
    dimensions = [combined] if combined else list(start.dimensions)
    series = (start.flow, start.dataset, start.judge, start.prompt_set, list(start.candidates), dimensions)
    return joined(store, start.flow, [Point(*row) for row in query(store, sql, values=series).rows])


def series_of(points: Iterable[Point]) -> list[list[Point]]:
    """Return the series of at least two scored evaluations, a candidate and dimension each.

    An evaluation without a score is left out, and the next one takes over its break.

    Args:
        points: sorted by candidate and dimension, then by time.
    """
    found = [list(_scored(each)) for _, each in groupby(points, key=_place)]
    return [each for each in found if len(each) > 1]


def _place(point: Point) -> tuple[str, str]:
    return point.candidate, point.dimension


def _scored(points: Iterable[Point]) -> Iterator[Point]:
    """Yield the scored points, each with the reasons and joints of those left out before it."""
    reasons: list[str] = []
    joint: str | None = None
    for point in points:
        reasons += point.break_reason.split(", ") if point.break_reason else []
        joint = point.joint or joint
        if point.score is not None:
            yield point._replace(break_reason=", ".join(dict.fromkeys(reasons)) or None, joint=joint)
            reasons, joint = [], None


def breaks(series: Sequence[Point]) -> list[Point]:
    """Return the points before which a series breaks, in the order of time; each has the reason."""
    return [point for point in series[1:] if point.break_reason is not None]


def joints(series: Sequence[Point]) -> list[Point]:
    """Return the points at which a bridge, named in each, continues the line with another judge."""
    return [point for point in series[1:] if point.joint and point.break_reason is None]


def shared_scales(series: Sequence[Sequence[Point]], level: Level | None = None) -> Scales:
    """Return scales on which all points of these series, at least one, have room."""
    points = [point for each in series for point in each]
    ends = [end for point in points for end in _drawn_values(point) if end is not None]
    scores = [*ends, level.score] if level else ends
    times = [point.started_at for point in points]
    return Scales((min(scores), max(scores)), (min(times), max(times)), level)


def _drawn_values(point: Point) -> tuple[float | None, ...]:
    return point.score, point.ci_low, point.ci_high, point.baseline_score


def trend_chart(series: Sequence[Sequence[Point]], title: str = "", scales: Scales | None = None) -> Chart:
    """Return a chart with a panel for each of these series, which have at least two scored points each.

    Args:
        scales: scales of all panels shown together, if they are drawn as several charts.
    """
    names = [f"{each[0].candidate}: {each[0].dimension}" for each in series]
    strip = STEP * min(LEVELS, max(len(breaks(each)) + len(joints(each)) for each in series))
    panels = [
        Panel(name, _Drawing(each, scales or shared_scales(series), strip).marks(), HEIGHT + strip + BELOW)
        for name, each in zip(names, series, strict=True)
    ]
    words = " ".join(f"{one_line(name)}: {_in_words(each)}." for name, each in zip(names, series, strict=True))
    return charts.stacked(title, panels, LEFT, WIDTH + LEFT, f"{TITLE}. {words}")


def _in_words(series: Sequence[Point]) -> str:
    return "; ".join(f"{_turn(point) if at else ''}{_words(point)}" for at, point in enumerate(series))


def _turn(point: Point) -> str:
    if point.break_reason:
        return f"broken by another {one_line(point.break_reason)}, "
    return f"joined by a bridge, {one_line(point.joint)}, " if point.joint else ""


def _words(point: Point) -> str:
    ends = [number_words(end, 1) for end in (point.ci_low, point.ci_high) if end is not None]
    interval = f" [{', '.join(ends)}]" if ends else ""
    dropped = f" dropped from {number_words(point.baseline_score, 1)}" if point.dropped else ""
    return f"{point.started_at:%Y-%m-%d %H:%M} {number_words(point.score, 1)}{interval}{dropped}"


class _Drawing:
    """One series in a panel: labels of its breaks in a strip at the top, below them the scores over time."""

    def __init__(self, series: Sequence[Point], scales: Scales, strip: int) -> None:
        self._series, self._scales, self._strip = series, scales, strip
        self._ticks = charts.round_ticks(*scales.scores)

    def marks(self) -> Markup:
        """Return the axes and the marked level, then line and intervals of each part, and the breaks between them."""
        level = self._scales.level
        parts = self._parts()
        return charts.joined(
            [
                *self._axes(),
                *(self._level(level) if level else ()),
                *(mark for part in parts for mark in self._part(part)),
                *self._turns(),
            ]
        )

    def _x(self, moment: datetime) -> float:
        first, last = self._scales.times
        return 10 + (WIDTH - 20) * ((moment - first) / (last - first) if last > first else 0.5)

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
        first, last = self._scales.times
        form = "%Y-%m-%d" if last - first > timedelta(days=DATES) else "%m-%d %H:%M"
        for moment in (first + (last - first) * share / (DATES - 1) for share in range(DATES)):
            yield charts.text(self._x(moment), self._strip + HEIGHT + 17, f"{moment:{form}}", anchor="middle", size=12)

    def _level(self, level: Level) -> Iterator[Markup]:
        y = self._y(level.score)
        yield charts.rule(0, y, WIDTH, y, width=1.5)
        yield charts.text(WIDTH, y - 3, f"{level.name} {level.score:g}", anchor="end", size=12)

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

    def _turns(self) -> Iterator[Markup]:
        """Draw a dashed line at each break, and a dotted grey one at each bridge, with the reason on top."""
        number = 0
        for before, point in pairwise(self._series):
            reason = point.break_reason if point.break_reason is not None else point.joint
            if reason is None:
                continue
            x = (self._x(before.started_at) + self._x(point.started_at)) / 2
            y = STEP * (number % LEVELS)
            look = (GREY, 1, "2 2") if point.break_reason is None else (BREAK, 1, "5 4")
            yield charts.rule(x, y, x, self._strip + HEIGHT, *look)
            # The label goes to the side with more room.
            dx, anchor = (-4, "end") if x > WIDTH / 2 else (4, "start")
            words = f"{point.started_at:%Y-%m-%d} {reason}"
            yield charts.text(x + dx, y + 11, words, longest=LONGEST_REASON, anchor=anchor, size=12)
            number += 1
