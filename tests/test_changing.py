"""Paths that mean another file each night, and the sentence for a night on which it was the same."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from factories import end, image, outcome, picture, start, write_run

from tasks.comparing.changing import pictures_key, resolved, unchanged_words
from tasks.parameters import PairwiseParameters, Parameters, RubricParameters
from tasks.records import Outcome

NOW = datetime(2026, 11, 20, 3, 5, tzinfo=UTC)


def pairwise(**values: str) -> Parameters:
    return PairwiseParameters.model_validate(values)


def rubric(**values: str) -> Parameters:
    return RubricParameters.model_validate(values)


def written(path: Path, second: int) -> Path:
    """A file that was modified in this second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (second, second))
    return path


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("samples", "samples"),
        ("~/out/{date}/images", "~/out/2026-11-20/images"),
        ("out/{date:%Y%m%d}-{date:%H}.json", "out/20261120-03.json"),
        ("out/{date:%Y/%m}/x", "out/2026/11/x"),
        ("out/{{date}}/x", "out/{date}/x"),
    ],
)
def test_a_date_stands_for_the_day_of_the_run(path: str, meant: str) -> None:
    given = rubric(dataset=path, metadata=path, export=path)
    assert resolved(given, NOW) == rubric(dataset=meant, metadata=meant, export=meant)
    assert resolved(pairwise(results=path, images=path), NOW) == pairwise(results=meant, images=meant)


def test_names_that_are_no_paths_are_left_as_they_are() -> None:
    given = pairwise(store="{date}", candidate_name="{date}*")
    assert resolved(given, NOW) == given


def test_everything_wrong_is_told_at_once() -> None:
    given = rubric(dataset="a/{day}", metadata="no/such/*.jsonl", export="out/*.jsonl")
    with pytest.raises(ValueError, match="3 problems") as told:
        resolved(given, NOW)
    words = str(told.value)
    assert "dataset: 'a/{day}' holds other braces; allowed are {date} and {date:FORMAT}" in words
    assert "metadata: no file or folder matches 'no/such/*.jsonl'" in words
    assert "export: 'out/*.jsonl' is a pattern; allowed is the name of one file" in words


@pytest.mark.parametrize(
    "path", ["{date", "date}", "{}", "{0}", "{date.year}", "{date!r}", "{date[0]}", "{date:{date}}"]
)
def test_braces_hold_a_date_and_nothing_else(path: str) -> None:
    with pytest.raises(ValueError, match=r"dataset: .* brace.*; allowed are"):
        resolved(pairwise(dataset=path), NOW)


def test_a_pattern_stands_for_what_was_modified_last(tmp_path: Path) -> None:
    written(tmp_path / "run_10.json", 300)
    written(tmp_path / "run_9.json", 200)
    written(tmp_path / "run_8.txt", 400)
    written(tmp_path / ".run_11.json", 500)
    found = resolved(pairwise(results=str(tmp_path / "run_*.json")), NOW)
    assert found == pairwise(results=str(tmp_path / "run_10.json"))


def test_of_files_modified_together_the_last_by_name_counts(tmp_path: Path) -> None:
    for name in ("b.json", "c.json", "a.json"):
        written(tmp_path / name, 100)
    found = resolved(pairwise(results=str(tmp_path / "?.json")), NOW)
    assert found == pairwise(results=str(tmp_path / "c.json"))


def test_a_pattern_finds_folders_at_any_depth_below_home_on_a_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for number, day in enumerate(("2026-11-20", "2026-11-21")):
        folder = written(tmp_path / "out" / "deep" / day / "done" / "0.png", 100).parent
        os.utime(folder, (100 + number, 100 + number))
    found = resolved(pairwise(images="~/out/**/{date}/d*e"), NOW)
    assert found == pairwise(images=str(tmp_path / "out" / "deep" / "2026-11-20" / "done"))


def test_a_link_to_nothing_is_no_match(tmp_path: Path) -> None:
    (tmp_path / "b.json").symlink_to(tmp_path / "gone")
    written(tmp_path / "a.json", 100)
    assert resolved(pairwise(results=f"{tmp_path}/*.json"), NOW) == pairwise(results=f"{tmp_path}/a.json")


def test_a_file_of_that_very_name_is_no_pattern(tmp_path: Path) -> None:
    named = written(tmp_path / "run[1].json", 100)
    written(tmp_path / "run1.json", 200)
    assert resolved(pairwise(results=str(named)), NOW) == pairwise(results=str(named))
    named.unlink()
    assert resolved(pairwise(results=str(named)), NOW) == pairwise(results=str(tmp_path / "run1.json"))


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


def test_the_pictures_of_a_run_are_the_candidates_whatever_their_order() -> None:
    rows = [image("0/0"), image("0/1"), image("1/0", score=None)]
    assert pictures_key(rows) == pictures_key([*reversed(rows)])
    assert pictures_key(rows) != pictures_key([*rows[:2], image("1/0", pictures={})])
    swapped = [image("0/0", pictures=rows[1].pictures), image("0/1", pictures=rows[0].pictures), rows[2]]
    assert pictures_key(rows) != pictures_key(swapped)
    human = outcome(pictures={"human": picture("another"), "model": picture("s1m")})
    assert pictures_key([human]) == pictures_key([outcome()])
