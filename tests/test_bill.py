"""The bill of a run in progress: what replies cost, what was saved, and the expected total."""

import asyncio
from typing import Any

import pytest

from tasks.endpoint.replies import Reply, Usage
from tasks.endpoint.requests import Request
from tasks.records.judge import Judge
from tasks.spending.bill import Bill, Charge
from tasks.text import money

QUESTION = Request("Compare.", ("A question.",), "diagram_faithfulness", {})
TOKENS: dict[str, Any] = {"usage": Usage(10_000, 9_000, tokens_out=500), "model": "gpt-5"}


def charge(bill: Bill, reply: Reply, dimension: str = "faithfulness") -> Charge:
    return asyncio.run(bill.charge(QUESTION, reply, dimension))


def openai_bill() -> Bill:
    return Bill(Judge(model="gpt-5", base_url="https://api.openai.com/v1"))


def own_bill() -> Bill:
    return Bill(Judge(model="m", base_url="http://127.0.0.1:8000/v1", price_in=1.0, price_out=10.0, price_cached=0.1))


def test_charge_includes_savings_by_tier_and_cache() -> None:
    found = charge(openai_bill(), Reply("ok", **TOKENS, tier="flex"))
    amounts = (found.price, found.saved_by_service_tier, found.saved_by_cache)
    assert amounts == pytest.approx((0.0036875, 0.0036875, 0.00875 - 0.0036875))
    assert found.price_source.startswith("genai-prices 0.2.3: openai gpt-5, flex, 20") and found.estimated == 0


def test_price_and_savings_of_an_unpriced_tier_are_unknown() -> None:
    found = charge(openai_bill(), Reply("ok", **TOKENS, tier="scale"))
    assert found == Charge(None, "", 0.0, None, None)


@pytest.mark.parametrize("tier", ["flex", "batch"])
def test_reply_without_a_tier_is_priced_as_standard(tier: str) -> None:
    """A batch's leftover calls are asked live; a reply that omits its tier must not get a discount."""
    judge = Judge.model_validate({"model": "gpt-5", "base_url": "https://api.openai.com/v1", "service_tier": tier})
    found = charge(Bill(judge), Reply("ok", **TOKENS))
    assert found == charge(openai_bill(), Reply("ok", **TOKENS)) and ", standard, " in found.price_source
    assert found.price == pytest.approx(2 * 0.0036875)
    assert charge(Bill(judge), Reply("ok", **{**TOKENS, "model": ""})).price == found.price


def test_cache_writes_may_cost_more_than_they_save() -> None:
    bill = Bill(Judge(model="gpt-5.6-terra", base_url="https://api.openai.com/v1"))
    found = charge(bill, Reply("ok", usage=Usage(10_000, tokens_written=8_000), model="gpt-5.6-terra"))
    assert found.saved_by_cache == pytest.approx(-8_000 * 0.5 / 1e6)


def test_timed_out_calls_are_estimated_from_their_own_dimension() -> None:
    bill = own_bill()
    for dimension, tokens in (("faithfulness", 2_000), ("faithfulness", 4_000), ("readability", 900_000)):
        charge(bill, Reply("ok", usage=Usage(tokens, tokens_out=100)), dimension)
    found = charge(bill, Reply("unavailable", timed_out=2))
    assert (found.price, found.estimated) == (0.0, pytest.approx(2 * (3_000 * 1 + 100 * 10) / 1e6))
    unpriced = Bill(Judge(model="m", base_url="http://127.0.0.1:8000/v1"))
    assert charge(unpriced, Reply("ok", usage=Usage(9), timed_out=1)).estimated is None


def test_total_is_expected_from_the_mean_price_of_ended_calls() -> None:
    bill = own_bill()
    assert bill.words(0, 100) == ""
    for _ in range(8):
        charge(bill, Reply("ok", usage=Usage(100_000)))
    assert bill.words(0, 100) == "0.8000"
    assert bill.words(4, 100) == "0.8000 of about 20.0000", "half of the calls were asked again"
    bill.most, bill.most_is = 10.0, "all of its budget"
    assert bill.words(4, 100) == "0.8000 of about 10.0000 (all of its budget)"
    bill.pay(Charge(0.5), Reply("ok"))
    assert bill.words(8, 16) == "1.3000 of about 2.1000", "the first question is asked once"


@pytest.mark.parametrize("judge", [Judge(), Judge(model="m", base_url="http://127.0.0.1:8000/v1")])
def test_free_or_unknown_prices_print_nothing(judge: Judge) -> None:
    bill = Bill(judge)
    charge(bill, Reply("ok", usage=Usage(100_000), model="m"))
    assert bill.words(1, 2) == ""


def test_call_that_never_reached_the_model_costs_nothing() -> None:
    bill = own_bill()
    assert charge(bill, Reply("rejected", error="400: too long")).price == 0.0
    assert charge(bill, Reply("unavailable", error="502")).price == 0.0
    assert charge(bill, Reply("ok", text="…", model="m")).price is None, "answered without token counts"
    assert bill.words(3, 3) == ""


@pytest.mark.parametrize(
    ("amount", "words"),
    [(None, "unknown"), (0.0, "0.0000"), (0.00001, "below 0.0001"), (0.00006, "0.0001"), (1234.5, "1,234.50")],
)
def test_tiny_amounts_are_not_shown_as_zero(amount: float | None, words: str) -> None:
    assert money(amount) == words
