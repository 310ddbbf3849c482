"""Which prompts have which images of each candidate: the samples of a text-to-image dataset, and what it lacks.

Owns the order of the samples, the sample that stands for an absent image, and the warnings about coverage. Leaves the
formats to `geneval` and `image_manifest`, and what a prompt asks for to `requirements`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from tasks.entries import Entry
from tasks.folders import NO_PICTURE
from tasks.parameters import T2I
from tasks.problems import listed
from tasks.records import PictureSource, Place, Sample
from tasks.requirements import Asked
from tasks.rubric import holdings

NONE = "none"
"""Stands for the image in the sample id of a prompt without one."""


class Image(NamedTuple):
    """One image of a prompt."""

    sample_id: str
    picture: PictureSource
    record: Place
    """Row that holds the text of the prompt."""


class Prompted(NamedTuple):
    """A prompt that must have images."""

    prompt_id: str
    tag: str
    prompt: str


class Generated(NamedTuple):
    """What a text-to-image dataset holds."""

    entries: list[Entry]
    """Of all tags, by candidate, then prompt, then image."""
    prompts: list[Prompted]
    """All that must be there, in their own order."""
    warnings: list[str]
    """What a person should know, a sentence each."""


Images = Mapping[str, Mapping[str, Sequence[Image]]]
"""Candidate -> prompt id -> its images."""


def covered(asked: Mapping[str, Asked], images: Images) -> Generated:
    """Each candidate's images of the prompts (id -> what it asks for), and warnings about what is not as it should be.

    A prompt of which a candidate has no image gets one sample, `<prompt_id>/none`, whose picture says so. Warnings name
    prompts without images, images out of reach, unequal numbers of images per prompt and between candidates, and tags
    that no flow judges.
    """
    entries = [
        _entry(image, prompt_id, prompt, candidate)
        for candidate, its in images.items()
        for prompt_id, prompt in asked.items()
        for image in its.get(prompt_id) or [_absent(prompt_id, prompt, candidate)]
    ]
    prompts = [Prompted(prompt_id, prompt.tag, prompt.prompt) for prompt_id, prompt in asked.items()]
    numbers = {candidate: {one: len(its.get(one, ())) for one in asked} for candidate, its in images.items()}
    return Generated(entries, prompts, [*_coverage(asked, numbers), *_unreachable(images), *_unknown_tags(asked)])


def _entry(image: Image, prompt_id: str, asked: Asked, candidate: str) -> Entry:
    sample = Sample(
        sample_id=image.sample_id,
        candidate=candidate,
        tag=asked.tag,
        prompt_id=prompt_id,
        record=image.record,
        texts={"prompt": "prompt"},
        pictures={"image": image.picture},
        required=asked.required,
        excluded=asked.excluded,
        notes=asked.notes,
    )
    return Entry(sample, sha256(asked.prompt.encode()).hexdigest(), "")


def _absent(prompt_id: str, asked: Asked, candidate: str) -> Image:
    problem = f"{NO_PICTURE}{candidate} has no image of prompt {prompt_id}"
    return Image(f"{prompt_id}/{NONE}", PictureSource(problem=problem), asked.place)


def _coverage(asked: Mapping[str, Asked], numbers: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """What is missing or unequal, from candidate -> prompt id -> number of its images."""
    usual = {candidate: _usual(its) for candidate, its in numbers.items()}
    for candidate, its in numbers.items():
        missing = [f"{one} ({asked[one].tag})" for one, number in its.items() if not number]
        if missing:
            yield f"{_of(missing, its, 'have', 'has')} no image of {candidate}: {listed(missing)}"
        unequal = [f"{one} ({number})" for one, number in its.items() if number not in (0, usual[candidate])]
        if unequal:
            what = f"not the usual number of images of {candidate}, which is {usual[candidate]}"
            yield f"{_of(unequal, its, 'have', 'has')} {what}: {listed(unequal)}"
    if len(set(usual.values())) > 1:
        found = listed(f"{candidate} ({number})" for candidate, number in usual.items())
        yield f"candidates have unequal numbers of images per prompt, and more images are more chances: {found}"


def _unreachable(images: Images) -> Iterator[str]:
    for candidate, its in images.items():
        told = [
            f"{image.sample_id} ({image.picture.problem.removeprefix(NO_PICTURE)})"
            for of_prompt in its.values()
            for image in of_prompt
            if image.picture.problem
        ]
        if told:
            yield f"{len(told)} image{'s' * (len(told) > 1)} of {candidate} out of reach: {listed(told, 5)}"


def _usual(numbers: Mapping[str, int]) -> int:
    """The commonest number of images of a prompt that has any, the larger one of two as common; 0 when none has any."""
    counts = Counter(number for number in numbers.values() if number)
    return max(counts, key=lambda number: (counts[number], number), default=0)


def _of(some: Sequence[str], every: Mapping[str, int], plural: str, singular: str) -> str:
    return f"{len(some)} of {len(every)} prompts {plural if len(some) > 1 else singular}"


def _unknown_tags(asked: Mapping[str, Asked]) -> Iterator[str]:
    prompts = holdings()
    known = {tag for flow in T2I for tag in prompts.get(flow, ())}
    strange = Counter(prompt.tag for prompt in asked.values() if prompt.tag not in known)
    if strange:
        found = listed(f"{tag} ({number} prompt{'s' * (number > 1)})" for tag, number in strange.items())
        yield f"tags not judged by any flow: {found}"
