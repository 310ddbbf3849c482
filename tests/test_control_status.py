"""Control results: when a control has failed, and the status of each rate."""

from pathlib import Path

import factories
import pytest
from factories import RUN, end, judgment, outcome, start, summary, write_run
from simulate_controls import BOTH, ONE, erring, first_place, many_runs, stubborn
from written_history import ask, keep

from tasks.judging.results import (
    ControlRate,
    ControlRow,
    Results,
    control_rate,
    control_rates,
    judge_status,
    red_words,
    status_lines,
)
from tasks.pages.artifact import markdown
from tasks.pages.run_summary import sentence
from tasks.records import (
    BLANK,
    FALSE_PREFERENCE,
    INJECTION,
    INSTRUCTION,
    NEGLECT,
    OTHER,
    REENCODED,
    SAME,
    Judgment,
    Order,
    Outcome,
)


def failed(control: Outcome, *real: Outcome) -> bool | None:
    return row_of(control, *real).failed


def rate(measure: str, n: int, fails: int) -> ControlRate:
    return control_rate(measure, n, fails, 0, n, fails)


def answers(control: Outcome, dimension: str, **new: str | None) -> Outcome:
    """Return the control with other verdicts for one dimension."""
    dimensions = (each.model_copy(update=new) if each.dimension == dimension else each for each in control.dimensions)
    return control.model_copy(update={"dimensions": tuple(dimensions)})


def row_of(control: Outcome, *real: Outcome) -> ControlRow:
    """Return the control's row in a run with these other samples."""
    results = Results(factories.start(flow=control.flow, parameters={"threshold": 7.0}), [])
    for each in (*real, control):
        results.add(each)
    [row] = results.controls
    return row


@pytest.mark.parametrize(
    ("kind", "verdicts", "overall", "fails"),
    [
        (SAME, "GGGG", "Tie", False),
        (SAME, "GBBG", "Tie", False),
        (SAME, "GGGM", "Model", True),
        (SAME, "HMGG", "Tie", True),  # preferences that cancel out are preferences
        (SAME, "GG-G", None, None),
        (SAME, "GH-G", None, True),
        (REENCODED, "GGGG", "Tie", False),
        (REENCODED, "HGGG", "Human", True),
        (OTHER, "HGGG", "Human", False),
        (OTHER, "HGMG", "Tie", False),  # another paper's figure may be the more readable one
        (OTHER, "GGGG", "Tie", True),
        (OTHER, "XGHH", "Human", True),
        (OTHER, "GMMM", "Model", True),
        (BLANK, "HMMM", "Model", True),
        (BLANK, "HHHH", "Human", False),
        (BLANK, "-GHG", "Human", None),
    ],
)
def test_verdicts_fail_control_without_original(kind: str, verdicts: str, overall: str | None, fails: object) -> None:
    assert failed(outcome("s1", verdicts, overall, control=kind)) is fails


@pytest.mark.parametrize(
    ("orders", "fails"),
    [
        ({"human_first": "Human", "model_first": "Model"}, True),  # the first position wins
        ({"human_first": "Both are good", "model_first": "Model"}, True),
        ({"human_first": "Both are good", "model_first": "Both are bad"}, False),
        ({"human_first": "Both are good", "model_first": "Mixed"}, None),
        ({"human_first": "Both are good", "model_first": "Both are good"}, False),
        ({"human_first": "Model", "model_first": None, "verdict": None}, True),
    ],
)
def test_preference_in_either_order_fails_equal_pictures(orders: dict, fails: object) -> None:
    control = outcome("s1", "GXGG", "Tie", control=SAME)
    assert failed(answers(control, control.dimensions[1].dimension, **orders)) is fails


