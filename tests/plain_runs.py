"""Runs by the plain functions, without Prefect: their samples, and what all dimensions cost in each layout."""

import asyncio
import base64
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from billing_twins import BillingTwin
from factories import start
from loopback_judge import LoopbackJudge
from own_data import MINI, RESULTS
from PIL import Image

from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import probe_request
from tasks.judge import judge_dimension
from tasks.judging.case import Case, load_case, plan
from tasks.judging.protocol import picture_policy
from tasks.judging.results import Results
from tasks.judging.run import Run
from tasks.kinds.loading import load_dataset
from tasks.ledger.reuse import Replies
from tasks.ledger.writing import Ledger
from tasks.parameters import Judge, PairwiseParameters
from tasks.pictures.prepare import Picture, Policy, prepare
from tasks.records import Judgment, Place, RunStart, Sample
from tasks.rubrics.rubric import load_rubric

POLICY = Policy(max_bytes=1_000_000, max_side=2000, normalize=False)
METHOD = "The encoder reads tokens and hands its states to the decoder. "
RUBRIC = load_rubric("diagram")
DIMENSIONS = [prompt.dimension for prompt in RUBRIC.prompts]


@asynccontextmanager
async def run_of(parameters: PairwiseParameters, begun: RunStart | None = None, **parts: Any) -> AsyncIterator[Run]:
    """A run with its judge and its ledger, and without replies of earlier runs; `parts` are other parts of it."""
    begun = begun or start()
    usual = {"rubric": RUBRIC, "replies": Replies({}), "results": Results(begun, [])}
    async with Vlm(parameters.judge) as vlm:
        with closing(Ledger(Path(parameters.store), begun)) as ledger:
            yield Run(begun, parameters=parameters, policy=POLICY, vlm=vlm, ledger=ledger, **{**usual, **parts})


def case_of(sample_id: str, context: str, caption: str, pictures: dict[str, Picture]) -> Case:
    """A sample of alpha's, so far without calls."""
    sample = Sample(sample_id=sample_id, candidate="alpha", record=Place(path="test.json"))
    return Case(sample, {"context": context, "caption": caption}, pictures)


@cache
def picture(shade: int) -> Picture:
    """A figure of 1,400 x 700 pixels, 968 tokens of a twin."""
    file = io.BytesIO()
    Image.new("L", (1400, 700), shade).save(file, "PNG")
    return prepare(file.getvalue(), POLICY)


def case(number: int = 0, method: str = METHOD) -> Case:
    pictures = {"human": picture(2 * number), "model": picture(2 * number + 1)}
    return case_of(f"s{number}", method, f"Overview {number}.", pictures)


class Scene:
    """A run on all dimensions of some samples, by the plain functions, as the pipeline asks them."""

    def __init__(self, store: Path, loopback: LoopbackJudge, layout: str = "shared", **changes: Any) -> None:
        asked = Judge(model="m", base_url=loopback.base_url, **changes.pop("judge", {}))  # pyright: ignore
        self.parameters = PairwiseParameters(store=str(store / layout), judge=asked, layout=layout, **changes)  # pyright: ignore
        self.rubric = RUBRIC
        self.cases = [case()]
        self.budget: Any = None

    def judge(self) -> list[Judgment]:
        return asyncio.run(self._judge())

    async def _judge(self) -> list[Judgment]:
        begun = start(samples=len(self.cases))
        async with run_of(self.parameters, begun, rubric=self.rubric, budget=self.budget) as run:
            await run.vlm.probe(probe_request(2, self.parameters.shares_beginnings))
            for each in self.cases:
                each.calls = plan(each, self.rubric, self.parameters)
            last = (judge_dimension(run, name, self.cases, last=True) for name in reversed(DIMENSIONS))
            await asyncio.gather(*last)
        return [row for each in self.cases for row in each.judgments]


def bills(twin: BillingTwin, store: Path, made: Callable[[], list[Case]], concurrency: int = 16) -> dict[str, float]:
    """Layout -> what the input of four dimensions costs beside that of the published calls on faithfulness alone,
    without a cache; of samples that are made anew for each layout.

    Args:
        concurrency: calls in flight; with two of them no key has more calls a minute than a cache takes.
    """
    found, one = dict[str, float](), 0
    for layout in ("shared", "published"):
        twin.used.clear()
        scene = Scene(store, twin, layout, judge={"concurrency": concurrency})
        scene.cases = made()
        scene.judge()
        found[layout] = twin.bill()
        one = sum(usage.total for name, usage in twin.used if name == "diagram_faithfulness")
    return {layout: bill / one for layout, bill in found.items()}


def long_case(method: int) -> list[Case]:
    """A sample with a method section of so many bytes."""
    return [case(0, METHOD * (method // len(METHOD)))]


def many(cases: list[Case], samples: int) -> list[Case]:
    """So many samples, each with texts as long and pictures as large as one of these has, but of its own."""
    return [_like(cases[number % len(cases)], number) for number in range(samples)]


def _like(made: Case, number: int) -> Case:
    sample = replace(made.sample, sample_id=f"{made.sample.sample_id}-{number}")
    texts = {name: f"{number}. {text}" for name, text in made.texts.items()}
    return Case(sample, texts, {role: _other(shown, number) for role, shown in made.pictures.items()})


def _other(shown: Picture, number: int) -> Picture:
    """The same with a few bytes behind it, which no decoder looks at."""
    head, comma, encoded = shown.data_url.partition(b",")
    data = base64.b64decode(encoded) + str(number).encode()
    note = shown.note.model_copy(update={"sent_sha256": sha256(data).hexdigest()})
    return shown._replace(data_url=head + comma + base64.b64encode(data), note=note)


def published_cases() -> list[Case]:
    """The pairs of PaperBananaBench beside the checkout that have both pictures."""
    parameters = PairwiseParameters(dataset=str(MINI), results=str(MINI / RESULTS))
    policy = picture_policy(parameters)
    samples = load_dataset("diagram", parameters).samples
    return [made for each in samples if not (made := load_case(each, RUBRIC, parameters, policy, None)).lack]
