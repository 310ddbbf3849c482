"""One large evaluation over many workers: the same deployment, run once for each shard of the samples, shown as one.

Shards whose worker vanished are run again; Prefect chooses the worker of a shard.
"""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.responses import DeploymentResponse
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from prefect.states import Completed

from flows.runtime.prefect_run import SCHEDULED, is_scheduled, own_run
from flows.runtime.server import is_alone
from tasks.datasets.paths import absolute
from tasks.errors import InputError
from tasks.judging.protocol import new_id
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.remote import Remote, local_cache, remote_of
from tasks.parameters import OF_SHARDS, Parameters
from tasks.report import report

NIGHTLY = "{flow}/{flow}-nightly"
"""Deployment of a flow that is run if this run does not come from one itself (`jury run --shards`)."""
AGAIN = 3
"""Number of repeated runs of a shard whose process vanished."""
POLL_SECONDS = 2.0
CLOCKS = timedelta(hours=1)
"""Upper bound of the difference between clocks of machines that work on one evaluation."""
TAGS = {"shard": "shard:", "evaluation_id": "evaluation:"}
"""Parameter of a shard -> beginning of the tag that holds it. As parameters they would be in everybody's form."""


async def judge_in_shards(flow: str, asked: Parameters) -> str:
    """Run a deployment of the flow once for each shard, until each has ended; return the id of the evaluation.

    Args:
        asked: parameters, with the store as it was named: each worker resolves it itself.

    Raises:
        InputError: there is no server with such a deployment, or a shard was stopped: with its own sentence.
    """
    if getattr(asked, "export", ""):
        raise InputError("export and shards do not go together: every shard would write the same file")
    deployment = await _deployment(flow)
    evaluation = new_id(flow, datetime.now(UTC))
    numbers = range(1, asked.shards + 1)
    common = absolute(asked)
    print(f"evaluation {evaluation}: {asked.shards} runs of {flow}/{deployment.name} wait for workers", file=sys.stderr)
    tags = [f"{TAGS['evaluation_id']}{evaluation}", *([SCHEDULED] if is_scheduled() else [])]
    async with asyncio.TaskGroup() as group:
        for number in numbers:
            name, own = f"{evaluation} · shard {number} of {asked.shards}", [f"{TAGS['shard']}{number}", *tags]
            group.create_task(_judge(deployment.id, common, name, own))
    return evaluation


async def shard_of(run: FlowRun) -> dict[str, str]:
    """Return number and evaluation of a shard, for its parameters; empty: the run is no shard.

    A restart is the same run and remains a shard. A copy belongs to no evaluation: its replies would count in a
    finished one.

    Raises:
        InputError: the run has a part of the tags, or no evaluation started it.
    """
    marks = {
        name: tag.removeprefix(begins) for name, begins in TAGS.items() for tag in run.tags if tag.startswith(begins)
    }
    if not marks:
        return {}
    if marks.keys() != TAGS.keys():
        raise InputError(f"the run has the tags {', '.join(run.tags)}: shard:… and evaluation:… come together")
    if not await _has_parent(run):
        raise InputError(
            f"the run is shard {marks['shard']} of {marks['evaluation_id']} by its tags, but no evaluation that is "
            "there started it: a copy of a shard is no part of its evaluation. Start the deployment instead, with as "
            "many shards as are wanted"
        )
    return marks


async def _has_parent(run: FlowRun) -> bool:
    """Return whether the run was started by another one that still exists."""
    if not run.parent_task_run_id:
        return False
    async with get_client() as client:
        try:
            waiting = await client.read_task_run(run.parent_task_run_id)
            return bool(waiting.flow_run_id and await client.read_flow_run(waiting.flow_run_id))
        except ObjectNotFound:
            return False


async def _judge(deployment: UUID, asked: Parameters, name: str, tags: list[str]) -> None:
    """Run a shard, and run it again if its process vanished: replies that it had sent are not paid for twice."""
    for _ in range(1 + AGAIN):
        run = await arun_deployment(
            deployment,
            parameters={"parameters": asked.model_dump(mode="json", exclude={*OF_SHARDS})},
            flow_run_name=name,
            tags=tags,
            poll_interval=POLL_SECONDS,
        )
        state = run.state
        if state and state.is_completed():
            print(f"{name}: {state.message}", file=sys.stderr)
            return
        if not state or not state.is_crashed():
            raise InputError(f"{name} ended as {state.name if state else 'unknown'}: {state.message if state else ''}")
        print(f"{name}: its process vanished, it is run again", file=sys.stderr)
    raise InputError(f"{name} crashed {1 + AGAIN} times: the log of its worker tells why")


async def _deployment(flow: str) -> DeploymentResponse:
    """Return the deployment of this run, or the one that the list holds for the flow."""
    nightly = NIGHTLY.format(flow=flow)
    own = run.deployment_id if (run := own_run()) else None
    async with get_client() as client:
        if is_alone(client):
            raise InputError(
                "shards are runs of a deployment, and there is no Prefect server that has any: start `jury up`, or set "
                "PREFECT_API_URL to the server of your workers"
            )
        try:
            return await (client.read_deployment(own) if own else client.read_deployment_by_name(nightly))
        except ObjectNotFound as error:
            raise InputError(
                f"shards are runs of the deployment {nightly}, which {client.api_url} does not have: `jury up` "
                "serves it, `prefect deploy --all --prefect-file deployments/prefect.yaml` puts it on a work pool"
            ) from error


async def put_together(evaluation: str, store: str, began: datetime, said: list[str], shown_as: str) -> State:
    """Show the shards of an evaluation as one. If this machine cannot do so, they are done all the same."""
    from tasks.history.landing import land  # DuckDB, which a run alone does not need here

    folder = local_cache(store)
    try:
        remote, scheduled = remote_of(store), is_scheduled()
        if remote:
            await asyncio.to_thread(remote.fetch, began - CLOCKS)
        await asyncio.to_thread(land, folder)
        end = read_evaluation(folder, evaluation).end
        shared = remote if scheduled else None
        warnings = [*said, *(end.warnings if end else ()), *await _share_nights(shared)]
        message = await report(store, evaluation, warnings, scheduled, shown_as)
        await _share_nights(shared)  # records of the alarms just reported, too
    except Exception as error:
        get_run_logger().warning("The shards could not be put together", exc_info=error)
        message = f"All shards of {evaluation} are done, but cannot be put together here: {error}"
        advice = f"{message}. `jury store sync` where their store can be reached does it."
        return Completed(message=message, data={"run_id": "", "warnings": [advice]})
    return Completed(message=message, data={"run_id": evaluation, "warnings": warnings})


async def _share_nights(remote: Remote | None) -> tuple[str, ...]:
    if remote is None:
        return ()
    from tasks.extensions.bucket import share_nights  # an extension, for stores in a bucket alone

    return await share_nights(remote)
