"""The verdict sentence on candidates: which one is better, or the level of a single one."""

from typing import Any

import pytest
from factories import figures, grade_rows, image, score_rows

from tasks.comparing.verdict import rank_candidates, verdict
from tasks.presentation.wording import Scored
from tasks.protocols import display_of
from tasks.records import OVERALL

FIGURES, IMAGES = display_of("diagram"), display_of("counting")


def figure_score(**changes: Any) -> Scored:
    """Return the overall score of one candidate, with these changes."""
    [row] = [row for row in score_rows(figures(("MMMM", "Model"))) if row.dimension == OVERALL]
    return row.model_copy(update={"candidate": "painter", "scored": 24, "n": 24, **changes})


def image_score(candidate: str, score: float | None, *behind: float, **changes: Any) -> Scored:
    """Return the score of one candidate on a tag, and its difference from the best with both ends."""
    [row] = [row for row in grade_rows([image()], 7) if row.measure == "score"]
    names = ("vs_best", "vs_best_low", "vs_best_high")
    difference = dict.fromkeys(names) if not behind else dict(zip(names, behind, strict=True))
    counts = {"vs_best_n": 24, "vs_best_of": 24, "vs_best_among": 2}
    return row.model_copy(update={"candidate": candidate, "score": score, **difference, **counts, **changes})


@pytest.mark.parametrize(
    ("score", "low", "high", "words"),
    [
        (39.2, 30.0, 49.4, "39.2 [30.0, 49.4] of 100, below the Human figures (50)"),
        (71.0, 60.0, 80.0, "71.0 [60.0, 80.0] of 100, above the Human figures (50)"),
        (48.0, 40.0, 56.0, "48.0 [40.0, 56.0] of 100: no difference from the Human figures (50) shown (at n = 24)"),
        (48.0, None, None, "48.0 (no interval below 8) of 100"),
    ],
)
def test_single_candidate_is_compared_with_the_human_figures(score: float, low: float, high: float, words: str) -> None:
    row = figure_score(score=score, ci_low=low, ci_high=high)
    assert rank_candidates(FIGURES, [row]) == f"painter scores {words}"


def test_verdict_uses_the_bounds_for_missing_scores() -> None:
    row = figure_score(score=39.2, ci_low=30.0, ci_high=49.4, worst_low=25.0, worst_high=55.0)
    assert rank_candidates(FIGURES, [row]).endswith("no difference from the Human figures (50) shown (at n = 24)")


@pytest.mark.parametrize(
    ("behind", "words"),
    [
        ((-1.1, -1.8, -0.4), "flux scores higher than sdxl: 7.20 against 6.10 of 10, difference +1.10 [+0.40, +1.80]"),
        (
            (-1.1, -2.6, 0.4),
            "No difference shown between flux and sdxl (at n = 24): 7.20 against 6.10 of 10, "
            "difference +1.10 [−0.40, +2.60]",
        ),
        ((1.1, 0.4, 1.8), "sdxl scores higher than flux: 6.10 against 7.20 of 10, difference +1.10 [+0.40, +1.80]"),
    ],
)  # fmt: skip
def test_one_of_two_candidates_is_better_only_if_shown(behind: tuple[float, ...], words: str) -> None:
    assert rank_candidates(IMAGES, [image_score("flux", 7.2), image_score("sdxl", 6.1, *behind)]) == words


def test_best_of_several_is_named_with_its_possible_equals() -> None:
    rows = [
        image_score("flux", 7.2, vs_best_among=3),
        image_score("sdxl", 7.0, -0.2, -0.9, 0.5, vs_best_among=3, vs_best_n=20),
        image_score("pixart", 5.0, -2.2, -2.9, -1.5, vs_best_among=3),
    ]
    assert rank_candidates(IMAGES, rows) == (
        "flux scores higher than pixart; no difference shown between flux and sdxl (at n = 20 of 24), "
        "adjusted for choosing among 3"
    )


def test_red_judge_and_missing_scores_allow_no_verdict() -> None:
    row = figure_score(score=39.2, ci_low=30.0, ci_high=49.4)
    assert verdict(FIGURES, [row], is_red=True).startswith("Do not trust this score: painter scores 39.2")
    assert rank_candidates(IMAGES, [image_score("flux", None)]) == "Nothing is scored: 0 of 1 images"
    assert verdict(IMAGES, [], is_red=False) == "Nothing is scored"
