"""A key is used and kept nowhere: not by Prefect's server, the logs, the terminal, the ledger, history or artifacts.

Three runs on a server of their own, everything logged at the finest level, with a judge that demands the key and quotes
it back: a key from a Secret block, one from the environment, and one that is wrong. Then all they left is searched.
"""

import asyncio
import json
import os
import sqlite3
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, Request, allowed_reply, error
from prefect.blocks.system import Secret
from prefect.settings import PREFECT_API_URL, temporary_settings
from served import JURY, free_port, headers
from written_datasets import record, result, write_benchmark, write_json

from flows.runtime.server import own_server
from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import probe_request
from tasks.parameters import Judge

KEY = "sk-Vw8-do-not-keep-me"
WRONG = "sk-Zr5-nor-keep-me"
TEAM = "team-Qp3-nor-keep-me"
"""Value of a header, which is as secret as a key."""
LISTED = ("KEY_IN_A_BLOCK", "KEY_IN_THE_ENVIRONMENT", "WRONG_KEY", "TEAM_NAME")
FINEST = {"PREFECT_LOGGING_LEVEL": "DEBUG", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "DEBUG"}
KINDS = (
    "flow_runs",
    "task_runs",
    "flow_run_states",
    "task_run_states",
    "artifacts",
    "logs",
    "block_documents",
    "events",
)


class Left(NamedTuple):
    """What the runs left."""

    root: Path
    codes: dict[str, int]
    """Name of the key -> exit code of the run with it."""
    shown: str
    """All that they printed."""
    sent: list[str]
    """Authorization of each request to the judge."""
    told: dict[str, str]
    """Kind of object -> what the server's API says of all of that kind, as JSON."""


def demanding(seen: Request) -> Reply:
    """A judge that quotes the key when it refuses: each call with a wrong one, and one call with the right one."""
    given = seen.headers["authorization"]
    if given != f"Bearer {KEY}":
        return error(401, f"Incorrect API key provided: {given}")
    if seen.schema_name == "diagram_faithfulness" and "caption 0" in str(seen.texts):
        return error(400, f"You sent {given}, and {seen.headers['x-team']}: these pictures are too many")
    return allowed_reply()(seen)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    root = tmp_path_factory.mktemp("kept")
    data = tmp_path_factory.mktemp("data")
    write_benchmark(data, [record(number) for number in range(2)])
    results = write_json(data / "results.json", [result(number) for number in range(2)])
    with pytest.MonkeyPatch.context() as environment, LoopbackJudge(demanding) as judge:
        environment.delenv("PREFECT_API_URL", raising=False)
        environment.setenv("PREFECT_SERVER_LOGGING_LEVEL", "DEBUG")
        with own_server(root, free_port()) as server:
            api = server.api
            worker = {**os.environ, **FINEST, "PREFECT_API_URL": api, "PREFECT_HOME": str(root / "client")}
            worker |= {"TEAM_NAME": TEAM, "JURY_ENDPOINTS": ",".join(f"127.0.0.1={name}" for name in LISTED)}
            with temporary_settings({PREFECT_API_URL: api}):
                Secret(value=KEY).save("key-in-a-block")
            given = ["--dataset", data, "--results", results, "--store", root / "store", "--reuse-hours", "0"]
            given += ["--judge.model", "m", "--judge.base-url", judge.base_url]
            given += ["--judge.headers", json.dumps({"X-Team": "TEAM_NAME"})]
            runs = {
                name: subprocess.run(
                    [JURY, "run", "diagram", *map(str, given), "--judge.api-key-env", name],
                    env=worker | keys,
                    capture_output=True,
                    text=True,
                )
                for name, keys in (
                    ("KEY_IN_A_BLOCK", {}),
                    ("KEY_IN_THE_ENVIRONMENT", {"KEY_IN_THE_ENVIRONMENT": KEY}),
                    ("WRONG_KEY", {"WRONG_KEY": WRONG}),
                )
            }
            told = {kind: json.dumps(all_of(api, kind)) for kind in KINDS}
    shown = "".join(run.stdout + run.stderr for run in runs.values())
    codes = {name: run.returncode for name, run in runs.items()}
    yield Left(root, codes, shown, [seen.headers["authorization"] for seen in judge.requests], told)


