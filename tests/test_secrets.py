"""Secrecy of keys: used, but never stored in Prefect's server, logs, terminal output, ledger, history or artifacts.

Two runs on their own server, logged at the finest level, with a judge that demands the key and quotes it back. One key
comes from a Secret block, a wrong one from the environment. Then everything they left behind is searched.
"""

import asyncio
import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
from forked_commands import forked_by
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, Request, allowed_reply, error, to_samples
from prefect.blocks.system import Secret
from prefect.settings import PREFECT_API_URL, temporary_settings
from served import Up, free_port
from written_datasets import write_figures

from flows.server.server import own_server
from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import probe_request
from tasks.records.judge import Judge

KEY = "sk-Vw8-do-not-keep-me"
WRONG = "sk-Zr5-nor-keep-me"
TEAM = "team-Qp3-nor-keep-me"
"""A header's value, as secret as a key."""
LISTED = ("KEY_IN_A_BLOCK", "OTHER_KEY", "WRONG_KEY", "TEAM_NAME")
FINEST = {"PREFECT_LOGGING_LEVEL": "DEBUG", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "DEBUG"}
KINDS = (
    *("flow_runs", "task_runs", "flow_run_states", "task_run_states", "artifacts", "logs"),
    *("block_documents", "events"),
)


class Remains(NamedTuple):
    root: Path
    codes: list[int]
    """Exit codes of the two runs."""
    shown: str
    sent: list[str]
    """Authorization header of each request to the judge."""
    objects: dict[str, str]
    """All objects of a kind from the server's API, as JSON."""
    of_server: bytes
    """Environment of the server, which was started by a process with a key in its environment."""


def refuse_quoting_key(seen: Request) -> Reply:
    """Refuse and quote the key: every call with a wrong key, and one call with the right one."""
    given = seen.headers["authorization"]
    if given != f"Bearer {KEY}":
        return error(401, f"Incorrect API key provided: {given}")
    if seen.schema_name == "diagram_aesthetics":
        return echoing(given.removeprefix("Bearer "), "Model")
    if seen.schema_name == "diagram_faithfulness" and "caption 0" in str(seen.texts):
        return error(400, f"You sent {given}, and {seen.headers['x-team']}: these pictures are too many")
    return allowed_reply()(seen)


def echoing(key: str, verdict: str) -> Reply:
    """Return a good reply with the key in every string, partly escaped."""
    escaped = "".join(f"\\u{ord(sign):04x}" for sign in key)
    answer = f'{{"comparison_reasoning": "{key} {escaped}", "winner": "{verdict}", "{key}": "{key}"}} {key}'
    message = {"role": "assistant", "content": answer, "reasoning_content": key, key: key}
    choice = {"index": 0, "message": message, "finish_reason": f"stop {key}", "logprobs": {key: [key]}}
    body = {"id": key, "model": "m" * 190 + key, "system_fingerprint": key, "service_tier": key, "choices": [choice]}
    return Reply({**body, "object": key, key: key, "usage": {"prompt_tokens": key, key: 7}}, headers={"x-id": key})


@pytest.fixture(scope="module")
def remains(tmp_path_factory: pytest.TempPathFactory, commands: Path) -> Iterator[Remains]:
    root = tmp_path_factory.mktemp("kept")
    data = tmp_path_factory.mktemp("data")
    figures = write_figures(data, 2)
    with pytest.MonkeyPatch.context() as environment, LoopbackJudge(refuse_quoting_key) as judge:
        environment.delenv("PREFECT_API_URL", raising=False)
        environment.setenv("PREFECT_SERVER_LOGGING_LEVEL", "DEBUG")
        environment.setenv("OTHER_KEY", KEY)
        environment.setenv("JURY_ENDPOINTS", ",".join(f"{judge.place}={name}" for name in LISTED))
        with forked_by(commands), own_server(root, free_port()) as server:
            api = server.api
            worker = {**os.environ, **FINEST, "PREFECT_API_URL": api, "PREFECT_HOME": str(root / "client")}
            worker["TEAM_NAME"] = TEAM
            of_server = Path(f"/proc/{server.pid}/environ").read_bytes()
            with temporary_settings({PREFECT_API_URL: api}):
                Secret(value=KEY).save("key-in-a-block")
            given = [*figures, "--store", root / "store", "--reuse-hours", "0"]
            given += ["--judge.model", "m", "--judge.base-url", judge.base_url]
            given += ["--judge.headers", json.dumps({"X-Team": "TEAM_NAME"})]
            command = [commands / "jury", "run", "diagram", *map(str, given), "--judge.api-key-env"]
            worker["WRONG_KEY"] = WRONG
            runs = [
                subprocess.run([*command, name], env=worker, capture_output=True, text=True)
                for name in ("KEY_IN_A_BLOCK", "WRONG_KEY")
            ]
            objects = {kind: json.dumps(fetch_all(Up(None, root, server.port), kind)) for kind in KINDS}
    yield Remains(
        root,
        [each.returncode for each in runs],
        "".join(each.stdout + each.stderr for each in runs),
        [seen.headers["authorization"] for seen in judge.requests],
        objects,
        of_server,
    )


