"""Checklist datasets: manifests and their mistakes, published sets, images, keys, and exports."""

import ast
import asyncio
import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from factories import outcome
from own_data import PUBLISHED
from written_datasets import png, write_json, write_rows

from tasks.datasets.dataset import Dataset
from tasks.datasets.entries import read_texts
from tasks.errors import InputError
from tasks.extensions.export import Export
from tasks.judging.extension import Opening
from tasks.protocols.checklist.datasets import read_checklists
from tasks.protocols.checklist.parameters import ChecklistParameters
from tasks.protocols.checklist.prompts import as_number
from tasks.records import AspectScore, Check

CUP = {"id": "c1", "question": "Is there a cup?", "expected": "yes"}
TWO = {"id": "c2", "question": "How many spoons?", "expected": "two", "form": "number", "parents": ["c1"], "group": "n"}
PLACE = {"id": "c3", "question": "Where?", "expected": "B", "form": "choice", "options": {"A": "left", "B": "right"}}


def load(source: Path, **parameters: object) -> Dataset:
    asked = ChecklistParameters.model_validate({"dataset": str(source)} | parameters)
    return read_checklists(source, "facts", asked)


def row(number: int = 1, *checks: object, **other: object) -> dict[str, Any]:
    own = {"id": f"s{number}", "prompt": f"a cup, {number}", "image": "cup.png", "checks": [*(checks or (CUP,))]}
    return own | other


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write rows beside the picture of a cup."""
    write_rows(path, rows)
    (path.parent / "cup.png").write_bytes(png(9))
    return path


def test_manifest_rows_become_samples_with_checks_and_text(tmp_path: Path):
    rows = [
        row(1, CUP, TWO, PLACE, candidate="a", prompt_id="p", prompt="spoons"),
        row(2, CUP, TWO, PLACE, candidate="a", prompt_id="p", prompt="spoons"),
        row(3, {**CUP, "expected": ["No"], "weight": 2}, candidate="a"),
        row(1, CUP, TWO, PLACE, candidate="b", prompt_id="p", prompt="spoons"),
    ]
    found = load(write_lines(tmp_path / "m.jsonl", rows), instrument="single")
    assert [(each.candidate, each.sample_id, each.subject, each.tag) for each in found.samples] == [
        ("a", "s1", "p", "single"),
        ("a", "s2", "p", "single"),
        ("a", "s3", "s3", "single"),
        ("b", "s1", "p", "single"),
        ("b", "s3/none", "s3", "single"),
    ]
    assert found.samples[0].checks == (
        Check("c1", "Is there a cup?", ("yes",)),
        Check("c2", "How many spoons?", ("two",), "number", group="n", parents=("c1",)),
        Check("c3", "Where?", ("B",), "choice", (("A", "left"), ("B", "right"))),
    )
    assert found.samples[2].checks == (Check("c1", "Is there a cup?", ("no",), weight=2.0, absence=True),)
    texts = [read_texts(each)["prompt"] for each in found.samples]
    assert texts == ["spoons", "spoons", "a cup, 3", "spoons", "a cup, 3"]
    assert found.warnings == ("1 of 2 prompts has no image of b: s3",)
    found = load(tmp_path / "m.jsonl", images=write_images(tmp_path / "c", "p.png"))
    assert [(each.candidate, each.sample_id) for each in found.samples] == [("c", "p/p"), ("c", "s3/none")]


def test_table_and_json_lines_give_the_same_dataset(tmp_path: Path):
    rows = [row(1, CUP, TWO, category="x"), row(2, TWO | {"parents": []}, category="")]
    lines = load(write_lines(tmp_path / "m.jsonl", rows))
    table = tmp_path / "m.csv"
    write_rows(table, [each | {"checks": json.dumps(each["checks"])} for each in rows])
    found = load(table)
    assert found.key == lines.key
    assert [each.checks for each in found.samples] == [each.checks for each in lines.samples]
    assert [read_texts(each) for each in found.samples] == [read_texts(each) for each in lines.samples]


def test_halves_of_surrogate_pairs_are_replaced(tmp_path: Path):
    strange = row(1, CUP | {"question": "A \ud800?", "group": "\udc00"}, category="\ud800")
    table = write_rows(tmp_path / "m.csv", [strange | {"checks": json.dumps(strange["checks"]), "category": ""}])
    lines = write_lines(tmp_path / "m.jsonl", [strange])
    for path, category in ((lines, "\ufffd"), (table, "")):
        [sample] = load(path).samples
        assert (sample.category, *[(each.question, each.group) for each in sample.checks]) == (
            category,
            ("A \ufffd?", "\ufffd"),
        )


def test_named_file_may_be_a_link(tmp_path: Path):
    path = write_lines(tmp_path / "sets" / "2026-11-28.jsonl", [row(1, CUP, candidate="a")])
    write_images(tmp_path, "cup.png")
    (tmp_path / "newest.jsonl").symlink_to(path)
    assert load(tmp_path / "newest.jsonl").key == load(path).key
    source = geneval2(tmp_path / "set") / "geneval2_data.jsonl"
    (tmp_path / "set.jsonl").symlink_to(source)
    images = write_images(tmp_path / "images", "00000.png")
    assert load(tmp_path / "set.jsonl", images=images).key == load(source, images=images).key


def changed(**other: object) -> dict[str, object]:
    return row(1, CUP | other)


MISTAKES: dict[str, tuple[list[object], str]] = {
    "no checks": ([row(1) | {"checks": []}], "m.jsonl, line 1: has no checks"),
    "no list": ([row(1) | {"checks": {}}], "'checks' is an object, must be a list of objects"),
    "broken text": ([row(1) | {"checks": "[{"}], "'checks' is no JSON: column 3"),
    "unknown key of a check": ([changed(wieght=2)], "check 1: wieght: there is no such key, found 2"),
    "unknown column": ([row(1, catgory="x")], "column 'catgory' does not exist"),
    "no question": ([changed(question=" ")], "check 'c1': question is empty"),
    "check twice": ([row(1, CUP, CUP)], "check 'c1' is there 2 times"),
    "unknown parent": ([changed(parents=["c9"])], "check 'c1': parent 'c9' is no check of this prompt"),
    "own parent": ([changed(parents=["c1"])], "the parents of checks lead in a circle: 'c1' to 'c1'"),
    "circle": ([row(1, CUP | {"parents": ["c2"]}, TWO)], "lead in a circle: 'c"),
    "no number": ([changed(form="number", expected="many")], "expected is 'many', must be a whole number, 0 or above"),
    "below 0": ([changed(form="number", expected=-5)], "expected is '-5', must be a whole number, 0 or above"),
    "half": ([changed(form="number", expected=2.5)], "expected is '2.5', must be a whole number, 0 or above"),
    "heavy": ([changed(weight=1e308)], "weight is 1e+308, must be a number above 0, at most 1,000,000"),
    "no yes or no": ([changed(expected="true")], "expected is 'true', allowed are yes, no"),
    "a boolean": ([changed(expected=True)], "check 1: expected: must be text, a number or a list of these, found True"),
    "every answer": ([changed(expected=["yes", "no"])], "every answer is expected"),
    "ordinal": ([changed(form="ordinal", expected=1)], "expected is '1', must be 2 or left out: an ordinal is worth"),
    "no such option": ([row(1, PLACE | {"expected": "C"})], "check 'c3': expected is 'C', allowed are A, B"),
    "a single option": ([row(1, PLACE | {"options": {"B": "right"}})], "needs at least two options"),
    "no letter": ([row(1, PLACE | {"options": {"A": "left", "B": "right", "10": "up"}})], "option '10' must be"),
    "needless options": ([changed(options={"A": "x"})], "has options, and the form yes_no"),
    "unknown form": ([changed(form="score")], "check 1: form: Input should be 'yes_no', 'number'"),
    "no weight": ([changed(weight=0)], "check 'c1': weight is 0, must be a number above 0"),
    "no expected": ([changed(expected=[])], "check 'c1': expected is empty"),
    "no text": ([row(1, prompt="")], "'prompt' is empty, must be text"),
    "category": ([row(1, category=3)], "category is a number, must be text"),
    "id of a path": ([row(1, prompt_id="a/b")], "id 'a/b' holds a path separator"),
    "sample twice": ([row(1), row(1)], "m.jsonl, line 2: id 's1' of 'm' is already in m.jsonl, line 1"),
    "other prompt": (
        [row(1, candidate="a"), row(1, candidate="b", prompt_id="p")],
        "id 's1' is an image of another prompt in m.jsonl, line 1",
    ),
    "other checks": ([row(1, prompt_id="p"), row(2, PLACE, prompt_id="p", prompt="a cup, 1")], "checks of prompt 'p'"),
    "other text": ([row(1, prompt_id="p"), row(2, prompt_id="p")], "text of prompt 'p' differs from that in m.json"),
}


@pytest.mark.parametrize(("rows", "words"), MISTAKES.values(), ids=MISTAKES)
def test_manifest_mistake_is_reported_with_file_and_row(tmp_path: Path, rows: list[object], words: str):
    with pytest.raises(InputError, match=r"m\.jsonl, line") as stop:
        load(write_lines(tmp_path / "m.jsonl", rows))
    assert words in str(stop.value)


def test_broken_rows_are_skipped_and_named_only_on_request(tmp_path: Path):
    path = write_lines(tmp_path / "m.jsonl", [row(1), row(2, CUP | {"weight": -1}), row(3, TWO | {"parents": []})])
    with pytest.raises(InputError, match=r"m.jsonl, line 2: check 'c1': weight is -1"):
        load(path)
    found = load(path, skip_broken=True)
    assert [each.sample_id for each in found.samples] == ["s1", "s3"]
    reason = "check 'c1': weight is -1, must be a number above 0, at most 1,000,000"
    assert found.warnings == (f"1 row left out, since they cannot be read: m.jsonl, line 2 ({reason})",)


CHANGES = {"question": "Is there a mug?", "expected": ["yes", "yes"], "group": "g", "weight": 2, "absence": True}


@pytest.mark.parametrize("change", CHANGES)
def test_dataset_key_depends_on_every_field_of_a_check(tmp_path: Path, change: str):
    whole = load(write_lines(tmp_path / "m.jsonl", [row(1), row(2)])).key
    assert load(write_lines(tmp_path / "m.jsonl", [row(1), row(2, CUP | {change: CHANGES[change]})])).key != whole


def test_dataset_key_depends_on_selection_but_not_on_candidates_or_images(tmp_path: Path):
    rows = [row(number, candidate=name, prompt_id=f"p{number}") for name in "ab" for number in (1, 2)]
    path = write_lines(tmp_path / "m.jsonl", rows)
    whole = load(path).key
    assert load(path, candidate=["b"]).key == whole
    assert load(path, limit=1).key != whole
    assert load(write_lines(tmp_path / "n.jsonl", [*reversed(rows)][1:])).key == whole


@pytest.mark.parametrize(
    ("answer", "number"),
    [("two", 2), (" Zero ", 0), ("3", 3), ("2.5", 2.5), ("-1", -1), ("many", None), ("nan", None), ("", None)],
)
def test_number_is_read_from_digits_or_a_word(answer: str, number: float | None):
    assert as_number(answer) == number


POINTS = {
    **{"Testpoints": ["Style", "Grammar - Negation"], "Testpoint Description": ["in ink", "no hat"]},
    "Primary Categories": "Art",
}
LEVEL = {"id": "V/1_1", "level": "Level 1: Parts", "question": "Which part?", "options": {"B": "No", "A": "Yes"}}
UNSEEN = {"A": "x", "B": "The image does not contain sufficient information to answer."}
CHOICE = {"id": "coco_7", "caption": "two cups", "element_type": "count", "element": "cup"}


def geneval2(folder: Path) -> Path:
    asked = [["How many cups are there?", "two"], ["Are the cups red?", "Yes"]]
    line = {"prompt": "two red cups", "atom_count": 3, "vqa_list": asked, "skills": ["count", "attribute"]}
    return write_lines(folder / "geneval2_data.jsonl", [line, line | {"prompt": "a red cup", "atom_count": 4}]).parent


def unigenbench(folder: Path) -> Path:
    rows = [{"index": 0, "prompt_en": "a man in ink", "sub_dims_en": json.dumps(POINTS)}]
    return write_rows(folder / "data" / "test_prompts_en.csv", rows).parents[1]


def corebench(folder: Path) -> Path:
    asked = [
        {"question": "Is there a cup?", "tags": ["instance_pos"]},
        {"question": "No cat?", "tags": ["instance_neg"]},
    ]
    first = {"Prompt": 'eine Tasse fällt, "{\\"}"', "Checklist": asked, "Remark": "x"}
    rows = {"C-MI-001": first, "C-MI-002": first | {"Prompt": "a cup"}}
    text = json.dumps(rows, ensure_ascii=False, indent=2)
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "C-MI.json").write_text(text, encoding="utf-8-sig")
    return folder


def dsg(folder: Path) -> Path:
    def part(number: int, dependency: str, category: str = "entity") -> dict[str, Any]:
        own = {"item_id": "vrd_3", "text": "a cup on a mat", "proposition_id": number, "dependency": dependency}
        return own | {"category_broad": category, "question_natural_language": f"Part {number}?"}

    rows = [part(1, "0"), part(2, "1, air"), part(3, "3,2", "relation"), part(4, "5"), part(5, "4")]
    return write_rows(folder / "dsg-1k-anns.csv", rows)


def tifa(folder: Path) -> Path:
    rows = [
        CHOICE | {"question": "how many cups?", "choices": ["1", "2", "3"], "answer": "2"},
        CHOICE | {"question": "is this a dog?", "choices": ["yes", "no"], "answer": "no"},
    ]
    return write_json(folder / "tifa_v1.0_question_answers.json", rows)


def aibench(folder: Path) -> Path:
    asked = [LEVEL | {"correct_option": "A"}, LEVEL | {"id": "V/1_2", "options": UNSEEN, "correct_option": "b"}]
    return write_lines(folder / "AIBench.jsonl", [{"id": "V/1", "method_text": "We pour.", "checklist": asked}])


SETS: dict[str, tuple[Any, str, str, str]] = {
    "geneval2": (geneval2, "00001", "a red cup", "4 atoms"),
    "unigenbench": (unigenbench, "0", "a man in ink", "Art"),
    "corebench": (corebench, "C-MI-001", 'eine Tasse fällt, "{\\"}"', "C-MI"),
    "dsg": (dsg, "vrd_3", "a cup on a mat", "vrd"),
    "tifa": (tifa, "coco_7", "two cups", "coco"),
    "aibench": (aibench, "V/1", "We pour.", "V"),
}
"""Set -> writer of a small one in its format; then id, text and category of one of its prompts."""
NEGATION = "Is this right in the image (Grammar - Negation): no hat?"
CHECKS: dict[str, list[Check]] = {
    "geneval2": [
        Check("1", "How many cups are there?", ("two", "2"), "number", group="count"),
        Check("2", "Are the cups red?", ("yes",), group="attribute"),
    ],
    "unigenbench": [
        Check("1", "Is this right in the image (Style): in ink?", ("yes",), group="Style"),
        Check("2", NEGATION, ("yes",), group="Grammar - Negation", absence=True),
    ],
    "corebench": [
        Check("1", "Is there a cup?", ("yes",), group="instance_pos"),
        Check("2", "No cat?", ("yes",), group="instance_neg", absence=True),
    ],
    "dsg": [
        Check("1", "Part 1?", ("yes",), group="entity"),
        Check("2", "Part 2?", ("yes",), group="entity", parents=("1",)),
        Check("3", "Part 3?", ("yes",), group="relation", parents=("2",)),
        Check("4", "Part 4?", ("yes",), group="entity", parents=("5",)),
        Check("5", "Part 5?", ("yes",), group="entity"),
    ],
    "tifa": [
        Check("1", "how many cups?", ("B",), "choice", (("A", "1"), ("B", "2"), ("C", "3")), "count"),
        Check("2", "is this a dog?", ("no",), group="count", absence=True),
    ],
    "aibench": [
        Check("V/1_1", "Which part?", ("A",), "choice", (("A", "Yes"), ("B", "No")), "Level 1: Parts"),
        Check("V/1_2", "Which part?", ("B",), "choice", (*UNSEEN.items(),), "Level 1: Parts", absence=True),
    ],
}
"""Set -> checks of the prompt."""


def write_images(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(png(7))
    return str(folder)


@pytest.mark.parametrize("name", SETS)
def test_published_set_is_detected_and_read_in_its_own_format(tmp_path: Path, name: str):
    write, prompt_id, text, category = SETS[name]
    source = write(tmp_path / "set")
    images = write_images(tmp_path / "images", f"{prompt_id}.png")
    found = load(source, images=images)
    (sample,) = [each for each in found.samples if each.prompt_id == prompt_id]
    assert (read_texts(sample)["prompt"], sample.category, [*sample.checks]) == (text, category, CHECKS[name])
    assert (sample.sample_id, sample.pictures["image"].problem) == (f"{prompt_id}/{prompt_id.rpartition('/')[2]}", "")
    assert "comes under the licence of its authors" in found.warnings[0]
    assert load(source, images=images, format=name) == found


BROKEN: dict[str, tuple[dict[str, str], str]] = {
    "unigenbench": (
        {"sub_dims_en": '{"Testpoints": ["a" "b"]}'},
        "index 0: sub_dims_en is not a JSON object (column 21: Expecting ',' delimiter)",
    ),
    "lists of different lengths": (
        {"sub_dims_en": json.dumps(POINTS | {"Testpoints": ["Style"]})},
        "'Testpoints' has 1 item, and 'Testpoint Description' 2: both must have the same number",
    ),
    "missing key": ({"sub_dims_en": "{}"}, "key 'Testpoints' is missing"),
    "number for a list": (
        {"sub_dims_en": json.dumps(POINTS | {"Testpoints": 3})},
        "'Testpoints' is a number, must be a list",
    ),
    "no text": ({"prompt_en": " "}, "'prompt_en' is empty, must be text"),
}


@pytest.mark.parametrize(("change", "words"), BROKEN.values(), ids=BROKEN)
def test_broken_row_of_a_published_set_is_refused_or_skipped(tmp_path: Path, change: dict[str, str], words: str):
    path = unigenbench(tmp_path) / "data" / "test_prompts_en.csv"
    with path.open(newline="") as file:
        (good,) = csv.DictReader(file)
    write_rows(path, [good | {"index": "1"}, good | change])
    images = write_images(tmp_path / "images", "1_0.png")
    with pytest.raises(InputError) as stop:
        load(path, images=images)
    assert words in str(stop.value)
    found = load(path, images=images, skip_broken=True)
    assert [each.sample_id for each in found.samples] == ["1/1_0"]
    (left_out,) = [each for each in found.warnings if each.startswith("1 row left out")]
    assert words in left_out


ASKED = {"prompt": "two cups", "atom_count": 3, "vqa_list": [["How many?", 2]], "skills": ["count"]}
MANY = CHOICE | {"question": "how many?", "choices": [*map(str, range(27))], "answer": "26"}
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "geneval2": (
        "geneval2_data.jsonl",
        ASKED,
        "line 1: item 1 of 'vqa_list' is '[\"How many?\", 2]', must be a question",
    ),
    "tifa": ("x_question_answers.json", MANY, "record 1: question 1 has 27 choices, allowed are 26"),
    "another type": ("x_question_answers.json", MANY | {"choices": 3}, "record 1: a value is not of the type"),
}


@pytest.mark.parametrize(("file", "values", "words"), WRONG.values(), ids=WRONG)
def test_wrong_value_in_a_published_set_is_named(tmp_path: Path, file: str, values: dict[str, Any], words: str):
    path = write_lines(tmp_path / file, [values]) if file.endswith("l") else write_json(tmp_path / file, [values])
    with pytest.raises(InputError) as stop:
        load(path, images=write_images(tmp_path / "i", "00000.png"))
    assert f"{file}, {words}" in str(stop.value)


def test_rows_after_a_thousand_broken_ones_are_read(tmp_path: Path):
    path = unigenbench(tmp_path) / "data" / "test_prompts_en.csv"
    with path.open(newline="") as file:
        (good,) = csv.DictReader(file)
    write_rows(path, [*[good | {"sub_dims_en": "{}"}] * 1_100, good | {"index": "1"}])
    images = write_images(tmp_path / "images", "1_0.png")
    found = load(path, images=images, skip_broken=True)
    assert [each.sample_id for each in found.samples] == ["1/1_0"]
    assert any(each.startswith("1,100 rows left out") for each in found.warnings)
    write_rows(path, [good | {"sub_dims_en": "{}"}])
    with pytest.raises(InputError, match=r"has no prompt that can be read: 1 row left out, .*key 'Testpoints' is mis"):
        load(path, images=images, skip_broken=True)


def cups(folder: Path) -> Path:
    lines = [row(number) for number in range(2)]
    asked = {"vqa_list": [["Is there a cup?", "Yes"]], "skills": ["object"], "atom_count": 3}
    return write_lines(folder / "geneval2_data.jsonl", [{"prompt": each["prompt"]} | asked for each in lines])


FOLDERS: dict[str, tuple[list[str], list[tuple[str, str]]]] = {
    "one image": (["00000.png", "00001.jpg"], [("images", "00000/00000"), ("images", "00001/00001")]),
    "numbered": (
        ["00000_10.png", "00000_2.png", "00001-0.webp"],
        [("images", "00000/00000_2"), ("images", "00000/00000_10"), ("images", "00001/00001-0")],
    ),
    "folder per prompt": (["00000/1.png", "00001/0.png"], [("images", "00000/1"), ("images", "00001/0")]),
    "invisible characters": (["00000\u200c.png"], [("images", "00000/00000"), ("images", "00001/none")]),
    "PDF beside it": (["00000.png", "00000.pdf", "00001.png"], [("images", "00000/00000"), ("images", "00001/00001")]),
    "candidates": (
        ["b/00000.png", "a/00000/0.png", "a/00001/0.png", "logs/plot.png"],
        [("a", "00000/0"), ("a", "00001/0"), ("b", "00000/00000"), ("b", "00001/none")],
    ),
}


@pytest.mark.parametrize(("files", "samples"), FOLDERS.values(), ids=FOLDERS)
def test_images_are_found_by_name_in_a_folder(tmp_path: Path, files: list[str], samples: list[tuple[str, str]]):
    found = load(cups(tmp_path / "set"), images=write_images(tmp_path / "images", *files))
    assert [(each.candidate, each.sample_id) for each in found.samples] == samples
    strange = [each for each in found.warnings if "of no prompt" in each]
    assert strange == ["images has 1 image of no prompt of the dataset: 'logs/plot.png'"] * ("logs/plot.png" in files)


MAPS: dict[str, tuple[object, list[tuple[str, str]]]] = {
    "prompts": ({"a cup, 0": "x/p.png", "a\u200b cup, 1": "q.png"}, [("00000/p", ""), ("00001/q", "")]),
    "ids and lists": ({"00001": ["x/p.png", "q.png"]}, [("00000/none", "no"), ("00001/p", ""), ("00001/q", "")]),
    "equal stems": (
        {"00000": ["1.png", "p.png", "x/p.png"], "00001": "q.png"},
        [*((f"00000/{n}", "") for n in "012"), ("00001/q", "")],
    ),
    "missing file": ({"00000": "p.png", "00001": "z.png"}, [("00000/p", ""), ("00001/z", "no")]),
}


@pytest.mark.parametrize(("content", "samples"), MAPS.values(), ids=MAPS)
def test_images_are_found_by_a_map(tmp_path: Path, content: object, samples: list[tuple[str, str]]):
    write_images(tmp_path, "1.png", "p.png", "q.png", "x/p.png")
    path = write_json(tmp_path / "m.json", content)
    found = load(cups(tmp_path / "set"), images=str(path), candidate_name="c")
    assert {each.candidate for each in found.samples} == {"c"}
    assert [(each.sample_id, each.pictures["image"].problem[:2]) for each in found.samples] == samples


def test_prompt_listed_twice_in_a_set_is_refused(tmp_path: Path):
    path = unigenbench(tmp_path) / "data" / "test_prompts_en.csv"
    with path.open(newline="") as file:
        (line,) = csv.DictReader(file)
    write_rows(path, [line, line])
    with pytest.raises(InputError, match=r"row 2: prompt '0' is already in test_prompts_en.csv, row 1"):
        load(path, images=write_images(tmp_path / "i", "0_0.png"))


def test_id_of_a_published_set_cannot_leave_the_image_folder(tmp_path: Path):
    line = {"id": "../V", "method_text": "We pour.", "checklist": [LEVEL | {"correct_option": "A"}]}
    path = write_lines(tmp_path / "AIBench.jsonl", [line])
    with pytest.raises(InputError, match=r"line 1: id '\.\.' names nothing"):
        load(path, images=write_images(tmp_path / "i", "V.png"))


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "no images": ({"images": ""}, "images is empty: name the folder"),
    "no such folder": ({"images": "gone"}, "does not exist"),
    "images of no prompt": ({"images": "other"}, "images other has none of any prompt: found 'cat.png'"),
    "a map of other prompts": ({"images": "other.json"}, "found 'a cat', looked for names such as '00000.png'"),
    "a list in place of a map": ({"images": "list.json"}, "images list.json: is not a JSON object (found a list)"),
    "a map of no files": ({"images": "bad.json"}, "'00000' must be the name of a file"),
    "name for two": ({"images": "two", "candidate_name": "x"}, "candidate_name can name one candidate, two holds"),
    "files of one image": ({"images": "same"}, "are files of one image: keep one"),
    "two lists": ({"dataset": "lists"}, "holds several lists of prompts, test_prompts_en.csv, test_prompts_zh.csv"),
    "no list": ({"dataset": "two"}, "holds no checklists; looked for geneval2_data.jsonl"),
    "another format": ({"format": "dsg"}, "line 1: key 'proposition_id' is missing"),
}


@pytest.mark.parametrize(("given", "words"), REFUSED.values(), ids=REFUSED)
def test_wrong_combination_of_files_is_refused(tmp_path: Path, given: dict[str, Any], words: str):
    cups(tmp_path / "set")
    write_images(tmp_path, "other/cat.png", "two/a/00000.png", "two/b/00000.png", "same/00000.png", "same/00000.jpg")
    write_json(tmp_path / "other.json", {"a cat": "other/cat.png"})
    write_json(tmp_path / "list.json", ["other/cat.png"])
    write_json(tmp_path / "bad.json", {"00000": 3, "00001": "other/cat.png"})
    for name in ("en", "zh"):
        write_rows(tmp_path / "lists" / f"test_prompts_{name}.csv", [{"index": 0}])
    source = tmp_path / given.get("dataset", "set")
    images = given.get("images", "two") and str(tmp_path / given.get("images", "two"))
    with pytest.raises(InputError) as stop:
        load(source / "geneval2_data.jsonl" if "format" in given else source, **given | {"images": images})
    assert words in str(stop.value)


REAL = Path(os.environ.get("JURY_PUBLISHED_SETS") or PUBLISHED / "sets")
COUNTS = {
    "geneval2": (800, 6_012),
    "unigenbench/data/test_prompts_en.csv": (600, 1_813),
    "unigenbench/data/test_prompts_zh.csv": (600, 1_813),
    "unigenbench/data/test_prompts_en_long.csv": (599, 3_915),
    "corebench": (1_080, 13_536),
    "dsg": (1_060, 8_182),
}


@pytest.mark.parametrize(("path", "counts"), COUNTS.items(), ids=COUNTS)
def test_set_from_its_repository_has_all_prompts_and_checks(tmp_path: Path, path: str, counts: tuple[int, int]):
    source = REAL / path
    if not source.exists():
        pytest.skip(f"{source} does not exist: clone the set's repository, or name its parent in JURY_PUBLISHED_SETS")
    first = {"geneval2": "00000", "corebench": "C-MI-001", "dsg": "vrd_1"}.get(path, "0")
    found = load(source, images=write_images(tmp_path / "images", f"{first}.png"), skip_broken=True)
    assert (len(found.samples), sum(len(each.checks) for each in found.samples)) == counts
    assert all(read_texts(each)["prompt"].strip() for each in found.samples[:: len(found.samples) // 20])


def export(dataset: Dataset, path: Path, scores: dict[str, list[float | None]], **parameters: object) -> list[str]:
    """Export scores of checks by sample, in another order than the dataset's; return the warnings."""
    asked = ChecklistParameters.model_validate({"export": str(path)} | parameters)
    unused: Any = None
    extension = Export(Opening("facts", asked, asked, unused, None, False))
    asyncio.run(extension.prepare(dataset))
    asyncio.run(extension.begin(unused))
    for sample in reversed(dataset.samples):
        given = zip(sample.checks, scores.get(sample.sample_id, []), strict=False)
        aspects = [AspectScore(aspect=check.check_id, score=score, explanation="A") for check, score in given]
        status = "bad_picture" if sample.pictures["image"].problem else "complete"
        extension.after_outcome(sample, outcome(sample.sample_id, status=status, aspects=aspects))
        extension.after_outcome(sample, outcome(sample.sample_id, control="blank", aspects=aspects[:1]))
    return [*asyncio.run(extension.finish())]


