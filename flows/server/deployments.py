"""Deployments of the list, their registration on a server, which keeps edits in the UI, and its automations."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self, cast
from uuid import UUID
from zoneinfo import available_timezones

import yaml
from prefect import Flow, get_client
from prefect.automations import Automation
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate, VariableCreate, VariableUpdate
from prefect.client.schemas.objects import DeploymentSchedule, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.events import DeploymentTriggerTypes
from prefect.events.actions import ChangeFlowRunState, SendNotification
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.schedules import Schedule
from prefect.types import MAX_VARIABLE_VALUE_LENGTH
from prefect.types.entrypoint import EntrypointType
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator, model_validator

from flows.commands.options import nest
from flows.flow_run import completed, misspelt, nested, read_json
from flows.server.server import secret_block
from tasks.comparing.alarms import EVENT, JUDGE_MOVED
from tasks.datasets.paths import FENCED, READ, check_no_url, dated, newest, own_places
from tasks.endpoint.api_keys import find_key
from tasks.endpoint.catalog import addressed
from tasks.errors import InputError, JudgeStopped, Problems
from tasks.protocols import parameters_of
from tasks.records.parameters import DEFAULT_STORE, FLOWS, Collect, Parameters, at_home, default_store
from tasks.text import one_line

LIST = Path(__file__).parents[2] / "deployments" / "prefect.yaml"
COLLECT = "collect"
ENTRYPOINTS = {f"flows.{flow}.{flow}": flow for flow in (*FLOWS, COLLECT)}
"""Module and function of every flow -> its name."""


LONGEST_INTERVAL = 366 * 86_400.0
"""Longest interval of a schedule, in seconds."""
Fields = Mapping[str, Any]
"""Name -> value: `tags`, `limit` and `judge.model` of the form, `schedule nightly when`."""
_NOT_IN_NAMES = "/%&<>"
"""Characters that Prefect refuses in the name of a deployment."""
_TRIGGERS: TypeAdapter[list[DeploymentTriggerTypes]] = TypeAdapter(list[DeploymentTriggerTypes])
_DIGESTS = TypeAdapter(dict[str, str])


class Form(BaseModel, extra="forbid"):
    """Parameters of a flow: a single one, which holds all fields of its form."""

    parameters: dict[str, Any] = {}


class Scheduled(BaseModel, extra="forbid"):
    """Schedule of a deployment: exactly one of cron, interval (seconds) and rrule."""

    slug: str
    cron: str | None = None
    interval: float | None = Field(default=None, gt=0, le=LONGEST_INTERVAL)
    rrule: str | None = None
    timezone: str = "UTC"
    active: bool = True
    parameters: Form = Form()
    """Values in place of the deployment's."""

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
        own = self.parameters.model_dump(exclude_defaults=True)
        return Schedule(**self.model_dump(exclude={"interval", "parameters"}), interval=interval, parameters=own)

    @property
    def created(self) -> DeploymentScheduleCreate:
        """The schedule for Prefect's server."""
        return DeploymentScheduleCreate.from_schedule(self.schedule)


