"""Unusual replies: each gets a status, a message and a row in the ledger, and the run goes on."""

import asyncio
import json
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from factories import end, start
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, allowed_reply, error, gzip_bomb, text, verdict
from odd_replies import ODD, PLAIN
from plain_runs import RUBRIC, run_of
from test_judge import case

from tasks.endpoint.client import LONGEST_REPLY, Vlm
from tasks.endpoint.requests import probe_request
from tasks.history.landing import Landed, land
from tasks.history.queries import query
from tasks.judge import judge_dimension
from tasks.judging.case import plan
from tasks.ledger.run_files import folder, read_judgments
from tasks.records import Judgment
from tasks.records.judge import Judge
from tasks.records.parameters import PairwiseParameters


def judge_replies(store: Path, loopback: LoopbackJudge, replies: list[Reply], **changes: str) -> list[Judgment]:
    """Run one call after the other, each with the next of the replies; return the recorded rows."""
    settings = Judge(model="m", base_url=loopback.base_url, concurrency=1, **changes)  # pyright: ignore
    parameters = PairwiseParameters(store=str(store), judge=settings)
    cases = [case(f"{number:03}") for number in range(len(replies))]
    for each in cases:
        each.calls = tuple(call for call in plan(each, RUBRIC, parameters) if call.dimension == "faithfulness")
    loopback.queue(*replies)

    async def scene() -> None:
        async with run_of(parameters) as run:
            for each in cases:
                await judge_dimension(run, "faithfulness", [each], last=True)
            run.ledger.end(end())

    asyncio.run(scene())
    return list(read_judgments(folder(store, start().run_id)))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with a ledger of all unusual replies, each followed by a good one."""
    store = tmp_path_factory.mktemp("odd")
    with LoopbackJudge(keep_requests=False) as loopback:
        judge_replies(store, loopback, [reply for odd in ODD for reply in (odd.reply, verdict("Human"))])
        assert loopback.count == 2 * len(ODD)
    return store


@pytest.fixture(scope="module")
def rows(store: Path) -> dict[str, Judgment]:
    return {row.sample_id: row for row in read_judgments(folder(store, start().run_id))}


@pytest.mark.parametrize("number", range(len(ODD)), ids=[odd.name for odd in ODD])
def test_odd_reply_gets_a_status_and_message_and_the_run_continues(rows: dict[str, Judgment], number: int) -> None:
    odd, row, following = ODD[number], rows[f"{2 * number:03}"], rows[f"{2 * number + 1:03}"]
    assert (row.status, row.verdict) == (odd.status, odd.verdict), row.error
    assert odd.words in row.error and bool(row.error) == (row.status != "ok") and len(row.error) <= 2000
    assert odd.kept in row.raw and odd.reasoning in row.reasoning
    assert row.recovery == odd.recovery or odd.status != "ok"
    assert odd.tokens_in in (None, row.tokens_in) and len(row.judge_answered) <= 200
    assert (following.status, following.verdict) == ("ok", "Human")


def test_odd_replies_land_in_the_history(store: Path) -> None:
    assert land(store) == Landed((start().run_id,), ())
    counts = query(store, "SELECT status, count(*) FROM judgments GROUP BY status").rows
    assert dict(counts) == Counter(odd.status for odd in ODD) + Counter(ok=len(ODD))


def test_longest_allowed_reply_is_recorded_whole(tmp_path: Path, loopback: LoopbackJudge) -> None:
    """Control characters take six bytes each in JSON, and DuckDB accepts no row above 16 MB."""
    umlauts = Reply(json.dumps(text(with_words("ü" * 1_900_000 + "end")).body, ensure_ascii=False).encode())
    controls, binary = text(with_words("\x02" * 600_000 + "end")), Reply(b"\x01" * LONGEST_REPLY)
    page = Reply("é" * (LONGEST_REPLY // 2))
    rows = judge_replies(tmp_path, loopback, [umlauts, binary, controls, page])
    assert [row.status for row in rows] == ["ok", "unavailable", "ok", "unavailable"]
    assert "\x02end" in rows[2].raw and rows[2].reasoning.endswith("\x02end of it")
    assert rows[0].raw == with_words("ü" * 1_900_000 + "end") and rows[0].reasoning.endswith("üend of it")
    assert len(rows[1].raw) == LONGEST_REPLY and rows[3].raw == "é" * (LONGEST_REPLY // 2)
    assert max(len(row.model_dump_json().encode()) for row in rows) < 16_000_000
    assert land(tmp_path) == Landed((start().run_id,), ())


def with_words(words: str) -> str:
    return PLAIN.replace("half", words)


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize(
    "body", [Reply(b"x" * 2**20, times=200), Reply(b"x" * 2**20, times=200, chunked=True), gzip_bomb(6 * 1024)],
    ids=["200 MB", "200 MB without a length", "6 GB behind gzip"],
)  # fmt: skip
def test_endless_body_takes_bounded_memory(loopback: LoopbackJudge, body: Reply, status: int) -> None:
    endless = Reply(body.body, status, body.headers, times=body.times, chunked=body.chunked)
    loopback.answer = lambda seen: allowed_reply()(seen) if seen.schema_name == "probe" else endless
    settings = Judge(model="m", base_url=loopback.base_url)  # pyright: ignore

    async def scene() -> tuple[str, str]:
        async with Vlm(settings) as vlm:
            about = probe_request()._replace(name="about_a_sample")
            reply, following = await vlm.ask(about), await vlm.ask(probe_request())
            assert following.status == "ok"
            return reply.text, reply.error

    tracemalloc.start()
    try:
        kept, words = asyncio.run(scene())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The server shares this process: its connection buffers and one piece count too.
    assert peak < 40_000_000
    longest = "longer than 4,000,000 bytes" if status == 200 else "longer than 1,000,000 bytes"
    assert len(kept) < 21_000 and f"[The rest was not read: it is {longest}" in kept
    assert status != 200 or longest in words


@pytest.mark.parametrize("key", ["k", "a", "e", "Model", "winner"])
def test_word_like_key_is_removed_from_errors_but_not_from_replies(
    tmp_path: Path, loopback: LoopbackJudge, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("TEST_KEY", key)
    monkeypatch.setenv("JURY_ENDPOINTS", f"{loopback.place}=TEST_KEY")
    reasoning = '{"comparison_reasoning": "feedback on the Human figure", "winner": "Model"}'
    refused = error(400, f"the key is <{key}>")
    replies = [text(reasoning), refused, Reply("a dark page")]
    good, bad, page = judge_replies(tmp_path, loopback, replies, api_key_env="TEST_KEY")
    assert (good.verdict, good.raw, good.reasoning) == ("Model", reasoning, "feedback on the Human figure")
    assert bad.status == "rejected" and f"<{key}>" not in bad.error and "<[key]>" in bad.error
    assert page.raw == "a dark page" and key not in page.error.replace("[key]", "").partition("completion: ")[2]


@pytest.mark.parametrize("key", [r"sk-\back-0123456789", 'sk-"quoted"/key-0123', "sk-an-ordinary-key-0123"])
def test_long_key_is_removed_from_all_replies(
    tmp_path: Path, loopback: LoopbackJudge, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("TEST_KEY", key)
    monkeypatch.setenv("JURY_ENDPOINTS", f"{loopback.place}=TEST_KEY")
    quoting = verdict("Human", f"your key is {key}, is it not?")
    escaped = text(PLAIN.replace("half", "".join(f"\\u{ord(sign):04x}" for sign in key)))
    named = Reply({**text(PLAIN).body, "model": key})
    replies = [quoting, escaped, text(f"Your key is {key}."), error(400, "x" * 1990 + key), named]
    rows = judge_replies(tmp_path, loopback, replies, api_key_env="TEST_KEY")
    assert [row.status for row in rows] == ["ok", "ok", "invalid", "rejected", "ok"]
    assert [row.verdict for row in rows] == ["Human", "Model", None, None, "Model"]
    assert rows[0].reasoning == "your key is [key], is it not?" and rows[1].reasoning == "[key] of it"
    assert "Your key is [key]." in rows[2].raw and "Your key is [key]." in rows[2].error
    assert key[:6] not in rows[3].error.replace("[key]", "") and rows[4].judge_answered == "[key]"
    kept = (folder(tmp_path, start().run_id) / "judgments.jsonl").read_text()
    assert key not in kept.replace("\\", "")
