"""Drawn samples are a dataset like any other, always the same, and say what was put wrong."""

import base64
import hashlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops

from tasks.kinds.loading import load_dataset
from tasks.parameters import PairwiseParameters
from tasks.synthetic.defects import CLEAN, DEFECTS, FORFEIT, IN_HUMAN
from tasks.synthetic.samples import caught, draw_all, draw_samples, drawn_samples, read_labels

FLOWS = ("diagram", "plot")
KEY = "target_{}_critic_desc2_base64_jpg"
DRAWN_SHA256 = "9702e495ea292f4dd9473381b6c2a7bd5bbaefc5494c3e43ab15337d8a288daf"
"""Over name and SHA-256 of every file that is drawn; Pillow's encoders have a part in it."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The standard samples of both flows in one dataset."""
    root = tmp_path_factory.mktemp("samples")
    for flow in FLOWS:
        drawn_samples(root, flow)
    return root


def rows(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_bytes())


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def human(root: Path, flow: str, row: dict[str, Any]) -> Image.Image:
    return Image.open(root / flow / row["path_to_gt_image"]).convert("RGB")


def model(row: dict[str, Any]) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(row[row["eval_image_field"]]))).convert("RGB")


def difference(one: Image.Image, other: Image.Image) -> int:
    """Largest difference in brightness of two pictures of one size, of 255."""
    return ImageChops.difference(one.convert("L"), other.convert("L")).getextrema()[1]  # pyright: ignore


@pytest.mark.parametrize("flow", FLOWS)
def test_the_loader_takes_drawn_samples_as_any_dataset(drawn: Path, flow: str) -> None:
    dataset = load_dataset(flow, PairwiseParameters(dataset=str(drawn)))  # pyright: ignore
    forfeits = [sample.injected for sample in dataset.samples if sample.pictures["model"].problem]
    assert len(dataset.samples) == 24
    assert sorted(forfeits) == ["missing", "null"]
    assert not any(sample.pictures["human"].problem for sample in dataset.samples)


@pytest.mark.parametrize("flow", FLOWS)
def test_a_record_has_what_the_benchmark_has(drawn: Path, flow: str) -> None:
    for row in rows(drawn / flow / "test.json"):
        picture = human(drawn, flow, row)
        assert (row["additional_info"]["width"], row["additional_info"]["height"]) == picture.size
        assert row["split"] == "test"
        assert row["category"] and row["difficulty"] in ("easy", "hard")
        assert row["visual_intent"].endswith(".")


def test_diagrams_come_with_a_method_section_and_plots_with_data(drawn: Path) -> None:
    assert all(isinstance(row["content"], str) for row in rows(drawn / "diagram/test.json"))
    kinds = {row["category"]: type(row["content"]) for row in rows(drawn / "plot/test.json")}
    assert kinds == {"bar": dict, "line": list, "scatter": list}


def test_the_data_of_a_plot_are_those_that_its_description_names(drawn: Path) -> None:
    for row in rows(drawn / "plot/test.json"):
        content = row["content"]
        series = set(content["data"]) if isinstance(content, dict) else {point["series"] for point in content}
        assert len(series) >= 2
        assert all(name in row["visual_intent"] for name in series)


@pytest.mark.parametrize("flow", FLOWS)
def test_the_results_repeat_every_record_and_name_the_picture_to_judge(drawn: Path, flow: str) -> None:
    labels = read_labels(drawn, flow)
    for record, result in zip(rows(drawn / flow / "test.json"), rows(drawn / f"results/{flow}.json"), strict=True):
        assert record.items() <= result.items()
        assert result["eval_image_field"] == KEY.format(flow)
        kind = labels[record["id"]]
        assert (KEY.format(flow) in result) == (kind != "missing")
        assert (result.get(KEY.format(flow)) is None) == (kind in FORFEIT)


@pytest.mark.parametrize("flow", FLOWS)
def test_every_kind_of_a_flow_is_among_the_standard_samples(drawn: Path, flow: str) -> None:
    kinds = Counter(read_labels(drawn, flow).values())
    defects = {kind for kind, defect in DEFECTS.items() if flow in defect.dimensions}
    assert set(kinds) == defects | {*CLEAN, *FORFEIT}
    assert kinds["null"] == kinds["missing"] == 1


@pytest.mark.parametrize("flow", FLOWS)
def test_only_a_copy_shows_the_same_picture_twice(drawn: Path, flow: str) -> None:
    labels = read_labels(drawn, flow)
    for row in rows(drawn / f"results/{flow}.json"):
        if labels[row["id"]] in FORFEIT:
            continue
        apart = difference(human(drawn, flow, row), model(row))
        # JPEG changes no pixel of a copy by more than 13.
        assert (apart < 15) == (labels[row["id"]] == "copy"), (labels[row["id"]], apart)


@pytest.mark.parametrize("flow", FLOWS)
def test_a_defect_of_the_human_figure_is_in_the_human_figure(drawn: Path, flow: str) -> None:
    labels = read_labels(drawn, flow)
    dark = {}
    for row in rows(drawn / f"results/{flow}.json"):
        if labels[row["id"]].removeprefix(IN_HUMAN) == "black":
            sides = {"human": human(drawn, flow, row), "model": model(row)}
            dark[labels[row["id"]]] = [side for side, picture in sides.items() if max(picture.getpixel((1, 1))) < 40]
    assert dark == {"black": ["model"], "human_black": ["human"]}


def test_the_same_seed_draws_the_same_bytes(drawn: Path, tmp_path: Path) -> None:
    for flow in FLOWS:
        draw_samples(tmp_path, flow, count=24, seed=7)
    assert files(tmp_path) == files(drawn)


