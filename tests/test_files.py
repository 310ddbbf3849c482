"""Files: written whole or not at all, locked between processes, and read safely even if strangers wrote them."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from factories import judgment, line, start
from full_disk import files_of

from tasks.errors import InputError
from tasks.files import (
    LeadsOut,
    alone,
    keep_private,
    open_regular,
    private_folder,
    read_regular,
    real_place,
    write_whole,
)
from tasks.ledger.run_files import JUDGMENTS, Ledger, read_judgments

TAKE = """
import sys
from pathlib import Path
from tasks.files import alone
print("waiting", flush=True)
with alone(Path(sys.argv[1])):
    print(Path(sys.argv[2]).exists(), flush=True)
"""


def test_write_whole_replaces_files_but_no_folder(tmp_path: Path) -> None:
    for data in (b"a longer text", b"text"):
        write_whole(tmp_path / "file", data)
    assert (tmp_path / "file").read_bytes() == b"text"
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(tmp_path / "folder", b"text")
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder"}


@pytest.mark.parametrize("name", ["file", "."])
def test_lock_makes_another_process_wait(name: str, tmp_path: Path) -> None:
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
def test_private_folder_is_created_for_its_user_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    private_folder(tmp_path / "store" / "ledger" / "run")
    assert [mode(tmp_path / name) for name in ("store", "store/ledger", "store/ledger/run")] == [0o700] * 3
    assert mode(tmp_path) == 0o755, "existing folders keep their mode"
    private_folder(tmp_path)
    (tmp_path / "file").touch()
    keep_private(tmp_path / "file")
    assert (mode(tmp_path), mode(tmp_path / "file")) == (0o755, 0o600)
    with pytest.raises(FileExistsError):
        private_folder(tmp_path / "file")


@pytest.mark.usefixtures("_usual_umask")
def test_files_in_a_group_folder_are_open_to_the_group(tmp_path: Path) -> None:
    tmp_path.chmod(0o2770)
    private_folder(tmp_path / "ledger" / "run")
    (tmp_path / "history").touch()
    keep_private(tmp_path / "history")
    assert [mode(tmp_path / name) for name in ("ledger", "ledger/run", "history")] == [0o2770, 0o2770, 0o660]


# Files of strangers


def test_regular_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    assert read_regular(tmp_path / "file", 4) == b"text"
    with pytest.raises(InputError, match="file: refused: it has more than 3 bytes"):
        read_regular(tmp_path / "file", 3)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "nothing", 4)


def test_links_pipes_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (("link", "it is a link"), ("pipe", "no regular file"), (".", "no regular file")):
        with pytest.raises(InputError, match=reason):
            open_regular(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        ("in/file", True),
        ("in/link", True),
        ("in/round/file", True),
        ("by/file", True),
        ("in/away", False),
        ("in/folder/file", False),
        ("in/../out/file", False),
        ("inside/file", False),
    ],
)
def test_opened_file_must_lie_within_the_folders(tmp_path: Path, name: str, is_read: bool) -> None:
    for folder in ("in", "out", "inside"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_bytes(b"text")
    links = {"in/link": "in/file", "in/round": "in", "by": "in", "in/away": "out/file", "in/folder": "out"}
    for link, target in links.items():
        (tmp_path / link).symlink_to(tmp_path / target)
    within = (real_place(tmp_path / "by"), str(tmp_path / "elsewhere"))
    assert within[0] == str((tmp_path / "in").resolve())
    assert real_place(tmp_path / "nothing") == str((tmp_path / "nothing").resolve())
    if is_read:
        assert read_regular(tmp_path / name, 4, within) == b"text"
    else:
        with pytest.raises(LeadsOut, match=r"refused: it leads to .*/file, outside of .*/in and .*/elsewhere"):
            read_regular(tmp_path / name, 4, within)


# A full disk


def test_full_disk_error_names_the_file_and_leaves_no_draft(tmp_path: Path) -> None:
    with files_of(1_000), pytest.raises(OSError, match="File too large") as raised:
        write_whole(tmp_path / "file", b"x" * 2_000)
    assert raised.value.filename == str(tmp_path / "file")
    assert not any(tmp_path.iterdir())


def test_ledger_on_a_full_disk_holds_only_whole_rows(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, start())
    row, fit = judgment(), 3
    room = fit * len(line(row)) + 500
    with files_of(room), pytest.raises(OSError, match=r"No space left on device after 500 bytes of a row") as raised:
        for _ in range(fit + 1):
            ledger.append(row)
    assert raised.value.filename == str(ledger.folder / JUDGMENTS)
    assert list(read_judgments(ledger.folder)) == [row] * fit
    assert (ledger.folder / JUDGMENTS).read_text() == line(row) * fit
    with files_of(fit * len(line(row))), pytest.raises(OSError, match="File too large") as raised:
        ledger.append(row)
    assert raised.value.filename == str(ledger.folder / JUDGMENTS)
    ledger.append(row)  # the disk has space again
    ledger.close()
    assert list(read_judgments(ledger.folder)) == [row] * (fit + 1)
