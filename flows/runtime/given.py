"""Parameters of a run: its own, completed from its deployment's, and validated once.

Prefect merges overrides into the deployment's parameters at the top level alone, and ours has one parameter, the form:
`limit: 4` would lose dataset and judge. Prefect's own validation would come before that, so it is off for our flows.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, cast
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from flows.runtime.prefect_run import own_run
from flows.runtime.shards import shard_of
from tasks.errors import InputError
from tasks.parameters import Parameters, parameters_of

_KIND = "__prefect_kind"
"""Key by which the UIs mark a value in another notation."""
Raw = Mapping[str, Any]
"""Values of a form as Prefect stores them, without the fields that were not given."""


async def given(flow: str, asked: Parameters | Raw) -> tuple[Parameters, list[str]]:
    """Return the parameters of this run, and sentences about those that come from its deployment or are emptied.

    Args:
        asked: raw, as a deployment's run has them; or validated, as a program calls a flow.

    Raises:
        InputError: values that are not allowed, or the tags of a shard on a run that is no shard.
    """
    run, model = own_run(), parameters_of(flow)
    deployment = run.deployment_id if run else None
    if isinstance(asked, Parameters):
        if not deployment:
            return asked, []
        asked = asked.model_dump(exclude_unset=True)  # the flow's default: the run has no parameters at all
    of_deployment = await _stored(deployment) if deployment else {}
    values, taken, emptied = completed(read_json(asked), read_json(of_deployment), model)
    marks = await shard_of(run) if run else {}
    try:
        parameters = model.model_validate({**values, **marks})
    except ValidationError as error:
        raise InputError("; ".join(_words(error, model))) from error
    if run and taken:
        await _show(run, values)
    named = (("from the deployment", taken), ("emptied in the form", emptied))
    return parameters, [f"{where}: {', '.join(names)}" for where, names in named if names]


def read_json(raw: Raw) -> dict[str, Any]:
    """Return values with free maps as the JSON text that the UIs write, which a form reads as a command line's.

    A map that nobody touched has no text and is left out. Prefect parses that text in parameters of runs and
    deployments, but not in those of schedules.
    """
    found: dict[str, Any] = {}
    for name, value in raw.items():
        fields = cast(dict[str, Any], value) if isinstance(value, dict) else {}
        if fields.get(_KIND) != "json":
            found[name] = read_json(fields) if isinstance(value, dict) else value
        elif "value" in fields:
            found[name] = fields["value"]
    return found


def completed(own: Raw, others: Raw, model: type[BaseModel]) -> tuple[dict[str, Any], list[str], list[str]]:
    """Complete the values of a run from its deployment; return them, the names of the added ones, and of emptied texts.

    Models are completed by key; lists and free maps are single values, as numbers are. Both UIs send every field of a
    form except those that a person emptied. An emptied text stays empty if the field may be empty. No number can be
    empty, so an emptied number counts as not given. A form, unlike an override, has more than half of the fields.
    """
    values, taken, emptied = dict(own), list[str](), list[str]()
    filled_in = 2 * len(own) > len(model.model_fields)
    for name, info in model.model_fields.items():
        if inner := nested(info, own.get(name, {}), others.get(name, {})):
            found = completed(own.get(name, {}), others.get(name, {}), inner)
            values |= {name: found[0]} if found[0] else {}
            taken += [f"{name}.{each}" for each in found[1]]
            emptied += [f"{name}.{each}" for each in found[2]]
        elif name not in own and others.get(name, info.default) != info.default:
            if filled_in and info.default == "":
                emptied.append(name)
            else:
                values[name] = others[name]
                taken.append(name)
    return values, taken, emptied


def nested(info: FieldInfo, *values: Any) -> type[BaseModel] | None:
    """Return the model of a field that has one, if all these values are maps; None otherwise."""
    kind = info.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel) and all(isinstance(value, dict) for value in values):
        return kind
    return None


async def _stored(deployment: UUID) -> dict[str, Any]:
    async with get_client() as client:
        try:
            found = await client.read_deployment(deployment)
        except ObjectNotFound as error:
            raise InputError(
                "the deployment of this run was deleted, and with it what the run was not given: start another"
            ) from error
    return found.parameters.get("parameters", {})


async def _show(run: FlowRun, values: Raw) -> None:
    """Store the completed values in Prefect; the UI would fill in a copy of this run from the program's defaults."""
    try:
        async with get_client() as client:
            await client.update_flow_run(run.id, parameters={"parameters": values})
    except Exception as error:  # Nice to have; no run stops for want of it.
        get_run_logger().debug("The run's parameters could not be completed in the UI", exc_info=error)


def _words(error: ValidationError, model: type[BaseModel]) -> list[str]:
    return [
        f"{'.'.join(map(str, each['loc']))}: {misspelt(each, model) or each['msg']}, found {each['input']!r}"
        if each["loc"] and each["type"] != "value_error"
        else each["msg"].removeprefix("Value error, ")
        for each in error.errors()
    ]


def misspelt(fault: ErrorDetails, model: type[BaseModel]) -> str:
    """Return a sentence about an unknown field of a form, with the likely one; empty for any other fault."""
    if fault["type"] != "extra_forbidden":
        return ""
    *above, name = map(str, fault["loc"])
    inner = nested(model.model_fields[above[0]]) if above and above[0] in model.model_fields else model
    meant = get_close_matches(name, (inner or model).model_fields, 1)
    return f"there is no such field{f', did you mean {meant[0]}?' if meant else ''}"
