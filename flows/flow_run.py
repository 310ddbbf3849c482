"""Flow run of this process in Prefect: its name, its parameters, and the shards that it starts."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, cast
from uuid import UUID

from coolname import data
from httpx import HTTPError
from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.responses import DeploymentResponse
from prefect.context import FlowRunContext
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from prefect.states import Completed
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from flows.server.supervision import claim_run
from tasks.datasets.paths import absolute
from tasks.errors import InputError, first_of
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.remote import Remote, local_cache, remote_of
from tasks.presentation.wording import judge_words
from tasks.protocols import parameters_of
from tasks.records import INCOMPLETE, RunStart, new_id
from tasks.records.parameters import FLOWS, OF_SHARDS, Parameters
from tasks.report import make_page, report
from tasks.store import store_or_warn
from tasks.text import number_of, print_aside

ANSWER_SECONDS = 10.0
"""Longest wait for the server, with all retries of Prefect's client: a run waits for its answers."""
AUTOMATION = "AUTOMATION"
"""Prefect's kind of creator of a run that an automation or a trigger started."""
UNFINISHED = ["PENDING", "RUNNING", "PAUSED", "CANCELLING"]
BEGIN_WITHIN = timedelta(minutes=15)
"""Longest time that a run may be pending, for example while a container's image is fetched. After that, its process
must be gone. Such a run reports nothing, so it is never marked as crashed, and would block its schedule for good."""
SCHEDULED = "scheduled"
"""Tag of the shards of an evaluation that a schedule started, since Prefect starts shards as runs on request."""
OF_OURS = " · "
"""Separator behind the flow's name in every name that the program gives."""
_GREEK = (
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|omicron|pi|rho|sigma|tau|upsilon|phi|chi"
    "|psi|omega"
)
_PRAISE = (
    "Awesome|Rustic|Small|Gorgeous|Fantastic|Sleek|Intelligent|Unbranded|Refined|Licensed|Generic|Practical|Ergonomic"
    "|Handcrafted|Tasty|Handmade|Incredible"
)
_OF_THE_UIS = re.compile(rf"({_GREEK})\d*(-[a-z]*)+|({_PRAISE})-[^\W\da-z_].{{0,5}}")
"""Names by the UIs: a star and its place (`theta3-cancri-nebula`, one in nine without a number: `omega-mudor-point`),
or praise of a dish of six letters at most (`Rustic-Drob`).
"""


# At the import of the flow, before Prefect marks the run Running: it may wait for its server after that.
claim_run()


def own_run() -> FlowRun | None:
    """Return the flow run around this call, as the server stored it at its start; None outside of a flow run."""
    context = FlowRunContext.get()
    return context.flow_run if context else None


def is_scheduled() -> bool:
    """Return whether a schedule or a trigger started this run, or the evaluation that it is a shard of."""
    record = own_run()
    return bool(record and (_is_automatic(record) or SCHEDULED in record.tags))


def _is_automatic(run: FlowRun) -> bool:
    """Return whether no person started a run: its schedule did, or an automation, such as a trigger."""
    return bool(run.auto_scheduled or (run.created_by and run.created_by.type == AUTOMATION))


async def unfinished_before() -> str:
    """Return the reason to skip this run: an earlier scheduled run of its deployment is unfinished; else empty.

    A concurrency limit on the deployment would also cancel runs that people start. Those are never skipped, and cause
    no other run to be skipped.
    """
    own = own_run()
    if not own or not own.auto_scheduled or not own.deployment_id:
        return ""
    async with get_client() as client:
        others = await client.read_flow_runs(
            flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": UNFINISHED}}}),
            deployment_filter=DeploymentFilter.model_validate({"id": {"any_": [own.deployment_id]}}),
        )
    # If two start together, the one that was due first goes on.
    earlier = [other for other in others if other.auto_scheduled and _due(other) < _due(own) and not _given_up(other)]
    if not earlier:
        return ""
    first = min(earlier, key=_due)
    due = f"{first.expected_start_time:%Y-%m-%d %H:%M} UTC"
    return f"Skipped: the scheduled run before this one ({first.name}, due {due}) is unfinished."


def _given_up(run: FlowRun) -> bool:
    state = run.state
    return bool(state and state.is_pending() and datetime.now(UTC) - state.timestamp > BEGIN_WITHIN)


def _due(run: FlowRun) -> tuple[str, str]:
    return str(run.expected_start_time), str(run.id)


async def results_key(flow: str) -> str:
    """Return the key of this run's artifacts in Prefect, shared with earlier runs of the same sort.

    A nightly evaluation must show scheduled runs, and nobody's experiments. So only a run that a schedule or a trigger
    started with the deployment's own parameters has the key `<flow>-<deployment>`.
    """
    run = own_run()
    if not run or not run.deployment_id:
        return f"{flow}-command"
    try:
        async with asyncio.timeout(ANSWER_SECONDS), get_client() as client:
            deployment = await client.read_deployment(run.deployment_id)
    except (ObjectNotFound, HTTPError, TimeoutError):  # it is deleted, or the server is gone
        return f"{flow}-by-hand"
    unmodified = _is_automatic(run) and run.parameters == deployment.parameters
    return key_of(flow, deployment.name) + ("" if unmodified else "-by-hand")


