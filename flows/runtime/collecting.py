"""Runs that wait for their batches, taken as far as they get: files sent, replies taken in, calls made again, ended.

Every step can be broken off and done again: what was done is on record, and a reply that is in the ledger is not
written twice. Only one process at a time is at work on a run. A run that is ended here is stored and reported as any
other, under its own night.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.runtime.arranging import DEPLOYMENT, EVERY, arranged
from flows.runtime.batching import hand_in
from flows.runtime.log import tell_in_sentences
from flows.runtime.prefect_run import show_end
from flows.runtime.secrets import secret_block
from flows.runtime.session import Session, opened
from tasks.aggregate import aggregate_sample
from tasks.batches.asking import asked_of, asking, looked_after
from tasks.batches.cases import custom_id, place_of, read_cases
from tasks.batches.log import ROUNDS, Log, lease, waiting_runs
from tasks.batches.requests import Line, RequestFiles, lines_of, reseeded
from tasks.batches.taking_out import Replies, clear, remove
from tasks.datasets.dataset import Dataset
from tasks.datasets.roots import check_place
from tasks.endpoint.batches import Batches
from tasks.endpoint.requests import Request
from tasks.errors import BatchesUnavailable, InputError, first_of
from tasks.judge import write_down
from tasks.judging.case import Call, Case
from tasks.judging.run import Run
from tasks.ledger.reading import read_judgments, read_outcomes, read_start
from tasks.parameters import Collect, Parameters, at_store
from tasks.records import Judgment
from tasks.report import report
from tasks.spending.prices import BATCH
from tasks.store import store as store_step
from tasks.text import printable

WAITING = "Waiting"
"""Name of the state of a run whose replies have not come yet."""
ASKED_AT_ONCE = 64
"""Calls whose requests are in memory together."""


class Open(NamedTuple):
    """A call that has no reply yet that can be used."""

    case: Case
    call: Call


def waiting(run_id: str, words: str) -> State:
    """The state of a run that waits."""
    told = f"Run {run_id} waits for its replies: {words}. `jury collect` takes them in."
    return Completed(name=WAITING, message=told, data={"run_id": run_id, "warnings": [], "waits": told})


async def collected(store: Path, run_id: str) -> State:
    """Take a waiting run as far as it gets; its state, `Waiting` or as that of any run that has ended.

    Raises:
        InputError: its endpoint refuses or cannot be reached, or it cannot be read any more; it goes on waiting.
    """
    try:
        with lease(store, run_id) as log:
            if log is None:
                return waiting(run_id, "another process is at work on it")
            return await _taken_further(log)
    except FileNotFoundError as error:
        raise InputError(f"{store} holds no run {run_id} that waits for a batch: {error}") from None
    except BatchesUnavailable as error:
        again = "`jury collect` tries again, `jury collect --cancel` gives the rest of it up"
        raise BatchesUnavailable(f"Run {run_id} still waits: {error}. {again}", error.status) from None


async def _taken_further(log: Log) -> State:
    if not log.prepared:  # a kill while it was put down: nothing of it was sent
        remove(log)
        return Completed(message=f"Run {log.run_id} was never handed in.", data={"run_id": "", "warnings": []})
    state = None
    while not log.ended:
        if words := await looked_after(log, secret_block):
            return waiting(log.run_id, words)
        state = await _taken_in(log, asked_of(log))
    async with asking(log, secret_block) as batches:
        return await _cleared(log, batches, state)


async def _cleared(log: Log, batches: Batches, state: State | None) -> State:
    """The state of a run that has ended, its files forgotten where the endpoint is there."""
    message = f"Run {log.run_id} has ended."
    state = state or Completed(message=message, data={"run_id": log.run_id, "warnings": []})
    try:
        await clear(log, batches)
    except BatchesUnavailable as error:
        said = f"{error}. Its files there are deleted by the next `jury collect`."
        state.data["warnings"].append(said)  # pyright: ignore
    return state


async def _taken_in(log: Log, asked: Parameters) -> State | None:
    """Take in the replies of a turn, and end the run; None: another turn was put down."""
    start, told = read_start(log.run), log.prepared
    assert told
    async with opened(start.flow, asked, []) as session:
        async with session.going_on(start, told.shown_as, told.said) as run:
            cases = await _with_replies(log, run)
            session.waits = await _asks_again(log, run, cases)
            if not session.waits:
                await asyncio.to_thread(_decide, log, run, cases)
        return None if session.waits else await _ended(session, start.prefect_run_id)


async def _ended(session: Session, first_run: str) -> State:
    """Store and report the run; the flow run that handed it in shows it, too."""
    storing = session.storing(store_step(session.store, session.run_id))
    shown = report(session.store, session.run_id, session.warnings, session.scheduled, session.shown_as)
    state = await session.completed(storing, session.reporting(shown))
    await show_end(first_run, str(state.message))
    return state


async def _with_replies(log: Log, run: Run) -> list[Case]:
    """The cases of the run with all that was said of them, the replies of the last turn written down."""
    assert log.prepared
    manner = {"rung": log.prepared.rung, "not_sent": log.prepared.not_sent, "tier": BATCH}
    recorded: defaultdict[tuple[str, str, str], list[Judgment]] = defaultdict(list)
    for row in read_judgments(log.run):
        recorded[row.candidate, row.sample_id, row.control].append(row)
    replies = await asyncio.to_thread(Replies, log, log.turn)
    cases = await asyncio.to_thread(lambda: [*read_cases(log.work)])
    for case in cases:
        _take_over(run, case, recorded[place_of(case)])
        for call in [*_open_calls(case)]:
            if len(case.attempts(call)) == log.turn - 1:
                found = replies.find(custom_id(case, call, log.turn), run.vlm.read)
                await write_down(run, case, call, found._replace(**manner))
        await asyncio.sleep(0)
    return cases


def _take_over(run: Run, case: Case, recorded: Sequence[Judgment]) -> None:
    """Give a case what was said of it: replies of earlier runs, written down now if they are not, and its own."""
    known = {(row.dimension, row.order, row.vote) for row in recorded}
    for row in case.judgments:
        if (row.dimension, row.order, row.vote) not in known:
            run.ledger.append(row)
    known = {(row.dimension, row.order, row.vote) for row in case.judgments}
    case.judgments += [row for row in recorded if (row.dimension, row.order, row.vote) not in known]


def _open_calls(case: Case) -> Iterator[Call]:
    for dimension in dict.fromkeys(call.dimension for call in case.calls):
        yield from case.unsettled(dimension)


async def _asks_again(log: Log, run: Run, cases: Sequence[Case]) -> bool:
    """See to the calls without a reply that can be used; whether they were put down for another batch."""
    left = [Open(case, call) for case in cases for call in _open_calls(case)]
    rest = run.parameters.batch_rest
    if not left or log.cancelled or rest == "leave":
        return False
    if rest == "live":
        await _ask_live(log, run, left)
    elif log.turn < ROUNDS:
        await asyncio.to_thread(_put_down, log, run, left)
        return True
    return False


def _requests(log: Log, left: Sequence[Open]) -> dict[str, Line]:
    """The requests of the first turn about these calls, by what they are called there."""
    wanted = {custom_id(case, call, 1) for case, call in left}
    files = [log.requests(part.turn, part.number) for part in log.parts if part.turn == 1]
    return {name: line for name, line in lines_of(files) if name in wanted}


def _body(run: Run, line: Line, each: Open) -> bytes:
    """What a call sends when it is made again: after an invalid reply with another seed, as in any run."""
    turn, seed = each.call.vote - 1, run.parameters.judge.seed
    invalid = sum(row.status == "invalid" for row in each.case.attempts(each.call))
    again = turn + invalid * run.parameters.votes
    return reseeded(line.body(), seed + turn, seed + again) if seed >= 0 else line.body()


def _put_down(log: Log, run: Run, left: Sequence[Open]) -> None:
    turn = log.turn + 1
    files, requests = RequestFiles(log, turn), _requests(log, left)
    for each in left:
        line = requests[custom_id(each.case, each.call, 1)]
        files.add(custom_id(each.case, each.call, turn), [_body(run, line, each)])
    log.add("prepared", turn=turn, requests=files.close())


async def _ask_live(log: Log, run: Run, left: Sequence[Open]) -> None:
    """Ask one call at a time what the batch left over, as often as any run does."""
    requests = _requests(log, left)

    async def ask(each: Open) -> None:
        line = requests[custom_id(each.case, each.call, 1)]
        answer = await run.vlm.ask(Request("", (), "", {}, body=_body(run, line, each)))
        await write_down(run, each.case, each.call, answer)

    for _ in range(run.parameters.retries + 1):
        still = [each for each in left if each.call in _open_calls(each.case)]
        for first in range(0, len(still), ASKED_AT_ONCE):
            async with asyncio.TaskGroup() as group:
                for each in still[first : first + ASKED_AT_ONCE]:
                    group.create_task(ask(each))


def _decide(log: Log, run: Run, cases: Sequence[Case]) -> None:
    decided = {(row.candidate, row.sample_id, row.control): row for row in read_outcomes(log.run)}
    for case in cases:
        aggregate_sample(run, case, decided.get(place_of(case)))


async def handed_in(session: Session, dataset: Dataset) -> State:
    """Hand a run in, and take it as far as it gets at once: as a rule to where it waits."""
    run_id, unstored = await hand_in(session, dataset)
    try:
        state = await collected(Path(session.store), run_id)
    except BatchesUnavailable:
        await arranged(str(_folder(session.store)))
        raise
    if state.name != WAITING:
        return state
    looks = await arranged(str(_folder(session.store)))
    by_itself = f"So does the deployment {DEPLOYMENT}, every {EVERY.seconds // 60} minutes." if looks else ""
    also = " ".join([by_itself, *unstored]).strip()
    return Completed(name=WAITING, message=f"{state.message} {also}".strip(), data={**state.data, "also": also})  # pyright: ignore


def _folder(store: str) -> Path:
    return Path(store).expanduser().absolute()


async def collect_waiting(parameters: Collect | Mapping[str, Any]) -> State:
    """Take all runs of a store that wait as far as they get, one after another.

    Returns:
        Completed, as `Waiting` where any still waits, with `{"runs", "waits", "warnings"}` as its result: the ids of
        those that have ended, and a sentence for each that waits. Failed where one could not be asked for or taken in.
    """
    tell_in_sentences()
    try:
        asked = at_store(Collect.model_validate(parameters))
        check_place("store", asked.store)
        store = _folder(asked.store)
    except ValueError as error:
        return Failed(message=printable(str(error)))
    runs, waits, failed, warnings = list[str](), list[str](), list[str](), list[str]()
    for run_id in (each for each in waiting_runs(store) if each.startswith(asked.run)):
        try:
            state = await collected(store, run_id)
        except* (InputError, OSError) as stopped:
            failed.append(str(first_of(stopped)))
        else:
            told = cast("dict[str, Any]", await state.result())  # pyright: ignore[reportGeneralTypeIssues]
            runs += [told["run_id"]] if state.name != WAITING and told["run_id"] else []
            waits += [str(state.message)] if state.name == WAITING else []
            warnings += told["warnings"]
    if waits or failed:
        await arranged(str(store))
    if failed:
        return Failed(message=printable(" ".join(failed)))
    message = " ".join([*(f"Run {run_id} is taken in." for run_id in runs), *waits]) or "Nothing waits."
    data = {"runs": runs, "waits": waits, "warnings": warnings}
    return Completed(name=WAITING if waits else None, message=message, data=data)
