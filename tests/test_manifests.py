"""A manifest gives one sample for each row, in whichever of its formats, and groups generated images by prompt."""

import hashlib
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
from tasks.records import Requirement, Sample
from tasks.records.parameters import T2I, parameters_of


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    """The rows in the format of the ending, beside the pictures that they name."""
    (path.parent / "out").mkdir(exist_ok=True)
    for name, shade in (("human.png", 0), ("out/1.png", 1), ("out/2.png", 2)):
        (path.parent / name).write_bytes(png(shade))
    return write_rows(path, rows)


def loaded(path: Path, flow: str = "diagram", **parameters: object) -> Any:
    problems = Problems()
    given: Any = parameters_of(flow).model_validate({"dataset": str(path)} | parameters)
    images = flow in T2I
    found = read_image_manifest(path, given, problems) if images else read_figure_manifest(path, flow, given, problems)
    problems.stop(path.name)
    return found


def complaint(path: Path, flow: str = "diagram", **parameters: object) -> str:
    with pytest.raises(ValueError) as error:
        loaded(path, flow, **parameters)
    return str(error.value)


@pytest.mark.parametrize("ending", ["jsonl", "ndjson", "json", "csv", "parquet"])
def test_every_format_gives_texts_and_pictures(tmp_path: Path, ending: str):
    rows = [row(1, candidate="x", category="c", difficulty="d"), row(2, candidate="x", category="c", difficulty="d")]
    samples = [entry.sample for entry in loaded(write(tmp_path / f"m.{ending}", rows)).entries]
    found = [(one.sample_id, one.candidate, one.category, one.difficulty) for one in samples]
    assert found == [("s1", "x", "c", "d"), ("s2", "x", "c", "d")]
    assert read_texts(samples[1]) == {"context": "context 2", "caption": "caption 2"}
    assert read_picture(samples[1].pictures["human"]) == png(0)
    assert read_picture(samples[1].pictures["model"]) == png(2)


def test_pictures_may_be_those_of_hugging_faces_files(tmp_path: Path):
    rows = [
        row(1, human_image={"bytes": png(5), "path": "gone.png"}, model_image={"bytes": None, "path": "out/1.png"}),
        row(2, human_image={"bytes": png(6), "path": None}, model_image={"bytes": png(7), "path": "x"}),
        row(3, human_image={"bytes": png(6), "path": None}, model_image={"bytes": None, "path": None}),
    ]
    entries = loaded(write(tmp_path / "m.parquet", rows)).entries
    samples = [entry.sample for entry in entries]
    assert [read_picture(sample.pictures["human"]) for sample in samples] == [png(5), png(6), png(6)]
    assert [read_picture(sample.pictures["model"]) for sample in samples[:2]] == [png(1), png(7)]
    assert samples[2].pictures["model"].problem.startswith(f"{NO_PICTURE}key 'model_image' is null")
    assert entries[0].human_sha256 == hashlib.sha256(png(5)).hexdigest()


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_plot_data_may_be_an_object_or_a_list(tmp_path: Path, ending: str):
    path = write(tmp_path / f"m.{ending}", [row(1, task="plot", context={"y": [1, 2], "x": "ü"})])
    assert read_texts(loaded(path, "plot").entries[0].sample)["context"] == '{"y": [1, 2], "x": "ü"}'


def test_only_rows_of_the_flow_are_taken(tmp_path: Path):
    path = write(tmp_path / "m.jsonl", [row(1), row(1, task="plot"), row(2, task="plot")])
    assert [entry.sample.sample_id for entry in loaded(path, "plot").entries] == ["s1", "s2"]


def test_candidates_come_in_the_order_of_the_file_and_one_without_a_name_has_the_files_stem(tmp_path: Path):
    rows = [row(2, candidate="b"), row(1, candidate="a"), row(1, candidate="b"), row(2)]
    samples = [entry.sample for entry in loaded(write(tmp_path / "m.jsonl", rows), candidate_name="mine").entries]
    found = [(sample.candidate, sample.sample_id) for sample in samples]
    assert found == [("b", "s2"), ("b", "s1"), ("a", "s1"), ("mine", "s2")]
    assert loaded(write(tmp_path / "march.csv", [row(1)])).entries[0].sample.candidate == "march"


