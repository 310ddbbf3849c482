"""The nights of scheduled runs against their baselines: the history's tables `nights` and `baselines`.

Owns which nights make up a series: the scheduled evaluations of one flow and candidate that were measured alike (equal
dataset key and protocol key) and did measure something, in the order in which they began. A series begins anew where a
person restarted its baseline. What follows from the scores of a series is for `statistics.cusum`.

All nights of a flow are computed anew whenever one of them is new, has changed or is gone, so that nothing depends on
the order in which ledgers arrive.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from duckdb import DuckDBPyConnection as Connection

from tasks.history.anchor_watching import anchor_nights
from tasks.history.database import revising
from tasks.history.staging import insert_rows
from tasks.history.unit_tables import parted, table
from tasks.kinds import kind_of
from tasks.ledger.alarm_records import Restart
from tasks.statistics.cusum import Night, watch

_SCORES = """
    WITH wanted AS (
        SELECT run_id, unnest(candidates) AS candidate, dataset_key, protocol_key, started_at
        FROM evaluations WHERE flow = $1 AND scheduled AND measured
    ), units AS (
        SELECT s.evaluation_id AS run_id, o.candidate, coalesce(nullif(o.prompt_id, ''), o.sample_id) AS unit,
               avg(o.score) AS score
        FROM outcomes o JOIN shard_runs s USING (run_id)
        WHERE s.evaluation_id IN (SELECT run_id FROM wanted) GROUP BY ALL
    ), scored AS (
        SELECT run_id, candidate, list(unit ORDER BY unit) AS units, list(score ORDER BY unit) AS scores
        FROM units WHERE score IS NOT NULL GROUP BY ALL
    )
    SELECT w.run_id, w.candidate, w.dataset_key, w.protocol_key, w.started_at, coalesce(units, []), coalesce(scores, [])
    FROM wanted w LEFT JOIN scored s USING (run_id, candidate) ORDER BY w.started_at, w.run_id"""


_RESTARTED = "SELECT candidate, restarted_at FROM baselines WHERE flow = ?"


class _Measured(NamedTuple):
    """A row of `_SCORES`."""

    run_id: str
    candidate: str
    dataset_key: str
    protocol_key: str
    started_at: datetime
    units: Sequence[str]
    scores: Sequence[float]


def bring_up_to_date(history: Path, restarts: Sequence[Restart], due: str, wait_seconds: float) -> None:
    """Load restarts that the history lacks, and compute the nights of all flows that are due.

    Args:
        due: SQL that tells which flows are.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
    """
    with revising(history, wait_seconds) as db:
        rows = [restart.model_dump(mode="json") for restart in restarts]
        insert_rows(db, "baselines", rows, history)
        for flow in {restart.flow for restart in restarts} | {str(flow) for (flow,) in db.execute(due).fetchall()}:
            db.execute("DELETE FROM nights WHERE flow = ?", [flow])
            restarted = db.execute(_RESTARTED, [flow]).fetchall()
            insert_rows(db, "nights", _nights(db, flow, restarted), history)
            db.execute("DELETE FROM anchor_nights WHERE flow = ?", [flow])
            insert_rows(db, "anchor_nights", anchor_nights(db, flow, restarted), history)


def _nights(db: Connection, flow: str, restarted: Sequence[tuple[str, datetime]]) -> Iterator[dict[str, Any]]:
    nights = (_Measured(*row) for row in db.execute(_SCORES, [flow]).fetchall())
    for each in parted(nights, lambda night: (night.dataset_key, night.protocol_key), restarted):
        yield from _rows(flow, each)


def _rows(flow: str, nights: Sequence[_Measured]) -> Iterator[dict[str, Any]]:
    scores = table([(night.units, night.scores) for night in nights])
    watched = watch(scores, kind_of(flow).highest)
    for number, (night, found) in enumerate(zip(nights, watched, strict=True), 1):
        yield {
            **{name: getattr(night, name) for name in ("run_id", "candidate", "dataset_key", "protocol_key")},
            "flow": flow,
            "started_at": night.started_at.replace(tzinfo=UTC).isoformat(),
            "baseline": nights[0].run_id,
            "night": number,
            "scored": len(night.scores) / max(1, scores.shape[1]),
            **_found(found),
        }


def _found(night: Night) -> dict[str, Any]:
    return {
        "phase": night.phase,
        "baseline_score": night.baseline,
        "change": night.change,
        "scale": night.scale,
        "cusum": night.sum,
        "cusum_limit": night.limit,
        "alarm": None if night.raised is None else night.raised + 1,
        "since": None if night.since is None else night.since + 1,
    }
