"""Which prompts have which images of each candidate: the samples of a text-to-image dataset, and what it lacks.

Owns the order of the samples, the sample that stands for an absent image, and the warnings about coverage. Leaves the
formats to `geneval` and `image_manifest`, what a prompt asks for to `requirements`, and what is judged to `filters`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from tasks.datasets.entries import Entry
from tasks.datasets.folders import NO_PICTURE
from tasks.datasets.requirements import Asked
from tasks.parameters import T2I
from tasks.records import PictureSource, Place, Sample
from tasks.rubrics.rubric import holdings
from tasks.text import listed

_TEXTS = {"prompt": "prompt"}
NONE = "none"
"""Stands for the image in the sample id of a prompt without one."""


class Image(NamedTuple):
    """One image of a prompt."""

    sample_id: str
    picture: PictureSource
    record: Place
    """Row that holds the text of the prompt."""
    note: str = ""
    """What a person should know of it; empty: nothing."""


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
    """What a person should know of the whole, a sentence each."""


Images = Mapping[str, Mapping[str, Sequence[Image]]]
"""Candidate -> prompt id -> its images."""


def covered(asked: Mapping[str, Asked], images: Images) -> Generated:
    """Each candidate's images of the prompts (id -> what it asks for); a warning names tags that no flow judges.

    A prompt of which a candidate has no image gets one sample, `<prompt_id>/none`, whose picture says so.
    """
    entries = [
        _entry(image, prompt_id, prompt, candidate)
        for candidate, its in images.items()
        for prompt_id, prompt in asked.items()
        for image in its.get(prompt_id) or [_absent(prompt_id, prompt, candidate)]
    ]
    prompts = [Prompted(prompt_id, prompt.tag, prompt.prompt) for prompt_id, prompt in asked.items()]
    return Generated(entries, prompts, list(_unknown_tags(asked)))


def gaps(samples: Sequence[Sample]) -> list[str]:
    """What is not as it should be with the images of these samples, a sentence each.

    Names prompts without images, unequal numbers of images per prompt and between candidates, and images out of reach.
    """
    tags = {sample.prompt_id: sample.tag for sample in samples}
    numbers: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        numbers[sample.candidate][sample.prompt_id] += not _is_absent(sample)
    return [*_uneven(tags, numbers), *_unreachable(samples)]


def _entry(image: Image, prompt_id: str, asked: Asked, candidate: str) -> Entry:
    sample = Sample(
        sample_id=image.sample_id,
        candidate=candidate,
        tag=asked.tag,
        prompt_id=prompt_id,
        record=image.record,
        texts=_TEXTS,
        pictures={"image": image.picture},
        required=asked.required,
        excluded=asked.excluded,
        notes=(*asked.notes, *filter(None, [image.note])),
    )
    return Entry(sample, sha256(asked.prompt.encode()).hexdigest(), "")


def _absent(prompt_id: str, asked: Asked, candidate: str) -> Image:
    problem = f"{NO_PICTURE}{candidate} has no image of prompt {prompt_id}"
    return Image(f"{prompt_id}/{NONE}", PictureSource(problem=problem), asked.place)


def _is_absent(sample: Sample) -> bool:
    """Whether the sample stands for an image that is not there; no other has such an id."""
    return sample.sample_id == f"{sample.prompt_id}/{NONE}"


def _uneven(tags: Mapping[str, str], numbers: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """What is missing or unequal, from prompt id -> tag, and candidate -> prompt id -> number of its images."""
    usual = {candidate: _usual(its) for candidate, its in numbers.items()}
    for candidate, its in numbers.items():
        missing = [f"{one} ({tags[one]})" for one, number in its.items() if not number]
        if missing:
            has = "have" if len(missing) > 1 else "has"
            yield f"{len(missing)} of {len(its)} prompts {has} no image of {candidate}: {listed(missing)}"
        unequal = [f"{one} ({number})" for one, number in its.items() if number not in (0, usual[candidate])]
        if unequal:
            images = f"{usual[candidate]} image{'s' * (usual[candidate] > 1)}"
            yield f"{candidate} has {images} a prompt, except {listed(unequal)}"
    some = {candidate: number for candidate, number in usual.items() if number}
    if len(set(some.values())) > 1:
        found = listed(f"{candidate} ({number})" for candidate, number in some.items())
        yield f"candidates have unequal numbers of images per prompt, and more images are more chances: {found}"


def _unreachable(samples: Sequence[Sample]) -> Iterator[str]:
    problems: defaultdict[str, list[str]] = defaultdict(list)
    for sample in samples:
        problem = sample.pictures["image"].problem.removeprefix(NO_PICTURE)
        if problem and not _is_absent(sample):
            problems[sample.candidate].append(f"{sample.sample_id} ({problem})")
    for candidate, its in problems.items():
        yield f"{len(its)} image{'s' * (len(its) > 1)} of {candidate} out of reach: {listed(its, 5)}"


def _usual(numbers: Mapping[str, int]) -> int:
    """The commonest number of images of a prompt that has any, the larger one of two as common; 0 when none has any."""
    counts = Counter(number for number in numbers.values() if number)
    return max(counts, key=lambda number: (counts[number], number), default=0)


def _unknown_tags(asked: Mapping[str, Asked]) -> Iterator[str]:
    prompts = holdings()
    known = {tag for flow in T2I for tag in prompts.get(flow, ())}
    unknown = Counter(prompt.tag for prompt in asked.values() if prompt.tag not in known)
    if unknown:
        found = listed(f"{tag} ({number} prompt{'s' * (number > 1)})" for tag, number in unknown.items())
        yield f"tags not judged by any flow: {found}"
