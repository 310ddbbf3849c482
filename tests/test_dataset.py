"""Datasets are loaded, filtered and keyed; texts and pictures are read one by one, or refused."""

import io
import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from factories import slip
from own_data import RESULTS
from PIL import Image
from written_datasets import figure_row, inline, png, record, result, write_benchmark, write_json, write_two_stages
from written_images import image_row, prompt_row, write_geneval, write_manifest

from tasks.datasets.dataset import Dataset
from tasks.datasets.entries import read_picture, read_texts
from tasks.datasets.paths import NO_PICTURE
from tasks.errors import InputError
from tasks.judging.protocol_items import dataset_items
from tasks.protocols import protocol_of
from tasks.protocols.loading import dataset_of, load_ahead, load_dataset
from tasks.records import PictureSource, Place, Sample
from tasks.records.parameters import PairwiseParameters, RubricParameters
from tasks.rubrics.rubric import load_rubric


def load(source: Path, flow: str = "diagram", **parameters: object) -> Dataset:
    return load_dataset(flow, PairwiseParameters.model_validate({"dataset": str(source)} | parameters))


def ids(dataset: Dataset) -> list[str]:
    return [sample.sample_id for sample in dataset.samples]


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    return write_two_stages(tmp_path / "bench")


def test_benchmark_with_missing_and_empty_fields_loads(figure_benchmark: Path):
    mini = load(figure_benchmark, results=str(figure_benchmark / RESULTS))
    assert ids(mini) == [f"test_{n}" for n in range(12)]
    assert (mini.name, mini.candidates) == (figure_benchmark.name, ("diagram_dev_full_test",))
    assert mini.name in ("drawn-bench", "paperbananabench-mini")
    assert all(sample.pictures["human"].problem == "" for sample in mini.samples)
    key = "target_diagram_critic_desc2_base64_jpg"
    problems = {sample.sample_id: sample.pictures["model"].problem for sample in mini.samples}
    assert {name: words for name, words in problems.items() if words} == {
        "test_9": f"{NO_PICTURE}key '{key}' is null in diagram_dev_full_test.json, record 9",
        "test_10": f"{NO_PICTURE}key '{key}' is missing in diagram_dev_full_test.json, record 10",
    }
    assert {sample.sample_id: sample.notes for sample in mini.samples if sample.notes} == {
        "test_4": ("1 image link dropped from the context",),
        "test_5": ("empty context",),
    }
    for sample in mini.samples:
        assert "![" not in read_texts(sample)["context"]
        for source in sample.pictures.values():
            if source.place:
                Image.open(io.BytesIO(read_picture(source))).verify()


LATE, EARLY = "target_diagram_critic_desc2_base64_jpg", "target_diagram_critic_desc0_base64_jpg"
ENDS: dict[str, dict[str, object]] = {
    "test_1": {"target_diagram_critic_suggestions1": "No changes needed."},
    "test_2": {"target_diagram_critic_suggestions1": "No changes needed."},
    "test_3": {"eval_image_field": EARLY},
    "test_4": {"target_diagram_critic_suggestions1": "Use fewer arrows.", "eval_image_field": EARLY},
}
"""Sample -> how its record ends after the first round; the last one failed in the second round."""


def test_pictures_are_carried_to_stages_that_the_critic_skipped(figure_benchmark: Path, tmp_path: Path):
    records = json.loads((figure_benchmark / RESULTS).read_text())
    for one in records:
        if picture := one.pop(LATE, None):
            one[EARLY] = picture
            one.update(ENDS.get(one["id"], {LATE: picture}))
    results = str(write_json(tmp_path / "run.json", records))
    dataset = load(figure_benchmark, results=results, stage=["critic0", "critic2"])
    by_place = {(sample.candidate, sample.sample_id): sample for sample in dataset.samples}
    carried = {place: sample.carried_from for place, sample in by_place.items() if sample.carried_from}
    assert carried == {("run/critic2", f"test_{n}"): "critic0" for n in (1, 2, 3)}
    for (_, sample_id), sample in by_place.items():
        if sample.carried_from:
            first = by_place["run/critic0", sample_id].pictures["model"]
            assert read_picture(sample.pictures["model"]) == read_picture(first)
    missing = {place for place, sample in by_place.items() if sample.pictures["model"].problem}
    assert missing == {
        ("run/critic2", "test_4"),
        *((f"run/{n}", one) for n in ("critic0", "critic2") for one in ("test_9", "test_10")),
    }
    words = "run/critic2: judged by the picture of critic0, with which its generator ended in 3 samples"
    assert any(words in warning for warning in dataset.warnings)
    assert dataset.carried and not load(figure_benchmark, results=results, stage=["critic0"]).carried