@pytest.mark.parametrize(("image", "told"), [("", NO_PICTURE), ("out/9.png", NO_PICTURE), ("a.txt", "not a picture")])
def test_a_picture_that_is_not_delivered_is_the_problem_of_its_role_alone(tmp_path: Path, image: str, told: str):
    (tmp_path / "a.txt").write_text("none")
    rows = [row(1, model_image=image), row(2)]
    pictures = loaded(write(tmp_path / "m.csv", rows)).entries[0].sample.pictures
    assert pictures["model"].problem.startswith(told)
    assert pictures["human"].problem == ""


MISTAKES: dict[str, tuple[str, str]] = {
    "outside": ("../secret.png", "m.csv, row 1: path '../secret.png' leaves the dataset folder"),
    "URL": ("https://example.org/1.png", "m.csv, row 1: 'https://example.org/1.png' is a URL, and no URL is fetched"),
    "typo": ("otu/1.png", "data: no file named in 'otu' is there, such as 'otu/1.png'; there is no such folder"),
    "case": ("OUT/1.png", "m.csv, row 1: path 'OUT/1.png' exists in another case: write 'out/1"),
    "base64": (
        inline(9) * 50,
        f"m.csv, row 1: '{inline(9)[:40]}'… ({len(inline(9)) * 50:,} characters) is longer than a path",
    ),
    "EPS": ("f.eps", "m.csv, row 1: f.eps is not a picture that can be judged: found PostScript (EPS): convert it"),
}
"""What a user does wrong -> the cell, and how it is told."""
TWICE = "is already in m.jsonl, line 1: give one of them another id"


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_of_the_user_is_no_forfeit_but_a_problem_of_one_line_with_its_cure(tmp_path: Path, what: str):
    image, words = MISTAKES[what]
    data = tmp_path / "data"
    data.mkdir()
    (data / "f.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0")
    for more in (0, 2):
        rows = [row(1, model_image=image), row(2), *(row(number, model_image=image) for number in (3, 4)[:more])]
        told = complaint(write(data / "m.csv", rows)).replace("none of the 3 files", "no file").splitlines()
        assert told[0] == "m.csv has 1 problem:" and told[1].startswith(f"  {words}") and len(told) == 2
        assert len(told[1]) < 420 and inline(9)[:60] not in told[1]
        assert told[1].endswith(" (2 more like it)") == (more > 0 and what != "typo")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [row(1, dificulty="hard"), row(2, dificulty="easy")],
            "has 1 problem:\n  m.jsonl, line 1: column 'dificulty' does not exist, allowed are id",
        ),
        ([row(1, task="chart")], "m.jsonl, line 1: task is 'chart', allowed are diagram and plot"),
        ([row(n, task="Bar") for n in (1, 2)], "line 1: task is 'Bar', allowed are diagram and plot (1 more like it)"),
        ([row(1, Category="x"), row(2, Category="y")], "has 1 problem:\n  m.jsonl, line 1: column 'Category' must be"),
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
def test_what_is_wrong_with_a_manifest_is_named(tmp_path: Path, rows: list[dict[str, object]], words: str):
    assert words in complaint(write(tmp_path / "m.jsonl", rows))


@pytest.mark.parametrize("column", ["task", "caption", "model_image"])
def test_a_column_that_a_table_lacks_is_named_once_and_not_for_each_row(tmp_path: Path, column: str):
    rows = [{key: value for key, value in row(number).items() if key != column} for number in range(40)]
    words = complaint(write(tmp_path / "m.csv", rows))
    assert words.endswith(f"has 1 problem:\n  m.csv: no row has {column}")


