"""The embedded judge scores what pixels show of drawn shapes, and says where they do not; prompts are read for it."""

import json
from collections import defaultdict
from pathlib import Path
from random import Random

import numpy as np
import pytest
from geneval_rows import requirement
from own_data import LISTS, each_list
from PIL import Image, ImageDraw

from tasks.datasets.benchmark import read_labels
from tasks.demo.canvas import PAINTS, SHAPES, encode
from tasks.demo.defects import CLEAN_SCENE, SCENE_DEFECTS, SCENE_KINDS
from tasks.demo.pixel_judge import Blobs, find_blobs, look_at_image, score_image
from tasks.demo.samples import COLORS, draw_images, prompt_text, random_scene, read_prompt, spoil_scene
from tasks.pictures.preparation import as_shown
from tasks.protocols.images.protocol import noticed
from tasks.records import Requirement
from tasks.records.parameters import T2I
from tasks.rubrics.rubric import holdings, load_rubric

ASPECTS_OF = {tag: tuple(load_rubric(flow).prompt(tag).aspects) for flow in T2I for tag in holdings()[flow]}
RING, STAR = Requirement(name="ring", color="red"), Requirement(name="star", color="blue")
LEFT = (RING, STAR.model_copy(update={"relation": "left of", "target": 0}))
THREE = (Requirement(name="heart", color="pink", count=3),)


def sheet(size: tuple[int, int] = (400, 400), color: str = "#e8ecf0") -> tuple[Image.Image, ImageDraw.ImageDraw]:
    picture = Image.new("RGB", size, color)
    return picture, ImageDraw.Draw(picture)


def drawn(required: tuple[Requirement, ...], kind: str = CLEAN_SCENE) -> Blobs:
    return find_blobs(spoil_scene(random_scene(required, Random(11)), kind, Random(12)).draw())


def photo() -> Blobs:
    """What a busy picture gives."""
    small = np.random.default_rng(5).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    return find_blobs(Image.fromarray(small).resize((512, 512), Image.Resampling.BICUBIC))


def test_defects_are_noticed_of_every_kind_and_clean_images_hardly_score_low(tmp_path: Path) -> None:
    rates: dict[str, list[bool | None]] = defaultdict(list)
    draw_images(tmp_path, seed=301)  # no limit was set by this seed
    for key, kind in read_labels(tmp_path, "object").items():
        candidate, prompt, image = key.split("/")
        row = json.loads((tmp_path / candidate / prompt / "metadata.jsonl").read_text())
        found = find_blobs(as_shown((tmp_path / candidate / prompt / "samples" / f"{image}.png").read_bytes()))
        rates[kind].append(noticed(kind, score_image(ASPECTS_OF[row["tag"]], row["prompt"], found)[-1].score, 7))
    assert rates.keys() == SCENE_KINDS
    assert all(sum(hit is True for hit in hits) >= 0.95 * len(hits) for hits in rates.values()), rates


def test_every_tag_of_the_default_rubrics_has_defects() -> None:
    assert ASPECTS_OF.keys() == SCENE_DEFECTS.keys()


# Blobs


def test_a_blob_is_where_it_is_drawn_and_specks_are_none() -> None:
    picture, draw = sheet((800, 400))
    draw.rectangle((100, 50, 299, 349), fill="#2f6fc4")
    draw.rectangle((700, 50, 702, 52), fill="black")
    (blob,) = find_blobs(picture)
    assert (blob.left, blob.top, blob.right, blob.bottom) == pytest.approx((0.125, 0.0625, 0.375, 0.4375), abs=0.005)
    assert blob.center == pytest.approx((0.25, 0.25), abs=0.005)
    assert blob.color == "blue"


@pytest.mark.parametrize("color", COLORS)
def test_drawn_shapes_are_counted_and_told_by_outline_and_color_also_in_a_jpeg(color: str) -> None:
    count = 3
    for number, shape in enumerate(SHAPES):
        scene = random_scene((Requirement(name=shape, count=count, color=color),), Random(f"{color} {count} {number}"))
        for picture in (scene.draw(), as_shown(encode(scene.draw(), "JPEG"))):
            assert [(blob.shape, blob.color) for blob in find_blobs(picture)] == [(shape, color)] * count


def test_areas_that_touch_are_one_without_a_name() -> None:
    picture, draw = sheet()
    draw.ellipse((60, 100, 220, 260), fill="red")
    draw.rectangle((160, 150, 340, 330), fill=PAINTS["blue"])
    draw.ellipse((20, 340, 70, 390), fill="black")
    assert [(blob.color, blob.shape) for blob in find_blobs(picture)] == [("blue", ""), ("black", "ball")]


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (3000, 1), (400, 400)])
def test_an_empty_sheet_of_any_size_has_no_blobs(size: tuple[int, int]) -> None:
    assert find_blobs(sheet(size)[0]) == []


# Scores


