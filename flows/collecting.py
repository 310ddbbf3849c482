"""Runs whose calls are bought as batches: submit them, advance them as far as possible, and end them.

Every step can be interrupted and repeated: the ledger gets no row twice. Only one process at a time works on a run, and
memory does not grow with the files.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from prefect import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_logger
from prefect.states import Completed, Failed, Scheduled

from flows.flow_run import ANSWER_SECONDS, WAITING, show_end, tell_in_sentences
from flows.run import Session, opened
from flows.server.server import secret_block
from tasks.aggregate import aggregate_sample
from tasks.batches.log import Event, Log, begin, check_folder, locked, waiting_runs
from tasks.batches.results import Replies, Written, asked_of, asking, clear, looked_after, remove
from tasks.batches.submission import HandingIn, Withheld, custom_id, place_of, read_cases
from tasks.datasets.dataset import Dataset
from tasks.datasets.paths import check_place
from tasks.endpoint.batches import Batches
from tasks.errors import BatchesUnavailable, InputError, first_of
from tasks.judge import write_down
from tasks.judging.case import Call, Case, Chunk
from tasks.judging.protocol import check_prompts
from tasks.judging.run import Run
from tasks.ledger.run_files import read_start
from tasks.records import Judgment, RunStart
from tasks.records.parameters import Collect, Parameters, at_store
from tasks.spending.budget import costs_of
from tasks.spending.prices import BATCH
from tasks.store import store_or_warn
from tasks.text import printable

Finish = Callable[[Session], Awaitable[State]]
"""Steps on a run that has ended: store and report."""
DEPLOYMENT = "collect/collect"
EVERY = timedelta(minutes=10)


def waiting(run_id: str, words: str) -> State:
    """Return the state of a run that waits."""
    told = f"Run {run_id} waits for its replies: {words}. `jury batch collect` takes them in."
    return Completed(name=WAITING, message=told, data={"run_id": run_id, "warnings": [], "waits": told})


async def collected(store: str, run_id: str, finish: Finish) -> State:
    """Advance a waiting run as far as possible; return its state: `Waiting`, or that of any run that has ended.

    Raises:
        InputError: its endpoint refuses or cannot be reached, or the run cannot be read any more; it still waits.
    """
    try:
        with locked(Path(store), run_id) as log:
            if log is None:
                return waiting(run_id, "another process is at work on it")
            return await _taken_further(log, finish)
    except FileNotFoundError as error:
        raise InputError(f"{store} holds no run {run_id} that waits for a batch: {error}") from None


async def _taken_further(log: Log, finish: Finish) -> State:
    if not log.prepared:  # killed during its submission: nothing of it was sent
        remove(log)
        return Completed(message=f"Run {log.run_id} was never handed in.", data={"run_id": "", "warnings": []})
    state = None
    if not log.ended:
        if words := await looked_after(log, secret_block):
            return waiting(log.run_id, words)
        state = await _taken_in(log, asked_of(log), finish)
    async with asking(log, secret_block) as batches:
        return await _cleared(log, batches, state)


async def _cleared(log: Log, batches: Batches, state: State | None) -> State:
    """Return the state of a run that has ended; delete its files, or add a warning if the endpoint is unavailable."""
    message = f"Run {log.run_id} has ended."
    state = state or Completed(message=message, data={"run_id": log.run_id, "warnings": []})
    try:
        await clear(log, batches)
    except BatchesUnavailable as error:
        said = f"{error}. What is left of it there is removed by the next `jury batch collect`."
        state.data["warnings"].append(said)  # pyright: ignore
    return state


async def _taken_in(log: Log, asked: Parameters, finish: Finish) -> State:
    """Record the replies, and end the run; the flow run that submitted it shows the end, too."""
    start, told = read_start(log.run), log.prepared
    assert told
    async with opened(start.flow, asked, []) as session:
        async with _going_on(session, start, told) as run:
            await taken_in(log, run)
        state = await finish(session)
    await show_end(start.prefect_run_id, str(state.message))
    return state


@asynccontextmanager
async def _going_on(session: Session, start: RunStart, told: Event) -> AsyncGenerator[Run]:
    """Yield a run that waited, as it was begun; afterwards, end it in its ledger.

    Raises:
        InputError: its prompts have changed since it was begun.
    """
    session.run_id, session.shown_as, session.scheduled = start.run_id, told.shown_as, start.scheduled
    check_prompts(start, session.opening.rubric)
    session.opening.said = [*told.said]
    run = await session.open(start)
    await asyncio.to_thread(run.ledger.go_on)
    try:
        yield run
        await session.conclude(run)
    finally:
        run.close()
    if told.stopped:
        spent = await asyncio.to_thread(costs_of, run.ledger.folder)
        session.stopped = told.stopped.model_copy(update={"spent": sum(each.amount for each in spent.values())})
    began = datetime.fromisoformat(start.started_at)
    await session.end(run, (datetime.now(UTC) - began).total_seconds())


async def handed_in(session: Session, dataset: Dataset, finish: Finish) -> State:
    """Submit a run, and advance it as far as possible at once: usually until it waits for its batches."""
    run_id, unstored = await _hand_in(session, dataset)
    try:
        state = await collected(session.place, run_id, finish)
    except BatchesUnavailable:
        await arranged(_absolute(session.place))
        raise
    if state.name != WAITING:
        return state
    looks = await arranged(_absolute(session.place))
    by_itself = f"So does the deployment {DEPLOYMENT}, every {EVERY.seconds // 60} minutes." if looks else ""
    also = " ".join([by_itself, *unstored]).strip()
    return Completed(name=WAITING, message=f"{state.message} {also}".strip(), data={**state.data, "also": also})  # pyright: ignore


async def _hand_in(session: Session, dataset: Dataset) -> tuple[str, list[str]]:
    """Write the samples, all or those that the budget covers, and the requests about them.

    Returns:
        Id of the run that waits: this one, or one that waits already with the same calls; then nothing of this one
        remains. And a warning if the history does not show it; empty: it does.

    Raises:
        InputError: the budget does not cover all samples, and the cost of this judge's calls is unknown.
    """
    waits = await _put_down(session, dataset)
    await session.finish_thumbnails()
    return waits, await store_or_warn(session.store, waits)


async def _put_down(session: Session, dataset: Dataset) -> str:
    """Write the samples and their requests; return the id of the run that waits."""
    session.waits = True
    session.opening.ledger = Withheld
    async with session.judging(dataset) as chunks:
        run, store, turn = chunks.run, Path(session.store), asyncio.Lock()
        begin(store, session.run_id)
        with locked(store, session.run_id) as log:
            assert log  # the run is new: no other process has locked it
            handing_in = HandingIn(run, log)

            async def put_down(_: Run, chunk: Chunk) -> None:
                async with turn:
                    await asyncio.to_thread(handing_in.add, chunk.cases)

            try:
                with closing(handing_in):
                    await chunks.each(put_down)
                waits = await asyncio.to_thread(handing_in.earlier) or log.run_id
                if waits == log.run_id:
                    stopped = run.limit.stopped(dataset.samples, handing_in.samples) if run.limit else None
                    if run.limit:
                        await run.limit.wait()
                    handing_in.finish(shown_as=session.shown_as, said=tuple(session.said), stopped=stopped)
            except BaseException:
                remove(log)  # nothing of it was sent
                raise
            if waits != log.run_id:
                remove(log)
    return waits


def _absolute(store: str) -> str:
    """Return the absolute path of the store, for a process that works in another folder."""
    return str(Path(store).expanduser().absolute())


async def collect_waiting(parameters: Collect | Mapping[str, Any], finish: Finish) -> State:
    """Advance all waiting runs of a store as far as possible, one after another.

    Returns:
        Completed, as `Waiting` if any run still waits, with `{"runs", "waits", "warnings"}` as its result: the ids of
        the ended runs, and a sentence for each waiting one. Failed if a run could not be checked or ended.
    """
    tell_in_sentences()
    try:
        asked = at_store(Collect.model_validate(parameters))
        check_place("store", asked.store)
        check_folder(asked.store)
        store = _absolute(asked.store)
        waiting_now = waiting_runs(Path(store))
    except (ValueError, OSError) as error:
        return Failed(message=printable(str(error)))
    if waiting_now:
        await arranged(store)  # first: if this run is killed, the next one continues
    runs, waits, failed, warnings = list[str](), list[str](), list[str](), list[str]()
    for run_id in (each for each in waiting_now if each.startswith(asked.run)):
        try:
            state = await collected(store, run_id, finish)
        except* (InputError, OSError) as stopped:
            failed.append(str(first_of(stopped)))
        else:
            told = cast("dict[str, Any]", await state.result())  # pyright: ignore[reportGeneralTypeIssues]
            runs += [told["run_id"]] if state.name != WAITING and told["run_id"] else []
            waits += [str(state.message)] if state.name == WAITING else []
            warnings += told["warnings"]
    if failed:
        return Failed(message=printable(" ".join(failed)))
    message = " ".join([*(f"Run {run_id} is taken in." for run_id in runs), *waits]) or "Nothing waits."
    data = {"runs": runs, "waits": waits, "warnings": warnings}
    return Completed(name=WAITING if waits else None, message=message, data=data)


async def arranged(store: str) -> bool:
    """Arrange the next run of the deployment `collect`; return whether the server has the deployment.

    A schedule would start 144 runs a day even if no run ever waits. So each run that finds or leaves a waiting run
    arranges the next look. It does so before anything else, so that a kill does not end the looks. The last look
    arranges none.

    Args:
        store: absolute path, since the run that looks may work in another folder.
    """
    due = datetime.now(UTC) + EVERY
    once = f"{store} {int(due.timestamp() // EVERY.total_seconds())}"
    try:
        async with asyncio.timeout(ANSWER_SECONDS), get_client() as client:
            deployment = await client.read_deployment_by_name(DEPLOYMENT)
            await client.create_flow_run_from_deployment(
                deployment.id,
                parameters={"parameters": {"store": store}},
                state=Scheduled(scheduled_time=due),
                idempotency_key=once,  # one look serves all waiting runs
            )
    except ObjectNotFound:
        return False
    except Exception as error:  # a warning is enough: the replies are safe at the endpoint
        get_logger("image-jury").warning("No run could be arranged that collects: %s", error)
        return False
    return True


async def taken_in(log: Log, run: Run) -> None:
    """Record all replies, and decide the samples.

    Raises:
        InputError: the ledger of the run is damaged.
    """
    told = log.prepared
    assert told
    manner = {"rung": told.rung, "not_sent": told.not_sent, "tier": BATCH}
    replies, written = await asyncio.gather(
        asyncio.to_thread(Replies, log, run.vlm.mask), asyncio.to_thread(Written, log.run)
    )
    for case in read_cases(log.work):
        _take_over(run, case, written.judgments(place_of(case)))
        for call in [*_unasked(case)]:
            found = replies.find(custom_id(case, call), run.vlm.read)
            await write_down(run, case, call, found._replace(**manner))
        aggregate_sample(run, case, written.outcome(place_of(case)))
        await asyncio.sleep(0)


def _take_over(run: Run, case: Case, recorded: Sequence[Judgment]) -> None:
    """Append reused replies to the ledger unless it has them, and add the run's recorded judgments to the case."""
    known = {(row.dimension, row.order, row.vote) for row in recorded}
    for row in case.judgments:
        if (row.dimension, row.order, row.vote) not in known:
            run.ledger.append(row)
    known = {(row.dimension, row.order, row.vote) for row in case.judgments}
    case.judgments += [row for row in recorded if (row.dimension, row.order, row.vote) not in known]


def _unasked(case: Case) -> Iterator[Call]:
    """Return the calls without a recorded reply."""
    return (call for call in case.calls if not case.attempts(call))
