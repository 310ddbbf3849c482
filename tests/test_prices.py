"""Prices: the sources and their precedence, and the price of a call."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from tasks.endpoint.replies import Usage
from tasks.errors import InputError
from tasks.records.judge import Judge
from tasks.spending.prices import check_price_files, tariff

AT = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
CACHED = Usage(tokens_in=10_000, tokens_cached=9_000, tokens_out=500)
OPENAI, GEMINI = "https://api.openai.com/v1", "https://generativelanguage.googleapis.com/v1beta/openai"


def judge(model: str = "gpt-5", base_url: str = OPENAI, **given: float) -> Judge:
    return Judge(model=model, base_url=base_url, **given)


def price(asked: Judge, usage: Usage = CACHED, model: str = "", tier: str = "", at: datetime = AT) -> float | None:
    found = tariff(asked, model, tier, at)
    return found and found.price(usage)


def source(asked: Judge, tier: str = "", at: datetime = AT) -> str:
    found = tariff(asked, "", tier, at)
    return found.source if found else ""


@pytest.fixture
def own_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the worker's own file of prices, still empty."""
    file = tmp_path / "own.toml"
    file.touch()
    monkeypatch.setenv("JURY_PRICES", str(file))
    return file


@pytest.mark.parametrize(
    ("model", "tier", "usage", "expected"),
    [
        ("gpt-5", "", Usage(tokens_in=10_000, tokens_out=500), 0.0175),
        ("gpt-5", "", CACHED, 0.007375),
        ("gpt-5", "standard", CACHED, 0.007375),
        ("gpt-5", "flex", CACHED, 0.0036875),
        ("gpt-5", "batch", CACHED, 0.0036875),
        ("gpt-5", "priority", CACHED, 0.01475),
        ("gpt-5.6-terra", "", Usage(10_000, 4_000, 5_000, 0, 500), 0.002 + 0.0008 + 0.0125 + 0.006),
        ("gpt-5.6-terra", "", Usage(tokens_in=272_000), 0.544),
        ("gpt-5.6-terra", "", Usage(tokens_in=272_001), 1.088004),
        ("gpt-5", "scale", CACHED, None),
        ("nobody-knows-it", "", CACHED, None),
    ],
)
def test_price_by_model_tier_tokens_and_length(model: str, tier: str, usage: Usage, expected: float | None) -> None:
    assert price(judge(model), usage, tier=tier) == (expected if expected is None else pytest.approx(expected))


def test_price_is_that_of_its_day_and_names_its_source() -> None:
    assert source(judge()) == "genai-prices 0.2.3: openai gpt-5, standard, 2026-11-22"
    before, after = (price(judge("o3"), Usage(1_000_000), at=AT.replace(2025, 6, day)) for day in (1, 20))
    assert (before, after) == (pytest.approx(10.0), pytest.approx(2.0))
    assert price(judge(), tier="flex", at=AT.replace(2026, 10, 1)) is None, "unknown before the table has it"


def test_answered_model_is_billed_else_the_requested_one() -> None:
    azure = judge("our-deployment", "https://ours.openai.azure.com/openai/v1")
    assert price(azure, model="gpt-5-2025-08-07") == pytest.approx(0.007375)
    assert price(azure) is None
    assert price(judge(), model="something-else") == pytest.approx(0.007375)


def test_our_table_fills_gaps_of_genai_prices() -> None:
    asked = judge("gemini-3.5-flash", GEMINI)
    assert price(asked, tier="flex") == pytest.approx((price(asked) or 0) / 2)
    said = "prices.toml of 2026-11-22: gemini-flex, flex, 0.5 of genai-prices 0.2.3: google gemini-3.5-flash, standard"
    assert source(asked, "flex") == f"{said}, 2026-11-22"
    assert price(judge("unknown", GEMINI), tier="flex") is None


def test_worker_prices_precede_the_tables(own_prices: Path) -> None:
    own_prices.write_text("""
        [agreed]
        endpoint = "openai"
        model = "gpt-5*"
        input = 1.0
        cached = 0.1
        output = 8.0
        looked_up = 2026-11-01
        [later]
        endpoint = "openai"
        model = "gpt-5"
        since = 2026-12-01
        input = 2.0
        output = 16.0
        looked_up = 2026-11-01
        [cluster]
        endpoint = "http://127.0.0.1:8000/v1/"
        model = "*"
        input = 0.5
        output = 0.5
        looked_up = 2026-11-01
        """)
    assert price(judge()) == pytest.approx(0.001 + 0.0009 + 0.004)
    assert source(judge()) == "own.toml of 2026-11-01: agreed, standard"
    assert price(judge(), at=AT.replace(month=12)) == pytest.approx(0.02 + 0.008)
    assert price(judge(), tier="flex") == pytest.approx(0.0036875), "the worker's file has no other tier"
    assert price(judge("qwen", "http://127.0.0.1:8000/v1")) == pytest.approx(0.00525)


def test_judge_parameters_precede_all_prices(own_prices: Path) -> None:
    own_prices.write_text('[a]\nendpoint="openai"\nmodel="*"\ninput=9\noutput=9\nlooked_up=2026-11-01\n')
    given = judge(price_in=1.0, price_out=8.0)
    assert price(given) == pytest.approx(0.01 + 0.004)
    detailed = judge(price_in=1.0, price_out=8.0, price_cached=0.1, price_written=2.0)
    assert price(detailed) == pytest.approx(0.001 + 0.0009 + 0.004)
    assert price(detailed, Usage(1_000, 0, 1_000), tier="flex") == pytest.approx(0.002)
    assert source(given) == "the judge's own parameters"
    with pytest.raises(ValidationError, match=r"need judge\.price_in"):
        judge(price_cached=0.1)


@pytest.mark.parametrize(("given", "lacking"), [("in", "out"), ("out", "in")])
def test_input_price_without_output_price_is_refused(given: str, lacking: str) -> None:
    with pytest.raises(ValidationError, match=rf"judge\.price_{given} is given and judge\.price_{lacking} is not"):
        judge(**{f"price_{given}": 1.0})


def test_local_judge_has_unknown_price_and_embedded_judge_zero() -> None:
    local = judge("gpt-5", "http://127.0.0.1:8000/v1")
    assert price(local) is None
    assert price(Judge(), Usage()) == 0.0 and source(Judge()) == "the embedded judge costs nothing"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[a]\nmodel="m"\nlooked_up=2026-11-01', "endpoint"),
        ('[a]\nendpoint="nowhere"\nmodel="m"\ninput=1\noutput=1\nlooked_up=2026-11-01', "an address or one of openai"),
        ('[a]\nendpoint="openai"\nmodel="m"\ninput=1\nlooked_up=2026-11-01', "either input and output"),
        ('[a]\nendpoint="openai"\nmodel="m"\nof_standard=0.5\nlooked_up=2026-11-01', "name another tier"),
        ('[a]\nendpoint="openai"\nmodel="m"\ninput=-1\noutput=1\nlooked_up=2026-11-01', "greater than or equal to 0"),
        ("prices: none", "not TOML"),
    ],
)
def test_invalid_worker_prices_are_an_error(own_prices: Path, text: str, words: str) -> None:
    own_prices.write_text(text)
    with pytest.raises(InputError, match=words):
        check_price_files()


def test_missing_price_file_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_PRICES", "/nowhere/prices.toml")
    with pytest.raises(InputError, match=r"JURY_PRICES names '/nowhere/prices\.toml', which is no file"):
        check_price_files()