def test_another_seed_draws_other_figures(drawn: Path, tmp_path: Path) -> None:
    draw_samples(tmp_path, "diagram", count=3, seed=8)
    pairs = zip(rows(tmp_path / "diagram/test.json"), rows(drawn / "diagram/test.json")[:3], strict=True)
    assert all(row["content"] != first["content"] for row, first in pairs)


def test_a_smaller_count_draws_the_first_of_the_same_samples(drawn: Path, tmp_path: Path) -> None:
    draw_samples(tmp_path, "plot", count=5)
    assert rows(tmp_path / "results/plot.json") == rows(drawn / "results/plot.json")[:5]


def test_drawing_over_samples_leaves_nothing_but_the_samples(drawn: Path, tmp_path: Path) -> None:
    drawn_samples(tmp_path, "plot")
    before = files(tmp_path)
    assert drawn_samples(tmp_path, "plot") == tmp_path
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("flow", "count", "words"),
    [("counting", 24, "'counting'; allowed are diagram, plot"), ("plot", 0, "at least 1")],
)
def test_what_cannot_be_drawn_is_refused_before_a_file_is_written(
    tmp_path: Path, flow: str, count: int, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        draw_samples(tmp_path, flow, count)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("count", "prompts", "words"), [(0, 1, "at least 1"), (1, 0, "allowed are 1 to 12 prompts")])
def test_both_numbers_are_checked_before_anything_is_drawn(
    tmp_path: Path, count: int, prompts: int, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        draw_all(tmp_path, count, prompts, 7)
    assert not list(tmp_path.iterdir())


def test_nothing_is_drawn_beside_what_is_no_earlier_sample(tmp_path: Path) -> None:
    for name in ("ledger", "diagram"):
        (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=f"^{tmp_path} holds diagram, ledger; samples are drawn into a new or empty "):
        draw_all(tmp_path, 1, 1, 7)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["diagram", "ledger"]


def test_earlier_samples_are_drawn_over(tmp_path: Path) -> None:
    draw_all(tmp_path / "new", 1, 1, 7)
    draw_all(tmp_path / "new", 2, 1, 7)
    assert len(read_labels(tmp_path / "new", "diagram")) == 2
    (tmp_path / "new" / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"holds notes\.txt;"):
        draw_all(tmp_path / "new", 1, 1, 7)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=f"^samples cannot be drawn into {tmp_path}/file: Not a directory$"):
        draw_all(tmp_path / "file", 1, 1, 7)


@pytest.mark.parametrize("place", ["diagram/labels.json", "labels.json"])
def test_labels_are_found_beside_the_split_and_at_the_root(tmp_path: Path, place: str) -> None:
    (tmp_path / "diagram").mkdir()
    (tmp_path / place).write_text('{"test_0": "black"}')
    assert read_labels(tmp_path, "diagram") == {"test_0": "black"}


def test_a_dataset_without_labels_has_none(tmp_path: Path) -> None:
    assert read_labels(tmp_path, "diagram") == {}


@pytest.mark.parametrize("text", ["[]", '{"test_0": 1}', "{", '{"test_0": "a cat"}', "[" * 100_000, "1" * 5000])
def test_a_file_of_that_name_that_is_not_ours_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "labels.json").write_text(text)
    assert read_labels(tmp_path, "diagram") == {}


GOOD = {"faithfulness": "Both are good", "conciseness": "Both are good", "readability": "Both are good"}


@pytest.mark.parametrize(
    ("kind", "flow", "verdicts", "seen"),
    [
        ("black", "diagram", {"readability": "Human"}, True),
        ("black", "diagram", {"readability": "Model"}, False),
        ("black", "diagram", {"readability": "Both are bad"}, False),
        ("black", "diagram", {"readability": "Mixed"}, False),
        ("black", "plot", {"readability": "Human", "aesthetics": "Both are good"}, False),
        ("black", "plot", {"aesthetics": "Human"}, True),
        ("human_black", "plot", {"aesthetics": "Model"}, True),
        ("human_black", "plot", {"aesthetics": "Human"}, False),
        ("reversed", "diagram", {"faithfulness": "Human"}, True),
        ("reversed", "plot", {"faithfulness": "Human"}, None),
        ("overload", "plot", {"conciseness": None}, None),
        ("overload", "plot", {}, None),
        ("copy", "diagram", {**GOOD, "aesthetics": "Both are bad"}, True),
        ("restyled", "plot", {**GOOD, "aesthetics": "Mixed"}, True),
        ("copy", "diagram", {**GOOD, "aesthetics": "Model"}, False),
        ("copy", "diagram", {**GOOD, "aesthetics": None}, None),
        ("copy", "diagram", {}, None),
        ("null", "diagram", GOOD, None),
        ("missing", "plot", GOOD, None),
        ("", "diagram", GOOD, None),
        ("homemade", "diagram", GOOD, None),
    ],
)
def test_a_defect_is_caught_by_its_verdict_in_its_dimension(
    kind: str, flow: str, verdicts: dict[str, str | None], seen: bool | None
) -> None:
    assert caught(kind, flow, verdicts) is seen


def test_what_is_drawn_stays_the_same_to_the_byte(tmp_path: Path) -> None:
    draw_all(tmp_path, count=4, prompts_per_tag=2, seed=7)
    drawn = {name: hashlib.sha256(data).hexdigest() for name, data in files(tmp_path).items()}
    lines = "".join(f"{name} {digest}\n" for name, digest in sorted(drawn.items()))
    assert len(drawn) == 88
    assert hashlib.sha256(lines.encode()).hexdigest() == DRAWN_SHA256
