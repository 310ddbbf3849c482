"""Display of each kind of judging: tables, notes, charts as pixels and in words, and a sample's texts."""

import io
from typing import Any
from xml.etree import ElementTree

import pytest
from factories import DIMENSIONS, grade_rows, image, outcome, rasterized, score_rows, scored
from PIL import Image, ImageColor
from rich.console import Console

from tasks.presentation.charts import OPACITY_OF_PARTS, SCORE_COLOUR, Chart
from tasks.presentation.tables import grid_table
from tasks.protocols import display_of
from tasks.protocols.display import Terms, labels_of
from tasks.protocols.figures.display import score_notes
from tasks.records import OVERALL, Outcome

FIGURES, IMAGES = display_of("diagram"), display_of("counting")
TAG = ImageColor.getrgb(SCORE_COLOUR)
ASPECT = tuple(round(255 - OPACITY_OF_PARTS * (255 - part)) for part in TAG)
ASPECTS = scored(attribute_binding=3, contrast_effectiveness=8, material_consistency=None)


def images(candidate: str, score: float | None, tag: str = "color_attr", **changes: object) -> list[Outcome]:
    made = [image(f"{number:05}/0000", score, tag=tag, candidate=candidate, **changes) for number in range(10)]
    return made if score is None else [each.model_copy(update={"aspects": ASPECTS}) for each in made]


def area(picture: Image.Image, wanted: tuple[int, ...]) -> int:
    """Return the number of pixels within 3 of a colour."""
    counts = picture.getcolors(picture.width * picture.height) or []
    return sum(n for n, found in counts if max(abs(a - b) for a, b in zip(found, wanted, strict=True)) <= 3)


# Words


def test_headline_is_the_overall_score_or_the_score_of_each_tag() -> None:
    pairs = [outcome("s1", "HHHH", "Human"), outcome("s1", "MMMM", "Model", candidate="best")]
    assert [(name, row.score) for name, row in FIGURES.headline(score_rows(pairs))] == [("best", 100.0), ("alpha", 0.0)]
    rows = grade_rows([image("0/0", 9, aspects=scored(a=1)), image("1/0", 4, tag="colors")], 7)
    assert [(name, row.score) for name, row in IMAGES.headline(rows)] == [("alpha, counting", 9), ("alpha, colors", 4)]


def test_sample_without_a_score_is_labelled_by_its_status() -> None:
    row: dict[str, Any] = {"status": "bad_picture", "tier_path": "why"}
    row |= {"overall": None, "score": None}
    marks, tag = {OVERALL: "bad picture", "readability": "missing"}, {"counting": "7.00"}
    assert labels_of(row, {"readability": "missing"}, 0.0) == ("bad picture", marks, "why")
    assert labels_of(row, tag, 7.0) == ("bad picture", {"counting": "missing"}, "why")
    row["status"] = "complete"
    assert labels_of({**row, "score": 7.0}, tag, 7.0) == ("7.00", {"counting": "7 or more"}, "")
    assert labels_of({**row, "score": 6.9}, tag, 7.0) == ("6.90", {"counting": "below 7"}, "")


def test_notes_depend_on_flow_judge_and_threshold() -> None:
    rows, own = score_rows([outcome("s1", "HMMM")]), score_rows([outcome("s1", "MMMM")])
    [human, ceiling, bias, floor] = FIGURES.notes(rows, Terms("plot", "embedded", 0.0))
    assert "Human is 50" in human and "cannot exceed 50" in ceiling and "no model" in floor
    assert "do not cover the judge's own bias" in bias
    overall = [row for row in rows if row.dimension == OVERALL]
    others = [*score_notes("diagram", rows), *score_notes("plot", overall), *score_notes("plot", own)]
    assert "cannot exceed 50" not in " ".join(others)
    assert IMAGES.notes([], Terms("counting", "https://judge.example", 6.5))[1].endswith("an image of 6.5 or more.")


@pytest.mark.parametrize(
    ("orders", "by_votes"),
    [
        ({"human_first": "Model", "model_first": "Human"}, 0),
        ({"human_first": "Mixed"}, 1),
        ({"human_first": "Mixed", "model_first": "Mixed"}, 1),
        ({"human_first": "Model", "model_first": "Mixed"}, 1),
    ],
)
def test_verdicts_mixed_by_votes_are_counted_apart(orders: dict[str, str], by_votes: int) -> None:
    sample = outcome("s1", "XMMM")
    mixed = sample.dimensions[0].model_copy(update={"human_first": None, **orders})
    rows = score_rows([sample.model_copy(update={"dimensions": (mixed, *sample.dimensions[1:])})])
    assert (rows[0].mixed, rows[0].mixed_votes) == (1, by_votes)
    assert ("Mixed: 1 of them because votes" in " ".join(score_notes("diagram", rows))) is bool(by_votes)


# Tables


def test_candidates_are_sorted_by_score_with_unscored_last() -> None:
    rows = [
        outcome("s1", "----", None, status="no_reference", candidate="none"),
        outcome("s1", "HHHH", "Human", candidate="worse", category="bar", difficulty="easy"),
        outcome("s1", "MMMM", "Model", candidate="better"),
    ]
    names = [*DIMENSIONS, OVERALL]
    found = [line[0] for line in FIGURES.grid(score_rows(rows)).lines]
    assert found == ["better", *names, "worse", *names, "none", *names]


