"""Expected cost of a passport, before it is asked: by an earlier one of the judge, else by its questions."""

from pathlib import Path
from typing import NamedTuple

from tasks.errors import InputError
from tasks.ledger.other_calls import OTHER_CALLS, OtherCall
from tasks.parameters import Judge
from tasks.spending.bill import CHARACTERS_A_TOKEN, PICTURE_TOKENS, REPLY_TOKENS
from tasks.spending.prices import Amounts, Tariff

LETTERS, PICTURES = 800, 1.3
"""Mean number of a question's characters, with the form of the reply, and of its pictures."""


class Expected(NamedTuple):
    """Expected cost."""

    amount: float
    by: str
    """Basis of the estimate, in words."""


def expected_price(store: Path, judge: Judge, tariff: Tariff, questions: int) -> Expected:
    """Estimate the cost of so many questions of a passport, by the newest calls for one of this judge, if any."""
    earlier = _earlier(store, judge)
    if earlier:
        known = sum(row.price or 0.0 for row in earlier) / len(earlier)
        return Expected(questions * known, "by an earlier passport")
    sent = LETTERS / CHARACTERS_A_TOKEN + PICTURES * PICTURE_TOKENS
    each = tariff.price(Amounts(sent, tokens_out=REPLY_TOKENS))
    return Expected(questions * each, f"at {REPLY_TOKENS} tokens a reply")


def _earlier(store: Path, judge: Judge) -> list[OtherCall]:
    """Return the calls for the newest passport of this judge that have a price."""
    rows = (row for place in reversed(OTHER_CALLS.folders(store)) for row in _readable(place))
    named = (judge.model, judge.base_url)
    like = [row for row in rows if row.asked_by and row.price and (row.judge_asked, row.endpoint) == named]
    return [row for row in like if row.asked_by == like[0].asked_by]


def _readable(place: Path) -> list[OtherCall]:
    try:
        return [*OTHER_CALLS.read(place)]
    except (InputError, OSError):
        return []
