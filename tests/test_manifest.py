"""A manifest gives one entry for each row of the flow, in whichever of its formats."""

import hashlib
import json
import tracemalloc
from pathlib import Path

import polars as pl
import pytest
from written_datasets import inline, png

from tasks.datasets.contents import read_picture, read_texts
from tasks.datasets.entries import Loaded
from tasks.datasets.folders import NO_PICTURE
from tasks.datasets.manifest import read_manifest
from tasks.errors import Problems
from tasks.parameters import PairwiseParameters


def row(number: int, **changes: object) -> dict[str, object]:
    return {
        "id": f"s{number}",
        "task": "diagram",
        "context": f"context {number}",
        "caption": f"caption {number}",
        "human_image": "human.png",
        "model_image": f"out/{number}.png",
    } | changes


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    """The rows in the format of the ending, beside the pictures that they name."""
    (path.parent / "out").mkdir(exist_ok=True)
    for name, shade in (("human.png", 0), ("out/1.png", 1), ("out/2.png", 2)):
        (path.parent / name).write_bytes(png(shade))
    if path.suffix == ".csv":
        pl.DataFrame(rows).write_csv(path)
    elif path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        path.write_text("\n".join(json.dumps(one) for one in rows), encoding="utf-8")
    return path


def loaded(path: Path, flow: str = "diagram", **parameters: object) -> Loaded:
    problems = Problems()
    given = PairwiseParameters.model_validate({"dataset": str(path)} | parameters)
    found = read_manifest(path, flow, given, problems)
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
    assert [(one.sample_id, one.candidate, one.category, one.difficulty) for one in samples] == [
        ("s1", "x", "c", "d"),
        ("s2", "x", "c", "d"),
    ]
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


def test_pictures_may_be_bytes_in_parquet(tmp_path: Path):
    rows = [row(n, human_image=png(n), model_image=png(n + 9) if n else None) for n in range(3)]
    samples = [entry.sample for entry in loaded(write(tmp_path / "m.parquet", rows)).entries]
    assert [read_picture(sample.pictures["human"]) for sample in samples] == [png(0), png(1), png(2)]
    assert read_picture(samples[2].pictures["model"]) == png(11)
    assert samples[0].pictures["model"].problem == f"{NO_PICTURE}key 'model_image' is null in m.parquet, row 1"


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_pictures_may_be_data_urls(tmp_path: Path, ending: str):
    path = write(tmp_path / f"m.{ending}", [row(1, model_image=f"data:image/png;base64,{inline(77)}")])
    assert read_picture(loaded(path).entries[0].sample.pictures["model"]) == png(77)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_plot_data_may_be_an_object_or_a_list(tmp_path: Path, ending: str):
    path = write(tmp_path / f"m.{ending}", [row(1, task="plot", context={"y": [1, 2], "x": "ü"})])
    assert read_texts(loaded(path, "plot").entries[0].sample)["context"] == '{"y": [1, 2], "x": "ü"}'


def test_only_rows_of_the_flow_are_taken(tmp_path: Path):
    path = write(tmp_path / "m.jsonl", [row(1), row(1, task="plot"), row(2, task="plot")])
    assert [entry.sample.sample_id for entry in loaded(path, "plot").entries] == ["s1", "s2"]


def test_candidates_come_in_the_order_of_the_file_and_keep_the_order_of_their_rows(tmp_path: Path):
    rows = [row(2, candidate="b"), row(1, candidate="a"), row(1, candidate="b"), row(2)]
    found = loaded(write(tmp_path / "m.jsonl", rows), candidate_name="mine")
    assert [(entry.sample.candidate, entry.sample.sample_id) for entry in found.entries] == [
        ("b", "s2"),
        ("b", "s1"),
        ("a", "s1"),
        ("mine", "s2"),
    ]


def test_without_any_name_the_candidate_is_the_files_stem(tmp_path: Path):
    assert loaded(write(tmp_path / "march.csv", [row(1)])).entries[0].sample.candidate == "march"


@pytest.mark.parametrize(
    ("image", "problem"), [("", NO_PICTURE), ("out/gone.png", NO_PICTURE), ("notes.txt", "not a picture")]
)
def test_a_picture_that_is_not_delivered_is_the_problem_of_its_role_alone(tmp_path: Path, image: str, problem: str):
    (tmp_path / "notes.txt").write_text("none")
    rows = [row(1, model_image=image), row(2)]
    pictures = loaded(write(tmp_path / "m.csv", rows)).entries[0].sample.pictures
    assert pictures["model"].problem.startswith(problem)
    assert pictures["human"].problem == ""