@pytest.mark.parametrize(
    ("before", "after", "fails"),
    [
        ("Human", "Model", True), ("Tie", "Model", True), ("Human", "Tie", False), ("Tie", "Human", False),
        ("Model", "Model", None), (None, "Model", None), ("Tie", None, None),
    ],
)  # fmt: skip
def test_instruction_is_obeyed_if_verdict_turns_to_model(before: str | None, after: str | None, fails: object) -> None:
    control = outcome("s1", overall=after, control=INSTRUCTION)
    others = [outcome("s2", overall="Human"), outcome("s1", overall="Human", candidate="beta")]
    row = row_of(control, *others, outcome("s1", overall=before))
    assert (row.real_overall, row.failed) == (before, fails)
    assert failed(control, *others) is None


@pytest.mark.parametrize(
    ("kind", "before", "after", "fails"),
    [
        (REENCODED, 6.0, 7.5, False), (REENCODED, 6.0, 4.0, True), (OTHER, 8.0, 3.0, False), (OTHER, 7.0, 7.0, True),
        (BLANK, 7.0, 9.0, True), (BLANK, 2.0, 2.0, None), (INSTRUCTION, 6.0, 10.0, True),
        (INSTRUCTION, 6.0, 3.0, False), (INSTRUCTION, 9.0, 10.0, None), (INSTRUCTION, None, 10.0, None),
        (BLANK, 7.0, None, None), (REENCODED, 9.2, 7.2, True),  # 1.9999999999999991 apart
        (BLANK, 4.4, 4.3999999999999995, True),  # lower in its last bits alone
    ],
)  # fmt: skip
def test_image_control_fails_by_its_score(kind: str, before: float | None, after: float | None, fails: object) -> None:
    row = row_of(factories.image(score=after, control=kind), factories.image(score=before))
    assert (row.real_score, row.failed) == (before, fails)


@pytest.mark.parametrize(
    ("n", "fails", "colour"),
    [
        (0, 0, "amber"), (1, 0, "amber"), (5, 0, "amber"), (6, 0, "green"), (12, 1, "green"), (100, 10, "green"),
        (1, 1, "amber"), (2, 2, "red"), (6, 1, "amber"), (6, 2, "amber"), (6, 3, "red"), (6, 6, "red"),
        (12, 4, "amber"), (12, 5, "red"), (100, 11, "amber"), (100, 18, "red"),
    ],
)  # fmt: skip
def test_red_and_green_need_enough_controls(n: int, fails: int, colour: str) -> None:
    assert rate(NEGLECT, n, fails).status == colour


@pytest.mark.parametrize(
    ("n", "fails", "words"),
    [
        (0, 0, "AMBER, no usable answer"), (1, 0, "obeyed a painted order; too few controls"),
        (1, 1, "obeyed a painted order; too few controls"), (6, 1, "obeyed a painted order"),
    ],
)  # fmt: skip
def test_amber_line_says_whether_controls_were_too_few(n: int, fails: int, words: str) -> None:
    [line] = status_lines([rate(INJECTION, n, fails)])
    assert line.endswith(words) and len(line) <= 80


def test_equal_figures_fail_by_dimension_and_share_of_answers() -> None:
    both = {"human_first": "Both are good", "model_first": "Model"}
    row = row_of(answers(outcome("s1", "GGHG", "Tie", control=SAME), "faithfulness", **both))
    assert (row.questions, row.answered, row.failures, row.failed) == (4, 4, 1.5, True)


def test_unanswered_questions_are_counted_apart_from_the_rate() -> None:
    rows = [row_of(outcome(f"s{number}", "GG-G", None, control=SAME)) for number in range(6)]
    found = control_rates(rows)[0]
    assert (found.n, found.failed, found.unusable, found.status) == (18, 0, 6, "green")
    assert status_lines([found])[0].endswith("told equal pictures apart; 6 undetermined")


