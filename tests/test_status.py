"""`jury status` without a server; what it says of one that is up is in `test_up`."""

from pathlib import Path
from typing import Any

import pytest
from factories import end, judgment, outcome, start, write_run

from tasks.history.loading import sync


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


def test_a_store_that_is_not_there_is_not_in_step(tmp_path: Path, jury: Any) -> None:
    code, out, _ = jury("status", "--store", tmp_path / "nowhere")
    assert code == 3 and "there is no store" in out and "in step" not in out
    assert not (tmp_path / "nowhere").exists()


def test_a_finished_run_is_told_and_whether_the_history_has_it(tmp_path: Path, jury: Any) -> None:
    write_run(tmp_path, start(), [judgment(), outcome()], end())
    code, out, _ = jury("status", "--store", tmp_path)
    assert code == 3 and "behind the ledgers" in out
    sync(tmp_path)
    code, out, _ = jury("status", "--store", tmp_path)
    assert code == 0 and "in step with the ledgers" in out
