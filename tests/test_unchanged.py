"""The sentence for a run that judged the same pictures as the one before."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from factories import end, image, outcome, picture, start, write_run

from tasks.comparing.unchanged import unchanged_words
from tasks.judging.results import Results
from tasks.records import Outcome


def night(day: int, hour: int = 3) -> str:
    return f"202611{day:02}T{hour:02}0000000-diagram-00000{day % 10}"


def judged(store: Path, day: int, rows: Iterable[Outcome], finished: bool = True, **changes: Any) -> Path:
    at = datetime(2026, 11, day, 3, tzinfo=UTC).isoformat()
    run = start(night(day), **{"evaluation_id": night(day), "started_at": at, **changes})
    return write_run(store, run, list(rows), end() if finished else None)


def words(run: Path) -> str:
    return unchanged_words(run.parents[1], run.name)


def test_a_night_on_which_nothing_changed_names_the_run_before(tmp_path: Path) -> None:
    judged(tmp_path, 17, [outcome("s1"), outcome("s2")])
    judged(tmp_path, 18, [outcome("s2"), outcome("s1", verdicts="HHHH", overall="Human")])
    run = judged(tmp_path, 19, [outcome("s1"), outcome("s2")], finished=False)
    assert words(run) == (
        f"Nothing changed since run {night(18)} of 2026-11-18 03:00 UTC: same dataset, same pictures; "
        "differences between the two are the judge's."
    )


def test_what_was_asked_otherwise_is_not_the_judges(tmp_path: Path) -> None:
    judged(tmp_path, 18, [outcome()], protocol={"temperature": "1.0", "votes": "1", "detail": "auto"})
    run = judged(tmp_path, 19, [outcome()], protocol={"temperature": "0", "votes": "1"})
    assert words(run).endswith("the judge's or come of what was asked otherwise: detail, temperature.")


def other_picture() -> Outcome:
    return outcome(pictures={"human": picture("s1h"), "model": picture("new")})


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        ([other_picture()], {}),
        ([outcome(status="forfeit", pictures={"human": picture("s1h")})], {}),
        ([outcome(), outcome("s2")], {}),
        ([outcome()], {"dataset_key": "e" * 64}),
        ([outcome()], {"candidates": ("beta",)}),
        ([outcome()], {"flow": "plot"}),
        ([outcome()], {"evaluation_id": night(18)}),
    ],
    ids=["picture", "no picture", "sample", "dataset", "candidate", "flow", "shard beside it"],
)
def test_a_night_on_which_something_changed_says_nothing(
    tmp_path: Path, rows: list[Outcome], changes: dict[str, Any]
) -> None:
    judged(tmp_path, 18, [outcome()])
    assert words(judged(tmp_path, 19, rows, **changes)) == ""


def test_only_the_newest_finished_run_of_the_same_is_compared(tmp_path: Path) -> None:
    judged(tmp_path, 15, [outcome()])
    judged(tmp_path, 16, [other_picture()])
    judged(tmp_path, 17, [outcome()], finished=False)
    judged(tmp_path, 18, [outcome()], dataset_key="e" * 64)
    run = judged(tmp_path, 19, [outcome()])
    judged(tmp_path, 20, [outcome()])
    assert words(run) == ""


@pytest.mark.parametrize("file", ["run.json", "outcomes.jsonl"])
def test_a_run_after_a_damaged_ledger_says_nothing(tmp_path: Path, file: str) -> None:
    (judged(tmp_path, 18, [outcome()]) / file).write_text("{\n")
    assert words(judged(tmp_path, 19, [outcome()])) == ""


def pictures_key(outcomes: Sequence[Outcome]) -> str:
    flow = outcomes[0].flow
    results = Results(start(flow=flow, parameters={"threshold": 7.0}), [])
    for each in outcomes:
        results.add(each)
    return results.pictures_key


def test_the_pictures_of_a_run_are_the_candidates_whatever_their_order() -> None:
    rows = [image("0/0"), image("0/1"), image("1/0", score=None)]
    assert pictures_key(rows) == pictures_key([*reversed(rows)])
    assert pictures_key(rows) != pictures_key([*rows[:2], image("1/0", pictures={})])
    swapped = [image("0/0", pictures=rows[1].pictures), image("0/1", pictures=rows[0].pictures), rows[2]]
    assert pictures_key(rows) != pictures_key(swapped)
    human = outcome(pictures={"human": picture("another"), "model": picture("s1m")})
    assert pictures_key([human]) == pictures_key([outcome()])
