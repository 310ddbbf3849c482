"""What `jury query` prints: lines that can be piped, what fits a terminal, nothing that commands either."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from factories import RUN
from rich.cells import cell_len
from served import JURY, environment
from terminals import shown_until_closed

from flows.commands import query
from tasks.history.asking import catalog
from tasks.history.database import _READER

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
        shown = shown_until_closed(ours)
        assert process.wait(60) == 0
    return shown


def test_a_command_that_succeeds_leaves_nothing_on_standard_error(store: Path) -> None:
    """What DuckDB's bindings say of themselves when a process ends is nothing that a user can act on."""
    command = [JURY, "query", "leaderboard", "--store", str(store)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


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


def test_a_narrow_terminal_gets_a_table_without_keys_methods_and_times_and_is_told(store: Path) -> None:
    shown = on_a_terminal(store, "leaderboard", 80).splitlines()
    assert shown[0].split() == ["run_id", "candidate", "dimension", "n", "score", "ci_low", "ci_high"]
    assert all(cell_len(line) <= 80 for line in shown[:-1]) and shown[2].split()[0] == RUN.partition("-")[0]
    told = "left out, as the terminal is narrow: "
    assert shown[-1].startswith(told) and shown[-1].endswith("; --json has all")
    left_out = shown[-1].removeprefix(told).partition(";")[0].split(", ")
    assert {"dataset_key", "protocol_key", "method", "started_at", "worst_low"} <= {*left_out}


def test_a_wide_terminal_gets_every_column_and_whole_ids(store: Path) -> None:
    shown = on_a_terminal(store, "leaderboard", 500)
    assert "protocol_key" in shown and RUN in shown and "left out" not in shown


def test_no_more_is_left_out_than_the_width_asks_for(store: Path) -> None:
    question = "SELECT 'k' AS dataset_key, 'm' AS method, repeat('x', 20) AS text"
    assert on_a_terminal(store, question, 30).splitlines()[0].split() == ["method", "text"]


def test_what_there_is_to_ask_for_fits_the_terminal(store: Path) -> None:
    lines = on_a_terminal(store, "", 80).splitlines()
    assert max(map(cell_len, lines)) <= 80
    told = "".join(each.name + each.comment for each in catalog(store))
    assert "".join("".join(lines).split()) == "".join(told.split())


def test_json_holds_nothing_that_commands_a_terminal(store: Path, jury: Any) -> None:
    strange = "\x1b[2J\x7f\x9b31m\u202e\u200b\ufeff 図 é"
    question = "SELECT " + " || ".join(f"chr({ord(char)})" for char in strange) + " AS text"
    _, out, _ = jury("query", question, "--json", "--store", store)
    assert json.loads(out) == [{"text": strange}]
    assert all(char.isprintable() or char == "\n" for char in out) and "図 é" in out


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT count(*) FROM range(1000000000000)", "took longer than it may, which --seconds says"),
        ("SELECT * FROM range(1000000000000)", "took longer than it may|does not fit"),
        ("WITH RECURSIVE r AS (SELECT 1 a UNION ALL SELECT a + 1 FROM r) SELECT count(*) FROM r", "took longer"),
        ("SELECT list(range) FROM range(1000000000)", "needs more memory|took longer"),
        ("SELECT sum(length(x)) FROM (SELECT repeat('x', 4000000000) AS x)", "needs more memory|took longer"),
    ],
)
def test_sql_has_bounds_on_time_and_memory(store: Path, jury: Any, sql: str, words: str) -> None:
    code, out, err = jury("query", sql, "--seconds", "0.5", "--store", store)
    assert (code, out) == (2, "") and re.search(words, err) and "Traceback" not in err
    assert not list(store.glob("*.tmp"))
    assert jury("query", "SELECT 1", "--seconds", "0", "--store", store)[0] == 0


def test_what_sql_sorts_on_the_disk_is_bounded_too(store: Path, jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_READER, "memory_limit", "50MB")
    monkeypatch.setitem(_READER, "max_temp_directory_size", "50MB")
    code, _, err = jury(
        "query", "SELECT repeat('x', 1000) || range AS x FROM range(200000) ORDER BY x", "--store", store
    )
    assert code == 2 and "needs more memory, or more room for what does not fit into it" in err


def test_an_answer_that_does_not_fit_into_the_memory_is_refused(
    store: Path, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "MOST_BYTES", 300_000_000)
    code, out, err = jury("query", "SELECT range, repeat('x', 1000) FROM range(2000000)", "--store", store)
    assert (code, out) == (2, "") and "does not fit into 0.3 GB: ask for fewer rows" in err
