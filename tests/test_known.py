"""Known endpoints and models: the tables, short names, usual keys, and ends of models that are warned of."""

import asyncio
import json
import re
from contextlib import redirect_stdout
from datetime import date, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from flows.cli import COMMANDS, main
from flows.commands.options import parse_options
from tasks.endpoint.api_keys import find_key
from tasks.endpoint.catalog import (
    ANNOUNCED,
    Dated,
    Endpoint,
    addressed,
    ending,
    endpoints,
    known_at,
    read_shutdowns,
    read_tables,
    recommended,
)
from tasks.errors import InputError
from tasks.judging.protocol import asked_protocol
from tasks.ledger.evaluations import judge_key
from tasks.records.judge import EMBEDDED, EMBEDDED_MODEL, Judge
from tasks.records.parameters import FLOWS, PairwiseParameters
from tasks.rubrics.rubric import Rubric

README = Path(__file__).parents[1] / "README.md"
MODEL_NAMES = re.compile(
    r"(?<=--judge\.model )[^\s`]+(?<![,.])"
    r"|\b(?:gpt|claude|gemini|mistral|pixtral|llama|qwen)[\w.-]*\d[\w.:-]*(?<![.:])\b|\bo\d\b"
)
"""What is given as a judge's model, and names of the families that judge."""
NO_MODELS = {"…", "MODEL", "X", EMBEDDED_MODEL}
"""What stands in the place of a model, and never ends."""
WITH_ADDRESS = [name for name, each in endpoints().items() if not each.has_resources]
OPENAI = "https://api.openai.com/v1"
DAY = date(2026, 11, 22)


def asking(base_url: str, **settings: Any) -> PairwiseParameters:
    return PairwiseParameters(judge=Judge(model="m", base_url=base_url, **settings))  # pyright: ignore


def test_the_eleven_endpoints_are_known() -> None:
    names = "openai azure gemini anthropic openrouter vllm ollama litellm groq together mistral"
    assert [*endpoints()] == names.split()


# The file


def test_all_that_is_wrong_with_the_table_is_told_in_one_message(tmp_path: Path) -> None:
    sound = endpoints()["ollama"].model_dump(mode="json", exclude={"name", "worth_knowing", "looked_up"})
    lines = "\n".join(f"{key} = {value!r}" for key, value in sound.items()) + "\nlooked_up = 2026-11-22"
    file = tmp_path / "known.toml"
    wrong = [
        'loose = "x"',
        f"[a]\n{lines}",
        "[b]\n" + lines.replace("'max_tokens'", "'tokens'").replace("title", "titel"),
        "[c]\n" + lines.replace("http://localhost", "http://judge.example"),
    ]
    file.write_text("\n".join(wrong), encoding="utf-8")
    with pytest.raises(InputError) as told:
        read_tables(file, Endpoint)
    assert str(told.value).splitlines() == [
        f"{file} has 3 problems:",
        "  loose: found 'x'; allowed is a table",
        "  b: title: Field required",
        "  c: the address must be https, or http at localhost, found {'title': 'Ollama', 'address': "
        "'http://judge.example:11434/v1', 'key': '', 'tok…",
    ]
    file.write_text("[a", encoding="utf-8")
    with pytest.raises(InputError, match=r"known\.toml is not TOML: "):
        read_tables(file, Endpoint)


# Short names


@pytest.mark.parametrize("name", WITH_ADDRESS)
def test_a_short_name_and_its_address_are_one_endpoint_with_one_key(name: str, diagram: Rubric) -> None:
    by_name = parse_options({"judge__base_url": name, "judge__model": "m"}, PairwiseParameters)
    by_address = asking(endpoints()[name].address)
    assert by_name == by_address and addressed(by_address) is by_address
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
def test_a_name_without_an_address_is_refused_with_what_to_write(name: str, words: str) -> None:
    with pytest.raises(InputError) as told:
        addressed(asking(name))
    assert words in str(told.value)


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
def test_an_endpoint_is_known_at_its_addresses_and_nowhere_else(base_url: str, name: str) -> None:
    found = known_at(base_url)
    assert (found.name if found else "") == name


# Keys


@pytest.mark.parametrize("name", [name for name in WITH_ADDRESS if not endpoints()[name].is_local])
def test_the_usual_key_goes_to_its_host_where_none_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_ENDPOINTS", "")
    monkeypatch.setenv(endpoints()[name].key, "usual")
    judge = addressed(asking(name)).judge
    assert asyncio.run(find_key(judge)) == "usual"


def test_a_key_that_the_worker_lists_goes_before_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_ENDPOINTS", "openrouter.ai=TEAM_KEY")
    monkeypatch.setenv("OPENROUTER_API_KEY", "usual")
    monkeypatch.setenv("TEAM_KEY", "team")
    assert asyncio.run(find_key(addressed(asking("openrouter")).judge)) == "team"
    named = addressed(asking("openrouter", api_key_env="OPENROUTER_API_KEY")).judge
    assert asyncio.run(find_key(named)) == "usual"


# The command


