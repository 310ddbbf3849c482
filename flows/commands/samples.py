"""`jury samples`: figures and images with known defects, drawn into a folder of one's own."""

from pathlib import Path

import click

from flows.commands.messages import command_line
from flows.commands.options import files
from flows.commands.sections import Command
from tasks.parameters import PAIRWISE, T2I
from tasks.synthetic.samples import GENERATED, draw_all


@click.command(cls=Command)
@click.argument("folder", metavar="DIR", shell_complete=files)
@click.option("--count", type=int, default=24, show_default=True, help="Diagrams and plots, each.")
@click.option("--prompts", type=int, default=8, show_default=True, help="Text-to-image prompts a tag.")
@click.option("--seed", type=int, default=7, show_default=True, help="The same seed draws the same files.")
def command(folder: str, count: int, prompts: int, seed: int) -> int:
    """Draw them, and say how they are judged."""
    root = Path(folder)
    draw_all(root, count, prompts, seed)
    for flow in PAIRWISE:
        print(f"{count} {flow} samples drawn; judge them with: {command_line(f'run {flow} --dataset {root}')}")
    judging = command_line(f"run FLOW --dataset {root / GENERATED}")
    print(f"images of {prompts} prompts a tag drawn; judge them with: {judging}")
    print(f"  FLOW: {', '.join(T2I)}")
    return 0
