"""Calls of ours that judge no sample and cost money all the same: first questions, and what a passport asks.

Owns the rows of `<store>/calls/<calls_id>/calls.jsonl`, one for each call, with what it took and what it cost, and
nothing of what was asked and said: the source of the history's table `other_calls`. How they are kept is `kept_rows`',
when they are written down is for `spending.other_calls`. All other calls are judgments, in the ledgers of runs.
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
    """A call that judges no sample. Rows of a file of such calls."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    calls_id: str
    """Name of the folder of what was written down together; ids sort by time."""
    purpose: Purpose
    """probe: whether the judge is there; passport: what it can see."""
    asked_by: str
    """Passport that asked it; empty: none."""
    flow: str
    """Flow whose run asked it; empty: none."""
    asked_at: str
    """When its reply came, UTC, ISO 8601."""
    status: JudgmentStatus
    """As of a judgment; invalid is never said, for nothing is made of the reply here."""
    judge_asked: str
    """Judge, by the name that it is asked by."""
    judge_answered: str
    """Name that it answered by; empty: it told none."""
    endpoint: str
    """Address of the judge."""
    service_tier: str
    """In which it was billed, as far as the endpoint tells."""
    tokens_in: int
    """Tokens of the question, with those of its pictures."""
    tokens_out: int
    """Tokens of the reply, reasoning included."""
    tokens_cached: int
    """Of `tokens_in`, those that were read from a cache."""
    tokens_written: int
    """Of `tokens_in`, those that were written to a cache."""
    tokens_pictures: int
    """Of `tokens_in`, those of pictures, where the endpoint tells."""
    tokens_reasoning: int
    """Of `tokens_out`, those of reasoning, where the endpoint tells."""
    price: float | None
    """What it cost; None: that is not known."""
    price_source: str
    """Where the price is from; empty: nowhere."""
    estimated: float | None
    """What sends without a reply may have cost besides; in no price. None: that is not known."""
    saved_by_service_tier: float | None
    """What it cost less than in the standard tier."""
    saved_by_cache: float | None
    """What it cost less for what was read from a cache, less what was paid for writing there."""
    seconds: float
    """That it took."""


OTHER_CALLS = Kept(OtherCall, "set of calls", "calls", "calls.jsonl", "calls_id")
"""All that were made in a store."""


def other_calls_of(store: Path, month: str) -> dict[str, list[OtherCall]]:
    """Those of a month, by the passport that asked them, or each set of others by itself; none that cannot be read.

    Args:
        month: `2026-11`, UTC.
    """
    found: defaultdict[str, list[OtherCall]] = defaultdict(list)
    for place in OTHER_CALLS.folders(store):
        if place.name[:6] >= month.replace("-", ""):  # none is written down before it was asked
            with suppress(InputError, OSError):  # `sync` reports it
                for row in OTHER_CALLS.read(place):
                    if row.asked_at.startswith(month):
                        found[row.asked_by or row.calls_id].append(row)
    return dict(found)
