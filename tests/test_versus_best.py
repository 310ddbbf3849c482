"""Several candidates of a run beside the best: what is paired, kept, and shown where there is room."""

import io
from pathlib import Path

import pytest
from factories import RUN, end, image, outcome, start, write_run
from rich.console import Console

from tasks.history.asking import as_json_rows, query
from tasks.history.loading import sync
from tasks.pages.artifact import markdown
from tasks.pages.run_summary import Summary, summarize
from tasks.presentation.tables import grid_table
from tasks.records import Outcome
from tasks.statistics.paired import difference

pytestmark = pytest.mark.usefixtures("laid_out", "drawn_here")

WON, LOST, TIED = ("MMMM", "Model"), ("HHHH", "Human"), ("GGGG", "Tie")


def figures(candidate: str, *results: tuple[str, str], first: int = 0) -> list[Outcome]:
    return [outcome(f"s{number:02}", *each, candidate=candidate) for number, each in enumerate(results, first)]


def judged(store: Path, rows: list[Outcome], **changes: object) -> Summary:
    names = tuple(dict.fromkeys(row.candidate for row in rows))
    write_run(store, start(candidates=names, **changes), [*rows], end())
    sync(store)
    return summarize(store, RUN)


@pytest.fixture
def three(tmp_path: Path) -> Summary:
    """`best` and `worse` on the same twenty samples, `other` on ten of them and ten of its own."""
    best = figures("best", *[WON] * 15, *[TIED] * 5)
    worse = figures("worse", *[LOST] * 10, *[WON] * 5, *[TIED] * 5)
    other = figures("other", *[TIED] * 20, first=10)
    return judged(tmp_path, [*worse, *best, *other])


def overall(summary: Summary, candidate: str) -> tuple[float | None, float | None, float | None, int | None]:
    [row] = (
        row for row in summary.scores if (row.candidate, row.dimension, row.grouping) == (candidate, "overall", "all")
    )
    return row.vs_best, row.vs_best_low, row.vs_best_high, row.vs_best_n


def test_each_candidate_is_paired_with_the_best_on_the_samples_that_both_scored(three: Summary) -> None:
    found = difference([100.0] * 10 + [100.0] * 5 + [50.0] * 5, [0.0] * 10 + [100.0] * 5 + [50.0] * 5)
    assert overall(three, "worse") == (-50.0, found.ci_low, found.ci_high, 20)
    assert overall(three, "other")[::3] == (-25.0, 10)
    assert overall(three, "best") == (None, None, None, None)


def test_the_history_keeps_the_differences(three: Summary) -> None:
    told = "SELECT candidate, vs_best, vs_best_n FROM leaderboard WHERE dimension = 'overall' ORDER BY candidate"
    assert query(three.store, told).rows == [("best", None, None), ("other", -25.0, 10), ("worse", -50.0, 20)]


def test_the_column_stands_where_there_is_room_and_the_intervals_beneath(three: Summary) -> None:
    grid = three.display.grid(three.scores)
    notes = three.display.notes(three.scores, three.terms)

    def printed(width: int) -> str:
        stream = io.StringIO()
        Console(file=stream, width=width).print(grid_table(grid, notes, width))
        return stream.getvalue()

    assert "best" in printed(100).splitlines()[1] and "vs" in printed(100).splitlines()[0]
    for text in (printed(100), printed(80)):
        assert "…" not in text and "worse vs best, overall: −50.0 [" in text and "paired at n = 20" in text
    assert "vs best" in markdown(three)


def test_one_candidate_has_nothing_beside_it(tmp_path: Path) -> None:
    alone = judged(tmp_path, figures("alpha", *[WON] * 9))
    assert overall(alone, "alpha") == (None, None, None, None)
    assert "vs\nbest" not in alone.display.grid(alone.scores).header


def images(candidate: str, score: float, a_prompt: int) -> list[Outcome]:
    return [image(f"{prompt}/{n}", score + n, candidate=candidate) for prompt in range(9) for n in range(a_prompt)]


def test_good_images_stand_beside_good_and_other_numbers_of_images_are_warned_of(tmp_path: Path) -> None:
    """Of four images of a prompt one is good: every prompt has a good one, and a quarter of the images are."""
    counting = {"flow": "counting", "dimensions": ("counting",), "parameters": {"threshold": 7.0}}
    found = judged(tmp_path, [*images("many", 4.0, 4), *images("single", 6.0, 1)], **counting)
    grid = found.display.grid(found.scores)
    [many] = (line for line in grid.lines if (line[1:2] == ["6.00"] and line[4] == "5.50") or line[1:2] == ["5.50"])
    shown = dict(zip(grid.header, many, strict=True))
    assert (shown["good"], shown["good\nim-\nages"]) == ("100%", "25%")
    [warned] = (note for note in found.display.notes(found.scores, found.terms) if "images a prompt differ" in note)
    assert "many 4" in warned and "single 1" in warned
    view = query(tmp_path, "FROM t2i_leaderboard WHERE tag = 'counting' ORDER BY candidate")
    rows = as_json_rows(view)
    assert [(row["good"], row["good_images"], row["images_a_prompt"]) for row in rows] == [(1, 0.25, 4), (0, 0, 1)]
    assert all(row["images_differ"] for row in rows)
    assert [row["vs_best"] for row in rows] == [-0.5, None]
