"""Bridges: what two judges said of the same samples, kept beside the ledgers of the runs.

Owns `<store>/bridges/<bridge_id>/bridge.jsonl`, a row for each candidate and dimension, each with its checksum; written
once, whole, and never changed: the source of the history's table `bridges`. What it says is for `comparing.bridge`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from tasks.errors import InputError
from tasks.files import private_folder, write_whole
from tasks.ledger import reading as ledger
from tasks.ledger.checksums import sealed
from tasks.records import SCHEMA, Offset

ROWS = "bridge.jsonl"
FOLDER = "bridges"
"""Of the store: whole files, which the machines of a remote store share."""


class BridgeRow(Offset):
    """What two judges said of one candidate, on one dimension. Rows of a bridge's file."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row; an older row is lifted to the present one when it is read."""
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
    old_model: str
    """Old judge, as it was asked for."""
    new_model: str
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


def keep_bridge(store: Path, rows: Sequence[BridgeRow]) -> Path:
    """Write the rows of one bridge, at least one; returns their folder."""
    place = store / FOLDER / rows[0].bridge_id
    private_folder(place)
    write_whole(place / ROWS, b"".join(sealed(row.model_dump_json()) for row in rows))
    return place


def bridge_folders(store: Path) -> list[Path]:
    """Folders of all bridges in the store, oldest first."""
    return sorted(path.parent for path in (store / FOLDER).glob(f"*/{ROWS}"))


def read_bridge(place: Path) -> Iterator[BridgeRow]:
    """The rows of a bridge; InputError where one is damaged, of a newer version, or of another bridge."""
    file = place / ROWS
    for number, row in enumerate(ledger.read_rows(file), 1):
        found = ledger.validate_row(BridgeRow, row, file, number)
        if found.bridge_id != place.name:
            raise InputError(f"{file}, line {number}: refused: it is of another bridge")
        yield found


def history_rows(place: Path) -> Iterator[dict[str, Any]]:
    """The rows of a bridge as rows of the history's table `bridges`; InputError as `read_bridge`."""
    return (row.model_dump(mode="json") for row in read_bridge(place))