def key_of(flow: str, deployment: str) -> str:
    """Return flow and deployment as a key of artifacts, with the flow once: `diagram-nightly`."""
    name = re.sub("[^a-z0-9]+", "-", deployment.lower()).strip("-")
    return name if f"{name}-".startswith(f"{flow}-") else f"{flow}-{name}".strip("-")


def log_start(start: RunStart) -> None:
    """Log the samples, the candidates and the judge of a run."""
    part = f", shard {start.shard} of {start.shards}" if start.shards > 1 else ""
    get_run_logger().info(
        "Run %s judges %s samples of %s (%s%s) with %s.",
        *(start.run_id, f"{start.samples:,}", start.dataset, " + ".join(start.candidates), part),
        judge_words(start.judge, start.endpoint),
    )


async def show_end(run_id: str, message: str) -> None:
    """Show the result of a run in the flow run that handed it in and waited.

    Args:
        run_id: id of that flow run; empty: there was none.
    """
    own = own_run()
    if not run_id or (own and str(own.id) == run_id):
        return
    async with _optional("The run that was handed in could not be shown as ended") as client:
        await client.set_flow_run_state(UUID(run_id), Completed(message=message), force=True)


@asynccontextmanager
async def _optional(failure: str) -> AsyncGenerator[PrefectClient]:
    """Yield a client for a request that a run can do without: a failure is only logged."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS), get_client() as client:
            yield client
    except Exception as error:
        get_run_logger().debug(failure, exc_info=error)


async def name_run(start: RunStart) -> None:
    """Name the run in the UI by flow, candidates, judge and samples, unless a person named it."""
    part = f" · shard {start.shard} of {start.shards}" if start.shards > 1 else ""
    named = (start.flow, " + ".join(start.candidates), start.judge, f"{number_of(start.samples, 'sample')}{part}")
    await _rename(OF_OURS.join(named))


async def name_stopped(flow: str) -> None:
    """Name a run in the UI that stopped before it was named by its samples, unless a person named it."""
    run = own_run()
    if run and not run.name.startswith(f"{flow}{OF_OURS}"):
        await _rename(f"{flow}{OF_OURS}stopped before its first call")


async def keep_stopped(store: str, start: RunStart) -> None:
    """Store a run that an error stopped after its first reply, and make its page."""
    await store_or_warn(str(local_cache(store)), start.run_id)
    await make_page(store, start.run_id, start.samples)


async def _rename(name: str) -> None:
    run = own_run()
    if run and is_made_up(run.name):
        async with _optional("The run could not be named") as client:
            await client.update_flow_run(run.id, name=name)
            run.name = name


def is_made_up(name: str) -> bool:
    """Return whether a program made this name of a run: Prefect, one of its UIs, or this program.

    Prefect keeps no record of who named a run.
    """
    ours = name.partition(OF_OURS)
    return (bool(ours[1]) and ours[0] in FLOWS) or bool(_OF_THE_UIS.fullmatch(name)) or _of_prefect(name)


def _of_prefect(name: str) -> bool:
    """Return whether the name is two of the words that Prefect draws from, such as `bold-falcon`."""
    lists: dict[str, dict[str, Any]] = data.config  # pyright: ignore
    known = {word for each in lists.values() for word in each.get("words", ())}
    words = name.split("-")
    return len(words) == 2 and known.issuperset(words)


def tell_in_sentences() -> None:
    """Log errors that the user has to fix as one sentence from now on; a repeated call changes nothing.

    Prefect logs the traceback of any exception in a task: thirty lines that do not explain a mistake in the input.
    """
    logging.getLogger("prefect.task_runs").addFilter(_in_a_sentence)


def _in_a_sentence(record: logging.LogRecord) -> bool:
    """Cut a traceback to its sentence; return whether the line is logged: those of a cancelled step are not.

    Bar *Supervision*, a cancel in the UI takes at most five lines: each unfinished step would write two.
    """
    with suppress(RuntimeError):  # a thread without an event loop
        if (task := asyncio.current_task()) and task.cancelling():
            return False
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, BaseExceptionGroup):
        error = first_of(cast(BaseExceptionGroup[Exception], error))
    if isinstance(error, InputError | OSError):
        record.msg, record.args, record.exc_info = "Stopped: %s", (str(error),), None
    return True


NIGHTLY = "{flow}/{flow}-nightly"
"""Deployment of a flow that is run if this run does not come from one itself (`jury run --shards`)."""
AGAIN = 3
"""Number of repeated runs of a shard whose process vanished."""
POLL_SECONDS = 2.0
CLOCKS = timedelta(hours=1)
"""Upper bound of the difference between clocks of machines that work on one evaluation."""
TAGS = {"shard": "shard:", "evaluation_id": "evaluation:"}
"""Parameter of a shard -> beginning of the tag that holds it. As parameters they would be in everybody's form."""


