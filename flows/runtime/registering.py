"""The deployments of the list put on a server, again and again: what people changed there in the meantime stays.

Owns what of a deployment is compared, field by field and schedule by schedule, and how it is written. Prefect's own way
deletes the schedules that people added and writes over the others. What the list said when it was registered last is
kept on the server where it was registered, so that it belongs to what is there, whichever checkout registers next: in a
Prefect variable, since labels of a deployment are handed on to each of its runs and events.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, cast

from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, VariableCreate, VariableUpdate
from prefect.client.schemas.objects import DeploymentSchedule
from prefect.client.schemas.responses import DeploymentResponse
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.runner import Runner
from prefect.types.entrypoint import EntrypointType
from pydantic import BaseModel, TypeAdapter, ValidationError

from flows.runtime.deployments import ENTRYPOINTS, Deployed, Scheduled
from flows.runtime.given import lifted, nested
from flows.runtime.three_way import MISSING, Fields, Merged, digest, digests, merge
from tasks.errors import InputError
from tasks.text import one_line

OF_LIST = {"description", "tags", "parameters", "version", "entrypoint"}
"""What is written of a deployment that is there; its limits, and whether it is paused, are people's."""
OF_SCHEDULE = {"schedule", "active", "parameters", "slug"}
SHOWN = 60
"""Longest value that is told, in characters."""
CURE = "`jury up --reset` takes the list's"


class Entry(NamedTuple):
    """A deployment as the list or a server has it, or the digests of one."""

    fields: dict[str, Any]
    """`description`, `tags`, and each field of the form that is given by its name, `judge.model` where it is nested."""
    schedules: dict[str, dict[str, Any]]
    """Slug -> `when`, `parameters`, `active`."""


class Registered(NamedTuple):
    """A deployment as it is served."""

    title: str
    schedules: list[str]
    """When it runs, in words; people's schedules, too."""
    said: list[str]
    """What people changed, and what the list says of it."""


async def register(runner: Runner, deployed: Deployed, reset: bool) -> Registered:
    """Put a deployment of the list on the server, and give it to the runner.

    Args:
        reset: the list wins where people changed what came of it; schedules that they added stay.

    Raises:
        InputError: the server refuses what people left there together with what the list says.
    """
    async with get_client() as client:
        last, known = await _last(client, deployed.title), await _known(client, deployed.title)
        if known:
            before = _reset(deployed, known, last) if reset else last
            said = await _update(client, runner, deployed, known, before, OF_LIST | ({"paused"} if reset else set()))
        elif (former := await _known(client, former_title(deployed))) and not former.work_pool_name:
            said = await _move(client, runner, deployed, former)
        else:
            said = []
            await runner.aadd_deployment(await _made(deployed, of_list(deployed).fields, deployed.schedules))
        await _remember(client, deployed)
        served = await client.read_deployment_by_name(deployed.title)
    words = [f"{when(each)}{'' if each.active else ' (off)'}" for each in served.schedules]
    return Registered(deployed.title, sorted(words), said)


async def left_over(served: Collection[str]) -> list[str]:
    """A sentence for each deployment of our flows that is there, but neither in the list nor on a work pool.

    It may have another name in the list now, or be another list's: it is left as it is, and what comes due of it waits.

    Args:
        served: titles of those in the list.
    """
    async with get_client() as client:
        flows = {flow.id: flow.name for flow in await client.read_flows()}
        found = [each for each in await client.read_deployments() if each.entrypoint in ENTRYPOINTS]
    titles = [f"{flows.get(each.flow_id, '')}/{each.name}" for each in found if not each.work_pool_name]
    return [
        f"{title} is on this server and not in the list: nothing here starts its runs; delete it in the UI if it is "
        "the former name of another"
        for title in sorted({*titles} - {*served})
    ]


async def on_server() -> list[DeploymentResponse]:
    """All deployments that the server has, whoever made them."""
    async with get_client() as client:
        return await client.read_deployments()


def former_title(deployed: Deployed) -> str:
    """Under which a deployment stood before its name told its flow, too: `plot/nightly` of `plot/plot-nightly`."""
    flow = deployed.title.partition("/")[0]
    return f"{flow}/{deployed.name.removeprefix(f'{flow}-')}"


