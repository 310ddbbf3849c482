"""The candidate gate: its rule, which runs it compares, reasons for uncertainty, and its output."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from factories import LOST, WON, figures, image, judgment, start, write_run
from simulate_gate import CASES, Case, N, shares
from test_compare import Planned

from tasks.comparing.candidate_gate import Found, bounded, least_score, markdown, no_worse
from tasks.comparing.verdict import outcome_words
from tasks.errors import InputError
from tasks.history.landing import land
from tasks.history.queries import held_together
from tasks.records import BudgetStop, Outcome
from tasks.statistics.intervals import Bounded, difference, whole, with_missing

PLANNED = Planned()
plan = PLANNED.plan


def outcomes(candidate: str, results: Sequence[tuple[str, str]], **changes: Any) -> list[Outcome]:
    return figures(*results, candidate=candidate, **changes)


DECIDED: dict[str, tuple[list[tuple[str, str]], int, str, str]] = {
    "same": ([WON] * 60, 0, "passes", "0.0 [−6.0, +6.0], n = 60 samples; the lower"),
    "less": ([LOST] * 60, 4, "fails", "−100.0 [−100.0, −88.1], n = 60 samples; the u"),
    "near": ([WON] * 50 + [LOST] * 10, 5, "cannot tell", "−16.7 ["),
}
"""Candidate -> its results, exit code, decision, and its difference from sixty won samples."""
STATUSES = ["incomplete"] * 3 + ["no_reference"] + [""] * 96
GAPS = [
    each.model_copy(update={"score": None, "status": status, "overall": None} if status else {})
    for each, status in zip(outcomes("gaps", [WON] * 100), STATUSES, strict=True)
]
SIXTY, THIRTY, LOW = [WON] * 60, [WON] * 30, [LOST] * 30
BEFORE = {"perfect": [WON] * N, "base": SIXTY, "half": [WON] * 40 + [LOST] * 40}
AFTER = {"rarely lost": [LOST, LOST, *[WON] * (N - 2)], "few": [WON] * 7, "again": LOW, "begun": THIRTY}
BEFORE |= dict.fromkeys(("again", "one", "stopped", "two"), THIRTY)
AFTER |= {name: results for name, (results, *_) in DECIDED.items()}
BASE = plan([*GAPS, *(row for name, results in BEFORE.items() for row in outcomes(name, results))])
NEW = plan([row for name, results in AFTER.items() for row in outcomes(name, results)], 20)
plan([*outcomes("colder", THIRTY), *outcomes("one", LOW)], 21, key="q", protocol={"temperature": "0"})
plan(outcomes("again", LOW), 21, calls=0)  # reused all its replies
STOP = BudgetStop(budget=1.0, spent=0.9, judged=20, samples=30, is_random=True)
STOPPED = plan(outcomes("stopped", [WON] * 20), 20, samples=30, ended={"stopped": STOP})
PLOTS = plan([*outcomes("base", THIRTY), *outcomes("new", THIRTY)], 20, "plot")
ACCUSED = "<img src=x>|[a](http://b)\n# c"
plan([*outcomes(ACCUSED, THIRTY), *outcomes(ACCUSED, [WON] * 9, control="same picture")], 20)
for day, name, shift in ((19, "base", 0.0), (20, "new", -2.0)):
    images = [image(f"{n}/0", 6 + n % 3 + (n + day) % 2 + shift, tag="counting", candidate=name) for n in range(30)]
    plan(images, day, "counting")
UNFINISHED = "20261121T120000-diagram-000021"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with all planned runs and an unfinished one, held open."""
    store = tmp_path_factory.mktemp("gates")
    PLANNED.write(store)
    begun = start(UNFINISHED, started_at="2026-11-21T12:00:00+00:00", candidates=("begun",))
    write_run(store, begun, [judgment(candidate="begun")], None)
    land(store)
    with held_together(store):
        yield store


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


def test_few_differences_bound_the_interval(store: Path) -> None:
    """Two of 292 lost: by chance, at most 2.5% of all pairs are lost, so at most 2.5 points."""
    found = no_worse(store, "diagram", "rarely lost", "perfect", 5)
    assert found.decision == "passes" and found.found
    assert found.found.low == pytest.approx(-2.45, abs=0.02) and found.found.high == pytest.approx(1.26, abs=0.01)


def test_missing_scores_widen_the_interval() -> None:
    pairs = [float(number % 3 * 50) for number in range(90)]
    for after in (pairs, pairs[1:] + pairs[:1]):  # no pair differs, and many do
        found = difference(pairs, after)
        missing = with_missing(found, [(Bounded(None, 0.0, 100.0, 0.0), whole(50.0))] * 10)
        low, high = (bounded(each, 5, 100.0).low for each in (missing, found))
        assert low is not None and high is not None and low < high - 4


