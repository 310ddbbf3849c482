"""Repeated registration of the list's deployments on a server, which keeps edits in the UI.

Only values that changed in the list since its last registration are applied. A digest of each is kept on the server,
where any checkout finds it: in one Prefect variable for each deployment, since a variable holds 5,000 characters.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate, VariableCreate, VariableUpdate
from prefect.client.schemas.objects import DeploymentSchedule
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.types.entrypoint import EntrypointType
from pydantic import BaseModel, TypeAdapter, ValidationError

from flows.runtime.deployments import ENTRYPOINTS, Deployed
from flows.runtime.given import nested, read_json
from tasks.errors import InputError
from tasks.text import one_line

ALWAYS = {"description", "tags", "paused"}
"""Fields that are applied at each start; `paused` only if the list names it."""
MISSING = "(none)"
"""Value of a field that is missing."""
SHOWN = 60
"""Longest value that is shown, in characters."""
CURE = "`jury up --reset` takes the list's"
Fields = Mapping[str, Any]
"""Name -> value: `tags`, `limit` and `judge.model` of the form, `schedule nightly when`."""


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
        await _remember(client, deployed)
        served = await client.read_deployment_by_name(deployed.title)
    words = [f"{when(each)}{'' if each.active else ' (off)'}" for each in served.schedules]
    return Registered(served.id, sorted(words), said)


async def on_server() -> list[DeploymentResponse]:
    """Return all deployments on the server, also those by others."""
    async with get_client() as client:
        return await client.read_deployments()


async def idle_limits() -> str:
    """Return a sentence about the limits `jury:<host>`, which no run uses; "" if there are none."""
    async with get_client() as client:
        limits = await client.read_global_concurrency_limits(limit=200)
    names = sorted(each.name for each in limits if each.name.startswith("jury:"))
    if not names:
        return ""
    return (
        f"Prefect's limits {', '.join(names)} cap nothing any more: a run caps its calls by judge.concurrency, and a "
        f"work queue or a deployment caps the runs. Delete them: prefect gcl delete {names[0]}"
    )


def left_over(found: Iterable[DeploymentResponse], served: Collection[str]) -> list[str]:
    """Return a sentence for each deployment of our flows that is neither in the list nor on a work pool.

    It may have another name in the list now, or belong to another list. It is left as it is, and its due runs wait.

    Args:
        found: all deployments of the server.
        served: titles of those in the list.
    """
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
    listed, found = _of_list(deployed), _of_server(deployed, known)
    defaults = _leaves(deployed.form().model_dump(mode="json"), deployed.form)
    merged = merge(last, listed, found, defaults, reset)
    change = DeploymentUpdate(
        description=deployed.description,
        tags=deployed.tags,
        parameters={"parameters": _raw(merged.values)},
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


def _of_list(deployed: Deployed) -> dict[str, Any]:
    """Return the fields of a deployment as the list has them, without its schedules."""
    return _fields(deployed, deployed.description, deployed.tags, deployed.paused, deployed.own)


def _of_server(deployed: Deployed, known: DeploymentResponse) -> dict[str, Any]:
    """Return the same fields as the server has them."""
    form = read_json(known.parameters.get("parameters", {}))
    return _fields(deployed, known.description or "", known.tags, known.paused, form)


def _fields(deployed: Deployed, description: str, tags: list[str], paused: bool | None, form: Fields) -> dict[str, Any]:
    own = {} if deployed.paused is None else {"paused": paused}
    return {"description": description, "tags": sorted(tags), **own, **_leaves(form, deployed.form)}


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


def _raw(fields: Fields) -> dict[str, Any]:
    """Build the form from its values by name."""
    raw: dict[str, Any] = {}
    for path, value in fields.items():
        if path in ALWAYS:
            continue
        *parents, name = path.split(".")
        place = raw
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return raw


async def _last(client: PrefectClient, title: str) -> dict[str, str]:
    """Return the digests of the list at its last registration; empty if they are unknown."""
    found = await client.read_variable_by_name(variable_name(title))
    try:
        return TypeAdapter(dict[str, str]).validate_python(found.value if found else {})
    except ValidationError:  # a variable that a person made
        return {}


async def _remember(client: PrefectClient, deployed: Deployed) -> None:
    listed = _of_list(deployed)
    for each in deployed.schedules:
        listed |= _of_schedule(each.created)
    name, value = variable_name(deployed.title), cast(Any, digests(listed))
    if await client.read_variable_by_name(name):
        await client.update_variable(VariableUpdate(name=name, value=value))
    else:
        await client.create_variable(VariableCreate(name=name, value=value))
