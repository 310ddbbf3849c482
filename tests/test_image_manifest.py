"""A manifest of images gives one sample for each row, in whichever of its formats, and groups them by prompt."""

import json
from pathlib import Path

import pytest
from written_datasets import inline, png
from written_images import image_row, write_manifest

from tasks.datasets.contents import read_picture
from tasks.datasets.coverage import Generated, Prompted, gaps
from tasks.datasets.folders import NO_PICTURE
from tasks.datasets.image_manifest import read_image_manifest
from tasks.datasets.rows import read_row
from tasks.errors import Problems
from tasks.parameters import RubricParameters
from tasks.records import Requirement, Sample

INCLUDE = [{"class": "car", "count": 1, "color": "red"}, {"class": "dog", "count": 2}]
CLOCK = {"tag": "counting", "prompt": "two clocks"}


def loaded(path: Path, **parameters: object) -> Generated:
    problems = Problems()
    given = RubricParameters.model_validate({"dataset": str(path)} | parameters)
    found = read_image_manifest(path, given, problems)
    problems.stop(path.name)
    return found


def samples(path: Path, **parameters: object) -> list[Sample]:
    return [entry.sample for entry in loaded(path, **parameters).entries]


def complaint(path: Path, **parameters: object) -> str:
    with pytest.raises(ValueError) as error:
        loaded(path, **parameters)
    return str(error.value)


@pytest.mark.parametrize("ending", ["jsonl", "ndjson", "json", "csv", "parquet"])
def test_every_format_gives_prompts_images_and_what_is_asked_for(tmp_path: Path, ending: str):
    asks = {"include": json.dumps(INCLUDE), "exclude": json.dumps([{"class": "car", "count": 2}])}
    rows = [image_row(1, candidate="x", **asks), image_row(2, candidate="x", **asks)]
    found = samples(write_manifest(tmp_path / f"m.{ending}", rows))
    assert [(one.sample_id, one.candidate, one.tag, one.prompt_id) for one in found] == [
        ("i1", "x", "colors", "i1"),
        ("i2", "x", "colors", "i1"),
    ]
    assert read_row(found[1].record, ["id", found[1].texts["prompt"]]) == {"id": "i2", "prompt": "a photo of a red car"}
    assert read_picture(found[1].pictures["image"]) == png(2)
    assert found[0].required == (Requirement(name="car", color="red"), Requirement(name="dog", count=2))
    assert found[0].excluded == (Requirement(name="car", count=2),)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_what_is_asked_for_may_be_a_list_itself(tmp_path: Path, ending: str):
    rows = [image_row(1, include=INCLUDE), image_row(2, include=INCLUDE)]
    assert len(samples(write_manifest(tmp_path / f"m.{ending}", rows))[1].required) == 2


@pytest.mark.parametrize("absent", ["", None])
def test_what_is_asked_for_may_be_left_out(tmp_path: Path, absent: str | None):
    assert samples(write_manifest(tmp_path / "m.csv", [image_row(1, include=absent)]))[0].required == ()


def test_images_may_be_bytes_in_parquet_and_data_urls(tmp_path: Path):
    parquet = write_manifest(tmp_path / "m.parquet", [image_row(1, image=png(7))])
    lines = write_manifest(tmp_path / "m.jsonl", [image_row(1, image=f"data:image/png;base64,{inline(8)}")])
    assert [read_picture(samples(path)[0].pictures["image"]) for path in (parquet, lines)] == [png(7), png(8)]


def test_rows_of_one_tag_and_text_are_of_one_prompt_that_is_named_after_the_first(tmp_path: Path):
    rows = [image_row(0, **CLOCK), image_row(1), image_row(2, **CLOCK), image_row(3, prompt="two clocks")]
    found = loaded(write_manifest(tmp_path / "m.jsonl", rows))
    assert [(entry.sample.sample_id, entry.sample.prompt_id) for entry in found.entries] == [
        *[("i0", "i0"), ("i2", "i0")],
        ("i1", "i1"),
        ("i3", "i3"),
    ]
    assert found.prompts == [
        Prompted("i0", "counting", "two clocks"),
        Prompted("i1", "colors", "a photo of a red car"),
        Prompted("i3", "colors", "two clocks"),
    ]


def test_equal_prompts_have_equal_hashes(tmp_path: Path):
    rows = [image_row(0, **CLOCK), image_row(1), image_row(2, **CLOCK)]
    first, second, other = (entry.text_sha256 for entry in loaded(write_manifest(tmp_path / "m.jsonl", rows)).entries)
    assert first == second != other


def test_candidates_come_by_column_else_by_parameter_else_by_file(tmp_path: Path):
    path = write_manifest(
        tmp_path / "march.csv", [image_row(0, candidate="b"), image_row(0), image_row(1, candidate="b")]
    )
    assert [one.candidate for one in samples(path)] == ["b", "b", "march"]
    assert [one.candidate for one in samples(path, candidate_name="mine")] == ["b", "b", "mine"]


def test_what_one_candidate_has_and_another_lacks_is_named(tmp_path: Path):
    rows = [
        *[image_row(0, candidate="a"), image_row(1, candidate="a"), image_row(2, candidate="a", **CLOCK)],
        image_row(0, candidate="b"),
    ]
    found = loaded(write_manifest(tmp_path / "m.jsonl", rows))
    assert gaps([entry.sample for entry in found.entries]) == [
        "a has 2 images a prompt, except i2 (1)",
        "1 of 2 prompts has no image of b: i2 (counting)",
        "candidates have unequal numbers of images per prompt, and more images are more chances: a (2), b (1)",
    ]
    absent = found.entries[-1].sample
    assert (absent.sample_id, absent.candidate, absent.tag) == ("i2/none", "b", "counting")
    assert absent.pictures["image"].problem == f"{NO_PICTURE}b has no image of prompt i2"
    assert read_row(absent.record, ["prompt"]) == {"prompt": "two clocks"}


