"""What became of a flow and candidate over time, as the index shows it: its trend, and the change since the last
evaluation that compares.

Owns which evaluations are a trend's, why it breaks and which bridges join it, and what the newest is compared with; all
of it from the lines of the index and a few questions more. The words are for `index_page`, statistics for `comparing`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tasks.comparing.compare import series_of
from tasks.comparing.joints import joined_line, joints_of
from tasks.comparing.points import MOST_RUNS, Point
from tasks.kinds.series import Series, paired
from tasks.ledger.protocol_keys import PROMPT, protocol_differences
from tasks.pages.index_lines import Line
from tasks.pages.queries import ask
from tasks.statistics.paired import Difference
from tasks.text import one_line

LONGEST_VALUE = 40
KEPT_SERIES = 8
"""Sides of comparisons kept in memory: those of one evaluation's tags are the same."""


class Change(NamedTuple):
    """The newest evaluation of a flow and candidate against the last before it that compares."""

    since: Line
    found: Difference
    """Sample by sample (prompt by prompt)."""


class Past(NamedTuple):
    """What lies behind a line of the index."""

    trend: list[Point]
    """The scored evaluations of its series that measured anything, oldest first, with what bridges join to it."""
    change: Change | None
    """None: no evaluation before it compares with it, or it measured nothing itself."""
    otherwise: str
    """In what the last one before it differs where none compares; empty: there is none at all, or one compares."""


class Trends:
    """The lines of an index in the order of time, by what they are of.

    Args:
        lines: newest first.
    """

    def __init__(self, store: Path, since: str, lines: Iterable[Line]) -> None:
        self._store = store
        self._protocols = {
            row["protocol_key"]: row["protocol"] for row in ask(store, "index_protocols", since=since).rows
        }
        self._series: defaultdict[tuple[str, ...], list[Line]] = defaultdict(list)
        self._by_name: defaultdict[tuple[str, ...], list[Line]] = defaultdict(list)
        for line in lines:
            if line.measured and line.value is not None:
                self._series[*line.series, line.name].append(line)
                self._by_name[line.flow, line.name].append(line)
        self._joints = lru_cache(maxsize=None)(partial(joints_of, store))
        self._outcomes = lru_cache(maxsize=KEPT_SERIES)(partial(series_of, store))

    def past(self, newest: Line) -> Past:
        """What lies behind the newest line of a flow and candidate.

        Raises:
            HistoryLocked: the history stayed in use.
        """
        its = self._series[*newest.series, newest.name]
        line = (
            joined_line([*self._points(its)], self._joints(newest.flow), partial(self._earlier, newest)) if its else []
        )
        change = self._change(newest)
        return Past(line[-MOST_RUNS:], change, "" if change else self._otherwise(newest))

    def _points(self, newest_first: Sequence[Line]) -> Iterator[Point]:
        """The lines of a series as points, oldest first."""
        lines = newest_first[::-1]
        yield from (_point(each, None) for each in lines[:1])
        yield from (_point(other, self._reason(one, other)) for one, other in pairwise(lines))

    def _earlier(self, newest: Line, series: Sequence[Point], keys: Collection[str]) -> list[Point]:
        """Points that a bridge leads to, of the other series of the same name."""
        found = [
            each
            for each in self._by_name[newest.flow, newest.name]
            if each.keys[0] == newest.keys[0] and each.keys[1] in keys and each.started_at < series[0].started_at
        ]
        return [_point(each, None) for each in reversed(found[:MOST_RUNS])]

    def _reason(self, one: Line, other: Line) -> str | None:
        """Why two evaluations do not compare; None: they do."""
        if one.keys == other.keys:
            return None
        names = ["dataset"] * (one.keys[0] != other.keys[0])
        before, after = (self._protocols.get(each.keys[1], {}) for each in (one, other))
        names += [_in_words(name, before, after) for name in protocol_differences(before, after)]
        return ", ".join(names) or "protocols of its shards"

    def _change(self, newest: Line) -> Change | None:
        """A line against the last one before it with the same keys."""
        its = self._by_name[newest.flow, newest.name]
        before = next((each for each in its if _is_before(each, newest) and each.keys == newest.keys), None)
        found = self._difference(before, newest) if before and newest in its else None
        return Change(before, found) if before and found else None

    def _difference(self, before: Line, newest: Line) -> Difference | None:
        one, other = (self._side(each) for each in (before, newest))
        both = [each for each in one.values if each in other.values]
        measure = next((each for each in both if (each.dimension, each.measure) == (newest.dimension, "score")), None)
        return paired(one, other, measure) if measure else None

    def _side(self, line: Line) -> Series:
        return self._outcomes(line.run_id, line.flow, line.candidate)

    def _otherwise(self, newest: Line) -> str:
        """In what the newest evaluation of this name before differs."""
        its = self._by_name[newest.flow, newest.name]
        last = next((each for each in its if _is_before(each, newest)), None)
        return (self._reason(last, newest) or "") if last else ""


def _is_before(one: Line, other: Line) -> bool:
    return (one.started_at, one.run_id) < (other.started_at, other.run_id)


def _point(line: Line, reason: str | None) -> Point:
    score = line.score
    return Point(
        candidate=line.candidate,
        dimension=line.dimension,
        started_at=line.started_at,
        run_id=line.run_id,
        score=line.value,
        ci_low=score.ci_low if score else None,
        ci_high=score.ci_high if score else None,
        break_reason=reason,
        protocol_key=line.keys[1],
        dataset_key=line.keys[0],
    )


def _in_words(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """An item of two protocols: of a prompt its name, for all that is known is that its text is another."""
    if name.startswith(PROMPT):
        return name
    one, other = (one_line(each.get(name) or "none", LONGEST_VALUE) for each in (before, after))
    return f"{name} ({one} → {other})"
