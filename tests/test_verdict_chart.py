"""The chart of a pairwise run, as pixels and in words: what is drawn of a run."""

import io

import pytest
from factories import outcome, score_rows
from PIL import Image, ImageColor
from written_history import figures

from tasks.kinds.figure_tables import score_notes
from tasks.kinds.verdict_chart import MOST_GROUPS, PARTS, Part, verdict_chart
from tasks.presentation.drawing import png
from tasks.records import Outcome

COLOURS = {part.name: part.colour for part in PARTS}

pytestmark = pytest.mark.usefixtures("drawn_here")


def drawn(*outcomes: Outcome, flow: str = "diagram") -> Image.Image:
    """The chart of these outcomes."""
    rows = score_rows(outcomes)
    picture = png(verdict_chart(rows, score_notes(flow, rows)))
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


def luminance(colour: str) -> float:
    """Relative luminance of a colour, as WCAG defines it."""
    shares = [value / 255 for value in ImageColor.getrgb(colour)]
    linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("part", [part for part in PARTS if part.number_colour == "white"], ids=lambda part: part.name)
def test_what_is_dark_stands_out_on_a_white_page_and_on_a_dark_one(part: Part) -> None:
    for ground in ("#ffffff", "#16181c"):
        light, dark = sorted((luminance(part.colour), luminance(ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 3


def test_the_picture_grows_with_the_candidates_up_to_a_bound() -> None:
    def height(candidates: int) -> int:
        return drawn(*(outcome("s", candidate=f"c{number}") for number in range(candidates))).height

    assert height(1) < height(2) < height(6) == height(9)


def test_the_ground_is_white_and_the_picture_small() -> None:
    picture = png(verdict_chart(score_rows([outcome("s", "MHGB")])))
    assert Image.open(io.BytesIO(picture)).convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert len(picture) < 60_000


def test_a_name_is_drawn_whatever_is_in_it() -> None:
    names = ["a'b\"\\n<svg>{{x}} datum.y | 图", "", "long" * 10_000, "long" * 10_001]
    one, all_of_them = drawn(outcome("s")), drawn(*(outcome("s", candidate=name) for name in names))
    assert all_of_them.width == one.width
    assert all_of_them.height > 3 * (one.height - 200)


def test_who_cannot_see_the_chart_is_told_its_numbers() -> None:
    rows = score_rows([outcome("s1", "MHGB", candidate="a\nb"), outcome("s2", "M---", None)])
    words = verdict_chart(rows)["description"]
    assert "a b, readability: both good 1; 50.0 (no interval below 8)." in words
    assert "alpha, faithfulness: Model 1; 100.0 (no interval below 8)." in words
    assert "alpha, overall: not scored 1; nothing scored." in words


def test_the_outcomes_of_each_group_have_a_bar_and_of_too_many_groups_the_first() -> None:
    rows = score_rows(outcome(f"s{number}", category=f"c{number}", difficulty="hard") for number in range(40))
    chart = verdict_chart(rows, grouping="category")
    assert "alpha, c0: Model 1" in chart["description"] and "faithfulness" not in chart["description"]
    assert {record["line"] for record in chart["data"]["values"]} == set(range(MOST_GROUPS))


@pytest.mark.parametrize(
    ("score", "interval"), [("M" * 4, {"score", "ci_low", "ci_high"}), ("-" * 4, set[str]())], ids=["scored", "not"]
)
def test_the_score_stands_on_a_scale_beside_the_bar_where_there_is_one(score: str, interval: set[str]) -> None:
    rows = score_rows(outcome(f"s{number}", score, "Model" if interval else None) for number in range(8))
    beside = [record for record in verdict_chart(rows)["data"]["values"] if "score_words" in record]
    assert len(beside) == 5
    assert all({"score", "ci_low", "ci_high"} & record.keys() == interval for record in beside)


def test_a_bar_has_a_segment_for_each_kind_of_verdict_and_fills_its_width() -> None:
    chart = verdict_chart(score_rows(row for row in figures(later=True) if isinstance(row, Outcome)))
    segments = [record for record in chart["data"]["values"] if record["line"] == 0 and "part" in record]
    assert [(each["part"], int(each["number"])) for each in segments] == [
        ("Model", 2),
        ("both good", 8),
        ("Human", 1),
        ("not scored", 1),
    ]
    assert sum(each["end"] - each["start"] for each in segments) == pytest.approx(1)