def all_of(api: str, kind: str) -> list[Any]:
    """Everything of a kind that the server's API tells, page by page."""
    if kind.endswith("_states"):
        of, _, _ = kind.partition("_states")
        return [post(f"{api}/{of}_states/?{of}_id={run['id']}") for run in all_of(api, f"{of}s")]
    if kind == "events":
        return post(f"{api}/events/filter", {"limit": 50})["events"]
    found: list[Any] = []
    while page := post(f"{api}/{kind}/filter", {"limit": 200, "offset": len(found)}):
        found += page
    return found


def post(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers(url.partition("/api/")[0] + "/api"))
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def keys_in(text: str | bytes) -> list[str]:
    content = text.encode() if isinstance(text, str) else text
    return [key for key in (KEY, WRONG, TEAM) if key.encode() in content]


def test_each_key_was_found_and_sent(left: Left) -> None:
    assert left.codes == {"KEY_IN_A_BLOCK": 3, "KEY_IN_THE_ENVIRONMENT": 3, "WRONG_KEY": 2}, left.shown
    assert left.sent.count(f"Bearer {KEY}") == 2 * (1 + 2 * 4) and f"Bearer {WRONG}" in left.sent


def test_no_terminal_shows_a_key(left: Left) -> None:
    assert "Incorrect API key provided: Bearer [key]" in left.shown
    assert "Traceback" in left.shown  # of the finest log
    assert keys_in(left.shown) == []


def test_no_file_holds_a_key(left: Left) -> None:
    """Byte by byte; the databases are compressed or in pages, so those are read as such, too."""
    files = [file for file in left.root.rglob("*") if file.is_file()]
    assert {"server.log", "prefect.db", "run.json", "judgments.jsonl", "history.duckdb"} <= {f.name for f in files}
    assert [file for file in files if keys_in(file.read_bytes())] == []


def test_the_ledger_and_the_history_hold_what_the_judge_said_without_the_key(left: Left) -> None:
    rows = "".join(file.read_text() for file in left.root.rglob("judgments.jsonl"))
    assert rows.count("You sent Bearer [key], and [key]: these") >= 2
    with duckdb.connect(str(left.root / "store" / "history.duckdb"), read_only=True) as history:
        tables = [name for (name,) in history.execute("SELECT table_name FROM information_schema.tables").fetchall()]
        kept = {name: str(history.execute(f'SELECT * FROM "{name}"').fetchall()) for name in tables}
    assert "You sent Bearer [key], and" in kept["judgments"] and "KEY_IN_A_BLOCK" in kept["runs"]
    assert [name for name, text in kept.items() if keys_in(text)] == []


def test_the_database_of_the_server_holds_the_names_of_the_keys_and_no_key(left: Left) -> None:
    [file] = left.root.rglob("prefect.db")
    with sqlite3.connect(file) as database:
        kept = "\n".join(database.iterdump())
    database.close()
    assert "KEY_IN_A_BLOCK" in kept and "KEY_IN_THE_ENVIRONMENT" in kept
    assert keys_in(kept) == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_api_tells_no_key(left: Left, kind: str) -> None:
    assert len(left.told[kind]) > len("[]") and keys_in(left.told[kind]) == []


def test_the_api_tells_what_was_said_of_a_key_and_where_it_was(left: Left) -> None:
    assert "Incorrect API key provided: Bearer [key]" in left.told["logs"] + left.told["flow_runs"]
    assert "Traceback" in left.told["logs"] and "KEY_IN_A_BLOCK" in left.told["flow_runs"]


@pytest.mark.parametrize(
    "reply",
    [error(400, "x" * 1985 + KEY), error(500, "x" * 1985 + KEY), Reply("x" * 190 + KEY)],
    ids=["400", "500", "page"],
)
def test_a_long_message_is_not_cut_within_the_key(
    loopback: LoopbackJudge, reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut at 2,000 or 200 characters would leave a part that no longer looks like the key."""
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("JURY_ENDPOINTS", "127.0.0.1=MY_KEY")
    loopback.answer = lambda _: reply

    async def ask() -> str:
        async with Vlm(Judge(model="m", base_url=loopback.base_url, api_key_env="MY_KEY")) as vlm:  # pyright: ignore
            return (await vlm.ask(probe_request())).error

    words = asyncio.run(ask())
    assert "xx" in words and KEY[:4] not in words
