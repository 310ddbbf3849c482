"""Comparisons of candidates from different runs with the best of them: the history's table `versus_best`.

`due` groups the runs, `statistics.series` pairs the samples. Candidates of one run were compared by the same rule at
its end (`judging.versus_best`).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import hypot
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from duckdb import DuckDBPyConnection as Connection

from tasks.history.compared import OUTCOMES, compared
from tasks.history.database import Master
from tasks.history.due import BEST_DUE, MEMBERS
from tasks.history.rows import insert_rows
from tasks.protocols import protocol_of
from tasks.records import OVERALL
from tasks.statistics.paired import Difference
from tasks.statistics.series import ALL_PROMPTS, Measure, Series, paired, series

_TAGS = """
    SELECT count(DISTINCT tag)
    FROM (SELECT unnest(dimensions) AS tag FROM evaluations WHERE list_contains(?, run_id))"""


class _Member(NamedTuple):
    """Candidate of a group, with its newest runs: one, or for all tags together one of each flow."""

    flow: str
    dataset_key: str
    alike: str
    candidate: str
    runs: Sequence[str]

    @property
    def group(self) -> tuple[str, str, str]:
        return self.flow, self.dataset_key, self.alike


def compare_with_best(master: Master) -> None:
    """Update the table `versus_best`."""
    db = master.db
    due = {(str(flow), str(dataset), str(alike)) for flow, dataset, alike in db.execute(BEST_DUE).fetchall()}
    members = [_Member(*row) for row in db.execute(f"{MEMBERS} ORDER BY ALL").fetchall()]
    for group in due:
        db.execute("DELETE FROM versus_best WHERE (flow, dataset_key, alike) = (?, ?, ?)", list(group))
    for group, its in groupby(members, key=lambda member: member.group):
        if group in due:
            insert_rows(master, "versus_best", _rows(db, list(its)), Path("versus_best"))


def _rows(db: Connection, members: Sequence[_Member]) -> Iterator[dict[str, Any]]:
    sides = {member.candidate: _side(db, member) for member in members}
    together = not members[0].flow
    tags = _number_of_tags(db, members) if together else 0
    best = max(sides, key=lambda candidate: _headline(sides[candidate], tags))
    for member in members:
        own = sides[member.candidate]
        found = {} if member.candidate == best else _differences(sides[best], own)
        shown = {OVERALL: _joined(found, tags)} if together else {name: _told(each) for name, each in found.items()}
        for dimension in [OVERALL] if together else [measure.dimension for measure in sides[best]]:
            told = shown.get(dimension, {})
            yield {**member._asdict(), "runs": list(member.runs), "best": best, "dimension": dimension, **told}


_Side = Mapping[Measure, Mapping[str, float]]
"""Scores by dimension or tag -> unit -> value; the headline of a flow comes first."""


def _side(db: Connection, member: _Member) -> _Side:
    found = [_series(db, run_id, member.candidate) for run_id in member.runs]
    named = {measure: units for each in found for measure, units in each.values.items() if measure.measure == "score"}
    return {measure: units for measure, units in named.items() if member.flow or measure.dimension != ALL_PROMPTS}


def _series(db: Connection, run_id: str, candidate: str) -> Series:
    [flow] = db.execute("SELECT flow FROM evaluations WHERE run_id = ?", [run_id]).fetchone() or ("",)
    rows = db.execute(OUTCOMES, [run_id, candidate]).fetchall()
    return series(protocol_of(flow).measured(compared(*row)) for row in rows)


def _number_of_tags(db: Connection, members: Sequence[_Member]) -> int:
    """Return the number of tags in the overall score: all that a run of the group asks about."""
    [number] = db.execute(_TAGS, [[run for member in members for run in member.runs]]).fetchone() or (0,)
    return number


def _headline(side: _Side, tags: int) -> float:
    """Return the score that selects the best: the flow's own, or the mean of all tags; below 0: there is none."""
    means = [fmean(units.values()) for units in side.values() if units]
    if tags:
        return fmean(means) if len(means) == tags else -1.0
    return next(iter(means), -1.0)


def _differences(best: _Side, own: _Side) -> dict[str, Difference]:
    one, other = (Series(side, {}, 1.0) for side in (best, own))
    return {measure.dimension: paired(one, other, measure) for measure in best if measure in own}


def _told(found: Difference) -> dict[str, Any]:
    return {"n": found.n, "change": found.change, "ci_low": found.ci_low, "ci_high": found.ci_high}


def _joined(found: Mapping[str, Difference], tags: int) -> dict[str, Any]:
    """Return the mean over all tags; empty if one is missing.

    Independent intervals add up as squares (MOVER; Zou and Donner, 2008).
    """
    changes = [each.change for each in found.values() if each.change is not None]
    if len(changes) < tags:
        return {}
    change, ends = fmean(changes), {}
    known = [(each.change, each.ci_low, each.ci_high) for each in found.values()]
    if all(None not in each for each in known):
        below = hypot(*((middle or 0.0) - (low or 0.0) for middle, low, _ in known)) / tags
        above = hypot(*((high or 0.0) - (middle or 0.0) for middle, _, high in known)) / tags
        ends = {"ci_low": change - below, "ci_high": change + above}
    return {"n": sum(each.n for each in found.values()), "change": change, **ends}
