"""Data of a store's index: every flow and candidate as it is now, and every evaluation in a line.

The history answers a few queries for all of it, however many evaluations there are.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from tasks.comparing.alarms import Alarm, MovedJudge, alarms, moved_judges
from tasks.comparing.comparison import series_of
from tasks.comparing.trend import MOST_RUNS, Point
from tasks.comparing.trend import series_of as scored_series
from tasks.history.queries import held_together
from tasks.judging.results import ControlRate, control_rate, judge_status
from tasks.pages.queries import ask, points
from tasks.presentation.wording import Scored, judge_words
from tasks.protocols import display_of
from tasks.protocols.display import Headline
from tasks.statistics.intervals import Difference
from tasks.statistics.series import Series, paired

MOST_PLACES = 200
"""Most flows and candidates shown as they are now; the table has the others."""
KEPT_SERIES = 8
"""Number of sides of comparisons kept in memory: all tags of one evaluation have the same side."""

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]


class Line(NamedTuple):
    """One score that an evaluation begins with, and facts about the evaluation."""

    run_id: str
    started_at: datetime
    """UTC."""
    flow: str
    dataset: str
    candidate: str
    name: str
    """Name of the score: the candidate, with its tag where there are tags."""
    dimension: str
    """`overall`, or the tag; empty: nothing was judged."""
    score: Scored | None
    """None: nothing was scored."""
    judge: str
    status: str
    """Status of the judge by its controls, in a word."""
    price: float | None
    """Price in the currency of the prices given; None: unknown."""
    measured: bool
    stopped: bool
    """True if it stopped at its budget: it judged a part of its samples."""
    series: tuple[str, ...]
    """Values that the evaluations of a trend share, besides the score's name; see the view `trend`."""
    keys: tuple[str, str]
    """Keys of dataset and protocol, equal in evaluations that compare."""
    people: Mapping[str, Any] | None = None
    """Score as corrected by people: a row of the view `corrected`; None: there are no labels."""

    @property
    def value(self) -> float | None:
        """The score."""
        return self.score.score if self.score else None


class Change(NamedTuple):
    """The newest evaluation of a flow and candidate against the last before it that compares."""

    since: Line
    found: Difference
    """Difference, sample by sample (prompt by prompt)."""


class Place(NamedTuple):
    """State of a flow and a candidate (and tag) in its newest evaluation."""

    newest: Line
    trend: list[Point]
    """Scored evaluations of its series that measured anything, oldest first."""
    change: Change | None
    """None: no evaluation before it compares with it, or it measured nothing itself."""
    otherwise: str
    """Differences from the last evaluation before it, where none compares; empty: there is none, or one compares."""
    alarms: list[str]
    """Open alarms, in sentences."""


class Index(NamedTuple):
    """Data of the whole index."""

    places: list[Place]
    lines: list[Line]
    """Lines of the evaluations, the newest first."""
    shown: int
    """Number of evaluations that the lines are about."""
    evaluations: int
    """Number of evaluations in the history."""


def gather_index(store: Path) -> Index:
    """Gather the index of a store from its current history.

    Raises:
        InputError: there is no history, or it cannot be queried.
    """
    with held_together(store):
        found = ask(store, "index_evaluations").rows
        if not found:
            return Index([], [], 0, 0)
        lines = lines_of(store, found)
        return Index(_places(store, lines, found[-1]["started_at"]), lines, len(found), found[0]["total"])


def _places(store: Path, lines: Sequence[Line], since: str) -> list[Place]:
    """Return the newest line of every flow, candidate and tag, by flow, the best first."""
    newest: dict[tuple[str, str], Line] = {}
    scored: defaultdict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        newest.setdefault((line.flow, line.name), line)
        if line.measured and line.value is not None:
            scored[line.flow, line.name].append(line)
    shown = [*newest.values()][:MOST_PLACES]
    trends = _trends(store, shown, since)
    outcomes = lru_cache(maxsize=KEPT_SERIES)(partial(series_of, store))
    open_ones = [*(alarm for alarm in alarms(store) if alarm.is_open), *moved_judges(store)]
    places: list[Place] = []
    for line in shown:
        trend = trends.get((line.flow, line.candidate, line.dimension), [])
        before = [each for each in scored[line.flow, line.name] if _is_before(each, line)]
        change = _change(before, line, outcomes)
        otherwise = "" if change or not before else _otherwise(before[0], line, trend)
        places.append(Place(line, trend, change, otherwise, _said(line, open_ones)))
    return sorted(places, key=lambda place: (place.newest.flow, -(place.newest.value or 0), place.newest.name))


