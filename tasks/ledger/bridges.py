"""Bridges: answers of two judges about the same samples, kept beside the ledgers of the runs.

`<store>/bridges/<bridge_id>/bridge.jsonl` has one row for each candidate and dimension, the source of the history's
table `bridges`. `comparing.bridge` computes the rows, `kept_rows` stores them.
"""

from pydantic import Field

from tasks.ledger.kept_rows import Kept
from tasks.records import SCHEMA, Offset


class BridgeRow(Offset):
    """Comparison of two judges on one candidate and one dimension: a row of a bridge's file."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    bridge_id: str
    """Name of the bridge and of its folder; ids sort by time."""
    made_at: str
    """Time of the comparison, UTC, ISO 8601."""
    flow: str
    """Flow of the samples that both judged."""
    candidate: str
    """Candidate whose figures or images they are."""
    dimension: str
    """Dimension, or overall; for generated images a tag, or all prompts if there are several tags."""
    dataset: str
    """Name of the dataset."""
    dataset_key: str
    """Key of the samples' dataset; the trend is joined only on equal keys."""
    prompt_set: str
    """Name of the prompt set, or its folder: the same for both."""
    old_run: str
    """Evaluation that holds the old judge's replies."""
    new_run: str
    """Evaluation that holds the new judge's replies."""
    old_judge: str
    """Name by which the old judge was requested."""
    new_judge: str
    """Name by which the new judge was requested."""
    old_protocol_key: str
    """Protocol key of the old judge's evaluation; the bridge applies to scores with this key."""
    new_protocol_key: str
    """Protocol key of the new judge's evaluation."""
    highest: float
    """Upper end of the scale, which begins at 0."""
    judged: int
    """Samples that both judged; forfeits, which nobody judges, count only in n."""
    agreement: float | None
    """Share of equal answers, or of scores at most 1 point apart; None if no sample was judged by both."""
    kappa: float | None
    """Cohen's kappa, for scores with quadratic weights; None if one judge gave the same answer to everything."""
    confusion: dict[str, int]
    """Answers of the old and the new judge, as in `Model > Human` -> number of samples; scores in whole points."""


BRIDGES = Kept(BridgeRow, "bridge", "bridges", "bridge.jsonl", "bridge_id")
"""Bridges of a store."""
