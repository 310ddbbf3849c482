"""Bridges: what two judges said of the same samples, kept beside the ledgers of the runs.

Owns the rows of `<store>/bridges/<bridge_id>/bridge.jsonl`, one for each candidate and dimension: the source of the
history's table `bridges`. How they are kept is `kept_rows`', what they say is for `comparing.bridge`.
"""

from pydantic import Field

from tasks.ledger.kept_rows import Kept
from tasks.records import SCHEMA, Offset


class BridgeRow(Offset):
    """What two judges said of one candidate, on one dimension. Rows of a bridge's file."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    bridge_id: str
    """Name of the bridge and of its folder; ids sort by time."""
    made_at: str
    """When the two were compared, UTC, ISO 8601."""
    flow: str
    """Flow whose samples both judged."""
    candidate: str
    """Whose figures or images they are."""
    dimension: str
    """overall or a dimension; of generated images a tag, or all prompts where there are several tags."""
    dataset: str
    """Name of the dataset."""
    dataset_key: str
    """Key of the dataset that the samples are of; the trend is joined on equal ones alone."""
    prompt_set: str
    """Name of the prompt set, or its folder: the same for both."""
    old_run: str
    """Evaluation that holds the old judge's replies."""
    new_run: str
    """Evaluation that holds the new judge's replies."""
    old_judge: str
    """Old judge, as it was asked for."""
    new_judge: str
    """New judge, as it was asked for."""
    old_protocol_key: str
    """Protocol key of the old judge's evaluation: which scores the bridge is about."""
    new_protocol_key: str
    """Protocol key of the new judge's evaluation."""
    highest: float
    """Upper end of the scale, which begins at 0."""
    judged: int
    """Samples that both judged; forfeits, which nobody judges, count in n alone."""
    agreement: float | None
    """Share of equal answers, of scores at most 1 point apart; None where nothing was judged by both."""
    kappa: float | None
    """Cohen's kappa, of scores with quadratic weights; None where one judge has one answer for everything."""
    confusion: dict[str, int]
    """The old judge's answer and the new one's, as in `Model > Human` -> how often; scores in whole points."""


BRIDGES = Kept(BridgeRow, "bridge", "bridges", "bridge.jsonl", "bridge_id")
"""All that were made in a store."""
