"""What is put down for a batch and found again: lines, files, seeds, the record, replies in any form."""

import asyncio
import json
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from batch_twin import BatchTwin
from factories import start
from hypothesis import given
from hypothesis import strategies as st
from loopback_replies import Request as Seen
from loopback_replies import error

from tasks.batches import requests, taking_out
from tasks.batches.log import Log, begin, lease, waiting_runs
from tasks.batches.requests import RequestFiles, Requests, lines_of, reseeded
from tasks.batches.taking_out import Replies
from tasks.endpoint import known
from tasks.endpoint.arguments import Manner, body
from tasks.endpoint.batches import Batches
from tasks.endpoint.completion import Reply
from tasks.endpoint.requests import Image, Request
from tasks.errors import BatchesUnavailable, InputError
from tasks.ledger.writing import Ledger
from tasks.parameters import Judge

JUDGE = Judge(model="m", base_url="https://judge.example/v1", seed=7)
QUESTION = Request(
    'Be "just".', ('Text: "seed": 7,\n\u2028', Image(b"data:image/png;base64,AAAA")), "n", {"type": "object"}
)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """The record of a run that has begun."""
    begun = start()
    ledger = Ledger(tmp_path, begun)
    ledger.begin()
    ledger.close()
    return begin(tmp_path, begun.run_id)


def read(status: int, content: bytes) -> Reply:
    return Reply("ok" if status == 200 else "rejected", text=content.decode())


# Requests


def test_a_line_holds_the_very_body_of_a_call_and_gives_it_back(log: Log) -> None:
    files = RequestFiles(log, 1)
    made = body(JUDGE, QUESTION, Manner())
    files.add("one", made.pieces)
    files.add("two", made.pieces)
    assert files.close() == (2,)
    path = log.requests(1, 0)
    for line in path.read_bytes().split(b"\n")[:-1]:
        row = json.loads(line)
        assert row["method"] == "POST" and row["url"] == "/v1/chat/completions"
        assert row["body"] == json.loads(b"".join(made.pieces))
    assert [name for name, _ in lines_of([path])] == ["one", "two"]
    assert Requests([path]).body("two") == b"".join(made.pieces)


def test_another_seed_is_another_seed_and_nothing_else() -> None:
    sent = b"".join(body(JUDGE, QUESTION, Manner()).pieces)
    again = json.loads(reseeded(sent, 7, 9))
    assert again == {**json.loads(sent), "seed": 9}
    unseeded = b"".join(body(JUDGE.model_copy(update={"seed": -1}), QUESTION, Manner()).pieces)
    assert reseeded(unseeded, 7, 9) == unseeded


def test_a_benchmark_of_real_figures_is_split_by_its_bytes(log: Log) -> None:
    """292 figures on four dimensions, 265 KB a call: 309 MB."""
    picture, files = memoryview(bytes(265_000)), RequestFiles(log, 1)
    for number in range(292 * 4):
        files.add(f"{number:032}", [picture])
    sizes = files.close()
    lengths = [log.requests(1, part).stat().st_size for part in range(len(sizes))]
    assert sum(sizes) == 1168 and len(sizes) == 2 and max(lengths) <= 190_000_000 < lengths[0] + 266_000
    assert sum(lengths) > 309_000_000


