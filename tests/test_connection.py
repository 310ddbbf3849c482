"""A Prefect server that is named and does not answer: every command that needs it says so, and none blames itself."""

import subprocess
from pathlib import Path

import pytest
from served import JURY, environment, free_port


@pytest.fixture
def nobody() -> str:
    """Address of a server that is not there."""
    return f"http://127.0.0.1:{free_port()}/api"


def run(nobody: str, *words: object) -> subprocess.CompletedProcess[str]:
    given = [JURY, *map(str, words)]
    settings = {**environment(), "PREFECT_API_URL": nobody}
    return subprocess.run(given, capture_output=True, text=True, env=settings, timeout=120)


@pytest.mark.parametrize("words", [["prepare"], ["up"], ["run", "diagram", "--limit", "1"]], ids=lambda words: words[0])
def test_a_server_that_is_not_there_is_one_sentence(words: list[str], nobody: str, tmp_path: Path) -> None:
    store = [] if words == ["prepare"] else ["--store", tmp_path / "store"]
    done = run(nobody, *words, *store)
    assert done.returncode == 2, done.stderr
    assert f"jury: the Prefect server of PREFECT_API_URL, {nobody}, does not answer: " in done.stderr
    assert "Traceback" not in done.stderr and "a fault of" not in done.stderr


def test_the_status_of_a_store_is_told_without_the_server_that_is_not_there(nobody: str, tmp_path: Path) -> None:
    done = run(nobody, "status", "--store", tmp_path / "store")
    assert done.returncode == 3 and "there is no store" in done.stdout
    assert f"the Prefect server of PREFECT_API_URL, {nobody}, does not answer: " in done.stdout
