"""What `jury query` prints: lines that can be piped, records on a narrow terminal, nothing that commands either."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from rich.cells import cell_len
from served import JURY, environment

DIGEST = "ab" * 32


@pytest.fixture
def store(tmp_path: Path, stored: Path) -> Path:
    return copytree(stored, tmp_path / "store")


def on_a_terminal(store: Path, question: str, columns: int) -> str:
    """What a person sees on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    command = [JURY, "query", question, "--store", str(store)]
    # A COLUMNS in the environment counts before the terminal's own width.
    env = {name: value for name, value in environment().items() if name != "COLUMNS"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=env) as process:
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 65536):
                shown += block
        except OSError:  # Linux's way to say that the other side is closed
            pass
        finally:
            os.close(ours)
        assert process.wait(60) == 0
    return shown.decode().replace("\r\n", "\n")


def test_a_table_is_aligned_lines_and_the_number_of_rows(store: Path, jury: Any) -> None:
    code, out, err = jury("query", "SELECT 'a' AS name, 1.5 AS x UNION ALL SELECT 'longer', NULL", "--store", store)
    assert (code, err) == (0, "")
    assert out == "name    x\n------  ---\na       1.5\nlonger\nrows: 2\n"


def test_piped_lines_are_as_wide_as_they_must_be_and_plain(store: Path, jury: Any) -> None:
    _, out, _ = jury("query", "SELECT repeat('x', 200) AS a, repeat('y', 200) AS b", "--store", store)
    assert f"{'x' * 200}  {'y' * 200}" in out.splitlines() and "\x1b" not in out


def test_wide_scripts_stay_in_their_columns(store: Path, jury: Any) -> None:
    _, out, _ = jury("query", "SELECT '図表' AS name, 'x' AS next UNION ALL SELECT 'abcdef', 'x'", "--store", store)
    lines = out.splitlines()[2:4]
    assert [cell_len(line.partition("x")[0]) for line in lines] == [8, 8]


def test_a_digest_is_shortened_in_a_table_and_whole_in_json(store: Path, jury: Any) -> None:
    question = f"SELECT '{DIGEST}' AS sha256, '{DIGEST}0' AS other"
    _, out, _ = jury("query", question, "--store", store)
    assert out.splitlines()[2] == f"{DIGEST[:12]}  {DIGEST}0"
    _, out, _ = jury("query", question, "--json", "--store", store)
    assert json.loads(out) == [{"sha256": DIGEST, "other": f"{DIGEST}0"}]


def test_texts_of_strangers_command_no_terminal(store: Path, jury: Any) -> None:
    question = "SELECT chr(27) || '[2J' || chr(10) || 'text' || chr(8238) AS \"a\x1b[2Jb\""
    _, out, _ = jury("query", question, "--store", store)
    assert out.splitlines()[0] == "a [2Jb" and out.splitlines()[2] == "[2J text"


def test_rows_wider_than_the_terminal_are_records(store: Path) -> None:
    question = "SELECT 'one' AS first, repeat('x', 30) AS second FROM range(2)"
    assert on_a_terminal(store, question, 36) == 2 * f"first   one\nsecond  {'x' * 30}\n\n" + "rows: 2\n"
    assert on_a_terminal(store, question, 37).splitlines()[2:] == 2 * [f"one    {'x' * 30}"] + ["rows: 2"]
