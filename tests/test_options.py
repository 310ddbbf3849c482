"""Command line options of parameter models; errors use the names shared by command line, form and deployments."""

import re
from operator import attrgetter

import pytest
from click import Context
from click.exceptions import Exit

from flows.commands.console import Command
from flows.commands.options import by_options, model_options, parse_options
from tasks.errors import InputError
from tasks.protocols import parameters_of
from tasks.records.judge import Judge
from tasks.records.parameters import FLOWS, OF_SHARDS, PairwiseParameters, RubricParameters
from tasks.records.terms import TOPICS


def parse(*words: str) -> RubricParameters:
    context = Command("run", params=model_options(RubricParameters)).make_context("run", [*words])
    return parse_options(context.params, RubricParameters)


def parse_errors(*words: str) -> list[str]:
    with pytest.raises(InputError) as error:
        parse(*words)
    return str(error.value).splitlines()


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--ids", "a, b,", "--ids", "c"], "ids", ["a", "b", "c"]),
        (["--normalize"], "normalize", True),
        (["--no-normalize"], "normalize", False),
        (["--judge.model", "m", "--judge.base-url", "http://127.0.0.1:8000/v1"], "judge.model", "m"),
        (["--judge", "openrouter/a/b"], "judge.model", "a/b"),
        (["--judge", "openrouter/a/b"], "judge.base_url", "https://openrouter.ai/api/v1"),
        (["--judge", "embedded"], "judge", Judge()),
        (["--judge.model", "n", "--judge", "openai/m"], "judge.model", "n"),
        (["--judge.detail", "low"], "judge.detail", "low"),
        (["--judge.extra", '{"top_k": 1, "a": [2]}'], "judge.extra", {"top_k": 1, "a": [2]}),
        (["--judge.headers", '{"X-Team": "TEAM_NAME"}'], "judge.headers", {"X-Team": "TEAM_NAME"}),
    ],
)
def test_option_sets_its_field(words: list[str], field: str, value: object) -> None:
    assert attrgetter(field)(parse(*words)) == value and parse() == RubricParameters()


def test_environment_names_the_judge_except_on_workers_with_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_JUDGE", "openai/m")
    assert parse().judge.model == "m" and parse("--judge", "openai/n").judge.model == "n"
    monkeypatch.setenv("JURY_ROOTS", "/data")
    assert parse_errors() == [
        "JURY_JUDGE is set where JURY_ROOTS confines what runs: name the judge with --judge openai/m"
    ]
    assert parse("--judge", "openai/n").judge.model == "n"


@pytest.mark.parametrize("name", ["judge.extra", "judge.headers"])
@pytest.mark.parametrize("written", ["top_k=1", "[1]", "1", "", "{'top_k': 1}"])
def test_invalid_json_object_is_reported_by_option(name: str, written: str) -> None:
    [message] = parse_errors(f"--{name}", written)
    assert message == f'--{name}: Input should be a JSON object, such as {{"top_k": 1}}, found {written!r}'


def test_key_in_place_of_the_name_of_a_headers_value_is_not_quoted() -> None:
    [message] = parse_errors("--judge.headers", '{"X-Team": "sk-abcdefghijklmnopq"}')
    assert message.startswith("--judge.headers: what stands for X-Team is no name") and "sk-" not in message


