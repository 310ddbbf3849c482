"""The lock files: every package at one version with its hashes, and no word of where it was downloaded from."""

import re
import tomllib
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1]
DEVELOPERS, WORKERS = HOUSE / "requirements.lock", HOUSE / "deployments" / "requirements.lock"
PINNED = re.compile(r"[a-z0-9][a-z0-9-]*==[^ ;]+( ; [\w'<>=!. ()]+)?( --hash=sha256:[0-9a-f]{64})+")


def pins(lock: Path) -> dict[str, list[str]]:
    """Name and version of each package, with all that stands in its lines."""
    lines = lock.read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    return {line.split()[0]: [" ".join(line.split())] for line in lines}


@pytest.mark.parametrize("lock", [DEVELOPERS, WORKERS], ids=["developers", "workers"])
def test_a_lock_holds_pinned_packages_with_hashes_and_nothing_else(lock: Path) -> None:
    lines = [line for each in pins(lock).values() for line in each]
    assert len(lines) > 100 and [line[:80] for line in lines if not PINNED.fullmatch(line)] == []


def test_workers_have_what_developers_test_with() -> None:
    only_there = {name.partition("==")[0] for name in pins(WORKERS).keys() - pins(DEVELOPERS).keys()}
    assert only_there == {"prefect-redis"}
    assert not {name.partition("==")[0] for name in pins(WORKERS)} & {"pytest", "moto", "pyright", "playwright"}


def test_the_locks_hold_what_the_project_asks_for() -> None:
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = {name.partition("==")[0] for name in pins(WORKERS)}
    wanted = [*project["dependencies"], *project["optional-dependencies"]["s3"]]
    assert {re.split(r"[\[<>=]", one)[0] for one in wanted} <= locked


def test_what_is_installed_is_checked_against_the_hashes() -> None:
    for file in (HOUSE / "Makefile", HOUSE / "deployments" / "Dockerfile"):
        assert "--no-deps --require-hashes --requirement" in file.read_text(encoding="utf-8")