def test_score_is_compared_with_the_minimum(store: Path) -> None:
    decisions = [least_score(store, "diagram", "half", least).decision for least in (30, 50, 70)]
    assert decisions == ["passes", "cannot tell", "fails"]
    with pytest.raises(InputError, match="--min 101: scores of diagram lie between 0 and 100"):
        least_score(store, "diagram", "half", 101)


def test_images_are_compared_by_prompt(store: Path) -> None:
    found = no_worse(store, "counting", "new", "base", 1)
    assert found.decision == "fails" and found.found and found.found.n == 30
    assert least_score(store, "counting", "new", 5).decision == "passes"


# Choice of runs


def test_newer_run_stopped_at_its_budget_cannot_tell(store: Path) -> None:
    gates = least_score(store, "diagram", "stopped", 50), no_worse(store, "diagram", "stopped", "stopped", 5)
    for found in gates:
        assert (found.decision, found.run_id) == ("cannot tell", STOPPED)
        assert f"{STOPPED}: {STOP.sentence}" in found.unsure
    compared = gates[1].comparison
    assert compared and gates[1].against_run == BASE
    assert outcome_words(compared).startswith(f"{STOPPED}: {STOP.sentence} No difference shown for stopped since")


def test_baseline_is_the_same_run_else_the_newest_comparable_one(store: Path) -> None:
    found = no_worse(store, "diagram", "two", "one", 20)
    assert (found.decision, found.run_id, found.against_run) == ("passes", BASE, BASE)
    assert no_worse(store, "diagram", "same", "one", 20).against_run == BASE


def test_candidate_is_compared_with_its_earlier_measurement(store: Path) -> None:
    found = no_worse(store, "diagram", "again", "again", 5)
    assert (found.decision, found.against_run, found.run_id) == ("fails", BASE, NEW)
    assert "again against its run before: −100.0 [" in markdown(found)


def test_candidate_without_a_run_or_margin_that_any_keeps_is_an_input_error(store: Path, jury: Any) -> None:
    def refused(flow: str, *given: object) -> str:
        code, _, err = jury("gate", "--flow", flow, "--candidate", *given, "--store", store)
        assert code == 2
        return err

    found = refused("plot", "gone", "--min", 9)
    assert "no finished plot run has a candidate 'gone'; those judged are base, new" in found
    found = refused("plot", "new", "--against", "new", "--margin", 1)
    assert f"new has one finished plot run with replies of its own, {PLOTS}: there is none" in found
    for flow, margin in (("plot", "100"), ("counting", "10"), ("plot", "nan")):
        found = refused(flow, "new", "--against", "base", "--margin", margin)
        assert f"--margin {margin}: scores of {flow} lie between 0 and " in found


# Uncertainty


def test_incomparable_runs_cannot_tell_and_name_the_difference(store: Path) -> None:
    found = no_worse(store, "diagram", "colder", "half", 5)
    assert found.decision == "cannot tell" and "temperature: 1 → 0" in found.unsure[0]
    assert no_worse(store, "diagram", "colder", "perfect", 20, ["temperature"]).decision == "passes"


def test_missing_scores_few_samples_and_unfinished_runs_cannot_tell(store: Path) -> None:
    results = {name: least_score(store, "diagram", name, 50) for name in ("gaps", "few", "begun")}
    assert {found.decision for found in results.values()} == {"cannot tell"}
    assert {name: found.unsure for name, found in results.items()} == {
        "gaps": (f"96 of 100 samples of gaps have a score in {BASE} (3 incomplete, 1 no reference): less than 97%",),
        "few": ("there are 7 to go by, and no interval below 8",),
        "begun": (f"a newer run of begun, {UNFINISHED}, has not finished",),
    }


def test_failed_controls_are_printed_but_do_not_change_the_decision(store: Path, jury: Any) -> None:
    code, out, _ = jury("gate", "--flow", "diagram", "--candidate", ACCUSED, "--min", 50, "--store", store)
    assert code == 0 and "**Controls RED: false preference 36 of 36: do not trust this judge's scores.**" in out
    assert "<img" not in out.replace("\\<", "") and "\n# c" not in out, "the name is escaped in Markdown"


# Output


def test_output_and_exit_code_state_the_decision(store: Path, jury: Any) -> None:
    for name, (_, code, decision, words) in DECIDED.items():
        command = ["gate", "--flow", "diagram", "--candidate", name, "--against", "base", "--margin", 10]
        found, out, _ = jury(*command, "--store", store)
        assert found == code and out.startswith(f"### diagram, {name}: {decision}\n\n{name} against base: {words}")
        assert "| overall | 100.0 |" in out and f"- {name}: run {NEW}\n- base: run {BASE}\n" in out
    found, out, _ = jury(*command, "--store", store, "--json")
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
