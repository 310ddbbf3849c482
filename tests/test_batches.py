"""Files and records of a batch: request lines, parts, log rows, and replies in any form."""

import asyncio
import json
import tempfile
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from batch_twin import BatchTwin
from factories import start
from full_disk import files_of
from hypothesis import given
from hypothesis import strategies as st
from loopback_replies import Reply as Answered
from loopback_replies import error, gzipped

from flows.collect import WAITING, collected
from tasks.batches import results, submission
from tasks.batches.log import Log, begin, locked, waiting_runs
from tasks.batches.results import Replies
from tasks.batches.submission import HandingIn, RequestFiles
from tasks.endpoint.api_keys import Mask
from tasks.endpoint.batches import Batches, BatchState
from tasks.endpoint.replies import Reply
from tasks.endpoint.requests import Image, Manner, Request, body
from tasks.errors import BatchesUnavailable, InputError
from tasks.history.forgetting import check_idle
from tasks.ledger.run_files import BATCHES, Ledger
from tasks.records.judge import Judge

JUDGE = Judge(model="m", base_url="https://judge.example/v1", seed=7)
PICTURE = Image("image/png", b"AAAA")
QUESTION = Request('Be "just".', ('Text: "seed": 7,\n\u2028', PICTURE), "n", {"type": "object"})


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """The batch log of a run that has begun."""
    begun = start()
    ledger = Ledger(tmp_path, begun)
    ledger.begin()
    ledger.close()
    return begin(tmp_path, begun.run_id)


def read(status: int, content: bytes) -> Reply:
    return Reply("ok" if status == 200 else "rejected", text=content.decode())


def test_damaged_run_that_waits_is_named(tmp_path: Path) -> None:
    begun = start(parameters={"judge": {"timeout_seconds": "soon"}})
    with closing(Ledger(tmp_path, begun)) as ledger:
        ledger.begin()
    begin(tmp_path, begun.run_id).add("prepared", requests=(1,), asked="a", shown_as="diagram-command")
    with pytest.raises(InputError, match=f"files of run {begun.run_id}.* are damaged: judge.timeout_seconds"):
        asyncio.run(collected(str(tmp_path), begun.run_id))


# Requests


def test_batch_line_contains_the_body_of_a_live_call(log: Log) -> None:
    files = RequestFiles(log)
    made = body(JUDGE, QUESTION, Manner())
    files.add("one", made.pieces)
    files.add("two", made.pieces)
    assert files.close() == (2,)
    rows = [json.loads(line) for line in log.requests(0).read_bytes().split(b"\n")[:-1]]
    about = {"method": "POST", "url": "/v1/chat/completions", "body": json.loads(b"".join(made.pieces))}
    assert rows == [{"custom_id": name, **about} for name in ("one", "two")]


