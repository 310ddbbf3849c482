"""The sides of `bench.py`: a bare client loop, that loop in Prefect tasks, our flow. As a program, one of them."""

import asyncio
import base64
import contextlib
import json
import math
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

IN_FLIGHT = 64
DIMENSIONS = ("faithfulness", "conciseness", "readability", "aesthetics")
TYPES = {".jpg": "image/jpeg", ".png": "image/png"}

Call = tuple[str, list[Any], dict[str, Any]]
"""Name of a question, the messages it is put in, and its reply schema."""


async def bare(samples: Iterable[Callable[[], list[Call]]], in_hand: int, base_url: str) -> None:
    """What anyone would write: read, encode, call with a semaphore, parse the JSON; `in_hand` samples at a time."""
    waiting = asyncio.Semaphore(in_hand)

    async def judged(read: Callable[[], list[Call]]) -> None:
        async with waiting, asyncio.TaskGroup() as group:
            for each in read():
                group.create_task(call(*each))

    async with _calling(base_url) as call, asyncio.TaskGroup() as group:
        for read in samples:
            group.create_task(judged(read))


async def in_tasks(samples: list[Callable[[], list[Call]]], size: int, dimensions: int, base_url: str) -> None:
    """The same calls from a Prefect flow with as many task runs as ours, which do nothing else: no checks, no ledger,
    no history, no report. What it takes more than the bare loop, no flow of such tasks can do without.

    Args:
        size: samples of a chunk.
    """
    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE

    room = asyncio.Semaphore(math.ceil(IN_FLIGHT / (size * dimensions)) + 3)  # as `flows.runtime.chunks` has in hand
    asked: dict[str, list[Call]] = {}

    @task(cache_policy=NO_CACHE)
    async def nothing(step: str) -> None: ...

    @flow
    async def loop() -> None:
        async with _calling(base_url) as call:

            @task(cache_policy=NO_CACHE)
            async def ask(name: str) -> None:
                await asyncio.gather(*(call(*each) for each in asked.pop(name)))

            async def chunk(first: int) -> None:
                async with room:
                    calls = [read() for read in samples[first : first + size]]
                    async with asyncio.TaskGroup() as group:
                        for dimension in range(dimensions):
                            asked[name := f"{dimension} {first}"] = [each[dimension] for each in calls]
                            group.create_task(ask(name))
                    await nothing(f"aggregate {first}")

            await nothing("load")
            async with asyncio.TaskGroup() as group:
                for first in range(0, len(samples), size):
                    group.create_task(chunk(first))
            await nothing("store")
            await nothing("report")

    await loop()


@contextlib.asynccontextmanager
async def _calling(base_url: str) -> AsyncIterator[Callable[..., Coroutine[Any, Any, None]]]:
    """What makes one call and parses its reply, as many at once as may be in flight."""
    from openai import AsyncOpenAI

    slots = asyncio.Semaphore(IN_FLIGHT)
    async with AsyncOpenAI(api_key="none", base_url=base_url) as client:

        async def call(name: str, messages: list[Any], schema: dict[str, Any]) -> None:
            async with slots:
                made = await client.chat.completions.create(
                    model="bare",
                    messages=messages,
                    response_format={
                        "type": "json_schema",
                        "json_schema": {"name": name, "strict": True, "schema": schema},
                    },
                    temperature=1,
                    max_completion_tokens=10_000,
                )
            json.loads(made.choices[0].message.content or "")

        yield call


def bare_pairs(root: Path) -> Iterator[Callable[[], list[Call]]]:
    from tasks.kinds import kind_of
    from tasks.rubrics.rubric import load_rubric

    prompts = load_rubric("diagram").prompts

    def read(record: dict[str, Any]) -> list[Call]:
        human = root / "diagram" / record["path_to_gt_image"]
        files = (human, root / "model" / human.name)
        user = [_text(record["content"]), _text(record["visual_intent"]), *map(_image, files)]
        return [
            (f"diagram_{each.dimension}", _messages(each.body, user), dict(kind_of(each.flow).reply_form(each).schema))
            for each in prompts
        ]

    for record in json.loads((root / "diagram" / "test.json").read_text()):
        yield partial(read, record)


