"""The two sides that `bench.py` compares, a bare client loop and the whole flow; as a program, it runs one of them."""

import asyncio
import base64
import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

IN_FLIGHT, EARLY = 64, 1_000
DIMENSIONS = ("faithfulness", "conciseness", "readability", "aesthetics")
TYPES = {".jpg": "image/jpeg", ".png": "image/png"}

Call = tuple[str, list[Any], dict[str, Any]]
"""Name of a question, its messages, and its reply schema."""


async def bare(samples: Iterable[Callable[[], list[Call]]], in_hand: int, base_url: str) -> None:
    """Run a simple loop: read, encode, call with a semaphore, parse the JSON; `in_hand` samples at a time."""
    from openai import AsyncOpenAI

    waiting, slots = asyncio.Semaphore(in_hand), asyncio.Semaphore(IN_FLIGHT)
    async with AsyncOpenAI(api_key="none", base_url=base_url) as client, asyncio.TaskGroup() as all_samples:

        async def call(name: str, messages: list[Any], schema: dict[str, Any]) -> None:
            form = {"name": name, "strict": True, "schema": schema}
            async with slots:
                made = await client.chat.completions.create(
                    model="bare",
                    messages=messages,
                    response_format={"type": "json_schema", "json_schema": form},  # pyright: ignore
                    temperature=1,
                    max_completion_tokens=10_000,
                )
            json.loads(made.choices[0].message.content or "")

        async def judge_sample(read: Callable[[], list[Call]]) -> None:
            async with waiting, asyncio.TaskGroup() as group:
                for each in read():
                    group.create_task(call(*each))

        for read in samples:
            all_samples.create_task(judge_sample(read))


def bare_pairs(root: Path) -> Iterator[Callable[[], list[Call]]]:
    from tasks.rubrics.rubric import load_rubric

    prompts = load_rubric("diagram").prompts

    def read(record: dict[str, Any]) -> list[Call]:
        human = root / "diagram" / record["path_to_gt_image"]
        user = _user((record["content"], record["visual_intent"]), (human, root / "model" / human.name))
        return [_call(each, user) for each in prompts]

    for record in json.loads((root / "diagram" / "test.json").read_text()):
        yield partial(read, record)


def bare_images(root: Path) -> Iterator[Callable[[], list[Call]]]:
    from tasks.rubrics.rubric import load_rubric

    prompt = load_rubric("counting").prompt("counting")

    def read(folder: Path, file: Path) -> list[Call]:
        words = json.loads((folder / "metadata.jsonl").read_text())["prompt"]
        return [_call(prompt, _user((words,), (file,)))]

    for folder in sorted((root / "images").iterdir()):
        for file in sorted((folder / "samples").iterdir()):
            yield partial(read, folder, file)


def bare_checklists(root: Path) -> Iterator[Callable[[], list[Call]]]:
    from tasks.protocols import protocol_of
    from tasks.protocols.checklist.prompts import read_checks
    from tasks.records import Place, Sample
    from tasks.rubrics.rubric import load_rubric

    prompt, rules = load_rubric("facts").prompt("together"), protocol_of("facts")

    def read(row: dict[str, Any]) -> list[Call]:
        checks = tuple(each.check() for each in read_checks(row["checks"]))
        sample = Sample(sample_id=row["id"], candidate="kiln", tag="together", record=Place(""), checks=checks)
        form = rules.reply_form(prompt, sample)
        texts = (row["prompt"], rules.texts_of(sample)["checks"], form.words)
        messages = [{"role": "system", "content": prompt.body}]
        messages.append({"role": "user", "content": _user(texts, (root / row["image"],))})
        return [("facts_together", messages, dict(form.schema))]

    for line in (root / "checks.jsonl").read_text().splitlines():
        yield partial(read, json.loads(line))


def _user(texts: Iterable[str], files: Iterable[Path]) -> list[dict[str, Any]]:
    addresses = (f"data:{TYPES[file.suffix]};base64,{base64.b64encode(file.read_bytes()).decode()}" for file in files)
    pictures = [{"type": "image_url", "image_url": {"url": address}} for address in addresses]
    return [*({"type": "text", "text": text} for text in texts), *pictures]


