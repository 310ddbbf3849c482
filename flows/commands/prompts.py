"""The `jury prompts` commands: which prompts there are, how they are sent, and whether they can be used."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tasks.load import load_dataset, read_picture, read_texts
from tasks.parameters import PairwiseParameters
from tasks.pictures import Picture, prepare
from tasks.protocol import picture_policy
from tasks.request import request
from tasks.rubric import holdings, load_rubric, prompt_sets
from tasks.samples import draw_samples
from tasks.vlm import Request


def list_prompts() -> str:
    """Every prompt set with the flows and dimensions that it has prompts of its own for."""
    return "\n".join(
        f"{name:<10}{flow:<10}{', '.join(dimensions)}"
        for name in prompt_sets()
        for flow, dimensions in holdings(name).items()
    )


def show_prompt(name: str, prompt_set: str) -> str:
    """One prompt, named `<flow>/<dimension>`, and the user message that goes with it."""
    flow, _, dimension = name.partition("/")
    prompt = load_rubric(flow, prompt_set).prompt(dimension)
    asked = request(prompt, *_drawn_pair(flow), "human_first")
    head = f"{prompt.file}\ntier {prompt.tier}, SHA-256 of the body {prompt.sha256}"
    return f"{head}\n\n[system]\n{prompt.body}\n\n[user, for a drawn sample]\n{_user_message(asked)}"


def check_prompts(prompt_set: str) -> str:
    """Load the prompts of every flow that the set serves and render each against a drawn sample.

    Raises:
        ValueError: everything that is wrong with any of them.
    """
    problems: list[str] = []
    lines: list[str] = []
    for flow in holdings(prompt_set):
        try:
            rubric = load_rubric(flow, prompt_set)
        except ValueError as error:
            problems.append(str(error))
            continue
        texts, pictures = _drawn_pair(flow)
        for prompt in rubric.prompts:
            parts = request(prompt, texts, pictures, "human_first").content
            lines.append(
                f"{flow}/{prompt.dimension:<14}{len(prompt.body):>6} characters, {len(parts)} parts  {prompt.file}"
            )
    if not (lines or problems):
        problems.append(f"prompt set {prompt_set!r} holds no file <flow>/<dimension>.md")
    if problems:
        raise ValueError("\n".join(problems))
    return "\n".join([*lines, f"{len(lines)} prompts can be used"])


def _drawn_pair(flow: str) -> tuple[dict[str, str], dict[str, Picture]]:
    with TemporaryDirectory() as folder:
        draw_samples(Path(folder), flow, count=2)
        parameters = PairwiseParameters(dataset=folder)
        sample = load_dataset(flow, parameters).samples[0]
        policy = picture_policy(parameters)
        pictures = {role: prepare(read_picture(source), policy) for role, source in sample.pictures.items()}
        return read_texts(sample), pictures


def _user_message(asked: Request) -> str:
    return "\n".join(
        part if isinstance(part, str) else f"(picture, {len(part.data_url)} characters)" for part in asked.content
    )