@pytest.mark.parametrize(
    ("data", "own_order"),
    [
        ({"Monday": 1, "Friday": 2}, True),
        ([{"b": 1, "a": 2}], True),
        ({"a": [2, 1], "b": 1}, False),
        (["![a](b.png)"], False),
        ("b, a", False),
    ],
)
def test_order_of_data_keys_is_part_of_the_protocol(tmp_path: Path, data: object, own_order: bool):
    write_benchmark(tmp_path / "set", [record(0, content=data), record(1)], "plot")
    write_json(tmp_path / "run.json", [record(n) | {"eval_image_field": "made", "made": inline(n)} for n in (0, 1)])
    dataset = load(tmp_path / "set", "plot", results=str(tmp_path / "run.json"))
    assert dataset_items(dataset) == ({"order of data": "their own"} if own_order else {})


def test_key_ignores_candidates_and_order(bench: Path):
    key = load(bench).key
    assert load(bench, stage=["vanilla", "critic0"], candidate_name="other").key == key
    write_json(bench / "results" / "diagram.json", [result(0)])
    write_benchmark(bench, [record(n) for n in (2, 0, 3, 1)])
    assert load(bench).key == key


@pytest.mark.parametrize(
    "changes",
    [{"content": "new"}, {"visual_intent": "new"}, {"path_to_gt_image": "images/9.png"}, {"path_to_gt_image": None}],
)
def test_key_changes_with_texts_and_human_pictures(bench: Path, changes: dict[str, object]):
    key = load(bench).key
    write_benchmark(bench, [record(0, **changes), *(record(n) for n in range(1, 4))])
    assert load(bench).key != key


def test_key_changes_with_the_selection_and_with_picture_bytes(bench: Path):
    key = load(bench).key
    assert load(bench, limit=3).key != key
    (bench / "diagram" / "images" / "3.png").write_bytes(png(200))
    assert load(bench).key != key


def test_key_ignores_format_and_place_of_pictures(tmp_path: Path):
    (tmp_path / "h.png").write_bytes(png(1))
    pictures = {"csv": "h.png", "jsonl": f"data:image/png;base64,{inline(1)}"}
    rows = {ending: [figure_row(1, human_image=human, model_image="h.png")] for ending, human in pictures.items()}
    assert len({load(write_manifest(tmp_path / f"m.{ending}", its)).key for ending, its in rows.items()}) == 1


@pytest.mark.parametrize(
    ("change", "is_other"),
    [({"human_image": "copy.png"}, False), ({"human_image": "2.png"}, True), ({"caption": "X"}, True)],
)
def test_id_is_one_figure_for_all_candidates(tmp_path: Path, change: dict[str, str], is_other: bool):
    first = figure_row(1, human_image="1.png", model_image="1.png", candidate="x")
    for name, shade in (("1.png", 1), ("copy.png", 1), ("2.png", 2)):
        (tmp_path / name).write_bytes(png(shade))
    path = write_json(tmp_path / "m.json", [first, first | change | {"candidate": "y"}])
    if is_other:
        words = r"record 2: id '.+' has another text or Human picture than in m.json, record 1"
        with pytest.raises(InputError, match=words):
            load(path)
    else:
        assert load(path).key == load(path, candidate=["y"]).key


