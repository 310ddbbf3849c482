"""The judge step: asking, and writing every reply to the ledger before anything else happens to it.

Owns what is asked again and what is taken over from earlier runs. The layout of a question stands in `request`, the
client in `vlm`, the reading of replies in `reply`, the rule in `aggregate`.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from tasks.endpoint.completion import Reply
from tasks.endpoint.reply_text import Reading
from tasks.endpoint.requests import request
from tasks.errors import InvalidReply, JudgeUnavailable
from tasks.judging.cases import Call, Case, RunContext
from tasks.kinds import reply
from tasks.parameters import Judge
from tasks.records import Judgment, JudgmentStatus
from tasks.rubrics.rubric import Prompt

LONGEST_PAUSE = 900.0
"""Longest Retry-After, in seconds, that a chunk waits for before it leaves its calls unavailable."""


def take_over(run: RunContext, case: Case) -> int:
    """Record the replies that earlier runs already have for this very call; returns how many."""
    taken = 0
    for call in case.calls:
        earlier = run.replies.find(call.key)
        if earlier:
            _record(run, case, _reused(run, case, call, earlier))
            taken += 1
    return taken


async def judge(run: RunContext, dimension: str, cases: Sequence[Case], last: bool) -> dict[str, int]:
    """Ask everything still unsettled about one dimension of a chunk of samples.

    Args:
        last: nothing will ask again after this; what is unsettled then stays as recorded.

    Returns:
        Status -> number of judgments recorded now.

    Raises:
        JudgeUnavailable, InvalidReply: calls remain that asking again may settle, and this was not the last time.
        ExceptionGroup: holds a JudgeStopped: no call can succeed; the others of the chunk are cancelled.
    """
    if run.vlm.pause <= LONGEST_PAUSE:
        await asyncio.sleep(run.vlm.pause)
    async with asyncio.TaskGroup() as group:
        asked = [
            group.create_task(_ask(run, case, run.rubric.prompt(dimension), call))
            for case in cases
            for call in case.unsettled(dimension)
        ]
    counts = Counter(row.result().status for row in asked)
    open_calls = sum(len(case.unsettled(dimension)) for case in cases)
    if open_calls and not last and run.vlm.pause <= LONGEST_PAUSE:
        words = f"{open_calls} calls on {dimension} to be made again: {_tally(counts)}"
        raise JudgeUnavailable(words) if counts["unavailable"] else InvalidReply(words)
    return dict(counts)


async def _ask(run: RunContext, case: Case, prompt: Prompt, call: Call) -> Judgment:
    answer = await run.vlm.ask(request(prompt, case.texts, case.pictures, call.order))
    row = _judgment(run, case, prompt, call, answer)
    _record(run, case, row)
    return row


def _record(run: RunContext, case: Case, row: Judgment) -> None:
    run.ledger.append(row)
    case.judgments.append(row)


def _judgment(run: RunContext, case: Case, prompt: Prompt, call: Call, answer: Reply) -> Judgment:
    reading = reply.read(answer.text, prompt) if answer.status == "ok" else Reading(error=answer.error)
    status: JudgmentStatus = "invalid" if answer.status == "ok" and reading.error else answer.status
    return Judgment(
        run_id=run.start.run_id,
        flow=run.start.flow,
        sample_id=case.sample.sample_id,
        candidate=case.sample.candidate,
        control=case.sample.control,
        dimension=call.dimension,
        order=call.order,
        vote=call.vote,
        attempt=len(case.attempts(call)) + 1,
        status=status,
        verdict=reading.verdict,
        scores=reading.scores,
        seen=reading.seen,
        reasoning=reading.reasoning,
        raw=answer.text,
        error=reading.error,
        finish_reason=answer.finish_reason,
        rung=answer.rung,
        recovery=reading.recovery,
        key=call.key,
        prompt_sha256=prompt.sha256,
        text_sha256=case.text_sha256(prompt),
        pictures=case.notes(),
        model_asked=run.parameters.judge.model,
        model_answered=answer.model,
        endpoint=run.parameters.judge.base_url,
        tokens_in=answer.tokens_in,
        tokens_out=answer.tokens_out,
        tokens_cached=answer.tokens_cached,
        price=_price(answer, run.parameters.judge),
        seconds=answer.seconds,
        not_sent=answer.not_sent,
        http_retries=answer.http_retries,
        judged_at=datetime.now(UTC).isoformat(),
        reused_from="",
    )


def _reused(run: RunContext, case: Case, call: Call, earlier: Judgment) -> Judgment:
    return earlier.model_copy(
        update={
            "run_id": run.start.run_id,
            "sample_id": case.sample.sample_id,
            "candidate": case.sample.candidate,
            "control": case.sample.control,
            "attempt": 1,
            "pictures": case.notes(),
            "tokens_in": 0,
            "tokens_out": 0,
            "tokens_cached": 0,
            "price": 0.0,
            "seconds": 0.0,
            "http_retries": 0,
            "reused_from": earlier.reused_from or earlier.run_id,
        }
    )


def _price(answer: Reply, judge: Judge) -> float | None:
    if not (judge.price_in or judge.price_out):
        return None
    return (answer.tokens_in * judge.price_in + answer.tokens_out * judge.price_out) / 1e6


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))
