"""GenEval image folders: one sample for each image; missing images and faults are reported before judging."""

import json
import os
from collections import Counter
from pathlib import Path
from shutil import rmtree

import pytest
from own_data import LISTS, each_list
from written_datasets import png, write_rows
from written_images import LIST, prompt_row, write_geneval, write_prompt

from tasks.datasets.entries import read_picture
from tasks.datasets.geneval import NO_LIST, Generated, gaps, read_geneval
from tasks.datasets.rows import read_row
from tasks.errors import InputError, Problems
from tasks.protocols.loading import load_dataset
from tasks.records import Requirement
from tasks.records.parameters import T2I, RubricParameters

ROWS = [prompt_row("bench"), prompt_row("cow"), prompt_row("clock", "counting")]


def given(source: Path, **parameters: object) -> RubricParameters:
    return RubricParameters.model_validate({"dataset": str(source)} | parameters)


def load(source: Path, **parameters: object) -> Generated:
    problems = Problems()
    found = read_geneval(source, given(source, **parameters), problems)
    problems.stop(source.name)
    return found


def load_error(source: Path, **parameters: object) -> str:
    with pytest.raises(ValueError) as error:
        load(source, **parameters)
    return str(error.value)


def all_warnings(found: Generated) -> list[str]:
    """Return the warnings of a run that judges all samples."""
    return [*found.warnings, *gaps(found.samples)]


def ids(found: Generated) -> list[str]:
    return [sample.sample_id for sample in found.samples]


COVERED = {
    "own": (
        [3, 4, 5, 9, 12, 13, 17, 20, 23],
        {"single_object": 4, "two_object": 4, "counting": 4, "colors": 4, "position": 4, "color_attr": 4},
        [
            "3 of 8 prompts have no image of flux: 00003 (single_object), 00004 (two_object), 00005 (two_object)",
            "1 of 4 prompts has no image of flux: 00009 (counting)",
            "4 of 8 prompts have no image of flux: "
            "00012 (colors), 00013 (colors), 00020 (color_attr), 00023 (color_attr)",
            "1 of 4 prompts has no image of flux: 00017 (position)",
        ],
    ),
    "published": (
        [3, 80, 81, 200, 300, 301, 400, 500, 552],
        {"single_object": 80, "two_object": 99, "counting": 80, "colors": 94, "position": 100, "color_attr": 100},
        [
            "3 of 179 prompts have no image of flux: 00003 (single_object), 00080 (two_object), 00081 (two_object)",
            "1 of 80 prompts has no image of flux: 00200 (counting)",
            "4 of 194 prompts have no image of flux: "
            "00300 (colors), 00301 (colors), 00500 (color_attr), 00552 (color_attr)",
            "1 of 100 prompts has no image of flux: 00400 (position)",
        ],
    ),
}
"""List of prompts -> folders to remove, prompts of each tag, and the warning of each flow."""


@each_list
def test_missing_folders_of_a_list_are_named_by_flow(tmp_path: Path, geneval_list: Path):
    gone, tags, warnings = COVERED["own" if geneval_list == LISTS["own"] else "published"]
    rows = [json.loads(line) for line in geneval_list.read_text(encoding="utf-8").splitlines()]
    root = write_geneval(tmp_path / "flux", rows, 1, (), with_list=False)
    for number in gone:
        rmtree(root / f"{number:05}")
    found = load(root, metadata=str(geneval_list))
    named = ", ".join(f"{number:05} ({rows[number]['tag']})" for number in gone)
    assert all_warnings(found) == [f"9 of {sum(tags.values())} prompts have no image of flux: {named}"]
    loads = [load_dataset(flow, given(root, metadata=str(geneval_list))) for flow in T2I]
    assert [dataset.warnings for dataset in loads] == [(words,) for words in warnings]
    assert len(found.samples) == sum(tags.values())
    assert Counter(prompt.tag for prompt in found.prompts.values()) == tags
    assert all(len(sample.required) in (1, 2) for sample in found.samples)


def test_each_image_is_a_sample_with_its_prompt_and_requirements(tmp_path: Path):
    row = prompt_row(
        include=[{"class": "teddy bear", "count": 1}, {"class": "dog", "count": 2, "position": ["right of", 0]}],
        exclude=[{"class": "dog", "count": 3}],
        tag="position",
    )
    found = load(write_geneval(tmp_path / "set", [prompt_row("cow"), row]))
    assert ids(found) == ["00000/0000", "00000/0001", "00001/0000", "00001/0001"]
    sample = found.samples[3]
    assert (sample.candidate, sample.tag, sample.prompt_id) == ("a", "position", "00001")
    assert read_picture(sample.pictures["image"]) == png(1)
    assert read_row(sample.record, [sample.texts["prompt"]]) == {"prompt": "a photo of a bench"}
    dog = Requirement(name="dog", count=2, relation="right of", target=0)
    assert sample.required == (Requirement(name="teddy bear"), dog)
    assert sample.excluded == (Requirement(name="dog", count=3),)
    assert (found.prompts["00001"].tag, found.prompts["00001"].prompt) == ("position", "a photo of a bench")
    assert all_warnings(found) == []


