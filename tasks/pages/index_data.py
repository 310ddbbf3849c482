"""Data of a store's index: a card for every flow as it is now, and every evaluation in a line.

The history answers a few queries for all of it, however many evaluations there are.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from tasks.comparing.alarms import Alarm, MovedJudge, alarms, moved_judges
from tasks.comparing.comparison import outcomes_of, series_of
from tasks.comparing.trend import MOST_RUNS
from tasks.history.queries import held_together
from tasks.judging.results import ControlRate, control_rate, judge_status
from tasks.pages.queries import ask
from tasks.pages.report_facts import price_words
from tasks.pages.unfinished import Unfinished, unfinished
from tasks.presentation.wording import Scored, judge_words
from tasks.protocols import display_of
from tasks.protocols.display import Headline
from tasks.statistics.intervals import Difference
from tasks.statistics.series import Compared, paired, share_parts

MOST_PLACES = 12
"""Most candidates (and tags) shown on a card, the best first; the table has the others."""

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
    """None: unknown."""
    cost: str
    """Price with its currency, in words."""
    measured: bool
    stopped: bool
    """True if it stopped at its budget: it judged a part of its samples."""
    series: tuple[str, ...]
    """Values that the evaluations of a trend share, besides the score's name; see the view `trend`."""
    keys: tuple[str, str]
    """Keys of series and protocol, equal in evaluations that compare."""
    people: Mapping[str, Any] | None = None
    """Score as corrected by people: a row of the view `corrected`; None: there are no labels."""

    @property
    def value(self) -> float | None:
        """The score."""
        return self.score.score if self.score else None


class Place(NamedTuple):
    """State of a candidate (and tag) in the newest evaluation that measured it."""

    line: Line
    trend: list[Line]
    """Scored evaluations of its series that measured anything, oldest first."""
    since: datetime | None
    """Start of the last evaluation before it that compares; None: there is none, or it measured nothing itself."""
    change: Difference | None
    """Difference since then, sample by sample (prompt by prompt)."""


class Card(NamedTuple):
    """State of a flow."""

    newest: Line
    """First line of its newest evaluation."""
    judged: int
    """Number of samples that the newest evaluation judged, of all candidates."""
    places: list[Place]
    """Candidates that were judged like the newest evaluation, by tag, the best first."""
    others: list[str]
    """Names of those that were judged otherwise, so that they do not compare."""
    alarms: list[str]
    """Open alarms, in sentences."""
    worst: Rows
    """Its samples with the lowest scores: rows of the query `index_worst`."""


class Index(NamedTuple):
    """Data of the whole index."""

    cards: list[Card]
    """Flows, the one with the newest evaluation first."""
    lines: list[Line]
    """Lines of the evaluations, the newest first."""
    shown: int
    """Number of evaluations that the lines are about."""
    evaluations: int
    """Number of evaluations in the history."""
    unfinished: Sequence[Unfinished] = ()
    """Recent runs without an end, the newest first."""


def gather_index(store: Path) -> Index:
    """Gather the index of a store from its current history; InputError if there is none."""
    with held_together(store):
        found = ask(store, "index_evaluations")
        if not found:
            return Index([], [], 0, 0, unfinished(store))
        lines = _lines(store, found)
        open_alarms: list[Alarm | MovedJudge] = []
        if found[0]["any_scheduled"]:
            open_alarms = [*alarms(store), *moved_judges(store)]
        return Index(_cards(store, lines, open_alarms), lines, len(found), found[0]["total"], unfinished(store))


def _cards(store: Path, lines: Sequence[Line], open_alarms: Sequence[Alarm | MovedJudge]) -> list[Card]:
    flows: defaultdict[str, list[Line]] = defaultdict(list)
    for line in lines:
        flows[line.flow].append(line)
    # An evaluation that judged nothing, as below its budget, leaves the card as it was.
    judged = {flow: [line for line in its if line.dimension] or its for flow, its in flows.items()}
    outcomes = cache(partial(outcomes_of, store))
    return [
        Card(
            newest=its[0],
            judged=sum(line.score.n for line in its if line.score and line.run_id == its[0].run_id),
            places=[_place(line, its, outcomes) for line in _shown(its)],
            others=sorted({line.name for line in its} - {line.name for line in its if line.keys == its[0].keys}),
            alarms=[each.short for each in open_alarms if each.flow == flow],
            worst=ask(store, "index_worst", run=its[0].run_id),
        )
        for flow, its in judged.items()
    ]


def _shown(lines: Sequence[Line]) -> list[Line]:
    """Return the newest measured line of each candidate and tag, of those judged like the newest, the best first."""
    alike = [line for line in lines if line.keys == lines[0].keys]
    newest: dict[str, Line] = {}
    for line in sorted(alike, key=lambda line: not line.measured):
        newest.setdefault(line.name, line)
    best = sorted(newest.values(), key=lambda line: (-(line.value or 0), line.name))[:MOST_PLACES]
    tags = [line.dimension for line in alike]
    return sorted(best, key=lambda line: tags.index(line.dimension))


def _place(line: Line, lines: Sequence[Line], outcomes: Callable[[str, str], list[Compared]]) -> Place:
    """Compare a line with the last measured one before it with the same keys."""
    measured = [each for each in lines if each.measured and each.value is not None]
    trend = [each for each in measured if (each.name, each.series) == (line.name, line.series)][:MOST_RUNS][::-1]
    before = [each for each in trend[:-1] if each.keys == line.keys] if line in trend else []
    if not before:
        return Place(line, trend, None, None)
    shared = share_parts(*(outcomes(each.run_id, each.candidate) for each in (before[-1], line)))
    one, other = (series_of(line.flow, side) for side in (shared.before, shared.after))
    both = [each for each in one.values if each in other.values]
    measure = next((each for each in both if (each.dimension, each.measure) == (line.dimension, "score")), None)
    return Place(line, trend, before[-1].started_at, paired(one, other, measure) if measure else None)


def _lines(store: Path, found: Sequence[Row]) -> list[Line]:
    """Return the lines of these evaluations, at least one: rows of the query `index_evaluations`."""
    since = found[-1]["started_at"]
    scores, costs, controls, labels = (
        ask(store, f"index_{name}", since=since) for name in ("scores", "cost", "controls", "people")
    )
    best = {(row["run_id"], row["candidate"], row["dimension"]): row for row in ask(store, "index_best")}
    for row in scores:
        row.update(best.get((row["run_id"], row["candidate"], row["dimension"]), {}))
    headlines, statuses = _headlines(scores), _statuses(controls)
    prices = {row["run_id"]: row["price"] for row in costs}
    people = {(row["run_id"], row["candidate"], row["dimension"]): row for row in labels}
    return [
        _line(row, headline, statuses.get(row["run_id"], judge_status([])), prices.get(row["run_id"], 0.0), people)
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
        cost=price_words(price, row),
        measured=row["measured"],
        stopped=row["stopped"] is not None,
        series=(row["flow"], row["dataset"], row["judge"], row["prompt_set"]),
        keys=(row["series_key"], row["protocol_key"]),
        people=people.get(place),
    )


def _statuses(rows: Rows) -> dict[str, str]:
    found: defaultdict[str, list[ControlRate]] = defaultdict(list)
    for row in rows:
        counts = {name: value for name, value in row.items() if name != "run_id"}
        found[row["run_id"]].append(control_rate(**counts))
    return {run_id: judge_status(rates) for run_id, rates in found.items()}
