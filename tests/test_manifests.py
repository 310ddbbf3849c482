"""Manifests: a sample for each row, in all formats; generated images are grouped by prompt."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from written_datasets import figure_row as row
from written_datasets import inline, png, write_rows
from written_images import image_row, write_manifest

from tasks.datasets.dataset import read_figure_manifest, read_image_manifest
from tasks.datasets.entries import read_picture, read_texts
from tasks.datasets.geneval import gaps
from tasks.datasets.paths import NO_PICTURE
from tasks.datasets.rows import read_row
from tasks.errors import Problems
from tasks.protocols import parameters_of
from tasks.records import Requirement
from tasks.records.parameters import T2I


def write_files(path: Path, rows: list[dict[str, object]]) -> Path:
    """Write the rows in the format of the suffix, beside the pictures that they name."""
    (path.parent / "out").mkdir(exist_ok=True)
    for name, shade in (("human.png", 0), ("out/1.png", 1), ("out/2.png", 2)):
        (path.parent / name).write_bytes(png(shade))
    return write_rows(path, rows)


def load(path: Path, flow: str = "diagram", **parameters: object) -> Any:
    problems = Problems()
    given: Any = parameters_of(flow).model_validate({"dataset": str(path)} | parameters)
    images = flow in T2I
    found = read_image_manifest(path, given, problems) if images else read_figure_manifest(path, flow, given, problems)
    problems.stop(path.name)
    return found


def load_error(path: Path, flow: str = "diagram", **parameters: object) -> str:
    with pytest.raises(ValueError) as error:
        load(path, flow, **parameters)
    return str(error.value)


@pytest.mark.parametrize("ending", ["jsonl", "ndjson", "json", "csv"])
def test_manifest_formats_give_texts_and_pictures(tmp_path: Path, ending: str):
    rows = [row(1, candidate="x", category="c", difficulty="d"), row(2, candidate="x", category="c", difficulty="d")]
    samples = load(write_files(tmp_path / f"m.{ending}", rows)).samples
    found = [(one.sample_id, one.candidate, one.category, one.difficulty) for one in samples]
    assert found == [("s1", "x", "c", "d"), ("s2", "x", "c", "d")]
    assert read_texts(samples[1]) == {"context": "context 2", "caption": "caption 2"}
    assert read_picture(samples[1].pictures["human"]) == png(0)
    assert read_picture(samples[1].pictures["model"]) == png(2)


def test_plot_data_may_be_a_json_object(tmp_path: Path):
    path = write_files(tmp_path / "m.jsonl", [row(1, task="plot", context={"y": [1, 2], "x": "ü"})])
    assert read_texts(load(path, "plot").samples[0])["context"] == '{"y": [1, 2], "x": "ü"}'


def test_manifest_gives_only_rows_of_the_flow(tmp_path: Path):
    path = write_files(tmp_path / "m.jsonl", [row(1), row(1, task="plot"), row(2, task="plot")])
    assert [sample.sample_id for sample in load(path, "plot").samples] == ["s1", "s2"]


def test_candidates_keep_file_order_and_default_to_the_file_stem(tmp_path: Path):
    rows = [row(2, candidate="b"), row(1, candidate="a"), row(1, candidate="b"), row(2)]
    samples = load(write_files(tmp_path / "m.jsonl", rows), candidate_name="mine").samples
    found = [(sample.candidate, sample.sample_id) for sample in samples]
    assert found == [("b", "s2"), ("b", "s1"), ("a", "s1"), ("mine", "s2")]
    assert load(write_files(tmp_path / "march.csv", [row(1)])).samples[0].candidate == "march"


@pytest.mark.parametrize(("image", "start"), [("", NO_PICTURE), ("out/9.png", NO_PICTURE), ("a.txt", "not a picture")])
def test_missing_model_picture_is_a_problem_of_its_role_only(tmp_path: Path, image: str, start: str):
    (tmp_path / "a.txt").write_text("none")
    rows = [row(1, model_image=image), row(2)]
    pictures = load(write_files(tmp_path / "m.csv", rows)).samples[0].pictures
    assert pictures["model"].problem.startswith(start)
    assert pictures["human"].problem == ""


MISTAKES: dict[str, tuple[str, str]] = {
    "outside": ("../secret.png", "m.csv, row 1: path '../secret.png' leaves the dataset folder"),
    "URL": ("https://example.org/1.png", "m.csv, row 1: 'https://example.org/1.png' is a URL, and no URL is fetched"),
    "typo": ("otu/1.png", "data: no file named in 'otu' is there, such as 'otu/1.png'; there is no such folder"),
    "case": ("OUT/1.png", "m.csv, row 1: path 'OUT/1.png' exists in another case: write 'out/1"),
    "base64": (inline(9) * 50, f"m.csv, row 1: '{inline(9)[:40]}'… ({len(inline(9)) * 50:,} characters) is longer"),
    "EPS": ("f.eps", "m.csv, row 1: f.eps is not a picture that can be judged: found PostScript (EPS): convert it"),
}
"""A user's mistake -> the cell, and the beginning of its message."""
TWICE = "is already in m.jsonl, line 1: give one of them another id"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_user_mistake_is_one_line_of_advice_instead_of_a_forfeit(tmp_path: Path, mistake: str):
    image, words = MISTAKES[mistake]
    data = tmp_path / "data"
    data.mkdir()
    (data / "f.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0")
    for more in (0, 2):
        rows = [row(1, model_image=image), row(2), *(row(number, model_image=image) for number in (3, 4)[:more])]
        lines = load_error(write_files(data / "m.csv", rows)).replace("none of the 3 files", "no file").splitlines()
        assert lines[0] == "m.csv has 1 problem:" and lines[1].startswith(f"  {words}") and len(lines) == 2
        assert len(lines[1]) < 420 and inline(9)[:60] not in lines[1]
        assert lines[1].endswith(" (2 more like it)") == (more > 0 and mistake != "typo")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [row(1, dificulty="hard"), row(2, dificulty="easy")],
            "has 1 problem:\n  m.jsonl, line 1: column 'dificulty' does not exist, allowed are id",
        ),
        ([row(1, task="chart")], "m.jsonl, line 1: task is 'chart', allowed are diagram and plot"),
        ([row(n, task="Bar") for n in (1, 2)], "line 1: task is 'Bar', allowed are diagram and plot (1 more like it)"),
        ([row(7, id=7), row(8, id=8)], 'id is a number, must be text: write "7", in every file that names it (1 more'),
        ([row(1), row(1)], f"m.jsonl, line 2: id 's1' of 'm' {TWICE}"),
        ([row(1, candidate=5)], "m.jsonl, line 1: 'candidate' is a number, must be text"),
        ([row(1, model_image=5)], "m.jsonl, line 1: key 'model_image' is a number, must be the path"),
        ([row(1, id="a/b"), row(2, caption=None)], "m.jsonl, line 2: 'caption' is null, must be text"),
        ([row(1, task="plot")], "m.jsonl: has no row of task 'diagram', its tasks are plot"),
        ([{key: value for key, value in row(1).items() if key != "model_image"}], "m.jsonl: no row has model_image"),
        (
            [{key: value for key, value in row(1).items() if key != "task"}, row(2)],
            "m.jsonl, line 1: key 'task' is missing, allowed are diagram and plot",
        ),
        ([], "m.jsonl: holds no row"),
    ],
)
def test_invalid_figure_manifest_is_reported_by_line(tmp_path: Path, rows: list[dict[str, object]], words: str):
    assert words in load_error(write_files(tmp_path / "m.jsonl", rows))


