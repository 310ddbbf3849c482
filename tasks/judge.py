"""Judge step: make the calls, and write every reply to the ledger before anything else uses it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import TaskRunContext
from prefect.states import Cancelled

from tasks.endpoint.replies import Reply, Usage
from tasks.endpoint.requests import Request
from tasks.errors import CallsUnsettled
from tasks.judging.case import Call, Case, Chunk
from tasks.judging.run import Run
from tasks.protocols import protocol_of
from tasks.protocols.protocol import Reading
from tasks.records import ANCHOR, Judgment, JudgmentStatus
from tasks.text import counted

OF_A_BATCH = Request("", (), "", {})
"""Question in place of those that another process submitted as a batch."""


def _worth_retrying(_task: object, _task_run: object, state: State) -> bool:
    return isinstance(state.data, CallsUnsettled)


@task(
    name="judge",
    task_run_name="{dimension} {chunk.name}",
    cache_policy=NO_CACHE,
    retry_condition_fn=_worth_retrying,
    retry_jitter_factor=0.3,
)
async def judge(run: Run, chunk: Chunk, dimension: str) -> dict[str, int] | State:
    """Judge one dimension of a chunk of samples; Prefect retries it while calls are unsettled.

    Args:
        run: wrapped in Prefect's `quote`, like the chunk: Prefect then neither searches nor copies it.

    Returns:
        Status -> judgments recorded now; or Cancelled if the run ends first, which Prefect would call a crash.
    """
    task_run = TaskRunContext.get()
    last = task_run is None or task_run.task_run.run_count > run.parameters.retries
    try:
        return await judge_dimension(run, dimension, chunk.cases, last)
    except asyncio.CancelledError:
        return Cancelled(message="The run ended before all calls were answered.")


def take_over(run: Run, case: Case) -> int:
    """Reuse the replies of earlier runs to the calls of a sample; return their number. Anchors reuse none."""
    if case.sample.control == ANCHOR:
        return 0
    taken = 0
    for call in case.calls:
        earlier = run.replies.find(call.key)
        if earlier:
            row = _reused(run, case, earlier)
            run.ledger.append(row)
            case.judgments.append(row)
            taken += 1
    if run.limit:
        run.limit.after_answers(case)
    return taken


async def judge_dimension(run: Run, dimension: str, cases: Sequence[Case], last: bool) -> dict[str, int]:
    """Make all unsettled calls about one dimension of a chunk; return status -> judgments recorded now.

    Args:
        last: no retry follows; unsettled calls remain as recorded.

    Raises:
        CallsUnsettled: a retry may settle the remaining calls, and this was not the last one.
        ExceptionGroup: holds a JudgeStopped: no call can succeed; the other calls of the chunk are cancelled.
    """
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(_ask_in_turn(run, case, dimension)) for case in cases]
    asked = [row for each in asking for row in each.result()]
    rows = [row for row in asked if row]
    counts, last = Counter(row.status for row in rows), last or len(rows) < len(asked)  # the limit forbids a retry
    open_calls = sum(len(case.unsettled(dimension)) for case in cases)
    if open_calls and not last:
        raise CallsUnsettled(f"{open_calls} calls on {dimension} to be made again: {counted(counts)}")
    return dict(counts)


async def _ask_in_turn(run: Run, case: Case, dimension: str) -> list[Judgment | None]:
    """Make the unsettled calls about a sample, in rounds if some wait for the answers to others."""
    asking: dict[Call, asyncio.Task[Judgment | None]] = {}
    while due := case.due(dimension, asking):
        async with asyncio.TaskGroup() as group:
            asking |= {call: group.create_task(_ask(run, case, call)) for call in due}
    return [each.result() for each in asking.values()]


async def _ask(run: Run, case: Case, call: Call) -> Judgment | None:
    """Make a call and record its reply; return None if the run's limit has no room, which is possible for a retry."""
    limit = run.limit
    invalid = sum(row.status == "invalid" for row in case.attempts(call))
    question = run.question(case, call)
    # A call that the limit has no room for takes its turn, too, so that no other call waits for it.
    async with run.layout.turn(case, call):
        if limit and not await limit.before_call(case, call):
            return None
        run.ledger.begin()  # before the call: a run that is killed while it waits for its first reply is known
        question = question._replace(seed_offset=call.vote - 1 + invalid * run.parameters.votes)
        answer = await run.vlm.ask(question, f"{case.sample.candidate}/{case.sample.sample_id}", case.number)
    if answer.given_up:
        case.given_up.add(call)
    run.tally.input_tokens.note(question, answer)
    row = await write_down(run, case, call, answer, question)
    if limit:
        limit.after_call(case, call, row)
        limit.after_answers(case)
    run.counts.answer(case, call)
    if case.settled:
        run.in_hand.free(case)
        run.counts.end(case)
    return row


async def write_down(run: Run, case: Case, call: Call, answer: Reply, question: Request = OF_A_BATCH) -> Judgment:
    """Read, price and store the reply to a call."""
    asked = case.questions(run.rubric)[call.dimension]
    charge = await run.bill.charge(question, answer, asked.prompt.dimension)
    reading = Reading(error=answer.error)
    if run.parameters.needs_probabilities:
        answer = answer.of_one_word()
    if answer.status == "ok":
        reading = protocol_of(run.start.flow).read_reply(answer.text, asked.prompt, asked.sample)
    status: JudgmentStatus = "invalid" if answer.status == "ok" and reading.error else answer.status
    row = Judgment(
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
        **reading._asdict(),
        raw=answer.text,
        finish_reason=answer.finish_reason,
        rung=answer.rung,
        key=call.key,
        prompt_sha256=asked.prompt.sha256,
        text_sha256=case.reduced_to(asked).text_sha256(asked.prompt),
        pictures=case.notes(),
        judge_asked=run.parameters.judge.model,
        judge_answered=answer.model,
        system_fingerprint=answer.fingerprint,
        endpoint=run.parameters.judge.base_url,
        service_tier=answer.tier,
        **answer.usage._asdict(),
        **charge._asdict(),
        seconds=answer.seconds,
        not_sent=answer.not_sent,
        http_retries=answer.http_retries,
        waits=answer.waits,
        waited_seconds=answer.waited_seconds,
        judged_at=datetime.now(UTC).isoformat(),
        reused_from="",
    )
    run.ledger.append(row)
    case.judgments.append(row)
    return row


def _reused(run: Run, case: Case, earlier: Judgment) -> Judgment:
    return earlier.model_copy(
        update={
            "run_id": run.start.run_id,
            "sample_id": case.sample.sample_id,
            "candidate": case.sample.candidate,
            "control": case.sample.control,
            "attempt": 1,
            "pictures": case.notes(),
            **Usage()._asdict(),
            "price": 0.0,
            "estimated": 0.0,
            "saved_by_reuse": earlier.saved_by_reuse if earlier.reused_from else earlier.price,
            "saved_by_service_tier": 0.0,
            "saved_by_cache": 0.0,
            "seconds": 0.0,
            "http_retries": 0,
            "waits": 0,
            "waited_seconds": 0.0,
            "reused_from": earlier.reused_from or earlier.run_id,
        }
    )
