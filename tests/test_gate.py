"""The gate through the real client: outages, hangs, trickles, single calls that fail, and what is told of it all."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, allowed_reply, drop, error, hang, trickle
from loopback_replies import Request as Seen

from tasks.endpoint import adaptive_limit, client, gate
from tasks.endpoint.client import MOST_FAILURES, Vlm
from tasks.endpoint.completion import Reply as Answer
from tasks.endpoint.requests import Image, Request
from tasks.errors import JudgeGaveUp, JudgeStopped
from tasks.parameters import Judge

AWAY = "waiting for the judge, which does not answer"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(gate, "KNOCK_SECONDS", (0.05, 0.4))
    monkeypatch.setattr(adaptive_limit, "PAUSE_SECONDS", (0.01, 0.03))


def question(words: str = "Compare.") -> Request:
    winner = {"type": "object", "properties": {"winner": {"type": "string", "enum": ["Model"]}}, "required": ["winner"]}
    content = ("Human:", Image(b"data:image/png;base64,AAAA"), "Reply as JSON.")
    return Request(words, content, "diagram_faithfulness", winner)


def vlm_of(loopback: LoopbackJudge, **changes: object) -> Vlm:
    return Vlm(Judge(model="m", base_url=loopback.base_url, **changes))  # pyright: ignore


async def slowly(seen: Seen) -> Reply:
    await asyncio.sleep(0.01)
    return allowed_reply()(seen)


async def until(true: Callable[[], bool]) -> None:
    while True:
        if true():
            return
        await asyncio.sleep(0.005)


async def asked(vlm: Vlm, calls: int, beside: asyncio.Future[None] | None = None) -> list[Answer]:
    """So many calls at once; what happens beside them has to have happened by then."""
    replies = await asyncio.gather(*(vlm.ask(question()) for _ in range(calls)))
    if beside:
        await beside
    return replies


# A judge that goes away and comes back


@pytest.mark.parametrize(("times", "calls"), [(1, 60), (3, 240)])
def test_a_judge_that_is_away_costs_nothing_but_time(times: int, calls: int) -> None:
    judge = LoopbackJudge(slowly, keep_requests=False)

    async def goes_away(vlm: Vlm) -> None:
        for each in range(times):
            enough = (each + 1) * calls // (times + 2)
            await until(partial(lambda enough: judge.count >= enough, enough))
            await asyncio.to_thread(judge.__exit__)
            await until(lambda: vlm.gate.words() == AWAY)
            await asyncio.sleep(0.3)  # it stays away for a few questions whether it is back
            await asyncio.to_thread(judge.__enter__)

    async def scene() -> list[Answer]:
        async with vlm_of(judge, concurrency=4) as vlm:
            replies = await asked(vlm, calls, asyncio.ensure_future(goes_away(vlm)))
            found = vlm.gate.found()
            assert found and found.away_seconds >= times * 0.3 and not vlm.gate.words()
            questions = [reply.status for _, reply in vlm.take_asides()]
            assert questions.count("ok") >= times, "what asks whether it is back is paid for, too"
            assert vlm.take_asides() == []
            return replies

    with judge:
        replies = asyncio.run(scene())
    assert [reply.status for reply in replies] == ["ok"] * calls
    assert judge.count <= 1.1 * calls
    assert sum(reply.http_retries for reply in replies) <= times * (gate.AWAY_AFTER - 1)
    assert max(reply.http_retries for reply in replies) < MOST_FAILURES
    assert sum(reply.waits for reply in replies) >= times


def test_a_judge_that_refuses_before_it_is_back_is_back(loopback: LoopbackJudge) -> None:
    """A server that loads its model answers the question whether it is there with 503, and the calls with it."""
    loopback.queue(*[drop()] * 10, *[error(503, "loading the model")] * 4)
    replies = asyncio.run(ask(loopback, 12, concurrency=12))
    assert [reply.status for reply in replies] == ["ok"] * 12
    assert max(reply.http_retries for reply in replies) < MOST_FAILURES
    assert loopback.count <= 12 + 14 + 1


async def ask(loopback: LoopbackJudge, calls: int, **changes: object) -> list[Answer]:
    async with vlm_of(loopback, **changes) as vlm:
        return await asked(vlm, calls)


def test_a_judge_that_hangs_is_given_up_within_patience(loopback: LoopbackJudge) -> None:
    async def scene() -> None:
        async with vlm_of(loopback, timeout_seconds=0.3, patience_seconds=2, concurrency=8) as vlm:
            await vlm.ask(question())
            loopback.answer = lambda _: hang()
            with pytest.raises(JudgeGaveUp) as gave_up:
                await asked(vlm, 40)
            assert str(gave_up.value) == (
                f"The judge m at {loopback.base_url} has not answered for 2 s: no reply within 0.3 s"
            )
            with pytest.raises(JudgeGaveUp, match="has not answered for 2 s"):
                await vlm.ask(question())

    asyncio.run(scene())
    knocks = 2 / 0.3
    assert loopback.count <= 1 + 8 + gate.AWAY_AFTER + knocks


def test_patience_counts_from_the_start_of_the_call_that_had_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call may hang for as long as there is patience: then nobody need wait twice as long."""

    async def scene() -> None:
        hung = gate.Gate("The judge", 4, 60.0, asyncio.Semaphore(4), never)
        hung.open()
        turn = await hung.enter(hung.number())
        monkeypatch.setattr(gate.time, "monotonic", lambda: turn.started + 60.0)
        with pytest.raises(JudgeGaveUp, match="has not answered for 60 s: no reply"):
            hung.failed(turn, False, "no reply within 60 s")
        monkeypatch.undo()
        await hung.close()

    async def never() -> bool:
        return False

    asyncio.run(scene())


