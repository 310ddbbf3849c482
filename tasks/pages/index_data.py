"""What stands on the index of a store: every flow and candidate as it is now, and every evaluation in a line.

Owns which evaluations and which numbers; all of it is asked of the history in a few questions, however many evaluations
there are. How it looks is for `index_page`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from tasks.comparing.alarms import Alarm, alarms
from tasks.comparing.moved_judges import MovedJudge, moved_judges
from tasks.comparing.points import MOST_RUNS
from tasks.controls.status import ControlRate, control_rate, judge_status
from tasks.history.asking import held_open
from tasks.kinds import kind_of
from tasks.kinds.display import Headline
from tasks.pages.queries import ask
from tasks.presentation.wording import Scored, judge_words

MOST_PLACES = 200
"""Flows and candidates shown as they are now; the table has the others."""

Rows = Iterable[Mapping[str, Any]]


class Line(NamedTuple):
    """One score that an evaluation begins with, and what is known of the evaluation."""

    run_id: str
    started_at: datetime
    """UTC."""
    flow: str
    dataset: str
    candidate: str
    name: str
    """Of the score: the candidate, with its tag where there are any."""
    score: Scored | None
    """None: nothing was scored."""
    judge: str
    status: str
    """What its controls say of the judge, in a word."""
    price: float | None
    """In the currency of its prices; None: it is not known."""
    measured: bool
    stopped: bool
    """At its budget: it judged a part of its samples."""
    series: tuple[str, ...]
    """What the evaluations of a trend have in common, besides the score's name; see the view `trend`."""
    keys: tuple[str, str]
    """Equal in evaluations that compare."""

    @property
    def value(self) -> float | None:
        """The score."""
        return self.score.score if self.score else None


class Place(NamedTuple):
    """A flow and a candidate (and tag) as its newest evaluation has it."""

    newest: Line
    trend: list[Line]
    """The scored evaluations of its series that measured anything, oldest first."""
    alarms: list[str]
    """What is open, in sentences."""

    @property
    def before(self) -> Line | None:
        """The last evaluation before the newest that compares with it; None: there is none."""
        earlier = [each for each in self.trend[:-1] if each.keys == self.newest.keys]
        return earlier[-1] if earlier and self.trend[-1] is self.newest else None


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
    with held_open(store):
        found = ask(store, "index_evaluations").rows
        return _index(store, found) if found else Index([], [], 0, 0)


def _index(store: Path, found: Sequence[Mapping[str, Any]]) -> Index:
    since = found[-1]["started_at"]
    scores, costs, controls = (ask(store, f"index_{name}", since=since).rows for name in ("scores", "cost", "controls"))
    headlines, statuses = _headlines(scores), _statuses(controls)
    prices = {row["run_id"]: row["price"] for row in costs}
    lines = [
        _line(row, headline, statuses.get(row["run_id"], judge_status([])), prices.get(row["run_id"]))
        for row in found
        for headline in headlines.get(row["run_id"], [None])
    ]
    return Index(_places(store, lines), lines, len(found), found[0]["total"])


def _headlines(rows: Rows) -> dict[str, list[Headline | None]]:
    """What each evaluation begins with, by its id."""
    found: dict[str, list[Headline | None]] = {}
    for run_id, its in groupby(rows, key=lambda row: row["run_id"]):
        scores = [*its]
        display = kind_of(scores[0]["flow"]).display
        found[run_id] = [*display.headline([_score(display.row, row) for row in scores])]
    return found


def _score(kind: type[Any], row: Mapping[str, Any]) -> Any:
    # Rows of a table that this program filled: to check a thousand evaluations again would take longer than to ask.
    return kind.model_construct(**{name: row[name] for name in kind.model_fields})


def _line(row: Mapping[str, Any], headline: Headline | None, status: str, price: float | None) -> Line:
    return Line(
        run_id=row["run_id"],
        started_at=datetime.fromisoformat(row["started_at"]),
        flow=row["flow"],
        dataset=row["dataset"],
        candidate=headline.score.candidate if headline else " + ".join(row["candidates"]),
        name=headline.name if headline else " + ".join(row["candidates"]),
        score=headline.score if headline else None,
        judge=judge_words(row["model"], row["endpoint"]),
        status=status,
        price=price,
        measured=row["measured"],
        stopped=row["stopped"] is not None,
        series=(row["flow"], row["dataset"], row["model"], row["prompt_set"]),
        keys=(row["dataset_key"], row["protocol_key"]),
    )


def _statuses(rows: Rows) -> dict[str, str]:
    found: defaultdict[str, list[ControlRate]] = defaultdict(list)
    for row in rows:
        found[row["run_id"]].append(_rate(*(row[name] for name in _OF_RATES)))
    return {run_id: judge_status(rates) for run_id, rates in found.items()}


_OF_RATES = ("measure", "n", "failed", "unusable", "samples", "failed_samples")


@lru_cache(maxsize=4096)
def _rate(*values: Any) -> ControlRate:
    """Most evaluations have the same counts, and their interval takes a while."""
    return control_rate(**dict(zip(_OF_RATES, values, strict=True)))


def _places(store: Path, lines: Iterable[Line]) -> list[Place]:
    """The newest line of every flow, candidate and tag, by flow, the best first."""
    series: defaultdict[tuple[str, ...], list[Line]] = defaultdict(list)
    newest: dict[tuple[str, str], Line] = {}
    for line in lines:
        newest.setdefault((line.flow, line.name), line)
        if line.measured and line.value is not None:
            series[*line.series, line.name].append(line)
    open_ones = [*_open(store)]
    found = [_place(each, series[*each.series, each.name], open_ones) for each in [*newest.values()][:MOST_PLACES]]
    return sorted(found, key=lambda place: (place.newest.flow, -(place.newest.value or 0), place.newest.name))


def _place(newest: Line, series: Sequence[Line], open_ones: Iterable[Alarm | MovedJudge]) -> Place:
    said = [each.short for each in open_ones if each.flow == newest.flow and each.candidate in ("", newest.candidate)]
    return Place(newest, [*reversed(series[:MOST_RUNS])], said)


def _open(store: Path) -> Iterator[Alarm | MovedJudge]:
    """Open alarms of scores, and of judges, which concern all candidates."""
    yield from (each for each in alarms(store) if each.is_open)
    yield from moved_judges(store)