def _trends(store: Path, shown: Sequence[Line], since: str) -> dict[tuple[str, str, str], list[Point]]:
    """Return (flow, candidate, dimension or tag) -> scored points of the series."""
    wanted = {(*line.series, line.candidate, line.dimension) for line in shown}
    found: defaultdict[str, Rows] = defaultdict(list)
    for row in ask(store, "index_trend", since=since).rows:
        if tuple(row[name] for name in ("flow", "dataset", "judge", "prompt_set", "candidate", "dimension")) in wanted:
            found[row["flow"]].append(row)
    series = ((flow, each) for flow, rows in found.items() for each in scored_series(points(rows)))
    return {(flow, each[0].candidate, each[0].dimension): each[-MOST_RUNS:] for flow, each in series}


def _change(before: Sequence[Line], newest: Line, outcomes: Callable[[str, str, str], Series]) -> Change | None:
    """Compare a measured line with the last one before it with the same keys."""
    since = next((each for each in before if each.keys == newest.keys), None)
    if since is None or not newest.measured or newest.value is None:
        return None
    one, other = (outcomes(each.run_id, each.flow, each.candidate) for each in (since, newest))
    both = [each for each in one.values if each in other.values]
    measure = next((each for each in both if (each.dimension, each.measure) == (newest.dimension, "score")), None)
    return Change(since, paired(one, other, measure)) if measure else None


def _otherwise(last: Line, newest: Line, trend: Sequence[Point]) -> str:
    """Name the differences between the newest evaluation and the last one of its name."""
    items = zip(("dataset", "judge", "prompt set"), last.series[1:], newest.series[1:], strict=True)
    names = [name for name, one, other in items if one != other]
    broken = trend[-1].break_reason if trend and trend[-1].run_id == newest.run_id else None
    return ", ".join(names) or broken or ""


def _is_before(one: Line, other: Line) -> bool:
    return (one.started_at, one.run_id) < (other.started_at, other.run_id)


def _said(newest: Line, open_ones: Sequence[Alarm | MovedJudge]) -> list[str]:
    return [each.short for each in open_ones if each.flow == newest.flow and each.candidate in ("", newest.candidate)]


def lines_of(store: Path, found: Sequence[Row]) -> list[Line]:
    """Return the lines of these evaluations.

    Args:
        found: rows of the query `index_evaluations`, at least one.

    Raises:
        InputError: the history cannot be queried.
    """
    since = found[-1]["started_at"]
    scores, costs, controls, labels = (
        ask(store, f"index_{name}", since=since).rows for name in ("scores", "cost", "controls", "people")
    )
    headlines, statuses = _headlines(scores), _statuses(controls)
    prices = {row["run_id"]: row["price"] for row in costs}
    people = {(row["run_id"], row["candidate"], row["dimension"]): row for row in labels}
    return [
        _line(row, headline, statuses.get(row["run_id"], judge_status([])), prices.get(row["run_id"]), people)
        for row in found
        for headline in headlines.get(row["run_id"], [None])
    ]


def _headlines(rows: Rows) -> dict[str, list[Headline | None]]:
    """Return evaluation id -> scores that the evaluation begins with."""
    found: dict[str, list[Headline | None]] = {}
    for run_id, its in groupby(rows, key=lambda row: row["run_id"]):
        scores = [*its]
        display = display_of(scores[0]["flow"])
        found[run_id] = [*display.headline([_score(display.row, row) for row in scores])]
    return found


def _score(kind: type[Any], row: Mapping[str, Any]) -> Any:
    # This program filled the table: to validate a thousand evaluations again would take longer than the query.
    return kind.model_construct(**{name: row[name] for name in kind.model_fields})


def _line(
    row: Row, headline: Headline | None, status: str, price: float | None, people: Mapping[tuple[str, ...], Row]
) -> Line:
    place = (row["run_id"], headline.score.candidate, headline.score.dimension) if headline else ()
    return Line(
        run_id=row["run_id"],
        started_at=datetime.fromisoformat(row["started_at"]),
        flow=row["flow"],
        dataset=row["dataset"],
        candidate=headline.score.candidate if headline else " + ".join(row["candidates"]),
        name=headline.name if headline else " + ".join(row["candidates"]),
        dimension=headline.score.dimension if headline else "",
        score=headline.score if headline else None,
        judge=judge_words(row["judge"], row["endpoint"]),
        status=status,
        price=price,
        measured=row["measured"],
        stopped=row["stopped"] is not None,
        series=(row["flow"], row["dataset"], row["judge"], row["prompt_set"]),
        keys=(row["dataset_key"], row["protocol_key"]),
        people=people.get(place),
    )


def _statuses(rows: Rows) -> dict[str, str]:
    found: defaultdict[str, list[ControlRate]] = defaultdict(list)
    for row in rows:
        found[row["run_id"]].append(_rate(*(row[name] for name in _OF_RATES)))
    return {run_id: judge_status(rates) for run_id, rates in found.items()}


_OF_RATES = ("measure", "n", "failed", "unusable", "samples", "failed_samples")


@lru_cache(maxsize=4096)
def _rate(*values: Any) -> ControlRate:
    """Return the rate for these counts, cached: most evaluations have the same, and an interval takes a while."""
    return control_rate(**dict(zip(_OF_RATES, values, strict=True)))
