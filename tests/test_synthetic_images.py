"""Drawn images are a GenEval dataset like any other, always the same, and say what was put wrong."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image, ImageChops

from tasks.datasets.geneval import read_geneval
from tasks.errors import Problems
from tasks.parameters import RubricParameters
from tasks.records import Requirement
from tasks.synthetic.image_prompts import MOST_PROMPTS, TAGS
from tasks.synthetic.images import CANDIDATES, draw_images, noticed, read_image_labels
from tasks.synthetic.prompt_words import read_prompt
from tasks.synthetic.scene_defects import CLEAN_SCENE, KINDS, SCENE_DEFECTS, spoilt_scene
from tasks.synthetic.scenes import random_scene


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The standard drawn images."""
    root = tmp_path_factory.mktemp("images")
    draw_images(root)
    return root


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_loader_takes_drawn_images_as_any_dataset(drawn: Path) -> None:
    problems = Problems()
    read_geneval(drawn, RubricParameters(dataset=str(drawn)), problems)
    problems.stop("the drawn images")


def test_all_tags_have_their_prompts_and_each_folder_holds_the_row_of_its_line(drawn: Path) -> None:
    prompts = rows(drawn / "evaluation_metadata.jsonl")
    assert Counter(row["tag"] for row in prompts) == dict.fromkeys(TAGS, 4)
    assert len({row["prompt"] for row in prompts}) == 24
    for candidate in CANDIDATES:
        for line, row in enumerate(prompts):
            folder = drawn / candidate / f"{line:05d}"
            assert rows(folder / "metadata.jsonl") == [row]
            assert [path.name for path in sorted((folder / "samples").iterdir())] == ["0000.png", "0001.png"]


def test_what_a_row_includes_is_what_its_prompt_says(drawn: Path) -> None:
    for row in rows(drawn / "evaluation_metadata.jsonl"):
        said = [(one.name, one.count, one.color, one.relation) for one in read_prompt(row["prompt"])]
        listed = [
            (one["class"], one["count"], one.get("color", ""), one.get("position", [""])[0]) for one in row["include"]
        ]
        assert said == listed
        assert ("exclude" in row) == (row["tag"] == "counting")


def test_every_image_has_a_label_and_each_kind_is_put_into_its_tags(drawn: Path) -> None:
    labels, prompts = read_image_labels(drawn), rows(drawn / "evaluation_metadata.jsonl")
    assert labels.keys() == {
        str(path.relative_to(drawn).with_suffix("")).replace("/samples", "") for path in drawn.rglob("*.png")
    }
    found: dict[str, set[str]] = {tag: set() for tag in TAGS}
    for key, kind in labels.items():
        found[prompts[int(key.split("/")[1])]["tag"]].add(kind)
    assert found == {tag: {*kinds, CLEAN_SCENE} for tag, kinds in KINDS.items()}


def test_the_careless_candidate_has_many_more_defects_than_the_steady_one(drawn: Path) -> None:
    found = Counter(key.split("/")[0] for key, kind in read_image_labels(drawn).items() if kind in SCENE_DEFECTS)
    assert found["steady"] == 6
    assert found["careless"] >= 36


def test_the_same_seed_draws_the_same_bytes_over_what_is_there(drawn: Path, tmp_path: Path) -> None:
    draw_images(tmp_path)
    assert files(tmp_path) == files(drawn)
    draw_images(tmp_path)
    assert files(tmp_path) == files(drawn)


def test_another_seed_draws_other_prompts_and_images(drawn: Path, tmp_path: Path) -> None:
    draw_images(tmp_path, 1, 1, seed=8)
    first = files(drawn)
    assert not [name for name, data in files(tmp_path).items() if name.endswith(".png") and first[name] == data]
    assert rows(tmp_path / "evaluation_metadata.jsonl") != rows(drawn / "evaluation_metadata.jsonl")[:6]


