"""Outcomes of an evaluation for a comparison with another one, read from the history."""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.statistics.series import Compared

OUTCOMES = """SELECT sample_id, prompt_id, coalesce(tag, '') AS tag, status, score, aspect_mean, satisfied, dimensions
    FROM outcomes JOIN shard_runs USING (run_id) WHERE evaluation_id = $1 AND candidate = $2"""
"""Query for the rows of one evaluation and candidate, the arguments of `compared`."""


def compared(
    sample_id: str,
    prompt_id: str | None,
    tag: str,
    status: str,
    score: float | None,
    aspect_mean: float | None,
    satisfied: bool | None,
    dimensions: Sequence[Mapping[str, Any]],
) -> Compared:
    """Return a row of `OUTCOMES` as a value."""
    scores = {each["dimension"]: each["score"] for each in dimensions}
    return Compared(sample_id, prompt_id or "", tag, status, score, aspect_mean, satisfied, scores)
