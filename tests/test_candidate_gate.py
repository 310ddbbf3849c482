"""The candidate gate: its rule, which runs it compares, reasons for uncertainty, and its output."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from factories import LOST, WON, figures, image, judgment, start, write_run
from simulate_gate import CASES, Case, N, shares
from test_compare import keep

from tasks.comparing.candidate_gate import Found, bounded, least_score, no_worse
from tasks.comparing.verdict import outcome_words
from tasks.errors import InputError
from tasks.history.landing import land
from tasks.history.queries import held_open
from tasks.records import BudgetStop, Outcome
from tasks.statistics.intervals import Bounded, difference, whole, with_missing

BASE, NEW, LAST = (f"202611{day}T120000-diagram-0000{day}" for day in (19, 20, 21))


def outcomes(candidate: str, results: Sequence[tuple[str, str]], **changes: Any) -> list[Outcome]:
    return figures(*results, candidate=candidate, **changes)


def keep_two(store: Path, before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]], **changes: Any) -> None:
    keep(store, BASE, outcomes("base", before), candidates=("base",))
    keep(store, NEW, outcomes("new", after), candidates=("new",), **changes)
    land(store)


# The rule


@pytest.mark.parametrize(
    ("low", "high", "decision"),
    [
        (-4.9, 1.0, "passes"),
        (-5.0, 1.0, "passes"),  # equal to the bound
        (-9.0, -5.1, "fails"),
        (-9.0, -5.0, "cannot tell"),
        (-5.1, 9.0, "cannot tell"),
        (None, None, "cannot tell"),
    ],
)
def test_bounds_of_the_interval_decide(low: float | None, high: float | None, decision: str) -> None:
    assert Found(value=0.0, low=low, high=high, n=9, bound=-5.0).decision == decision


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equal_candidates_pass_and_a_drop_of_ten_fails(case: Case) -> None:
    quiet, dropped = shares(case, 0.0, pairs=100), shares(case, 10.0, pairs=100)
    assert quiet["fails"] <= 0.05 and dropped["fails"] >= 0.9
    assert dropped["passes"] == 0


def test_few_differences_bound_the_interval(tmp_path: Path) -> None:
    """Two of 292 lost: by chance, at most 2.5% of all pairs are lost, so at most 2.5 points."""
    before = [WON] * N
    keep_two(tmp_path, before, [LOST, LOST, *before[2:]])
    found = no_worse(tmp_path, "diagram", "new", "base", 5)
    assert found.decision == "passes" and found.found
    assert found.found.low == pytest.approx(-2.45, abs=0.02) and found.found.high == pytest.approx(1.26, abs=0.01)


def test_missing_scores_widen_the_interval() -> None:
    pairs = [float(number % 3 * 50) for number in range(90)]
    for after in (pairs, pairs[1:] + pairs[:1]):  # no pair differs, and many do
        found = difference(pairs, after)
        missing = with_missing(found, [(Bounded(None, 0.0, 100.0, 0.0), whole(50.0))] * 10)
        low, high = (bounded(each, 5, 100.0).low for each in (missing, found))
        assert low is not None and high is not None and low < high - 4


def test_score_is_compared_with_the_minimum(tmp_path: Path) -> None:
    keep_two(tmp_path, [], [WON] * 40 + [LOST] * 40)
    with held_open(tmp_path):
        decisions = [least_score(tmp_path, "diagram", "new", least).decision for least in (30, 50, 70)]
    assert decisions == ["passes", "cannot tell", "fails"]
    with pytest.raises(InputError, match="--min 101: scores of diagram lie between 0 and 100"):
        least_score(tmp_path, "diagram", "new", 101)


def test_images_are_compared_by_prompt(tmp_path: Path) -> None:
    for day, name, shift in ((19, "base", 0.0), (20, "new", -2.0)):
        rows = [image(f"{n}/0", 6 + n % 3 + (n + day) % 2 + shift, tag="counting", candidate=name) for n in range(30)]
        keep(tmp_path, f"202611{day}T120000-counting-0000aa", rows, candidates=(name,), parameters={"threshold": 7.0})
    land(tmp_path)
    with held_open(tmp_path):
        found = no_worse(tmp_path, "counting", "new", "base", 1)
        assert found.decision == "fails" and found.found and found.found.n == 30
        assert least_score(tmp_path, "counting", "new", 5).decision == "passes"


# Choice of runs


def test_newer_run_stopped_at_its_budget_cannot_tell(tmp_path: Path) -> None:
    keep(tmp_path, BASE, outcomes("new", [WON] * 30), candidates=("new",))
    stop = BudgetStop(budget=1.0, spent=0.9, judged=20, samples=30, is_random=True)
    keep(tmp_path, NEW, outcomes("new", [WON] * 20), candidates=("new",), samples=30, ended={"stopped": stop})
    land(tmp_path)
    gates = least_score(tmp_path, "diagram", "new", 50), no_worse(tmp_path, "diagram", "new", "new", 5)
    for found in gates:
        assert (found.decision, found.run_id) == ("cannot tell", NEW)
        assert f"{NEW}: {stop.sentence}" in found.unsure
    compared = gates[1].comparison
    assert compared and gates[1].against_run == BASE
    assert outcome_words(compared).startswith(f"{NEW}: {stop.sentence} No difference shown for new since")


def test_two_candidates_of_one_run_are_compared_within_it(tmp_path: Path) -> None:
    rows = [*outcomes("base", [WON] * 30), *outcomes("new", [WON] * 30)]
    keep(tmp_path, BASE, rows, candidates=("base", "new"))
    land(tmp_path)
    found = no_worse(tmp_path, "diagram", "new", "base", 20)
    assert (found.decision, found.run_id, found.against_run) == ("passes", BASE, BASE)


def test_baseline_is_the_newest_comparable_run(tmp_path: Path) -> None:
    keep_two(tmp_path, [WON] * 30, [WON] * 30)
    keep(tmp_path, LAST, outcomes("base", [LOST] * 30), candidates=("base",), key="q")
    land(tmp_path)
    assert no_worse(tmp_path, "diagram", "new", "base", 20).against_run == BASE


def test_candidate_is_compared_with_its_earlier_measurement(tmp_path: Path) -> None:
    keep(tmp_path, BASE, outcomes("new", [WON] * 30), candidates=("new",))
    keep(tmp_path, NEW, outcomes("new", [LOST] * 30), candidates=("new",))
    keep(tmp_path, LAST, outcomes("new", [LOST] * 30), candidates=("new",), calls=0)  # reused all its replies
    land(tmp_path)
    found = no_worse(tmp_path, "diagram", "new", "new", 5)
    assert (found.decision, found.run_id, found.against_run) == ("fails", NEW, BASE)


def test_candidate_without_a_run_or_margin_that_any_keeps_is_an_input_error(tmp_path: Path, jury: Any) -> None:
    keep_two(tmp_path, [WON] * 30, [WON] * 30)
    code, _, err = jury("gate", "--flow", "diagram", "--candidate", "gone", "--min", 9, "--store", tmp_path)
    assert code == 2 and "no finished diagram run has a candidate 'gone'; those judged are base, new" in err
    itself = ["--candidate", "new", "--against", "new", "--margin", 1, "--store", tmp_path]
    code, _, err = jury("gate", "--flow", "diagram", *itself)
    assert code == 2 and f"new has one finished diagram run with replies of its own, {NEW}: there is none" in err
    for flow, margin in (("diagram", "100"), ("counting", "10"), ("diagram", "nan")):
        command = ["gate", "--flow", flow, "--candidate", "new", "--against", "base", "--margin", margin]
        code, _, err = jury(*command, "--store", tmp_path)
        assert code == 2 and f"--margin {margin}: scores of {flow} lie between 0 and " in err


# Uncertainty


def test_incomparable_runs_cannot_tell_and_name_the_difference(tmp_path: Path) -> None:
    keep_two(tmp_path, [WON] * 30, [WON] * 30, key="q", protocol={"temperature": "0"})
    with held_open(tmp_path):
        found = no_worse(tmp_path, "diagram", "new", "base", 5)
        assert found.decision == "cannot tell" and "temperature: 1 → 0" in found.unsure[0]
        assert no_worse(tmp_path, "diagram", "new", "base", 20, ["temperature"]).decision == "passes"


def test_missing_scores_few_samples_and_unfinished_runs_cannot_tell(tmp_path: Path) -> None:
    rows = outcomes("gaps", [WON] * 100)
    lacking = zip(rows, ["incomplete"] * 3 + ["no_reference"], strict=False)
    missing = [each.model_copy(update={"score": None, "status": status, "overall": None}) for each, status in lacking]
    keep(tmp_path, BASE, [*missing, *rows[4:]], candidates=("gaps",))
    keep(tmp_path, NEW, [*outcomes("few", [WON] * 7), *outcomes("new", [WON] * 30)], candidates=("few", "new"))
    write_run(tmp_path, start(LAST, started_at="2026-11-21T12:00:00+00:00", candidates=("new",)), [judgment()], None)
    land(tmp_path)
    with held_open(tmp_path):
        results = {name: least_score(tmp_path, "diagram", name, 50) for name in ("gaps", "few", "new")}
    assert {found.decision for found in results.values()} == {"cannot tell"}
    assert {name: found.unsure for name, found in results.items()} == {
        "gaps": (f"96 of 100 samples of gaps have a score in {BASE} (3 incomplete, 1 no reference): less than 97%",),
        "few": ("there are 7 to go by, and no interval below 8",),
        "new": (f"a newer run of new, {LAST}, has not finished",),
    }


def test_failed_controls_are_printed_but_do_not_change_the_decision(tmp_path: Path, jury: Any) -> None:
    name = "<img src=x>|[a](http://b)\n# c"
    accused = outcomes(name, [WON] * 9, control="same picture")
    keep(tmp_path, NEW, [*outcomes(name, [WON] * 30), *accused], candidates=(name,))
    land(tmp_path)
    code, out, _ = jury("gate", "--flow", "diagram", "--candidate", name, "--min", 50, "--store", tmp_path)
    assert code == 0 and "**Controls RED: false preference 36 of 36: do not trust this judge's scores.**" in out
    assert "<img" not in out.replace("\\<", "") and "\n# c" not in out, "the name is escaped in Markdown"


# Output


DECIDED: dict[str, tuple[list[tuple[str, str]], int, str, str]] = {
    "same": ([WON] * 60, 0, "passes", "0.0 [−6.0, +6.0], n = 60 samples; the lower"),
    "less": ([LOST] * 60, 4, "fails", "−100.0 [−100.0, −88.1], n = 60 samples; the u"),
    "near": ([WON] * 50 + [LOST] * 10, 5, "cannot tell", "−16.7 ["),
}
"""Candidate -> its results, exit code, decision, and its difference from sixty won samples."""


def test_output_and_exit_code_state_the_decision(tmp_path: Path, jury: Any) -> None:
    keep(tmp_path, BASE, outcomes("base", [WON] * 60), candidates=("base",))
    rows = [row for name, (results, *_) in DECIDED.items() for row in outcomes(name, results)]
    keep(tmp_path, NEW, rows, candidates=(*DECIDED,))
    land(tmp_path)
    for name, (_, code, decision, words) in DECIDED.items():
        command = ["gate", "--flow", "diagram", "--candidate", name, "--against", "base", "--margin", 10]
        found, out, _ = jury(*command, "--store", tmp_path)
        assert found == code and out.startswith(f"### diagram, {name}: {decision}\n\n{name} against base: {words}")
        assert "| overall | 100.0 |" in out and f"- {name}: run {NEW}\n- base: run {BASE}\n" in out
    found, out, _ = jury(*command, "--store", tmp_path, "--json")
    assert found == code and json.loads(out)["decision"] == decision


@pytest.mark.parametrize(
    "given",
    [
        [], ["--against", "base"], ["--margin", 5], ["--min", 9, "--against", "base", "--margin", 5],
        ["--min", 9, "--across", "model"],
    ],
)  # fmt: skip
def test_incomplete_or_conflicting_options_are_refused(given: Sequence[object], jury: Any) -> None:
    code, _, err = jury("gate", "--flow", "diagram", "--candidate", "new", *given)
    assert code == 2 and "a gate takes --against NAME with --margin POINTS, or --min SCORE alone" in err