@pytest.mark.parametrize(("prompts", "images"), [(2, 2), (4, 1), (1, 1)])
def test_smaller_numbers_draw_the_first_of_the_same_images(
    drawn: Path, tmp_path: Path, prompts: int, images: int
) -> None:
    draw_images(tmp_path, prompts, images)
    fewer, more = files(tmp_path), files(drawn)
    for name in ("evaluation_metadata.jsonl", "labels.json"):
        del fewer[name]
    assert fewer.items() <= more.items()
    assert read_image_labels(tmp_path).items() <= read_image_labels(drawn).items()
    assert rows(tmp_path / "evaluation_metadata.jsonl") == rows(drawn / "evaluation_metadata.jsonl")[: 6 * prompts]


def test_as_many_prompts_as_allowed_are_all_different(tmp_path: Path) -> None:
    draw_images(tmp_path, MOST_PROMPTS, 1)
    assert len({row["prompt"] for row in rows(tmp_path / "evaluation_metadata.jsonl")}) == 6 * MOST_PROMPTS


@pytest.mark.parametrize(("prompts", "images"), [(0, 2), (MOST_PROMPTS + 1, 2), (4, 0)])
def test_what_cannot_be_drawn_is_refused_before_a_file_is_written(tmp_path: Path, prompts: int, images: int) -> None:
    with pytest.raises(ValueError, match=f"allowed are 1 to {MOST_PROMPTS} prompts and at least 1 image"):
        draw_images(tmp_path, prompts, images)
    assert not list(tmp_path.iterdir())


ASKED: dict[str, tuple[Requirement, ...]] = {
    "single_object": (Requirement(name="heart"),),
    "two_object": (Requirement(name="ring"), Requirement(name="star")),
    "counting": (Requirement(name="moon", count=3),),
    "colors": (Requirement(name="cone", color="white"),),
    "position": (Requirement(name="box"), Requirement(name="drop", relation="above", target=0)),
    "color_attr": (Requirement(name="ball", color="red"), Requirement(name="cross", color="blue")),
}


@pytest.mark.parametrize(("tag", "kind"), [(tag, kind) for tag, kinds in KINDS.items() for kind in kinds])
def test_a_defect_changes_the_picture_and_a_clean_scene_stays_as_it_is(tag: str, kind: str) -> None:
    scene = random_scene(ASKED[tag], Random(3))
    good, bad = scene.draw(), spoilt_scene(scene, kind, Random(4)).draw()
    assert ImageChops.difference(good, bad).getbbox() is not None
    assert spoilt_scene(scene, CLEAN_SCENE, Random(4)).draw() == good


def test_images_are_square_and_rgb(drawn: Path) -> None:
    for path in drawn.rglob("*.png"):
        with Image.open(path) as picture:
            assert (picture.format, picture.mode, picture.size) == ("PNG", "RGB", (384, 384))


def test_a_dataset_without_labels_has_none(tmp_path: Path) -> None:
    assert read_image_labels(tmp_path) == {}


@pytest.mark.parametrize("text", ["[]", '{"a/00000/0000": 1}', "{", '{"a/00000/0000": "a cat"}', "\xff"])
def test_a_file_of_that_name_that_is_not_ours_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "labels.json").write_bytes(text.encode("latin-1"))
    assert read_image_labels(tmp_path) == {}


@pytest.mark.parametrize(
    ("kind", "score", "threshold", "seen"),
    [
        ("mirrored", 6.9, 7, True),
        ("mirrored", 7, 7, False),
        ("mirrored", 6.9, 5, False),
        ("clean", 7, 7, True),
        ("clean", 6.9, 7, False),
        ("clean", None, 7, None),
        ("hidden", None, 7, None),
        ("", 3, 7, None),
        ("black", 3, 7, None),
    ],
)
def test_a_defect_is_noticed_by_a_low_score_and_a_clean_image_by_a_high_one(
    kind: str, score: float | None, threshold: float, seen: bool | None
) -> None:
    assert noticed(kind, score, threshold) is seen