def test_groups_are_lines_below_their_candidate() -> None:
    rows = [
        *(outcome(f"s{n}", "HHHH", "Human", category="agent", candidate="worse") for n in range(2)),
        *(outcome(f"s{n}", category=f"c{n}", candidate="better") for n in range(2)),
    ]
    found = FIGURES.grid(score_rows(rows), "category")
    assert found.header == ["", "score", "95% interval", "Model", "Human", "scored"]
    assert [line[:2] + line[3:] for line in found.lines] == [
        ["better"],
        ["c0", "100.0", "1", "0", "1/1"],
        ["c1", "100.0", "1", "0", "1/1"],
        ["worse"],
        ["agent", "0.0", "0", "2", "2/2"],
    ]


def test_carried_pictures_add_a_column_and_a_note() -> None:
    rows = score_rows([outcome("s1", carried_from="critic0"), outcome("s2"), outcome("s1", candidate="other")])
    grid = FIGURES.grid(rows)
    assert grid.header == ["", "score", "95% interval", "Model", "Human", "car-\nried", "scored"]
    assert {tuple(line[-2:]) for line in grid.lines if len(line) > 1} == {("1", "2/2"), ("0", "1/1")}
    assert "last picture before the stage" in " ".join(score_notes("diagram", rows))
    assert "last picture" not in " ".join(score_notes("diagram", score_rows([outcome("s1")])))


def test_aspects_are_listed_below_their_tag() -> None:
    grid = IMAGES.grid(grade_rows([*images("low", 3), *images("high", 9), *images("none", None)], 7))
    assert [line[0] for line in grid.lines] == [
        *("high", "color_attr", "  attribute_binding", "  contrast_effectiveness", "  material_consistency"),
        *("low", "color_attr", "  attribute_binding", "  contrast_effectiveness", "  material_consistency"),
        *("none", "color_attr"),
    ]
    line, never, unscored = (dict(zip(grid.header, grid.lines[at], strict=True)) for at in (1, 4, -1))
    assert (line["score"], line["by\nimage"], line["good"], line["scored"]) == ("9.00", "9.00", "100%", "10/10")
    assert (never["score"], never["95% interval"], never["scored"]) == ("n/a", "", "")
    assert (unscored["score"], unscored["good"], unscored["scored"]) == ("–", "–", "0/10")
    assert "as\nasked" not in grid.header, "requirements were not checked"


def test_candidates_are_sorted_by_the_mean_of_their_tags() -> None:
    rows = grade_rows([*images("a", 9), *images("a", 1, "colors"), *images("b", 6), *images("b", 6, "colors")], 7)
    assert [each.score.candidate for each in IMAGES.headline(rows)] == ["b", "b", "a", "a"]
    mixed = sorted(rows, key=lambda row: row.dimension)  # as samples in random order give them
    assert [each.score.candidate for each in IMAGES.headline(mixed)] == ["b", "b", "a", "a"]
    apart = sorted(rows, key=lambda row: row.grouping)
    assert apart != rows and IMAGES.grid(apart) == IMAGES.grid(rows) and IMAGES.chart(apart) == IMAGES.chart(rows)


def test_longest_names_fit_a_terminal_of_80_columns() -> None:
    grid = IMAGES.grid(grade_rows(images("a" * 90, 9, satisfied=True), 7))
    assert dict(zip(grid.header, grid.lines[1], strict=True))["as\nasked"] == "100%"
    stream = io.StringIO()
    Console(file=stream, width=80).print(grid_table(grid, []))
    text = stream.getvalue()
    assert "contrast_effectiveness" in text and "10/10" in text and "…" not in text
    assert max(map(len, text.splitlines())) <= 80


# Charts


def texts(chart: Chart) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(chart.as_file()).findall(".//{*}text")]


def test_chart_has_its_numbers_as_text() -> None:
    rows = score_rows([outcome("s1", "MHGB", candidate="a\nb"), outcome("s2", "M---", None)])
    assert {"a b", "readability", "50.0 (no interval below 8)", "nothing scored"} <= {*texts(FIGURES.chart(rows))}
    shown = texts(IMAGES.chart(grade_rows(images("alpha", 9), 7)))
    assert "n/a" in shown and any(each.startswith("9.00 [") for each in shown)


def test_bar_length_is_the_score_and_parts_are_fainter() -> None:
    charts = (IMAGES.chart(grade_rows(images("alpha", score), 7)) for score in (9, 3))
    good, bad = (Image.open(io.BytesIO(rasterized(chart.as_file()))).convert("RGB") for chart in charts)
    assert 2.5 < area(good, TAG) / area(bad, TAG) < 3.5 and area(good, ASPECT) == area(bad, ASPECT) > 0
    chart = IMAGES.chart(grade_rows([*images("alpha", 9), *images("alpha", 3, "colors")], 7))
    labels = [each.aspect for each in ASPECTS]
    shown = [each for each in texts(chart) if each in ("color_attr", "colors", *labels)]
    assert shown == ["color_attr", *labels, "colors", *labels]