class Deployed(BaseModel, extra="forbid"):
    """One entry of the list."""

    name: str
    entrypoint: str
    """Module and function of the flow: `flows.counting.counting`."""
    description: str
    tags: list[str]
    schedules: list[Scheduled]
    triggers: list[dict[str, Any]] = []
    """Events that start a run, as `prefect deploy` reads them."""
    parameters: Form
    paused: bool | None = None
    """Whether the deployment starts no runs; None: people decide that in the UI."""
    work_pool: dict[str, Any] = {}
    """Work pool for workers; serving needs none."""

    @field_validator("triggers")
    @classmethod
    def _of_prefect(cls, value: list[dict[str, Any]]) -> list[dict[str, Any]]:
        try:
            _TRIGGERS.validate_python(value)
        except ValidationError as error:
            raise InputError("; ".join(_words(error, BaseModel))) from None
        return value

    @model_validator(mode="after")
    def _fits_the_flow(self) -> Self:
        if self.entrypoint not in ENTRYPOINTS:
            raise InputError(f"there is no entrypoint {self.entrypoint}; allowed are {', '.join(ENTRYPOINTS)}")
        if found := [character for character in _NOT_IN_NAMES if character in self.name]:
            raise InputError(f"name {self.name!r} contains {found[0]}; allowed is a name without {_NOT_IN_NAMES}")
        slugs = Counter(each.slug for each in self.schedules)
        if twice := [slug for slug, number in slugs.items() if number > 1]:
            raise InputError(f"schedules: the slug {twice[0]!r} is there twice; give each schedule one of its own")
        of_schedules = {f"schedule {each.slug}: ": each.parameters.parameters for each in self.schedules}
        for place, values in {"": self.own, **of_schedules}.items():
            try:
                asked = self.form.model_validate(completed(values, self.own, self.form)[0])
                if not isinstance(asked, Collect):
                    addressed(asked)
            except ValidationError as error:
                told = (f"{place}parameters.parameters.{words}" for words in _words(error, self.form))
                raise InputError("; ".join(told)) from None
        if len(json.dumps(self.digests)) > MAX_VARIABLE_VALUE_LENGTH:
            raise InputError("schedules: more than can be remembered; move some into another entry")
        return self

    @property
    def own(self) -> dict[str, Any]:
        """Fields of the form that the list gives."""
        return self.parameters.parameters

    @property
    def digests(self) -> dict[str, Any]:
        """Digests of all fields, those of the schedules among them, as one Prefect variable holds them."""
        listed = {**_fields(self, self, self.own), TRIGGERS: self.triggers}
        for each in self.schedules:
            listed |= _of_schedule(each.created)
        return {**digests(listed)}

    def make_absolute(self, folder: Path) -> list[str]:
        """Make paths absolute that lead from the list's folder, because runs happen elsewhere; return these paths."""
        relative: list[str] = []
        for values in (form.parameters for form in (self.parameters, *(each.parameters for each in self.schedules))):
            for name, value in values.items():
                if name in FENCED and (whole := _from(folder, name, value)) != value:
                    values[name] = whole
                    relative.append(f"{name} {value}")
        return relative

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


def read_list(path: Path = LIST, for_workers: bool = False) -> list[Deployed]:
    """Return the deployments of the list.

    Args:
        for_workers: it must mean the same on every machine, so that no path may lead from it.

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
        for place in deployed.make_absolute(path.absolute().parent):
            if for_workers:
                words = f"{place} is relative: workers run elsewhere, so give the whole path"
                problems.add(deployed.title, words)
    problems.stop(str(path))
    return list(found.values())


def _from(folder: Path, field: str, value: Any) -> Any:
    """Return a path of the list, or several, as absolute ones; names that are no paths stay."""
    if isinstance(value, list):
        return [_from(folder, field, each) for each in cast(list[Any], value)]
    if not isinstance(value, str) or not value or "://" in value or value.startswith("~") or value in own_places(field):
        return value
    return value if Path(value).is_absolute() else str(folder / value)


def place_warnings(listed: Iterable[Deployed]) -> list[str]:
    """Return a warning for each file or folder of the list that cannot be read yet, since it may come before the run,
    and for each store that is not the one that is served.
    """
    warnings, now = list[str](), datetime.now().astimezone()
    for deployed in listed:
        store = at_home(str(deployed.own.get("store", DEFAULT_STORE)))
        if store != DEFAULT_STORE and Path(store).resolve() != Path(default_store()).resolve():
            warnings.append(f"{deployed.title}: its runs go to the store {store}; --store with that shows their pages")
        for name in READ:
            if not (path := str(deployed.own.get(name, ""))) or path in own_places(name):
                continue
            try:
                check_no_url(name, path)
                is_there = Path(newest(dated(path, now))).expanduser().exists()
            except InputError as error:
                warnings.append(f"{deployed.title}: {error}")
            else:
                warnings += [f"{deployed.title}: nothing is at {name} {path} yet"] * (not is_there)
    return warnings


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


ALWAYS = {"description", "tags", "paused"}
"""Fields that are applied at each start; `paused` only if the list names it."""
MISSING = "(none)"
"""Value of a field that is missing."""
SHOWN = 60
"""Longest value that is shown, in characters."""
TRIGGERS = "triggers"
"""Field whose digest is remembered, and whose value on a server is in automations."""
CURE = "`jury up --reset` takes the list's"


class Merged(NamedTuple):
    """Merged fields of the list and of a server."""

    values: dict[str, Any]
    replaced: list[str]
    """Names of the fields whose value on the server is replaced by the list's."""
    said: list[str]
    """Messages about what people changed, and what the list replaced."""


class Registered(NamedTuple):
    """A deployment of the list after its registration."""

    id: UUID | None
    """Id of the deployment; None: people deleted it."""
    schedules: list[str]
    """Schedules in words; people's schedules, too."""
    said: list[str]
    """Messages, as in `Merged`."""


