"""`jury run`: a flow in this process, and its printed results; the options are the fields of its parameters."""

from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from flows.commands.connection import answered, prepare_prefect
from flows.commands.messages import number_of, printable_json, warn
from flows.commands.options import by_options, model_options, parse_options
from flows.commands.sections import Command, Group, Option
from flows.runtime.process import ended_by_sigterm, first_answer, raised, run_async, run_to_end
from flows.runtime.server import temporary_server
from tasks.batches.checks import check_batch
from tasks.controls.status import red_words, status_lines
from tasks.datasets.paths import resolved
from tasks.endpoint.known import addressed
from tasks.errors import InputError
from tasks.extensions import extensions_of
from tasks.files import private_folder
from tasks.judging.extension import Opening
from tasks.kinds.loading import load_ahead
from tasks.ledger.remote import local_cache, remote_of, writable_folder
from tasks.pages.behind import LARGE
from tasks.pages.page_names import page_of, where
from tasks.pages.people_words import people_lines_of
from tasks.pages.rate_tables import repeat_lines
from tasks.pages.run_summary import Summary, beside_layout, defect_lines, failure_lines, price_lines, summarize
from tasks.parameters import EMBEDDED, FLOWS, Parameters, at_store, parameters_of
from tasks.pictures.thumbnails import waiting
from tasks.presentation import tables
from tasks.rubrics.rubric import load_rubric
from tasks.spending.quote import Quote
from tasks.text import printable

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

OK, STOPPED, NOT_ALL_OK = 0, 2, 3

_JUDGED = {
    "diagram": "Judge method diagrams against the human ones.",
    "plot": "Judge statistical plots against the human ones.",
    "object": "Judge generated images of one or two objects.",
    "counting": "Judge generated images of counted objects.",
    "colors": "Judge generated images of colored objects.",
    "position": "Judge generated images of objects beside or above each other.",
}

UNRECORDED = (
    "the Prefect server did not take in how this run ended, for it is gone or does not answer: its record is "
    "unfinished, and the ledger and the history have everything"
)


def run_flow(flow: str, parameters: Parameters, as_json: bool = False) -> int:
    """Run a flow in this process and print its results.

    Returns:
        The command's exit code: 0; 2 if the run was stopped, 3 if not everything could be judged.
    """
    parameters = at_store(parameters)
    store = local_cache(parameters.store)
    try:
        result = judged(flow, parameters)
    except InputError as error:
        if error.run_id:
            show_run(store, error.run_id, as_json)
        warn(by_options(str(error), type(parameters)))
        return STOPPED
    for warning in result["warnings"]:
        warn(warning)
    if found := result.get("quote"):
        _print_quote(Quote.model_validate(found), as_json)
        return OK
    if told := result.get("waits"):
        _print_waiting(result["run_id"], " ".join(filter(None, (told, result.get("also")))), as_json)
        return NOT_ALL_OK
    if not result["run_id"]:  # shards whose store cannot be read here
        return NOT_ALL_OK
    return show_run(store, result["run_id"], as_json)


def judged(flow: str, parameters: Parameters) -> dict[str, Any]:
    """Run a flow in this process, with the available Prefect server or a temporary one.

    Returns:
        The result of a completed run: `run_id`, `warnings`, and `quote`, `waits` or `also` if the flow returned them.

    Raises:
        InputError: the run was stopped, with the reason.
        Exception: the flow raised it, a fault of the program.
    """
    store = writable_folder(parameters.store)
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


def show_run(store: Path, run_id: str, as_json: bool) -> int:
    """Print the results of a run that has ended; return the command's exit code."""
    summary = summarize(store, run_id)
    if as_json:
        rows = [row.model_dump() for row in (*summary.scores, *summary.rates, *summary.controls)]
        print(printable_json(rows))
    else:
        _print_summary(summary)
    if left := len(waiting(store)):
        warn(f"the thumbnails of {number_of(left, 'picture')} are still being made; the command ends after them")
    return OK if summary.all_ok else NOT_ALL_OK