@pytest.mark.parametrize(("limit", "most"), [("MOST_REQUESTS", 100), ("MOST_BYTES", 11_150)])
def test_request_files_stay_within_limits(log: Log, monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    monkeypatch.setattr(submission, limit, most)
    files = RequestFiles(log)
    for number in range(250):
        files.add(f"{number:032}", [memoryview(b"{}")])
    assert files.close() == (100, 100, 50)
    paths = [log.requests(part) for part in range(3)]
    assert max(path.stat().st_size for path in paths) <= 11_150
    rows = [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]
    assert [row["custom_id"] for row in rows] == [f"{number:032}" for number in range(250)]


# The log


def test_log_restores_its_steps_and_ignores_a_torn_row(log: Log) -> None:
    log.add("prepared", requests=(3, 2), asked="a", shown_as="diagram-command")
    log.add("uploaded", part=1, id="file-1")
    with (log.run / "batches.jsonl").open("ab") as file:
        file.write(b'{"schema":7,"run_id":"20')
    again = Log(log.store, log.run_id)
    assert [(part.requests, part.file_id) for part in again.parts] == [(3, ""), (2, "file-1")]
    again.add("creating", part=1)
    again.add("created", part=1, id="batch-1")
    last = Log(log.store, log.run_id)
    assert [part.batch_id for part in last.parts] == ["", "batch-1"] and last.parts[1].creating_since
    assert not last.cancelled and not last.ended


def test_damaged_log_stops_no_other_run(log: Log) -> None:
    log.add("prepared", requests=(1,), asked="a")
    log.add("uploaded", id="file-1")
    file = log.run / "batches.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[1:]))
    with pytest.raises(InputError, match=r"batches\.jsonl, line 1: damaged: no line before it counts"):
        Log(log.store, log.run_id)
    other = begin(log.store, start("20261121T120000-diagram-0000bb").run_id)
    run: Any = SimpleNamespace(start=start(other.run_id))
    with closing(HandingIn(run, other)) as handing_in:
        assert handing_in.earlier() == ""


def test_run_that_a_full_disk_kept_from_waiting_can_be_forgotten(log: Log) -> None:
    with files_of(10), pytest.raises(OSError, match="No space left on device after 10 bytes"):
        log.add("prepared", requests=(3,), asked="a")
    assert (log.run / BATCHES).exists()
    results.remove(log)
    check_idle(log.store)
    begin(log.store, log.run_id).add("prepared", requests=(3,), asked="a")
    with pytest.raises(InputError, match="waits for its batches"):
        check_idle(log.store)


def test_run_is_locked_by_one_process_at_a_time(log: Log) -> None:
    assert waiting_runs(log.store) == [log.run_id]
    with locked(log.store, log.run_id) as first, locked(log.store, log.run_id) as second:
        assert first and second is None
        told = asyncio.run(collected(str(log.store), log.run_id))
        assert told.name == WAITING and "another process is at work on it" in str(told.message)
    with locked(log.store, log.run_id) as third:
        assert third


# The endpoint


def test_batch_is_read_whatever_its_fields_are() -> None:
    usual = {"id": "b", "status": "completed", "created_at": 9, "metadata": {"run": "r"}}
    odd: list[tuple[dict[str, Any], str, str]] = [
        ({"request_counts": {"total": None}}, "b", ""),
        (
            {"request_counts": None, "errors": [{"code": "late", "message": "Too late", "line": 2}]},
            "b",
            "late: Too late",
        ),
        ({"created_at": None, "errors": {"data": None}}, "b", ""),
        ({"created_at": "2026-11-20"}, "b", ""),
        ({"metadata": "run"}, "", ""),
    ]

    async def ask(address: str) -> tuple[BatchState, str]:
        async with Batches(Judge(model="gpt", base_url=address)) as batches:
            return await batches.state("b"), await batches.find({"run": "r"}, 5)

    with BatchTwin() as twin:
        for changes, found, problem in odd:
            twin.refuses["ask batch"] = Answered({**usual, **changes})
            twin.refuses["list batches"] = Answered(
                {"object": "list", "has_more": False, "data": [{**usual, **changes}]}
            )
            state, name = asyncio.run(ask(twin.base_url))
            assert (name, state.completed, state.failed) == (found, 0, 0), changes
            assert state.ended and state.problem.startswith(problem), changes


def test_endpoint_errors_are_reported_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "sk-of-the-twin-0001")

    async def ask(address: str) -> None:
        async with Batches(Judge(model="gpt", base_url=address)) as batches:
            await batches.state("batch-1")

    with BatchTwin() as twin:
        monkeypatch.setenv("JURY_ENDPOINTS", f"{twin.place}=KEY")
        twin.refuses["ask batch"] = error(401, "Incorrect API key provided: sk-of-the-twin-0001")
        words = r"does not report batch batch-1: 401: .* provided: \[key\]$"
        with pytest.raises(BatchesUnavailable, match=words) as raised:
            asyncio.run(ask(twin.base_url))
    assert raised.value.status == 401
    with pytest.raises(BatchesUnavailable, match="does not report batch batch-1: ") as absent:
        asyncio.run(ask(twin.base_url))
    assert absent.value.status == 0


