"""`jury run`: a flow in this process, and its printed results; the options are the fields of its parameters."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import click

from flows.commands.console import Command, Group, Option, command_line, printable_json, warn
from flows.commands.options import by_options, flow_options, parse_flow_options
from flows.process import judged
from tasks.errors import InputError
from tasks.judging.results import red_words, status_lines
from tasks.ledger.remote import local_cache
from tasks.pages.page_names import LARGE, page_of, where
from tasks.pages.queries import people_lines_of
from tasks.pages.run_summary import Summary, defect_lines, failure_lines, layout_lines, price_lines, summarize
from tasks.pictures.thumbnails import waiting
from tasks.presentation import tables
from tasks.records.judge import EMBEDDED
from tasks.records.parameters import CHECKLIST, PAIRWISE, T2I, Parameters, at_store
from tasks.spending.quote import Quote
from tasks.text import enumerated, number_of, printable

OK, STOPPED, NOT_ALL_OK = 0, 2, 3

OF_FLOWS = {
    "diagram": "Judge method diagrams against the human ones.",
    "plot": "Judge statistical plots against the human ones.",
    "object": "Judge generated images of one or two objects.",
    "counting": "Judge generated images of counted objects.",
    "colors": "Judge generated images of colored objects.",
    "position": "Judge generated images of objects beside or above each other.",
    "facts": "Judge pictures by a checklist: questions with known answers.",
    "geneval": "Judge images with object, counting, colors and position, each in a run with its own --budget.",
}
"""Flow, or name for several, -> its sentence."""
SEVERAL = {"geneval": T2I}
"""Name -> flows that it stands for."""
DATASETS = {
    PAIRWISE: "a PaperBananaBench folder with --results FILE or --images DIR, or a manifest (JSON Lines or CSV) with "
    "id, task, context, caption, human_image and model_image",
    T2I: "a folder in GenEval's layout, one candidate's or a folder of several, or a manifest (JSON Lines or CSV) with "
    "id, tag, prompt and image",
    CHECKLIST: "a manifest (JSON Lines or CSV) with id, prompt, image and checks",
}
"""Flows -> what their dataset may be."""


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
        print(printable_json(found) if as_json else printable("\n".join(Quote.model_validate(found).lines())))
        return OK
    if words := result.get("waits"):
        print(printable_json({"run_id": result["run_id"], "waits": words}) if as_json else printable(words))
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
    if summary.start.samples > LARGE and (left := len(waiting(store))):  # the process of its page makes them
        warn(f"the thumbnails of {number_of(left, 'picture')} are still being made; the command ends after them")
    return OK if summary.all_ok else NOT_ALL_OK


class _Flows(Group):
    """Flows by name, of which several may be named that judge one dataset."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of all flows that are named before the first option."""
        named = [*takewhile(lambda word: not word.startswith("-"), args)]
        unknown = next((name for name in named if name not in self.commands), "")
        if len(named) < 2 and not unknown:
            return super().resolve_command(ctx, args)
        if unknown and not get_close_matches(unknown, self.commands):
            raise click.UsageError(
                f"No such flow {unknown!r}: {enumerated(PAIRWISE)} judge figures against human ones, {enumerated(T2I)} "
                "generated images, facts judges pictures by checklists; geneval stands for the four of images",
                ctx,
            )
        if unknown:
            return super().resolve_command(ctx, [unknown])
        flows = tuple(dict.fromkeys(flow for name in named for flow in SEVERAL.get(name, (name,))))
        if len({*map(_datasets_of, flows)}) > 1:
            raise click.UsageError(
                f"{enumerated(flows)} take different datasets: name figures and images in two runs", ctx
            )
        name, words = " ".join(named), f"Judge a dataset with {enumerated(flows)}, each in a run with its own --budget."
        return name, _FlowsCommand(name, flows, words), args[len(named) :]


@click.group(cls=_Flows, options_metavar="", subcommand_metavar="FLOW... [OPTIONS]")
def run() -> None:
    """The flows."""


def _run(flows: Sequence[str], as_json: bool, **given: Any) -> int:
    if not given["dataset"]:
        raise InputError(
            f"--dataset is missing: give {_datasets_of(flows[0])}. Drawn samples are --dataset samples, or `jury demo`"
        )
    asked = at_store(parse_flow_options(given, flows[0]))
    if len(flows) == 1:
        return run_flow(flows[0], asked, as_json)
    if getattr(asked, "export", ""):
        raise InputError("--export is for a run of one flow: several would write the same file one after the other")
    codes: list[int] = []
    for flow in flows:
        if not as_json:
            print(f"\n{flow}\n")
        codes.append(run_flow(flow, asked, as_json))
    if set(flows) >= {*T2I} and not as_json:
        print(f"\nAll tags together: {command_line('query t2i_leaderboard', asked.store)}")
    return worst(codes)


def _datasets_of(flow: str) -> str:
    return next(words for flows, words in DATASETS.items() if flow in flows)


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of several runs: that of the worst one, which was stopped."""
    return max(codes, key=(OK, NOT_ALL_OK, STOPPED).index)


class _FlowsCommand(Command):
    """Command of flows of one kind, whose parameters are imported when its options are asked for."""

    heading = "Flows"

    def __init__(self, name: str, flows: Sequence[str], words: str) -> None:
        super().__init__(name, callback=partial(_run, flows), help=words)
        self._flow = flows[0]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options, made at the first call."""
        if not self.params:
            as_json = Option(
                ["--json", "as_json"], is_flag=True, help="Print scores and rates as JSON, an array for each flow."
            )
            as_json.heading, as_json.is_rare = "Output", True
            self.params = [*flow_options(self._flow), as_json]
        return super().get_params(ctx)


for _name, _words in OF_FLOWS.items():
    run.add_command(_FlowsCommand(_name, SEVERAL.get(_name, (_name,)), _words))


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
        reused, made = number_of(asked.reused, "answer"), number_of(asked.calls, "call")
        console.print(f"{reused} reused, {made} made; --reuse-hours 0 asks again.", soft_wrap=True)
    if asked.calls and summary.start.endpoint != EMBEDDED:
        console.print("; ".join(price_lines(summary)), soft_wrap=True)
    console.print(f"run {summary.start.run_id}", soft_wrap=True)
    page = page_of(summary.store, summary.start.run_id)
    if page.exists() or summary.start.samples > LARGE:  # that of a large run is made behind it
        later = "" if page.exists() else " (being made; the command ends after it)"
        console.print(printable(f"page {where(page)}{later}"), soft_wrap=True, highlight=False)