def test_geneval2_export_has_one_list_per_prompt_in_file_order(tmp_path: Path):
    found = load(geneval2(tmp_path), images=write_images(tmp_path / "i", "00000_0.png", "00000_1.png", "00001.png"))
    scores = {"00000/00000_0": [50.0, 100.0], "00000/00000_1": [25.0, 0.0], "00001/00001": [0.0, None]}
    warnings = export(found, tmp_path / "scores.json", scores)
    assert json.loads((tmp_path / "scores.json").read_text()) == [[0.375, 0.5], [0.0, None]]
    assert warnings == ["1 check of the export without a score"]


def test_unigenbench_export_has_columns_of_points_and_results(tmp_path: Path):
    path = unigenbench(tmp_path) / "data" / "test_prompts_en.csv"
    found = load(path, images=write_images(tmp_path / "i", "0_0.png", "0_1.png", "0_2.png"))
    scores = {"0/0_0": [100.0, 0.0], "0/0_1": [None, 100.0], "0/0_2": [None, None]}
    export(found, tmp_path / "out.csv", scores)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    read = [
        (ast.literal_eval(row["testpoint"]), row["result_json"] and ast.literal_eval(row["result_json"])["score"])
        for row in rows
    ]
    assert read == [(["Style", "Grammar - Negation"], [1, 0]), (["Grammar - Negation"], [1]), ([], "")]
    assert [Path(row["img_path"]).name for row in rows] == ["0_0.png", "0_1.png", "0_2.png"]


