"""Known endpoints: the table, short names, default keys, service tiers, and the recommended model."""

import asyncio
import json
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from flows.cli import COMMANDS, main
from flows.commands.options import parse_options
from tasks.endpoint.api_keys import find_key
from tasks.endpoint.catalog import (
    RECOMMENDED_ENDPOINT,
    RECOMMENDED_MODEL,
    Endpoint,
    addressed,
    endpoints,
    known_at,
    read_tables,
)
from tasks.errors import InputError
from tasks.judging.protocol_items import asked_protocol
from tasks.ledger.evaluations import judge_key
from tasks.records.judge import EMBEDDED, EMBEDDED_MODEL, Judge
from tasks.records.parameters import FLOWS, PairwiseParameters
from tasks.rubrics.rubric import Rubric

ROOT = Path(__file__).parents[1]
MODEL_NAMES = re.compile(
    r"(?<=--judge\.model )[^\s`]+(?<![,.])"
    r"|\b(?:gpt|claude|gemini|mistral|pixtral|llama|qwen)[\w.-]*\d[\w.:-]*(?<![.:])\b|\bo\d\b"
)
"""Values of `--judge.model`, and names of known model families."""
NO_MODELS = {"…", "MODEL", "X", EMBEDDED_MODEL, "my-vlm"}
"""Placeholders for a model name."""
WITH_ADDRESS = [name for name, each in endpoints().items() if not each.has_resources]
OPENAI = "https://api.openai.com/v1"


def parameters_for(base_url: str, **settings: Any) -> PairwiseParameters:
    return PairwiseParameters(judge=Judge(model="m", base_url=base_url, **settings))  # pyright: ignore


def test_eleven_endpoints_are_known() -> None:
    names = "openai azure gemini anthropic openrouter vllm ollama litellm groq together mistral"
    assert [*endpoints()] == names.split()
    hosts = {urlsplit(each.address).hostname for each in endpoints().values() if each.is_local}
    assert hosts <= {"localhost", "127.0.0.1"}, "all others are asked over https"


# The table's file


def test_all_problems_of_the_table_are_in_one_message(tmp_path: Path) -> None:
    sound = endpoints()["ollama"].model_dump(mode="json", exclude={"name", "worth_knowing", "looked_up"})
    lines = "\n".join(f"{key} = {value!r}" for key, value in sound.items()) + "\nlooked_up = 2026-11-22"
    file = tmp_path / "known.toml"
    wrong = [
        'loose = "x"',
        f"[a]\n{lines}",
        "[b]\n" + lines.replace("'max_tokens'", "'tokens'").replace("title", "titel"),
    ]
    file.write_text("\n".join(wrong), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_tables(file, Endpoint)
    assert str(caught.value).splitlines() == [
        f"{file} has 2 problems:",
        "  loose: found 'x'; allowed is a table",
        "  b: title: Field required",
    ]
    file.write_text("[a", encoding="utf-8")
    with pytest.raises(InputError, match=r"known\.toml is not TOML: "):
        read_tables(file, Endpoint)


# Short names


@pytest.mark.parametrize("name", WITH_ADDRESS)
def test_short_name_and_address_give_the_same_judge_key(name: str, diagram: Rubric) -> None:
    by_name = parse_options({"judge__base_url": name, "judge__model": "m"}, PairwiseParameters)
    by_address = parameters_for(endpoints()[name].address)
    assert by_name == by_address and addressed(by_address) is by_address
    assert addressed(parameters_for(f"{endpoints()[name].address}/")) == by_name
    keys = {judge_key(asked_protocol(each, diagram)) for each in (by_name, by_address)}
    assert len(keys) == 1 and known_at(by_name.judge.base_url) == endpoints()[name]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("azure", "Write https://RESOURCE.openai.azure.com/openai/v1 with the name of your resource in the place of "),
        ("azure", "JURY_ENDPOINTS=RESOURCE.openai.azure.com=AZURE_OPENAI_API_KEY"),
        ("ai", "judge.base_url 'ai' is no address: allowed are `embedded`, http://… and https://…, and the short"),
        ("ai", "openai, azure, gemini, "),
    ],
)
def test_name_without_address_is_refused_with_advice(name: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        addressed(parameters_for(name))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("https://api.openai.com/v1/", "openai"),
        ("https://my-team.openai.azure.com/openai/v1", "azure"),
        ("http://gpu-box:11434/v1", "ollama"),
        ("http://127.0.0.1:8000/v1", "vllm"),
        ("https://api.openai.com.evil.example/v1", ""),
        ("https://openai.azure.com.evil.example/v1", ""),
        ("http://127.0.0.1:8001/v1", ""),
        ("embedded", ""),
    ],
)
def test_endpoint_is_recognized_only_at_its_own_addresses(base_url: str, name: str) -> None:
    found = known_at(base_url)
    assert (found.name if found else "") == name