@pytest.mark.parametrize("column", ["task", "caption", "model_image"])
def test_missing_column_is_reported_once(tmp_path: Path, column: str):
    rows = [{key: value for key, value in row(number).items() if key != column} for number in range(40)]
    words = load_error(write_files(tmp_path / "m.csv", rows))
    assert words.endswith(f"has 1 problem:\n  m.csv: no row has {column}")


@pytest.mark.parametrize("given", [{"results": "r.json"}, {"images": "figures"}, {"stage": ["vanilla"]}])
def test_manifest_with_another_source_of_figures_is_refused(tmp_path: Path, given: dict[str, object]):
    (folder := tmp_path / "diagram").mkdir()
    words = f"is the list of a PaperBananaBench folder, and no manifest: give the folder that holds it, {folder}"
    assert words in load_error(write_files(folder / "test.json", [row(1)]), **given)
    assert "names the Model figures itself" in load_error(write_files(tmp_path / "m.csv", [row(1)]), **given)


def test_sample_takes_less_than_two_kilobytes(tmp_path: Path):
    """All samples of a run, up to 100,000, are in memory at once. Two tries, as other threads allocate, too."""
    many = 150
    path = write_files(tmp_path / "m.jsonl", [row(number) for number in range(many)])
    load(path)
    taken: list[int] = []
    for _ in range(2):
        tracemalloc.start()
        try:
            samples = load(path).samples
            taken.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert len(samples) == many
    assert min(taken) / many < 2_000


