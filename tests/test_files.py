"""Files are written whole, or not at all, and one process at a time is alone with them."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.files import alone, keep_private, private_folder, write_whole

TAKE = """
import sys
from pathlib import Path
from tasks.files import alone
print("waiting", flush=True)
with alone(Path(sys.argv[1])):
    print(Path(sys.argv[2]).exists(), flush=True)
"""


def test_a_file_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for data in (b"a longer text", b"text"):
        write_whole(tmp_path / "file", data)
    assert (tmp_path / "file").read_bytes() == b"text"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_cannot_be_put_in_its_place_leaves_no_draft_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(tmp_path / "folder", b"text")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("name", ["file", "."])
def test_another_process_waits_until_nobody_is_alone_there(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-c", TAKE, str(tmp_path / name), str(tmp_path / "done")]
    with alone(tmp_path / name):
        other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
        assert other.stdout and other.stdout.readline() == "waiting\n"
        (tmp_path / "done").touch()
    assert other.communicate(timeout=30)[0] == "True\n"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o002)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_usual_umask")
def test_a_private_folder_and_those_above_it_are_for_this_user_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    private_folder(tmp_path / "store" / "ledger" / "run")
    assert [mode(tmp_path / name) for name in ("store", "store/ledger", "store/ledger/run")] == [0o700] * 3
    assert mode(tmp_path) == 0o755, "what is there stays as it is"
    private_folder(tmp_path)
    (tmp_path / "file").touch()
    keep_private(tmp_path / "file")
    assert (mode(tmp_path), mode(tmp_path / "file")) == (0o755, 0o600)


@pytest.mark.usefixtures("_usual_umask")
def test_what_is_made_in_a_folder_of_a_group_is_for_that_group_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o2770)
    private_folder(tmp_path / "ledger" / "run")
    (tmp_path / "history").touch()
    keep_private(tmp_path / "history")
    assert [mode(tmp_path / name) for name in ("ledger", "ledger/run", "history")] == [0o2770, 0o2770, 0o660]


def test_a_private_folder_does_not_take_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        private_folder(tmp_path / "file")
