"""A PaperBananaBench folder: its samples are paired with the figures of the output to judge."""

from pathlib import Path

import pytest
from written_datasets import inline, png, record, result, write_benchmark, write_json

from tasks.datasets.benchmark import read_benchmark
from tasks.datasets.entries import Loaded, read_picture
from tasks.datasets.paths import NO_PICTURE
from tasks.errors import Problems
from tasks.records.parameters import PairwiseParameters


def load(source: Path, flow: str = "diagram", **parameters: object) -> Loaded:
    problems = Problems()
    given = PairwiseParameters.model_validate({"dataset": str(source)} | parameters)
    found = read_benchmark(source, flow, given, problems)
    problems.stop(source.name)
    return found


def candidates(found: Loaded) -> list[str]:
    return list(dict.fromkeys(sample.candidate for sample in found.samples))


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    write_json(tmp_path / "run.json", [result(1, vanilla_diagram_base64_jpg=inline(1)), result(0)])
    return write_benchmark(tmp_path / "bench", [record(0), record(1)])


def test_samples_get_both_pictures_in_any_order_of_the_results(bench: Path):
    samples = load(bench, results=str(bench.parent / "run.json")).samples
    assert [sample.sample_id for sample in samples] == ["test_0", "test_1"]
    for number, sample in enumerate(samples):
        assert read_picture(sample.pictures["human"]) == png(number)
        assert read_picture(sample.pictures["model"]) == png(100 + number)
    assert (samples[1].category, samples[1].difficulty) == ("vision", "easy")


def test_dataset_may_be_the_task_folder_itself(bench: Path):
    assert len(load(bench / "diagram", results=str(bench.parent / "run.json")).samples) == 2


def test_folder_without_the_split_is_refused_with_its_files(bench: Path):
    with pytest.raises(ValueError, match=r"neither diagram/ref.json nor ref.json; JSON files there: diagram/test.json"):
        load(bench, split="ref", results=str(bench.parent / "run.json"))
    with pytest.raises(ValueError, match=r"neither plot/test.json nor test.json; JSON files there: none"):
        load(bench, "plot", results=str(bench.parent / "run.json"))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "no source of Model figures .*; JSON files there: none"),
        ({"results": "run.json", "images": "figures"}, "two sources of Model figures"),
        ({"results": "gone.json"}, "results .*/gone.json does not exist$"),
        ({"images": "figure"}, "images .*/figure does not exist$"),
        ({"results": "figures"}, "figures is not a file"),
        ({"images": "run.json"}, "run.json is not a folder"),
        ({"images": "figures", "stage": ["vanilla"]}, "`stage` picks pictures of a result file"),
        ({"results": "run.json", "stage": ["final"]}, "stage 'final' does not exist"),
    ],
)
def test_ambiguous_or_missing_model_figures_are_refused(
    bench: Path, parameters: dict[str, object], words: str, monkeypatch: pytest.MonkeyPatch
):
    (bench.parent / "figures").mkdir()
    monkeypatch.chdir(bench.parent)
    with pytest.raises(ValueError, match=words):
        load(bench, **parameters)


@pytest.mark.parametrize("source", [".", "diagram"])
def test_results_in_the_dataset_are_the_default(bench: Path, source: str):
    write_json(bench / "results" / "diagram.json", [result(0), result(1)])
    assert candidates(load(bench / source)) == ["diagram"]


def test_candidate_is_named_by_parameter_file_or_folder(bench: Path):
    results, figures = str(bench.parent / "run.json"), bench.parent / "v1.2"
    figures.mkdir()
    (figures / "test_0.png").write_bytes(png(50))
    assert candidates(load(bench, results=results)) == ["run"]
    assert candidates(load(bench, images=str(figures))) == ["v1.2"]
    assert candidates(load(bench, images=str(figures), candidate_name="ours")) == ["ours"]
    assert candidates(load(bench, results=results, stage=["vanilla", "critic0"])) == ["run/vanilla", "run/critic0"]


def test_samples_carry_labels_of_injected_defects(bench: Path):
    write_json(bench / "labels.json", {"test_1": "black"})
    samples = load(bench, results=str(bench.parent / "run.json")).samples
    assert [sample.injected for sample in samples] == ["", "black"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../../run.json", "test.json, record 1: path '../../run.json' leaves the dataset folder"),
        ("https://example.org/1.png", "test.json, record 1: 'https://example.org/1.png' is a URL"),
        ("imgaes/0.png", "diagram: no file named in 'imgaes' is there, such as 'imgaes/0.png'"),
    ],
)
def test_invalid_human_picture_path_is_a_dataset_problem(bench: Path, path: str, words: str):
    write_benchmark(bench, [record(0, path_to_gt_image=path), record(1)])
    with pytest.raises(ValueError, match="bench has 1 problem") as error:
        load(bench, results=str(bench.parent / "run.json"))
    assert words in str(error.value)


@pytest.mark.parametrize("path", ["images/gone.png", None])
def test_missing_human_picture_affects_only_its_sample(bench: Path, path: str | None):
    write_benchmark(bench, [record(0, path_to_gt_image=path), record(1)])
    first, second = load(bench, results=str(bench.parent / "run.json")).samples
    assert first.pictures["human"].problem.startswith(NO_PICTURE)
    assert first.pictures["model"].problem == second.pictures["human"].problem == ""


def test_problems_of_dataset_and_results_are_listed_together(bench: Path):
    write_benchmark(bench, [record(0), record(0), record(1, visual_intent=None)])
    write_json(bench.parent / "run.json", [result(1), result(3)])
    with pytest.raises(ValueError) as error:
        load(bench, results=str(bench.parent / "run.json"))
    assert str(error.value).splitlines() == [
        "bench has 3 problems:",
        "  test.json, record 2: id 'test_0' is already in test.json, record 1: give one of them another id",
        "  test.json, record 3: 'visual_intent' is null, must be text",
        "  run.json, record 2: id 'test_3' is not in the dataset",
    ]


def test_numeric_ids_are_reported_once_for_both_files(bench: Path):
    write_benchmark(bench, [record(n, id=n) for n in range(3)])
    write_json(bench.parent / "run.json", [result(n, id=n) for n in range(3)])
    with pytest.raises(ValueError) as error:
        load(bench, results=str(bench.parent / "run.json"))
    assert str(error.value).splitlines() == [
        "bench has 1 problem:",
        '  test.json, record 1: id is a number, must be text: write "0", in every file that names it (5 more like it)',
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "test.json: holds no record"),
        ({"a": 1}, "test.json, line 1: is not a JSON object ("),
        ({"test_0": record(0)}, "test.json, line 1: is not a JSON object ("),
    ],
)
def test_file_without_a_list_of_samples_is_the_only_problem(bench: Path, content: object, words: str):
    write_json(bench / "diagram" / "test.json", content)
    with pytest.raises(ValueError) as error:
        load(bench, results=str(bench.parent / "run.json"))
    lines = str(error.value).splitlines()
    assert lines[1].startswith(f"  {words}")
    assert all("must be an array of objects" in line for line in lines[1:]) or content == []
