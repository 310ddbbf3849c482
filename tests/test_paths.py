"""Paths with dates and patterns, resolved for each run."""

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


def write_modified_at(path: Path, second: int) -> Path:
    """Write a file with this modification time."""
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
def test_date_is_filled_in_in_paths_only(path: str, meant: str) -> None:
    given = rubric(dataset=path, metadata=path, export=path)
    assert resolved(given, NOW) == rubric(dataset=meant, metadata=meant, export=meant)
    assert resolved(pairwise(results=path, images=path), NOW) == pairwise(results=meant, images=meant)
    given = pairwise(store="{date}", candidate_name="{date}*")
    assert resolved(given, NOW) == given


def test_slash_behind_a_prompt_set_makes_no_other_series() -> None:
    meant = {"own/": "own", "own": "own", "paper/": "paper/", "paper": "paper", "/": "/"}
    assert {path: resolved(pairwise(prompt_set=path), NOW).prompt_set for path in meant} == meant


def test_all_problems_of_paths_are_reported_together() -> None:
    given = rubric(dataset="a/{day}", metadata="no/such/*.jsonl", export="out/*.jsonl")
    with pytest.raises(ValueError, match="3 problems") as caught:
        resolved(given, NOW)
    words = str(caught.value)
    assert "dataset: 'a/{day}' holds other braces; allowed are {date} and {date:FORMAT}" in words
    assert "metadata: no file or folder matches 'no/such/*.jsonl'" in words
    assert "export: 'out/*.jsonl' is a pattern; allowed is the name of one file" in words


def test_pattern_resolves_to_the_newest_file_then_the_last_name(tmp_path: Path) -> None:
    write_modified_at(tmp_path / "run_10.json", 300)
    write_modified_at(tmp_path / "run_9.json", 200)
    write_modified_at(tmp_path / "run_8.txt", 400)
    write_modified_at(tmp_path / ".run_11.json", 500)
    found = resolved(pairwise(results=str(tmp_path / "run_*.json")), NOW)
    assert found == pairwise(results=str(tmp_path / "run_10.json"))
    for name in ("b.json", "c.json", "a.json"):
        write_modified_at(tmp_path / name, 100)
    assert resolved(pairwise(results=f"{tmp_path}/?.json"), NOW) == pairwise(results=f"{tmp_path}/c.json")


def test_pattern_finds_dated_folders_below_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for number, day in enumerate(("2026-11-20", "2026-11-21")):
        folder = write_modified_at(tmp_path / "out" / "deep" / day / "done" / "0.png", 100).parent
        os.utime(folder, (100 + number, 100 + number))
    found = resolved(pairwise(images="~/out/**/{date}/d*e"), NOW)
    assert found == pairwise(images=str(tmp_path / "out" / "deep" / "2026-11-20" / "done"))


def test_pattern_skips_broken_links(tmp_path: Path) -> None:
    (tmp_path / "b.json").symlink_to(tmp_path / "gone")
    write_modified_at(tmp_path / "a.json", 100)
    assert resolved(pairwise(results=f"{tmp_path}/*.json"), NOW) == pairwise(results=f"{tmp_path}/a.json")


def test_existing_file_precedes_the_pattern(tmp_path: Path) -> None:
    named = write_modified_at(tmp_path / "run[1].json", 100)
    write_modified_at(tmp_path / "run1.json", 200)
    assert resolved(pairwise(results=str(named)), NOW) == pairwise(results=str(named))
    named.unlink()
    assert resolved(pairwise(results=str(named)), NOW) == pairwise(results=str(tmp_path / "run1.json"))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        *((path, "brace.*; allowed are") for path in ("{date", "date}", "{}", "{0}", "{date.year}", "{date!r}")),
        *((path, "other braces; allowed are") for path in ("{date[0]}", "{date:{date}}")),
        ("a\0*", "contains a NUL character"),
        ("{date:\0}", "contains a NUL character"),
        ("~no-such-user/x", "home directory"),
    ],
)
def test_impossible_path_is_an_input_error(path: str, words: str) -> None:
    with pytest.raises(InputError, match=f"dataset: .*{words}"):
        resolved(pairwise(dataset=path), NOW)


def test_internal_error_is_not_reported_as_a_wrong_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.datasets.paths.newest", slip)
    with pytest.raises(ValueError, match=r"^a slip$"):
        resolved(pairwise(dataset="a"), NOW)


@pytest.mark.parametrize(
    ("field", "url"), [("dataset", "https://github.com/djghosh13/geneval"), ("results", "s3://bucket/run.json")]
)
def test_url_instead_of_a_path_is_refused(field: str, url: str):
    with pytest.raises(InputError) as caught:
        resolved(PairwiseParameters.model_validate({field: url}), NOW)
    assert str(caught.value) == (
        f"{field} {url!r} is a URL, and no URL is fetched: download it, and name the file or folder here"
    )