@click.group(cls=Group, options_metavar="", subcommand_metavar="FLOW [OPTIONS]")
def command() -> None:
    """The flows."""


def _run(flow: str, as_json: bool, **given: Any) -> int:
    return run_flow(flow, parse_options(given, parameters_of(flow)), as_json)


def _flow_command(flow: str) -> Command:
    as_json = Option(["--json", "as_json"], is_flag=True, help="Print scores and rates as JSON.")
    as_json.heading = "Output"
    options = [*model_options(parameters_of(flow)), as_json]
    made = Command(flow, params=options, callback=partial(_run, flow), help=_JUDGED[flow])
    made.heading = "Flows"
    return made


for _flow in FLOWS:
    command.add_command(_flow_command(_flow))


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
    wanted = resolved(addressed(parameters), datetime.now().astimezone())
    check_batch(wanted)
    asked = wanted.model_copy(update={"store": str(store)})
    if not asked.to_be_split:
        rubric, remote = load_rubric(flow, asked.prompt_set), remote_of(wanted.store)
        for each in extensions_of(Opening(flow, wanted, asked, rubric, remote, scheduled=False)):
            each.check()
        try:
            load_ahead(flow, asked)
        except OSError as error:
            raise InputError(str(error)) from error
    return asked


async def _ended(flow: str, parameters: Parameters, asked: Parameters) -> "tuple[State, bool]":
    """Run the flow as soon as there is a server, and do the work that needs none before that."""
    async with AsyncExitStack() as stack:
        if server := temporary_server():
            from flows.runtime.ahead import while_it_begins

            await stack.enter_async_context(while_it_begins(server, flow, asked))
        return await _run_flow(flow, parameters, is_new=not server)


async def _run_flow(flow: str, parameters: Parameters, is_new: bool) -> "tuple[State, bool]":
    from prefect.settings import PREFECT_API_URL

    api = PREFECT_API_URL.value() or ""
    if api and is_new:
        await first_answer(api)
    return await run_to_end(getattr(import_module(f"flows.{flow}"), flow)(parameters, return_state=True), api)


def _print_quote(found: Quote, as_json: bool) -> None:
    if as_json:
        print(printable_json(found.model_dump(mode="json")))
        return
    for line in found.lines():
        print(printable(line))


def _print_waiting(run_id: str, words: str, as_json: bool) -> None:
    if as_json:
        print(printable_json({"run_id": run_id, "waits": words}))
    else:
        tables.console().print(printable(words), soft_wrap=True)


def _print_summary(summary: Summary) -> None:
    console = tables.console()
    display, scores = summary.display, summary.scores
    if red := red_words(summary.controls):
        console.print(red, style="bold red", soft_wrap=True)
    notes = display.notes(scores, summary.terms)
    console.print(tables.grid_table(display.grid(scores), notes, console.width))
    controls = status_lines(summary.controls)
    people = people_lines_of(summary.store, summary.start.evaluation_id)
    beside = [*people, *repeat_lines(summary), *beside_layout(summary)]
    for line in [*beside, *defect_lines(summary), *controls, *failure_lines(summary)]:
        console.print(printable(line), soft_wrap=True)
    asked = summary.judgments
    if asked.reused:
        console.print(
            f"{asked.reused:,} replies were taken from earlier runs, {asked.calls:,} calls were made "
            "(--reuse-hours 0 reuses none)",
            soft_wrap=True,
        )
    if summary.unmeasured:
        console.print(summary.unmeasured, soft_wrap=True)
    if asked.calls and summary.start.endpoint != EMBEDDED:
        console.print("; ".join(price_lines(summary)), soft_wrap=True)
    console.print(f"run {summary.start.run_id}", soft_wrap=True)
    page = page_of(summary.store, summary.start.run_id)
    if page.exists() or summary.start.samples > LARGE:
        still = "" if page.exists() else " (being made; the command ends after it)"
        console.print(printable(f"page {where(page)}{still}"), soft_wrap=True, highlight=False)
