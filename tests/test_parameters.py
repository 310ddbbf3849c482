"""Parameters of runs and judges: their form in Prefect, and values refused before the first call."""

import json
from typing import Any

import pytest
from prefect.utilities.schema_tools.validation import ValidationError as Refused
from prefect.utilities.schema_tools.validation import validate
from pydantic import ValidationError

from tasks.protocols import earlier_parameters, parameters_of
from tasks.records.judge import Judge
from tasks.records.parameters import PAIRWISE, T2I
from tasks.records.terms import TOPICS

ADDRESS = {"model": "m", "base_url": "https://judge.example/v1"}


def judge_error(**settings: Any) -> str:
    with pytest.raises(ValidationError) as error:
        Judge(**ADDRESS, **settings)
    [found] = error.value.errors()
    return found["msg"]


@pytest.mark.parametrize("flow", [*PAIRWISE, *T2I])
def test_form_fields_have_a_single_type(flow: str) -> None:
    schema = json.dumps(parameters_of(flow).model_json_schema())
    assert "anyOf" not in schema and "oneOf" not in schema
    fields = parameters_of(flow).model_json_schema()["$defs"]["Judge"]["properties"]
    assert (fields["extra"]["type"], fields["headers"]["type"]) == ("object", "object")


@pytest.mark.parametrize(
    ("flow", "first"),
    [
        ("plot", "dataset results images candidate_name limit orders votes controls budget store judge"),
        ("colors", "dataset metadata candidate_name limit tag votes controls budget store export judge"),
    ],
)
def test_form_begins_with_the_most_used_fields(flow: str, first: str) -> None:
    fields = parameters_of(flow).model_json_schema()["properties"]
    assert sorted(fields, key=lambda name: fields[name]["position"]) == [*fields]
    begins = first.split()
    assert [*fields][: len(begins)] == begins and len(begins) <= 12
    others = [each["title"].partition(": ")[0] for each in [*fields.values()][len(begins) :]]
    assert others == sorted(others, key=[*TOPICS].index), "the others are grouped by topic"
    assert [*parameters_of(flow).model_json_schema()["$defs"]["Judge"]["properties"]][:2] == ["model", "base_url"]


@pytest.mark.parametrize("flow", [*PAIRWISE, *T2I])
def test_form_descriptions_are_short_plain_text(flow: str) -> None:
    schema = parameters_of(flow).model_json_schema()
    for name, field in [*schema["properties"].items(), *schema["$defs"]["Judge"]["properties"].items()]:
        assert not set("`<>\n") & set(field["description"]), name
        assert len(field["description"]) <= 135, f"{name}: longer than a line"


@pytest.mark.parametrize("flow", [*PAIRWISE, *T2I])
def test_misspelled_field_is_refused_with_the_allowed_ones(flow: str) -> None:
    with pytest.raises(Refused, match=r"'datset' is not one of \['dataset', "):
        validate({"datset": "x"}, parameters_of(flow).model_json_schema(), raise_on_error=True)


@pytest.mark.parametrize(
    "name",
    ["model", "messages", "max_tokens", "temperature", "response_format", "reasoning_effort", "seed", "stream", "n"],
)
def test_extra_cannot_override_our_own_request_fields(name: str) -> None:
    assert f"judge.extra holds {name}, which the program" in judge_error(extra={"top_k": 1, name: 1})


@pytest.mark.parametrize("value", [float("nan"), "half \ud835", {1}])
def test_extra_refuses_values_without_json_form(value: Any) -> None:
    assert "judge.extra holds what no JSON does" in judge_error(extra={"top_k": [value]})


@pytest.mark.parametrize("name", ["", "X Y", "X:Team", "X-Tëam", "X\r\nY", "Authorization", "HOST", "content-length"])
def test_invalid_or_reserved_headers_are_refused(name: str) -> None:
    assert f"judge.headers holds {name!r}" in judge_error(headers={name: "TEAM_NAME"})


@pytest.mark.parametrize("value", ["", "Bearer sk-1", "sk-1.2", "$TEAM", "sk-proj-AbCdEfGh0123456789"])
def test_header_value_instead_of_a_variable_is_refused_without_quoting_it(value: str) -> None:
    message = judge_error(headers={"X-Team": value})
    assert "what stands for X-Team is no name of an environment variable" in message
    assert not value or value not in message


def test_no_extra_request_fields_by_default() -> None:
    assert Judge().asked_besides == {}


@pytest.mark.parametrize("key", ["sk-abcdefghijklmnopqrstuvwx123456", "gsk_1234567890abcdefgh", "0a" * 16, "ey.J"])
def test_key_instead_of_a_variable_name_is_refused_without_quoting_it(key: str) -> None:
    with pytest.raises(ValueError, match="looks like a key") as caught:
        Judge(api_key_env=key)  # pyright: ignore
    assert key not in str(caught.value).partition("[type=")[0]


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "openai-api-key", "SKYNET_KEY_FOR_THE_LAB", "sk", ""])
def test_variable_names_are_not_mistaken_for_keys(name: str) -> None:
    assert Judge(api_key_env=name).api_key_env == name  # pyright: ignore


@pytest.mark.parametrize("flow", [*PAIRWISE, *T2I])
def test_form_explains_empty_fields(flow: str) -> None:
    description = parameters_of(flow).model_json_schema()["description"]
    assert description.endswith("A field that may not be empty is, emptied, as the deployment has it.")


def test_parameters_of_an_earlier_run_lack_those_removed_since() -> None:
    kept = parameters_of("facts")(limit=3).model_dump(mode="json") | {"wordy": True}
    assert earlier_parameters("facts", kept) == parameters_of("facts")(limit=3)