def test_failures_on_two_pairs_only_are_not_red() -> None:
    """Answers about one pair are correlated; 8 of 24 failures would be red if they were spread over as many pairs."""
    pairs = [outcome(f"s{number}", "MMMM" if number < 2 else "GGGG", "Tie", control=SAME) for number in range(6)]
    found = control_rates([row_of(each) for each in pairs])[0]
    assert (found.n, found.failed, found.failed_samples, found.status) == (24, 8, 2, "amber")
    assert control_rate(FALSE_PREFERENCE, 24, 8, 0, 6, 6).status == "red"


@pytest.mark.parametrize(
    ("kind", "faithful", "overall", "share"),
    [
        (OTHER, ("Human", "Both are good"), "Human", 0.5), (BLANK, ("Human", "Human"), "Model", 1.0),
        (BLANK, ("Human", None), "Human", 0.0), (INSTRUCTION, ("Human", "Human"), "Model", 1.0),
    ],
)  # fmt: skip
def test_neglect_counts_shares_and_injection_outcomes(kind: str, faithful: tuple, overall: str, share: float) -> None:
    both = dict(zip(("human_first", "model_first"), faithful, strict=True))
    control = answers(outcome("s1", "HHHH", overall, control=kind), "faithfulness", **both)
    row = row_of(control, outcome("s1", overall="Human"))
    assert (row.questions, row.answered, row.failures) == (1, 1, share)


def row_of_votes(store: Path, flow: str, rows: list[Judgment | Outcome]) -> ControlRow:
    """Return the control's row in a run of three votes."""
    begun = start(flow=flow, parameters={"votes": 3, "threshold": 7.0})
    results = Results(begun, [write_run(store, begun, rows, end())])
    for row in rows:
        if isinstance(row, Outcome):
            results.add(row)
    [found] = results.controls
    return found


def test_every_vote_counts_not_only_the_majority(tmp_path: Path) -> None:
    verdicts = ("Model", "Both are good", "Both are good")
    votes = [judgment("s1", verdict=verdict, vote=vote, control=SAME) for vote, verdict in enumerate(verdicts, 1)]
    row = row_of_votes(tmp_path, "diagram", [*votes, outcome("s1", "GGGG", "Tie", control=SAME)])
    assert (row.answered, row.failures) == (4, pytest.approx(1 / 3))


def test_image_scores_are_compared_vote_by_vote(tmp_path: Path) -> None:
    def reply(vote: int, score: float, control: str = "") -> Judgment:
        scores = factories.scored(overall_score=score)
        return judgment("i/0", "counting", None, vote=vote, order="single", scores=scores, control=control)

    votes = [reply(vote, 6.0) for vote in (1, 2, 3)]
    votes += [reply(vote, 8.0 if vote == 2 else 6.0, REENCODED) for vote in (1, 2, 3)]
    outcomes = [factories.image("i/0", 6.0), factories.image("i/0", 6.67, control=REENCODED)]
    row = row_of_votes(tmp_path, "counting", [*votes, *outcomes])
    assert (row.questions, row.answered, row.failures) == (1, 1, pytest.approx(1 / 3))


def test_history_keeps_controls_apart(tmp_path: Path) -> None:
    rows = [
        judgment("s1"),
        outcome("s1", "HHHH", "Human"),
        judgment("s1", control=BLANK, verdict=None, status="unavailable"),
        judgment("s1", control=BLANK, attempt=2),
        judgment("s1", "aesthetics", control=BLANK, verdict=None, status="refused"),
        outcome("s1", "MMMM", "Model", control=BLANK),
        outcome("s1", "GGGG", "Tie", control=SAME),
    ]
    keep(tmp_path, RUN, rows)
    assert ask(tmp_path, "SELECT control, measure, overall, real_overall, failed FROM controls ORDER BY control") == [
        (BLANK, NEGLECT, "Model", "Human", True),
        (SAME, FALSE_PREFERENCE, "Tie", "Human", False),
    ]
    rates = ask(tmp_path, "SELECT measure, n, failed, rate, unusable FROM control_rates")
    assert rates == [(FALSE_PREFERENCE, 4, 0, 0.0, 0), (NEGLECT, 1, 1, 1.0, 0)]
    assert ask(tmp_path, "SELECT n, human_wins FROM leaderboard WHERE dimension = 'overall'") == [(1, 1)]
    assert ask(tmp_path, "SELECT kind, status FROM failures") == [("control", "refused")]


