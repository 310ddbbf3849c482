"""The chart as pixels: what is drawn of a run."""

import io

import pytest
from factories import outcome
from PIL import Image, ImageColor

from tasks.presentation.verdict_chart import PARTS, verdict_chart
from tasks.records import Outcome
from tasks.statistics.scores import score_rows

COLOURS = {part.name: part.colour for part in PARTS}


def drawn(*outcomes: Outcome, flow: str = "diagram") -> Image.Image:
    """The chart of these outcomes."""
    picture = verdict_chart(score_rows(outcomes), flow)
    image = Image.open(io.BytesIO(picture))
    assert image.format == "PNG"
    return image.convert("RGB")


def area(image: Image.Image, part: str) -> int:
    """Pixels of very nearly the colour of a part."""
    wanted = ImageColor.getrgb(COLOURS[part])
    counts = image.getcolors(image.width * image.height) or []
    return sum(n for n, found in counts if max(abs(a - b) for a, b in zip(found, wanted, strict=True)) <= 3)


def test_each_kind_of_verdict_fills_its_share_of_the_bars() -> None:
    image = drawn(*(outcome(f"m{number}", "MMMM", "Model") for number in range(30)), outcome("h", "HHHH", "Human"))
    # 30 to 1, less the numbers printed on the bars and the squares of the legend.
    assert area(image, "Model") > 15 * area(image, "Human") > 0


@pytest.mark.parametrize(
    ("row", "part"),
    [
        (outcome("s", "GGGG", "Tie"), "both good"),
        (outcome("s", "BBBB", "Tie"), "both bad"),
        (outcome("s", "XXXX", "Tie"), "mixed"),
        (outcome("s", "GGGG", "Tie"), "tie"),
        (outcome("s", "----", None, status="forfeit"), "forfeit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_neutral_verdicts_and_forfeits_are_told_apart(row: Outcome, part: str) -> None:
    without = area(drawn(outcome("m")), part)  # Smoothed edges of letters and bars have some of the greys.
    assert area(drawn(outcome("m"), row), part) > without + 5000


def test_the_picture_grows_with_the_candidates_up_to_a_bound() -> None:
    def height(candidates: int) -> int:
        return drawn(*(outcome("s", candidate=f"c{number}") for number in range(candidates))).height

    assert height(1) < height(2) < height(6) == height(9)


def test_the_ground_is_white_and_the_picture_small() -> None:
    picture = verdict_chart(score_rows([outcome("s", "MHGB")]), "plot")
    assert Image.open(io.BytesIO(picture)).convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert len(picture) < 60_000


def test_a_name_is_drawn_whatever_is_in_it() -> None:
    names = ["a'b\"\\n<svg>{{x}} datum.y | 图", "", "long" * 10_000, "long" * 10_001]
    one, all_of_them = drawn(outcome("s")), drawn(*(outcome("s", candidate=name) for name in names))
    assert all_of_them.width == one.width
    assert all_of_them.height > 3 * (one.height - 200)
