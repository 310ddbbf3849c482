"""Docstrings of records: they explain the history's columns, and stay out of the schemas for forms and judges."""

import hashlib
import json
from typing import Any

import pytest

from tasks.protocols.figures import reply as verdict_reply
from tasks.protocols.images import reply as score_reply
from tasks.records import Judgment, Outcome, Record, Requirement, RunEnd, RunStart
from tasks.records.judge import Judge
from tasks.records.parameters import PairwiseParameters, Parameters, Probe, RubricParameters
from tasks.rubrics.rubric import PairwisePrompt, load_rubric


def sha256(schema: Any) -> str:
    return hashlib.sha256(json.dumps(schema).encode()).hexdigest()


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (Judge, "c42c6c8a54493a5daa0ad62313a74ea29cad3e5f59c0d0ab453503e4e1a8801a"),
        (Probe, "c7e21446606453e239bbebe436b632304b96a468f9079daf6c3e2dfa3c82622d"),
        (Parameters, "a15bd8fe8ad50f58082ae77a60afe7af73afa380a651e9d886a5cd36ecff993c"),
        (PairwiseParameters, "b60f04841adcf7602302301320efc8d6ca97280ff2b6f8686139953e271cf793"),
        (RubricParameters, "7c2165ecf51bd52be9a664e6d833e49e5a29dd04606efdb2cce97c0d34fb5268"),
    ],
)
def test_parameter_schemas_are_unchanged(model: type[Record], expected: str) -> None:
    assert sha256(model.model_json_schema()) == expected


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        ("diagram", "6e7f9832a4a302e65dff9b7e12fceb906c5b9c7aa72f16e1c26ab1057e82ad3d"),
        ("plot", "c4d530ab4609bbfb1f7e5aada10f52fc6865393bd38b7137f4560e7479de382e"),
        ("object", "a62ed80bbda0f23008c5004128196258b9dfa5a5de1916bec3410dcfe69c500b"),
        ("counting", "1c7cfb716dc21963cf0e061b3a624fdfeac00bc6c9c70eb23c3f2d922466c903"),
        ("colors", "9b0e170560de271e351d803951db92957567d66bc12e592b4d47a6969a7c84f3"),
        ("position", "c516841a6daa79033c9bd72f1e3bf5c55338290a52439d289b6c0082da27b2d2"),
    ],
)
def test_reply_schemas_are_unchanged(flow: str, expected: str) -> None:
    schemas = [
        verdict_reply.schema(prompt.verdicts) if isinstance(prompt, PairwisePrompt) else score_reply.schema(prompt)
        for prompt in load_rubric(flow).prompts
    ]
    assert sha256(schemas) == expected


@pytest.mark.parametrize("record", [Judgment, Outcome, RunStart, RunEnd])
def test_recorded_fields_all_have_descriptions(record: type[Record]) -> None:
    assert [name for name, field in record.model_fields.items() if not field.description] == []


def test_other_records_schemas_have_no_descriptions() -> None:
    assert not any(field.description for field in Requirement.model_fields.values())