@pytest.mark.parametrize("given", [{"results": "r.json"}, {"images": "figures"}, {"stage": ["vanilla"]}])
def test_a_manifest_takes_no_other_source_of_figures(tmp_path: Path, given: dict[str, object]):
    (folder := tmp_path / "diagram").mkdir()
    words = f"is the list of a PaperBananaBench folder, and no manifest: give the folder that holds it, {folder}"
    assert words in complaint(write(folder / "test.json", [row(1)]), **given)
    assert "names the Model figures itself" in complaint(write(tmp_path / "m.csv", [row(1)]), **given)


def test_a_sample_takes_little_memory(tmp_path: Path):
    """All samples of a run are in memory at once: 100,000. What other threads allocate meanwhile is counted, too."""
    many = 400
    path = write(tmp_path / "m.jsonl", [row(number) for number in range(many)])
    loaded(path)
    taken: list[int] = []
    for _ in range(3):
        tracemalloc.start()
        try:
            entries = loaded(path).entries
            taken.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert len(entries) == many
    assert min(taken) / many < 2_000


def test_a_manifest_of_generated_images_is_a_list_of_problems(tmp_path: Path):
    image = {"id": "i1", "tag": "counting", "prompt": "four clocks", "image": "i.png", "include": "[]"}
    words = complaint(write(tmp_path / "m.jsonl", [image]))
    assert "m.jsonl, line 1: column 'image' does not exist, allowed are id, task" in words
    assert "m.jsonl: no row has task, context, caption, human_image, model_image" in words


def test_rows_that_a_program_wrote_in_its_own_notation_are_told_in_one_line(tmp_path: Path):
    path = tmp_path / "m.jsonl"
    path.write_text("".join(f"{row(number)}\n" for number in range(1, 4)))
    assert complaint(path) == (
        "m.jsonl has 1 problem:\n  m.jsonl, line 1: is not a JSON object (column 2: Expecting property name "
        "enclosed in double quotes); the file must be an array of objects, or one a line, in UTF-8 (2 more like it)"
    )


# Generated images

INCLUDE = [{"class": "car", "count": 1, "color": "red"}, {"class": "dog", "count": 2}]
CLOCK = {"tag": "counting", "prompt": "two clocks"}


def image_samples(path: Path, **parameters: object) -> list[Sample]:
    return [entry.sample for entry in loaded(path, "colors", **parameters).entries]


@pytest.mark.parametrize("ending", ["jsonl", "ndjson", "json", "csv", "parquet"])
def test_every_format_gives_prompts_images_and_what_is_asked_for(tmp_path: Path, ending: str):
    asks = {"include": json.dumps(INCLUDE), "exclude": json.dumps([{"class": "car", "count": 2}])}
    rows = [image_row(1, candidate="x", **asks), image_row(2, candidate="x", **asks)]
    found = image_samples(write_manifest(tmp_path / f"m.{ending}", rows))
    told = [(one.sample_id, one.candidate, one.tag, one.prompt_id) for one in found]
    assert told == [("i1", "x", "colors", "i1"), ("i2", "x", "colors", "i1")]
    assert read_row(found[1].record, ["id", found[1].texts["prompt"]]) == {"id": "i2", "prompt": "a photo of a red car"}
    assert read_picture(found[1].pictures["image"]) == png(2)
    assert found[0].required == (Requirement(name="car", color="red"), Requirement(name="dog", count=2))
    assert found[0].excluded == (Requirement(name="car", count=2),)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_what_is_asked_for_may_be_a_list_itself(tmp_path: Path, ending: str):
    rows = [image_row(1, include=INCLUDE), image_row(2, include=INCLUDE)]
    assert len(image_samples(write_manifest(tmp_path / f"m.{ending}", rows))[1].required) == 2