def fetch_all(server: Up, kind: str) -> list[Any]:
    """Return all objects of a kind from the server's API, page by page."""
    if kind.endswith("_states"):
        of, _, _ = kind.partition("_states")
        return [server.api(f"/{of}_states/?{of}_id={run['id']}") for run in fetch_all(server, f"{of}s")]
    if kind == "events":
        return server.api("/events/filter", {"limit": 50})["events"]
    found: list[Any] = []
    while page := server.api(f"/{kind}/filter", {"limit": 200, "offset": len(found)}):
        found += page
    return found


def keys_in(text: str | bytes) -> list[str]:
    content = text.encode() if isinstance(text, str) else text
    return [key for key in (KEY, WRONG, TEAM) if key.encode() in content]


def test_each_key_is_found_and_sent(remains: Remains) -> None:
    assert remains.codes == [3, 2], remains.shown
    assert remains.sent.count(f"Bearer {KEY}") == 1 + 2 * 4 and f"Bearer {WRONG}" in remains.sent


def test_server_environment_has_no_key(remains: Remains) -> None:
    assert b"PREFECT_HOME=" in remains.of_server and keys_in(remains.of_server) == []


def test_terminal_and_files_contain_no_key(remains: Remains) -> None:
    """A search byte by byte misses compressed data and pages: tests of the databases follow."""
    assert "Incorrect API key provided: Bearer [key]" in remains.shown
    assert "Traceback" in remains.shown  # from the finest log level
    assert keys_in(remains.shown) == []
    files = [file for file in remains.root.rglob("*") if file.is_file()]
    assert {"server.log", "prefect.db", "run.json", "judgments.jsonl", "history.duckdb"} <= {f.name for f in files}
    assert [file for file in files if keys_in(file.read_bytes())] == []


def test_ledger_and_history_have_replies_without_the_key(remains: Remains) -> None:
    rows = "".join(file.read_text() for file in remains.root.rglob("judgments.jsonl"))
    assert rows.count('"reasoning":"[key] [key]"') == 2 and rows.count('"finish_reason":"stop [key]"') == 2
    assert "You sent Bearer [key], and [key]: these" in rows
    with duckdb.connect(str(remains.root / "store" / "history.duckdb"), read_only=True) as history:
        tables = [name for (name,) in history.execute("SELECT table_name FROM information_schema.tables").fetchall()]
        kept = {name: str(history.execute(f'SELECT * FROM "{name}"').fetchall()) for name in tables}
    assert "You sent Bearer [key], and" in kept["judgments"] and "KEY_IN_A_BLOCK" in kept["runs"]
    assert [name for name, text in kept.items() if keys_in(text)] == []


def test_server_database_has_names_of_keys_but_no_key(remains: Remains) -> None:
    [file] = remains.root.rglob("prefect.db")
    assert file.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(file) as database:
        kept = "\n".join(database.iterdump())
    database.close()
    assert "KEY_IN_A_BLOCK" in kept and "WRONG_KEY" in kept and keys_in(kept) == []


def test_server_api_returns_messages_about_keys_but_no_key(remains: Remains) -> None:
    assert [kind for kind, text in remains.objects.items() if len(text) <= len("[]") or keys_in(text)] == []
    assert "Incorrect API key provided: Bearer [key]" in remains.objects["logs"] + remains.objects["flow_runs"]
    assert "Traceback" in remains.objects["logs"] and "KEY_IN_A_BLOCK" in remains.objects["flow_runs"]


@pytest.mark.parametrize(
    "reply",
    [error(400, "x" * 1985 + KEY), error(500, "x" * 1985 + KEY), Reply("x" * 190 + KEY)],
    ids=["400", "500", "page"],
)
def test_no_message_is_cut_within_a_key(loopback: LoopbackJudge, reply: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut at 2,000 or 200 characters would leave a part that the removal of keys misses."""
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("JURY_ENDPOINTS", f"{loopback.place}=MY_KEY")
    loopback.answer = to_samples(reply)

    async def ask() -> str:
        async with Vlm(Judge(model="m", base_url=loopback.base_url, api_key_env="MY_KEY")) as vlm:  # pyright: ignore
            return (await vlm.ask(probe_request()._replace(name="about_a_sample"))).error

    words = asyncio.run(ask())
    assert "xx" in words and KEY[:4] not in words
