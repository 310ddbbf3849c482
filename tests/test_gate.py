"""The gate, through the real client: outages, hangs, slow replies, failing calls, and what it reports."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, allowed_reply, drop, error, hang, trickle
from loopback_replies import Request as Seen

from tasks.endpoint import client, gate
from tasks.endpoint.client import MOST_FAILURES, Vlm
from tasks.endpoint.replies import Reply as Answer
from tasks.endpoint.requests import Image, Request
from tasks.errors import JudgeStopped
from tasks.records.judge import Judge

AWAY = "waiting for the judge, which does not answer"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(gate, "KNOCK_SECONDS", (0.05, 0.4))
    monkeypatch.setattr(gate, "BACKOFF_SECONDS", (0.01, 0.03))


def question(words: str = "Compare.") -> Request:
    winner = {"type": "object", "properties": {"winner": {"type": "string", "enum": ["Model"]}}, "required": ["winner"]}
    content = ("Human:", Image("image/png", b"AAAA"), "Reply as JSON.")
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


async def ask_many(vlm: Vlm, calls: int, beside: asyncio.Future[None] | None = None) -> list[Answer]:
    """Make this many calls at once, and wait for what happens beside them."""
    replies = await asyncio.gather(*(vlm.ask(question()) for _ in range(calls)))
    if beside:
        await beside
    return replies


# Outages


AT_ONCE = 4


@pytest.mark.parametrize(("times", "calls"), [(1, 60), (3, 240)])
def test_outage_costs_only_time(times: int, calls: int) -> None:
    judge = LoopbackJudge(slowly, keep_requests=False)

    async def goes_away(vlm: Vlm) -> None:
        for each in range(times):
            enough = (each + 1) * calls // (times + 2)
            await until(partial(lambda enough: judge.count >= enough, enough))
            await asyncio.to_thread(judge.__exit__)
            await until(lambda: vlm.gate.words() == AWAY)
            await asyncio.sleep(0.3)  # stays away for a few small questions
            await asyncio.to_thread(judge.__enter__)

    async def scene() -> list[Answer]:
        async with vlm_of(judge, concurrency=AT_ONCE) as vlm:
            replies = await ask_many(vlm, calls, asyncio.ensure_future(goes_away(vlm)))
            found = vlm.gate.found()
            assert found and found.away_seconds >= times * 0.3 and not vlm.gate.words()
            questions = [reply.status for _, reply in vlm.take_asides()]
            assert questions.count("ok") >= times, "small questions are recorded, since they cost money"
            assert vlm.take_asides() == []
            return replies

    with judge:
        replies = asyncio.run(scene())
    assert [reply.status for reply in replies] == ["ok"] * calls
    assert judge.count <= 1.1 * calls
    # As the judge goes away, a last reply may be read after other connections broke. That restarts the count of
    # successive failures after which the judge counts as away.
    assert sum(reply.http_retries for reply in replies) <= times * (gate.AWAY_AFTER - 1 + AT_ONCE - 1)
    assert max(reply.http_retries for reply in replies) < MOST_FAILURES
    assert sum(reply.waits for reply in replies) >= times


def test_judge_that_answers_503_is_back(loopback: LoopbackJudge) -> None:
    """A server that is loading its model answers the small question and the calls with 503."""
    loopback.queue(*[drop()] * 10, *[error(503, "loading the model")] * 4)
    replies = asyncio.run(ask(loopback, *["Compare."] * 12, concurrency=12))
    assert [reply.status for reply in replies] == ["ok"] * 12
    assert max(reply.http_retries for reply in replies) < MOST_FAILURES
    assert loopback.count <= 12 + 14 + 1


async def ask(loopback: LoopbackJudge, *words: str, **changes: object) -> list[Answer]:
    async with vlm_of(loopback, **changes) as vlm:
        return await asyncio.gather(*(vlm.ask(question(each)) for each in words))


def test_hanging_judge_is_given_up_after_patience(loopback: LoopbackJudge) -> None:
    async def scene() -> None:
        async with vlm_of(loopback, timeout_seconds=0.3, patience_seconds=2, concurrency=8) as vlm:
            await vlm.ask(question())
            loopback.answer = lambda _: hang()
            with pytest.raises(JudgeStopped) as gave_up:
                await ask_many(vlm, 40)
            words = "has not answered for 2 s: no whole reply within 0.3 s"
            assert str(gave_up.value) == f"The judge m at {loopback.base_url} {words}"
            with pytest.raises(JudgeStopped, match="has not answered for 2 s"):
                await vlm.ask(question())

    asyncio.run(scene())
    knocks = 2 / 0.3
    assert loopback.count <= 1 + 8 + gate.AWAY_AFTER + knocks


async def report_failure(at: gate.Gate, ticket: gate.Ticket) -> bool:
    return await at.failed(ticket, "no reply")


@asynccontextmanager
async def open_gate(most: int, sign: gate.Sign) -> AsyncIterator[tuple[gate.Gate, list[gate.Ticket]]]:
    """Open a gate with all its places taken; the judge answers a small question with `sign`."""

    async def knock() -> gate.Sign:
        return sign

    door = gate.Gate("The judge", most=most, patience=60, call_seconds=600, knock=knock)
    door.open()
    tickets = [door.join(f"Figure {number}") for number in range(most)]
    for ticket in tickets:
        await door.enter(ticket)
    yield door, tickets
    await door.close()


def test_judge_is_not_away_while_a_call_may_be_answered() -> None:
    async def scene() -> None:
        async with open_gate(8, "silent") as (door, tickets):
            silent = [asyncio.create_task(report_failure(door, ticket)) for ticket in tickets[:6]]
            await asyncio.sleep(0.3)
            assert door.words() == "", "two calls are still in flight"
            silent += [asyncio.create_task(report_failure(door, tickets[6]))]
            door.answered(tickets[7], {}, 0)
            assert await asyncio.gather(*silent) == [True] * 7
            assert door.found() is None

    asyncio.run(scene())


@pytest.mark.parametrize("calls", [20, 200])
def test_calls_use_up_their_refusals_within_half_the_patience(calls: int) -> None:
    async def scene() -> float:
        async with open_gate(4, "answered") as (door, tickets):
            for number in range(len(tickets), calls):
                door.join(f"Figure {number}")
            await door._try_small_question()
            return door._window._longest_gap

    patience = 60
    assert asyncio.run(scene()) * gate.MOST_REFUSALS * calls <= patience / 2


def test_silent_calls_hold_at_most_half_the_places_while_others_wait() -> None:
    async def scene() -> None:
        async with open_gate(6, "answered") as (door, silent):
            assert await asyncio.gather(*(report_failure(door, ticket) for ticket in silent)) == [True] * 6
            others = [door.join(f"Figure {number}") for number in range(6, 11)]
            entered = {ticket: asyncio.create_task(door.enter(ticket)) for ticket in [*silent, *others]}
            await asyncio.sleep(0.05)
            assert sum(entered[ticket].done() for ticket in silent) == 3
            assert sum(entered[ticket].done() for ticket in others) == 3
            for ticket in others:
                await entered[ticket]
                door.answered(ticket, {}, 0)
            await asyncio.sleep(0.05)
            assert all(task.done() for task in entered.values()), "without others waiting they may hold all places"

    asyncio.run(scene())


def test_waiting_calls_start_in_sample_order_and_failed_ones_as_they_arrive() -> None:
    async def scene() -> list[str]:
        async with open_gate(2, "answered") as (door, (refused, also)):
            started: list[str] = []
            refused.place = 99

            async def turn(ticket: gate.Ticket) -> None:
                await door.enter(ticket)
                started.append(ticket.sample)
                door.answered(ticket, {}, 0)

            places = (7, 3, 9, 3)
            waiting = [asyncio.create_task(turn(door.join(f"{at}{'abcd'[n]}", at))) for n, at in enumerate(places)]
            await asyncio.sleep(0)
            for ticket in (refused, also):
                assert not door.refused(ticket, 0.02, "busy")
            waiting += [asyncio.create_task(turn(ticket)) for ticket in (refused, also)]
            await asyncio.gather(*waiting)
            return started

    started = asyncio.run(scene())
    assert [name for name in started if "F" not in name] == ["3b", "3d", "7a", "9c"]
    assert [name for name in started if "F" in name] == ["Figure 0", "Figure 1"]


def test_last_silent_call_ends_even_with_short_patience(loopback: LoopbackJudge) -> None:
    """The judge answers every small question, so the run has no reason to stop."""
    loopback.answer = lambda seen: hang() if "poison" in seen.texts[0] else allowed_reply()(seen)

    async def scene() -> tuple[Answer, Answer]:
        async with vlm_of(loopback, timeout_seconds=0.4, patience_seconds=0.3) as vlm:
            return await vlm.ask(question()), await vlm.ask(question("poison"))

    good, poison = asyncio.run(scene())
    assert (good.status, poison.status, poison.http_retries) == ("ok", "unavailable", MOST_FAILURES - 1)


# Single calls


def test_trickling_reply_is_cut_off_at_the_timeout(loopback: LoopbackJudge) -> None:
    loopback.answer = lambda seen: trickle() if "slow" in seen.texts[0] else allowed_reply()(seen)
    slow, other = asyncio.run(ask(loopback, "slow", "Compare.", timeout_seconds=1))
    assert (slow.status, slow.error) == ("unavailable", "no whole reply within 1 s")
    assert slow.http_retries == MOST_FAILURES - 1
    assert other.status == "ok" and loopback.count == 1 + MOST_FAILURES + 1, "and one small question"


def test_many_failing_calls_end_without_an_outage(loopback: LoopbackJudge) -> None:
    """The judge answers every small question: it is not away, the calls themselves fail."""
    loopback.answer = lambda seen: drop() if "poison" in seen.texts[0] else allowed_reply()(seen)
    replies = asyncio.run(ask(loopback, *["poison"] * 19, concurrency=4))
    assert [reply.status for reply in replies] == ["unavailable"] * 19
    sends = 19 * MOST_FAILURES
    assert loopback.count <= 2 * sends, "at most one small question for a failure"


def test_busy_judge_costs_no_attempt(loopback: LoopbackJudge) -> None:
    loopback.answer = lambda seen: error(503, "loading") if loopback.count <= 20 else allowed_reply()(seen)
    replies = asyncio.run(ask(loopback, *["Compare."] * 12, concurrency=4))
    assert {(reply.status, reply.http_retries) for reply in replies} == {("ok", 0)}
    assert sum(reply.waits for reply in replies) == 20 and loopback.count == 12 + 20
    assert all((reply.waited_seconds > 0) == (reply.waits > 0) for reply in replies)


OVER = {"message": "Rate limit exceeded, please try again in 20ms.", "code": 429}
WITHIN = {
    "in the body": {"error": OVER},
    "in the choice": {"choices": [{"error": OVER, "message": {"role": "assistant", "content": ""}}]},
    "in the choice, after half a reply": {"choices": [{"error": OVER, "message": {"content": '{"winner": '}}]},
    "by name": {"error": {"message": "Slow down.", "type": "rate_limit_error"}},
    "by status": {"error": {"message": "Slow down.", "code": "throttled", "status": "RESOURCE_EXHAUSTED"}},
    "overloaded": {"error": {"message": "No capacity.", "code": "503"}},
}


@pytest.mark.parametrize("body", WITHIN.values(), ids=WITHIN)
def test_rate_limit_inside_a_reply_causes_a_wait(body: dict[str, object], loopback: LoopbackJudge) -> None:
    loopback.answer = lambda seen: Reply(body) if loopback.count <= 3 else allowed_reply()(seen)
    replies = asyncio.run(ask(loopback, *["Compare."] * 6, concurrency=2))
    assert {(reply.status, reply.http_retries) for reply in replies} == {("ok", 0)}
    assert sum(reply.waits for reply in replies) == 3 and loopback.count == 6 + 3


def test_exhausted_quota_inside_a_reply_stops_the_run(loopback: LoopbackJudge) -> None:
    loopback.answer = lambda _: Reply({"error": {"message": "No.", "code": 429, "type": "insufficient_quota"}})
    with pytest.raises(JudgeStopped, match="refuses all calls"):
        asyncio.run(ask(loopback, "Compare."))


def test_cancelled_call_releases_its_place(loopback: LoopbackJudge) -> None:
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
            return await ask_many(vlm, 3)

    assert [reply.status for reply in asyncio.run(scene())] == ["ok"] * 3 and loopback.count == 4


# Reports


def test_undisturbed_run_reports_nothing(loopback: LoopbackJudge) -> None:
    async def scene() -> None:
        async with vlm_of(loopback) as vlm:
            await ask_many(vlm, 30)
            assert vlm.gate.words() == "" and vlm.gate.found() is None

    asyncio.run(scene())
