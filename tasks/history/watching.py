"""Nights of scheduled runs against their baselines: the history's tables `nights`, `anchor_nights` and `baselines`.

A series has the scheduled, measured evaluations of one flow and candidate with equal dataset and protocol key, by start
time. It restarts where a person restarted its baseline. Nights with the same anchors make a second series. A series
with a new, changed or removed night is computed whole, so the order of ledgers does not matter.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from duckdb import DuckDBPyConnection as Connection

from tasks.history.database import Master
from tasks.history.due import NIGHTS_DUE
from tasks.history.rows import insert_rows
from tasks.ledger.alarm_records import Restart
from tasks.protocols import protocol_of
from tasks.statistics.attribution import Attribution, Series, Shift, series
from tasks.statistics.cusum import Night, watch
from tasks.statistics.intervals import Floats

_SCORED = """
    WITH asked AS (
        SELECT run_id, unnest(candidates) AS candidate, dataset_key, protocol_key, anchors_key, started_at
        FROM evaluations WHERE flow = $1 AND scheduled AND measured{}
    ), wanted AS (
        FROM asked SEMI JOIN (FROM due WHERE flow = $1) USING (candidate, dataset_key, protocol_key)
    ), units AS (
        SELECT s.evaluation_id AS run_id, o.candidate, coalesce(nullif(o.prompt_id, ''), o.sample_id) AS unit,
               avg({}) AS score
        FROM outcomes o JOIN shard_runs s USING (run_id)
        WHERE s.evaluation_id IN (SELECT run_id FROM wanted) GROUP BY ALL
    ), scored AS (
        SELECT run_id, candidate, list(unit ORDER BY unit) AS units, list(score ORDER BY unit) AS scores
        FROM units WHERE score IS NOT NULL GROUP BY ALL
    )"""
"""Due nights of a flow, and the scores of their units; `{}`: filter of the nights, and the scored expression."""
_SCORES = f"""{_SCORED.format("", "o.score")}
    SELECT w.run_id, w.candidate, w.dataset_key, w.protocol_key, w.started_at, coalesce(units, []), coalesce(scores, [])
    FROM wanted w LEFT JOIN scored s USING (run_id, candidate) ORDER BY w.started_at, w.run_id"""
_RESTART = """
    INSERT INTO due SELECT DISTINCT flow, candidate, dataset_key, protocol_key FROM nights
    WHERE flow = $1 AND $2 IN ('', candidate)"""
_OUTDATED = """
    DELETE FROM anchor_nights WHERE (run_id, candidate) IN (
        SELECT (run_id, candidate) FROM nights SEMI JOIN due USING (flow, candidate, dataset_key, protocol_key));
    DELETE FROM nights WHERE (flow, candidate, dataset_key, protocol_key) IN (
        SELECT (flow, candidate, dataset_key, protocol_key) FROM due)"""
_RESTARTED = "SELECT candidate, restarted_at FROM baselines WHERE flow = ?"

_ANCHORED = f"""{_SCORED.format(" AND anchors_key <> ''", "dimension_mean(o.dimensions)")}, anchored AS (
        SELECT s.evaluation_id AS run_id, list(a.candidate || '/' || a.sample_id ORDER BY ALL) AS anchors,
               list(a.score ORDER BY a.candidate || '/' || a.sample_id) AS anchor_scores
        FROM anchor_outcomes a JOIN shard_runs s USING (run_id) WHERE a.score IS NOT NULL GROUP BY ALL
    )
    SELECT w.run_id, w.candidate, w.dataset_key, w.protocol_key, w.anchors_key, w.started_at, coalesce(m.units, []),
           coalesce(m.scores, []), coalesce(a.anchors, []), coalesce(a.anchor_scores, []), d.started_at
    FROM wanted w LEFT JOIN scored m USING (run_id, candidate) LEFT JOIN anchored a USING (run_id)
        LEFT JOIN nights n USING (run_id, candidate)
        LEFT JOIN nights d ON (d.baseline, d.candidate, d.night) = (n.baseline, n.candidate, n.since)
    ORDER BY w.started_at, w.run_id"""


class _Measured(NamedTuple):
    """Row of `_SCORES`."""

    run_id: str
    candidate: str
    dataset_key: str
    protocol_key: str
    started_at: datetime
    units: Sequence[str]
    scores: Sequence[float]


def bring_up_to_date(master: Master, restarts: Sequence[Restart]) -> None:
    """Load restarts that the history lacks, and compute the nights of all due series."""
    db = master.db
    rows = [restart.model_dump(mode="json") for restart in restarts]
    insert_rows(master, "baselines", rows, Path("baselines"))
    db.execute(f"CREATE OR REPLACE TEMP TABLE due AS {NIGHTS_DUE}")
    for restart in restarts:
        db.execute(_RESTART, [restart.flow, restart.candidate])
    db.execute(_OUTDATED)
    for (flow,) in db.execute("SELECT DISTINCT flow FROM due").fetchall():
        restarted = db.execute(_RESTARTED, [flow]).fetchall()
        insert_rows(master, "nights", _nights(db, flow, restarted), Path("nights"))
        insert_rows(master, "anchor_nights", _anchor_nights(db, flow, restarted), Path("anchor_nights"))


def _nights(db: Connection, flow: str, restarted: Sequence[tuple[str, datetime]]) -> Iterator[dict[str, Any]]:
    nights = (_Measured(*row) for row in db.execute(_SCORES, [flow]).fetchall())
    for each in _parted(nights, lambda night: (night.dataset_key, night.protocol_key), restarted):
        yield from _rows(flow, each)


def _rows(flow: str, nights: Sequence[_Measured]) -> Iterator[dict[str, Any]]:
    scores = _table([(night.units, night.scores) for night in nights])
    watched = watch(scores, protocol_of(flow).highest)
    for number, (night, found) in enumerate(zip(nights, watched, strict=True), 1):
        yield {
            **{name: getattr(night, name) for name in ("run_id", "candidate", "dataset_key", "protocol_key")},
            "flow": flow,
            "started_at": _utc(night.started_at),
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


class _AnchoredNight(NamedTuple):
    """Row of `_ANCHORED`."""

    run_id: str
    candidate: str
    dataset_key: str
    protocol_key: str
    anchors_key: str
    started_at: datetime
    units: Sequence[str]
    scores: Sequence[float]
    anchors: Sequence[str]
    anchor_scores: Sequence[float]
    dropped_at: datetime | None
    """First night of the open drop of the score; None: there is none."""


def _anchor_nights(db: Connection, flow: str, restarted: Sequence[tuple[str, datetime]]) -> Iterator[dict[str, Any]]:
    """Yield the nights of a flow's anchors as rows of `anchor_nights`, for due series whose `nights` are up to date.

    Args:
        restarted: candidate (empty: all of them) and time of each restarted baseline.
    """
    nights = (_AnchoredNight(*row) for row in db.execute(_ANCHORED, [flow]).fetchall())
    for each in _parted(nights, lambda night: (night.dataset_key, night.protocol_key, night.anchors_key), restarted):
        yield from _anchor_rows(flow, each)


def _anchor_rows(flow: str, nights: Sequence[_AnchoredNight]) -> Iterator[dict[str, Any]]:
    anchors = _table([(night.anchors, night.anchor_scores) for night in nights])
    candidate = _table([(night.units, night.scores) for night in nights])
    watched = series(anchors, candidate, protocol_of(flow).highest)
    for at, night in enumerate(nights):
        judge_since = watched.open_since(at)
        since = judge_since if night.dropped_at is None else _first_since(nights, night.dropped_at, at)
        yield {
            **{name: getattr(night, name) for name in ("run_id", "candidate", "anchors_key")},
            "flow": flow,
            "started_at": _utc(night.started_at),
            "night": at + 1,
            "anchor_change": watched.drops[at].change,
            "candidate_change": watched.candidate[at].change,
            "judge_since": None if judge_since is None else _utc(nights[judge_since].started_at),
            **({} if since is None else _attributed(watched, nights, since, at)),
        }


def _first_since(nights: Sequence[_AnchoredNight], moment: datetime, at: int) -> int:
    return next((index for index, night in enumerate(nights) if night.started_at >= moment), at)


def _attributed(watched: Series, nights: Sequence[_AnchoredNight], since: int, at: int) -> Mapping[str, Any]:
    found: Attribution = watched.attribution(since, at)
    told = {"moved": found.moved, "moved_since": _utc(nights[found.since].started_at), "moved_nights": found.nights}
    return {**told, **_shift("judge", found.judge), **_shift("candidate", found.candidate)}


def _shift(whose: str, shift: Shift | None) -> Mapping[str, Any]:
    if shift is None:
        return {}
    return {f"{whose}_shift": shift.change, f"{whose}_low": shift.low, f"{whose}_high": shift.high}


def _utc(moment: datetime) -> str:
    return moment.replace(tzinfo=UTC).isoformat()


class _Judged(Protocol):
    @property
    def candidate(self) -> str: ...

    @property
    def started_at(self) -> datetime:
        """UTC."""
        ...


T = TypeVar("T", bound=_Judged)


def _parted(
    nights: Iterable[T], key: Callable[[T], tuple[str, ...]], restarted: Sequence[tuple[str, datetime]]
) -> Iterator[list[T]]:
    """Yield each series of nights: those of one candidate and key, between two restarts of its baseline.

    Args:
        nights: nights in order.
        key: common properties of a series besides the candidate.
        restarted: candidate (empty: all of them) and time of each restarted baseline.
    """
    found: defaultdict[tuple[str, ...], list[T]] = defaultdict(list)
    for night in nights:
        moments = sum(whose in ("", night.candidate) and moment <= night.started_at for whose, moment in restarted)
        found[night.candidate, *key(night), str(moments)].append(night)
    yield from found.values()


def _table(nights: Sequence[tuple[Sequence[str], Sequence[float]]]) -> Floats:
    """Return an array of nights x units, for units with a score in at least one night; NaN: the night has none.

    Args:
        nights: units with a score, and their scores, of each.
    """
    units = sorted({unit for named, _ in nights for unit in named})
    places = {unit: place for place, unit in enumerate(units)}
    found = np.full((len(nights), len(units)), np.nan)
    for row, (named, scores) in zip(found, nights, strict=True):
        row[[places[unit] for unit in named]] = scores
    return found
