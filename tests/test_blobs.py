"""Blobs are where they are drawn, have the colors they are drawn in, and only drawn shapes have names."""

import io
from itertools import product
from random import Random

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tasks.embedded_judge.blobs import survey
from tasks.embedded_judge.image_view import MOST_BLOBS, Survey
from tasks.embedded_judge.naming import difference, name_numbers
from tasks.records import Requirement
from tasks.synthetic.prompt_words import COLORS
from tasks.synthetic.scene_drawing import PAINTS
from tasks.synthetic.scenes import random_scene
from tasks.synthetic.shapes import SHAPES


def sheet(size: tuple[int, int] = (400, 400), color: str = "#e8ecf0") -> tuple[Image.Image, ImageDraw.ImageDraw]:
    picture = Image.new("RGB", size, color)
    return picture, ImageDraw.Draw(picture)


def reread(picture: Image.Image, name: str) -> Image.Image:
    buffer = io.BytesIO()
    picture.save(buffer, name, quality=75)
    return Image.open(buffer).convert("RGB")


def noise(seed: int, blur: int) -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 256, (512 // blur, 512 // blur, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((512, 512), Image.Resampling.BICUBIC)


def test_a_blob_is_as_large_as_it_is_drawn_and_where_it_is_drawn() -> None:
    picture, draw = sheet((800, 400))
    draw.rectangle((100, 50, 299, 349), fill="#2f6fc4")
    (blob,) = survey(picture).blobs
    assert (blob.left, blob.top, blob.right, blob.bottom) == pytest.approx((0.125, 0.0625, 0.375, 0.4375), abs=0.005)
    assert blob.center == pytest.approx((0.25, 0.25), abs=0.005)
    assert blob.area == pytest.approx(200 * 300 / (800 * 400), abs=0.005)
    assert (blob.color, blob.filled) == ("blue", pytest.approx(1))


def test_blobs_come_the_largest_first_and_specks_not_at_all() -> None:
    picture, draw = sheet()
    for left, side in ((20, 40), (100, 120), (300, 80), (380, 3)):
        draw.rectangle((left, 100, left + side, 100 + side), fill="black")
    assert [round(blob.length * 400, -1) for blob in survey(picture).blobs] == [120, 80, 40]


@pytest.mark.parametrize(("color", "count"), list(product(COLORS, (1, 2, 3, 4))))
def test_drawn_shapes_are_counted_and_told_by_outline_and_color(color: str, count: int) -> None:
    for number, shape in enumerate(SHAPES):
        random = Random(f"{color} {count} {number}")
        found = survey(random_scene((Requirement(name=shape, count=count, color=color),), random).draw())
        assert [(blob.shape, blob.color) for blob in found.blobs] == [(shape, color)] * count
        assert found.simple
        assert not found.touching()


@pytest.mark.parametrize("name", ["JPEG", "WEBP"])
def test_lossy_files_have_the_same_blobs(name: str) -> None:
    for number, shape in enumerate(SHAPES):
        picture = random_scene((Requirement(name=shape, count=3),), Random(number)).draw()
        (plain, lossy) = ([(b.shape, b.color) for b in survey(one).blobs] for one in (picture, reread(picture, name)))
        assert lossy == plain


@pytest.mark.parametrize(
    "corners", [(60, 60, 340, 150), (60, 60, 120, 340)], ids=["a flat ellipse", "an upright ellipse"]
)
def test_a_stretched_outline_has_no_name(corners: tuple[int, int, int, int]) -> None:
    picture, draw = sheet()
    draw.ellipse(corners, fill="green")
    assert survey(picture).blobs[0].shape == ""


def test_what_is_no_drawn_shape_has_no_name() -> None:
    picture, draw = sheet()
    draw.polygon([(60, 60), (340, 60), (340, 120), (120, 120), (120, 340), (60, 340)], fill="purple")
    assert [(blob.shape, blob.color) for blob in survey(picture).blobs] == [("", "purple")]


@pytest.mark.parametrize(("fill", "outline"), [(("red", "blue"), None), (("#f08fb8", "#f08fb8"), "#904f70")])
def test_areas_that_touch_are_blobs_of_one_group_without_names(fill: tuple[str, str], outline: str | None) -> None:
    picture, draw = sheet()
    draw.ellipse((60, 100, 220, 260), fill=fill[0], outline=outline, width=4)
    draw.rectangle((160, 150, 340, 330), fill=fill[1], outline=outline, width=4)
    draw.ellipse((20, 340, 70, 390), fill="black")
    found = survey(picture)
    (one, other) = found.touching()[0]
    assert len(found.touching()) == 1
    assert {one.color, other.color} == ({"red", "blue"} if outline is None else {"pink"})
    assert [blob.shape for blob in found.blobs] == ["", "", "ball"]


def test_the_ground_inside_a_ring_is_no_blob() -> None:
    picture = random_scene((Requirement(name="ring", color="red"),), Random(2)).draw()
    (ring,) = survey(picture).blobs
    assert (ring.color, ring.shape) == ("red", "ring")
    assert ring.filled < 0.65


@pytest.mark.parametrize("color", ["white", "black", "#808080", "#e8ecf0"])
def test_an_empty_sheet_has_no_blobs(color: str) -> None:
    assert survey(sheet(color=color)[0]).blobs == ()


@pytest.mark.parametrize("width", [3, 6])
def test_white_on_white_is_found_by_its_outline_and_has_no_contrast(width: int) -> None:
    picture, draw = sheet(color="white")
    draw.ellipse((100, 100, 300, 300), fill="white", outline="#808080", width=width)
    (blob,) = survey(picture).blobs
    assert (blob.color, blob.shape) == ("white", "ball")
    assert blob.contrast < 1


def test_contrast_falls_as_a_shape_fades_into_the_ground() -> None:
    found: list[float] = []
    for color in ("#c02020", "#d08888", "#e0c8c8"):
        picture, draw = sheet()
        draw.ellipse((100, 100, 300, 300), fill=color)
        found.append(survey(picture).blobs[0].contrast)
    assert found[0] > 60 > found[1] > 15 > found[2]


@pytest.mark.parametrize("blur", [1, 4, 32])
def test_a_picture_without_an_even_ground_is_no_simple_scene(blur: int) -> None:
    found = survey(noise(3, blur))
    assert not found.simple
    assert 0 < len(found.blobs) <= MOST_BLOBS


def test_a_picture_with_many_areas_is_no_simple_scene_and_they_are_counted() -> None:
    picture, draw = sheet()
    for column, row in product(range(5), repeat=2):
        draw.rectangle((column * 75 + 30, row * 75 + 30, column * 75 + 70, row * 75 + 70), fill="brown")
    found = survey(picture)
    assert (found.found, len(found.blobs), found.simple) == (25, MOST_BLOBS, False)


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (3000, 1), (1, 700)])
def test_the_smallest_pictures_are_surveyed_too(size: tuple[int, int]) -> None:
    assert survey(Image.new("RGB", size, "red")) == Survey((), 0, 0.0)


