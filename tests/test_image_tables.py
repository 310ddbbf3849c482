"""The table of text-to-image scores: what is in it, and whether it fits."""

import io

from factories import grade_rows, image, scored
from rich.console import Console

from tasks.kinds.image_tables import gradeboard, ranked
from tasks.presentation.tables import grid_table
from tasks.records import Outcome

ASPECTS = scored(attribute_binding=3, contrast_effectiveness=8, material_consistency=None)


def images(candidate: str, score: float | None, tag: str = "color_attr", **changes: object) -> list[Outcome]:
    made = [image(f"{number:05}/0000", score, tag=tag, candidate=candidate, **changes) for number in range(10)]
    return made if score is None else [each.model_copy(update={"aspects": ASPECTS}) for each in made]


def test_each_tag_has_its_aspects_beneath_it_and_the_best_candidate_comes_first() -> None:
    grid = gradeboard(grade_rows([*images("low", 3), *images("high", 9), *images("none", None)], 7))
    assert [line[0] for line in grid.lines] == [
        *("high", "color_attr", "  attribute_binding", "  contrast_effectiveness", "  material_consistency"),
        *("low", "color_attr", "  attribute_binding", "  contrast_effectiveness", "  material_consistency"),
        *("none", "color_attr"),
    ]
    line = dict(zip(grid.header, grid.lines[1], strict=True))
    assert (line["score"], line["by\nimage"], line["good"], line["scored"]) == ("9.00", "9.00", "100%", "10/10")
    never = dict(zip(grid.header, grid.lines[4], strict=True))
    assert (never["score"], never["95% interval"], never["scored"]) == ("n/a", "", "")
    unscored = dict(zip(grid.header, grid.lines[-1], strict=True))
    assert (unscored["score"], unscored["good"], unscored["scored"]) == ("–", "–", "0/10")


def test_candidates_stand_by_the_mean_of_their_tags() -> None:
    rows = grade_rows([*images("a", 9), *images("a", 1, "colors"), *images("b", 6), *images("b", 6, "colors")], 7)
    assert [candidate for candidate, _ in ranked(rows)] == ["b", "a"]


def test_the_column_of_the_check_is_there_only_when_it_was_asked() -> None:
    assert "as\nasked" not in gradeboard(grade_rows(images("a", 9), 7)).header
    grid = gradeboard(grade_rows(images("a", 9, satisfied=True), 7))
    assert dict(zip(grid.header, grid.lines[1], strict=True))["as\nasked"] == "100%"


def test_the_longest_names_fit_a_terminal_of_80_columns() -> None:
    grid = gradeboard(grade_rows(images("a" * 90, 9, satisfied=True), 7))
    stream = io.StringIO()
    Console(file=stream, width=80).print(grid_table(grid, []))
    text = stream.getvalue()
    assert "contrast_effectiveness" in text and "10/10" in text and "…" not in text
    assert max(map(len, text.splitlines())) <= 80