def test_the_command_lists_all_of_them_and_tells_all_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", "endpoints"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:12]] == [*endpoints()]
    for name, each in endpoints().items():
        assert main(["judge", "endpoints", name]) == 0
        out = capsys.readouterr().out
        facts = (each.address, each.key, each.token_limit, each.reply_format, each.limits, each.moderation, each.page)
        assert all(fact in out for fact in (*facts, *each.worth_knowing, str(each.looked_up)))
        assert (f"{each.pictures:,} a request" in out) == bool(each.pictures)


def test_the_command_has_all_of_them_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", "endpoints", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [each.model_dump(mode="json") for each in endpoints().values()]
    assert main(["judge", "endpoints", "opnai"]) == 2
    assert "there is no endpoint 'opnai'; known names: openai, " in capsys.readouterr().err


# Tiers


@pytest.mark.parametrize("name", [name for name in WITH_ADDRESS if "flex" in endpoints()[name].tiers])
def test_calls_in_flex_wait_longer_unless_somebody_set_how_long(name: str) -> None:
    judge = addressed(asking(name, service_tier="flex", call_seconds=700)).judge
    assert (judge.timeout_seconds, judge.call_seconds, judge.patience_seconds) == (900, 700, 3600)
    as_filled_in = Judge.model_validate(Judge(model="m", base_url=name).model_dump() | {"service_tier": "flex"})
    sent_by_a_form = PairwiseParameters(judge=as_filled_in)
    assert addressed(sent_by_a_form).judge.timeout_seconds == 900
    once = addressed(asking(name, service_tier="flex"))
    assert addressed(once).judge == once.judge
    assert addressed(asking(name)).judge.timeout_seconds == 120


@pytest.mark.parametrize(
    ("base_url", "words"),
    [
        ("mistral", "judge.service_tier is 'flex': Mistral does not document it; it is available from OpenAI, Azure"),
        (
            "https://judge.example/v1",
            "the service tiers of the endpoint https://judge.example/v1 are unknown; it is available from ",
        ),
        (EMBEDDED, "the service tiers of the endpoint embedded are unknown; it is available from "),
    ],
)
def test_a_tier_that_an_endpoint_is_not_known_to_have_is_refused_by_name(base_url: str, words: str) -> None:
    model = EMBEDDED_MODEL if base_url == EMBEDDED else "m"
    with pytest.raises(InputError) as told:
        addressed(PairwiseParameters(judge=Judge(model=model, base_url=base_url, service_tier="flex")))
    assert words in str(told.value) and "Leave judge.service_tier out" in str(told.value)


def test_a_tier_is_named_in_one_place() -> None:
    with pytest.raises(InputError, match=r"judge\.extra holds service_tier: leave one of them out"):
        addressed(asking("openai", service_tier="flex", extra={"service_tier": "priority"}))


# The README


def row(each: Endpoint) -> tuple[str, ...]:
    """An endpoint's row in the README."""
    return (
        f"`{each.name}`",
        f"[{each.title}]({each.page})",
        f"`{each.address}`",
        f"`{each.key}`" if each.key else "",
        f"`{each.token_limit}`",
        f"`{each.reply_format}`" if each.reply_format != "plain" else "plain",
        f"{each.pictures:,}" if each.pictures else "",
        ", ".join(each.tiers),
        each.limits,
        each.moderation,
        "; ".join(each.worth_knowing),
        str(each.looked_up),
    )


def test_the_table_in_the_readme_says_what_the_file_says() -> None:
    rows = [f"| {' | '.join(row(one))} |".replace("|  |", "| |").replace("|  |", "| |") for one in endpoints().values()]
    assert "\n".join(rows) in README.read_text(encoding="utf-8"), "the rows should be:\n" + "\n".join(rows)


# Ends of models


def helps() -> str:
    """The help of every command and flow."""
    commands = [path.split() for entries in COMMANDS.values() for path in entries] + [["run", flow] for flow in FLOWS]
    with redirect_stdout(StringIO()) as out:
        assert {main([*words, "--help"]) for words in commands} == {0}
    return out.getvalue()


def test_every_model_that_readme_and_help_name_is_in_the_table_of_dates() -> None:
    in_readme = {*MODEL_NAMES.findall(README.read_text(encoding="utf-8"))}
    named = (in_readme | {*MODEL_NAMES.findall(helps())}) - NO_MODELS
    assert named <= set(recommended()), "look up when these end, and add them to tasks/endpoint/models.toml"
    assert in_readme & set(recommended())


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


def test_the_tables_name_known_endpoints_and_pages_and_no_recommended_model_ends_within_a_year() -> None:
    extract, by_hand = read_shutdowns(), read_tables(ANNOUNCED, Dated).values()
    assert len(extract) > 100 and all(each.looked_up >= DAY for each in extract)
    for each in (*extract, *by_hand, *recommended().values()):
        assert each.endpoint in endpoints() and each.page.startswith("https://")
    year = timedelta(days=365)
    assert recommended() and all(not one.ends or one.ends >= one.looked_up + year for one in recommended().values())
    assert all(not ending(each.name, each.endpoint, DAY) for each in recommended().values())
