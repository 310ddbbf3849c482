"""The nights of anchors beside their candidates: the history's table `anchor_nights`.

Owns which nights make up such a series: those of `watching`'s that judged the same anchors. What follows from their
scores is for `statistics.attribution`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from duckdb import DuckDBPyConnection as Connection

from tasks.history.unit_tables import parted, table
from tasks.kinds import kind_of
from tasks.statistics.attribution import Attribution, Series, Shift, series

_ANCHORED = """
    WITH wanted AS (
        SELECT run_id, unnest(candidates) AS candidate, dataset_key, protocol_key, anchors_key, started_at
        FROM evaluations WHERE flow = $1 AND scheduled AND measured AND anchors_key <> ''
    ), units AS (
        SELECT s.evaluation_id AS run_id, o.candidate, coalesce(nullif(o.prompt_id, ''), o.sample_id) AS unit,
               avg(dimension_mean(o.dimensions)) AS score
        FROM outcomes o JOIN shard_runs s USING (run_id)
        WHERE s.evaluation_id IN (SELECT run_id FROM wanted) GROUP BY ALL
    ), measured AS (
        SELECT run_id, candidate, list(unit ORDER BY unit) AS units, list(score ORDER BY unit) AS scores
        FROM units WHERE score IS NOT NULL GROUP BY ALL
    ), anchored AS (
        SELECT s.evaluation_id AS run_id, list(a.candidate || '/' || a.sample_id ORDER BY ALL) AS anchors,
               list(a.score ORDER BY a.candidate || '/' || a.sample_id) AS anchor_scores
        FROM anchor_outcomes a JOIN shard_runs s USING (run_id) WHERE a.score IS NOT NULL GROUP BY ALL
    )
    SELECT w.run_id, w.candidate, w.dataset_key, w.protocol_key, w.anchors_key, w.started_at, coalesce(m.units, []),
           coalesce(m.scores, []), coalesce(a.anchors, []), coalesce(a.anchor_scores, []), d.started_at
    FROM wanted w LEFT JOIN measured m USING (run_id, candidate) LEFT JOIN anchored a USING (run_id)
        LEFT JOIN nights n USING (run_id, candidate)
        LEFT JOIN nights d ON (d.baseline, d.candidate, d.night) = (n.baseline, n.candidate, n.since)
    ORDER BY w.started_at, w.run_id"""


class _Night(NamedTuple):
    """A row of `_ANCHORED`."""

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
    """First night of the score's drop that is open; None: none is."""


def anchor_nights(db: Connection, flow: str, restarted: Sequence[tuple[str, datetime]]) -> Iterator[dict[str, Any]]:
    """The nights of a flow's anchors, whose table `nights` is up to date, as rows of `anchor_nights`.

    Args:
        restarted: candidate (empty: all of them) and moment of each restarted baseline.
    """
    nights = (_Night(*row) for row in db.execute(_ANCHORED, [flow]).fetchall())
    for each in parted(nights, lambda night: (night.dataset_key, night.protocol_key, night.anchors_key), restarted):
        yield from _rows(flow, each)


def _rows(flow: str, nights: Sequence[_Night]) -> Iterator[dict[str, Any]]:
    anchors = table([(night.anchors, night.anchor_scores) for night in nights])
    candidate = table([(night.units, night.scores) for night in nights])
    watched = series(anchors, candidate, kind_of(flow).highest)
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


def _first_since(nights: Sequence[_Night], moment: datetime, at: int) -> int:
    return next((index for index, night in enumerate(nights) if night.started_at >= moment), at)


def _attributed(watched: Series, nights: Sequence[_Night], since: int, at: int) -> Mapping[str, Any]:
    found: Attribution = watched.attribution(since, at)
    told = {"moved": found.moved, "moved_since": _utc(nights[found.since].started_at), "moved_nights": found.nights}
    return {**told, **_shift("judge", found.judge), **_shift("candidate", found.candidate)}


def _shift(whose: str, shift: Shift | None) -> Mapping[str, Any]:
    if shift is None:
        return {}
    return {f"{whose}_shift": shift.change, f"{whose}_low": shift.low, f"{whose}_high": shift.high}


def _utc(moment: datetime) -> str:
    return moment.replace(tzinfo=UTC).isoformat()
