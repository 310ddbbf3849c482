"""`jury query`: output for pipes and terminals, without control characters; limits of time and memory."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from pathlib import Path
from typing import Any

import pytest
from factories import image
from rich.cells import cell_len
from rich.console import Console
from served import JURY, environment, shown_until_closed
from written_history import keep_ledger, write_evaluations

from flows.commands import query
from tasks.history.database import _READER
from tasks.history.queries import as_json_rows, catalog, held_together
from tasks.history.queries import query as answer

DIGEST = "ab" * 32


def query_on_terminal(jury: Path, store: Path, question: str, columns: int) -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    command = [jury, "query", question, "--store", str(store)]
    # A COLUMNS variable would override the terminal's own width.
    env = {name: value for name, value in environment().items() if name != "COLUMNS"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=env) as process:
        os.close(theirs)
        shown = shown_until_closed(ours)
        assert process.wait(60) == 0
    return shown


def test_successful_query_is_in_utc_and_prints_nothing_to_stderr(store: Path) -> None:
    """DuckDB's bindings may print messages at exit, which no user can act on."""
    sql = "SELECT any_value(TIMESTAMPTZ '2026-01-01 00:00+00' = TIMESTAMP '2026-01-01') FROM leaderboard"
    env = {**environment(), "TZ": "Asia/Tokyo"}
    done = subprocess.run([JURY, "query", sql, "--store", str(store)], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.splitlines()[2] == "true"


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        ("SELECT 'a' AS name, 1.5 AS x UNION ALL SELECT 'longer', NULL", "name    x\n------  ---\na       1.5\nlonger"),
        ("SELECT repeat('x', 200) AS a, repeat('y', 200) AS b", f"{'x' * 200}  {'y' * 200}"),
        ("SELECT '図表' AS name, 'x' AS next UNION ALL SELECT 'abcdef', 'x'", "図表    x\nabcdef  x"),
        ("SELECT chr(27) || '[2J' || chr(10) || 'text' || chr(8238) AS \"a\x1b[2Jb\"", "a [2Jb\n--------\n[2J text"),
    ],
    ids=["aligned", "as wide as needed", "wide scripts aligned", "control characters removed"],
)
def test_table_is_plain_lines_and_a_row_count(question: str, lines: str, store: Path, jury: Any) -> None:
    code, out, err = jury("query", question, "--store", store)
    assert (code, err) == (0, "") and f"{lines}\nrows: " in out and "\x1b" not in out


def test_digest_is_shortened_in_tables_and_whole_in_json(store: Path, jury: Any) -> None:
    question = f"SELECT '{DIGEST}' AS sha256, '{DIGEST}0' AS other"
    _, out, _ = jury("query", question, "--store", store)
    assert out.splitlines()[2] == f"{DIGEST[:12]}  {DIGEST}0"
    _, out, _ = jury("query", question, "--json", "--store", store)
    assert json.loads(out) == [{"sha256": DIGEST, "other": f"{DIGEST}0"}]