def test_candidate_whose_folder_is_not_named_in_utf8_is_judged(tmp_path: Path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system holds no such name")
    write_prompt(folder / "00000", prompt_row("bench"), ["0000.png"])
    found = load(tmp_path)
    assert [sample.candidate for sample in found.samples] == ["caf?"]
    assert read_picture(found.samples[0].pictures["image"])


def test_folder_of_prompt_folders_is_one_candidate(tmp_path: Path):
    write_geneval(tmp_path / "set", ROWS, 1, ("b", "a"))
    found = load(tmp_path / "set")
    assert [(sample.candidate, sample.sample_id) for sample in found.samples] == [
        *[("a", "00000/0000"), ("a", "00001/0000"), ("a", "00002/0000")],
        *[("b", "00000/0000"), ("b", "00001/0000"), ("b", "00002/0000")],
    ]
    assert {sample.candidate for sample in load(tmp_path / "set" / "b").samples} == {"b"}
    assert {sample.candidate for sample in load(tmp_path / "set" / "b", candidate_name="x").samples} == {"x"}
    assert "choose among them with `candidate`" in load_error(tmp_path / "set", candidate_name="x")
    root = write_geneval(tmp_path / "of one", ROWS, 1, ("20260101",))
    assert {sample.candidate for sample in load(root).samples} == {"20260101"}
    assert {sample.candidate for sample in load(root, candidate_name="x").samples} == {"x"}


@pytest.mark.parametrize("place", ["set", "."])
def test_named_list_precedes_one_in_or_beside_the_dataset(tmp_path: Path, place: str):
    root = write_geneval(tmp_path / "set", ROWS[:1], 1, (), with_list=False)
    write_rows(tmp_path / place / LIST, ROWS)
    assert len(load(root).prompts) == 3
    other = write_rows(tmp_path / "mine.jsonl", [*ROWS, prompt_row("apple")])
    assert len(load(root, metadata=str(other)).prompts) == 4
    gone = tmp_path / "gone.jsonl"
    assert f"metadata {gone} does not exist; it is GenEval's" in load_error(root, metadata=str(gone))


def test_only_files_named_by_digits_are_read(tmp_path: Path):
    root = write_geneval(tmp_path / "set", ROWS[:1], 1)
    for name in ("grid.png", ".DS_Store", "Thumbs.db", "._0000.png", "0000.txt", "²2.png", "1a.png"):
        (root / "a" / "00000" / "samples" / name).write_bytes(png(9))
    (root / "a" / "00000" / "samples" / "0007.png").mkdir()
    (root / "a" / "00000" / "grid.png").write_bytes(png(9))
    (root / "a" / "00001").write_text("no folder")
    write_prompt(root / "a" / "old", ROWS[1], ["0000.png"])
    found = load(root)
    assert ids(found) == ["00000/0000"]


def test_images_and_folders_are_matched_by_number(tmp_path: Path):
    root = write_geneval(tmp_path / "set", ROWS[:1], 0)
    write_prompt(root / "a" / "00000", ROWS[0], ["10.JPG", "9.webp", "0002.jpeg"])
    write_prompt(root / "a" / "1", ROWS[1], ["0000.png", "0001.png", "0002.png"])
    write_rows(root / LIST, ROWS[:2])
    found = load(root)
    assert ids(found) == [*(f"00000/{name}" for name in ("0002", "9", "10")), *(f"00001/000{n}" for n in range(3))]
    assert all_warnings(found) == []


def test_prompts_without_a_folder_or_image_are_reported(tmp_path: Path):
    root = write_geneval(tmp_path / "set", ROWS, 1, ("a", "b"))
    rmtree(root / "b" / "00001")
    (root / "b" / "00002" / "samples" / "0000.png").unlink()
    found = load(root)
    assert all_warnings(found) == ["2 of 3 prompts have no image of b: 00001 (single_object), 00002 (counting)"]
    assert ids(found)[4:] == ["00001/none", "00002/none"]


def test_flow_warns_only_about_what_it_judges(tmp_path: Path):
    others = [prompt_row("sign", "text"), prompt_row("note", "text"), prompt_row("ball", "shape")]
    root = write_geneval(tmp_path / "set", [*ROWS, *others], 2, ("a", "b"))
    rmtree(root / "a" / "00002")
    (root / "b" / "00001" / "metadata.jsonl").unlink()
    strange = "tags not judged by any flow: text (2 prompts), shape (1 prompt)"
    missing = "1 of 1 prompts has no image of a: 00002 (counting)"
    bare = "b has no metadata.jsonl: the list's prompt is taken in 2 samples: 00001/0000, 00001/0001"

    def warned(flow: str, **chosen: object) -> tuple[str, ...]:
        return load_dataset(flow, given(root, **chosen)).warnings

    assert warned("counting") == (strange, missing)
    assert warned("counting", candidate=["b"]) == (strange,)
    assert warned("object") == (strange, bare)
    assert warned("object", ids=["00000/0000", "00001"], candidate=["a"]) == (strange,)
    assert warned("object", limit=1, candidate=["b"]) == (strange,)


def test_dataset_without_the_flows_tags_is_refused_with_those_it_has(tmp_path: Path):
    root = write_geneval(tmp_path / "set", ROWS, 1)
    said = "has no prompt for colors: colors judges the tags color_attr, colors; the dataset has only "
    with pytest.raises(InputError, match=rf"{said}single_object \(2 prompts\), counting \(1 prompt\)$"):
        load_dataset("colors", given(root))


def test_prompts_come_from_folders_without_a_list(tmp_path: Path):
    root = write_geneval(tmp_path / "set", ROWS, 1, ("a", "b"), with_list=False)
    rmtree(root / "a" / "00001")
    found = load(root)
    assert [*found.prompts] == ["00000", "00001", "00002"]
    assert all_warnings(found) == [NO_LIST, "1 of 3 prompts has no image of a: 00001 (single_object)"]
    assert read_row(found.samples[5].record, ["prompt"]) == {"prompt": "a photo of a clock"}


def test_folder_without_metadata_takes_the_row_of_the_list(tmp_path: Path):
    root = write_geneval(tmp_path / "set", ROWS, 1)
    for number in (0, 2):
        (root / "a" / f"0000{number}" / "metadata.jsonl").unlink()
    found = load(root)
    assert [sample.tag for sample in found.samples] == ["single_object", "single_object", "counting"]
    note = "a has no metadata.jsonl: the list's prompt is taken"
    assert [sample.notes for sample in found.samples] == [(note,), (), (note,)]
    (root / LIST).unlink()
    assert f"a/00002: has no metadata.jsonl, and there is no {LIST} with its prompt" in load_error(root)


def test_image_link_in_a_prompt_is_dropped_and_noted(tmp_path: Path):
    row = prompt_row(prompt="a bench ![answer](x.png)")
    found = load(write_geneval(tmp_path / "set", [row], 1))
    assert found.samples[0].notes == ("1 image link dropped from the prompt",)
    assert found.prompts["00000"].prompt == "a bench "


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tag": 5}, "'tag' is a number, must be text"),
        ({"prompt": None}, "'prompt' is null, must be text"),
        ({"prompt": " "}, "'prompt' is empty, must be text"),
        ({"include": "bench"}, "include: Invalid JSON: expected value at line 1 column 1, found 'bench'"),
        ({"include": {"class": "bench"}}, "include: Input should be a valid list, found {'class': 'bench'}"),
        ({"include": ["bench"]}, "include: 0: Input should be a valid dictionary"),
        ({"include": [{"count": 1}]}, "include: 0.class: Field required"),
        ({"include": [{"class": "", "count": 1}]}, "include: 0.class: String should have at least 1 character"),
        ({"include": [{"class": "bench"}]}, "include: 0.count: Field required"),
        ({"include": [{"class": "bench", "count": 0}]}, "0.count: Input should be greater than or equal to 1, found 0"),
        ({"include": [{"class": "bench", "count": True}]}, "0.count: Input should be a valid integer, found True"),
        ({"include": [{"class": "bench", "count": "2"}]}, "0.count: Input should be a valid integer, found '2'"),
        ({"include": [{"class": "bench", "count": 1, "color": 3}]}, "0.color: Input should be a valid string, found 3"),
        ({"include": [{"class": "bench", "count": 1, "colour": "red"}]}, "0.colour: there is no such key"),
        ({"exclude": [{"class": "bench", "count": -1}]}, "exclude: 0.count: Input should be greater than or equal to"),
        ({"exclude": [{"class": "bench", "count": 1, "color": "red"}]}, "exclude: 0.color: there is no such key"),
    ],
)
def test_prompt_faults_are_named_in_list_and_folder(tmp_path: Path, changes: dict[str, object], words: str):
    write_geneval(tmp_path / "set", [ROWS[1], prompt_row(**changes)], 1)
    assert f"{LIST}, line 2: " in load_error(tmp_path / "set")
    (tmp_path / "set" / LIST).unlink()
    error = load_error(tmp_path / "set")
    assert "a/00001/metadata.jsonl: " in error
    assert words in error


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (["beside", 0], "1.position.0: Input should be 'left of', 'right of', 'above' or 'below', found 'beside'"),
        (["above"], "1.position.1: Field required"),
        (["above", 0, 1], "1.position: Tuple should have at most 2 items after validation, not 3"),
        ("above", "1.position: Input should be a valid tuple, found 'above'"),
        (["above", "0"], "1.position.1: Input should be a valid integer, found '0'"),
        (["above", 2], "include: 1.position: points to entry 2, must be another of 2 from 0"),
        (["above", -1], "include: 1.position: points to entry -1, must"),
        (["above", 1], "include: 1.position: points to entry 1, must"),
    ],
)
def test_position_must_relate_to_another_object(tmp_path: Path, position: object, words: str):
    include = [{"class": "dog", "count": 1}, {"class": "kite", "count": 1, "position": position}]
    assert words in load_error(write_geneval(tmp_path / "set", [prompt_row(include=include)], 1))


