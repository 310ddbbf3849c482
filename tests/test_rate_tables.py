"""Rates by order and votes, as shown on a run's page."""

from pathlib import Path
from typing import Any

import pytest
from factories import DIMENSIONS, image, judgment, outcome, scored, summary

from tasks.pages.run_summary import rate_grid, rate_notes, rate_words
from tasks.records import Judgment, Order, Outcome
from tasks.statistics.rates import RateRow

REPEATED = {"orders": "both", "votes": 2}


def rate(measure: Any, value: float, low: float | None = None, high: float | None = None, **changes: Any) -> RateRow:
    given: dict[str, Any] = {"candidate": "alpha", "dimension": "overall", "n": 5, "method": "none", **changes}
    return RateRow(measure=measure, value=value, ci_low=low, ci_high=high, **given)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (rate("order_flip", 0.372, 0.33, 0.415), "37.2% [33.0, 41.5]"),
        (rate("order_flip", 0.0, 0.0, 0.036), "0.0% [0.0, 3.6]"),
        (rate("order_flip", 0.5), "50.0% (n = 5)"),
        (rate("repeat_difference", 1.5, 0.25, 2.0), "1.50 [0.25, 2.00]"),
    ],
)
def test_rate_is_shown_with_its_interval_or_n(row: RateRow, words: str) -> None:
    assert rate_words(row) == words


def repeats() -> list[Judgment | Outcome]:
    """Return samples of which every third differs by order, with two agreeing votes in each order."""
    rows: list[Judgment | Outcome] = []
    for n in range(30):
        flip = n % 3 == 0
        verdicts: dict[Order, str] = {"human_first": "Human" if flip else "Model", "model_first": "Model"}
        rows += [
            judgment(f"s{n}", dimension, verdict, order=order, vote=vote)
            for dimension in DIMENSIONS
            for order, verdict in verdicts.items()
            for vote in (1, 2)
        ]
        made = outcome(f"s{n}", "XXXX" if flip else "MMMM", "Tie" if flip else "Model")
        flags = {"order_flip": flip, "reversal": flip, "votes": 4}
        dimensions = tuple(each.model_copy(update=flags) for each in made.dimensions)
        rows.append(made.model_copy(update={"dimensions": dimensions, "tier": "tier 1"}))
    return rows


def test_rates_have_a_table_by_dimension_with_explanations(tmp_path: Path) -> None:
    found = summary(tmp_path, *repeats(), parameters=REPEATED)
    grid, notes = rate_grid(found.rates), "\n".join(rate_notes(found.rates))
    assert grid.header[:6] == ["", "orders differ", "reversed", "first named", "votes agree", "pivotal"]
    assert [line[0] for line in grid.lines] == ["alpha", *DIMENSIONS, "overall"]
    assert "alpha: tier 1 decided 100.0% [88.4, 100.0] of the outcomes" in notes
    assert "50% is no bias" in notes


def test_single_vote_run_shows_pivotal_dimensions(tmp_path: Path) -> None:
    found = summary(tmp_path, *(outcome(f"s{n}", tier="tier 1", pivotal=("faithfulness",)) for n in range(3)))
    cells = {line[0]: line[1:] for line in rate_grid(found.rates).lines}
    assert cells["faithfulness"] == ["100% (n = 3)"] and cells["readability"] == ["0% (n = 3)"]


def test_votes_on_images_are_shown_by_tag(tmp_path: Path) -> None:
    votes = (
        judgment("00000/0000", "counting", None, order="single", vote=vote, scores=scored(overall_score=score))
        for vote, score in ((1, 6), (2, 8))
    )
    parameters = {"votes": 2, "threshold": 7}
    found = summary(tmp_path, image("00000/0000"), *votes, flow="counting", parameters=parameters)
    assert rate_grid(found.rates).lines[1] == ["counting", "2.0 (n = 1)"]
