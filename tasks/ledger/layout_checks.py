"""Layout checks: how far one judge agrees with itself in the shared and in the published layout, kept in the store.

Owns the rows of `<store>/layouts/<check_id>/layouts.jsonl`, one for overall and for each dimension, of all candidates
together and, where there are several, of each: the source of the history's table `layout_checks`. How they are kept is
`kept_rows`', what is compared is for `comparing.layouts`.
"""

from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field

from tasks.errors import InputError
from tasks.ledger.kept_rows import Kept
from tasks.records import SCHEMA, HistoryRecord


class LayoutRow(HistoryRecord):
    """What one judge said of the same samples in both layouts, overall or on one dimension. Rows of a check's file."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row; an older row is lifted to the present one when it is read."""
    check_id: str
    """Name of the check and of its folder; ids sort by time."""
    made_at: str
    """When the two were compared, UTC, ISO 8601."""
    flow: str
    """Flow whose samples were judged."""
    candidate: str = ""
    """Whose figures were judged; empty: those of all candidates together."""
    dimension: str
    """overall or a dimension."""
    n: int
    """Samples with an answer in both layouts."""
    agreement: float | None
    """Share of equal answers, 0-1; None where there are none."""
    agreement_low: float | None
    """Lower end of its 95% interval; None below 50 samples."""
    agreement_high: float | None
    """Upper end of it."""
    kappa: float | None
    """Cohen's kappa; None where one layout has one answer for everything."""
    kappa_low: float | None
    """Lower end of its 95% interval; None below 50 samples."""
    kappa_high: float | None
    """Upper end of it."""
    own_by: Literal["run", "votes", ""]
    """How the agreement of the published layout with itself is known: by another run of the same protocol, by the first
    two votes of each question (which are single answers, where the above compares what the votes come to); empty: it is
    not."""
    own_n: int
    """Samples that this is known of."""
    own_agreement: float | None
    """Share of equal answers of the published layout and itself."""
    own_kappa: float | None
    """Cohen's kappa of it."""
    confusion: dict[str, int]
    """The answer in the published layout and the one in the shared one, as in `Model > Human` -> how often."""
    model: str
    """Judge, as it was asked for."""
    endpoint: str
    """Address of the judge."""
    prompt_set: str
    """Name of the prompt set, or its folder."""
    dataset: str
    """Name of the dataset."""
    published_run: str
    """Evaluation in the published layout."""
    shared_run: str
    """Evaluation in the shared layout."""
    published_protocol_key: str
    """Protocol key of the evaluation in the published layout."""
    shared_protocol_key: str
    """Protocol key of the evaluation in the shared layout: which scores the check stands beside."""


LAYOUT_CHECKS = Kept(LayoutRow, "check", "layouts", "layouts.jsonl", "check_id")
"""All that were made in a store."""


def newest_check(store: Path, protocol_key: str) -> list[LayoutRow]:
    """The newest check that stands beside scores of this protocol; empty: there is none that can be read."""
    for place in reversed(LAYOUT_CHECKS.folders(store)):
        with suppress(InputError, OSError):
            rows = [*LAYOUT_CHECKS.read(place)]
            if rows and rows[0].shared_protocol_key == protocol_key:
                return rows
    return []
