"""What a store holds is for its user alone, also where its folder was made by hand and everybody may enter it."""

import stat
from pathlib import Path
from typing import Any

import pytest

from flows.commands.faults import LOG, tell_fault
from flows.runtime.server import home, made_home


def open_to_others(store: Path) -> list[str]:
    """What somebody else may enter or read in a store."""
    found: list[str] = []
    for path in store.iterdir():
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            found.append(path.name)
    return found


def read_by_others(folder: Path) -> list[Path]:
    """Files of a folder that somebody else may read where they are taken out of it."""
    return [path for path in folder.rglob("*") if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077]


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("by_hand", [True, False])
def test_nobody_else_reads_what_a_run_leaves(tmp_path: Path, jury: Any, by_hand: bool) -> None:
    store = tmp_path / "above" / "store"
    if by_hand:
        store.mkdir(parents=True)
        store.chmod(0o755)
    assert jury("run", "position", "--limit", 1, "--store", store)[0] == 0
    made_home(store)
    tell_fault(ValueError("a fault"), {"store": str(store)})
    assert {"ledger", "pictures", "history.duckdb", home(store).name, LOG} <= {path.name for path in store.iterdir()}
    assert open_to_others(store) == []
    assert read_by_others(store / "ledger") == read_by_others(store / "pictures") == []
    assert any((store / "pictures").glob("*.jpg")) and any((store / "ledger").glob("*/judgments.jsonl"))
    assert stat.S_IMODE(store.stat().st_mode) == (0o755 if by_hand else 0o700)
    told = jury("status", "--store", store)[1]
    assert ("other users of this machine may enter it: chmod 700" in told) is by_hand
    assert jury("sync", "--rebuild", "--store", store)[0] == 0
    assert open_to_others(store) == []