@pytest.mark.parametrize(
    ("color", "name"),
    [
        *((paint, name) for name, paint in PAINTS.items()),
        ("#8b0000", "red"),
        ("#ffc000", "yellow"),
        ("#006400", "green"),
        ("#000080", "blue"),
        ("#87ceeb", "blue"),
        ("#8a2be2", "purple"),
        ("#ffc0cb", "pink"),
        ("#654321", "brown"),
        ("#101010", "black"),
        ("#fafafa", "white"),
        ("#909090", "gray"),
    ],
)
def test_a_color_has_the_name_that_people_use(color: str, name: str) -> None:
    picture, draw = sheet(color="#ff00ff" if name != "pink" else "black")
    draw.ellipse((100, 100, 300, 300), fill=color)
    assert survey(picture).blobs[0].color == name


def test_black_and_white_differ_by_a_hundred_and_a_color_from_itself_by_nothing() -> None:
    black, white = np.array([0, 0, 0]), np.array([255, 255, 255])
    assert difference(black, white) == pytest.approx(100, abs=0.1)
    assert difference(white, white) == 0


def test_every_color_has_a_name() -> None:
    levels = np.arange(0, 256, 5, dtype=np.uint8)
    assert name_numbers(np.stack(np.meshgrid(levels, levels, levels), axis=-1)).min() > 0
