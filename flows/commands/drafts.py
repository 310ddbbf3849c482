"""`jury prompts draft-checks`: checks of figures that a model drafts, and that the Human figures pass."""

import asyncio
from pathlib import Path
from shlex import quote
from typing import Any

import click
from pydantic import Field

from flows.commands.console import Command, command_line, warn
from flows.commands.options import model_options, parse_options, store_option
from flows.commands.run import run_flow
from flows.process import judged
from flows.server.server import find_prefect, secret_block
from tasks.errors import InputError
from tasks.ledger.remote import local_cache, remote_of
from tasks.ledger.run_files import folder as run_folder
from tasks.protocols.checklist.drafts import CHECKS, DRAFT, keep_right
from tasks.protocols.checklist.parameters import ChecklistParameters
from tasks.protocols.loading import load_given
from tasks.records.judge import EMBEDDED, Judge
from tasks.records.parameters import PAIRWISE, Probe
from tasks.text import number_of, printable

FACTS = "facts"


class Drafting(Probe):
    """Options of the command: the judge, and which figures."""

    dataset: str = Field(min_length=1, description="Folder or manifest of figures, as of their own flow.")
    results: str = Field(default="", description="The generator's results file, if the dataset needs one.")
    images: str = Field(default="", description="Folder of the Model's pictures, if the dataset needs one.")
    limit: int | None = Field(default=None, ge=1, description="Draft only so many figures; empty: all.")


@click.command(cls=Command)
@click.argument("flow", type=click.Choice(PAIRWISE))
@click.option("--out", required=True, metavar="DIR", type=click.Path(), help="Folder of the draft.")
@store_option
def draft_checks(flow: str, out: str, store: str, **given: Any) -> int:
    """Draft checks, ask each twice about the Human figure, and keep those that it passes at first.

    Returns:
        The exit code of the second asking.
    """
    asked, folder = parse_options(given, Drafting), Path(out)
    if asked.judge.base_url == EMBEDDED:
        raise InputError("the embedded judge measures pixels and writes no questions: name a model with --judge")
    if asked.judge.service_tier == "batch":
        raise InputError("checks are drafted and tried one after the other, not in a batch: omit --judge.service-tier")
    if (folder / CHECKS).exists():
        raise InputError(
            f"{folder / CHECKS} exists, and a person may have edited it: ask its checks by {_command(folder, store)}, "
            "or draft others into another folder with --out"
        )
    local = local_cache(store)
    find_prefect(local)  # a key may be kept there, as a Secret block
    fields = {**asked.model_dump(), "store": str(local)}
    samples = load_given(flow, fields).samples
    from tasks.extensions.check_drafts import draft  # the judge's client, which `--help` does not need

    number = number_of(len({sample.sample_id for sample in samples}), "figure")
    warn(f"{asked.judge.model} drafts the checks of {number}; those in {folder / DRAFT} are kept, also when it stops")
    for words in asyncio.run(draft(flow, samples, asked.judge, local, remote_of(store), folder, secret_block)):
        warn(words)
    first = _parameters(folder / DRAFT, asked.judge, store)
    kept = keep_right(folder, run_folder(local, judged(FACTS, first)["run_id"]))
    print(printable(f"{kept} and are in {folder / CHECKS}. Asked for the second time:\n"))
    code = run_flow(FACTS, _parameters(folder / CHECKS, asked.judge, store).model_copy(update={"reuse_hours": 0}))
    judging = f"{_command(folder, store)} --images FOLDER"
    print(printable(f"\nEdit the checks, and set confirmed to true where you agree. Then judge figures: {judging}"))
    return code


draft_checks.params[1:1] = model_options(Drafting)


def _command(folder: Path, store: str) -> str:
    return command_line(f"run facts --dataset {quote(str(folder / CHECKS))}", store)


def _parameters(dataset: Path, judge: Judge, store: str) -> ChecklistParameters:
    return ChecklistParameters(dataset=str(dataset), judge=judge, store=store)