def test_a_run_that_has_given_up_lets_nobody_wait(loopback: LoopbackJudge) -> None:
    loopback.answer = lambda _: error(503, "loading the model")

    async def scene() -> list[Answer | BaseException]:
        async with vlm_of(loopback, patience_seconds=0.2) as vlm:
            return await asyncio.gather(*(vlm.ask(question()) for _ in range(40)), return_exceptions=True)

    assert {type(each) for each in asyncio.run(scene())} == {JudgeGaveUp}


# Single calls


def test_a_reply_that_trickles_is_not_waited_for_beyond_the_longest_time(loopback: LoopbackJudge) -> None:
    loopback.answer = lambda seen: trickle() if "slow" in seen.texts[0] else allowed_reply()(seen)

    async def scene() -> list[Answer]:
        async with vlm_of(loopback, call_seconds=1, timeout_seconds=5) as vlm:
            return await asyncio.gather(vlm.ask(question("slow")), vlm.ask(question()))

    slow, other = asyncio.run(scene())
    assert (slow.status, slow.error, slow.http_retries) == (
        "unavailable",
        "no whole reply within 1 s",
        MOST_FAILURES - 1,
    )
    assert other.status == "ok" and loopback.count == 1 + MOST_FAILURES


@pytest.mark.parametrize("poison", [drop(), error(500, "worker died")])
def test_a_call_that_always_fails_ends_alone(loopback: LoopbackJudge, poison: Reply) -> None:
    async def answer(seen: Seen) -> Reply:
        return poison if "poison" in seen.texts[0] else await slowly(seen)

    async def scene() -> list[Answer]:
        async with vlm_of(loopback, concurrency=4) as vlm:
            words = ["poison" if number == 5 else "harmless" for number in range(40)]
            return await asyncio.gather(*(vlm.ask(question(each)) for each in words))

    loopback.answer = answer
    replies = asyncio.run(scene())
    assert [reply.status for reply in replies] == ["ok"] * 5 + ["unavailable"] + ["ok"] * 34
    assert (replies[5].http_retries, replies[5].waits) == (MOST_FAILURES - 1, 0)
    assert loopback.count == 39 + MOST_FAILURES


def test_many_calls_that_always_fail_are_no_outage_for_ever(loopback: LoopbackJudge) -> None:
    """The judge answers the small question each time: it is there, and the calls are what fails."""
    loopback.answer = lambda seen: drop() if "poison" in seen.texts[0] else allowed_reply()(seen)

    async def scene() -> list[Answer]:
        async with vlm_of(loopback, concurrency=4) as vlm:
            return await asyncio.gather(*(vlm.ask(question("poison")) for _ in range(20)))

    replies = asyncio.run(scene())
    assert [reply.status for reply in replies] == ["unavailable"] * 20
    # Each time that the judge is taken to be away, all calls in flight are spared and one question is asked.
    sends = 20 * MOST_FAILURES
    assert loopback.count <= sends + (sends / (gate.AWAY_AFTER - 1)) * (4 + 1)


def test_a_busy_judge_spends_no_attempt(loopback: LoopbackJudge) -> None:
    loopback.answer = lambda seen: error(503, "loading") if loopback.count <= 20 else allowed_reply()(seen)
    replies = asyncio.run(ask(loopback, 12, concurrency=4))
    assert {(reply.status, reply.http_retries) for reply in replies} == {("ok", 0)}
    assert sum(reply.waits for reply in replies) == 20 and loopback.count == 12 + 20
    assert all((reply.waited_seconds > 0) == (reply.waits > 0) for reply in replies)


