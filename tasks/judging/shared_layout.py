"""The layout `shared`: questions about one sample begin alike, so that a provider's cache need read its pictures once.

Owns the layout and which runs may have it. First comes one fixed line, then the two pictures, the caption and the text
that some dimensions get besides; what is asked comes last, with one reply schema for all dimensions. Where a beginning
ends that other questions share, the request has a breakpoint; what an endpoint is told of it stands in
`endpoint.arguments`, which call goes first in `leading`. The published layout is in `questions`.
"""

from collections.abc import Mapping
from hashlib import sha256

from tasks.endpoint.known import known_at
from tasks.endpoint.requests import Image, Request
from tasks.errors import InputError
from tasks.judging.questions import GUARD, delimited, ordered_inputs
from tasks.kinds import kind_of
from tasks.parameters import EMBEDDED, Judge, Parameters
from tasks.pictures.prepare import Picture
from tasks.records import Order
from tasks.rubrics.rubric import Prompt, Rubric
from tasks.text import listed

LAYOUT = "shared 1"
"""Version of this layout; part of the keys of its calls."""
SYSTEM = (
    "You compare two figures of a scientific paper. First come the figures and the texts that go with them; what they "
    f"are to be compared for, and how to reply, is said at the end. {GUARD}"
)
LAST = ("caption", "context")
"""Texts in the order in which they follow the pictures: what all dimensions get, then what only some do."""
IN_A_BATCH = (
    "layout shared: in a batch no call about a sample goes before the others, so that each may write what one of them "
    "writes; where writing to a cache costs more, the published layout may cost less"
)
KEY_LENGTH = 32
"""Characters of a request's key; OpenAI takes 64."""


def request(prompt: Prompt, texts: Mapping[str, str], pictures: Mapping[str, Picture], order: Order) -> Request:
    """The question as it is sent: what the dimensions share, then the prompt and the reply format."""
    labels = dict(ordered_inputs(prompt, order))
    content: list[str | Image] = []
    for name in labels:
        if name in pictures:
            content += [f"{labels[name]}:", Image(pictures[name].data_url)]
    ends: list[int] = []
    for name in LAST:
        if name in labels:
            content.append(f"{labels[name]}:\n{delimited(texts[name])}")
        if not ends or name in labels:  # without a caption the first ends with the pictures
            ends.append(len(content) - 1)
    form = kind_of(prompt.flow).reply_form(prompt)
    content.append(f"{prompt.body}\n\n{form.words}")
    key = _key(texts, pictures, order)
    return Request(SYSTEM, tuple(content), f"{prompt.flow}_shared", form.common, breakpoints=tuple(ends), key=key)


def _key(texts: Mapping[str, str], pictures: Mapping[str, Picture], order: Order) -> str:
    """Equal for the questions that begin alike: a sample in one order, in whatever run."""
    shown = [f"{role} {picture.note.sent_sha256}" for role, picture in sorted(pictures.items())]
    return sha256("\n".join([order, *shown, texts.get(LAST[0], "")]).encode()).hexdigest()[:KEY_LENGTH]


def check(parameters: Parameters, rubric: Rubric) -> list[str]:
    """What the reader of a run in this layout should know before it; nothing where another layout is asked for.

    Raises:
        InputError: the judge has no cache that could read a beginning again, or the prompts do not begin alike.
    """
    if not parameters.shares_beginnings:
        return []
    _check_labels(rubric)
    return [*_check_judge(parameters.judge), *[IN_A_BATCH] * (parameters.judge.tier == "batch")]


def _check_labels(rubric: Rubric) -> None:
    """One input, one label: another would be another beginning."""
    found: dict[str, set[str]] = {}
    for prompt in rubric.prompts:
        for name, label in prompt.inputs.items():
            found.setdefault(str(name), set()).add(label)
    unlike = [f"{name} ({listed(sorted(labels))})" for name, labels in found.items() if len(labels) > 1]
    if unlike:
        raise InputError(
            f"layout shared: prompt set {rubric.prompt_set} has several labels for {listed(unlike)}, so that its "
            "questions do not begin alike: give each input one label, or leave the layout out"
        )


def _check_judge(judge: Judge) -> list[str]:
    if judge.base_url == EMBEDDED:
        raise InputError(
            "layout shared is for judges with a cache; the embedded judge measures each picture once in any layout: "
            "leave the layout out, or set judge.base_url and judge.model to another judge"
        )
    known = known_at(judge.base_url)
    if known and known.caches == "no":
        raise InputError(f"layout shared saves nothing at {known.title}: {known.caching}. Leave the layout out")
    if known and known.caches == "yes":
        return []
    where = known.title if known else judge.base_url
    return [
        f"layout shared: it is not known whether {where} reads the beginning of a question from a cache; the run tells "
        "how many of the input tokens it did"
    ]
