"""Scores of text-to-image runs, by prompt and by image, and bounds for missing scores."""

import math
from pathlib import Path
from typing import Any

import pytest
from factories import TAGS, finished, grade_rows, image, outcome, score_rows, scored, start

from tasks.history.landing import land
from tasks.history.queries import as_json_rows, query
from tasks.pages.run_summary import summarize
from tasks.protocols import protocol_of
from tasks.records import OVERALL, Outcome
from tasks.statistics.scores import GradeRow, ScoreRow, by_tag


def row(rows: list[GradeRow], measure: str = "score", aspect: str = "") -> GradeRow:
    [found] = (each for each in rows if (each.measure, each.group_name) == (measure, aspect))
    return found


def test_score_weighs_prompts_equally_whatever_their_number_of_images() -> None:
    rows = grade_rows([image("0/0", 10), image("0/1", 10), image("0/2", 10), image("1/0", 2)], 7)
    assert (row(rows).score, row(rows).image_mean, row(rows).prompts) == (6.0, 8.0, 2)


def test_intervals_resample_prompts_instead_of_images() -> None:
    few = grade_rows([image(f"{prompt}/{n}", 10 * (prompt % 2)) for prompt in range(7) for n in range(40)], 7)
    assert row(few).method == "none" and row(few).ci_low is None
    once = grade_rows([image(f"{prompt}/0", prompt % 11) for prompt in range(40)], 7)
    often = grade_rows([image(f"{prompt}/{n}", prompt % 11) for prompt in range(40) for n in range(9)], 7)
    assert (row(once).ci_low, row(once).ci_high) == (row(often).ci_low, row(often).ci_high)
    assert 0 < (row(once).ci_high or 0) - (row(once).ci_low or 0) < 4


def test_prompt_is_good_if_any_image_reaches_the_threshold() -> None:
    rows = grade_rows([image("0/0", 7), image("0/1", 1), *(image(f"{n}/0", 6.9) for n in range(1, 10))], 7)
    assert (row(rows, "good").score, row(rows, "good").image_mean) == (0.1, pytest.approx(1 / 11))
    assert 0 <= (row(rows, "good").ci_low or 0) <= (row(rows, "good").ci_high or 1) <= 1


def test_images_without_score_lower_only_the_coverage() -> None:
    rows = grade_rows([image("0/0", 9), image("1/none", None, status="bad_picture"), image("2/0", None)], 7)
    assert (row(rows).score, row(rows).n, row(rows).scored, row(rows).prompts) == (9.0, 3, 1, 1)
    assert row(rows).coverage == pytest.approx(1 / 3)
    assert (row(rows, "good").score, row(rows, "satisfied").score) == (1.0, None)


def test_bounds_assume_lowest_and_highest_score_for_missing_images() -> None:
    """Twenty prompts of two images each, ten of them with one image missing; one more prompt with both missing."""
    scored_ = [image(f"{n}/0", 6 + n % 3) for n in range(20)] + [image(f"{n}/1", 6 + n % 3) for n in range(10)]
    lost = [image(f"{n}/1", None) for n in range(10, 20)] + [image("20/0", None), image("20/1", None)]
    found = row(grade_rows([*scored_, *lost], 7))
    assert found.ci_low is not None and found.ci_high is not None and found.score == pytest.approx(6.95)
    half, longer = (found.ci_high - found.ci_low) / 2, found.score - found.ci_low
    lowest = (sum(6 + n % 3 for n in range(10)) + sum((6 + n % 3) / 2 for n in range(10, 20))) / 21
    ends = lowest - longer, lowest + (10 * 5 + 10) / 21 + half
    assert (found.worst_low, found.worst_high) == pytest.approx(ends)
    good = row(grade_rows([*scored_, *lost], 7), "good")
    assert good.worst_high == 1.0 and good.worst_low is not None and good.worst_low < (good.ci_low or 0)


def test_inapplicable_aspect_is_not_counted_as_missing() -> None:
    aspects = [scored(a=n % 10, b=n % 10 if n % 2 else None) for n in range(40)]
    rows = grade_rows([image(f"{n}/0", aspects=each) for n, each in enumerate(aspects)], 7)
    assert row(rows, aspect="b").coverage == 0.5 and row(rows, aspect="b").worst_low is None
    unjudged = grade_rows([*(image(f"{n}/0", aspects=each) for n, each in enumerate(aspects)), image("x/0", None)], 7)
    assert row(unjudged, aspect="b").worst_low is not None and row(unjudged).worst_low is None


