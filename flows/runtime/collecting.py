"""Runs that wait for their batches, taken as far as they get: files sent, replies fetched and taken in, runs ended.

Every step can be broken off and done again, for what was done is on record. Only one process at a time is at work on a
run. What becomes of the replies is for `taking_in`. A run that is ended here is stored and reported as any other, under
its own night.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.runtime.arranging import DEPLOYMENT, EVERY, arranged
from flows.runtime.batching import hand_in
from flows.runtime.chunks import Work
from flows.runtime.evaluating import put_together
from flows.runtime.log import tell_in_sentences
from flows.runtime.prefect_run import WAITING, parent_of, show_end
from flows.runtime.secrets import secret_block
from flows.runtime.sending import in_daemon_thread
from flows.runtime.session import Session, opened
from flows.runtime.settling import never_handed_in
from flows.runtime.taking_in import taken_in
from tasks.batches.asking import asked_of, asking, looked_after
from tasks.batches.log import Event, Log, lease, waiting_runs
from tasks.batches.taking_out import clear, remove
from tasks.datasets.dataset import Dataset
from tasks.datasets.roots import check_place
from tasks.endpoint.batches import Batches
from tasks.errors import BatchesUnavailable, InputError, first_of
from tasks.ledger.bucket import RemoteUnavailable
from tasks.ledger.evaluations import evaluation_folders
from tasks.ledger.reading import read_start
from tasks.ledger.remote import is_remote, local_cache, remote_of
from tasks.parameters import Collect, Parameters, at_store
from tasks.records import RunStart
from tasks.report import report
from tasks.store import store as store_step
from tasks.text import printable


def waiting(run_id: str, words: str) -> State:
    """The state of a run that waits."""
    told = f"Run {run_id} waits for its replies: {words}. `jury collect` takes them in."
    return Completed(name=WAITING, message=told, data={"run_id": run_id, "warnings": [], "waits": told})


async def collected(store: str, run_id: str) -> State:
    """Take a waiting run as far as it gets; its state, `Waiting` or as that of any run that has ended.

    Args:
        store: a folder, or the URL of a bucket.

    Raises:
        InputError: its endpoint refuses or cannot be reached, or it cannot be read any more; it goes on waiting.
    """
    try:
        with lease(local_cache(store), run_id, remote_of(store)) as log:
            if log is None:
                return waiting(run_id, "another process is at work on it")
            return await _taken_further(log)
    except FileNotFoundError as error:
        raise InputError(f"{store} holds no run {run_id} that waits for a batch: {error}") from None


async def _taken_further(log: Log) -> State:
    if not log.prepared:  # a kill while it was put down: nothing of it was sent
        await never_handed_in(log.store, remote_of(log.place), log.run_id)
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
        if log.hold:
            await asyncio.to_thread(log.hold.send)  # what could not be sent before is nowhere else
        await clear(log, batches)
    except (BatchesUnavailable, RemoteUnavailable) as error:
        said = f"{error}. What is left of it there is removed by the next `jury collect`."
        state.data["warnings"].append(said)  # pyright: ignore
    return state


async def _taken_in(log: Log, asked: Parameters) -> State | None:
    """Take in the replies of a turn, and end the run; None: another turn was put down."""
    start, told = read_start(log.run), log.prepared
    assert told
    async with opened(start.flow, asked, []) as session:
        async with session.going_on(start, told) as run:
            session.waits = await taken_in(log, run)
        if session.waits:
            return None
        state = await _ended(session, start.prefect_run_id)
    return await _of_evaluation(asked.store, log, start, told) if start.shards > 1 else state


async def _of_evaluation(store: str, log: Log, start: RunStart, told: Event) -> State:
    """The evaluation that a shard belongs to, which the last of them reports."""
    began = datetime.fromisoformat(start.started_at)
    if remote := remote_of(store):
        await in_daemon_thread(lambda: remote.fetch(began - timedelta(days=1)))
    if left := start.shards - len(evaluation_folders(log.run)):
        words = f"Shard {start.shard} of evaluation {start.evaluation_id} is taken in, {left} of {start.shards} are not"
        return Completed(message=f"{words}.", data={"run_id": "", "warnings": []})
    state = await put_together(start.evaluation_id, store, began, [], told.shown_as)
    await show_end(await parent_of(start.prefect_run_id), str(state.message))
    return state


async def _ended(session: Session, first_run: str) -> State:
    """Store and report the run; the flow run that handed it in shows it, too."""
    storing = session.storing(store_step(session.store, session.run_id))
    shown = report(session.place, session.run_id, session.warnings, session.scheduled, session.shown_as)
    state = await session.completed(storing, session.reporting(shown))
    await show_end(first_run, str(state.message))
    return state


async def handed_in(session: Session, dataset: Dataset, work: Work) -> State:
    """Hand a run in, and take it as far as it gets at once: as a rule to where it waits.

    Args:
        work: by which samples are judged live, for a pilot.
    """
    run_id, unstored = await hand_in(session, dataset, work)
    try:
        state = await collected(session.place, run_id)
    except BatchesUnavailable:
        await arranged(_place(session.place))
        raise
    if state.name != WAITING:
        return state
    looks = await arranged(_place(session.place))
    by_itself = f"So does the deployment {DEPLOYMENT}, every {EVERY.seconds // 60} minutes." if looks else ""
    also = " ".join([by_itself, *unstored]).strip()
    return Completed(name=WAITING, message=f"{state.message} {also}".strip(), data={**state.data, "also": also})  # pyright: ignore


def _place(store: str) -> str:
    """The store, for a process that works in another folder."""
    return store if is_remote(store) else str(Path(store).expanduser().absolute())


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
        store = _place(asked.store)
        waiting_now = await asyncio.to_thread(waiting_runs, local_cache(store), remote_of(store))
    except (ValueError, OSError) as error:
        return Failed(message=printable(str(error)))
    if waiting_now:
        await arranged(store)  # before it begins: where it is killed, the next one goes on
    runs, waits, failed, warnings = list[str](), list[str](), list[str](), list[str]()
    for run_id in (each for each in waiting_now if each.startswith(asked.run)):
        try:
            state = await collected(store, run_id)
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