def test_problems_of_the_list_are_reported_before_others(tmp_path: Path):
    root = write_geneval(tmp_path / "set", ROWS, 1)
    (root / LIST).write_text('{"tag": "colors"}\n[1]\n{"tag": null, "prompt": "x"}\n', encoding="utf-8")
    assert load_error(root).splitlines() == [
        f"metadata {root / LIST} has 3 problems:",
        f"  {LIST}, line 1: key 'prompt' is missing",
        f"  {LIST}, line 2: is not a JSON object (found a list); the file must be an array of objects, or one a line, "
        "in UTF-8",
        f"  {LIST}, line 3: 'tag' is null, must be text",
    ]
    (root / LIST).write_text("\n", encoding="utf-8")
    assert f"{LIST}: holds no row" in load_error(root)


def test_problems_of_folders_are_reported_together(tmp_path: Path):
    root = write_geneval(tmp_path / "set", ROWS, 1)
    write_prompt(root / "a" / "00000", ROWS[1], [])
    write_prompt(root / "a" / "00002", prompt_row("clock", "colors"), [])
    write_prompt(root / "a" / "1", ROWS[1], ["0000.png"])
    write_prompt(root / "a" / "00003", ROWS[1], ["0000.png"])
    assert load_error(root).splitlines() == [
        "set has 4 problems:",
        "  a/1: has the same number as a/00001: keep one",
        f"  a/00000/metadata.jsonl: 'prompt' is 'a photo of a cow', in {LIST}, line 1 it is 'a photo of a bench'",
        f"  a/00002/metadata.jsonl: 'tag' is 'colors', in {LIST}, line 3 it is 'counting'",
        "  a/00003: is beyond the list, which has 3 prompts from 00000",
    ]


