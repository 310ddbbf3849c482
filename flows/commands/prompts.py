"""`jury prompts`: list of prompts, their requests and checks, and import of published ones."""

from pathlib import Path

import click

from flows.commands.options import files
from flows.commands.sections import Command, Group
from tasks.errors import InputError
from tasks.rubrics.importer import import_prompts, imported_words
from tasks.rubrics.rubric import Prompt, holdings, load_rubric, prompt_sets
from tasks.text import printable

_prompt_set = click.option(
    "--prompt-set",
    default="default",
    show_default=True,
    metavar="SET",
    help="Name or folder of a prompt set.",
    shell_complete=files,
)


@click.group(cls=Group)
def command() -> None:
    """Commands for prompts."""


@command.command("list", cls=Command, help="List the prompt sets with the flows and dimensions that they hold.")
def list_prompts() -> int:
    """Print every prompt set with the flows and dimensions of its own prompts."""
    width = max(map(len, prompt_sets()))
    for name in prompt_sets():
        for flow, dimensions in holdings(name).items():
            print(printable(f"{name:<{width}}  {flow:<8}  {', '.join(dimensions)}"))
    return 0


@command.command("show", cls=Command, help="Show a prompt as it is sent with a drawn sample.")
@click.argument("prompt", metavar="FLOW/DIMENSION", help="Which one, such as diagram/aesthetics.")
@_prompt_set
def show_prompt(prompt: str, prompt_set: str) -> int:
    """Print one prompt, named `<flow>/<dimension or tag>`, and the user message that goes with it."""
    from flows.commands.rendering import rendered, user_message

    flow, _, dimension = prompt.partition("/")
    found = load_rubric(flow, prompt_set).prompt(dimension)
    print(printable(f"{found.file}\n{found.about}, SHA-256 of the body {found.sha256}\n"))
    print(printable(f"[system]\n{found.body}\n\n[user, for a drawn sample]\n{user_message(rendered(found))}"))
    return 0


@command.command("check", cls=Command, help="Check that every prompt of a set can be used.")
@_prompt_set
def check_prompts(prompt_set: str) -> int:
    """Load the prompts of every flow that the set serves and render each for a drawn sample."""
    problems: list[str] = []
    lines: list[str] = []
    for flow in holdings(prompt_set):
        try:
            lines += [_checked(prompt) for prompt in load_rubric(flow, prompt_set).prompts]
        except InputError as error:
            problems.append(str(error))
    if not (lines or problems):
        problems.append(f"prompt set {prompt_set!r} holds no file <flow>/<dimension>.md")
    if problems:
        raise InputError("\n".join(problems))
    print(printable("\n".join([*lines, f"{len(lines)} prompts can be used"])))
    return 0


@command.command("import", cls=Command, help="Make a prompt set of a published document, word for word.")
@click.argument("file", metavar="FILE", help="The published document.", shell_complete=files)
@click.option("--set", "name", required=True, metavar="NAME", help="Name or folder of the set that is made.")
def import_prompt_set(file: str, name: str) -> int:
    """Make the set, and print a summary."""
    print(printable(imported_words(import_prompts(Path(file), name))))
    return 0


def _checked(prompt: Prompt) -> str:
    from flows.commands.rendering import rendered

    name = f"{prompt.flow}/{prompt.dimension}"
    return f"{name:<24}{len(prompt.body):>6} characters, {len(rendered(prompt).content)} parts  {prompt.file}"
