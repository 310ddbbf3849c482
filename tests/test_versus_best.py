"""Differences of candidates from the best, within a run and across runs: pairing, views and tables."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from factories import LOST, RUN, TAGS, TIED, WON, figures, finished, image, summary
from rich.console import Console

from tasks.comparing.comparison import compare, series_of
from tasks.comparing.verdict import outcome_words, verdict
from tasks.history.landing import land, rebuild
from tasks.history.queries import as_json_rows, query
from tasks.pages.artifact import markdown
from tasks.pages.report_data import gather
from tasks.pages.report_page import page
from tasks.pages.run_summary import Summary
from tasks.presentation.tables import grid_table
from tasks.records import Outcome
from tasks.statistics.intervals import difference
from tasks.statistics.series import Compared, Part, paired


def write_and_summarize(store: Path, rows: list[Outcome], **changes: object) -> Summary:
    found = summary(store, *rows, candidates=tuple(dict.fromkeys(row.candidate for row in rows)), **changes)
    land(store)
    return found


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    best = figures(*[WON] * 15, *[TIED] * 5, candidate="best")
    worse = figures(*[LOST] * 10, *[WON] * 5, *[TIED] * 5, candidate="worse")
    other = figures(*[TIED] * 20, first=10, candidate="other")
    return write_and_summarize(tmp_path_factory.mktemp("three"), [*worse, *best, *other])


def overall(summary: Summary, candidate: str) -> tuple[float | None, float | None, float | None, int | None]:
    place = candidate, "overall", "all"
    [row] = (row for row in summary.scores if (row.candidate, row.dimension, row.grouping) == place)
    return row.vs_best, row.vs_best_low, row.vs_best_high, row.vs_best_n


def test_candidates_are_paired_with_the_best_on_common_samples(three: Summary) -> None:
    plain = difference([100.0] * 10 + [100.0] * 5 + [50.0] * 5, [0.0] * 10 + [100.0] * 5 + [50.0] * 5)
    change, low, high, n = overall(three, "worse")
    assert (change, n) == (-50.0, 20) and low is not None and high is not None
    assert plain.ci_low is not None and low < plain.ci_low and high < 0
    assert overall(three, "other")[::3] == (-25.0, 10)
    assert overall(three, "best") == (None, None, None, None)
    question = "SELECT candidate, vs_best, vs_best_n FROM leaderboard WHERE dimension = 'overall' ORDER BY candidate"
    assert query(three.store, question).rows == [("best", None, None), ("other", -25.0, 10), ("worse", -50.0, 20)]


def test_table_has_the_column_if_wide_enough_and_intervals_below(three: Summary) -> None:
    grid = three.display.grid(three.scores)
    notes = three.display.notes(three.scores, three.terms)

    def printed(width: int) -> str:
        stream = io.StringIO()
        Console(file=stream, width=width).print(grid_table(grid, notes, width))
        return stream.getvalue()

    assert "best" in printed(100).splitlines()[1] and "vs" in printed(100).splitlines()[0]
    for text in (printed(100), printed(80)):
        assert "…" not in text and "worse vs best, overall: −50.0 [" in text
        found = " ".join(text.split())
        assert "paired at n = 20, p 0.0" in found and "adjusted for choosing among 3" in found
    assert "vs best" in markdown(three)


def test_difference_with_missing_scores_has_bounds(tmp_path: Path) -> None:
    """24 of the other's 60 samples have no score: by the scored ones it is 50 points worse, but it may be better."""
    best = figures(*[TIED] * 60, candidate="best")
    unscored = figures(*[("----", None)] * 24, first=36, candidate="other", status="incomplete")
    found = write_and_summarize(tmp_path, [*best, *figures(*[LOST] * 30, *[TIED] * 6, candidate="other"), *unscored])
    [row] = (row for row in found.scores if (row.candidate, row.dimension, row.grouping) == ("other", "overall", "all"))
    assert (row.vs_best_n, row.vs_best_of) == (36, 60) and row.vs_best_low is not None and row.vs_best_high is not None
    half, low, high = (row.vs_best_high - row.vs_best_low) / 2, *(sign * 50 * 24 - 50 * 30 for sign in (-1, 1))
    assert (row.vs_best_worst_low, row.vs_best_worst_high) == pytest.approx((low / 60 - half, high / 60 + half))
    words = " ".join(found.display.notes(found.scores, found.terms))
    assert "other vs best, overall: −41.7 [" in words and "paired at n = 36 of 60, worst case [−5" in words
    assert verdict(found.display, found.scores, is_red=False).startswith("No difference shown between best and other")
    compared = outcome_words(compare(tmp_path, RUN, RUN, ("best", "other")))
    assert compared.startswith("No difference shown between other and best (at n = 36 of 60")
    question = "SELECT vs_best_of FROM leaderboard WHERE vs_best < 0 AND dimension = 'overall'"
    assert query(tmp_path, question).rows == [(60,)]