def test_corebench_export_adds_scores_to_the_records_of_the_set(tmp_path: Path):
    images = write_images(tmp_path / "i", "C-MI/C-MI-001-0.png", "C-MI-002/0.png")
    found = load(corebench(tmp_path / "set"), images=images)
    scores = {"C-MI-001/C-MI-001-0": [100.0, None], "C-MI-002/0": [0.0, 100.0]}
    export(found, tmp_path / "out.json", scores)
    read = json.loads((tmp_path / "out.json").read_text())
    assert read.pop("mean_score") == 0.75
    assert {name: [each["score"] for each in record["Checklist"]] for name, record in read.items()} == {
        "C-MI-001-0": [1, ""],
        "C-MI-002-0": [0, 1],
    }
    assert (read["C-MI-001-0"]["Remark"], read["C-MI-001-0"]["image_score"]) == ("x", 1.0)


def test_aibench_export_has_one_record_per_paper_with_levels(tmp_path: Path):
    found = load(aibench(tmp_path / "set"), images=write_images(tmp_path / "i", "V/1.png"))
    export(found, tmp_path / "out.jsonl", {"V/1/1": [100.0, None]})
    (record,) = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    (step,) = record["steps"]
    assert (record["prompt_id"], step["task"], step["score"]) == ("V/1", "visual_qa", 0.5)
    fields = ("qid", "level", "gt", "pred", "is_correct")
    assert [tuple(each[field] for field in fields) for each in step["details"]] == [
        ("V/1_1", "Level 1: Parts", "A", "A", True),
        ("V/1_2", "Level 1: Parts", "B", "", False),
    ]