def test_image_manifest_given_to_a_figure_flow_lists_problems(tmp_path: Path):
    image = {"id": "i1", "tag": "counting", "prompt": "four clocks", "image": "i.png", "include": "[]"}
    words = load_error(write_files(tmp_path / "m.jsonl", [image]))
    assert "m.jsonl, line 1: column 'image' does not exist, allowed are id, task" in words
    assert "m.jsonl: no row has task, context, caption, human_image, model_image" in words


def test_python_dicts_instead_of_json_are_reported_in_one_line(tmp_path: Path):
    path = tmp_path / "m.jsonl"
    path.write_text("".join(f"{row(number)}\n" for number in range(1, 4)))
    assert load_error(path) == (
        "m.jsonl has 1 problem:\n  m.jsonl, line 1: is not a JSON object (column 2: Expecting property name "
        "enclosed in double quotes); the file must be an array of objects, or one a line, in UTF-8 (2 more like it)"
    )


# Generated images

INCLUDE = [{"class": "car", "count": 1, "color": "red"}, {"class": "dog", "count": 2}]
CLOCK = {"tag": "counting", "prompt": "two clocks"}


@pytest.mark.parametrize("ending", ["jsonl", "ndjson", "json", "csv"])
def test_manifest_formats_give_prompts_images_and_requirements(tmp_path: Path, ending: str):
    requirements = {"include": json.dumps(INCLUDE), "exclude": json.dumps([{"class": "car", "count": 2}])}
    rows = [image_row(1, candidate="x", **requirements), image_row(2, candidate="x", **requirements)]
    found = load(write_manifest(tmp_path / f"m.{ending}", rows), "colors").samples
    ids = [(one.sample_id, one.candidate, one.tag, one.prompt_id) for one in found]
    assert ids == [("i1", "x", "colors", "i1"), ("i2", "x", "colors", "i1")]
    assert read_row(found[1].record, ["id", found[1].texts["prompt"]]) == {"id": "i2", "prompt": "a photo of a red car"}
    assert read_picture(found[1].pictures["image"]) == png(2)
    assert found[0].required == (Requirement(name="car", color="red"), Requirement(name="dog", count=2))
    assert found[0].excluded == (Requirement(name="car", count=2),)


def test_rows_with_equal_tag_and_text_share_a_prompt(tmp_path: Path):
    rows = [image_row(0, **CLOCK), image_row(1), image_row(2, **CLOCK), image_row(3, prompt="two clocks")]
    found = load(write_manifest(tmp_path / "m.jsonl", rows), "colors")
    ids = [(sample.sample_id, sample.prompt_id) for sample in found.samples]
    assert ids == [("i0", "i0"), ("i2", "i0"), ("i1", "i1"), ("i3", "i3")]
    prompts = {name: (prompt.tag, prompt.prompt) for name, prompt in found.prompts.items()}
    assert [*prompts] == ["i0", "i1", "i3"] and prompts["i1"] == ("colors", "a photo of a red car")
    assert (prompts["i0"], prompts["i3"]) == (("counting", "two clocks"), ("colors", "two clocks"))


def test_prompt_without_image_of_a_candidate_is_reported(tmp_path: Path):
    one, other = {"candidate": "a"}, {"candidate": "b"}
    rows = [image_row(0, **one), image_row(1, **one), image_row(2, **one, **CLOCK), image_row(0, **other)]
    found = load(write_manifest(tmp_path / "m.jsonl", rows), "colors")
    found_gaps = gaps(found.samples)
    assert found_gaps == ["1 of 2 prompts has no image of b: i2 (counting)"]
    absent = found.samples[-1]
    assert (absent.sample_id, absent.candidate, absent.tag) == ("i2/none", "b", "counting")
    assert absent.pictures["image"].problem == f"{NO_PICTURE}b has no image of prompt i2"
    assert read_row(absent.record, ["prompt"]) == {"prompt": "two clocks"}


