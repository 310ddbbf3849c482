"""Entries of the list of deployments, `deployments/prefect.yaml`. `registering` puts them on a server."""

from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Self, cast
from zoneinfo import available_timezones

import yaml
from prefect import Flow
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.schedules import Schedule
from pydantic import BaseModel, ValidationError, field_validator, model_validator

from flows.runtime.given import misspelt
from tasks.endpoint.known import addressed
from tasks.errors import InputError, Problems
from tasks.parameters import FLOWS, Collect, Parameters, parameters_of

LIST = Path(__file__).parents[2] / "deployments" / "prefect.yaml"
COLLECT = "collect"
ENTRYPOINTS = {f"flows.{flow}.{flow}": flow for flow in (*FLOWS, COLLECT)}
"""Module and function of every flow -> its name."""


class Scheduled(BaseModel, extra="forbid"):
    """Schedule of a deployment: exactly one of cron, interval (seconds) and rrule."""

    slug: str
    cron: str | None = None
    interval: float | None = None
    rrule: str | None = None
    timezone: str = "UTC"
    active: bool = True
    parameters: dict[str, Any] = {}

    @field_validator("timezone")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in available_timezones():
            raise InputError("no such time zone; it has a name like Europe/Berlin")
        return value

    @model_validator(mode="after")
    def _due_in_one_way(self) -> Self:
        if sum(way is not None for way in (self.cron, self.interval, self.rrule)) != 1:
            raise InputError("exactly one of cron, interval and rrule is needed")
        _ = self.schedule  # Prefect checks its syntax
        return self

    @property
    def schedule(self) -> Schedule:
        """The schedule for Prefect."""
        interval = timedelta(seconds=self.interval) if self.interval else None
        return Schedule(**self.model_dump(exclude={"interval"}), interval=interval)

    @property
    def created(self) -> DeploymentScheduleCreate:
        """The schedule for Prefect's server."""
        return DeploymentScheduleCreate.from_schedule(self.schedule)


class Form(BaseModel, extra="forbid"):
    """Parameters of a flow: a single one, which holds all fields of its form."""

    parameters: dict[str, Any] = {}


class Deployed(BaseModel, extra="forbid"):
    """One entry of the list."""

    name: str
    entrypoint: str
    """Module and function of the flow: `flows.counting.counting`."""
    description: str
    tags: list[str]
    schedules: list[Scheduled]
    parameters: Form
    paused: bool | None = None
    """Whether the deployment starts no runs; None: people decide that in the UI."""
    work_pool: dict[str, Any] = {}
    """Work pool for workers; serving needs none."""

    @model_validator(mode="after")
    def _fits_the_flow(self) -> Self:
        if self.entrypoint not in ENTRYPOINTS:
            raise InputError(f"there is no entrypoint {self.entrypoint}; allowed are {', '.join(ENTRYPOINTS)}")
        try:
            asked = self.form.model_validate(self.own)
            if not isinstance(asked, Collect):
                addressed(asked)
        except ValidationError as error:
            raise InputError(
                "; ".join(f"parameters.parameters.{words}" for words in _words(error, self.form))
            ) from None
        return self

    @property
    def own(self) -> dict[str, Any]:
        """Fields of the form that the list gives."""
        return self.parameters.parameters

    @property
    def title(self) -> str:
        """Flow and name, as Prefect shows them."""
        return f"{ENTRYPOINTS[self.entrypoint]}/{self.name}"

    @property
    def form(self) -> type[Parameters] | type[Collect]:
        """The model of its parameters."""
        flow = ENTRYPOINTS[self.entrypoint]
        return Collect if flow == COLLECT else parameters_of(flow)

    @property
    def flow(self) -> Flow[..., Any]:
        """The flow that is deployed."""
        module, _, function = self.entrypoint.rpartition(".")
        return getattr(import_module(module), function)


def read_list(path: Path = LIST) -> list[Deployed]:
    """Return the deployments of the list.

    Raises:
        InputError: the list cannot be used, with every problem and its place.
    """
    problems = Problems()
    found: dict[str, Deployed] = {}
    for number, entry in enumerate(_entries(path), 1):
        try:
            deployed = Deployed.model_validate(entry)
        except ValidationError as error:
            for words in _words(error, Deployed):
                problems.add(f"entry {number}", words)
            continue
        if deployed.title in found:
            problems.add(f"entry {number}", f"{deployed.title} is in the list twice; give it another name")
        found[deployed.title] = deployed
    problems.stop(str(path))
    return list(found.values())


def _entries(path: Path) -> list[Any]:
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read as a list of deployments: {error}") from error
    listed: object = cast(dict[str, object], read).get("deployments") if isinstance(read, dict) else None
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{path} holds no list of deployments: it needs the key `deployments` with at least one entry")
    return cast(list[Any], listed)


def _words(error: ValidationError, model: type[BaseModel]) -> Iterator[str]:
    for each in error.errors():
        place = ".".join(map(str, each["loc"]))
        yield f"{place}: {misspelt(each, model) or each['msg']}".removeprefix(": ").replace("Value error, ", "")
