"""The chart of text-to-image scores, as pixels and in words."""

import io

import pytest
from factories import grade_rows, image, scored
from PIL import Image, ImageColor

from tasks.kinds.image_chart import COLOUR, OPACITY_OF_ASPECTS, image_chart
from tasks.presentation.drawing import png
from tasks.records import Outcome

ASPECTS = scored(attribute_binding=3, contrast_effectiveness=8, material_consistency=None)
TAG = ImageColor.getrgb(COLOUR)
ASPECT = tuple(round(255 - OPACITY_OF_ASPECTS * (255 - part)) for part in TAG)

pytestmark = pytest.mark.usefixtures("drawn_here")


def images(score: float, tag: str = "color_attr") -> list[Outcome]:
    made = [image(f"{number:05}/0000", score, tag=tag) for number in range(10)]
    return [each.model_copy(update={"aspects": ASPECTS}) for each in made]


def test_bars_are_as_long_as_their_scores() -> None:
    def blue(score: float, wanted: tuple[int, ...]) -> int:
        drawn = Image.open(io.BytesIO(png(image_chart(grade_rows(images(score), 7))))).convert("RGB")
        counts = drawn.getcolors(drawn.width * drawn.height) or []
        return sum(n for n, found in counts if max(abs(a - b) for a, b in zip(found, wanted, strict=True)) <= 3)

    assert 2.5 < blue(9, TAG) / blue(3, TAG) < 3.5
    assert blue(9, ASPECT) == blue(3, ASPECT) > 0


def test_an_aspect_that_two_tags_share_has_a_bar_under_each() -> None:
    chart = image_chart(grade_rows([*images(9), *images(3, "colors")], 7))
    assert [record["line"] for record in chart["data"]["values"]] == list(range(8))


def test_who_cannot_see_the_chart_is_told_its_numbers() -> None:
    words = image_chart(grade_rows(images(9), 7))["description"]
    assert "alpha, color_attr: 9.00 [" in words and "alpha, color_attr, material_consistency: n/a." in words
