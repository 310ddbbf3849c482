"""`JURY_ROOTS` on a worker: no parameter may name a place outside the roots, however written."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flows.commands.options import PLACES
from tasks.datasets.paths import FENCED, ROOTS, check_place, resolved
from tasks.errors import InputError
from tasks.records.parameters import PairwiseParameters, RubricParameters

NOW = datetime(2026, 11, 20, 3, 5, tzinfo=UTC)
NO_PLACES = {
    *("candidate_name", "ids", "candidate", "evaluation_id", "category", "difficulty", "split", "stage", "orders"),
    *("tag", "shard_of", "run"),
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the one folder that runs may use, beside a bucket."""
    inside = tmp_path / "data"
    inside.mkdir()
    (tmp_path / "secret.jsonl").write_text("{}")
    (tmp_path / "database").mkdir()
    (inside / "out").symlink_to(tmp_path)
    (inside / "set.jsonl").write_text("{}")
    (inside / "linked.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (inside / "round").symlink_to(inside / "round")
    monkeypatch.setenv(ROOTS, f"{inside}, s3://bucket/prefix")
    monkeypatch.chdir(inside)
    return inside


def test_all_parameters_that_name_places_are_checked() -> None:
    fields = {**PairwiseParameters.model_fields, **RubricParameters.model_fields}
    words = {name for name, info in fields.items() if info.annotation is str or info.default == []}
    assert words - NO_PLACES == {*FENCED} & fields.keys()
    assert {*PLACES} <= {*FENCED}


OUTSIDE = [
    "/etc/passwd",
    "/etc/*.conf",
    "..",
    "../secret.jsonl",
    "../database",
    "out/secret.jsonl",
    "out",
    "linked.jsonl",
    "round/x",
    "~/.ssh/authorized_keys",
    "~nobody-there/x",
    "x/../../secret.jsonl",
    "*/../../secret.jsonl",
    "out/*.jsonl",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "s3://other/prefix",
    "s3://bucket/prefix-2/x",
    "s3://bucket/prefix/../other",
    "s3://bucket/prefix/%2e%2e/other",
    "simplecache::s3://bucket/prefix/x",
    "http://127.0.0.1:8000/x",
]


@pytest.mark.parametrize("place", OUTSIDE)
@pytest.mark.parametrize("field", FENCED)
@pytest.mark.usefixtures("root")
def test_place_outside_the_roots_is_refused(field: str, place: str) -> None:
    with pytest.raises(InputError, match=r"leads outside of .*, the places that JURY_ROOTS allows here"):
        check_place(field, place)


@pytest.mark.parametrize("place", ["", ".", "set.jsonl", "new/{date}/x.jsonl", "*.jsonl", "a/../set.jsonl"])
@pytest.mark.parametrize("field", FENCED)
def test_place_inside_the_roots_is_accepted(field: str, place: str, root: Path) -> None:
    check_place(field, place)
    check_place(field, str(root / place))
    check_place(field, "s3://bucket/prefix")
    check_place(field, "s3://bucket/prefix/x/")


def test_links_of_a_root_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    monkeypatch.setenv(ROOTS, str(tmp_path / "data"))
    check_place("dataset", str(tmp_path / "data" / "x"))
    check_place("dataset", str(tmp_path / "disk" / "x"))


def test_all_outside_places_are_reported_before_any_lookup(root: Path) -> None:
    given: dict[str, Any] = {"dataset": "/etc/*", "results": "linked.jsonl", "store": "/srv/x", "prompt_set": "/etc"}
    with pytest.raises(InputError) as caught:
        resolved(PairwiseParameters.model_validate(given), NOW)
    words = str(caught.value)
    assert "4 problems" in words and all(f"{field}: " in words for field in given)
    assert "no file or folder matches" not in words and "secret" not in words.replace("linked.jsonl", "")
    # A pattern may match a link out of the roots.
    with pytest.raises(InputError, match=r"results: .*linked.jsonl' leads outside of"):
        resolved(PairwiseParameters(results="link*.jsonl"), NOW)


def test_the_workers_own_places_are_accepted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_STORE", "/srv/own")
    for given in ({}, {"store": "/srv/own"}, {"prompt_set": "paper"}, {"dataset": "samples"}):
        resolved(PairwiseParameters.model_validate(given), NOW)
    assert resolved(RubricParameters(dataset="set.jsonl", export="x.jsonl"), NOW).export == "x.jsonl"
    monkeypatch.delenv(ROOTS)
    check_place("dataset", "/etc/passwd")


@pytest.mark.usefixtures("prefect_server")
def test_refused_run_writes_nothing_outside(root: Path, tmp_path: Path, jury: Any) -> None:
    for option, place in (("--export", "authorized_keys"), ("--store", "else"), ("--dataset", "secret.jsonl")):
        given = {"--store": root / "store", option: tmp_path / place}
        code, _, err = jury(
            "run", "position", "--dataset", "samples", "--limit", 1, *(word for pair in given.items() for word in pair)
        )
        assert code == 2 and "JURY_ROOTS" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "database", "secret.jsonl"]