async def register(deployed: Deployed, reset: bool) -> Registered:
    """Put a deployment of the list on the server.

    Args:
        reset: the list replaces people's changes; schedules that they added are kept.

    Raises:
        InputError: the server refuses people's changes together with the list's values.
    """
    known: DeploymentResponse | None = None
    said: list[str] = []
    async with get_client() as client:
        last = await _last(client, deployed.title)
        with suppress(ObjectNotFound):
            known = await client.read_deployment_by_name(deployed.title)
        if known:
            said += await _update(client, deployed, known, last, reset)
            said += await _update_schedules(client, deployed, known, last, reset)
        elif reset or not last:
            await _create(deployed)
        else:
            cure = f"delete the variable {variable_name(deployed.title)} there, too, to get it back at the next start"
            return Registered(None, [], [f"was deleted in the UI and is not made again; {cure}"])
        served = await client.read_deployment_by_name(deployed.title)
        if reset or last.get(TRIGGERS, digest([])) != digest(deployed.triggers):
            await _put_triggers(client, deployed, served.id)
        await _remember(client, deployed)
    words = [f"{when(each)}{'' if each.active else ' (off)'}" for each in served.schedules]
    return Registered(served.id, sorted(words), [*said, *await _missing_key(deployed, served)])


async def _missing_key(deployed: Deployed, served: DeploymentResponse) -> list[str]:
    """Return a message if the judge's key is neither in the environment, which runs inherit, nor on the server."""
    try:
        asked = deployed.form.model_validate(_form_of(served))
        if not isinstance(asked, Collect):
            await find_key(addressed(asked).judge, secret_block)
    except JudgeStopped as error:
        return [f"its runs will stop before their first call: {error}"]
    except (ValidationError, InputError):  # of people's changes; a run reports them
        pass
    return []


async def left_over(served: Collection[str]) -> list[str]:
    """Return a sentence for each deployment of our flows on the server that is neither in the list nor on a work pool.

    It may have another name in the list now, or belong to another list. It is left as it is, and its due runs wait.

    Args:
        served: titles of those in the list.
    """
    async with get_client() as client:
        found = await client.read_deployments()
    ours = [each for each in found if each.entrypoint in ENTRYPOINTS and not each.work_pool_name]
    titles = {f"{ENTRYPOINTS[each.entrypoint or '']}/{each.name}" for each in ours}
    return [
        f"{title} is on this server and not in the list: nothing here starts its runs; delete it in the UI if it is "
        "the former name of another"
        for title in sorted(titles - {*served})
    ]


def when(scheduled: DeploymentSchedule | DeploymentScheduleCreate) -> str:
    """Return the due times of a schedule, in the words of the list."""
    values = scheduled.schedule.model_dump()
    every = values.get("interval")
    due = values.get("cron") or values.get("rrule") or (f"every {every.total_seconds():g} s" if every else "never")
    return f"{due} {values.get('timezone') or 'UTC'}"


def merge(last: Mapping[str, str], listed: Fields, found: Fields, defaults: Fields, reset: bool = False) -> Merged:
    """Merge fields of the list into those on a server.

    Args:
        last: digests of the list's fields at its last registration.
        defaults: values of fields that are not given; `MISSING` for all others.
        reset: apply all fields of the list.
    """
    values: dict[str, Any] = {}
    replaced, said = list[str](), list[str]()
    for name in dict.fromkeys((*listed, *found)):
        default = defaults.get(name, MISSING)
        now = digest(listed[name]) if name in listed else None
        applied = reset or name in ALWAYS or last.get(name) != now
        source = listed if applied else found
        if name in source:
            values[name] = source[name]
        mine, theirs = listed.get(name, default), found.get(name, default)
        if mine == theirs:
            continue
        there, here = one_line(str(mine), SHOWN), one_line(str(theirs), SHOWN)
        if applied:
            replaced.append(name)
            said.append(f"{name} was {here}; the list's {there} has replaced it")
        else:
            said.append(f"{name} is {here}, as changed here; in the list it is {there}")
    return Merged(values, replaced, said)


