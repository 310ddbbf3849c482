"""`jury demo` and `jury samples`: drawn samples with known defects, judged at once or written to a folder."""

from pathlib import Path

import click

from flows.commands.messages import command_line
from flows.commands.options import files, store_option
from flows.commands.run import run_flow
from flows.commands.sections import Command
from tasks.demo.samples import GENERATED, draw_all
from tasks.demo.scenes import MOST_PROMPTS
from tasks.endpoint.models import recommended
from tasks.ledger.remote import local_cache
from tasks.parameters import FLOWS, PAIRWISE, T2I, default_store, parameters_of

CANDIDATE = "drawn"
"""Candidate of the drawn figures; the drawn images have candidates of their own."""


@click.command(cls=Command)
@store_option
def command(store: str) -> int:
    """Judge drawn samples with every flow.

    One of them has no picture, a forfeit on purpose, so the demo succeeds if every reply came.
    """
    codes: list[int] = []
    for flow in FLOWS:
        print(f"\n{flow}: drawn samples, judged by pixels\n")
        named = {"candidate_name": CANDIDATE} if flow in PAIRWISE else {}
        codes.append(run_flow(flow, parameters_of(flow).model_validate({"store": store, "reuse_hours": 0} | named)))
    model = next(iter(recommended().values()))
    print(f"\nThe history is {local_cache(store) / 'history.duckdb'}. Next:\n")
    for words in (
        "query leaderboard",
        "query t2i_leaderboard",
        "report -o report.html",
        "query \"SELECT sample_id, overall, tier_path FROM outcomes WHERE injected = 'black'\"",
        f"run diagram --judge.model {model.name} --judge.base-url {model.endpoint} --limit 4",
    ):
        print(f"  {command_line(words)}" + ("" if store == default_store() else f" --store {store}"))
    return max(codes)


@click.command(cls=Command)
@click.argument("folder", metavar="DIR", shell_complete=files)
@click.option("--count", type=click.IntRange(1), default=24, show_default=True, help="Diagrams and plots, each.")
@click.option(
    "--prompts", type=click.IntRange(1, MOST_PROMPTS), default=8, show_default=True, help="Text-to-image prompts a tag."
)
@click.option("--seed", type=int, default=7, show_default=True, help="The same seed draws the same files.")
def samples(folder: str, count: int, prompts: int, seed: int) -> int:
    """Draw samples, and print the commands that judge them."""
    root = Path(folder)
    draw_all(root, count, prompts, seed)
    for flow in PAIRWISE:
        print(f"{count} {flow} samples drawn; judge them with: {command_line(f'run {flow} --dataset {root}')}")
    judging = command_line(f"run FLOW --dataset {root / GENERATED}")
    print(f"images of {prompts} prompts a tag drawn; judge them with: {judging}")
    print(f"  FLOW: {', '.join(T2I)}")
    return 0
