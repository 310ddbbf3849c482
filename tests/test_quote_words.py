"""Quotes as text: a price for each service tier, and unknown values stated as unknown."""

from datetime import UTC, datetime

import pytest

from tasks.records.judge import Judge
from tasks.spending.prices import FREE, Amounts, tariff
from tasks.spending.quote import Call, Expected, Quote, Seen, quote_of

OPENAI = Judge(model="gpt-5", base_url="https://api.openai.com/v1")
CALLS = [Call(f"k{n}", (f"s{n}", "alpha", ""), "readability", f"t{n}", 4000, 2, 1.0) for n in range(1000)]
ALIKE = Expected([Seen("readability", Amounts(10_000, 9_000, 0, 500), 8.0, 4000, 1.0)] * 20)


def quoted(judge: Judge = OPENAI, expected: Expected = ALIKE) -> Quote:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    found = {tier: tariff(judge, "", tier, now) for tier in ("standard", "flex", "batch")}
    return quote_of("diagram", judge, CALLS, expected, {tier: each for tier, each in found.items() if each})


def test_each_service_tier_with_known_price_is_listed() -> None:
    assert quoted().lines() == [
        "1,000 calls to be made about 1,000 samples, with 2,000 pictures",
        "10,000,000 (10,000,000 to 10,000,000) tokens in, 500,000 (500,000 to 500,000) out",
        "price in the tier standard: 7.3750 US dollars, by genai-prices 0.2.3 (7.3750 to 7.3750)",
        "price in the tier flex: 3.6875 US dollars, by genai-prices 0.2.3 (3.6875 to 3.6875)",
        "price in the tier batch: 3.6875 US dollars, by genai-prices 0.2.3 (3.6875 to 3.6875)",
        "time: 8 min with 16 calls at once; as a batch up to 24 hours",
        "by 20 earlier replies of this judge",
    ]


@pytest.mark.parametrize(
    ("judge", "line"),
    [
        (Judge(model="m", base_url="http://127.0.0.1:8000/v1"), "price: unknown"),
        (Judge(model="nobody-knows-it", base_url=OPENAI.base_url), "price: unknown"),
        (Judge(), f"price: 0, {FREE.source}"),
    ],
)
def test_unknown_price_is_stated_and_the_embedded_judge_is_free(judge: Judge, line: str) -> None:
    assert line in quoted(judge).lines()


def test_quote_without_earlier_replies_is_unknown() -> None:
    found = quoted(expected=Expected([]))
    assert found.taken is None and found.lines()[1].startswith(
        "tokens, price and time: unknown, for this judge has not"
    )