def digest(value: Any) -> str:
    """Return a short digest of a value of any length."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digests(fields: Fields) -> dict[str, str]:
    """Return the digests of fields by their names."""
    return {name: digest(value) for name, value in fields.items()}


def variable_name(title: str) -> str:
    """Return the name of a deployment's variable of digests: `jury_list_plot_nightly_` and a digest of the title."""
    words = re.sub(r"[^a-z0-9]+", "_", title.lower())
    return f"jury_list_{words[:200]}_{hashlib.sha256(title.encode()).hexdigest()[:6]}"


async def _create(deployed: Deployed) -> None:
    made = await deployed.flow.ato_deployment(
        deployed.name,
        description=deployed.description,
        tags=deployed.tags,
        schedules=[each.schedule for each in deployed.schedules],
        parameters={"parameters": deployed.own},
        paused=bool(deployed.paused),
        entrypoint_type=EntrypointType.MODULE_PATH,
        version=deployed.flow.version,  # else Prefect takes the commit of the folder that the command is started in
    )
    await made.aapply()


async def _update(
    client: PrefectClient, deployed: Deployed, known: DeploymentResponse, last: Mapping[str, str], reset: bool
) -> list[str]:
    """Update the changed fields of a deployment; return messages for the user."""
    defaults = _leaves(deployed.form().model_dump(mode="json"), deployed.form)
    listed, found = _fields(deployed, deployed, deployed.own), _fields(deployed, known, _form_of(known))
    merged = merge(last, listed, found, defaults, reset)
    change = DeploymentUpdate(
        description=deployed.description,
        tags=deployed.tags,
        parameters={"parameters": nest({name: each for name, each in merged.values.items() if name not in ALWAYS})},
        entrypoint=deployed.entrypoint,
        parameter_openapi_schema=deployed.flow.parameters.model_dump(exclude_unset=True),
    )
    if reset or deployed.paused is not None:
        change.paused = bool(deployed.paused)
    try:
        await client.update_deployment(known.id, change)
    except PrefectHTTPStatusError as error:
        raise InputError(f"{deployed.title} cannot be registered, {error.response.text[:500]}. {CURE}") from error
    return merged.said


async def _update_schedules(
    client: PrefectClient, deployed: Deployed, known: DeploymentResponse, last: Mapping[str, str], reset: bool
) -> list[str]:
    """Update the schedules that are or were in the list; return messages for the user."""
    said: list[str] = []
    listed = {_place(each.slug): each.created for each in deployed.schedules}
    found = {_place(each.slug): each for each in known.schedules}
    registered = {name.rpartition(" ")[0] for name in last} - {""}
    for place in sorted({*listed, *registered}):
        mine, theirs = listed.get(place), found.get(place)
        if mine and theirs:
            merged = merge(last, _of_schedule(mine), _of_schedule(theirs), {}, reset)
            changes = {name.rpartition(" ")[2]: merged.values[name] for name in merged.replaced}
            if changes.pop("when", None):
                changes["schedule"] = mine.schedule
            if changes:
                await client.update_deployment_schedule(known.id, theirs.id, **changes)
            said += merged.said
        elif mine and (reset or place not in registered):
            await client.create_deployment_schedules(known.id, [mine])
        elif mine:
            said.append(f"{place} was deleted here and is not made again; {CURE}")
        elif theirs and (reset or digests(_of_schedule(theirs)).items() <= last.items()):
            await client.delete_deployment_schedule(known.id, theirs.id)
        elif theirs:
            said.append(f"{place} is no longer in the list, and stays since it was changed here; {CURE}")
    return said


async def _put_triggers(client: PrefectClient, deployed: Deployed, deployment: UUID) -> None:
    """Make an automation of each trigger, in place of those of an earlier list; people's own are kept."""
    await client.delete_resource_owned_automations(f"prefect.deployment.{deployment}")
    for at, trigger in enumerate(_TRIGGERS.validate_python(deployed.triggers), 1):
        trigger.name = trigger.name or f"{deployed.title}: trigger {at}"
        trigger.set_deployment_id(deployment)
        await client.create_automation(trigger.as_automation())


def _fields(deployed: Deployed, side: Deployed | DeploymentResponse, form: Fields) -> dict[str, Any]:
    """Return the fields of a deployment as the list or the server has them, without its schedules."""
    own = {} if deployed.paused is None else {"paused": side.paused}
    return {"description": side.description or "", "tags": sorted(side.tags), **own, **_leaves(form, deployed.form)}


def _form_of(known: DeploymentResponse) -> dict[str, Any]:
    return read_json(known.parameters.get("parameters", {}))


def _place(slug: str | None) -> str:
    """Return the name of a schedule. Only people's own schedules have no slug, and thus no name."""
    return f"schedule {slug}" if slug else ""