def test_each_aspect_is_scored_over_the_images_it_applies_to() -> None:
    rows = grade_rows([image("0/0", aspects=scored(a=4, b=None)), image("1/0", aspects=scored(a=6, b=9))], 7)
    assert (row(rows, aspect="a").score, row(rows, aspect="b").score, row(rows, aspect="b").scored) == (5.0, 9.0, 1)
    never = grade_rows([image("0/0", aspects=scored(a=4, b=None)), image("1/0", None)], 7)
    assert (row(never, aspect="b").score, row(never, aspect="b").scored, row(never, aspect="b").n) == (None, 0, 2)
    assert row(never, aspect="b").inapplicable and not row(never, aspect="a").inapplicable
    assert not row(grade_rows([image("0/0", None)], 7)).inapplicable
    [grades] = by_tag(rows)
    assert [each.group_name for each in grades.aspects] == ["a", "b"]


def test_satisfied_share_counts_only_images_with_a_rule_check() -> None:
    rows = grade_rows([image("0/0", satisfied=True), image("0/1", satisfied=False), image("1/0", satisfied=None)], 7)
    assert (row(rows, "satisfied").score, row(rows, "satisfied").scored) == (0.5, 2)


def write_finished_run(store: Path, flow: str, minute: int, outcomes: list[Outcome], **changes: Any) -> str:
    """Write a finished run of images, started in the hour after noon; return its id."""
    protocol = {"judge": "m", "prompt x": flow, **changes.pop("protocol", {})}
    run_id = f"20261120T12{minute:02}00-{flow}"
    of_flow = {"dimensions": TAGS[flow], "parameters": {"threshold": 7.0}}
    return finished(store, run_id, outcomes, protocol=protocol, **of_flow, **changes).run_id


def leaderboard_rows(store: Path) -> list[dict[str, object]]:
    land(store)
    return as_json_rows(query(store, "t2i_leaderboard"))


def images_of(flow: str, score: float) -> list[Outcome]:
    return [image(f"{n}/0", score + n % 2, tag=tag, flow=flow) for tag in TAGS[flow] for n in range(30)]


def test_leaderboard_joins_newest_run_of_each_flow(tmp_path: Path) -> None:
    write_finished_run(tmp_path, "counting", 0, images_of("counting", 1.0))
    for minute, (flow, score) in enumerate({"object": 4.0, "counting": 6.0, "colors": 8.0, "position": 2.0}.items(), 1):
        write_finished_run(tmp_path, flow, minute, images_of(flow, score))
    rows = {str(each["tag"]): each for each in leaderboard_rows(tmp_path)}
    assert list(rows) == [*(tag for tags in TAGS.values() for tag in tags), "overall"]
    assert rows["counting"]["score"] == 6.5
    overall = rows["overall"]
    assert overall["score"] == pytest.approx((4.5 + 4.5 + 6.5 + 8.5 + 8.5 + 2.5) / 6)
    assert (overall["missing"], overall["n"], overall["prompts"]) == ([], 180, 180)
    assert len(overall["dates"]) == 4 and overall["dates"][0].startswith("2026-11-20T12:01")  # pyright: ignore
    assert len(overall["runs"]) == 4 and "20261120T120000-counting" not in overall["runs"]  # pyright: ignore
    reach = math.sqrt(sum((row["score"] - row["ci_low"]) ** 2 for tag, row in rows.items() if tag != "overall")) / 6  # pyright: ignore
    assert overall["ci_low"] == pytest.approx(overall["score"] - reach)  # pyright: ignore
    write_finished_run(tmp_path, "position", 5, [image("0/0", 6, tag="position", flow="position", aspect_mean=None)])
    overall = leaderboard_rows(tmp_path)[-1]
    assert (overall["missing"], overall["aspect_mean"], overall["gap"]) == ([], None, None) and overall["score"]
    write_finished_run(tmp_path, "position", 6, [image("0/0", None, tag="position", flow="position")])
    overall = leaderboard_rows(tmp_path)[-1]
    assert (overall["missing"], overall["score"]) == (["position"], None), "no mean of the other tags"


def test_leaderboard_without_a_flow_has_no_overall_and_names_missing_tags(tmp_path: Path) -> None:
    write_finished_run(tmp_path, "counting", 0, images_of("counting", 5.0))
    write_finished_run(tmp_path, "colors", 1, images_of("colors", 5.0))
    [overall] = (row for row in leaderboard_rows(tmp_path) if row["tag"] == "overall")
    assert (overall["score"], overall["ci_low"]) == (None, None)
    assert {str(row["dimension"]) for row in as_json_rows(query(tmp_path, "trend"))} == {"counting", *TAGS["colors"]}
    found = query(tmp_path, "SELECT dimension, score, score_scale FROM leaderboard").rows
    assert found == [("colors", 5.5, 10.0), ("color_attr", 5.5, 10.0), ("counting", 5.5, 10.0)]
    assert overall["missing"] == ["single_object", "two_object", "position"]


