"""The records' docstrings, which explain the history's columns, enter no schema that people or judges are given."""

import hashlib
import json
from typing import Any

import pytest

from tasks.protocols.figures import reply as verdict_reply
from tasks.protocols.images import reply as score_reply
from tasks.records import Judgment, Outcome, Record, Requirement, RunEnd, RunStart
from tasks.records.judge import Judge
from tasks.records.parameters import PairwiseParameters, Parameters, Probe, RubricParameters
from tasks.rubrics.prompts import PairwisePrompt
from tasks.rubrics.rubric import load_rubric


def sha256(schema: Any) -> str:
    return hashlib.sha256(json.dumps(schema).encode()).hexdigest()


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (Judge, "91cacef103cf55fa6665f1a3c3b5c53b7f92c0b1b462c5706fea7736c71dc18c"),
        (Probe, "1f0fd18f9e455199ed7d7442267b3f7a71696e3a402931baf9cf13e1abebddfb"),
        (Parameters, "0b7b3c1627f4be5c1b5aa11d316edbddf95a4bff6664b4c5ea87accb129e0ffd"),
        (PairwiseParameters, "364f3bea22ff3905284b6eaada0f3d2ee9211149fb230d38aa8f835f367e7079"),
        (RubricParameters, "33de05db6d24dc68b7c1224b67cd2ca6e43ad5babe9b18278fc08a3cbc067322"),
    ],
)
def test_the_forms_of_parameters_are_what_they_were(model: type[Record], expected: str) -> None:
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
def test_the_forms_of_replies_are_what_they_were(flow: str, expected: str) -> None:
    schemas = [
        verdict_reply.schema(prompt.verdicts) if isinstance(prompt, PairwisePrompt) else score_reply.schema(prompt)
        for prompt in load_rubric(flow).prompts
    ]
    assert sha256(schemas) == expected


@pytest.mark.parametrize("record", [Judgment, Outcome, RunStart, RunEnd])
def test_docstrings_explain_the_fields_of_what_the_history_keeps(record: type[Record]) -> None:
    assert [name for name, field in record.model_fields.items() if not field.description] == []


def test_docstrings_of_other_records_stay_out_of_their_schemas() -> None:
    assert not any(field.description for field in Requirement.model_fields.values())
