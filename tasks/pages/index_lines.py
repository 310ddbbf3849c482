"""The lines of a store's index: every evaluation with the scores that it begins with, newest first.

Owns what a line says; all of it is asked of the history in a few questions, however many evaluations there are. What
lies behind the newest ones is for `index_trends`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from tasks.controls.status import ControlRate, control_rate, judge_status
from tasks.kinds import kind_of
from tasks.kinds.display import Headline
from tasks.pages.queries import ask
from tasks.presentation.wording import Scored, judge_words

Row = Mapping[str, Any]
Rows = Iterable[Row]


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
    dimension: str
    """`overall`, or the tag; empty: nothing was judged."""
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
    """Of dataset and protocol: equal in evaluations that compare."""
    people: Mapping[str, Any] | None = None
    """What people's labels make of the score: a row of the view `corrected`; None: there are none."""

    @property
    def value(self) -> float | None:
        """The score."""
        return self.score.score if self.score else None


def lines_of(store: Path, found: Sequence[Row]) -> list[Line]:
    """The lines of these evaluations.

    Args:
        found: rows of the question `index_evaluations`, at least one.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: it cannot be asked.
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
        judge=judge_words(row["model"], row["endpoint"]),
        status=status,
        price=price,
        measured=row["measured"],
        stopped=row["stopped"] is not None,
        series=(row["flow"], row["dataset"], row["model"], row["prompt_set"]),
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
    """Most evaluations have the same counts, and their interval takes a while."""
    return control_rate(**dict(zip(_OF_RATES, values, strict=True)))