@pytest.fixture
def jury_on_terminal(jury: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that returns what `jury query` prints on a terminal of this width."""

    def run(columns: int, *given: object) -> str:
        monkeypatch.setattr(query, "console", lambda: Console(width=columns, force_terminal=True))
        return jury("query", *given)[1]

    return run


def test_rows_wider_than_the_terminal_become_records(store: Path, commands: Path, jury_on_terminal: Any) -> None:
    question = "SELECT 'one' AS first, repeat('x', 30) AS second FROM range(2)"
    shown = query_on_terminal(commands / "jury", store, question, 36)
    assert shown == 2 * f"first   one\nsecond  {'x' * 30}\n\n" + "rows: 2\n"
    assert jury_on_terminal(37, question).splitlines()[2:] == 2 * [f"one    {'x' * 30}"] + ["rows: 2"]


def test_query_without_sql_lists_views_then_tables(store: Path, jury_on_terminal: Any) -> None:
    lines = jury_on_terminal(80).splitlines()
    assert max(map(cell_len, lines)) <= 80 and "…" not in "".join(lines)
    views, tables = "\n".join(lines).removeprefix("views\n").partition("\n\n")[0].split("\ntables\n")
    for kind, listed in (("view", views), ("table", tables)):
        expected = [
            f"{each.name} {each.comment.partition('. ')[0].rstrip('.')}" for each in catalog(store) if each.kind == kind
        ]
        assert [" ".join(line.split()) for line in listed.splitlines()] == expected


def test_describe_explains_the_columns_of_a_view(store: Path, jury: Any, jury_on_terminal: Any) -> None:
    shown = " ".join(jury_on_terminal(80, "--describe", "leaderboard").split())
    assert "score_scale Highest score: 100 for figures and checklists, 10 for images. (DOUBLE)" in shown
    code, out, _ = jury("query", "Leaderboard", "--describe", "--csv", "--store", store)
    beginning = "column,type,meaning\ncandidate,VARCHAR,System whose figures or images were judged."
    assert code == 0 and out.startswith(beginning)
    code, _, err = jury("query", "leaderbord", "--describe", "--store", store)
    assert code == 2 and "did you mean leaderboard?" in err


def test_views_on_a_narrow_terminal_keep_rows_distinct_and_explain_blanks(
    tmp_path: Path, jury_on_terminal: Any
) -> None:
    store = tmp_path / "store"
    for minute, (flow, tags) in enumerate({"counting": ("counting",), "colors": ("colors", "color_attr")}.items()):
        rows = [image(f"{tag}{n}/0", 5 + n % 2, tag=tag, flow=flow) for tag in tags for n in range(4)]
        of_flow = {"flow": flow, "dimensions": tags, "parameters": {"threshold": 7.0}, "samples": len(rows)}
        keep_ledger(store, f"20261120T12{minute:02}00-{flow}-0000aa", rows, **of_flow)
    write_evaluations(store)
    with held_together(store):
        shown = {each.name: jury_on_terminal(80, each.name).splitlines() for each in catalog(store)}
    tables = {
        name: (lines[rule - 1].split(), lines[rule + 1 : -1])
        for name, lines in shown.items()
        for rule in [next((at for at, line in enumerate(lines) if re.fullmatch("[ -]+", line)), 0)]
        if rule
    }
    assert len(tables) > 15
    for name, (_, rows) in tables.items():
        assert max(map(cell_len, shown[name])) <= 80 and len({*rows}) == len(rows), name
    assert {"tag", "score", "missing"} <= {*tables["t2i_leaderboard"][0]}, "the blank overall is explained"
    assert {"sample_id", "score", "status"} <= {*tables["samples"][0]}, "the blank score is explained"
    assert {"dimension", "score", "ci_low", "ci_high", "scored"} <= {*tables["leaderboard"][0]}
    assert re.search(r"score_before +50\nscore +100\nchange +50\n", "\n".join(shown["changes"])), "one row is a record"


def test_csv_has_whole_values_and_no_formulas(store: Path, jury: Any) -> None:
    question = "SELECT -1.5 AS n, '=1+1' AS a, '@x' AS b, 'x, \"y\"' AS c, NULL AS d, repeat('z', 300) AS e, ['-'] AS f"
    code, out, _ = jury("query", question, "--csv", "--store", store)
    assert code == 0 and out == f'n,a,b,c,d,e,f\n-1.5,\'=1+1,\'@x,"x, ""y""",,{"z" * 300},"[""-""]"\n'
    code, out, _ = jury("query", "--csv", "SELECT chr(27) || '[2J' AS x", "--store", store)
    assert out == "x\n [2J\n"


def test_columns_of_one_name_all_have_a_value(store: Path) -> None:
    [row] = as_json_rows(answer(store, "SELECT 1 AS score, 2 AS score_2, 3 AS score, 4 AS score"))
    assert row == {"score": 1, "score_2": 2, "score_3": 3, "score_4": 4}


def test_json_has_no_control_characters(store: Path, jury: Any) -> None:
    strange = "\x1b[2J\x7f\x9b31m\u202e\u200b\ufeff 図 é"
    question = "SELECT " + " || ".join(f"chr({ord(char)})" for char in strange) + " AS text"
    _, out, _ = jury("query", question, "--json", "--store", store)
    assert json.loads(out) == [{"text": strange}]
    assert all(char.isprintable() or char == "\n" for char in out) and "図 é" in out


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT count(*) FROM range(1000000000000)", "took longer than the limit of --seconds"),
        ("SELECT * FROM range(1000000000000)", "took longer than the limit|does not fit"),
        ("WITH RECURSIVE r AS (SELECT 1 a UNION ALL SELECT a + 1 FROM r) SELECT count(*) FROM r", "took longer"),
        ("SELECT list(range) FROM range(1000000000)", "needs more memory|took longer"),
        ("SELECT sum(length(x)) FROM (SELECT repeat('x', 100000000) AS x)", "took longer"),
    ],
)
def test_sql_is_limited_in_time_and_memory(store: Path, jury: Any, sql: str, words: str) -> None:
    code, out, err = jury("query", sql, "--seconds", "0.1", "--store", store)
    assert (code, out) == (2, "") and re.search(words, err) and "Traceback" not in err and not list(store.glob("*.tmp"))