def test_tags_of_no_flow_are_counted(tmp_path: Path):
    found = loaded(write_manifest(tmp_path / "m.jsonl", [image_row(1), image_row(2, tag="text")]))
    assert found.warnings == ["tags not judged by any flow: text (1 prompt)"]


def test_half_a_surrogate_pair_does_not_stop_the_loading(tmp_path: Path):
    row = image_row(1, tag="\ud800", prompt="x\ud800", candidate="\ud800")
    sample = samples(write_manifest(tmp_path / "m.jsonl", [row]))[0]
    assert (sample.tag, sample.candidate) == ("?", "?")


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (None, NO_PICTURE),
        ("", NO_PICTURE),
        ("out/gone.png", NO_PICTURE),
    ],
)
def test_an_image_out_of_reach_is_the_problem_of_its_sample_alone(tmp_path: Path, image: str | None, problem: str):
    (tmp_path / "data").mkdir()
    rows = [image_row(1, image=image), image_row(2)]
    found = loaded(write_manifest(tmp_path / "data" / "m.jsonl", rows))
    first, second = (entry.sample.pictures["image"].problem for entry in found.entries)
    assert first.startswith(problem)
    assert second == ""
    told = f"1 image of m out of reach: i1 ({first.removeprefix(NO_PICTURE)})"
    assert gaps([entry.sample for entry in found.entries]) == [told]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([image_row(1, includes=[])], "m.jsonl, line 1: column 'includes' does not exist, allowed are id, tag, prompt"),
        (
            [image_row(1), image_row(1)],
            "m.jsonl, line 2: id 'i1' of 'm' stands in m.jsonl, line 1 before: give one of them another id",
        ),
        (
            [image_row(1, candidate="a"), image_row(1, candidate="b", **CLOCK)],
            "m.jsonl, line 2: id 'i1' has another tag or prompt than in m.jsonl, line 1",
        ),
        (
            [image_row(1, include=INCLUDE), image_row(2)],
            "m.jsonl, line 2: include or exclude differ from those of the same prompt in m.jsonl, line 1",
        ),
        ([image_row(1, candidate=5)], "m.jsonl, line 1: 'candidate' is a number, must be text"),
        ([image_row(1, image=5)], "m.jsonl, line 1: key 'image' is a number, must be the path"),
        ([image_row(1, image="../a.png")], "m.jsonl, line 1: path '../a.png' leaves the dataset folder"),
        ([image_row(1, image="https://x.org/1.png")], "m.jsonl, line 1: 'https://x.org/1.png' is a URL"),
        ([image_row(1, image="otu/1.png"), image_row(2)], "no file named in 'otu' is there, such as 'otu/1.png'"),
        ([image_row(1, id="a/b")], "m.jsonl, line 1: id 'a/b' holds a path separator"),
        ([image_row(1, prompt=None)], "m.jsonl, line 1: 'prompt' is null, must be text"),
        ([image_row(1, include="[{")], "m.jsonl, line 1: 'include' is '[{', must be a list of objects"),
        ([{"id": "i1", "prompt": "x", "image": "out/1.png"}], "m.jsonl: no row has tag"),
        ([], "m.jsonl: holds no row"),
    ],
)
def test_what_is_wrong_with_a_manifest_is_named(tmp_path: Path, rows: list[dict[str, object]], words: str):
    assert words in complaint(write_manifest(tmp_path / "m.jsonl", rows))


def test_problems_of_all_rows_are_told_together_and_a_column_once(tmp_path: Path):
    rows = [image_row(1, note="x", tag=""), image_row(2, note="y", id="")]
    assert complaint(write_manifest(tmp_path / "m.csv", rows)).splitlines() == [
        "m.csv has 3 problems:",
        "  m.csv, row 1: column 'note' does not exist, allowed are id, tag, prompt, image, candidate, include, exclude",
        "  m.csv, row 1: 'tag' is empty, must be text",
        "  m.csv, row 2: id '' names nothing",
    ]


def test_a_manifest_takes_no_list_of_prompts(tmp_path: Path):
    path = write_manifest(tmp_path / "m.csv", [image_row(1)])
    assert "names the prompts itself: give no `metadata`" in complaint(path, metadata="list.jsonl")


def test_a_manifest_of_figures_is_told_in_one_line_with_the_flows_that_take_it(tmp_path: Path):
    figures = {"id": "s1", "task": "diagram", "context": "x", "caption": "y", "human_image": "h", "model_image": "m"}
    assert complaint(write_manifest(tmp_path / "m.jsonl", [figures, {**figures, "id": "s2"}])) == (
        "m.jsonl is a manifest of figures, for the flows diagram and plot; here it takes id, tag, prompt, image"
    )


def test_a_list_of_prompts_is_no_manifest_and_told_in_one_line(tmp_path: Path):
    path = tmp_path / "evaluation_metadata.jsonl"
    path.write_text(json.dumps({"tag": "counting", "include": [], "prompt": "four clocks"}) + "\n")
    assert complaint(path).startswith(
        "evaluation_metadata.jsonl is GenEval's list of prompts, without images: give the"
    )