def test_partly_scored_prompts_bound_the_difference() -> None:
    """Of each prompt one image of two, or one check of two, has no score: all may be the lowest or the highest."""
    half = [Compared("", f"{n}", "counting", "", score, None, None, {}) for n in range(9) for score in (4.0, None)]
    both = [each._replace(score=5.0 + int(each.prompt_id) % 2) for each in half]
    checks = [[Part("a", 100.0 * (n % 2), 1.0), Part("b", None, 1.0)] for n in range(9)]
    facts = [Compared(f"{n}", f"{n}", "together", "", None, None, None, {}, parts) for n, parts in enumerate(checks)]
    right = [each._replace(parts=[part._replace(score=100.0) for part in each.parts]) for each in facts]
    for flow, before, after, low, high in (("counting", half, both, -1.56, 3.44), ("facts", facts, right, 27.8, 77.8)):
        one, other = series_of(flow, before), series_of(flow, after)
        found = paired(one, other, next(iter(one.values)))
        assert found.ci_low is not None and found.ci_high is not None and found.n == found.of == 9
        reach = (found.ci_high - found.ci_low) / 2
        assert (found.worst_low, found.worst_high) == pytest.approx((low - reach, min(100.0, high + reach)), abs=0.06)


def test_single_candidate_has_no_difference(tmp_path: Path) -> None:
    alone = write_and_summarize(tmp_path, figures(*[WON] * 9, candidate="alpha"))
    assert overall(alone, "alpha") == (None, None, None, None)
    assert "vs\nbest" not in alone.display.grid(alone.scores).header


def images(candidate: str, score: float, a_prompt: int) -> list[Outcome]:
    return [image(f"{prompt}/{n}", score + n, candidate=candidate) for prompt in range(9) for n in range(a_prompt)]


def test_good_images_are_shown_and_unequal_image_counts_warned_about(tmp_path: Path) -> None:
    """One of four images is good: every prompt has a good image, and a quarter of the images are good."""
    counting = {"flow": "counting", "dimensions": ("counting",), "parameters": {"threshold": 7.0}}
    found = write_and_summarize(tmp_path, [*images("many", 4.0, 4), *images("single", 6.0, 1)], **counting)
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


# Candidates of different runs


def run_of(store: Path, day: int, rows: list[Outcome], flow: str = "diagram", **changes: Any) -> None:
    finished(store, f"202611{day:02}T120000-{flow}-0000aa", rows, candidates=(rows[0].candidate,), **changes)


def differences(store: Path, dimension: str = "overall") -> list[tuple[Any, ...]]:
    land(store)
    question = "SELECT run_id[7:8]::INTEGER, candidate, best, vs_best, vs_best_n FROM leaderboard"
    return query(store, f"{question} WHERE dimension = '{dimension}' ORDER BY 1").rows


