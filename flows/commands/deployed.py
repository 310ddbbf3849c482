"""The list of deployments (`deployments/prefect.yaml`) as `jury up` serves it: the same list, without a work pool."""

from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from prefect import Flow, get_client
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Schedule
from prefect.types.entrypoint import EntrypointType
from pydantic import BaseModel, ValidationError

LIST = Path(__file__).parents[2] / "deployments" / "prefect.yaml"


class Scheduled(BaseModel, extra="forbid"):
    """When a deployment runs by itself. Exactly one of cron, interval (seconds) and rrule."""

    slug: str
    cron: str | None = None
    interval: float | None = None
    rrule: str | None = None
    timezone: str = "UTC"
    parameters: dict[str, Any] = {}


class Deployed(BaseModel, extra="forbid"):
    """One entry of the list."""

    name: str
    entrypoint: str
    """Module and function of the flow: `flows.counting.counting`."""
    description: str
    tags: list[str]
    schedules: list[Scheduled]
    parameters: dict[str, dict[str, Any]]
    work_pool: dict[str, Any] = {}
    """For workers; serving needs none."""

    @property
    def flow(self) -> Flow[..., Any]:
        """The flow that is deployed."""
        module, _, function = self.entrypoint.rpartition(".")
        return getattr(import_module(module), function)


def read_list(path: Path = LIST) -> list[Deployed]:
    """The deployments of the list.

    Raises:
        ValueError: the list cannot be used, with every problem and its place.
    """
    try:
        listed = yaml.safe_load(path.read_text(encoding="utf-8"))["deployments"]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no list of deployments: {error}") from error
    try:
        return [Deployed.model_validate(each) for each in listed]
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise ValueError("\n".join([f"{path} cannot be used:", *problems])) from error


async def served(deployed: Deployed) -> RunnerDeployment:
    """A deployment as it is served from here. A schedule that somebody has paused stays paused."""
    paused = await _paused(f"{deployed.flow.name}/{deployed.name}")
    return await deployed.flow.ato_deployment(
        deployed.name,
        description=deployed.description,
        tags=deployed.tags,
        schedules=[_schedule(each, each.slug not in paused) for each in deployed.schedules],
        parameters=deployed.parameters,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


async def _paused(name: str) -> set[str | None]:
    """Slugs of the schedules that the server has of a deployment and that are not active."""
    async with get_client() as client:
        try:
            deployment = await client.read_deployment_by_name(name)
        except ObjectNotFound:
            return set()
    return {schedule.slug for schedule in deployment.schedules if not schedule.active}


def _schedule(scheduled: Scheduled, active: bool) -> Schedule:
    values = scheduled.model_dump()
    values["interval"] = timedelta(seconds=scheduled.interval) if scheduled.interval else None
    return Schedule(**values, active=active)
