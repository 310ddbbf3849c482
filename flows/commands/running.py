"""A flow in the process of a command, with the available Prefect server or a temporary one."""

from contextlib import AsyncExitStack
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flows.commands.console import warn
from flows.process import ended_by_sigterm, first_answer, raised, run_async, run_to_end
from flows.server.server import answered, prepare_prefect, temporary_server
from tasks.batches.log import check_batch
from tasks.datasets.paths import resolved
from tasks.endpoint.catalog import addressed
from tasks.errors import InputError
from tasks.extensions import extensions_of
from tasks.files import private_folder
from tasks.judging.extension import Opening
from tasks.ledger.remote import local_cache, remote_of
from tasks.protocols.loading import load_ahead
from tasks.records.parameters import Parameters
from tasks.rubrics.rubric import load_rubric

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

UNRECORDED = (
    "the Prefect server did not take in how this run ended, for it is gone or does not answer: its record there is "
    "unfinished, and the run ended as it says here"
)


def judged(flow: str, parameters: Parameters) -> dict[str, Any]:
    """Run a flow in this process, with the available Prefect server or a temporary one.

    Returns:
        The result of a completed run: `run_id`, `warnings`, and `quote`, `waits` or `also` if the flow returned them.

    Raises:
        InputError: the run was stopped, with the reason.
        Exception: the flow raised it, a fault of the program.
    """
    store = local_cache(parameters.store)
    prepare_prefect(store)
    with answered(), ended_by_sigterm():
        state, recorded = run_async(_ended(flow, parameters, _checked(flow, parameters, store)))
    if not recorded:
        warn(UNRECORDED)
    if not state.is_completed():
        raise_fault(state, store)
        stopped = InputError(str(state.message))
        ended: object = state.result(raise_on_failure=False, _sync=True)  # pyright: ignore
        stopped.run_id = str(cast(dict[str, str], ended)["run_id"]) if isinstance(ended, dict) else ""
        raise stopped
    return cast(dict[str, Any], state.result(_sync=True))  # pyright: ignore[reportCallIssue]


def raise_fault(state: "State", store: Path) -> None:
    """Raise the exception of a flow, with its traceback; return if the flow was stopped with a sentence."""
    if raised(state):
        private_folder(store)  # the traceback is kept there
        fault: object = state.result(raise_on_failure=False, _sync=True)  # pyright: ignore
        raise fault if isinstance(fault, Exception) else RuntimeError(state.message)


def _checked(flow: str, parameters: Parameters, store: Path) -> Parameters:
    """Check the prompts and layout of a run and load its dataset; return the resolved parameters.

    Mistakes are thus reported before a server starts. Shards are checked by the processes that judge them.
    """
    asked = resolved(addressed(parameters), datetime.now().astimezone())
    check_batch(asked)
    local = asked.model_copy(update={"store": str(store)})
    if local.to_be_split and temporary_server():
        raise InputError(
            "shards are runs of a deployment, and there is no Prefect server that has any: start `jury up`, or set "
            "PREFECT_API_URL to the server of your workers"
        )
    if not local.to_be_split:
        rubric, remote = load_rubric(flow, local.prompt_set, local.prompts_asked()), remote_of(asked.store)
        opening = Opening(flow, asked=asked, parameters=local, rubric=rubric, remote=remote, scheduled=False)
        for each in extensions_of(opening):
            each.check()
        try:
            load_ahead(flow, local)
        except OSError as error:
            raise InputError(str(error)) from error
    return local


async def _ended(flow: str, parameters: Parameters, asked: Parameters) -> "tuple[State, bool]":
    """Run the flow as soon as there is a server, and do the work that needs none before that."""
    async with AsyncExitStack() as stack:
        if server := temporary_server():
            from flows.prefetch import while_it_begins

            await stack.enter_async_context(while_it_begins(server, flow, asked))
        return await _run_flow(flow, parameters, is_new=not server)


async def _run_flow(flow: str, parameters: Parameters, is_new: bool) -> "tuple[State, bool]":
    from prefect.settings import PREFECT_API_URL

    api = PREFECT_API_URL.value() or ""
    if api and is_new:
        await first_answer(api)
    return await run_to_end(getattr(import_module(f"flows.{flow}"), flow)(parameters, return_state=True), api)
