"""Requests that prompts make for a drawn sample, printed by `jury prompts show` and tried by `check`.

The module is separate from `prompts` because it needs the client's request, which takes a second to import.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from tasks.datasets.contents import read_picture
from tasks.demo.samples import drawn_samples
from tasks.endpoint.requests import Request
from tasks.judging.case import sample_texts
from tasks.judging.protocol import picture_policy
from tasks.judging.questions import Layout
from tasks.kinds import kind_of
from tasks.kinds.loading import load_dataset
from tasks.parameters import parameters_of
from tasks.pictures.prepare import prepare
from tasks.rubrics.rubric import Prompt


def rendered(prompt: Prompt) -> Request:
    """Return the request that a flow would make of this prompt for the first drawn sample that it fits."""
    with TemporaryDirectory() as folder:
        drawn = drawn_samples(Path(folder), prompt.flow, figures=1, prompts=1)
        parameters = parameters_of(prompt.flow)(dataset=str(drawn))
        samples = load_dataset(prompt.flow, parameters).samples
        sample = next(each for each in samples if each.tag in ("", prompt.dimension))
        policy = picture_policy(parameters)
        pictures = {role: prepare(read_picture(source), policy) for role, source in sample.pictures.items()}
        return Layout().request(
            prompt, sample_texts(sample, kind_of(prompt.flow)), pictures, parameters.order_list()[0]
        )


def user_message(asked: Request) -> str:
    """Return the user message in words; a picture is shown by the length of its data URL."""
    return "\n".join(
        part if isinstance(part, str) else f"(picture, {len(part.data_url)} characters)" for part in asked.content
    )
