"""Selection of an evaluation of the history: by its id, by the beginning of it, or among the last ones of a flow."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from tasks.errors import InputError
from tasks.history.asking import query
from tasks.ledger.anew import shared_words, unmeasured_words
from tasks.records import BudgetStop
from tasks.text import bounded

SHOWN = 5
"""Runs named in an error."""


class Evaluation(NamedTuple):
    """Finished evaluation: the columns of the view `evaluations` that comparisons use."""

    run_id: str
    flow: str
    started_at: datetime
    """UTC."""
    dataset: str
    dataset_key: str
    candidates: list[str]
    judge: str
    prompt_set: str
    dimensions: list[str]
    """Dimensions or tags, in the order of the prompt set."""
    protocol_key: str
    protocol: dict[str, str]
    reused: int
    replies: int
    anew: int
    measured: bool
    stopped: dict[str, Any] | None
    """Fields of a `BudgetStop`; None: the evaluation is complete."""

    @property
    def unmeasured(self) -> str:
        """Sentence if the evaluation measured nothing; otherwise empty."""
        return "" if self.measured or self.stopped else unmeasured_words(self.replies, self.anew, self.run_id)

    @property
    def partial(self) -> str:
        """Sentence if the evaluation stopped at its budget; otherwise empty."""
        return f"{self.run_id}: {stop_of(self.stopped).sentence}" if self.stopped else ""


def stop_of(row: Mapping[str, Any]) -> BudgetStop:
    """Return the column `stopped` as a record."""
    return BudgetStop.model_validate({name: value for name, value in row.items() if value is not None})


def find(store: Path, wanted: str) -> Evaluation:
    """Return the finished evaluation with this id, or the only one whose id begins so.

    Raises:
        InputError: there is none, or several; or it is unfinished.
    """
    columns = ", ".join(Evaluation._fields)
    sql = f"SELECT {columns} FROM evaluations WHERE starts_with(run_id, $1) ORDER BY run_id"
    found = [Evaluation(*row) for row in query(store, sql, values=(wanted,)).rows]
    exact = [run for run in found if run.run_id == wanted]
    if len(exact or found) != 1:
        raise InputError(_not_one(store, wanted, [run.run_id for run in found]))
    return (exact or found)[0]


def last_runs(store: Path, flow: str, last: int, candidate: str = "") -> tuple[str, str]:
    """Return the ids of the oldest and the newest of a flow's last evaluations.

    Evaluations that measured nothing, or stopped at their budget, do not count.

    Args:
        last: number of evaluations; 2 gives the newest and the one before it.
        candidate: count only evaluations of this candidate; empty: all.

    Raises:
        InputError: there are fewer evaluations, or `last` is below 2.
    """
    if last < 2:
        raise InputError(f"--last {last}: it takes at least 2 runs to compare")
    found = query(
        store,
        """SELECT run_id FROM evaluations WHERE flow = $1 AND measured
           AND ($2 = '' OR list_contains(candidates, $2)) ORDER BY started_at DESC, run_id DESC LIMIT $3""",
        values=(flow, candidate, last),
    )
    ids = [str(run_id) for (run_id,) in found.rows]
    if len(ids) < last:
        of = f" of {candidate}" if candidate else ""
        runs = f"run{of} with replies of its own" if len(ids) == 1 else f"runs{of} with replies of their own"
        another = f"`jury run {flow} --reuse-hours 0`, with the options of the run before, makes another"
        cure = f"ask for --last {len(ids)}" if len(ids) > 1 else another
        raise InputError(f"--last {last}: {store} holds {len(ids)} finished {flow} {runs}; {cure}")
    return ids[-1], ids[0]


def shared_replies(store: Path, one: str, other: str) -> str:
    """Return a sentence if two evaluations share replies; otherwise an empty text."""
    if one == other:
        return ""
    sql = """WITH counting AS (
        FROM judgment_attempts WHERE last_attempt AND status = 'ok' AND coalesce("control", '') = '')
        SELECT count(*) FILTER (a.run_id IS NOT NULL), count(*) FROM counting b LEFT JOIN (
            SELECT DISTINCT run_id, "key", judged_at FROM counting WHERE run_id = $1) a USING ("key", judged_at)
        WHERE b.run_id = $2"""
    [(shared, replies)] = query(store, sql, values=(one, other)).rows
    return shared_words(shared, replies, one, other)


def _not_one(store: Path, wanted: str, found: list[str]) -> str:
    if found:
        return f"{wanted!r} is the beginning of several runs: {', '.join(bounded(found[:SHOWN], len(found)))}"
    sql = "SELECT run_id FROM runs WHERE starts_with(run_id, $1) OR starts_with(evaluation_id, $1)"
    if query(store, sql, values=(wanted,)).rows:
        return f"run {wanted!r} is unfinished: only finished runs, with all their shards, are compared"
    inside = query(
        store, "SELECT run_id FROM evaluations WHERE contains(run_id, $1) ORDER BY run_id", values=(wanted,)
    ).rows
    if inside:
        named = ", ".join(bounded([str(row[0]) for row in inside[:SHOWN]], len(inside)))
        return f"no run's id begins with {wanted!r}, and the beginning counts; it is inside {named}"
    newest = [str(row[0]) for row in query(store, "SELECT run_id FROM evaluations ORDER BY run_id DESC LIMIT 5").rows]
    return f"no run is called {wanted!r}; the newest finished ones are {', '.join(newest) or 'none'}"
