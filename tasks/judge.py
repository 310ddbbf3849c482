"""The judge step: asking, and writing every reply to the ledger before anything else happens to it.

Owns what is asked again and what is taken over from earlier runs. The layouts of a question stand in
`judging.questions` and `judging.shared_layout`, the client in `endpoint.client`, the reading of replies in `kinds`;
deciding is for `aggregate`.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import TaskRunContext
from prefect.states import Cancelled

from tasks.endpoint.completion import Reply
from tasks.endpoint.requests import Request
from tasks.errors import InvalidReply, JudgeUnavailable
from tasks.judging.affording import expected, name_of
from tasks.judging.case import Call, Case
from tasks.judging.run import Run, current_run
from tasks.kinds.values import Reading
from tasks.records import ANCHOR, Judgment, JudgmentStatus
from tasks.rubrics.rubric import Prompt
from tasks.spending.bill import Charge, billed


def _worth_retrying(_task: object, _task_run: object, state: State) -> bool:
    return isinstance(state.data, JudgeUnavailable | InvalidReply)


@task(
    name="judge",
    task_run_name="{dimension} {samples}",
    cache_policy=NO_CACHE,
    retry_condition_fn=_worth_retrying,
    retry_jitter_factor=0.3,
)
async def judge(dimension: str, samples: str) -> dict[str, int] | State:
    """Judge one dimension of a chunk of samples; Prefect retries it while calls are unsettled.

    Args:
        samples: name of the chunk in hand of the current run.

    Returns:
        Status -> number of judgments recorded now; or Cancelled where the run ends before all is asked, which Prefect
        would call a crash.
    """
    run, task_run = current_run(), TaskRunContext.get()
    last = task_run is None or task_run.task_run.run_count > run.parameters.retries
    try:
        return await judge_dimension(run, dimension, run.in_hand.chunks[samples], last)
    except asyncio.CancelledError:
        return Cancelled(message="The run ended before all calls were answered.")


def take_over(run: Run, case: Case) -> int:
    """Record the replies that earlier runs already have for this very call; returns how many.

    Of an anchor none: what it is judged for is whether the judge still says the same.
    """
    if case.sample.control == ANCHOR:
        return 0
    taken = 0
    for call in case.calls:
        earlier = run.replies.find(call.key)
        if earlier:
            _record(run, case, _reused(run, case, call, earlier))
            taken += 1
    return taken


async def judge_dimension(run: Run, dimension: str, cases: Sequence[Case], last: bool) -> dict[str, int]:
    """Ask everything still unsettled about one dimension of a chunk of samples.

    Args:
        last: nothing will ask again after this; what is unsettled then stays as recorded.

    Returns:
        Status -> number of judgments recorded now.

    Raises:
        JudgeUnavailable, InvalidReply: calls remain that asking again may settle, and this was not the last time.
        ExceptionGroup: holds a JudgeStopped: no call can succeed; the others of the chunk are cancelled.
    """
    async with asyncio.TaskGroup() as group:
        asked = [
            group.create_task(_ask(run, case, run.rubric.prompt(dimension), call))
            for case in cases
            for call in case.unsettled(dimension)
        ]
    rows = [row for each in asked if (row := each.result())]
    counts, last = Counter(row.status for row in rows), last or len(rows) < len(asked)  # no money is left to ask again
    open_calls = sum(len(case.unsettled(dimension)) for case in cases)
    if open_calls and not last:
        words = f"{open_calls} calls on {dimension} to be made again: {_tally(counts)}"
        raise JudgeUnavailable(words) if counts["unavailable"] else InvalidReply(words)
    return dict(counts)


async def _ask(run: Run, case: Case, prompt: Prompt, call: Call) -> Judgment | None:
    """Make a call; None: the budget has no room for it, as it may have none for what is to be asked again."""
    budget = run.budget
    invalid = sum(row.status == "invalid" for row in case.attempts(call))
    question = run.question(case, prompt, call.order)
    # What the budget has no room for has had its turn, too: nobody waits for it.
    async with _turn(run, case, call, question):
        if budget and not await budget.covers(name_of(case, call), expected(run, budget, case, call)):
            return None
        run.bill.prepare()
        answer = await run.vlm.ask(question._replace(turn=call.vote - 1 + invalid * run.parameters.votes))
    run.input_tokens.note(question, answer)
    charge = await run.bill.charge(question, answer, call.dimension)
    row = _without_key(run, _judgment(run, case, prompt, call, answer, charge))
    _record(run, case, row)
    if budget:
        budget.settle(name_of(case, call), call.dimension, billed(row))
    if case.settled:
        run.in_hand.free(case)
    return row


@asynccontextmanager
async def _turn(run: Run, case: Case, call: Call, question: Request) -> AsyncGenerator[None]:
    """The turn of a call: where it shares beginnings, once the calls have ended that write them."""
    if not question.key:
        yield
        return
    async with case.turn(call), run.first_calls.turn(question.key):
        yield


async def write_down(run: Run, case: Case, call: Call, answer: Reply) -> Judgment:
    """Record the reply to a call that was not asked by `judge`: it is read, priced and kept as any other."""
    question = Request("", (), "", {})
    charge = await run.bill.charge(question, answer, call.dimension)
    row = _without_key(run, _judgment(run, case, run.rubric.prompt(call.dimension), call, answer, charge))
    _record(run, case, row)
    return row


def _record(run: Run, case: Case, row: Judgment) -> None:
    run.ledger.append(row)
    case.judgments.append(row)


def _judgment(run: Run, case: Case, prompt: Prompt, call: Call, answer: Reply, charge: Charge) -> Judgment:
    reading = run.kind.read_reply(answer.text, prompt) if answer.status == "ok" else Reading(error=answer.error)
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
        system_fingerprint=answer.fingerprint,
        endpoint=run.parameters.judge.base_url,
        tokens_in=answer.tokens_in,
        tokens_out=answer.tokens_out,
        tokens_cached=answer.tokens_cached,
        tokens_written=answer.tokens_written,
        tokens_pictures=answer.tokens_pictures,
        tokens_reasoning=answer.tokens_reasoning,
        tier=answer.tier,
        price=charge.price,
        price_source=charge.price_source,
        estimated=charge.estimated,
        saved_by_tier=charge.saved_by_tier,
        saved_by_cache=charge.saved_by_cache,
        seconds=answer.seconds,
        not_sent=answer.not_sent,
        http_retries=answer.http_retries,
        waits=answer.waits,
        waited_seconds=answer.waited_seconds,
        judged_at=datetime.now(UTC).isoformat(),
        reused_from="",
    )


def _without_key(run: Run, row: Judgment) -> Judgment:
    """The row without the judge's key, should the reply quote it. Not before it is read: a key may be like a word."""
    told = row.model_dump_json()
    kept = run.vlm.without_key(told)
    return row if kept == told else Judgment.model_validate_json(kept)


def _reused(run: Run, case: Case, call: Call, earlier: Judgment) -> Judgment:
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
            "tokens_written": 0,
            "tokens_pictures": 0,
            "tokens_reasoning": 0,
            "price": 0.0,
            "estimated": 0.0,
            "saved_by_reuse": earlier.saved_by_reuse if earlier.reused_from else earlier.price,
            "saved_by_tier": 0.0,
            "saved_by_cache": 0.0,
            "seconds": 0.0,
            "http_retries": 0,
            "waits": 0,
            "waited_seconds": 0.0,
            "reused_from": earlier.reused_from or earlier.run_id,
        }
    )


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))
