"""Drawn samples: they load like any dataset, never change, and have labels of their defects."""

import base64
import hashlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops

from tasks.datasets.benchmark import read_labels
from tasks.datasets.entries import read_texts
from tasks.datasets.geneval import read_geneval
from tasks.demo.defects import CLEAN, CLEAN_SCENE, DEFECTS, FORFEIT, IN_HUMAN, SCENE_DEFECTS
from tasks.demo.samples import CANDIDATES, MOST_PROMPTS, TAGS, draw_all, draw_images, drawn_samples
from tasks.errors import Problems
from tasks.protocols.figures.protocol import caught
from tasks.protocols.images.protocol import noticed
from tasks.protocols.loading import load_dataset
from tasks.records.parameters import PairwiseParameters, RubricParameters

FLOWS = ("diagram", "plot")
DRAWN_SHA256 = "c7a4e3cc0800192e7c70224d98a3135a9c7493a2f7e9d269c961a0acd112e7fa"
"""Hash over name and SHA-256 of every drawn file; it depends on Pillow's encoders."""

each_flow = pytest.mark.parametrize("flow", FLOWS)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with the standard samples of both flows."""
    root = tmp_path_factory.mktemp("samples")
    for flow in FLOWS:
        drawn_samples(root, flow)
    return root


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with all prompts for each tag."""
    root = tmp_path_factory.mktemp("images")
    draw_images(root, MOST_PROMPTS)
    return root


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def sides(root: Path, flow: str, row: dict[str, Any]) -> dict[str, Image.Image]:
    model = io.BytesIO(base64.b64decode(row[row["eval_image_field"]]))
    return {"human": Image.open(root / flow / row["path_to_gt_image"]).convert("RGB"), "model": Image.open(model)}


# Figures


@each_flow
def test_drawn_figures_load_like_any_dataset(drawn: Path, flow: str) -> None:
    dataset = load_dataset(flow, PairwiseParameters(dataset=str(drawn)))  # pyright: ignore
    forfeits = [sample.injected for sample in dataset.samples if sample.pictures["model"].problem]
    assert (dataset.candidates, len(dataset.samples), sorted(forfeits)) == ((flow,), 24, ["missing", "null"])
    assert all(all(read_texts(sample).values()) for sample in dataset.samples)
    assert not any(sample.pictures["human"].problem for sample in dataset.samples)


@each_flow
def test_every_defect_is_drawn_and_only_copies_have_equal_pictures(drawn: Path, flow: str) -> None:
    labels = read_labels(drawn, flow)
    defects = {kind for kind, dimensions in DEFECTS.items() if dimensions[flow == "plot"]}
    assert set(labels.values()) == defects | {*CLEAN, *FORFEIT}
    for row in json.loads((drawn / f"results/{flow}.json").read_bytes()):
        if (kind := labels[row["id"]]) in FORFEIT:
            continue
        shown = sides(drawn, flow, row)
        apart = ImageChops.difference(*(one.convert("L") for one in shown.values())).getextrema()[1]
        assert (apart < 15) == (kind == "copy"), (kind, apart)  # pyright: ignore
        if kind.removeprefix(IN_HUMAN) == "black":
            dark = [side for side, picture in shown.items() if max(picture.getpixel((1, 1))) < 40]  # pyright: ignore
            assert dark == ["human" if kind.startswith(IN_HUMAN) else "model"]


# Images


def test_drawn_images_load_and_every_folder_has_its_metadata(images: Path) -> None:
    problems = Problems()
    read_geneval(images, RubricParameters(dataset=str(images)), problems)
    problems.stop("the drawn images")
    prompts = lines(images / "evaluation_metadata.jsonl")
    assert Counter(row["tag"] for row in prompts) == dict.fromkeys(TAGS, MOST_PROMPTS)
    for candidate in CANDIDATES:
        for line, row in enumerate(prompts):
            folder = images / candidate / f"{line:05d}"
            assert lines(folder / "metadata.jsonl") == [row]
            for path in sorted((folder / "samples").iterdir(), key=lambda path: path.name):
                with Image.open(path) as picture:
                    assert (picture.format, picture.mode, picture.size) == ("PNG", "RGB", (384, 384))


