"""Layout `shared`: questions begin alike, so that a provider's cache reads their common part once.

The prompts of all dimensions come first, as they are the longest part; then pictures and texts; the dimension last.
Calls that begin alike wait for the end of the first one, which writes the beginning to a cache. If they started
together, each would write it. A waiting call takes no place in the queue.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from weakref import WeakKeyDictionary

from tasks.endpoint.catalog import known_at
from tasks.endpoint.requests import Image, Request
from tasks.errors import InputError
from tasks.judging.case import Call, Case
from tasks.judging.extension import Extension
from tasks.judging.questions import GUARD, SHARED, Layout, delimited, ordered_inputs
from tasks.pictures.preparation import Picture
from tasks.protocols.figures import reply
from tasks.protocols.figures.tier_rule import pairwise_prompts
from tasks.records import Order, RunStart, Sample
from tasks.records.judge import EMBEDDED, Judge
from tasks.records.parameters import Parameters
from tasks.rubrics.rubric import PairwisePrompt, Prompt, Rubric
from tasks.text import listed

OPENING = (
    "You compare two figures of a scientific paper. Below are instructions for several dimensions, each under a line "
    "with its name; then come the figures and their texts. The last words name one dimension: only the instructions "
    "under that name count, and nothing said of another may enter your reasoning or verdict."
)
LAST = ("caption", "context")
"""Texts in the order in which they follow the pictures: first the one for all dimensions, then that for some."""
IN_A_BATCH = (
    "layout shared: in a batch no call about a sample goes before the others, so each of them may write the same text "
    "to the cache. If cache writes cost extra, the published layout may cost less"
)
KEY_LENGTH = 32
"""Characters of a request's key; OpenAI accepts 64."""
CALLS_A_MINUTE, MOST_A_KEY = 6, 15
"""Calls a minute in one of the concurrent places, if a call takes ten seconds; and most requests a minute with one key.
According to OpenAI's guide on prompt caching, further ones go to other machines, which have not seen the beginning."""


def layout_of(parameters: Parameters, rubric: Rubric, samples: int = 1) -> "SharedLayout":
    """Return the layout of a run's questions; `samples` is the number of samples in the whole evaluation."""
    calls = samples * len(rubric.prompts) * len(parameters.order_list()) * parameters.votes
    return SharedLayout(rubric, keys_of(parameters.judge, calls))


def keys_of(judge: Judge, calls: int) -> int:
    """Return the number of keys for the samples of a run, so that no key has too many calls a minute.

    The prompts are written to the cache once for each key. A cache without keys counts as one key.
    """
    known = known_at(judge.base_url)
    if not known or "prompt_cache_key" not in known.cache_fields:
        return 1
    return max(1, math.ceil(min(judge.concurrency * CALLS_A_MINUTE, calls) / MOST_A_KEY))


class FirstCalls:
    """First call with each beginning; it writes this beginning to the cache."""

    def __init__(self) -> None:
        self._ended: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def turn(self, beginning: str) -> AsyncGenerator[None]:
        """Wait for the turn of a call: the first with its beginning goes at once, others once all first ones ended.

        They wait for all of these: otherwise they would come in clumps of one key, and a provider serves only so many
        calls a minute with one key.
        """
        if beginning in self._ended:
            for ended in [*self._ended.values()]:
                await ended.wait()
            yield
            return
        ended = self._ended[beginning] = asyncio.Event()
        try:
            yield
        finally:
            ended.set()


class SharedLayout(Layout):
    """Questions of one run in this layout, its samples spread over `keys` cache keys."""

    def __init__(self, rubric: Rubric, keys: int = 1) -> None:
        self._system = _system(rubric)
        self._keys = [sha256(f"{number}\n{self._system}".encode()).hexdigest()[:KEY_LENGTH] for number in range(keys)]
        # The hash of all prompts, each of which is in every question.
        self.identity = f"{SHARED} {sha256(self._system.encode()).hexdigest()}"
        self._of_run, self._of_sample = FirstCalls(), WeakKeyDictionary[Case, FirstCalls]()

    def instructions(self, prompt: Prompt) -> str:
        """Return the same system message for all prompts."""
        return self._system

    def request(
        self, prompt: Prompt, sample: Sample, texts: Mapping[str, str], pictures: Mapping[str, Picture], order: Order
    ) -> Request:
        """Return the question: the pictures and texts of the sample, then the dimension that counts."""
        labels = dict(ordered_inputs(prompt, order))
        content: list[str | Image] = []
        for name in labels:
            if name in pictures:
                content += [f"{labels[name]}:", Image(pictures[name].media_type, pictures[name].encoded)]
        ends: list[int] = []
        for name in LAST:
            if name in labels:
                content.append(f"{labels[name]}:\n{delimited(texts[name])}")
            if not ends or name in labels:  # without a caption the first part ends with the pictures
                ends.append(len(content) - 1)
        content.append(f"Judge {prompt.dimension} alone. Reply in JSON.")
        return Request(
            self._system,
            tuple(content),
            f"{prompt.flow}_shared",
            reply.schema(),
            breakpoints=tuple(ends),
            system_is_shared=True,
        )

    def key(self, number: int) -> str:
        """Return the keys in turn: by the samples' hashes some keys would get more calls a minute than others."""
        return self._keys[number % len(self._keys)]

    @asynccontextmanager
    async def turn(self, case: Case, call: Call) -> AsyncGenerator[None]:
        """Wait for the turn of a call: calls of one sample and order begin alike, and so do all with one key."""
        of_sample = self._of_sample.setdefault(case, FirstCalls())
        async with of_sample.turn(call.order), self._of_run.turn(self.key(case.number)):
            yield


def _system(rubric: Rubric) -> str:
    """Return the common beginning of all questions of a run; it contains no sample's text."""
    return "\n\n".join([f"{OPENING} {GUARD}\n\n{reply.format_words()}", *map(_section, pairwise_prompts(rubric))])


def _section(prompt: PairwisePrompt) -> str:
    """Return a prompt under a line that no prompt can contain by chance or intent: its mark is made from the prompt."""
    own = reply.limit_words(prompt.verdicts)
    return "\n\n".join(filter(None, [f"=== {prompt.dimension} {prompt.sha256[:12]} ===", own, prompt.body]))


def check(parameters: Parameters, rubric: Rubric) -> list[str]:
    """Return warnings about a run in this layout.

    Raises:
        InputError: the judge has no cache that could read a beginning again, or the prompts do not begin alike.
    """
    _check_labels(rubric)
    return [*_check_judge(parameters.judge), *[IN_A_BATCH] * (parameters.judge.service_tier == "batch")]


def _check_labels(rubric: Rubric) -> None:
    """Check that each input has one label: another label would be another beginning."""
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
        f"layout shared: {where} may or may not cache the beginning of a question; the run reports the number of "
        "cached input tokens"
    ]


class SharedBeginnings(Extension):
    """Extension for a run in the layout `shared`."""

    def check(self) -> Sequence[str]:
        """See `Extension.check`."""
        return check(self.opening.asked, self.opening.rubric)

    def layout(self, start: RunStart) -> Layout:
        """See `Extension.layout`."""
        return layout_of(self.opening.parameters, self.opening.rubric, start.samples * start.shards)