@pytest.mark.parametrize("flow", FLOWS)
def test_full_help_describes_every_field_with_default_and_choices(
    flow: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = parameters_of(flow)
    with pytest.raises(Exit):
        Command("run", params=model_options(model)).make_context("run", ["--help-all"], terminal_width=1000)
    words = " ".join(capsys.readouterr().out.split())
    for name, info in [*model.model_fields.items(), *type(model().judge).model_fields.items()]:
        if name not in ("judge", *OF_SHARDS):
            assert name.replace("_", "-") in words and " ".join(str(info.description).split()) in words
    assert "--judge.effort none|minimal|low|" in words and "--judge.extra JSON Sent" in words
    assert "--judge.detail auto|low|high" in words and "(default: 10000)" in words
    assert all(f"{topic}: --" in words for topic in TOPICS)


def test_short_help_lists_common_options_and_the_total() -> None:
    for model, of_kind in (
        (PairwiseParameters, ["results", "images", "orders"]),
        (RubricParameters, ["metadata", "tag", "export"]),
    ):
        command = Command("run", params=model_options(model))
        words = command.get_help(Context(command, terminal_width=1000))
        listed = {*re.findall(r"^  --([a-z.-]+)", words, re.MULTILINE)} - {"help", "help-all"}
        assert listed == {
            *("dataset", "candidate-name", "limit", "judge", "judge.model", "judge.base-url", "votes", "controls"),
            *("quote", "budget", "store", *of_kind),
        }
        assert f"for all {len(command.params) - 1} options" in words and "(default: samples)" not in words


def test_options_follow_the_order_of_headings() -> None:
    shown = [name for option in model_options(PairwiseParameters) for name in option.opts]
    assert shown[:4] == ["--dataset", "--results", "--images", "--stage"] and shown[-2:] == ["--shards", "--help-all"]


def test_values_out_of_range_are_reported_together_by_option() -> None:
    assert parse_errors("--limit", "-1", "--judge.max-output-tokens", "x") == [
        "--limit: Input should be greater than or equal to 1, found '-1'",
        "--judge.max-output-tokens: Input should be a valid integer, unable to parse string as an integer, found 'x'",
    ]


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["--judge.model", "m"],
         "--judge.model is 'm' and needs an address, the embedded judge is 'pixel-baseline': set --judge.base-url "
         "to a short name, such as openai (`jury judge endpoints` lists them), or to an address, such as "
         "http://localhost:8000/v1"),
        (["--judge", "Qwen/Qwen3-VL"], "judge 'Qwen/Qwen3-VL' names no known endpoint before its model: write "
         "ENDPOINT/MODEL, such as openai/"),
        (["--judge", "openai"], "judge 'openai' names no known endpoint before its model"),
        (["--judge.base-url", "judge"], "--judge.base-url 'judge' is no address: allowed are"),
        (["--judge.api-key-env", "OPENAI_API_KEY"],
         "--judge.api-key-env is given, and the embedded judge needs no key: set --judge.base-url and "
         "--judge.model to the judge that is meant, or leave it out"),
        (["--judge.base-url", "openai"],
         "--judge.base-url is 'openai', and --judge.model names no model there: set it to one that sees pictures, "
         "by the name that https://api.openai.com/v1/models lists"),
        (["--judge.base-url", "http://127.0.0.1:8000/v1"],
         "--judge.base-url is 'http://127.0.0.1:8000/v1', and --judge.model names no model there"),
        (["--judge.base-url", "http://a:b@c"],
         "--judge.base-url must hold no user, password, query or fragment: a key is named in --judge.api-key-env"),
        (["--judge.base-url", "http://a:8000/v1/chat/completions/"],
         "--judge.base-url ends in /chat/completions, which each call adds: leave that out"),
        (["--judge.base-url", "https://a.openai.azure.com/openai/v1?api-version=2025-04-01-preview"],
         "--judge.base-url is the older address of Azure OpenAI, which takes other requests: set it to "
         "https://a.openai.azure.com/openai/v1, without a query, and --judge.model to the name of the deployment"),
        (["--judge.base-url", "https://a.openai.azure.com/openai/deployments/gpt"],
         "--judge.base-url is the older address"),
        (["--reuse-hours", "1e8"], "--reuse-hours: Input should be less than or equal to 1000000"),
        (["--reuse-hours", "inf"], "--reuse-hours: Input should be a finite number"),
        (["--judge.price-in", "inf", "--judge.price-out", "1"], "--judge.price-in: Input should be a finite number"),
    ],
)  # fmt: skip
def test_conflicting_fields_are_reported_by_option(words: list[str], start: str) -> None:
    [message] = parse_errors(*words)
    assert message.startswith(start)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("set judge.api_key_env to one of A, B", "set --judge.api-key-env to one of A, B"),
        ("candidate_name: none.", "--candidate-name: none."),
        ("dataset /data/prompt_set/x has no column 'candidate_name'", None),
        ("the judge of judge.example has no limit", None),
    ],
)
def test_messages_name_options_instead_of_fields_outside_paths_and_words(words: str, expected: str | None) -> None:
    assert by_options(words, RubricParameters) == (expected or words)