HALF = "\ud800"
"""Half of a surrogate pair, as a program leaves it that cuts a text after a number of UTF-16 units."""


def test_halves_of_surrogate_pairs_are_replaced(tmp_path: Path):
    strange = row(
        1, candidate=HALF, category=HALF, difficulty=f"é \U0001f600 {HALF}", context=f"{HALF} é", caption=HALF
    )
    [figure] = load(write_files(tmp_path / "f.jsonl", [strange])).samples
    assert (figure.candidate, figure.category, figure.difficulty) == ("\ufffd", "\ufffd", "é \U0001f600 \ufffd")
    assert read_texts(figure) == {"context": "\ufffd é", "caption": "\ufffd"}


def test_prompts_have_the_same_ids_in_any_order_of_rows(tmp_path: Path):
    rows = [image_row(1), image_row(2), image_row(10)]
    found = [load(write_manifest(tmp_path / "m.jsonl", its), "colors").prompts for its in (rows, rows[::-1])]
    assert [*found[0]] == [*found[1]] == ["i1"]


@pytest.mark.parametrize("image", [None, "", "out/gone.png"])
def test_missing_image_is_a_problem_of_its_sample_only(tmp_path: Path, image: str | None):
    found = load(write_manifest(tmp_path / "m.jsonl", [image_row(1, image=image), image_row(2)]), "colors")
    first, second = (sample.pictures["image"].problem for sample in found.samples)
    assert first.startswith(NO_PICTURE)
    assert second == ""


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([image_row(1, includes=[])], "m.jsonl, line 1: column 'includes' does not exist, allowed are id, tag, prompt"),
        ([image_row(1), image_row(1)], f"m.jsonl, line 2: id 'i1' of 'm' {TWICE}"),
        (
            [image_row(1, candidate="a"), image_row(1, candidate="b", **CLOCK)],
            "m.jsonl, line 2: id 'i1' has another tag or prompt than in m.jsonl, line 1",
        ),
        (
            [image_row(1, include=INCLUDE), image_row(2)],
            "m.jsonl, line 2: include or exclude differ from those of the same prompt in m.jsonl, line 1",
        ),
        ([image_row(1, image="../a.png")], "m.jsonl, line 1: path '../a.png' leaves the dataset folder"),
        ([image_row(1, image="otu/1.png"), image_row(2)], "no file named in 'otu' is there, such as 'otu/1.png'"),
        ([image_row(1, id="a/b")], "m.jsonl, line 1: id 'a/b' holds a path separator"),
        ([image_row(1, prompt=None)], "m.jsonl, line 1: 'prompt' is null, must be text"),
        ([image_row(1, include="[{")], "m.jsonl, line 1: include: Invalid JSON: "),
        ([{"id": "i1", "prompt": "x", "image": "out/1.png"}], "m.jsonl: no row has tag"),
    ],
)
def test_invalid_image_manifest_is_reported_by_line(tmp_path: Path, rows: list[dict[str, object]], words: str):
    assert words in load_error(write_manifest(tmp_path / "m.jsonl", rows), "colors")


def test_problems_of_all_rows_are_reported_together(tmp_path: Path):
    rows = [image_row(1, note="x", tag=""), image_row(2, note="y", id="")]
    assert load_error(write_manifest(tmp_path / "m.csv", rows), "colors").splitlines() == [
        "m.csv has 3 problems:",
        "  m.csv, row 1: column 'note' does not exist, allowed are id, tag, prompt, image, candidate, include, exclude",
        "  m.csv, row 1: 'tag' is empty, must be text",
        "  m.csv, row 2: id '' names nothing",
    ]


def test_image_manifest_with_a_prompt_list_is_refused(tmp_path: Path):
    path = write_manifest(tmp_path / "m.csv", [image_row(1)])
    assert "names the prompts itself: give no `metadata`" in load_error(path, "colors", metadata="list.jsonl")