def test_a_file_holds_no_more_requests_than_an_endpoint_takes(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_REQUESTS", 100)
    files = RequestFiles(log, 1)
    for number in range(250):
        files.add(str(number), [b"{}"])
    assert files.close() == (100, 100, 50)
    paths = [log.requests(1, part) for part in range(3)]
    assert [name for name, _ in lines_of(paths)] == [str(number) for number in range(250)]


# The record


def test_what_was_done_is_on_record_and_a_row_that_a_kill_cut_is_none(log: Log) -> None:
    log.add("prepared", requests=(3, 2), asked="a", shown_as="diagram-command")
    log.add("uploaded", part=1, id="file-1")
    with (log.run / "batches.jsonl").open("ab") as file:
        file.write(b'{"schema":6,"run_id":"20')
    again = Log(log.store, log.run_id)
    assert [(part.requests, part.file_id) for part in again.current] == [(3, ""), (2, "file-1")]
    again.add("creating", part=1)
    again.add("created", part=1, id="batch-1")
    last = Log(log.store, log.run_id)
    assert [part.batch_id for part in last.parts] == ["", "batch-1"] and last.parts[1].creating_since
    assert last.turn == 1 and not last.cancelled and not last.ended


def test_a_record_that_was_changed_is_not_believed(log: Log) -> None:
    log.add("prepared", requests=(3,), asked="a")
    path = log.run / "batches.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"asked":"a"', b'"asked":"b"'))
    with pytest.raises(InputError, match="its checksum does not hold"):
        Log(log.store, log.run_id)


def test_only_one_is_alone_with_a_run(log: Log) -> None:
    assert waiting_runs(log.store) == [log.run_id]
    with lease(log.store, log.run_id) as first, lease(log.store, log.run_id) as second:
        assert first and second is None
    with lease(log.store, log.run_id) as third:
        assert third


# The endpoint


def test_litellm_is_told_the_model_that_a_file_is_for_and_no_other_endpoint_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    class Listening(BatchTwin):
        async def _reply(self, request: Seen, reader: Any) -> Any:
            seen.append(request.headers.get("x-litellm-model"))
            return await super()._reply(request, reader)

    async def ask(address: str) -> None:
        async with Batches(Judge(model="gpt", base_url=address)) as batches:
            assert await batches.find({"run": "none"}, 0) == ""

    with Listening() as twin:
        asyncio.run(ask(twin.base_url))
        table = known.endpoints()
        moved = table["litellm"].model_copy(update={"address": twin.base_url})
        monkeypatch.setattr(known, "endpoints", lambda: {**table, "litellm": moved})
        asyncio.run(ask(twin.base_url))
    assert seen == [None, "gpt"]


def test_what_an_endpoint_says_is_told_without_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_ENDPOINTS", "127.0.0.1=KEY")
    monkeypatch.setenv("KEY", "sk-of-the-twin-0001")

    async def ask(address: str) -> None:
        async with Batches(Judge(model="gpt", base_url=address)) as batches:
            await batches.state("batch-1")

    with BatchTwin() as twin:
        twin.refuses["ask batch"] = error(401, "Incorrect API key provided: sk-of-the-twin-0001")
        with pytest.raises(
            BatchesUnavailable, match=r"does not tell of batch batch-1: 401: .* provided: \[key\]$"
        ) as told:
            asyncio.run(ask(twin.base_url))
    assert told.value.status == 401
    with pytest.raises(BatchesUnavailable, match="does not tell of batch batch-1: ") as absent:
        asyncio.run(ask(twin.base_url))
    assert absent.value.status == 0


# Replies


def replies(log: Log, *lines: bytes) -> Replies:
    log.add("prepared", requests=(3,), asked="a")
    log.replies(log.current[0], "output").write_bytes(b"".join(lines))
    return Replies(log, 1)


def row(name: object, **said: Any) -> bytes:
    return json.dumps({"id": "r", "custom_id": name, "response": None, "error": None, **said}).encode() + b"\n"


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
        (row(7), "unavailable", "no reply to it in its files"),
        (b"[1]\n" + row("x", response={"status_code": 200, "body": 1}), "ok", "1"),
        (b'{"custom_id": "x"', "unavailable", "no reply to it in its files"),
    ],
)
def test_a_reply_is_found_by_its_name_whatever_the_file_holds(log: Log, line: bytes, status: str, words: str) -> None:
    found = replies(log, line).find("x", read)
    assert found.status == status and words in found.text + found.error


def test_of_two_replies_to_one_call_the_first_counts(log: Log) -> None:
    twice = [row("x", response={"status_code": 200, "body": number}) for number in (1, 2)]
    assert replies(log, *twice).find("x", read).text == "1"


def test_where_replies_stand_takes_no_memory_for_each(log: Log) -> None:
    many = [row(f"{number:032}", response={"status_code": 200, "body": number}) for number in range(20_000)]
    log.add("prepared", requests=(len(many),), asked="a")
    log.replies(log.current[0], "output").write_bytes(b"".join(many))
    tracemalloc.start()
    try:
        found = Replies(log, 1)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 1_000_000 and found.find(f"{12_345:032}", read).text == "12345"


def test_a_line_that_is_too_long_is_no_reply_and_hides_none_behind_it(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking_out, "LONGEST_LINE", 200)
    inner = row("y", response={"status_code": 200, "body": 1})
    long = row("x", response={"status_code": 200, "body": " " * 300})[:-1] + inner
    found = replies(log, long, row("z", response={"status_code": 200, "body": 2}))
    assert found.find("z", read).text == "2"
    assert {found.find(name, read).status for name in "xy"} == {"unavailable"}


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_of_a_file_stop_the_others_from_being_read(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        ledger = Ledger(store, start())
        ledger.begin()
        ledger.close()
        mine = row("mine", response={"status_code": 200, "body": "kept"})
        found = replies(begin(store, start().run_id), *(line + b"\n" for line in lines), mine)
        assert found.find("mine", read).text == '"kept"'