def test_leaderboard_does_not_join_incomparable_runs(tmp_path: Path) -> None:
    others = {
        "dataset_key": {"dataset_key": "another"},
        "judge": {"protocol": {"judge": "n"}},
        "prompt_set": {"prompt_set": "another"},
    }
    for minute, (name, changes) in enumerate(others.items()):
        for at, (flow, its) in enumerate({"counting": {}, "colors": changes}.items()):
            rows = [row.model_copy(update={"candidate": name}) for row in images_of(flow, 5.0)]
            write_finished_run(tmp_path, flow, 2 * minute + at, rows, candidates=(name,), **its)
    overall = [row for row in leaderboard_rows(tmp_path) if row["tag"] == "overall"]
    missing = sorted((row["candidate"], len(row["missing"])) for row in overall)  # pyright: ignore
    assert missing == [(name, number) for name in sorted(others) for number in (4, 5)]


def test_best_image_has_highest_score_then_highest_aspect_mean(tmp_path: Path) -> None:
    found = [image("0/0", 5), image("0/1", 9, aspect_mean=3.0), image("0/2", 9, aspect_mean=4.0), image("1/0", None)]
    write_finished_run(tmp_path, "counting", 0, found)
    land(tmp_path)
    assert [row["sample_id"] for row in as_json_rows(query(tmp_path, "best_images"))] == ["0/2"]
    gaps = query(tmp_path, "SELECT gap FROM t2i_leaderboard WHERE tag = 'counting'").rows
    assert gaps == [(pytest.approx((5 + 9 + 9) / 3 - (5 + 3 + 4) / 3),)]


def test_image_summary_has_scores_and_the_lowest_images(tmp_path: Path) -> None:
    found = [image("0/0", 9, satisfied=False), image("1/0", 3, aspect_mean=8.0), image("2/0", 8)]
    found += [image("3/none", None, status="bad_picture", problem="no picture")]
    summary = summarize(tmp_path, write_finished_run(tmp_path, "counting", 0, found))
    grades = [each for each in summary.scores if isinstance(each, GradeRow)]
    assert grades == summary.scores and row(grades).scored == 3
    assert [each.outcome.sample_id for each in summary.lowest] == ["1/0", "2/0", "0/0"]
    assert not summary.all_ok


# Pairwise runs: bounds for missing scores


def overall(rows: list[ScoreRow]) -> ScoreRow:
    [found] = (row for row in rows if row.dimension == OVERALL)
    return found


def samples(won: int, lost: int, missing: int) -> list[Outcome]:
    words = ["Model"] * won + ["Human"] * lost + [None] * missing
    return [outcome(f"s{n}", overall=each) for n, each in enumerate(words)]


def test_bounds_assume_all_missing_samples_lost_or_all_won() -> None:
    row = overall(score_rows(samples(60, 30, 10)))
    assert row.score is not None and row.ci_low is not None and row.ci_high is not None
    half, longer = (row.ci_high - row.ci_low) / 2, row.score - row.ci_low
    assert longer > half and (row.worst_low, row.worst_high) == pytest.approx((60 - longer, 70 + half))


def test_bounds_stay_on_the_scale_and_require_an_interval_and_missing_samples() -> None:
    for counts in ((50, 50, 0), (50, 49, 1), (50, 47, 3), (4, 3, 9)):
        row = overall(score_rows(samples(*counts)))
        assert (row.worst_low, row.worst_high) == (None, None)
    lost = overall(score_rows(samples(0, 20, 2)))
    assert lost.worst_low == 0 and lost.worst_high == pytest.approx(100 * 2 / 22 + (lost.ci_high or 0))


@pytest.mark.parametrize(("flow", "highest"), [("plot", 50.0), ("diagram", 100.0)])
def test_bounds_of_plot_faithfulness_stop_at_its_highest_verdict(flow: str, highest: float) -> None:
    """Verdicts are Human or Both are good; one sample in ten has none."""
    tally = protocol_of(flow).score_tally(start(flow=flow))
    for number in range(40):
        tally.add(outcome(f"s{number}", "-GGG" if number % 10 == 0 else "GGGG", "Tie"))
    [row] = (each for each in tally.rows() if each.dimension == "faithfulness")
    assert row.score == 50.0
    assert row.ci_high is not None and row.worst_high is not None and row.worst_low is not None
    assert (row.ci_high == 50.0) == (row.worst_high == 50.0) == (highest == 50.0) and row.worst_low < 45.0
    [other] = (each for each in tally.rows() if each.dimension == "readability")
    assert other.ci_high and other.ci_high > 50.0


def test_custom_prompts_may_score_above_the_default_ceiling() -> None:
    tally = protocol_of("plot").score_tally(start(flow="plot"))
    for number in range(10):
        tally.add(outcome(f"s{number}", "MGGG" if number else "GGGG", "Model"))
    [row] = (each for each in tally.rows() if each.dimension == "faithfulness")
    assert row.score == 95.0 and row.ci_high and row.ci_high > 95.0