def test_missing_pictures_empty_texts_and_unequal_candidates_warn(tmp_path: Path):
    rows = [
        figure_row(1, id="a", context="", human_image="h.png", model_image="m.png", candidate="x"),
        figure_row(2, id="b", human_image="gone.png", model_image="m.png", candidate="x"),
        figure_row(3, id="c", human_image="gone.png", model_image="out.png", candidate="x"),  # no Human: no forfeit
        figure_row(1, id="a", context="", human_image="h.png", model_image="out.png", candidate="y"),
    ]
    for name in ("h.png", "m.png"):
        (tmp_path / name).write_bytes(png(1))
    path = write_manifest(tmp_path / "m.jsonl", rows)
    absent = f"'gone.png' is not in {tmp_path}"
    assert load(path).warnings == (
        "empty context in 1 sample: a",
        f"no Human picture in 2 samples: b ({absent}), c ({absent})",
        f"no Model picture of candidate y: a forfeit in 1 sample: a ('out.png' is not in {tmp_path})",
        "no row of candidate y: not judged in 2 samples: b, c",
    )


def test_unreadable_pictures_warn_before_the_first_call(tmp_path: Path):
    bench = write_benchmark(tmp_path / "bench", [record(n) for n in range(3)])
    (bench / "diagram" / "images" / "2.png").write_text("none")
    key = "target_diagram_critic_desc0_base64_jpg"
    results = [result(0), result(1, **{key: "out/1.png"}), result(2)]
    dataset = load(bench, results=str(write_json(tmp_path / "run.json", results)))
    warnings = [words.partition(" (")[0] for words in dataset.warnings]
    assert warnings == [
        "unreadable Model picture of candidate run: a forfeit in 1 sample: test_1",
        "unreadable Human picture in 1 sample: test_2",
    ]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (None, "'target_diagram_critic_desc0_base64_jpg' is null in run.json, record 1"),
        ("out/figure.png", "not a picture that can be judged"),
    ],
)
def test_dataset_without_any_model_picture_is_refused(tmp_path: Path, changed: object, words: str):
    bench = write_benchmark(tmp_path / "set", [record(n) for n in range(3)])
    results = [result(n, target_diagram_critic_desc0_base64_jpg=changed) for n in range(3)]
    with pytest.raises(InputError, match="dataset set has no Model picture at all: 3 looked for, of 'test_0'") as error:
        load(bench, results=str(write_json(tmp_path / "run.json", results)))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_manifest_without_any_image_is_refused(tmp_path: Path):
    path = write_manifest(tmp_path / "rows.jsonl", [image_row(0, tag="single_object", image="")])
    with pytest.raises(InputError, match=r"dataset rows\.jsonl has no image at all: 1 looked for, of 'i0'"):
        load_images(path)


def test_missing_dataset_is_refused_and_no_url_is_fetched(tmp_path: Path):
    with pytest.raises(InputError, match=f"^dataset {tmp_path / 'gone'} does not exist$"):
        load(tmp_path / "gone")
    with pytest.raises(InputError, match=r"^dataset 'https://x\.org/set' is a URL, and no URL is fetched: download it"):
        load_dataset("diagram", PairwiseParameters(dataset="https://x.org/set"))


def test_memory_does_not_grow_with_the_result_file(tmp_path: Path):
    bench = write_benchmark(tmp_path / "bench", [record(n) for n in range(40)])
    (bench / "results").mkdir()
    with (bench / "results" / "diagram.json").open("w") as file:
        for number in range(40):
            large = result(number, polished_diagram_base64_jpg="A" * 1_000_000)
            file.write(("," if number else "[") + json.dumps(large))
        file.write("]")
    tracemalloc.start()
    load(bench)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6, "the file has 40 MB"


