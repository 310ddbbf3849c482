"""Paid calls that judge no sample: first questions, and the questions of a passport.

`<store>/calls/<calls_id>/calls.jsonl` has one row for each call, with its usage and cost, but neither question nor
reply. The rows are the source of the history's table `other_calls`. `spending.other_calls` makes the rows, `kept_rows`
stores them. All other calls are judgments, in the ledgers of runs.
"""

from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field

from tasks.errors import InputError
from tasks.ledger.kept_rows import Kept
from tasks.records import SCHEMA, HistoryRecord, JudgmentStatus

Purpose = Literal["probe", "passport"]


class OtherCall(HistoryRecord):
    """Call that judges no sample: a row of a file of such calls."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    calls_id: str
    """Name of the folder of the calls that were written together; ids sort by time."""
    purpose: Purpose
    """probe: first question, a test that the judge is available; passport: exam of the judge on drawn pictures."""
    asked_by: str
    """Passport that asked the question; empty: none."""
    flow: str
    """Flow whose run asked the question; empty: none."""
    asked_at: str
    """Time of the reply, UTC, ISO 8601."""
    status: JudgmentStatus
    """Status as of a judgment; never invalid, because the reply is not parsed here."""
    judge_asked: str
    """Name by which the judge is requested."""
    judge_answered: str
    """Name in the judge's reply; empty: the reply had none."""
    endpoint: str
    """Address of the judge."""
    service_tier: str
    """Service tier in which the call was billed, if the endpoint reports it."""
    tokens_in: int
    """Tokens of the question, including its pictures."""
    tokens_out: int
    """Tokens of the reply, reasoning included."""
    tokens_cached: int
    """Tokens of `tokens_in` that were read from a cache."""
    tokens_written: int
    """Tokens of `tokens_in` that were written to a cache."""
    tokens_pictures: int
    """Tokens of `tokens_in` that are of pictures, if the endpoint reports them."""
    tokens_reasoning: int
    """Tokens of `tokens_out` that are reasoning, if the endpoint reports them."""
    price: float | None
    """Cost of the call; None: unknown."""
    price_source: str
    """Source of the price; empty: none."""
    estimated: float | None
    """Possible extra cost of sends without a reply, which is in no price; None: unknown."""
    saved_by_service_tier: float | None
    """Saving compared with the standard tier."""
    saved_by_cache: float | None
    """Saving by tokens read from a cache, minus the extra cost of tokens written to it."""
    seconds: float
    """Duration of the call."""


OTHER_CALLS = Kept(OtherCall, "set of calls", "calls", "calls.jsonl", "calls_id")
"""Sets of calls in a store."""


def other_calls_of(store: Path, month: str) -> dict[str, list[OtherCall]]:
    """Return the calls of a month by the passport that asked them, or by set of calls. Unreadable sets are skipped.

    Args:
        month: `2026-11`, UTC.
    """
    found: defaultdict[str, list[OtherCall]] = defaultdict(list)
    for place in OTHER_CALLS.folders(store):
        if place.name[:6] >= month.replace("-", ""):  # a set is written after its calls were asked
            with suppress(InputError, OSError):  # `jury store sync` reports it
                for row in OTHER_CALLS.read(place):
                    if row.asked_at.startswith(month):
                        found[row.asked_by or row.calls_id].append(row)
    return dict(found)