async def evaluate_in_shards(flow: str, asked: Parameters, store: str, said: list[str]) -> State:
    """Run a deployment of the flow once for each shard, until each has ended, and show them as one.

    Args:
        store: store as it was named: each worker resolves it itself.
        said: sentences about the parameters, for the reader of the run.

    Raises:
        InputError: there is no server with such a deployment, or a shard was stopped: with its own sentence.
    """
    if getattr(asked, "export", ""):
        raise InputError("export and shards do not go together: every shard would write the same file")
    deployment, began = await _deployment(flow), datetime.now(UTC)
    evaluation, common = new_id(flow, began), absolute(asked.model_copy(update={"store": store}))
    print_aside(f"evaluation {evaluation}: {asked.shards} runs of {flow}/{deployment.name} wait for workers")
    tags = [f"{TAGS['evaluation_id']}{evaluation}", *([SCHEDULED] if is_scheduled() else [])]
    async with asyncio.TaskGroup() as group:
        for number in range(1, asked.shards + 1):
            name, own = f"{evaluation} · shard {number} of {asked.shards}", [f"{TAGS['shard']}{number}", *tags]
            group.create_task(_judge_shard(deployment.id, common, name, own))
    return await _put_together(evaluation, asked.store, began, said, await results_key(flow))


def shard_of(run: FlowRun) -> dict[str, str]:
    """Return number and evaluation of a shard, for its parameters; empty: the run is no shard.

    A restart is the same run and remains a shard. A copy belongs to no evaluation: its replies would count in a
    finished one.

    Raises:
        InputError: no evaluation started the run.
    """
    marks = {
        name: tag.removeprefix(begins) for name, begins in TAGS.items() for tag in run.tags if tag.startswith(begins)
    }
    if marks and not run.parent_task_run_id:
        raise InputError(
            f"the run has the tags {', '.join(run.tags)}, but no evaluation started it: a copy of a shard is no part "
            "of its evaluation. Start the deployment instead, with as many shards as are wanted"
        )
    return marks


async def _judge_shard(deployment: UUID, asked: Parameters, name: str, tags: list[str]) -> None:
    """Run a shard, and run it again if its process vanished: replies that it had sent are not paid for twice."""
    for _ in range(1 + AGAIN):
        run = await arun_deployment(
            deployment,
            parameters={"parameters": asked.model_dump(mode="json", exclude={*OF_SHARDS}, exclude_none=True)},
            flow_run_name=name,
            tags=tags,
            poll_interval=POLL_SECONDS,
        )
        state = run.state
        if state and state.is_completed():
            print_aside(f"{name}: {state.message}")
            return
        if not state or not state.is_crashed():
            raise InputError(f"{name} ended as {state.name if state else 'unknown'}: {state.message if state else ''}")
        print_aside(f"{name}: its process vanished, it is run again")
    raise InputError(f"{name} crashed {1 + AGAIN} times: the log of its worker tells why")


async def _deployment(flow: str) -> DeploymentResponse:
    """Return the deployment of this run, or the one that the list holds for the flow."""
    nightly = NIGHTLY.format(flow=flow)
    own = run.deployment_id if (run := own_run()) else None
    async with get_client() as client:
        try:
            return await (client.read_deployment(own) if own else client.read_deployment_by_name(nightly))
        except ObjectNotFound as error:
            raise InputError(
                f"shards are runs of the deployment {nightly}, which {client.api_url} does not have: `jury up` "
                "serves it, `prefect deploy --all --prefect-file deployments/prefect.yaml` puts it on a work pool"
            ) from error


async def _put_together(evaluation: str, store: str, began: datetime, said: list[str], shown_as: str) -> State:
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
    name = INCOMPLETE if end and not end.all_ok else None
    return Completed(message=message, data={"run_id": evaluation, "warnings": warnings}, name=name)


async def _share_nights(remote: Remote | None) -> tuple[str, ...]:
    if remote is None:
        return ()
    from tasks.extensions.bucket import share_nights  # an extension, for stores in a bucket alone

    return await share_nights(remote)


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
    marks = shard_of(run) if run else {}
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
    """Complete the values of a run from its deployment; return them, the names of the added ones, and of emptied ones.

    Models are completed by key; lists and free maps are single values, as numbers are. Both UIs send every field of a
    form except those that a person emptied. An emptied field stays empty if it may be empty; others count as not
    given. A form, unlike an override, has more than half of the fields.
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
            if filled_in and info.default in ("", None):
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
    async with _optional("The run's parameters could not be completed in the UI") as client:
        await client.update_flow_run(run.id, parameters={"parameters": values})


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