def load_images(source: Path) -> Dataset:
    return load_dataset("object", RubricParameters.model_validate({"dataset": str(source)}))


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "benchmark": ("tasks.datasets.rows.array_spans", lambda root: load(root / "bench")),
    "benchmark picture": ("tasks.datasets.paths.Folder.picture", lambda root: load(root / "bench")),
    "picture folder": (
        "tasks.datasets.paths.Folder.at",
        lambda root: load(root / "bench", images=str(root / "bench" / "diagram" / "images"), ids=["test_1"]),
    ),
    "key": ("tasks.datasets.entries.read_regular", lambda root: load(root / "bench")),
    "manifest": ("tasks.datasets.paths.Folder.picture", lambda root: load(root / "figures.csv")),
    "manifest cells": ("tasks.datasets.rows._csv_records", lambda root: load(root / "figures.csv")),
    "prompt folders": ("tasks.datasets.geneval.json_object", lambda root: load_images(root / "set")),
    "image manifest": ("tasks.datasets.paths.Folder.picture", lambda root: load_images(root / "rows.jsonl")),
    "texts": ("tasks.datasets.rows._bytes_at", lambda root: read_texts(sample_of(root))),
}
"""Reader -> function in it that is made to fail, and a call of the reader."""


def sample_of(root: Path) -> Sample:
    place = Place(str(root / "bench" / "diagram" / "test.json"), length=10)
    return Sample(sample_id="test_0", candidate="a", record=place, texts={"context": "content"})


@pytest.mark.parametrize("reader", READERS)
def test_bug_is_not_reported_as_a_dataset_problem(tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch):
    write_benchmark(tmp_path / "bench", [record(n) for n in range(2)])
    write_json(tmp_path / "bench" / "results" / "diagram.json", [result(n) for n in range(2)])
    write_manifest(tmp_path / "figures.csv", [figure_row(1)])
    write_geneval(tmp_path / "set", [prompt_row()], 1)
    write_manifest(tmp_path / "rows.jsonl", [image_row(0, tag="single_object")])
    function, read = READERS[reader]
    monkeypatch.setattr(function, slip)
    with pytest.raises(ValueError, match=r"^a slip$") as caught:
        read(tmp_path)
    assert not isinstance(caught.value, InputError)


@pytest.mark.parametrize("given", ["results", "images"])
def test_results_without_a_dataset_are_refused(tmp_path: Path, given: str):
    parameters = PairwiseParameters.model_validate({"store": str(tmp_path / "store"), given: str(tmp_path)})
    with pytest.raises(InputError, match=f"^{given} is given, and no dataset that it belongs to: name the dataset"):
        load_dataset("diagram", parameters)


# Filters

AMONG = "is not in the part of the dataset that this flow judges:"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"limit": 3}, [0, 1, 2]),
        ({"limit": 9}, [0, 1, 2, 3]),
        ({"ids": ["test_3", "test_1"]}, [1, 3]),
        ({"category": ["vision"]}, [1, 3]),
        ({"category": ["vision", "agent"], "difficulty": ["hard"]}, [2, 3]),
        ({"category": ["vision"], "limit": 1}, [1]),
        ({"candidate": ["diagram"]}, [0, 1, 2, 3]),
    ],
)
def test_filters_keep_samples_that_match_all(bench: Path, filters: dict[str, object], expected: list[int]):
    assert ids(load(bench, **filters)) == [f"test_{n}" for n in expected]


def test_limit_gives_every_candidate_the_same_samples(bench: Path):
    dataset = load(bench, stage=["vanilla", "critic0"], limit=2)
    assert [(sample.candidate, sample.sample_id) for sample in dataset.samples] == [
        ("diagram/vanilla", "test_0"),
        ("diagram/vanilla", "test_1"),
        ("diagram/critic0", "test_0"),
        ("diagram/critic0", "test_1"),
    ]
    assert load(bench, stage=["vanilla", "critic0"], candidate=["diagram/critic0"]).candidates == ("diagram/critic0",)


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ({"ids": ["test_1", "test_9"]}, f"ids: 'test_9' {AMONG} test_0, test_1, test_2, test_3"),
        ({"category": ["visoin"]}, f"category: 'visoin' {AMONG} agent, vision"),
        ({"candidate": ["gpt"]}, f"candidate: 'gpt' {AMONG} diagram"),
        ({"ids": ["x"], "difficulty": ["y"]}, "the filter has 2 problems"),
        ({"ids": ["test_0"], "category": ["vision"]}, "no sample is left"),
    ],
)
def test_filter_that_matches_nothing_lists_existing_values(bench: Path, filters: dict[str, object], words: str):
    with pytest.raises(ValueError, match=words):
        load(bench, **filters)