def test_images_may_be_bytes_in_parquet_and_data_urls(tmp_path: Path):
    parquet = write_manifest(tmp_path / "m.parquet", [image_row(1, image=png(7))])
    lines = write_manifest(tmp_path / "m.jsonl", [image_row(1, image=f"data:image/png;base64,{inline(8)}")])
    assert [read_picture(image_samples(path)[0].pictures["image"]) for path in (parquet, lines)] == [png(7), png(8)]


def test_rows_of_one_tag_and_text_are_of_one_prompt_that_is_named_after_the_first(tmp_path: Path):
    rows = [image_row(0, **CLOCK), image_row(1), image_row(2, **CLOCK), image_row(3, prompt="two clocks")]
    found = loaded(write_manifest(tmp_path / "m.jsonl", rows), "colors")
    told = [(entry.sample.sample_id, entry.sample.prompt_id) for entry in found.entries]
    assert told == [("i0", "i0"), ("i2", "i0"), ("i1", "i1"), ("i3", "i3")]
    said = {name: (prompt.tag, prompt.prompt) for name, prompt in found.prompts.items()}
    assert [*said] == ["i0", "i1", "i3"] and said["i1"] == ("colors", "a photo of a red car")
    assert (said["i0"], said["i3"]) == (("counting", "two clocks"), ("colors", "two clocks"))
    first, second, other, _ = (entry.text_sha256 for entry in found.entries)
    assert first == second != other


def test_what_one_candidate_has_and_another_lacks_is_named(tmp_path: Path):
    one, other = {"candidate": "a"}, {"candidate": "b"}
    rows = [image_row(0, **one), image_row(1, **one), image_row(2, **one, **CLOCK), image_row(0, **other)]
    found = loaded(write_manifest(tmp_path / "m.jsonl", rows), "colors")
    told = gaps([entry.sample for entry in found.entries])
    assert told == ["1 of 2 prompts has no image of b: i2 (counting)"]
    absent = found.entries[-1].sample
    assert (absent.sample_id, absent.candidate, absent.tag) == ("i2/none", "b", "counting")
    assert absent.pictures["image"].problem == f"{NO_PICTURE}b has no image of prompt i2"
    assert read_row(absent.record, ["prompt"]) == {"prompt": "two clocks"}


def test_half_a_surrogate_pair_does_not_stop_the_loading(tmp_path: Path):
    strange = image_row(1, tag="\ud800", prompt="x\ud800", candidate="\ud800")
    sample = image_samples(write_manifest(tmp_path / "m.jsonl", [strange]))[0]
    assert (sample.tag, sample.candidate) == ("?", "?")


@pytest.mark.parametrize("image", [None, "", "out/gone.png"])
def test_an_image_out_of_reach_is_the_problem_of_its_sample_alone(tmp_path: Path, image: str | None):
    found = loaded(write_manifest(tmp_path / "m.jsonl", [image_row(1, image=image), image_row(2)]), "colors")
    first, second = (entry.sample.pictures["image"].problem for entry in found.entries)
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
def test_what_is_wrong_with_a_manifest_of_images_is_named(tmp_path: Path, rows: list[dict[str, object]], words: str):
    assert words in complaint(write_manifest(tmp_path / "m.jsonl", rows), "colors")


def test_problems_of_all_rows_are_told_together_and_a_column_once(tmp_path: Path):
    rows = [image_row(1, note="x", tag=""), image_row(2, note="y", id="")]
    assert complaint(write_manifest(tmp_path / "m.csv", rows), "colors").splitlines() == [
        "m.csv has 3 problems:",
        "  m.csv, row 1: column 'note' does not exist, allowed are id, tag, prompt, image, candidate, include, exclude",
        "  m.csv, row 1: 'tag' is empty, must be text",
        "  m.csv, row 2: id '' names nothing",
    ]


def test_a_manifest_of_images_takes_no_list_of_prompts(tmp_path: Path):
    path = write_manifest(tmp_path / "m.csv", [image_row(1)])
    assert "names the prompts itself: give no `metadata`" in complaint(path, "colors", metadata="list.jsonl")