# Replies


def replies(log: Log, *lines: bytes) -> Replies:
    log.add("prepared", requests=(3,), asked="a")
    log.replies(log.parts[0], "output").write_bytes(b"".join(lines))
    return Replies(log, Mask(["sk-of-the-twin-0001"]))


def row(name: object, **changes: Any) -> bytes:
    return json.dumps({"id": "r", "custom_id": name, "response": None, "error": None, **changes}).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        (row("x", response={"status_code": 200, "body": {"a": 1}}), "ok", '{"a": 1}'),
        (row("x", response={"status_code": 400, "body": {"error": 1}}), "rejected", '{"error": 1}'),
        (row("x", error={"code": "batch_expired", "message": "late"}), "unavailable", "no reply: batch_expired: late"),
        (row("x", error="no object"), "unavailable", "the batch gave no reply: it does not say why"),
        (row("x", response=[1]), "unavailable", "it does not say why"),
        (row("x", response={"status_code": "200"}), "unavailable", "it does not say why"),
        (row("other", response={"status_code": 200, "body": {}}), "unavailable", "no reply to it in its files"),
        (row("x", error={"message": "sk-of-the-twin-0001"}), "unavailable", "the batch gave no reply: [key]"),
        (row("x", response={"status_code": 200, "body": "sk-of-the-twin-0001"}), "ok", '"[key]"'),
        (row("x", response={"status_code": 200, "body": 1}) + row("x", error="late"), "ok", "1"),
        (row(7), "unavailable", "no reply to it in its files"),
        (b"[1]\n" + row("x", response={"status_code": 200, "body": 1}), "ok", "1"),
        (b'{"custom_id": "x"', "unavailable", "no reply to it in its files"),
    ],
)
def test_reply_is_found_by_its_id_in_any_file(log: Log, line: bytes, status: str, words: str) -> None:
    found = replies(log, line).find("x", read)
    assert found.status == status and words in found.text + found.error


def test_line_above_the_limit_is_skipped_and_hides_no_reply(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "LONGEST_LINE", 200)
    inner = row("y", response={"status_code": 200, "body": 1})
    long = row("x", response={"status_code": 200, "body": " " * 300})[:-1] + inner
    found = replies(log, long, row("z", response={"status_code": 200, "body": 2}))
    assert found.find("z", read).text == "2"
    assert {found.find(name, read).status for name in "xy"} == {"unavailable"}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_reply_file_is_cut_at_the_size_its_requests_allow(log: Log, packed: bool) -> None:
    sent = row("x", response={"status_code": 200, "body": "kept"}) + b" " * 9_000_000
    state = {"id": "b", "object": "batch", "endpoint": "/v1", "input_file_id": "f", "completion_window": "24h"}
    state |= {"created_at": 1, "status": "completed", "output_file_id": "much"}
    log.add("prepared", requests=(2,), asked="a")
    log.add("created", id="b")

    async def fetch_replies(address: str) -> str:
        async with Batches(Judge(model="gpt", base_url=address)) as batches:
            return await results.fetch(log, batches)

    with BatchTwin() as twin:
        twin.refuses["ask batch"] = Answered(state)
        twin.refuses["content file"] = gzipped(sent) if packed else Answered(sent, chunked=True)
        assert asyncio.run(fetch_replies(twin.base_url)) == ""
    assert log.replies(log.parts[0], "output").stat().st_size == 8_000_000
    found = Replies(log, Mask(()))
    assert found.find("x", read).text == '"kept"'
    assert "its file much has more than 8,000,000 bytes, and the rest was not read" in found.find("y", read).error


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_keep_other_replies_from_being_read(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        ledger = Ledger(store, start())
        ledger.begin()
        ledger.close()
        mine = row("mine", response={"status_code": 200, "body": "kept"})
        found = replies(begin(store, start().run_id), *(line + b"\n" for line in lines), mine)
        assert found.find("mine", read).text == '"kept"'
