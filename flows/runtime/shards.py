"""One large evaluation over many workers: the same deployment, run once for each shard of the samples.

Owns starting the shards, running those again whose worker vanished, and waiting for them. What belongs to a shard is
for the datasets, how shards become one evaluation for the ledger; which worker runs a shard is Prefect's affair.
"""

import asyncio
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound

from flows.runtime.prefect_run import SCHEDULED, WAITING, is_scheduled, own_run
from flows.runtime.temporary_server import is_alone
from tasks.batches.asking import waiting_evaluation
from tasks.datasets.paths import absolute
from tasks.errors import InputError
from tasks.judging.protocol import new_id
from tasks.parameters import OF_SHARDS, Parameters

NIGHTLY = "{flow}/{flow}-nightly"
"""Deployment of a flow that is run where this run does not come from one itself (`jury run --shards`)."""
AGAIN = 3
"""How often a shard is run again whose process vanished."""
POLL_SECONDS = 2.0
TAGS = {"shard": "shard:", "evaluation_id": "evaluation:"}
"""What a run is told as a shard -> how the tag begins that tells it. Parameters would be in everybody's form."""


class Judged(NamedTuple):
    """An evaluation whose shards are all done, or wait for their batches."""

    evaluation: str
    waits: int
    """Shards that wait."""


async def judge_in_shards(flow: str, asked: Parameters) -> Judged:
    """Run a deployment of the flow once for each shard, until each has ended or waits for its batch.

    Where shards of the very same evaluation wait already, it is theirs that goes on: each finds what was handed in.

    Args:
        asked: the store as it was named, which each worker takes in its own way.

    Raises:
        InputError: there is no server with such a deployment, or a shard was stopped: with its own sentence.
    """
    if getattr(asked, "export", ""):
        raise InputError("export and shards do not go together: every shard would write the same file")
    deployment = await _deployment(flow)
    earlier = "" if is_scheduled() else waiting_evaluation(flow, asked)
    evaluation = earlier or new_id(flow, datetime.now(UTC))
    numbers = range(1, asked.shards + 1)
    common = absolute(asked)
    print(f"evaluation {evaluation}: {asked.shards} runs of {flow}/{deployment.name} wait for workers", file=sys.stderr)
    tags = [f"{TAGS['evaluation_id']}{evaluation}", *([SCHEDULED] if is_scheduled() else [])]
    judged: list[asyncio.Task[bool]] = []
    async with asyncio.TaskGroup() as group:
        for number in numbers:
            name, own = f"{evaluation} · shard {number} of {asked.shards}", [f"{TAGS['shard']}{number}", *tags]
            judged.append(group.create_task(_judged(deployment.id, common, name, own)))
    return Judged(evaluation, sum(each.result() for each in judged))


async def shard_of(run: FlowRun, stored: Mapping[str, Any]) -> dict[str, Any]:
    """What a run is told as a shard, for its parameters; empty: it is none.

    A restart is the same run and stays a shard. A copy is nobody's: its replies would count in a finished evaluation.

    Args:
        stored: the run's raw parameters, in which earlier versions told it.

    Raises:
        InputError: the run is told half of it, or no evaluation started it.
    """
    told = _tagged(run) or {name: stored[name] for name in OF_SHARDS if stored.get(name)}
    if not told:
        return {}
    found = ", ".join(f"{name} {value}" for name, value in told.items())
    if told.keys() != TAGS.keys():
        raise InputError(f"the run is told {found}: the tags of a shard, shard:… and evaluation:…, come together")
    if not await _has_parent(run):
        raise InputError(
            f"the run is told {found}, but no evaluation that is there started it: a copy of a shard is no part of its "
            "evaluation. Start the deployment instead, with as many shards as are wanted"
        )
    return told


def _tagged(run: FlowRun) -> dict[str, str]:
    found = [
        (name, tag.removeprefix(begins)) for name, begins in TAGS.items() for tag in run.tags if tag.startswith(begins)
    ]
    if len(found) > len(dict(found)):
        raise InputError(f"the run has the tags of several shards: {', '.join(sorted(run.tags))}")
    return dict(found)


async def _has_parent(run: FlowRun) -> bool:
    """Whether the run was started by another one that is still there."""
    if not run.parent_task_run_id:
        return False
    async with get_client() as client:
        try:
            waiting = await client.read_task_run(run.parent_task_run_id)
            return bool(waiting.flow_run_id and await client.read_flow_run(waiting.flow_run_id))
        except ObjectNotFound:
            return False


async def _judged(deployment: UUID, asked: Parameters, name: str, tags: list[str]) -> bool:
    """Run a shard, and run it again where its process vanished: what it had sent by then is not paid for twice.

    Returns:
        Whether it waits for its batch.
    """
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
            return state.name == WAITING
        if not state or not state.is_crashed():
            raise InputError(f"{name} ended as {state.name if state else 'unknown'}: {state.message if state else ''}")
        print(f"{name}: its process vanished, it is run again", file=sys.stderr)
    raise InputError(f"{name} crashed {1 + AGAIN} times: the log of its worker tells why")


async def _deployment(flow: str) -> DeploymentResponse:
    """The deployment that this run comes from, or the one that the list holds for the flow."""
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
