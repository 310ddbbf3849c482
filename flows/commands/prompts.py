"""`jury prompts`: list of prompts, their requests and checks, and import of published ones."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from flows.commands.console import Command, say
from flows.commands.options import path_option
from tasks.errors import InputError
from tasks.rubrics.importer import import_prompts, imported_words
from tasks.rubrics.rubric import DEFAULT_SET, Prompt, Rubric, holdings, load_rubric, prompt_sets

_prompt_set = path_option("--prompt-set", metavar="SET", words="Name or folder of a prompt set.", default="default")


@click.command(cls=Command)
def list_prompts() -> int:
    """Print every prompt set with the flows and dimensions of its own prompts."""
    width = max(map(len, prompt_sets()))
    for name in prompt_sets():
        for flow, dimensions in holdings(name).items():
            say(f"{name:<{width}}  {flow:<8}  {', '.join(dimensions)}")
    return 0


@click.command(cls=Command)
@click.argument("prompt", metavar="FLOW/DIMENSION", help="Which one, such as diagram/aesthetics.")
@_prompt_set
def show_prompt(prompt: str, prompt_set: str) -> int:
    """Print one prompt, named `<flow>/<dimension or tag>`, and the user message that goes with it."""
    flow, _, dimension = prompt.partition("/")
    found = load_rubric(flow, prompt_set).prompt(dimension)
    say(f"{found.file}\n{found.about}, SHA-256 of the body {found.sha256}\n")
    message = "\n".join(_user_message(found))
    say(f"[system]\n{found.body}\n\n[user, for a drawn sample]\n{message}")
    return 0


@click.command(cls=Command)
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
    say("\n".join([*lines, f"{len(lines)} prompts can be used"]))
    return 0


@click.command(cls=Command)
@click.argument("file", metavar="FILE", help="The published document.", type=click.Path())
@click.option("--set", "name", required=True, metavar="NAME", help="Name or folder of the set that is made.")
def import_prompt_set(file: str, name: str) -> int:
    """Make the set, and print a summary."""
    say(imported_words(import_prompts(Path(file), name)))
    return 0


def _checked(prompt: Prompt) -> str:
    name = f"{prompt.flow}/{prompt.dimension}"
    return f"{name:<24}{len(prompt.body):>6} characters, {len(_user_message(prompt))} parts  {prompt.file}"


def _user_message(prompt: Prompt) -> list[str]:
    """Return the parts of the message that a flow would send for the first drawn sample that the prompt fits.

    A picture is shown by the length of its data URL.
    """
    # The request of the judge's client takes a second to import.
    from tasks.demo.samples import drawn_samples
    from tasks.judging.case import PUBLISHED, load_case
    from tasks.protocols import parameters_of, protocol_of
    from tasks.protocols.loading import load_dataset

    with TemporaryDirectory() as folder:
        drawn = drawn_samples(Path(folder), prompt.flow, figures=1, prompts=1)
        parameters = parameters_of(prompt.flow)(dataset=str(drawn))
        samples = load_dataset(prompt.flow, parameters).samples
        # No drawn sample has the tag that a user's own set brings: another one shows where its texts go.
        sample = next((each for each in samples if each.tag in ("", prompt.dimension)), samples[0])
        case = load_case(sample, load_rubric(prompt.flow), parameters)
        fitting = replace(sample, tag=prompt.dimension if sample.tag else "")
        rubric = Rubric(flow=prompt.flow, prompt_set=DEFAULT_SET, prompts=(prompt,))
        question, *_ = protocol_of(prompt.flow).questions(fitting, rubric)
        asked = case.reduced_to(question)
        request = PUBLISHED.request(prompt, asked.sample, asked.texts, asked.pictures, parameters.order_list()[0])
    return [part if isinstance(part, str) else f"(picture, {len(part.encoded)} characters)" for part in request.content]
