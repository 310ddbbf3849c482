"""Submission of runs whose calls are bought as batches; collection of replies, on request and while any run waits.

Every step can be interrupted and repeated: a collection that was killed begins anew, from the files of replies. Only
one process at a time works on a run, and memory does not grow with the files.
"""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from prefect import flow, get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_logger
from prefect.states import Completed, Failed, Scheduled
from pydantic import ValidationError

from flows.batches import put_down, take_in
from flows.flow_run import ANSWER_SECONDS, show_end, tell_in_sentences
from flows.run import Session
from flows.server.server import secret_block
from tasks.batches.log import Log, check_folder, locked, waiting_runs
from tasks.batches.results import asking, clear, logged_parameters, looked_after, withdraw
from tasks.datasets.dataset import Dataset
from tasks.datasets.paths import check_place
from tasks.endpoint.batches import Batches
from tasks.errors import BatchesUnavailable, InputError, first_fault, first_of
from tasks.ledger.remote import local_cache
from tasks.ledger.run_files import read_start
from tasks.records.parameters import Collect, at_store
from tasks.store import store_or_warn
from tasks.text import printable

NAME = "collect"
DEFAULTS = Collect()
DEPLOYMENT = "collect/collect"
EVERY = timedelta(minutes=10)
WAITING = "Waiting"
"""State name of a run whose replies have not come yet."""


async def hand_in(session: Session, dataset: Dataset) -> State:
    """Submit a run, and advance it as far as possible at once: usually until it waits for its batches."""
    run_id = await put_down(session, dataset)
    unstored = await store_or_warn(session.folder, run_id)
    try:
        state = await collected(session.store_name, run_id)
    except BatchesUnavailable:
        await arranged(absolute(session.store_name))
        raise
    if state.name != WAITING:
        return state
    looks = await arranged(absolute(session.store_name))
    by_itself = f"So does the deployment {DEPLOYMENT}, every {EVERY.seconds // 60} minutes." if looks else ""
    words = " ".join(filter(None, [state.message, by_itself, *unstored]))
    return Completed(name=WAITING, message=words, data={**state.data, "waits": words})  # pyright: ignore


def waiting(run_id: str, words: str) -> State:
    """Return the state of a run that waits."""
    told = f"Run {run_id} waits for its replies: {words}. `jury batch collect` takes them in."
    return Completed(name=WAITING, message=told, data={"run_id": run_id, "warnings": [], "waits": told})


async def collected(store: str, run_id: str) -> State:
    """Advance a waiting run as far as possible; return its state: `Waiting`, or that of any run that has ended.

    Raises:
        InputError: its endpoint refuses or cannot be reached, or the run cannot be read any more; it still waits.
    """
    try:
        with locked(Path(store), run_id) as log:
            if log is None:
                return waiting(run_id, "another process is at work on it")
            return await _taken_further(log)
    except FileNotFoundError as error:
        raise InputError(f"{store} holds no run {run_id} that waits for a batch: {error}") from None
    except ValidationError as error:  # of the run's parameters or cases; other runs are still collected
        raise InputError(
            f"the files of run {run_id}, which waits for its batch, are damaged: {first_fault(error)}"
        ) from None


async def _taken_further(log: Log) -> State:
    if not log.prepared:  # killed during its submission: nothing of it was sent
        withdraw(log)
        return Completed(message=f"Run {log.run_id} was never handed in.", data={"run_id": "", "warnings": []})
    state = None
    if not log.ended:
        if words := await looked_after(log, secret_block):
            return waiting(log.run_id, words)
        state = await take_in(log, logged_parameters(log))
        await show_end(read_start(log.run).prefect_run_id, str(state.message))
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


def absolute(store: str) -> str:
    """Return the absolute path of the store, for a process that works in another folder."""
    return str(local_cache(store).absolute())


@flow(name=NAME, validate_parameters=False)
async def collect(parameters: Collect = DEFAULTS) -> State:
    """Collect the replies of batches, and end the runs that have all of their replies."""
    return await collect_waiting(parameters)


async def collect_waiting(parameters: Collect | Mapping[str, Any]) -> State:
    """Advance all waiting runs of a store as far as possible, one after another.

    Returns:
        Completed, as `Waiting` if any run still waits, with `{"runs", "waits", "warnings"}` as its result: the ids of
        the ended runs, and a sentence for each waiting one. Failed if a run could not be checked or ended, after all
        others were advanced.
    """
    tell_in_sentences()
    try:
        asked = at_store(Collect.model_validate(parameters))
        check_place("store", asked.store)
        check_folder(asked.store)
        store = absolute(asked.store)
        waiting_now = waiting_runs(Path(store))
    except (ValueError, OSError) as error:
        return Failed(message=printable(str(error)))
    if waiting_now:
        await arranged(store)  # first: if this run is killed, the next one continues
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
        return Failed(message=printable(" ".join([*failed, *waits, *warnings])))
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
