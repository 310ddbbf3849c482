"""Runs by plain functions, without Prefect: their samples, and the cost of all dimensions in each layout."""

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
from PIL import Image

from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import probe_request
from tasks.extensions.budget import RunLimit
from tasks.extensions.shared_layout import layout_of
from tasks.judge import judge_dimension
from tasks.judging.case import PUBLISHED, Case, plan
from tasks.judging.extension import Extension, Limit, Opening
from tasks.judging.questions import Layout
from tasks.judging.results import Results
from tasks.judging.run import Run
from tasks.ledger.reuse import Replies
from tasks.ledger.run_files import Ledger
from tasks.pictures.preparation import Picture, Policy, prepare
from tasks.records import Judgment, Place, RunStart, Sample
from tasks.records.judge import Judge
from tasks.records.parameters import PairwiseParameters
from tasks.rubrics.rubric import Rubric, load_rubric
from tasks.spending.budget import Budget

POLICY = Policy(max_bytes=1_000_000, max_side=2000, normalize=False)
METHOD = "The encoder reads tokens and hands its states to the decoder. "
RUBRIC = load_rubric("diagram")
DIMENSIONS = [prompt.dimension for prompt in RUBRIC.prompts]


def layout(parameters: PairwiseParameters, rubric: Rubric = RUBRIC, samples: int = 1) -> Layout:
    return layout_of(parameters, rubric, samples) if parameters.shares_beginnings else PUBLISHED


class Given(Extension):
    """Extension that sets the layout by the parameters, and the limit of the test."""

    def __init__(self, parameters: PairwiseParameters, rubric: Rubric, limit: Limit | None) -> None:
        super().__init__(Opening("diagram", parameters, parameters, rubric, None, scheduled=False))
        self.given = limit

    def layout(self, start: RunStart) -> Layout:
        return layout(self.opening.asked, self.opening.rubric, start.samples)  # pyright: ignore

    def limit(self) -> Limit | None:
        return self.given


@asynccontextmanager
async def run_of(
    parameters: PairwiseParameters,
    begun: RunStart | None = None,
    rubric: Rubric = RUBRIC,
    limit: Budget | Limit | None = None,
    **parts: Any,
) -> AsyncIterator[Run]:
    """Yield a run with its judge and ledger, without replies of earlier runs; `parts` override its other parts."""
    begun = begun or start()
    usual = {"replies": Replies({}), "results": Results(begun, [])}
    given = Given(parameters, rubric, limit if isinstance(limit, Limit) else None)
    async with Vlm(parameters.judge) as vlm:
        with closing(Ledger(Path(parameters.store), begun)) as ledger:
            fixed = {"vlm": vlm, "ledger": ledger, "extensions": (given,)}
            run = Run(begun, rubric, parameters, **fixed, **{**usual, **parts})
            if isinstance(limit, Budget):
                given.given = RunLimit(run, limit)
            yield run


def case_of(sample_id: str, context: str, caption: str, pictures: dict[str, Picture]) -> Case:
    """Return a sample of alpha, still without calls."""
    sample = Sample(sample_id=sample_id, candidate="alpha", record=Place(path="test.json"))
    return Case(sample, {"context": context, "caption": caption}, pictures)


@cache
def picture(shade: int) -> Picture:
    """Return a figure of 1,400 x 700 pixels: 968 tokens of a billing twin."""
    file = io.BytesIO()
    Image.new("L", (1400, 700), shade).save(file, "PNG")
    return prepare(file.getvalue(), POLICY)


def case(number: int = 0, method: str = METHOD) -> Case:
    pictures = {"human": picture(2 * number), "model": picture(2 * number + 1)}
    return case_of(f"s{number}", method, f"Overview {number}.", pictures)


class Scene:
    """A run on all dimensions of some samples, with the calls of the pipeline, by plain functions."""

    def __init__(self, store: Path, loopback: LoopbackJudge, layout: str = "shared", **changes: Any) -> None:
        asked = Judge(model="m", base_url=loopback.base_url, **changes.pop("judge", {}))  # pyright: ignore
        self.parameters = PairwiseParameters(store=str(store / layout), judge=asked, layout=layout, **changes)  # pyright: ignore
        self.rubric = RUBRIC
        self.cases, self.dimensions = [case()], DIMENSIONS
        self.limit: Limit | None = None

    def judge(self) -> list[Judgment]:
        return asyncio.run(self._judge())

    async def _judge(self) -> list[Judgment]:
        begun = start(samples=len(self.cases))
        async with run_of(self.parameters, begun, self.rubric, self.limit) as run:
            await run.vlm.probe(probe_request(2, self.parameters.shares_beginnings))
            for each in self.cases:
                each.calls = plan(each, self.rubric, self.parameters, run.layout)
            last = (judge_dimension(run, name, self.cases, last=True) for name in self.dimensions)
            await asyncio.gather(*last)
        return [row for each in self.cases for row in each.judgments]


def shared_bill(twin: BillingTwin, store: Path, made: Callable[[], list[Case]], concurrency: int = 16) -> float:
    """Return the input cost of four dimensions in the shared layout, relative to the published calls on faithfulness
    without a cache.

    Args:
        concurrency: calls in flight; with two of them, no key exceeds the calls a minute that a cache accepts.
    """
    found: dict[str, float] = {}
    for layout, dimensions in (("shared", DIMENSIONS), ("published", ["faithfulness"])):
        twin.used.clear()
        scene = Scene(store, twin, layout, judge={"concurrency": concurrency})
        scene.cases, scene.dimensions = made(), dimensions
        scene.judge()
        one = sum(usage.total for name, usage in twin.used if name == "diagram_faithfulness")
        found[layout] = twin.bill() if layout == "shared" else one
    return found["shared"] / found["published"]


def long_case(method: int) -> list[Case]:
    """Return a sample with a method section of this length in bytes."""
    return [case(0, METHOD * (method // len(METHOD)))]


def many(cases: list[Case], samples: int) -> list[Case]:
    """Return this many samples with the text lengths and picture sizes of the given ones, but different content."""
    return [_like(cases[number % len(cases)], number) for number in range(samples)]


def _like(made: Case, number: int) -> Case:
    sample = replace(made.sample, sample_id=f"{made.sample.sample_id}-{number}")
    texts = {name: f"{number}. {text}" for name, text in made.texts.items()}
    pictures = {role: _with_trailing_bytes(shown, number) for role, shown in made.pictures.items()}
    return Case(sample, texts, pictures, number=number)


def _with_trailing_bytes(shown: Picture, number: int) -> Picture:
    """Return the picture with a few bytes appended, which no decoder reads."""
    data = base64.b64decode(shown.encoded) + str(number).encode()
    note = shown.note.model_copy(update={"sent_sha256": sha256(data).hexdigest()})
    return shown._replace(encoded=base64.b64encode(data), note=note)