OVER = {"message": "Rate limit exceeded, please try again in 20ms.", "code": 429}
WITHIN = {
    "of the body": {"error": OVER},
    "of the choice": {"choices": [{"error": OVER, "message": {"role": "assistant", "content": ""}}]},
    "of the choice, beside half a reply": {"choices": [{"error": OVER, "message": {"content": '{"winner": '}}]},
    "by name": {"error": {"message": "Slow down.", "type": "rate_limit_error"}},
    "by status": {"error": {"message": "Slow down.", "code": "throttled", "status": "RESOURCE_EXHAUSTED"}},
    "overloaded": {"error": {"message": "No capacity.", "code": "503"}},
}


@pytest.mark.parametrize("body", WITHIN.values(), ids=WITHIN)
def test_a_refusal_to_hurry_within_a_reply_is_a_wait_too(body: dict[str, object], loopback: LoopbackJudge) -> None:
    loopback.answer = lambda seen: Reply(body) if loopback.count <= 3 else allowed_reply()(seen)
    replies = asyncio.run(ask(loopback, 6, concurrency=2))
    assert {(reply.status, reply.http_retries) for reply in replies} == {("ok", 0)}
    assert sum(reply.waits for reply in replies) == 3 and loopback.count == 6 + 3


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "The worker died.", "code": 500}},
        {"error": {"message": "429 tokens were read.", "code": "server_error"}},
        {"choices": [{"error": {"message": "No.", "code": 502}, "message": {"content": "x"}}]},
    ],
)
def test_another_error_within_a_reply_is_no_wait(body: dict[str, object], loopback: LoopbackJudge) -> None:
    loopback.answer = lambda _: Reply(body)
    [reply] = asyncio.run(ask(loopback, 1))
    assert (reply.status, reply.waits, loopback.count) == ("unavailable", 0, 1)


def test_a_quota_that_is_used_up_stops_the_run_from_within_a_reply(loopback: LoopbackJudge) -> None:
    loopback.answer = lambda _: Reply({"error": {"message": "No.", "code": 429, "type": "insufficient_quota"}})
    with pytest.raises(JudgeStopped, match="refuses all calls"):
        asyncio.run(ask(loopback, 1))


def test_a_call_that_is_cancelled_gives_its_place_to_others(loopback: LoopbackJudge) -> None:
    loopback.queue(hang())

    async def scene() -> list[Answer]:
        async with vlm_of(loopback, concurrency=1) as vlm:
            hanging = asyncio.create_task(vlm.ask(question()))
            await until(lambda: loopback.count == 1)
            in_line = asyncio.create_task(vlm.ask(question()))
            await asyncio.sleep(0)
            for task in (in_line, hanging):
                task.cancel()
            await asyncio.gather(hanging, in_line, return_exceptions=True)
            return await asked(vlm, 3)

    assert [reply.status for reply in asyncio.run(scene())] == ["ok"] * 3 and loopback.count == 4


# What is told


def test_where_nothing_held_the_run_up_nothing_is_told(loopback: LoopbackJudge) -> None:
    async def scene() -> None:
        async with vlm_of(loopback) as vlm:
            assert vlm.gate.words() == "" and vlm.gate.found() is None
            await asked(vlm, 30)
            assert vlm.gate.words() == "" and vlm.gate.found() is None

    asyncio.run(scene())


def test_a_limit_is_told_with_its_reasons_and_what_it_cost(loopback: LoopbackJudge) -> None:
    in_flight = 0

    async def answer(seen: Seen) -> Reply:
        nonlocal in_flight
        if in_flight >= 2:
            return error(429, "Two at once, please.")
        in_flight += 1
        try:
            return await slowly(seen)
        finally:
            in_flight -= 1

    async def scene() -> list[Answer]:
        async with vlm_of(loopback, concurrency=8) as vlm:
            replies = await asked(vlm, 40)
            found, words = vlm.gate.found(), vlm.gate.words()
        assert found and found.waits == loopback.count - 40 and found.away_seconds == 0
        assert found.waited_seconds == pytest.approx(sum(reply.waited_seconds for reply in replies), abs=0.1)
        assert 1 <= found.calls_in_flight <= 3 and words == found.in_words()
        assert words.startswith("limited by the judge to ") and words.endswith((" at once", " a second"))
        first = found.changes[0]
        assert first.reason == "429: Two at once, please." and first.calls_in_flight < 8 and first.seconds >= 0
        return replies

    loopback.answer = answer
    assert {reply.status for reply in asyncio.run(scene())} == {"ok"}


def test_changes_are_told_up_to_a_number(loopback: LoopbackJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MOST_CHANGES", 2)
    loopback.answer = lambda seen: error(503, "x" * 900) if loopback.count % 3 else allowed_reply()(seen)

    async def scene() -> None:
        async with vlm_of(loopback, concurrency=8) as vlm:
            await asked(vlm, 12)
            found = vlm.gate.found()
            assert found and len(found.changes) == 2 and found.waits == loopback.count - 12
            assert [len(change.reason) for change in found.changes] == [200, 200]

    asyncio.run(scene())
