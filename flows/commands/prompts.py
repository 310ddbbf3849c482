"""The `jury prompts` commands: which prompts there are, how they are sent, and whether they can be used."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tasks.datasets.contents import read_picture
from tasks.endpoint.requests import Request
from tasks.errors import InputError
from tasks.judging.case import sample_texts
from tasks.judging.protocol import picture_policy
from tasks.judging.questions import request
from tasks.kinds import kind_of
from tasks.kinds.loading import load_dataset
from tasks.parameters import parameters_of
from tasks.pictures.prepare import prepare
from tasks.rubrics.importer import import_prompts, imported_words
from tasks.rubrics.rubric import PairwisePrompt, Prompt, holdings, load_rubric, prompt_sets
from tasks.synthetic.samples import drawn_samples


def list_prompts() -> str:
    """Every prompt set with the flows and dimensions that it has prompts of its own for."""
    width = max(map(len, prompt_sets()))
    return "\n".join(
        f"{name:<{width}}  {flow:<8}  {', '.join(dimensions)}"
        for name in prompt_sets()
        for flow, dimensions in holdings(name).items()
    )


def show_prompt(name: str, prompt_set: str) -> str:
    """One prompt, named `<flow>/<dimension or tag>`, and the user message that goes with it."""
    flow, _, dimension = name.partition("/")
    prompt = load_rubric(flow, prompt_set).prompt(dimension)
    with TemporaryDirectory() as folder:
        asked = _rendered(prompt, Path(folder))
    about = f"tier {prompt.tier}" if isinstance(prompt, PairwisePrompt) else f"aspects {', '.join(prompt.aspects)}"
    head = f"{prompt.file}\n{about}, SHA-256 of the body {prompt.sha256}"
    return f"{head}\n\n[system]\n{prompt.body}\n\n[user, for a drawn sample]\n{_user_message(asked)}"


def check_prompts(prompt_set: str) -> str:
    """Load the prompts of every flow that the set serves and render each against a drawn sample.

    Raises:
        InputError: everything that is wrong with any of them.
    """
    problems: list[str] = []
    lines: list[str] = []
    for flow in holdings(prompt_set):
        try:
            rubric = load_rubric(flow, prompt_set)
        except ValueError as error:
            problems.append(str(error))
            continue
        with TemporaryDirectory() as folder:
            lines += [_checked(prompt, Path(folder)) for prompt in rubric.prompts]
    if not (lines or problems):
        problems.append(f"prompt set {prompt_set!r} holds no file <flow>/<dimension>.md")
    if problems:
        raise InputError("\n".join(problems))
    return "\n".join([*lines, f"{len(lines)} prompts can be used"])


def import_prompt_set(source: str, name: str) -> str:
    """Make a prompt set of a published document, and say what became of it."""
    if not source or not name:
        raise InputError("prompts import takes the FILE of a published document and --set NAME")
    return imported_words(import_prompts(Path(source), name))


def _checked(prompt: Prompt, folder: Path) -> str:
    parts = _rendered(prompt, folder).content
    name = f"{prompt.flow}/{prompt.dimension}"
    return f"{name:<24}{len(prompt.body):>6} characters, {len(parts)} parts  {prompt.file}"


def _rendered(prompt: Prompt, folder: Path) -> Request:
    """A prompt as it is sent for a drawn sample."""
    parameters = parameters_of(prompt.flow)(dataset=str(drawn_samples(folder, prompt.flow)))
    samples = load_dataset(prompt.flow, parameters).samples
    sample = next(each for each in samples if each.tag in ("", prompt.dimension))
    policy = picture_policy(parameters)
    pictures = {role: prepare(read_picture(source), policy) for role, source in sample.pictures.items()}
    return request(prompt, sample_texts(sample, kind_of(prompt.flow)), pictures, parameters.order_list()[0])


def _user_message(asked: Request) -> str:
    return "\n".join(
        part if isinstance(part, str) else f"(picture, {len(part.data_url)} characters)" for part in asked.content
    )
