"""The flow run that this process works on, as Prefect knows it: who started it, its name, where it is shown."""

import asyncio
import re
from uuid import UUID

from httpx import HTTPError
from prefect import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from prefect.states import Completed

from flows.runtime.run_names import is_made_up
from tasks.presentation.wording import judge_words
from tasks.records import RunStart

WAITING = "Waiting"
"""Name of the state of a run whose replies have not come yet."""
ANSWER_SECONDS = 10.0
"""Longest wait for the server, with all that Prefect's client asks again by itself: a run waits for its answers."""
SCHEDULED = "scheduled"
"""Tag of the shards of an evaluation that a schedule started: they are runs on request."""


def own_run() -> FlowRun | None:
    """The flow run that this is called in, as the server knew it at its start; None outside of one."""
    context = FlowRunContext.get()
    return context.flow_run if context else None


def is_scheduled() -> bool:
    """Whether a schedule started this run, or the evaluation that it is a shard of."""
    record = own_run()
    return bool(record and (record.auto_scheduled or SCHEDULED in record.tags))


async def results_key(flow: str) -> str:
    """The key under which Prefect keeps the artifacts of this run, beside those of earlier ones of the same sort.

    Whoever looks at a nightly evaluation wants to see what was scheduled, and nothing that somebody tried out: so only
    a run that a schedule started with the deployment's own parameters has the key `<flow>-<deployment>`.
    """
    run = own_run()
    if not run or not run.deployment_id:
        return f"{flow}-command"
    try:
        async with asyncio.timeout(ANSWER_SECONDS), get_client() as client:
            deployment = await client.read_deployment(run.deployment_id)
    except (ObjectNotFound, HTTPError, TimeoutError):  # it is deleted, or the server is gone
        return f"{flow}-by-hand"
    unmodified = run.auto_scheduled and run.parameters == deployment.parameters
    return key_of(flow, deployment.name) + ("" if unmodified else "-by-hand")


def key_of(flow: str, deployment: str) -> str:
    """Flow and deployment as a key of artifacts, the flow once: `diagram-nightly`."""
    name = re.sub("[^a-z0-9]+", "-", deployment.lower()).strip("-")
    return name if f"{name}-".startswith(f"{flow}-") else f"{flow}-{name}".strip("-")


def log_start(start: RunStart) -> None:
    """Say in the run's log what is judged and by whom."""
    part = f", shard {start.shard} of {start.shards}" if start.shards > 1 else ""
    get_run_logger().info(
        "Run %s judges %s samples of %s (%s%s) with %s.",
        *(start.run_id, f"{start.samples:,}", start.dataset, " + ".join(start.candidates), part),
        judge_words(start.model, start.endpoint),
    )


async def show_end(run_id: str, message: str) -> None:
    """Let the flow run that handed a run in, and waited, show what came of it.

    Args:
        run_id: of the flow run; empty: there was none.
    """
    own = own_run()
    if not run_id or (own and str(own.id) == run_id):
        return
    try:
        async with asyncio.timeout(ANSWER_SECONDS), get_client() as client:
            await client.set_flow_run_state(UUID(run_id), Completed(message=message), force=True)
    except Exception as error:  # It may be on another server, or deleted; the run has ended all the same.
        get_run_logger().debug("The run that was handed in could not be shown as ended", exc_info=error)


async def parent_of(run_id: str) -> str:
    """Id of the flow run that started a flow run; empty: none did, or nobody knows."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS), get_client() as client:
            task = (await client.read_flow_run(UUID(run_id))).parent_task_run_id
            return str((await client.read_task_run(task)).flow_run_id or "") if task else ""
    except Exception as error:
        get_run_logger().debug("Who started the flow run %s is not known", run_id, exc_info=error)
        return ""


async def name_run(start: RunStart) -> None:
    """Give the run in the UI a name that says what is judged, unless a person gave it one."""
    run = own_run()
    if run and is_made_up(run.name):
        part = f" · shard {start.shard} of {start.shards}" if start.shards > 1 else ""
        name = f"{start.flow} · {' + '.join(start.candidates)} · {start.model} · {start.samples} samples{part}"
        try:
            async with asyncio.timeout(ANSWER_SECONDS), get_client() as client:
                await client.update_flow_run(run.id, name=name)
        except Exception as error:  # A name is nice to have; no run stops for want of one.
            get_run_logger().debug("The run could not be named", exc_info=error)