def test_newest_comparable_runs_are_paired_with_the_best(tmp_path: Path) -> None:
    run_of(tmp_path, 1, figures(*[WON] * 20, candidate="beta"))
    run_of(tmp_path, 2, figures(*[TIED] * 20, candidate="alpha"))
    run_of(tmp_path, 3, figures(*[WON] * 10, *[LOST] * 10, first=5, candidate="beta"))  # 15 of them are alpha's, too
    run_of(tmp_path, 4, figures(*[WON] * 20, candidate="gamma"), key="q")
    run_of(tmp_path, 5, figures(*[WON] * 20, candidate="delta"), dataset_key="e" * 64)
    run_of(tmp_path, 6, figures(*[WON] * 20, candidate="beta"), ended={"calls": 0, "reused": 4})
    assert differences(tmp_path) == [
        (1, "beta", None, None, None), (2, "alpha", "alpha", None, None),
        (3, "beta", "alpha", pytest.approx(50 * (10 - 5) / 15), 15), (4, "gamma", None, None, None),
        (5, "delta", None, None, None), (6, "beta", None, None, None),
    ]  # fmt: skip
    assert [row[1:] for row in differences(tmp_path, "aesthetics")][2] == ("beta", "alpha", pytest.approx(50 / 3), 15)
    found = difference([50.0] * 15, [100.0] * 10 + [0.0] * 5)
    ends = query(tmp_path, "SELECT vs_best_low, vs_best_high FROM leaderboard WHERE vs_best IS NOT NULL LIMIT 1").rows
    assert ends == [(found.ci_low, found.ci_high)]


def test_newer_run_replaces_the_previous_one_also_after_a_rebuild(tmp_path: Path) -> None:
    run_of(tmp_path, 1, figures(*[TIED] * 20, candidate="alpha"))
    run_of(tmp_path, 2, figures(*[WON] * 20, candidate="beta"))
    assert [row[:4] for row in differences(tmp_path)] == [(1, "alpha", "beta", -50.0), (2, "beta", "beta", None)]
    run_of(tmp_path, 3, figures(*[LOST] * 20, candidate="beta"))
    now = [(1, "alpha", "alpha", None), (2, "beta", None, None), (3, "beta", "alpha", -50.0)]
    assert [row[:4] for row in differences(tmp_path)] == now
    rebuild(tmp_path)
    assert [row[:4] for row in differences(tmp_path)] == now


def test_overall_of_six_tags_is_paired_across_four_flows(tmp_path: Path) -> None:
    """On the same prompts `low` is lower by 1 on five tags and by 4 on the sixth: by 1.5 on average."""
    for place, (name, less) in enumerate((("high", 0.0), ("low", 1.0), ("half", 0.5))):
        for day, (flow, tags) in enumerate(TAGS.items(), 1 + 4 * place):
            loss = {tag: 4 * less if tag == "position" else less for tag in tags}
            of, places = {"flow": flow, "candidate": name}, [(tag, n) for tag in tags for n in range(12)]
            rows = [image(f"{tag}{n}/0", 6 + n % 4 - loss[tag], tag=tag, **of) for tag, n in places]
            if (name, flow) != ("half", "position"):
                run_of(tmp_path, day, rows, flow=flow, dimensions=tags, parameters={"threshold": 7.0})
            if (name, flow) == ("low", "position"):  # the newest run, although it reused all its replies
                run_of(tmp_path, 12, rows, flow=flow, dimensions=tags, parameters={"threshold": 7.0}, calls=0)
    land(tmp_path)
    question = "SELECT candidate, best, vs_best, vs_best_n, vs_best_low FROM t2i_leaderboard WHERE tag = 'overall'"
    found = {name: row for name, *row in query(tmp_path, question).rows}
    assert found["high"] == ["high", None, None, None] and found["half"] == [None] * 4
    assert found["low"][:3] == ["high", pytest.approx(-1.5), 72]
    of_tags = query(tmp_path, "SELECT tag, candidate, vs_best FROM t2i_leaderboard").rows
    assert [row for row in of_tags if row[0] == "position"] == [("position", "high", None), ("position", "low", -4.0)]
    html = "".join(page(gather(tmp_path, "20261105T120000-object-0000aa")))
    assert "low, the six tags together: <strong>" in html and "−1.50" in html and "] beside high, paired" in html
    assert "worst case" not in html
    of = {"flow": "position", "candidate": "low", "tag": "position"}
    rows = [image(f"position{n}/0", None if n < 3 else 2.0 + n % 4, **of) for n in range(12)]
    run_of(tmp_path, 13, rows, flow="position", dimensions=("position",), parameters={"threshold": 7.0})
    land(tmp_path)
    html = "".join(page(gather(tmp_path, "20261105T120000-object-0000aa")))
    assert re.search(r"−1\.50 \[[^]]+\], worst case \[[^]]+\] beside high, paired", html)
