"""One large evaluation over many workers: the same deployment, run once for each shard of the samples.

Owns starting the shards, running those again whose worker vanished, and waiting for them. What belongs to a shard is
for the datasets, how shards become one evaluation for the ledger; which worker runs a shard is Prefect's affair.
"""

import asyncio
import sys
from datetime import UTC, datetime
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.responses import DeploymentResponse
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound

from flows.runtime.prefect_run import SCHEDULED, is_scheduled, own_run
from flows.runtime.temporary_server import is_alone
from tasks.datasets.paths import absolute
from tasks.errors import InputError
from tasks.judging.protocol import new_id
from tasks.parameters import Parameters

NIGHTLY = "nightly"
"""Deployment of a flow that is run where this run does not come from one itself (`jury run --shards`)."""
AGAIN = 3
"""How often a shard is run again whose process vanished."""
POLL_SECONDS = 2.0


async def judge_in_shards(flow: str, asked: Parameters) -> str:
    """Run a deployment of the flow once for each shard and wait for all; returns the id of their evaluation.

    Args:
        asked: the store as it was named, which each worker takes in its own way.

    Raises:
        InputError: there is no server with such a deployment, or a shard was stopped: with its own sentence.
    """
    if getattr(asked, "export", ""):
        raise InputError("export and shards do not go together: every shard would write the same file")
    deployment = await _deployment(flow)
    evaluation = new_id(flow, datetime.now(UTC))
    numbers = range(1, asked.shards + 1)
    common = absolute(asked).model_copy(update={"evaluation_id": evaluation})
    print(f"evaluation {evaluation}: {asked.shards} runs of {flow}/{deployment.name} wait for workers", file=sys.stderr)
    tags = [SCHEDULED] if is_scheduled() else []
    async with asyncio.TaskGroup() as group:
        for number in numbers:
            shard = common.model_copy(update={"shard": number})
            group.create_task(_judged(deployment.id, shard, f"{evaluation} · shard {number} of {asked.shards}", tags))
    return evaluation


async def _judged(deployment: UUID, shard: Parameters, name: str, tags: list[str]) -> None:
    """Run a shard, and run it again where its process vanished: what it had sent by then is not paid for twice."""
    for _ in range(1 + AGAIN):
        run = await arun_deployment(
            deployment,
            parameters={"parameters": shard.model_dump(mode="json")},
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
    """The deployment that this run comes from, or the one that the list holds for the flow."""
    own = run.deployment_id if (run := own_run()) else None
    async with get_client() as client:
        if is_alone(client):
            raise InputError(
                "shards are runs of a deployment, and there is no Prefect server that has any: start `jury up`, or set "
                "PREFECT_API_URL to the server of your workers"
            )
        try:
            return await (client.read_deployment(own) if own else client.read_deployment_by_name(f"{flow}/{NIGHTLY}"))
        except ObjectNotFound as error:
            raise InputError(
                f"shards are runs of the deployment {flow}/{NIGHTLY}, which {client.api_url} does not have: `jury up` "
                "serves it, `prefect deploy --all --prefect-file deployments/prefect.yaml` puts it on a work pool"
            ) from error
