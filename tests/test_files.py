"""Files are written whole, or not at all, and one process at a time is alone with them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tasks.files import alone, write_whole

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