def _call(prompt: Any, user: list[dict[str, Any]]) -> Call:
    from factories import any_sample

    from tasks.protocols import protocol_of

    messages = [{"role": "system", "content": prompt.body}, {"role": "user", "content": user}]
    form = protocol_of(prompt.flow).reply_form(prompt, any_sample())
    return f"{prompt.flow}_{prompt.dimension}", messages, dict(form.schema)


async def run_flow(flow: Any, parameters: Any) -> None:
    """Run the whole flow: checks, calls, ledger, aggregation, history, report."""
    state = await flow(parameters, return_state=True)
    if "incomplete" in str(state.message) or not state.is_completed():
        raise SystemExit(f"not every call was ok: {state.message}")


def _work(side: str, kind: str, root: Path, base_url: str, store: str) -> Coroutine[Any, Any, None]:
    if side == "bare" and kind == "images":
        return bare(bare_images(root), IN_FLIGHT + 64, base_url)
    if side == "bare" and kind == "together":
        return bare(bare_checklists(root), IN_FLIGHT + 64, base_url)
    if side == "bare":
        return bare(bare_pairs(root), IN_FLIGHT // len(DIMENSIONS) + 16, base_url)
    from flows.counting import counting
    from flows.diagram import diagram
    from flows.facts import facts
    from tasks.protocols.checklist.parameters import ChecklistParameters
    from tasks.records.judge import Judge
    from tasks.records.parameters import PairwiseParameters, RubricParameters

    judge = Judge(model="bench", base_url=base_url, concurrency=IN_FLIGHT)  # pyright: ignore
    if kind == "images":
        return run_flow(counting, RubricParameters(dataset=str(root), store=store, judge=judge))  # pyright: ignore
    if kind in ("together", "single"):
        asked = ChecklistParameters(dataset=str(root / "checks.jsonl"), instrument=kind, store=store, judge=judge)  # pyright: ignore
        return run_flow(facts, asked)
    figures = {"dataset": str(root), "images": str(root / "model"), "store": store, "judge": judge}
    return run_flow(diagram, PairwiseParameters(**figures, layout="shared" if kind == "shared" else "published"))  # pyright: ignore


def measure(side: str, kind: str, root: str, base_url: str, store: str = "") -> dict[str, float]:
    """Run one side; imports are not counted.

    Returns:
        Wall seconds, CPU seconds and peak MB until the run has printed its table; MB after the first replies and at the
        end; CPU seconds of the processes that make thumbnails, and the seconds that they run on after the end.
    """
    import openai  # noqa: F401

    work = _work(side, kind, Path(root), base_url, store)
    started, before = time.perf_counter(), os.times()
    early = asyncio.run(_memory_early(work, Path(store)))
    wall, after = time.perf_counter() - started, os.times()
    thumbnails = _wait_for_children()
    return {
        "wall": wall,
        "cpu": sum(after[:4]) - sum(before[:4]),
        "early": early,
        "late": _memory_now(),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "thumbnails": thumbnails,
        "behind": time.perf_counter() - started - wall,
    }


async def _memory_early(work: Coroutine[Any, Any, None], store: Path) -> float:
    """Do the work; return the memory in MB when the store's ledger reached 1,000 replies, 0 if it never did."""
    task, found = asyncio.ensure_future(work), 0.0
    while not task.done():
        await asyncio.wait([task], timeout=0.5)
        if not found and _replies(store) >= EARLY:
            found = _memory_now()
    await task
    return found


def _replies(store: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in store.glob("ledger/*/judgments.jsonl"))


def _memory_now() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def _wait_for_children() -> float:
    """Wait for all child processes; return their CPU seconds."""
    seconds = 0.0
    with contextlib.suppress(ChildProcessError):
        while True:
            used = os.wait3(0)[2]
            seconds += used.ru_utime + used.ru_stime
    return seconds


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