@pytest.mark.parametrize(
    ("required", "kind", "aspect", "expected"),
    [
        ((RING,), "clean", "object_completeness", 10),
        ((RING,), "absent", "object_completeness", 0),
        ((RING, STAR), "overlapping", "separation_clarity", 5),
        ((RING, STAR), "absent", "individual_completeness", 5),
        (THREE, "wrong_count", "count_accuracy", 0),
        (THREE, "clean", "spatial_legibility", 10),
        ((RING,), "wrong_color", "color_fidelity", 0),
        ((RING, STAR), "swapped_colors", "attribute_binding", 0),
        ((RING, STAR), "wrong_color", "attribute_binding", 5),
        ((RING, STAR), "clean", "attribute_binding", 10),
        ((RING, STAR), "clean", "material_consistency", 5),
        ((RING, STAR), "clean", "an aspect of a set of one's own", 5),
        (LEFT, "mirrored", "position_accuracy", 0),
        (LEFT, "clean", "position_accuracy", 10),
    ],
)
def test_a_defect_lowers_its_aspect(required: tuple[Requirement, ...], kind: str, aspect: str, expected: float) -> None:
    assert score_image((aspect,), prompt_text(required), drawn(required, kind))[0].score == expected


@pytest.mark.parametrize("prompt", ["a photo of a dog", "two dogs left of a cat", "", "!?", "white " * 3000])
def test_of_anything_but_drawn_shapes_nothing_is_claimed(prompt: str) -> None:
    for found in ([], photo(), drawn(THREE)):
        for one in score_image(ASPECTS_OF["position"], prompt, found):
            assert one.score == 5 and one.explanation.endswith("pixels cannot tell.")


def test_the_overall_score_is_that_of_the_lowest_aspect_that_pixels_can_tell() -> None:
    found = score_image(ASPECTS_OF["color_attr"], prompt_text((RING, STAR)), drawn((RING, STAR), "wrong_color"))
    assert [one.score for one in found] == [5, 5, 5, 5]
    fine = score_image(ASPECTS_OF["color_attr"], prompt_text((RING, STAR)), drawn((RING, STAR)))
    assert [one.score for one in fine] == [10, 5, 5, 10]
    assert fine[-1].explanation.endswith("; nothing was recognized.")


@pytest.mark.parametrize(("kind", "holds"), [("clean", True), ("mirrored", False), ("overlapping", None)])
def test_a_relation_is_seen_to_hold_or_not(kind: str, holds: bool | None) -> None:
    assert look_at_image(["ring", "star"], prompt_text(LEFT), drawn(LEFT, kind)).relation_holds is holds


@pytest.mark.parametrize(
    ("names", "found", "seen"),
    [
        (["heart"], drawn(THREE), [("heart", True, 3, "pink")]),
        (["ring", "star"], drawn((RING, STAR), "absent"), [("ring", False, 0, ""), ("star", True, 1, "blue")]),
        (["ring", "dog"], [], [("ring", False, 0, "")]),
        (["ring"], photo(), []),
        (["ring", "star"], drawn((RING, STAR), "overlapping"), []),
    ],
)
def test_what_cannot_be_told_is_not_mentioned(names: list[str], found: Blobs, seen: list[object]) -> None:
    told = look_at_image(names, "a photo of a dog", found).objects
    assert [(one.name, one.present, one.count, one.color) for one in told] == seen


# Prompts


@each_list
def test_every_prompt_of_a_list_is_read_as_the_list_has_it(geneval_list: Path) -> None:
    rows = [json.loads(line) for line in geneval_list.read_text().splitlines()]
    assert len(rows) == (24 if geneval_list == LISTS["own"] else 553)
    for row in rows:
        assert read_prompt(row["prompt"]) == tuple(map(requirement, row["include"])), row["prompt"]


@pytest.mark.parametrize(
    "text",
    [
        "a photo of a ball",
        "a photo of an arrow",
        "a photo of three stars",
        "a photo of two boxes",
        "a photo of four crosses",
        "a photo of an orange ball",
        "a photo of a red ball and a green box",
        "a photo of a star left of a ring",
        "a photo of a moon below an arrow",
    ],
)
def test_what_is_read_of_a_prompt_makes_the_same_prompt_again(text: str) -> None:
    assert prompt_text(read_prompt(text)) == text


PLACED = Requirement(name="star", relation="right of", target=0)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("A photo of  a Ball.", (Requirement(name="ball"),)),
        ("three oranges", (Requirement(name="orange", count=3),)),
        ("an orange", (Requirement(name="orange"),)),
        ("7 blue vases, a dog", (Requirement(name="vase", count=7, color="blue"), Requirement(name="dog"))),
        ("a star to the right of a ring", (Requirement(name="ring"), PLACED)),
        ("the star is right of the ring", (Requirement(name="ring"), PLACED)),
        ("left of a ring", (Requirement(name="left of a ring"),)),
        ("99999999999 cats", (Requirement(name="99999999999 cats"),)),
        ("", ()),
        ("a photo of ", (Requirement(name="photo of"),)),
    ],
)
def test_other_prompts_are_read_as_far_as_they_are_worded_alike(text: str, asked: tuple[Requirement, ...]) -> None:
    assert read_prompt(text) == asked