def test_every_image_has_a_label_and_careless_has_more_defects(images: Path) -> None:
    labels, prompts = read_labels(images, "colors"), lines(images / "evaluation_metadata.jsonl")
    paths = {str(path.relative_to(images).with_suffix("")) for path in images.rglob("*.png")}
    assert labels.keys() == {path.replace("/samples", "") for path in paths}
    found: dict[str, set[str]] = {tag: set() for tag in TAGS}
    for key, kind in labels.items():
        found[prompts[int(key.split("/")[1])]["tag"]].add(kind)
    assert found == {tag: {*kinds, CLEAN_SCENE} for tag, kinds in SCENE_DEFECTS.items()}
    spoilt = Counter(key.split("/")[0] for key, kind in labels.items() if kind != CLEAN_SCENE)
    assert spoilt == {"steady": 12, "careless": 78}


def test_fewer_prompts_are_the_first_ones_and_all_differ(images: Path, tmp_path: Path) -> None:
    draw_images(tmp_path, 2)
    fewer, more = files(tmp_path), files(images)
    for name in ("evaluation_metadata.jsonl", "labels.json"):
        del fewer[name]
    assert fewer.items() <= more.items()
    assert read_labels(tmp_path, "object").items() <= read_labels(images, "object").items()
    assert len({row["prompt"] for row in lines(images / "evaluation_metadata.jsonl")}) == 6 * MOST_PROMPTS


# Files


def test_drawn_bytes_never_change_and_need_an_empty_folder(tmp_path: Path) -> None:
    draw_all(tmp_path, count=4, prompts_per_tag=2, seed=7)
    before = files(tmp_path)
    drawn = {name: hashlib.sha256(data).hexdigest() for name, data in before.items()}
    names = "".join(f"{name} {digest}\n" for name, digest in sorted(drawn.items()))
    assert len(drawn) == 96
    assert hashlib.sha256(names.encode()).hexdigest() == DRAWN_SHA256
    with pytest.raises(ValueError, match=f"^{tmp_path} is not empty; samples are drawn into a new or empty folder$"):
        draw_all(tmp_path, 1, 1, 8)
    assert files(tmp_path) == before
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=f"^samples cannot be drawn into {tmp_path}/file: Not a directory$"):
        draw_all(tmp_path / "file", 1, 1, 7)


# Labels


@pytest.mark.parametrize("place", ["diagram/labels.json", "labels.json"])
def test_labels_are_found_beside_the_split_or_at_the_root(tmp_path: Path, place: str) -> None:
    assert read_labels(tmp_path, "diagram") == {}
    (tmp_path / "diagram").mkdir()
    (tmp_path / place).write_text('{"test_0": "black"}')
    assert read_labels(tmp_path, "diagram") == {"test_0": "black"}


@pytest.mark.parametrize("text", ["[]", '{"test_0": 1}', "{", '{"test_0": "a cat"}', "[" * 100_000, "1" * 5000, "\xff"])
def test_labels_file_of_another_program_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "labels.json").write_bytes(text.encode("latin-1"))
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
        ("reversed", "plot", {"faithfulness": "Human"}, None),
        ("overload", "plot", {"conciseness": None}, None),
        ("overload", "plot", {}, None),
        ("copy", "diagram", {**GOOD, "aesthetics": "Both are bad"}, True),
        ("restyled", "plot", {**GOOD, "aesthetics": "Mixed"}, True),
        ("copy", "diagram", {**GOOD, "aesthetics": "Model"}, False),
        ("copy", "diagram", {**GOOD, "aesthetics": None}, None),
        ("copy", "diagram", {}, None),
        ("null", "diagram", GOOD, None),
        ("homemade", "diagram", GOOD, None),
    ],
)
def test_defect_is_caught_by_the_verdict_on_its_dimension(kind: str, flow: str, verdicts: Any, seen: Any) -> None:
    assert caught(kind, flow, verdicts) is seen


@pytest.mark.parametrize(
    ("kind", "score", "threshold", "seen"),
    [
        ("mirrored", 6.9, 7, True),
        ("mirrored", 7, 7, False),
        ("mirrored", 6.9, 5, False),
        ("clean", 7, 7, True),
        ("clean", 6.9, 7, False),
        ("clean", None, 7, None),
        ("black", 3, 7, None),
    ],
)
def test_defect_is_noticed_by_a_score_below_the_threshold(
    kind: str, score: float | None, threshold: float, seen: bool | None
) -> None:
    assert noticed(kind, score, threshold) is seen
