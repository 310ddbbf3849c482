"""Results of outcomes: equal whether added during a run or read from its ledger, and read only once."""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from factories import RUN, end, image, judgment, line, outcome, start, write_run
from written_datasets import write_figures

from flows.cli import main
from tasks.errors import InputError
from tasks.judging.results import LOWEST, Results, keep_results, results_of
from tasks.ledger.run_files import OUTCOMES, read_start
from tasks.records import Outcome, RunStart

ROWS = [
    outcome("s1", "MMMM", "Model", category="agent", injected="black", caught=True),
    outcome("s2", "HGHG", "Human", category="vision"),
    outcome("s3", "----", None, status="incomplete"),
    outcome("s1", "MMMM", "Model", control="instruction"),
    outcome("s2", "GGGG", "Tie", control="same picture"),
]
ASKED = [judgment(name, order=order) for name in ("s1", "s2") for order in ("human_first", "model_first")]
TWICE = start(parameters={"orders": "both", "votes": 1})


def all_results(results: Results) -> tuple[object, ...]:
    """Return all numbers of the results."""
    return results.scores, results.rates, results.controls, results.outcomes, dict(results.by_candidate)


def add_all(rows: list[Outcome], runs: list[Path]) -> Results:
    results = Results(TWICE, runs)
    for row in rows:
        results.add(row)
    return results


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path, TWICE, [*ROWS, *ASKED], end())


def test_added_outcomes_give_the_same_results_as_the_ledger(run: Path) -> None:
    added, read = add_all(ROWS, [run]), results_of(TWICE, [run])
    assert all_results(added) == all_results(read) and read.controls
    assert {"first_position", "pivotal"} <= {row.measure for row in read.rates}


def test_ledger_is_reread_only_after_it_has_grown(run: Path) -> None:
    first = results_of(TWICE, [run])
    assert results_of(TWICE, [run]) is first
    with (run / OUTCOMES).open("ab") as file:
        file.write(line(outcome("s4")).encode())
    again = results_of(TWICE, [run])
    assert again.outcomes.statuses["complete"] == first.outcomes.statuses["complete"] + 1


def test_kept_results_replace_reading_the_ledger(run: Path) -> None:
    results = add_all(ROWS, [run])
    keep_results(results, [run])
    assert results_of(TWICE, [run]) is results


def test_cache_keeps_results_of_few_evaluations(tmp_path: Path) -> None:
    runs = [write_run(tmp_path, start(f"{RUN[:-1]}{number}"), [outcome()], end()) for number in range(6)]
    first, *_ = [results_of(read_start(each), [each]) for each in runs]
    assert results_of(read_start(runs[0]), [runs[0]]) is not first


def test_damaged_ledger_is_an_error(run: Path) -> None:
    (run / OUTCOMES).write_text("{\n")
    with pytest.raises(InputError, match=r"outcomes\.jsonl, line 1"):
        results_of(TWICE, [run])


@pytest.mark.parametrize("flow", ["diagram", "counting"])
def test_sample_takes_less_than_600_bytes_in_results(flow: str) -> None:
    """For 100,000 samples, a kilobyte each is as much as a whole run should take."""
    many, (begun, row) = 500, OUTCOMES_OF[flow]
    results = Results(begun, [])
    for _ in range(LOWEST):  # these are kept whole
        results.add(row(0))
    tracemalloc.start()
    try:
        for number in range(1, many + 1):
            results.add(Outcome.model_validate_json(row(number).model_dump_json()))
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken / many < 600


OUTCOMES_OF: dict[str, tuple[RunStart, Callable[[int], Outcome]]] = {
    "diagram": (start(), lambda n: outcome(f"s{n}", "MHGB", "Tie", category="ab"[n % 2], difficulty="xy"[n % 2])),
    "counting": (start(flow="counting", parameters={"threshold": 7.0}), lambda n: image(f"{n // 4}/{n % 4}", n % 11)),
}


def test_run_reads_its_outcomes_once_at_the_end(
    tmp_path: Path, prefect_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Controls and both orders take the most computing; the final output must not read the file again."""
    opened, open_file = list[str](), os.open

    def open_and_record(path: str, flags: int, *more: int, **named: int) -> int:
        if str(path).endswith(OUTCOMES) and flags & os.O_ACCMODE == os.O_RDONLY:
            opened.append(path)
        return open_file(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", open_and_record)
    given = [*write_figures(tmp_path / "data", 4), "--store", str(tmp_path / "store")]
    assert main(["run", "diagram", *given, "--orders", "both", "--controls", "0.5"]) == 0
    [run] = (tmp_path / "store" / "ledger").iterdir()
    assert opened == [str(run / OUTCOMES)] and (run / OUTCOMES).stat().st_size
