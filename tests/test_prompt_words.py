"""Prompts worded as GenEval words them are understood and written, and others as far as they are worded alike."""

import json
from pathlib import Path

import pytest
from own_data import LISTS, each_list

from tasks.records import Requirement
from tasks.synthetic.prompt_words import prompt_text, read_prompt


@each_list
def test_every_prompt_of_a_list_is_read_as_the_list_has_it(geneval_list: Path) -> None:
    rows = [json.loads(line) for line in geneval_list.read_text().splitlines()]
    assert len(rows) == (24 if geneval_list == LISTS["own"] else 553)
    for row in rows:
        assert read_prompt(row["prompt"]) == tuple(map(required, row["include"])), row["prompt"]


def required(entry: dict[str, object]) -> Requirement:
    """An entry of GenEval's `include`."""
    relation, target = entry.get("position", ("", None))  # pyright: ignore
    named = {"name": entry["class"], "count": entry["count"], "color": entry.get("color", "")}
    return Requirement.model_validate({**named, "relation": relation, "target": target})


@pytest.mark.parametrize(
    "text",
    [
        "a photo of a ball",
        "a photo of an arrow",
        "a photo of three stars",
        "a photo of two boxes",
        "a photo of four crosses",
        "a photo of an orange ball",
        "a photo of a red ball and a green box",
        "a photo of a star left of a ring",
        "a photo of a moon below an arrow",
    ],
)
def test_what_is_read_of_a_prompt_makes_the_same_prompt_again(text: str) -> None:
    assert prompt_text(read_prompt(text)) == text


STAR = Requirement(name="star", relation="right of", target=0)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("A photo of  a Ball.", (Requirement(name="ball"),)),
        ("three oranges", (Requirement(name="orange", count=3),)),
        ("an orange", (Requirement(name="orange"),)),
        ("7 blue vases, a dog", (Requirement(name="vase", count=7, color="blue"), Requirement(name="dog"))),
        ("a star to the right of a ring", (Requirement(name="ring"), STAR)),
        ("the star is right of the ring", (Requirement(name="ring"), STAR)),
        ("left of a ring", (Requirement(name="left of a ring"),)),
        ("99999999999 cats", (Requirement(name="99999999999 cats"),)),
        ("", ()),
        ("a photo of ", (Requirement(name="photo of"),)),
    ],
)
def test_other_prompts_are_read_as_far_as_they_are_worded_alike(text: str, asked: tuple[Requirement, ...]) -> None:
    assert read_prompt(text) == asked