def of_list(deployed: Deployed) -> Entry:
    """A deployment as the list has it."""
    schedules = {each.slug: each.model_dump(include={"parameters", "active"}) for each in deployed.schedules}
    for each in deployed.schedules:
        schedules[each.slug]["when"] = each.when
    return _entry(deployed, deployed.description, deployed.tags, deployed.parameters.parameters, schedules)


def of_server(deployed: Deployed, known: DeploymentResponse) -> Entry:
    """A deployment as the server has it. A schedule without a slug is people's own."""
    schedules = {each.slug: _of_schedule(each) for each in known.schedules if each.slug}
    return _entry(deployed, known.description or "", known.tags, known.parameters.get("parameters", {}), schedules)


def when(scheduled: DeploymentSchedule) -> str:
    """When a schedule of the server is due, in the words of the list."""
    values = scheduled.schedule.model_dump()
    every = values.get("interval")
    due = values.get("cron") or values.get("rrule") or (f"every {every.total_seconds():g} s" if every else "never")
    return f"{due} {values.get('timezone') or 'UTC'}"


def _of_schedule(scheduled: DeploymentSchedule) -> dict[str, Any]:
    return {"when": when(scheduled), "parameters": scheduled.parameters, "active": scheduled.active}


def _entry(
    deployed: Deployed, description: str, tags: list[str], raw: dict[str, Any], schedules: dict[str, dict[str, Any]]
) -> Entry:
    return Entry({"description": description, "tags": sorted(tags), **_leaves(lifted(raw), deployed.form)}, schedules)


def _leaves(raw: Fields, form: type[BaseModel], place: str = "") -> dict[str, Any]:
    """The values of a form by the names of its fields; those of nested models have a dot.

    A server may hold fields that an earlier version had: they are left out.
    """
    found: dict[str, Any] = {}
    for name, info in form.model_fields.items():
        if name not in raw:
            continue
        if inner := nested(info, raw[name]):
            found |= _leaves(raw[name], inner, f"{place}{name}.")
        else:
            found[f"{place}{name}"] = raw[name]
    return found


def _raw(fields: Fields) -> dict[str, Any]:
    """The form again, of its values by name."""
    raw: dict[str, Any] = {}
    for path, value in fields.items():
        *parents, name = path.split(".")
        place = raw
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return raw