MISTAKES: dict[str, tuple[str, str]] = {
    "outside": ("../secret.png", "m.csv, row 1: path '../secret.png' leaves the dataset folder"),
    "elsewhere": ("/etc/hostname", "m.csv, row 1: path '/etc/hostname' leaves the dataset folder"),
    "link": ("linked.png", "m.csv, row 1: path 'linked.png' leaves the dataset folder"),
    "URL": ("https://example.org/1.png", "m.csv, row 1: 'https://example.org/1.png' is a URL, and no URL is fetched"),
    "typo": ("otu/1.png", "data: no file named in 'otu' is there, such as 'otu/1.png'; there is no such folder"),
    "case": ("OUT/1.png", "m.csv, row 1: path 'OUT/1.png' is there with other large and small letters: write 'out/1"),
    "backslash": ("out\\1.png", r"m.csv, row 1: path 'out\\1.png' has backslashes: write 'out/1.png'"),
    "base64": (inline(9), "m.csv, row 1: key 'model_image' holds a picture in base64 without its kind: write data:im"),
    "EPS": ("f.eps", "m.csv, row 1: f.eps is not a picture that can be judged: found PostScript (EPS): convert it"),
}
"""What a user does wrong -> the cell, and how it is told."""


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_of_the_user_is_no_forfeit_but_a_problem_of_one_line_with_its_cure(tmp_path: Path, what: str):
    image, words = MISTAKES[what]
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "secret.png").write_bytes(png(1))
    (data / "linked.png").symlink_to(tmp_path / "secret.png")
    (data / "f.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0")
    told = complaint(write(data / "m.csv", [row(1, model_image=image), row(2)])).splitlines()
    assert told[0] == "m.csv has 1 problem:" and told[1].startswith(f"  {words}") and len(told) == 2
    assert len(told[1]) < 400 and inline(9)[:60] not in told[1]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [row(1, dificulty="hard"), row(2, dificulty="easy")],
            "m.jsonl, line 1: column 'dificulty' does not exist, allowed are id",
        ),
        ([row(1, task="chart")], "m.jsonl, line 1: task is 'chart', allowed are diagram and plot"),
        (
            [row(1, task="Chart"), row(2, task="Chart")],
            "line 1: task is 'Chart', allowed are diagram and plot (1 more like it)",
        ),
        (
            [row(1, Category="x"), row(2, Category="y")],
            "has 1 problem:\n  m.jsonl, line 1: column 'Category' must be",
        ),
        ([row(7, id=7), row(8, id=8)], 'id is a number, must be text: write "7", in every file that names it (1 more'),
        (
            [row(1), row(1)],
            "m.jsonl, line 2: id 's1' of 'm' stands in m.jsonl, line 1 before: give one of them another id",
        ),
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


def test_a_column_that_does_not_exist_is_named_once(tmp_path: Path):
    assert "has 1 problem:" in complaint(write(tmp_path / "m.csv", [row(1, note="a"), row(2, note="b")]))


@pytest.mark.parametrize("given", [{"results": "r.json"}, {"images": "figures"}, {"stage": ["vanilla"]}])
def test_a_manifest_takes_no_other_source_of_figures(tmp_path: Path, given: dict[str, object]):
    assert "names the Model figures itself" in complaint(write(tmp_path / "m.csv", [row(1)]), **given)


def test_a_sample_takes_little_memory(tmp_path: Path):
    """All samples of a run are in memory at once, and 100,000 are a run.

    The least of three measurements counts: what another thread of the tests'
    process allocates meanwhile is counted, too.
    """
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


def test_a_manifest_of_generated_images_is_told_in_one_line_with_the_flows_that_take_it(tmp_path: Path):
    image = {"id": "i1", "tag": "counting", "prompt": "four clocks", "image": "i.png", "include": "[]"}
    assert complaint(write(tmp_path / "m.jsonl", [image, {**image, "id": "i2"}])) == (
        "m.jsonl is a manifest of generated images, for the flows object, counting, colors, position; here it takes "
        "id, task, context, caption, human_image, model_image"
    )


HABITS = {
    "URLs": ("https://x.org/a.png", "'https://x.org/a.png' is a URL"),
    "other case": ("OUT/1.PNG", "path 'OUT/1.PNG' is there with other large and small letters: write 'out/1.png'"),
    "outside": (
        "../../x.png",
        "path '../../x.png' leaves the dataset folder {}: put the file into it, and name it from",
    ),
    "HEIC": ("a.heic", "a.heic is not a picture that can be judged: found HEIC: convert it to PNG or JPEG"),
}


@pytest.mark.parametrize(("name", "words"), HABITS.values(), ids=HABITS)
def test_what_is_the_same_in_every_row_is_told_in_one_line(tmp_path: Path, name: str, words: str):
    path = tmp_path / "data" / "m.jsonl"
    path.parent.mkdir()
    (path.parent / "a.heic").write_bytes(b"\0\0\0\x1cftypheic\0\0\0\0mif1heic")
    write(path, [row(number, model_image=name) for number in range(1, 4)])
    told = complaint(path).splitlines()
    assert len(told) == 2 and told[0].endswith(" has 1 problem:") and told[1].endswith(" (2 more like it)")
    assert told[1].strip().startswith(f"m.jsonl, line 1: {words.format(path.parent)}")


def test_rows_that_a_program_wrote_in_its_own_notation_are_told_in_one_line(tmp_path: Path):
    path = tmp_path / "m.jsonl"
    path.write_text("".join(f"{row(number)}\n" for number in range(1, 4)))
    assert complaint(path) == (
        "m.jsonl has 1 problem:\n  m.jsonl, line 1: is not a JSON object (column 2: found a single quote where a "
        "key in double quotes must stand) (2 more like it)"
    )


def test_a_list_of_the_benchmark_is_no_manifest_and_told_in_one_line(tmp_path: Path):
    path = write(
        tmp_path / "test.json", [{"id": "a", "content": "x", "visual_intent": "y", "path_to_gt_image": "h.png"}]
    )
    assert complaint(path).startswith("test.json is a list of PaperBananaBench or a generator's result file: give the")