def _of_schedule(each: DeploymentSchedule | DeploymentScheduleCreate) -> dict[str, Any]:
    fields = {"active": each.active, "when": when(each), "parameters": each.parameters}
    return {f"{_place(each.slug)} {name}": value for name, value in fields.items()}


def _leaves(raw: Fields, form: type[BaseModel], place: str = "") -> dict[str, Any]:
    """Return the values of a form by the names of its fields, `judge.model` if nested; others are left out."""
    found: dict[str, Any] = {}
    for name, info in form.model_fields.items():
        if name in raw and (inner := nested(info, raw[name])):
            found |= _leaves(raw[name], inner, f"{place}{name}.")
        elif name in raw:
            found[f"{place}{name}"] = raw[name]
    return found


async def _last(client: PrefectClient, title: str) -> dict[str, str]:
    """Return the digests of the list at its last registration; empty if they are unknown."""
    variable = await client.read_variable_by_name(variable_name(title))
    with suppress(ValidationError):  # a variable that a person made
        return _DIGESTS.validate_python(variable.value if variable else {})
    return {}


async def _remember(client: PrefectClient, deployed: Deployed) -> None:
    name, value = variable_name(deployed.title), deployed.digests
    if await client.read_variable_by_name(name):
        await client.update_variable(VariableUpdate(name=name, value=value))
    else:
        await client.create_variable(VariableCreate(name=name, value=value))


NOTICE = "jury: regression"
NOTICE_SUBJECT = "Image Jury: {{ event.payload['flow'] }} on {{ event.payload['dataset'] }} {{ event.payload['what'] }}"
NOTICE_BODY = "{{ event.payload['words'] }}\n{{ event.payload['report'] }}\n{{ event.payload['page'] }}"
"""Templates that Prefect's server fills in from the event."""

ZOMBIES = "Image Jury: runs whose process vanished"
HEARTBEAT = "prefect.flow-run.heartbeat"


async def notify_of_regressions(block: str) -> None:
    """Make the automation `jury: regression`, or update it to use this block.

    Args:
        block: type and name of a notification block, such as `slack-webhook/team`.

    Raises:
        InputError: the server has no such block, or it is of a kind that sends no notifications.
    """
    actions = [SendNotification(block_document_id=await _block_id(block), subject=NOTICE_SUBJECT, body=NOTICE_BODY)]
    each = EventTrigger(expect={EVENT, JUDGE_MOVED}, posture=Posture.Reactive, threshold=1, within=timedelta(0))
    if automation := await _known(NOTICE):
        await automation.model_copy(update={"actions": [*actions], "trigger": each}).aupdate()
    else:
        await Automation(name=NOTICE, trigger=each, actions=[*actions]).acreate()


async def watch_for_zombies(silent_seconds: float) -> None:
    """Make the automation that marks runs as crashed if their process was silent for so long; one per server."""
    if await _known(ZOMBIES):
        return
    # A suspended run has no process until it is resumed.
    quiet = "Completed", "Failed", "Cancelled", "Crashed", "Skipped", "Suspended"
    silent = EventTrigger(
        after={HEARTBEAT},
        expect={HEARTBEAT, *(f"prefect.flow-run.{state}" for state in quiet)},
        match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=silent_seconds),
    )
    crashed = ChangeFlowRunState(
        state=StateType.CRASHED, name="Crashed", message="The process of this run has fallen silent.", force=False
    )
    await Automation(name=ZOMBIES, trigger=silent, actions=[crashed]).acreate()


async def _known(name: str) -> Automation | None:
    async with get_client() as client:
        found = await client.read_automations_by_name(name=name)
    return Automation(**found[0].model_dump()) if found else None


async def _block_id(block: str) -> UUID:
    kind, _, name = block.partition("/")
    if not (kind and name):
        raise InputError(f"--notify {block!r}: expected the type and the name of a block, such as slack-webhook/team")
    async with get_client() as client:
        try:
            found = await client.read_block_document_by_name(name, kind, include_secrets=False)
        except ObjectNotFound:
            raise InputError(
                f"--notify {block!r}: the Prefect server has no such block; make it in the UI under Blocks and give "
                "its type and name, such as slack-webhook/team"
            ) from None
    if not (found.block_schema and "notify" in found.block_schema.capabilities):
        raise InputError(f"--notify {block!r}: a block of this type sends no notifications")
    return found.id
