"""Settings of the judge: what a form shows, and what is refused before anything is asked."""

import json
from typing import Any

import pytest
from prefect.utilities.schema_tools.validation import ValidationError as Refused
from prefect.utilities.schema_tools.validation import validate
from pydantic import ValidationError

from tasks.records.judge import Judge
from tasks.records.parameters import PAIRWISE, T2I, parameters_of
from tasks.records.terms import TOPICS

ADDRESS = {"model": "m", "base_url": "https://judge.example/v1"}


def complaint(**settings: Any) -> str:
    with pytest.raises(ValidationError) as error:
        Judge(**ADDRESS, **settings)
    [told] = error.value.errors()
    return told["msg"]


@pytest.mark.parametrize("flow", [*PAIRWISE, *T2I])
def test_a_form_has_one_kind_of_value_for_each_field(flow: str) -> None:
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
def test_a_form_begins_with_what_people_need_most_whatever_a_server_does_to_it(flow: str, first: str) -> None:
    fields = parameters_of(flow).model_json_schema()["properties"]
    assert sorted(fields, key=lambda name: fields[name]["position"]) == [*fields]
    begins = first.split()
    assert [*fields][: len(begins)] == begins and len(begins) <= 12
    others = [each["title"].partition(": ")[0] for each in [*fields.values()][len(begins) :]]
    assert others == sorted(others, key=[*TOPICS].index), "the others are grouped by topic"
    assert [*parameters_of(flow).model_json_schema()["$defs"]["Judge"]["properties"]][:2] == ["model", "base_url"]


@pytest.mark.parametrize("flow", [*PAIRWISE, *T2I])
def test_a_form_says_what_a_field_is_in_short_and_in_plain_text(flow: str) -> None:
    schema = parameters_of(flow).model_json_schema()
    for name, field in [*schema["properties"].items(), *schema["$defs"]["Judge"]["properties"].items()]:
        assert not set("`<>\n") & set(field["description"]), name
        assert len(field["description"]) <= 135, f"{name}: longer than a line"


@pytest.mark.parametrize("flow", [*PAIRWISE, *T2I])
def test_a_server_that_refuses_a_misspelt_field_says_which_there_are(flow: str) -> None:
    with pytest.raises(Refused, match=r"'datset' is not one of \['dataset', "):
        validate({"datset": "x"}, parameters_of(flow).model_json_schema(), raise_on_error=True)


@pytest.mark.parametrize(
    "name",
    ["model", "messages", "max_tokens", "temperature", "response_format", "reasoning_effort", "seed", "stream", "n"],
)
def test_what_the_program_sends_itself_is_no_extra(name: str) -> None:
    assert f"judge.extra holds {name}, which the program" in complaint(extra={"top_k": 1, name: 1})


@pytest.mark.parametrize("value", [float("nan"), "half \ud835", {1}])
def test_what_no_body_can_hold_is_no_extra(value: Any) -> None:
    assert "judge.extra holds what no JSON does" in complaint(extra={"top_k": [value]})


@pytest.mark.parametrize("name", ["", "X Y", "X:Team", "X-Tëam", "X\r\nY", "Authorization", "HOST", "content-length"])
def test_a_header_that_cannot_be_sent_or_is_the_programs_own_is_refused(name: str) -> None:
    assert f"judge.headers holds {name!r}" in complaint(headers={name: "TEAM_NAME"})


@pytest.mark.parametrize("value", ["", "Bearer sk-1", "sk-1.2", "$TEAM"])
def test_a_header_names_where_its_value_is_and_a_value_in_its_place_is_not_repeated(value: str) -> None:
    told = complaint(headers={"X-Team": value})
    assert "what stands for X-Team is no name of an environment variable" in told
    assert not value or value not in told


def test_nothing_is_asked_besides_unless_it_is_set() -> None:
    assert Judge().asked_besides == {}


@pytest.mark.parametrize("key", ["sk-abcdefghijklmnopqrstuvwx123456", "gsk_1234567890abcdefgh", "0a" * 16])
def test_a_key_in_the_place_of_its_name_is_not_quoted(key: str) -> None:
    with pytest.raises(ValueError, match="looks like a key") as told:
        Judge(api_key_env=key)  # pyright: ignore
    assert key not in str(told.value).partition("[type=")[0]


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "openai-api-key", "SKYNET_KEY_FOR_THE_LAB", "sk", ""])
def test_a_name_of_a_key_is_none(name: str) -> None:
    assert Judge(api_key_env=name).api_key_env == name  # pyright: ignore


@pytest.mark.parametrize("flow", [*PAIRWISE, *T2I])
def test_the_form_says_what_an_emptied_field_means(flow: str) -> None:
    told = parameters_of(flow).model_json_schema()["description"]
    assert told.endswith("A field that may not be empty is, emptied, as the deployment has it.")