def test_query_ends_at_ctrl_c_in_one_sentence(store: Path, jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_READER, "threads", 16)  # most often another than the main thread works on the query
    pressed = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    pressed.start()
    code, out, err = jury("query", "SELECT count(*) FROM range(1000000000000)", "--seconds", "0", "--store", store)
    assert (code, out, err) == (130, "", "jury: stopped\n")


def test_temporary_disk_space_of_sql_is_limited(store: Path, jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_READER, "memory_limit", "50MB")
    monkeypatch.setitem(_READER, "max_temp_directory_size", "50MB")
    sql = "SELECT repeat('x', 1000) || range AS x FROM range(130000) ORDER BY x"
    code, _, err = jury("query", sql, "--store", store)
    assert code == 2 and "needs more memory, or more disk space for temporary data" in err


def test_result_too_large_for_memory_is_refused(store: Path, jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MOST_BYTES", 30_000_000)
    code, out, err = jury("query", "SELECT range, repeat('x', 1000) FROM range(200000)", "--store", store)
    assert (code, out) == (2, "") and "does not fit into 0.03 GB: ask for fewer rows" in err


SHOWN = {
    "INTERVAL '9223372036854775807 microseconds'": "106751991 days, 4:00:54.775807",
    "'infinity'::DATE": "9999-12-31",
    "'-infinity'::TIMESTAMPTZ": "0001-01-01T00:00:00",
    "DATE '5881580-07-10'": "5881580-07-10",
    "TIMESTAMP '290309-12-22 (BC) 00:00:00'": "290309-12-22 (BC) 00:00:00",
    "TIMESTAMP_NS '2262-04-11 23:47:16.854775806'": "2262-04-11T23:47:16.854775",
    "TIMETZ '24:00:00-15:59:59'": "24:00:00-15:59:59",
    "[[DATE '0044-03-15 (BC)']]": [["0044-03-15 (BC)"]],
    "{'a': 'nan'::FLOAT, 'b': '-inf'::DOUBLE}": {"a": None, "b": None},
    "340282366920938463463374607431768211455::UHUGEINT": 2**128 - 1,
    "repeat('9', 5000)::BIGNUM": "9" * 5000,
    "'\\xAA\\x00'::BLOB": "b'\\xaa\\x00'",
    "'101'::BIT": "101",
    "MAP {}": {},
    "union_value(a := 'x')": "x",
    "'1e999'::JSON": None,
}
REFUSED = (
    *("INTERVAL '2147483647 months'", "INTERVAL '-178956970 years -8 months'", "MAP {1: [INTERVAL '2147483647 days']}"),
    *("('[' || repeat('9', 5000) || ']')::JSON", "(repeat('[', 20000) || repeat(']', 20000))::JSON"),
    "(repeat('[', 600) || repeat(']', 600))::JSON",
)


def test_values_of_every_duckdb_type_are_printed(store: Path, jury: Any) -> None:
    sql = "SELECT " + ", ".join(f"{value} AS v{at}" for at, value in enumerate(SHOWN))
    code, out, _ = jury("query", sql, "--json", "--store", store)
    assert (code, [*json.loads(out)[0].values()]) == (0, [*SHOWN.values()])
    assert jury("query", sql, "--seconds", "inf", "--store", store)[0] == 0


@pytest.mark.parametrize("value", REFUSED)
def test_unprintable_values_are_refused_with_advice(store: Path, jury: Any, value: str) -> None:
    code, out, err = jury("query", f"SELECT {value} AS v", "--store", store)
    assert (code, out, err.count("\n")) == (2, "", 1) and "ask for its column as text, column::VARCHAR" in err
    assert jury("query", f"SELECT ({value})::VARCHAR AS v", "--store", store)[0] == 0