NO_EXPORT: dict[str, tuple[str, dict[str, object], str]] = {
    "another ending": ("out.txt", {}, "found another ending; allowed: .csv"),
    "a set's own file": ("data/test_prompts_en.csv", {}, "found a file that is no export"),
    "a folder": ("folder.csv", {}, "found a folder"),
    "below a file": ("kept.txt/out.csv", {}, "cannot be written"),
    "skipped rows": ("out.json", {"format": "geneval2", "skip_broken": True}, "GenEval 2 counts results by the rows"),
    "no export format": ("out.csv", {"format": "dsg"}, "has no form of its own; allowed are geneval2, unigen"),
}


@pytest.mark.parametrize("case", NO_EXPORT)
def test_impossible_export_is_refused_before_the_first_call(tmp_path: Path, case: str):
    name, given, words = NO_EXPORT[case]
    found = load(unigenbench(tmp_path), images=write_images(tmp_path / "i", "0_0.png"))
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "kept.txt").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=words):
        export(found, tmp_path / name, {}, **given)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_export_replaces_an_earlier_one_and_refuses_two_candidates(tmp_path: Path):
    source = unigenbench(tmp_path)
    one = load(source, images=write_images(tmp_path / "i", "a/0_0.png"))
    for score in (0.0, 100.0):
        export(one, tmp_path / "out.csv", {"0/0_0": [score, score]})
    assert "[1, 1]" in (tmp_path / "out.csv").read_text()
    two = load(source, images=write_images(tmp_path / "i", "b/0_0.png"))
    with pytest.raises(InputError, match="export takes the images of one candidate, found a, b"):
        export(two, tmp_path / "new.csv", {})
