"""`jury run`: a flow in this process, and its printed results; the options are the fields of its parameters."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from flows.commands.console import Command, Group, Option, printable_json, warn
from flows.commands.options import by_options, model_options, parse_options
from flows.commands.running import judged
from tasks.comparing.wording import layout_lines
from tasks.errors import InputError
from tasks.judging.results import red_words, status_lines
from tasks.ledger.remote import local_cache
from tasks.pages.background import page_line, thumbnails_line
from tasks.pages.queries import people_lines_of
from tasks.pages.run_summary import (
    Summary,
    defect_lines,
    failure_lines,
    price_lines,
    summarize,
)
from tasks.presentation import tables
from tasks.records.judge import EMBEDDED
from tasks.records.parameters import FLOWS, Parameters, at_store, parameters_of
from tasks.spending.quote import Quote
from tasks.text import printable

OK, STOPPED, NOT_ALL_OK = 0, 2, 3

_JUDGED = {
    "diagram": "Judge method diagrams against the human ones.",
    "plot": "Judge statistical plots against the human ones.",
    "object": "Judge generated images of one or two objects.",
    "counting": "Judge generated images of counted objects.",
    "colors": "Judge generated images of colored objects.",
    "position": "Judge generated images of objects beside or above each other.",
}


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


def show_run(store: Path, run_id: str, as_json: bool) -> int:
    """Print the results of a run that has ended; return the command's exit code."""
    summary = summarize(store, run_id)
    if as_json:
        rows = [row.model_dump() for row in (*summary.scores, *summary.rates, *summary.controls)]
        print(printable_json(rows))
    else:
        _print_summary(summary)
    if words := thumbnails_line(store):
        warn(words)
    return OK if summary.all_ok else NOT_ALL_OK


@click.group(cls=Group, options_metavar="", subcommand_metavar="FLOW [OPTIONS]")
def run() -> None:
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
    run.add_command(_flow_command(_flow))


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
    layout = layout_lines(summary.end.protocol, summary.end.run_id) if summary.end else []
    for line in [*people, *layout, *defect_lines(summary), *controls, *failure_lines(summary)]:
        console.print(printable(line), soft_wrap=True)
    asked = summary.judgments
    if summary.unmeasured:
        console.print(summary.unmeasured, soft_wrap=True)
    if asked.reused and (summary.stopped or not summary.unmeasured):
        words = f"{asked.reused:,} answers reused, {asked.calls:,} calls made; --reuse-hours 0 asks again."
        console.print(words, soft_wrap=True)
    if asked.calls and summary.start.endpoint != EMBEDDED:
        console.print("; ".join(price_lines(summary)), soft_wrap=True)
    console.print(f"run {summary.start.run_id}", soft_wrap=True)
    if words := page_line(summary.store, summary.start.run_id, summary.start.samples):
        console.print(printable(words), soft_wrap=True, highlight=False)