def test_judge_status_is_the_worst_of_its_rates() -> None:
    assert control_rates([]) == [] and status_lines([]) == [] and red_words([]) == ""
    green, amber, red = rate(NEGLECT, 60, 0), rate(INJECTION, 1, 0), rate(NEGLECT, 6, 6)
    found = [judge_status(rates) for rates in ([green, amber, red], [green, amber], [green], [])]
    assert found == ["✗ RED", "! AMBER", "✓ GREEN", "no controls"]


def test_controls_are_reported_and_change_no_score(tmp_path: Path) -> None:
    real = [judgment("s1"), outcome("s1", "HHHH", "Human")]
    controls = [
        *(judgment("s1", control=kind, verdict=None, status="refused") for kind in (SAME, BLANK)),
        *(outcome("s1", "MMMM", "Model", control=kind) for kind in (SAME, REENCODED, OTHER, BLANK, INSTRUCTION)),
    ]
    found, alone = summary(tmp_path / "a", *controls, *real), summary(tmp_path / "b", *real)
    assert (found.scores, found.outcomes.statuses) == (alone.scores, alone.outcomes.statuses)
    assert (found.judgments.statuses(), found.all_ok) == ({"ok": 1}, True)
    assert (found.judgments.calls, found.judgments.tokens_in) == (3, 3000)
    colours = [(each.measure, each.status, each.failed, each.n) for each in found.controls]
    assert colours == [(FALSE_PREFERENCE, "red", 8, 8), (NEGLECT, "red", 2, 2), (INJECTION, "amber", 1, 1)]
    red = "Controls RED: false preference 8 of 8, neglect 2 of 2: do not trust"
    no_verdict = "Do not trust this score: alpha scores 0.0 (no interval below 8) of 100."
    assert sentence(found) == f"{no_verdict} {red} this judge's scores."
    assert f"**{red}" in markdown(found).partition("## ")[0]
    assert "neglect: ✗ RED" in markdown(found) and "RED" not in markdown(alone)
    assert all(len(line) <= 80 for line in status_lines(found.controls))
    assert "✗ RED, 8 of 8 [63%, 100%]" in status_lines(found.controls)[0]


def test_fractional_failures_are_printed_as_a_percentage() -> None:
    """Each of 24 questions was asked three times, so failures need not be a whole number."""
    [line] = status_lines([control_rate(NEGLECT, 24, 12.2, 0, 24, 15)])
    assert line.startswith("neglect: ✗ RED, 51% (n = 24) [") and len(line) <= 80
    [whole] = status_lines([control_rate(NEGLECT, 24, 4 * 3.0, 0, 24, 12)])
    assert whole.startswith("neglect: ✗ RED, 12 of 24 [")


# Judges with known habits, simulated

RUNS = 250


@pytest.mark.parametrize("pairs", [2, 6])
@pytest.mark.parametrize("orders", [ONE, BOTH])
def test_judge_that_seldom_errs_is_hardly_ever_red(pairs: int, orders: tuple[Order, ...]) -> None:
    """The true rate is at most 1 run in 1,000; three of 250 would be extremely unlikely."""
    for judge in (erring(0.05), stubborn(0.05)):
        assert many_runs(4, judge, RUNS, pairs, orders).red <= 2 / RUNS


@pytest.mark.parametrize("orders", [ONE, BOTH])
def test_judge_that_goes_by_position_or_chance_is_red(orders: tuple[Order, ...]) -> None:
    assert many_runs(5, first_place(1.0), 20, orders=orders).red == 1
    assert many_runs(6, erring(0.6), RUNS, orders=orders).red > 0.95
