"""Paths with a date or a pattern name another file in each run."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from factories import slip

from tasks.datasets.paths import resolved
from tasks.errors import InputError
from tasks.records.parameters import PairwiseParameters, Parameters, RubricParameters

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
def test_a_date_stands_for_the_day_of_the_run_in_paths_and_in_no_other_name(path: str, meant: str) -> None:
    given = rubric(dataset=path, metadata=path, export=path)
    assert resolved(given, NOW) == rubric(dataset=meant, metadata=meant, export=meant)
    assert resolved(pairwise(results=path, images=path), NOW) == pairwise(results=meant, images=meant)
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


def test_a_pattern_stands_for_what_was_modified_last_and_of_several_for_the_last_by_name(tmp_path: Path) -> None:
    written(tmp_path / "run_10.json", 300)
    written(tmp_path / "run_9.json", 200)
    written(tmp_path / "run_8.txt", 400)
    written(tmp_path / ".run_11.json", 500)
    found = resolved(pairwise(results=str(tmp_path / "run_*.json")), NOW)
    assert found == pairwise(results=str(tmp_path / "run_10.json"))
    for name in ("b.json", "c.json", "a.json"):
        written(tmp_path / name, 100)
    assert resolved(pairwise(results=f"{tmp_path}/?.json"), NOW) == pairwise(results=f"{tmp_path}/c.json")


def test_a_pattern_finds_folders_at_any_depth_of_home_by_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("a\0*", "contains a NUL character"),
        ("{date:\0}", "contains a NUL character"),
        ("~no-such-user/x", "home directory"),
    ],
)
def test_a_path_that_cannot_be_one_is_the_users_mistake(path: str, words: str) -> None:
    with pytest.raises(InputError, match=f"dataset: .*{words}"):
        resolved(pairwise(dataset=path), NOW)


def test_a_fault_of_the_program_is_not_shown_as_a_path_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.datasets.paths.newest", slip)
    with pytest.raises(ValueError, match=r"^a slip$"):
        resolved(pairwise(dataset="a"), NOW)


@pytest.mark.parametrize(
    ("field", "url"), [("dataset", "https://github.com/djghosh13/geneval"), ("results", "s3://bucket/run.json")]
)
def test_a_url_in_place_of_a_path_is_refused(field: str, url: str):
    with pytest.raises(InputError) as told:
        resolved(PairwiseParameters.model_validate({field: url}), NOW)
    assert str(told.value) == (
        f"{field} {url!r} is a URL, and no URL is fetched: download it, and name the file or folder here"
    )