def test_candidates_without_a_list_must_have_the_same_prompts(tmp_path: Path):
    both = write_geneval(tmp_path / "set", ROWS, 1, ("a", "b"), with_list=False)
    write_prompt(both / "b" / "00001", ROWS[0], [])
    words = "b/00001/metadata.jsonl: 'prompt' is 'a photo of a bench', in a/00001/metadata.jsonl it is"
    assert words in load_error(both)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ": is not a JSON object (column 1: Expecting value)"),
        (json.dumps(ROWS[0]) + "\n" + json.dumps(ROWS[1]), ": is not a JSON object (line 2, column 1: Extra data)"),
        ("[" * 100_000, ""),
        ("[1]", ": is not a JSON object (found a list)"),
    ],
)
def test_folder_has_exactly_one_metadata_row(tmp_path: Path, content: str, words: str):
    root = write_geneval(tmp_path / "set", ROWS, 1)
    (root / "a" / "00000" / "metadata.jsonl").write_text(content, encoding="utf-8")
    assert f"a/00000/metadata.jsonl: must hold exactly one row{words}" in load_error(root)


def test_two_images_of_one_number_are_a_problem(tmp_path: Path):
    assert "bad has 1 problem" in load_error(write_geneval(tmp_path / "bad", [prompt_row(tag=5)], 1, with_list=False))
    root = write_geneval(tmp_path / "set", ROWS[:1], 1)
    (root / "a" / "00000" / "samples" / "0.jpg").write_bytes(png(1))
    assert "a/00000/samples: 0000.png has the same number as 0.jpg: keep one" in load_error(root)


def test_dataset_without_images_or_prompt_folders_is_refused(tmp_path: Path):
    assert "set: holds no image: they are samples/0000.png" in load_error(write_geneval(tmp_path / "set", ROWS, 0))
    (tmp_path / "bare" / "00000").mkdir(parents=True)
    assert f"dataset {tmp_path / 'bare'} holds no GenEval images" in load_error(tmp_path / "bare")