async def _made(
    deployed: Deployed, fields: Fields, schedules: list[Scheduled], paused: bool = False
) -> RunnerDeployment:
    form = {name: value for name, value in fields.items() if name not in ("description", "tags")}
    return await deployed.flow.ato_deployment(
        deployed.name,
        description=fields["description"],
        tags=fields["tags"],
        schedules=[each.schedule(each.active) for each in schedules],
        parameters={"parameters": _raw(form)},
        paused=paused,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


async def _update(
    client: PrefectClient, runner: Runner, deployed: Deployed, known: DeploymentResponse, last: Entry, written: set[str]
) -> list[str]:
    """Merge the list into a deployment that is there, of which no more is written; returns what is to be said of it."""
    merged, said = _merged(deployed, known, last)
    made = await _made(deployed, merged.values, [])
    made.model_fields_set.intersection_update(written)  # Prefect writes what was set
    try:
        await runner.aadd_deployment(made)
    except PrefectHTTPStatusError as error:
        raise InputError(f"{deployed.title} cannot be registered, {error.response.text[:500]}. {CURE}") from error
    for slug in dict.fromkeys((*of_list(deployed).schedules, *last.schedules)):
        said += await _update_schedule(client, deployed, known, slug, last.schedules.get(slug, {}))
    return said


async def _move(client: PrefectClient, runner: Runner, deployed: Deployed, former: DeploymentResponse) -> list[str]:
    """Make a deployment of the list from the one under its former name, whose schedules are switched off."""
    merged, said = _merged(deployed, former, await _last(client, former_title(deployed)))
    await runner.aadd_deployment(await _made(deployed, merged.values, [], former.paused))
    made = await client.read_deployment_by_name(deployed.title)
    kept = [
        DeploymentScheduleCreate.model_validate(each.model_dump(include=OF_SCHEDULE), from_attributes=True)
        for each in former.schedules
    ]
    added = [_created(each) for each in deployed.schedules if each.slug not in {each.slug for each in former.schedules}]
    await client.create_deployment_schedules(made.id, [*kept, *added])
    for each in former.schedules:
        await client.update_deployment_schedule(former.id, each.id, active=False)
    return [f"made from {former_title(deployed)}, its former name, whose schedules are off now", *said]


def _merged(deployed: Deployed, there: DeploymentResponse, last: Entry) -> tuple[Merged, list[str]]:
    """The fields of a deployment of the list, merged with those of one that is there, and what is to be said of it."""
    listed, found = of_list(deployed).fields, of_server(deployed, there).fields
    # Unless somebody is known to have changed it, a description is that of an earlier version of the program.
    before = {"description": digest(found["description"]), **last.fields}
    defaults = _leaves(deployed.form().model_dump(mode="json"), deployed.form)
    merged = merge(before, listed, found, defaults)
    return merged, [*_told("", merged, {**defaults, **listed}, {**defaults, **found})]


async def _update_schedule(
    client: PrefectClient, deployed: Deployed, known: DeploymentResponse, slug: str, last: Fields
) -> list[str]:
    """Merge a schedule of the list, or one that was in it; returns what is to be said of it."""
    planned = next((each for each in deployed.schedules if each.slug == slug), None)
    there = next((each for each in known.schedules if each.slug == slug), None)
    listed, found = of_list(deployed).schedules.get(slug, {}), _of_schedule(there) if there else {}
    merged = merge(last, listed, found, {})
    of_people, place = [*merged.kept, *merged.conflicts], f"schedule {slug}"
    if not there:
        if planned and not of_people:
            await client.create_deployment_schedules(known.id, [_created(planned)])
        return [f"{place} was deleted here, and stays so; {CURE}"] if of_people else []
    if not planned:
        if not of_people:
            await client.delete_deployment_schedule(known.id, there.id)
        return [f"{place} is no longer in the list, and stays since it was changed here; {CURE}"] if of_people else []
    changes: dict[str, Any] = {name: value for name, value in merged.values.items() if value != found[name]}
    if changes.pop("when", None):
        changes["schedule"] = _created(planned).schedule
    if changes:
        await client.update_deployment_schedule(known.id, there.id, **changes)
    return [*_told(f"{place} ", merged, listed, found)]


def _created(planned: Scheduled) -> DeploymentScheduleCreate:
    return DeploymentScheduleCreate.from_schedule(planned.schedule(planned.active))


def _told(place: str, merged: Merged, listed: Fields, found: Fields) -> Iterator[str]:
    for name in (*merged.kept, *merged.conflicts):
        here, there = (one_line(str(fields.get(name, MISSING)), SHOWN) for fields in (found, listed))
        if name in merged.kept:
            yield f"{place}{name} is {here}, as changed here; in the list it is {there}"
        else:
            yield f"{place}{name} is {here}, as changed here; the list has changed, too, to {there}; {CURE}"


def _reset(deployed: Deployed, known: DeploymentResponse, last: Entry) -> Entry:
    """As if the list had been registered as what is there, so that nothing of it is people's but what they added."""
    found = of_server(deployed, known)
    slugs = dict.fromkeys((*of_list(deployed).schedules, *last.schedules))
    return Entry(digests(found.fields), {slug: digests(found.schedules.get(slug, {})) for slug in slugs})


async def _known(client: PrefectClient, title: str) -> DeploymentResponse | None:
    """What the server has of a deployment."""
    try:
        return await client.read_deployment_by_name(title)
    except ObjectNotFound:
        return None


def variable_name(title: str) -> str:
    """Name of the variable that keeps what the list said of a deployment: `jury_list_plot_nightly_` and a digest."""
    words = re.sub(r"[^a-z0-9]+", "_", title.lower())
    return f"jury_list_{words[:200]}_{hashlib.sha256(title.encode()).hexdigest()[:6]}"


async def _last(client: PrefectClient, title: str) -> Entry:
    """Digests of what the list said last; empty where that is not known."""
    found = await client.read_variable_by_name(variable_name(title))
    try:
        return TypeAdapter(Entry).validate_python(found.value if found else None)
    except ValidationError:  # None yet, or a person's own
        return Entry({}, {})


async def _remember(client: PrefectClient, deployed: Deployed) -> None:
    listed, name = of_list(deployed), variable_name(deployed.title)
    schedules = {slug: digests(fields) for slug, fields in listed.schedules.items()}
    value = cast(Any, Entry(digests(listed.fields), schedules)._asdict())
    if await client.read_variable_by_name(name):
        await client.update_variable(VariableUpdate(name=name, value=value))
    else:
        await client.create_variable(VariableCreate(name=name, value=value))
