"""Ends of models: which are known, from when on they are warned of, and how the extract is renewed."""

import json
from datetime import date
from pathlib import Path

import pytest

from tasks.endpoint import shutdown_dates
from tasks.endpoint.known import endpoints
from tasks.endpoint.models import ANNOUNCED, Dated, ending, read_shutdowns, recommended
from tasks.endpoint.shutdown_dates import SOURCE, as_toml, dates_of, read_data
from tasks.endpoint.tables import read_tables
from tasks.errors import InputError

OPENAI = "https://api.openai.com/v1"
DAY = date(2026, 11, 22)


def row(provider: str = "openai", mode: str = "chat", ends: object = "2026-12-11") -> dict[str, object]:
    """A model as the public data has it, with the fields that are read and others."""
    return {"litellm_provider": provider, "mode": mode, "deprecation_date": ends, "max_tokens": 1}


@pytest.mark.parametrize(
    ("day", "words"),
    [
        ("2026-10-11", None),
        ("2026-10-12", "gpt-5 (OpenAI) ends on 2026-12-11, in 60 days"),
        ("2026-12-10", "gpt-5 (OpenAI) ends on 2026-12-11, in 1 day"),
        ("2026-12-11", "gpt-5 (OpenAI) ends on 2026-12-11, today"),
        ("2026-12-12", "gpt-5 (OpenAI) ended on 2026-12-11"),
    ],
)
def test_a_model_is_warned_of_from_sixty_days_before_its_end_on(day: str, words: str | None) -> None:
    found = ending("gpt-5", OPENAI, date.fromisoformat(day))
    assert (found and found.words(date.fromisoformat(day))) == words


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("gpt-5", "http://127.0.0.1:4000/v1"),  # a proxy's name for whatever it likes
        ("gpt-5", "https://my-team.openai.azure.com/openai/v1"),
        ("gpt-5", "https://openrouter.ai/api/v1"),
        ("gpt-99", OPENAI),
        ("pixel-baseline", "embedded"),
        ("", ""),
    ],
)
def test_of_a_model_that_is_not_known_nothing_is_said(model: str, base_url: str) -> None:
    assert ending(model, base_url, date(2099, 1, 1)) is None


def test_a_short_name_is_an_address_and_what_was_looked_up_by_hand_counts() -> None:
    assert ending("gpt-5", "openai", DAY) == ending("gpt-5", f"{OPENAI}/", DAY) != None  # noqa: E711
    by_hand = read_tables(ANNOUNCED, Dated)
    assert by_hand and all(each.ends and each.page.startswith("https://") for each in by_hand.values())
    for each in by_hand.values():
        found = ending(each.name, each.endpoint, date(2099, 1, 1))
        assert found and found.source == f"by {each.page}, looked up {each.looked_up}"


def test_the_extract_has_its_date_and_its_source_and_no_recommended_model_ends() -> None:
    extract = read_shutdowns()
    assert extract.source == SOURCE and extract.looked_up >= DAY
    assert {*extract.models} <= {*endpoints()} and sum(map(len, extract.models.values())) > 100
    assert all(not ending(each.name, each.endpoint, extract.looked_up) for each in recommended().values())


def test_of_the_public_data_chat_models_of_known_endpoints_with_an_end_are_taken() -> None:
    table = {
        "b-model": row(ends="2027-01-14"),
        "a-model": row(),
        "gemini/flash": row("gemini"),
        "gemini/voice": row("gemini", mode="audio_speech"),
        "together_ai/some/model": row("together_ai"),
        "azure/a-model": row("azure"),
        "no-end": row(ends=None),
        "no-date": row(ends="date when the model is switched off"),
        "sample_spec": "no row",
    }
    found = dates_of(table)
    assert {name: [*dates] for name, dates in found.items()} == {
        "openai": ["a-model", "b-model"],
        "gemini": ["flash"],
        "together": ["some/model"],
    }
    assert found["openai"]["b-model"] == date(2027, 1, 14)


@pytest.mark.parametrize("text", ["<html>", "[]", "{}", json.dumps({"one": row()})])
def test_data_with_nothing_in_it_does_not_wipe_out_what_is_known(text: str) -> None:
    with pytest.raises(InputError):
        read_data(text, DAY)


def test_the_extract_is_written_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.json"
    data.write_text(json.dumps({f'odd "name" {number}': row() for number in range(30)}), encoding="utf-8")
    monkeypatch.setattr(shutdown_dates, "SHUTDOWNS", tmp_path / "shutdowns.toml")
    shutdown_dates.main([str(data)])
    assert ": 30 models, looked up 20" in capsys.readouterr().out
    extract = read_shutdowns(tmp_path / "shutdowns.toml")
    assert extract.models["openai"]['odd "name" 7'] == date(2026, 12, 11)
    assert as_toml(extract) == (tmp_path / "shutdowns.toml").read_text(encoding="utf-8")
    (tmp_path / "shutdowns.toml").write_text("looked_up = yesterday", encoding="utf-8")
    with pytest.raises(InputError, match="`make models` writes it anew"):
        read_shutdowns(tmp_path / "shutdowns.toml")
