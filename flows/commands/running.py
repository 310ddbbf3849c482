"""Running flows from the terminal: the settings Prefect needs, and what is printed of a run."""

import asyncio
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flows.commands.serving import use_running
from flows.runtime.server import QUIET, home
from tasks.controls.status import status_lines
from tasks.ledger.remote import mirror
from tasks.pages.rate_tables import repeat_lines
from tasks.pages.run_summary import Summary, summarize
from tasks.pages.summary_texts import defect_lines, failure_lines, grid, notes
from tasks.parameters import Parameters, at_store
from tasks.presentation import tables

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

OK, CRASHED, STOPPED, NOT_ALL_OK = 0, 1, 2, 3

RAISED = "encountered an exception"
"""What Prefect says of a flow that raised; ours return the sentence that stopped them."""


def run_flow(flow: str, parameters: Parameters, as_json: bool = False) -> int:
    """Run a flow in this process and print what came of it.

    Returns:
        The command's exit code: 0; 1 where the program failed, 2 where the run was stopped, 3 where not everything
        could be judged.
    """
    parameters = at_store(parameters)
    store = mirror(parameters.store)
    prepare_prefect(store)
    state = asyncio.run(_final_state(flow, parameters))
    if not state.is_completed():
        print(f"jury: {state.message}", file=sys.stderr)
        return CRASHED if state.is_crashed() or RAISED in str(state.message) else STOPPED
    result = cast(dict[str, Any], state.result(_sync=True))  # pyright: ignore[reportCallIssue]
    for warning in result["warnings"]:
        print(f"jury: {warning}", file=sys.stderr)
    if not result["run_id"]:  # shards whose store cannot be read here
        return NOT_ALL_OK
    summary = summarize(store, result["run_id"])
    if as_json:
        scores = [*summary.rows, *summary.grades, *summary.published]
        rows = [row.model_dump() for row in (*scores, *summary.rates, *summary.controls)]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        _print_summary(summary)
    return OK if summary.all_ok else NOT_ALL_OK


async def _final_state(flow: str, parameters: Parameters) -> "State":
    return await getattr(import_module(f"flows.{flow}"), flow)(parameters, return_state=True)


def find_prefect(store: Path) -> bool:
    """Set what Prefect reads while it is imported: quiet, and the server of `jury up`. Returns whether there is one."""
    for name, value in {**QUIET, "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}.items():
        os.environ.setdefault(name, value)
    return "PREFECT_API_URL" in os.environ or "prefect" in sys.modules or use_running(store) is not None


def prepare_prefect(store: Path) -> None:
    """The server that there is for Prefect, or else a temporary one with a home of its own under the store."""
    if not find_prefect(store):
        place = home(store)
        place.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("PREFECT_HOME", str(place))
        os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "90")
        print("starting a temporary Prefect server (about 10 s) …", file=sys.stderr)


def _print_summary(summary: Summary) -> None:
    console = tables.console()
    console.print(tables.grid_table(grid(summary), notes(summary)))
    controls = status_lines(summary.controls)
    for line in [*repeat_lines(summary), *defect_lines(summary), *controls, *failure_lines(summary)]:
        console.print(line, markup=False, soft_wrap=True)
    asked = summary.judgments
    if asked.reused:
        console.print(
            f"{asked.reused:,} replies were taken from earlier runs, {asked.calls:,} calls were made "
            "(--reuse-hours 0 asks anew)",
            soft_wrap=True,
        )
    console.print(f"run {summary.start.run_id}", soft_wrap=True)
