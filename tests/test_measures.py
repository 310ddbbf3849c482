"""Each measure answers to what it is named after, and to nothing else."""

import io
import math
from dataclasses import fields
from random import Random

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageOps

from tasks.embedded_judge.measures import Measures, agreement, decode_rgb, measure
from tasks.pictures.bad_picture import BadPicture
from tasks.synthetic.diagrams import random_diagram
from tasks.synthetic.plots import random_plot

FIGURE = random_diagram(Random(1)).draw()


def encoded(picture: Image.Image, name: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, name, **options)
    return buffer.getvalue()


def numbers(measures: Measures) -> list[float]:
    return [getattr(measures, field.name) for field in fields(measures) if field.name != "layout"]


def mosaic(picture: Image.Image, square: int) -> Image.Image:
    small = picture.resize((picture.width // square, picture.height // square), Image.Resampling.BOX)
    return small.resize(picture.size, Image.Resampling.NEAREST)


def cells(side: int) -> Image.Image:
    """A heat map without labels."""
    values = np.random.default_rng(3).integers(60, 220, (400 // side, 600 // side), dtype=np.uint8)
    return Image.fromarray(values).resize((600, 400), Image.Resampling.NEAREST).convert("RGB")


def test_black_paper_has_no_luminance_whatever_is_drawn_on_it() -> None:
    assert measure(FIGURE).paper > 0.98
    assert measure(ImageOps.invert(FIGURE)).paper < 0.01


def test_light_letters_on_black_are_counted_like_black_ones_on_white() -> None:
    plain, inverted = measure(FIGURE), measure(ImageOps.invert(FIGURE))
    assert inverted.strokes == pytest.approx(plain.strokes, rel=0.02)
    assert inverted.word_height == pytest.approx(plain.word_height, rel=0.05)


@pytest.mark.parametrize("share", [0.4, 0.6, 0.8])
def test_content_is_the_share_that_the_drawing_takes(share: float) -> None:
    sheet = Image.new("RGB", (800, 500), "white")
    ImageDraw.Draw(sheet).rectangle((0, 0, 800 * share, 500), outline="black", width=3)
    assert measure(sheet).content == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize(("ink", "ratio"), [("#000000", 21.0), ("#767676", 4.54), ("#949494", 3.03), ("#ffffff", 1.0)])
def test_contrast_is_the_ratio_of_wcag(ink: str, ratio: float) -> None:
    sheet = Image.new("RGB", (400, 200), "white")
    ImageDraw.Draw(sheet).rectangle((40, 40, 360, 160), outline=ink, width=12)
    assert measure(sheet).contrast == pytest.approx(ratio, abs=0.02)


@pytest.mark.parametrize("size", [8, 12, 16, 24])
def test_words_are_as_tall_as_they_are_set(size: int) -> None:
    sheet = Image.new("RGB", (1000, 400), "white")
    for line in range(5):
        ImageDraw.Draw(sheet).text((20, 20 + line * 60), "nested measure recovers", fill="black", font_size=size)
    # Letters without strokes up or down are about half as tall as the type is large; `d` adds a quarter.
    assert 0.5 * size <= measure(sheet).word_height * 1000 <= 0.85 * size


def test_a_picture_without_words_has_no_word_height() -> None:
    assert math.isnan(measure(Image.new("RGB", (300, 200), "white")).word_height)


def test_twice_the_words_are_about_twice_the_strokes() -> None:
    sheets = [Image.new("RGB", (1000, 600), "white") for _ in range(2)]
    for sheet, lines in zip(sheets, (8, 16), strict=True):
        for line in range(lines):
            words = "several words of a sentence in a row that is long"
            ImageDraw.Draw(sheet).text((20, 20 + line * 34), words, fill="black", font_size=18)
    few, many = (measure(sheet).strokes for sheet in sheets)
    assert many == pytest.approx(2 * few, rel=0.05)


@pytest.mark.parametrize("square", [4, 6, 9, 11])
def test_a_mosaic_is_found_at_any_size_of_its_squares(square: int) -> None:
    assert measure(decode_rgb(encoded(mosaic(FIGURE, square), "JPEG", quality=90))).mosaic > 0.75


@pytest.mark.parametrize("picture", [FIGURE, random_plot(Random(2)).draw(), cells(25), cells(50)])
def test_figures_and_heat_maps_are_no_mosaics(picture: Image.Image) -> None:
    assert measure(picture).mosaic < 0.5


def test_neon_is_a_share_of_the_color_not_of_the_picture() -> None:
    sheet = Image.new("RGB", (600, 400), "white")
    draw = ImageDraw.Draw(sheet)
    draw.rectangle((50, 50, 100, 100), fill="#ff00ff")
    assert measure(sheet).neon == pytest.approx(1.0)
    draw.rectangle((200, 50, 400, 350), fill="#3b76af")
    assert measure(sheet).neon < 0.15


def test_a_gray_picture_has_no_neon() -> None:
    assert measure(FIGURE.convert("L").convert("RGB")).neon == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda picture: ImageOps.invert(picture),
        lambda picture: ImageOps.expand(picture, (0, 0, 400, 300), "white"),
        lambda picture: mosaic(picture, 6),
        lambda picture: picture.convert("L").convert("RGB"),
        lambda picture: picture.resize((picture.width * 2, picture.height * 2)),
    ],
    ids=["inverted", "with margins", "mosaic", "gray", "larger"],
)
def test_what_leaves_things_where_they_are_keeps_the_agreement(change: object) -> None:
    assert agreement(measure(FIGURE), measure(change(FIGURE))) > 0.75  # pyright: ignore


def test_a_mirrored_plot_does_not_agree_with_itself() -> None:
    plot = random_plot(Random(4)).draw()
    assert agreement(measure(plot), measure(ImageOps.mirror(plot))) < 0.75


def test_agreement_does_not_depend_on_which_picture_comes_first() -> None:
    one, other = measure(FIGURE), measure(random_diagram(Random(9)).draw())
    assert agreement(one, other) == pytest.approx(agreement(other, one))


@pytest.mark.parametrize("name", ["PNG", "WEBP", "GIF", "JPEG"])
def test_the_file_format_hardly_changes_a_number(name: str) -> None:
    found = numbers(measure(decode_rgb(encoded(FIGURE, name, quality=95))))
    for got, plain in zip(found, numbers(measure(FIGURE)), strict=True):
        assert got == pytest.approx(plain, rel=0.1, abs=0.02)


def test_transparency_is_white_paper() -> None:
    ink = ImageOps.invert(FIGURE.convert("L"))
    clear = Image.new("RGBA", FIGURE.size, (0, 0, 0, 0))
    clear.putalpha(ink)
    assert measure(decode_rgb(encoded(clear, "PNG"))).paper > 0.98


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (1, 400), (3000, 2)])
@pytest.mark.parametrize("color", ["white", "black", "red"])
def test_the_smallest_pictures_have_measures_too(size: tuple[int, int], color: str) -> None:
    found = measure(Image.new("RGB", size, color))
    assert found.contrast == pytest.approx(1)
    assert found.strokes == 0
    assert agreement(found, measure(FIGURE)) <= 1


@pytest.mark.parametrize("data", [b"", b"GIF89a", encoded(FIGURE, "JPEG")[:5000], encoded(FIGURE, "TIFF")[:5000]])
def test_what_is_no_whole_picture_is_refused(data: bytes) -> None:
    with pytest.raises(BadPicture):
        decode_rgb(data)