def bare_images(root: Path) -> Iterator[Callable[[], list[Call]]]:
    from tasks.kinds import kind_of
    from tasks.rubrics.rubric import load_rubric

    prompt = load_rubric("counting").prompt("counting")

    def read(folder: Path, file: Path) -> list[Call]:
        words = json.loads((folder / "metadata.jsonl").read_text())["prompt"]
        return [
            (
                "counting_counting",
                _messages(prompt.body, [_text(words), _image(file)]),
                dict(kind_of(prompt.flow).reply_form(prompt).schema),
            )
        ]

    for folder in sorted((root / "images").iterdir()):
        for file in sorted((folder / "samples").iterdir()):
            yield partial(read, folder, file)


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _image(file: Path) -> dict[str, Any]:
    return {
        "type": "image_url",
        "image_url": {"url": f"data:{TYPES[file.suffix]};base64,{base64.b64encode(file.read_bytes()).decode()}"},
    }


def _messages(system: str, user: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


async def ours(flow: Any, parameters: Any) -> None:
    """The whole flow: checks, calls, ledger, aggregation, history, report."""
    state = await flow(parameters, return_state=True)
    if "incomplete" in str(state.message) or not state.is_completed():
        raise SystemExit(f"not every call was ok: {state.message}")


def _chunk_size(kind: str, root: Path, samples: int) -> int:
    """Samples of a chunk of ours: by default, and no more than a portion of the pictures has."""
    from flows.runtime.chunks import PORTION_BYTES
    from tasks.parameters import PairwiseParameters, RubricParameters

    parameters = RubricParameters if kind == "images" else PairwiseParameters
    pictures = sum(file.stat().st_size for file in root.rglob("*") if file.suffix in TYPES)
    return min(int(parameters.model_fields["chunk_size"].default), PORTION_BYTES * samples // pictures)


def _work(side: str, kind: str, root: Path, base_url: str, store: str) -> Coroutine[Any, Any, None]:
    """One measurement, with everything imported that it needs."""
    if side in ("bare", "in_tasks"):
        samples, calls = (bare_pairs(root), len(DIMENSIONS)) if kind == "pairs" else (bare_images(root), 1)
        if side == "bare":
            return bare(samples, IN_FLIGHT // calls + (16 if kind == "pairs" else 64), base_url)
        import_module("flows.runtime.states")  # and with it what Prefect imports when a flow is called
        every = [*samples]
        return in_tasks(every, _chunk_size(kind, root, len(every)), calls, base_url)
    from flows.counting import counting
    from flows.diagram import diagram
    from tasks.parameters import Judge, PairwiseParameters, RubricParameters

    judge = Judge(model="bench", base_url=base_url, concurrency=IN_FLIGHT)  # pyright: ignore
    if kind == "images":
        return ours(counting, RubricParameters(dataset=str(root), store=store, judge=judge))  # pyright: ignore
    figures = {"dataset": str(root), "images": str(root / "model"), "store": store, "judge": judge}
    return ours(diagram, PairwiseParameters(**figures, layout="shared" if kind == "shared" else "published"))  # pyright: ignore


def measure(side: str, kind: str, root: str, base_url: str, store: str = "") -> dict[str, float]:
    """Run one side; imports are not counted, for either.

    Returns:
        Wall time, CPU and peak memory until it ends, the table included; then the CPU of the processes that make
        thumbnails, all of it, and how long after the end they were done.
    """
    import openai  # noqa: F401

    work = _work(side, kind, Path(root), base_url, store)
    started, before = time.perf_counter(), os.times()
    asyncio.run(work)
    wall, after = time.perf_counter() - started, os.times()
    thumbnails = _ended_children()
    return {
        "wall": wall,
        "cpu": sum(after[:4]) - sum(before[:4]),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "thumbnails": thumbnails,
        "behind": time.perf_counter() - started - wall,
    }


def _ended_children() -> float:
    """CPU seconds of the processes that were still at work, once all of them have ended."""
    seconds = 0.0
    with contextlib.suppress(ChildProcessError):
        while True:
            used = os.wait3(0)[2]
            seconds += used.ru_utime + used.ru_stime
    return seconds


def measure_drawing() -> dict[str, float]:
    """Peak memory in MB of the process that draws a chart, measured beside a parent that is smaller."""
    from tasks.presentation import drawing

    drawing.png({"data": {"values": [{"a": 1}]}, "mark": "bar"})
    return {"memory": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}


if __name__ == "__main__":
    print(json.dumps(measure_drawing() if sys.argv[1] == "drawing" else measure(*sys.argv[1:])))
