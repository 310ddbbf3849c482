"""Points of trends, and those of earlier judges that bridges join to them, in the units of the newest judge.

A bridge joins only points with its own flow, candidate, dimension, dataset key and protocol keys.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby, pairwise
from math import hypot
from pathlib import Path
from typing import NamedTuple

from tasks.errors import InputError
from tasks.history.asking import query
from tasks.statistics.offsets import CANNOT_TELL, CONTINUED
from tasks.text import one_line

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
