"""`jury demo`: drawn samples with known defects, judged at once or only drawn into a folder."""

from pathlib import Path
from shlex import quote

import click
from click.core import ParameterSource

from flows.commands.console import Command, command_line
from flows.commands.options import path_option, store_option
from flows.commands.run import run_flow, worst
from tasks.demo.samples import CHECKS, GENERATED, MOST_PROMPTS, draw_all
from tasks.endpoint.catalog import RECOMMENDED_ENDPOINT, RECOMMENDED_MODEL
from tasks.errors import InputError
from tasks.ledger.remote import local_cache
from tasks.protocols import parameters_of
from tasks.records.parameters import FLOWS, PAIRWISE

CANDIDATE = "drawn"
"""Candidate of the drawn figures; the drawn images have candidates of their own."""


OF_SAMPLES = ("count", "prompts", "seed")
"""Options that say what `--samples` draws."""


@click.command(cls=Command)
@path_option(
    "--samples",
    "folder",
    metavar="DIR",
    words="Draw figures and images with known defects into this new or empty folder, and judge nothing.",
)
@click.option(
    "--count", type=click.IntRange(1), default=24, show_default=True, help="Diagrams and plots of --samples, each."
)
@click.option(
    "--prompts",
    type=click.IntRange(1, MOST_PROMPTS),
    default=8,
    show_default=True,
    help="Text-to-image prompts a tag of --samples.",
)
@click.option(
    "--seed", type=int, default=7, show_default=True, help="Seed of --samples: the same one draws the same files."
)
@store_option
@click.pass_context
def demo(context: click.Context, folder: str, count: int, prompts: int, seed: int, store: str) -> int:
    """Judge drawn samples with every flow, or draw a data set into a folder."""
    if folder:
        _draw(Path(folder), count, prompts, seed)
        return 0
    if given := [each for each in OF_SAMPLES if context.get_parameter_source(each) is not ParameterSource.DEFAULT]:
        raise InputError(f"--{given[0]} goes with --samples DIR: without that, the demo judges its standard samples")
    return _judge(store)


def _judge(store: str) -> int:
    """Judge drawn samples with every flow; return the exit code of the worst run.

    One of them has no picture, a forfeit on purpose, so the demo succeeds if every reply came.
    """
    codes: list[int] = []
    for flow in FLOWS:
        print(f"\n{flow}: drawn samples, judged by pixels\n")
        named = {"candidate_name": CANDIDATE} if flow in PAIRWISE else {}
        codes.append(run_flow(flow, parameters_of(flow).model_validate({"store": store, "reuse_hours": 0} | named)))
    print(f"\nThe history is {local_cache(store) / 'history.duckdb'}. Next:\n")
    for words in (
        "query leaderboard",
        "query t2i_leaderboard",
        "report -o report.html",
        "query \"SELECT sample_id, overall, tier_path FROM outcomes WHERE injected = 'black'\"",
        f"run diagram --dataset samples --judge {RECOMMENDED_ENDPOINT}/{RECOMMENDED_MODEL} --limit 4",
    ):
        print(f"  {command_line(words, store)}")
    return worst(codes)


def _draw(root: Path, count: int, prompts: int, seed: int) -> None:
    """Draw samples into a folder, and print the commands that judge them."""
    draw_all(root, count, prompts, seed)
    for what, flow, place in (
        *((f"{count} {flow} samples drawn", flow, root) for flow in PAIRWISE),
        ("checks of the diagrams written", "facts", root / "diagram" / CHECKS),
        (f"images of {prompts} prompts a tag drawn", "geneval", root / GENERATED),
        ("their checks written", "facts", root / GENERATED / CHECKS),
    ):
        print(f"{what}; judge them with: {command_line(f'run {flow} --dataset {quote(str(place))}')}")