# Keys


@pytest.mark.parametrize("name", [name for name in WITH_ADDRESS if not endpoints()[name].is_local])
def test_default_key_variable_is_used_if_none_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_ENDPOINTS", "")
    monkeypatch.setenv(endpoints()[name].key, "usual")
    judge = addressed(parameters_for(name)).judge
    assert asyncio.run(find_key(judge)) == "usual"


# The command `jury judge endpoints`


def test_command_lists_endpoints_and_all_their_facts_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", "endpoints"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:12]] == [*endpoints()]
    assert main(["judge", "endpoints", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [each.model_dump(mode="json") for each in endpoints().values()]


# Service tiers


@pytest.mark.parametrize("name", [name for name in WITH_ADDRESS if "flex" in endpoints()[name].tiers])
def test_flex_tier_raises_timeouts_that_are_not_set(name: str) -> None:
    judge = addressed(parameters_for(name, service_tier="flex", call_seconds=700)).judge
    assert (judge.timeout_seconds, judge.call_seconds, judge.patience_seconds) == (900, 700, 3600)
    as_filled_in = Judge.model_validate(Judge(model="m", base_url=name).model_dump() | {"service_tier": "flex"})
    sent_by_a_form = PairwiseParameters(judge=as_filled_in)
    assert addressed(sent_by_a_form).judge.timeout_seconds == 900
    once = addressed(parameters_for(name, service_tier="flex"))
    assert addressed(once).judge == once.judge
    assert addressed(parameters_for(name)).judge.timeout_seconds == 120


@pytest.mark.parametrize(
    ("base_url", "words"),
    [
        ("mistral", "judge.service_tier is 'flex': Mistral does not document it; it is available from OpenAI, Azure"),
        ("https://judge.example/v1", "the service tiers of the endpoint https://judge.example/v1 are unknown; it is"),
        (EMBEDDED, "the service tiers of the endpoint embedded are unknown; it is available from "),
    ],
)
def test_unsupported_service_tier_is_refused(base_url: str, words: str) -> None:
    model = EMBEDDED_MODEL if base_url == EMBEDDED else "m"
    with pytest.raises(InputError) as caught:
        addressed(PairwiseParameters(judge=Judge(model=model, base_url=base_url, service_tier="flex")))
    assert words in str(caught.value) and "Leave judge.service_tier out" in str(caught.value)


# The recommended model


def help_texts() -> str:
    """Return the help of all commands and flows."""
    commands = [path.split() for entries in COMMANDS.values() for path in entries] + [["run", flow] for flow in FLOWS]
    with redirect_stdout(StringIO()) as out:
        assert {main([*words, "--help"]) for words in commands} == {0}
    return out.getvalue()


def test_documentation_and_help_name_only_the_recommended_model() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    in_pages = {name for page in pages for name in MODEL_NAMES.findall(page.read_text(encoding="utf-8"))}
    named = (in_pages | {*MODEL_NAMES.findall(help_texts())}) - NO_MODELS
    assert RECOMMENDED_MODEL in in_pages and named == {RECOMMENDED_MODEL} and RECOMMENDED_ENDPOINT in endpoints()
