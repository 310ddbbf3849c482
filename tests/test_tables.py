"""The printed score table, on a narrow terminal and in a file, and the lines below it."""

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from factories import judgment, outcome, score_rows, summary
from rich.console import Console

from tasks.pages.run_summary import defect_lines, failure_lines
from tasks.presentation.tables import Grid, console, grid_table
from tasks.protocols import display_of
from tasks.protocols.figures.display import score_notes
from tasks.records import Judgment, Outcome
from tasks.statistics.scores import ScoreRow

GRID = display_of("diagram").grid
EVERY_KIND = [
    outcome("s1", "MHGB", "Model"),
    outcome("s2", "XMHG", "Human"),
    outcome("s3", "GGXB", "Tie"),
    outcome("s4", "-GGG", None, status="incomplete"),
    outcome("s5", "----", None, status="forfeit"),
]


def render(rows: Sequence[ScoreRow], width: int, flow: str = "diagram", endpoint: str = "") -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(grid_table(GRID(rows), score_notes(flow, rows, endpoint)))
    return stream.getvalue()


def row_cells(text: str, name: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [name])


@pytest.mark.parametrize("width", [80, 100])
def test_table_with_all_columns_is_not_truncated(width: int) -> None:
    rows = score_rows(EVERY_KIND * 48)
    text = render(rows, width)
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    for row in rows:
        found = row_cells(text, row.dimension)
        assert found[1] == f"{row.score:.1f}" and found[-1] == f"{row.scored}/240"


def test_table_without_rows_is_allowed() -> None:
    """A run without budget for its first sample has no rows."""
    assert grid_table(Grid(["", "score"], [], "score"), [], 80).row_count == 0


def test_table_shows_the_counts_of_the_rows(tmp_path: Path) -> None:
    text = render(score_rows(EVERY_KIND), 100)
    #                                  score      interval            M    H    good bad mixed  forfeit scored
    assert row_cells(text, "faithfulness") == ["faithfulness", "50.0", "none", "below", "8", *"10101", "1", "4/5"]
    assert row_cells(text, "aesthetics") == ["aesthetics", "40.0", "none", "below", "8", *"00220", "1", "5/5"]
    assert row_cells(text, "overall") == ["overall", "37.5", "none", "below", "8", *"111", "1", "4/5"]


def test_names_cannot_style_or_control_the_terminal() -> None:
    text = render(score_rows([outcome("s1", candidate="[bold]a[/bold]\x1b]0;title\x07\x1b[2J")]), 100)
    assert "[bold]a[/bold] ]0;title [2J" in text and "\x1b" not in text


def test_long_name_is_wrapped_whole() -> None:
    name = "target_diagram_critic_desc2_" * 4
    text = render(score_rows([outcome("s1", candidate=name)]), 80)
    assert name in "".join(line.strip() for line in text.splitlines())


def test_piped_table_has_no_color_codes_and_full_width(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(grid_table(GRID(score_rows(EVERY_KIND)), []))
    text = capsys.readouterr().out
    assert "\x1b" not in text and row_cells(text, "overall")


def defect_and_failure_lines(store: Path, rows: Sequence[Judgment | Outcome]) -> tuple[list[str], list[str]]:
    """Return the lines on defects and on failures of a run with these rows."""
    found = summary(store, *rows, candidates=tuple({row.candidate for row in rows}))
    return defect_lines(found), failure_lines(found)


def test_caught_defects_are_listed_by_kind_and_clean_pairs_separately(tmp_path: Path) -> None:
    rows = [
        *(outcome(f"b{number}", injected="black", caught=number > 0) for number in range(3)),
        outcome("n", injected="neon", caught=True),
        outcome("u", "-GGG", None, status="incomplete", injected="neon"),
        outcome("f", "----", None, status="forfeit", injected="null", caught=None),  # not the judge's fault
        *(outcome(f"c{number}", injected="copy", caught=number > 0) for number in range(6)),
    ]
    defects, _ = defect_and_failure_lines(tmp_path, rows)
    caught = ["caught 3 of 5 injected defects, 1 not judged", "  black 2/3", "  neon 1/2"]
    assert defects == [*caught, "false preferences on clean pairs: 1 of 6"]


def test_failures_are_counted_and_the_first_ones_listed(tmp_path: Path) -> None:
    rows = [
        judgment("ok"),
        *(judgment(f"s{number}", "readability", None, status="invalid", error="no\nwinner") for number in range(7)),
        outcome("s0", "MM-M", None, status="incomplete", tier_path="readability missing"),
        outcome("f", "----", None, status="forfeit", problem="key `x` is null"),
        outcome("w", "----", None, status="forfeit", problem="no picture: a warning has told of it"),
    ]
    _, failures = defect_and_failure_lines(tmp_path, rows)
    assert failures == [
        "judgments: 7 invalid, 1 ok",
        *(f"  s{number}, readability: invalid: no winner" for number in range(5)),
        "  and 2 more",
        "outcomes: 2 forfeit, 1 incomplete",
        "  s0: incomplete: readability missing",
        "  f: forfeit: key `x` is null",
    ]


def test_failure_names_the_candidate_among_several(tmp_path: Path) -> None:
    rows = [
        outcome("s1", candidate="a"),
        outcome("s1", "----", None, candidate="b", status="bad_picture", problem="cut short"),
    ]
    _, failures = defect_and_failure_lines(tmp_path, rows)
    assert failures[-1] == "  s1 of b: bad picture: cut short"
    assert defect_and_failure_lines(tmp_path / "right", [judgment("s1"), outcome("s1")]) == ([], [])