# Texts and pictures


def test_texts_are_refused_if_the_file_was_rewritten(bench: Path):
    sample = load(bench).samples[2]
    assert read_texts(sample) == {"context": "method 2", "caption": "caption 2"}
    path = bench / "diagram" / "test.json"
    path.write_text(path.read_text().replace("test_2", "test_7"))
    with pytest.raises(ValueError, match="sample 'test_2' is no longer where it was"):
        read_texts(sample)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (inline(5), png(5)),
        (f"data:image/png;base64,{inline(5).rstrip('=')}", png(5)),
        ("\n".join(inline(5)[n : n + 20] for n in range(0, len(inline(5)), 20)), png(5)),
        ("no base64 at all!", "'picture' in r.json is no picture"),
        (f"é{inline(5)}", "'picture' in r.json is no picture"),
        (inline(5)[:-3], "'picture' in r.json is no picture"),
        ("data:image/svg+xml,<svg/>", "a data: URL must be in base64"),
        (7, "found a number"),
    ],
)
def test_inline_picture_is_decoded_or_refused(tmp_path: Path, value: object, expected: bytes | str):
    path = write_json(tmp_path / "r.json", {"picture": value})
    source = PictureSource(place=Place(path=str(path), length=path.stat().st_size), field="picture")
    if isinstance(expected, bytes):
        assert read_picture(source) == expected
    else:
        with pytest.raises(ValueError, match=expected):
            read_picture(source)


def test_sparse_file_of_twelve_gigabytes_is_not_read(tmp_path: Path):
    sparse = tmp_path / "sparse.png"
    sparse.touch()
    os.truncate(sparse, 12 << 30)
    with pytest.raises(ValueError, match=r"sparse.png cannot be read: .* it has more than 256,000,000 bytes"):
        read_picture(PictureSource(place=Place(path=str(sparse))))


def test_missing_picture_is_refused_with_the_reason(tmp_path: Path):
    with pytest.raises(ValueError, match="no picture: key 'x' is null"):
        read_picture(PictureSource(problem="no picture: key 'x' is null"))
    with pytest.raises(ValueError, match=r"gone.png cannot be read: No such file"):
        read_picture(PictureSource(place=Place(path=str(tmp_path / "gone.png"))))


def test_picture_of_a_rewritten_record_is_lost_and_no_forfeit(tmp_path: Path):
    root = write_benchmark(tmp_path, [record(number) for number in range(3)])
    results = write_json(tmp_path / "results.json", [result(number) for number in range(3)])
    given = PairwiseParameters(dataset=str(root), results=str(results))
    sample = load_dataset("diagram", given).samples[2]
    write_json(results, [result(0)])  # a restarted generator rewrites the file
    with pytest.raises(InputError, match="lost since the dataset was loaded: ") as lost:
        read_picture(sample.pictures["model"])
    decided = protocol_of("diagram").decide(sample, [], load_rubric("diagram"), given, {"model": str(lost.value)})
    assert decided.status == "incomplete"


@pytest.mark.parametrize(("change", "samples"), [({}, [2, 1]), ({"limit": 1}, [1, 1]), ({"seed": 1}, [1, 1])], ids=str)
def test_dataset_read_ahead_is_used_once_and_for_the_same_parameters(
    change: dict[str, int], samples: list[int], tmp_path: Path
):
    data = write_benchmark(tmp_path / "data", [record(number) for number in range(2)])
    results = write_json(data / "results.json", [result(number) for number in range(2)])
    parameters = PairwiseParameters(dataset=str(data), results=str(results))
    load_ahead("diagram", parameters)
    write_json(tmp_path / "data" / "diagram" / "test.json", [record(0)])
    write_json(results, [result(0)])
    changed = {"judge": parameters.judge.model_copy(update=change)} if "seed" in change else change
    wanted = parameters.model_copy(update=changed)
    assert [len(dataset_of("diagram", wanted).samples) for _ in samples] == samples
