"""Benchmark: the whole flow beside a bare client loop, in one run on one machine (`make bench`).

292 pairs of about 250 KB on four dimensions, then 2,212 images of about 125 KB on one rubric; a loopback judge at
200 ms (log-normal, sigma 0.3), 64 calls in flight, a running Prefect server. Each measurement is a process of its own,
so that CPU and peak memory are its own too. Loop and flow are measured in turns, and of each the run with the middle
wall time counts.
"""

import asyncio
import base64
import contextlib
import json
import os
import platform
import random
import resource
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from loopback_judge import judge_process
from PIL import Image, ImageDraw

PAIRS, MANY = 292, 2920
PROMPTS, IMAGES = 553, 2212
IN_FLIGHT = 64
DIMENSIONS = ("faithfulness", "conciseness", "readability", "aesthetics")
SIZE = (1400, 500)
PICTURE_BYTES = 125_000
"""Of one picture, half a pair; `_picture` is made to come out at it."""
WORDS = 3000
TURNS = 3
TARGETS = {"wall": 1.25, "cpu": 2.0, "server": 4.0, "memory": 400.0, "growth": 1.2, "reuse": 10.0}


# The dataset


def draw_dataset(root: Path, pairs: int) -> None:
    """A PaperBananaBench folder and a folder of Model figures; every tenth part has pictures of its own."""
    human, model = root / "diagram" / "images", root / "model"
    human.mkdir(parents=True)
    model.mkdir()
    drawn = min(pairs, PAIRS)
    rng = np.random.default_rng(1)
    for n in range(pairs):
        for folder in (human, model):
            file = folder / f"s{n}.jpg"
            if n < drawn:
                file.write_bytes(_picture(rng))
            else:
                os.link(folder / f"s{n % drawn}.jpg", file)
    (root / "diagram" / "test.json").write_text(json.dumps([_record(n) for n in range(pairs)]))


def _picture(rng: np.random.Generator) -> bytes:
    """A figure-like JPEG: boxes and arrows on a textured ground, as fine-grained as its size makes it."""
    grain = rng.normal(0, 10, (SIZE[1], SIZE[0], 3))
    image = Image.fromarray(np.clip(238 + grain, 0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    for _ in range(24):
        x, y = int(rng.integers(0, SIZE[0] - 160)), int(rng.integers(0, SIZE[1] - 70))
        color = tuple(int(value) for value in rng.integers(90, 230, 3))
        pen.rectangle((x, y, x + 150, y + 60), fill=color, outline="black", width=2)
        pen.text((x + 10, y + 20), "Encoder block", fill="black")
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=82)
    return buffer.getvalue()


def draw_images(root: Path) -> None:
    """A GenEval folder of one candidate, four images a prompt; each file differs, if only by a comment in it."""
    rng = np.random.default_rng(2)
    drawn = [_picture(rng) for _ in range(64)]
    row = {"tag": "counting", "include": [{"class": "clock", "count": 2}], "prompt": "a photo of two clocks"}
    lines = [json.dumps(row | {"prompt": f"a photo of two clocks, number {n}"}) + "\n" for n in range(PROMPTS)]
    (root / "images").mkdir(parents=True)
    (root / "evaluation_metadata.jsonl").write_text("".join(lines))
    for number in range(IMAGES):
        prompt, image = divmod(number, IMAGES // PROMPTS)
        folder = root / "images" / f"{prompt:05d}"
        (folder / "samples").mkdir(parents=True, exist_ok=True)
        (folder / "metadata.jsonl").write_text(lines[prompt])
        picture, comment = drawn[number % len(drawn)], f"{number:06d}".encode()
        commented = picture[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + picture[2:]
        (folder / "samples" / f"{image:04d}.jpg").write_bytes(commented)


def _record(n: int) -> dict[str, Any]:
    words = random.Random(n).choices(
        ("module", "attends", "to", "the", "encoded", "state", "of", "each", "token"), k=WORDS
    )
    return {
        "id": f"s{n}",
        "content": " ".join(words),
        "visual_intent": f"Overview {n} of the method: an encoder feeds a decoder through attention.",
        "path_to_gt_image": f"images/s{n}.jpg",
        "category": ("agent", "vision", "science")[n % 3],
    }


# What is measured, each in a process of its own


Call = tuple[str, list[Any], dict[str, Any]]
"""Name of a question, the messages it is put in, and its reply schema."""


async def bare(samples: Iterable[Callable[[], list[Call]]], in_hand: int, base_url: str) -> None:
    """What anyone would write: read, encode, call with a semaphore, parse the JSON; `in_hand` samples at a time."""
    from openai import AsyncOpenAI

    client, slots, waiting = (
        AsyncOpenAI(api_key="none", base_url=base_url),
        asyncio.Semaphore(IN_FLIGHT),
        asyncio.Semaphore(in_hand),
    )

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

    async def judged(read: Callable[[], list[Call]]) -> None:
        async with waiting, asyncio.TaskGroup() as group:
            for each in read():
                group.create_task(call(*each))

    async with asyncio.TaskGroup() as group:
        for read in samples:
            group.create_task(judged(read))
    await client.close()


def bare_pairs(root: Path) -> Iterator[Callable[[], list[Call]]]:
    from tasks.kinds import kind_of
    from tasks.rubrics.rubric import load_rubric

    prompts = load_rubric("diagram").prompts

    def read(record: dict[str, Any]) -> list[Call]:
        files = (root / "diagram" / record["path_to_gt_image"], root / "model" / f"{record['id']}.jpg")
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
        "image_url": {"url": f"data:image/jpeg;base64,{base64.b64encode(file.read_bytes()).decode()}"},
    }


def _messages(system: str, user: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


async def ours(flow: Any, parameters: Any) -> None:
    """The whole flow: checks, calls, ledger, aggregation, history, report."""
    state = await flow(parameters, return_state=True)
    if "incomplete" in str(state.message) or not state.is_completed():
        raise SystemExit(f"not every call was ok: {state.message}")


def _work(kind: str, root: Path, base_url: str, store: str = "") -> Coroutine[Any, Any, None]:
    """One measurement, with everything imported that it needs."""
    if kind == "bare-pairs":
        return bare(bare_pairs(root), IN_FLIGHT // len(DIMENSIONS) + 16, base_url)
    if kind == "bare-images":
        return bare(bare_images(root), IN_FLIGHT + 64, base_url)
    from flows.counting import counting
    from flows.diagram import diagram
    from tasks.parameters import Judge, PairwiseParameters, RubricParameters

    judge = Judge(model="bench", base_url=base_url, concurrency=IN_FLIGHT)  # pyright: ignore
    if kind == "images":
        return ours(counting, RubricParameters(dataset=str(root), store=store, judge=judge))  # pyright: ignore
    return ours(diagram, PairwiseParameters(dataset=str(root), images=str(root / "model"), store=store, judge=judge))  # pyright: ignore


def measure(kind: str, root: str = "", *arguments: str) -> None:
    """Run one and print wall time, CPU and peak memory as JSON. Imports are not counted, for either."""
    if kind == "drawing":
        return measure_drawing()
    import openai  # noqa: F401

    work = _work(kind, Path(root), *arguments)
    started, before = time.perf_counter(), os.times()
    asyncio.run(work)
    after = os.times()
    cpu = sum(after[:4]) - sum(before[:4])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall": time.perf_counter() - started, "cpu": cpu, "memory": peak}))


def measure_drawing() -> None:
    """Print the peak memory in MB of the process that draws a chart, measured beside a parent that is smaller."""
    from tasks.presentation import drawing

    drawing.png({"data": {"values": [{"a": 1}]}, "mark": "bar"})
    print(json.dumps({"memory": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}))


# The run


def run(kind: str, *arguments: object, **environment: str) -> dict[str, float]:
    command = [sys.executable, __file__, kind, *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{kind} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def prefect_server(home: Path) -> Iterator[tuple[str, int]]:
    """A Prefect server of this benchmark's own; yields its API address and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"PREFECT_HOME": str(home), "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (home / "server.log").open("w") as log:
        server = subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=log)
        try:
            _wait_for(f"http://127.0.0.1:{port}/api/health", server)
            yield f"http://127.0.0.1:{port}/api", server.pid
        finally:
            server.terminate()
            server.wait(30)


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=1):
            return
        time.sleep(0.2)
    raise SystemExit("the Prefect server did not start")


def cpu_of(pid: int) -> float:
    """CPU seconds that a process and its children have used, from /proc."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(stat.parent.name) == pid or int(fields[1]) == pid:
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def main() -> int:
    """Measure, print the tables, and say which targets were missed."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, pairs in (("few", 2), ("pairs", PAIRS), ("many", MANY)):
            draw_dataset(place / name, pairs)
        draw_images(place / "images")
        (place / "home").mkdir()
        latency = ("--latency", "0.2", "--sigma", "0.3", "--seed", "1")
        with prefect_server(place / "home") as (api, pid), judge_process(*latency) as judge:
            settings = {"PREFECT_API_URL": api, "PREFECT_HOME": str(place / "client"), "DO_NOT_TRACK": "1"}
            settings |= {
                "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
                "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            }

            def flow(kind: str, dataset: str, store: str) -> dict[str, float]:
                before = cpu_of(pid)
                found = run(kind, place / dataset, judge.base_url, place / store, **settings)
                return found | {"server": cpu_of(pid) - before}

            def in_turns(kind: str, turns: int) -> Side:
                loops, flows = list[dict[str, float]](), list[dict[str, float]]()
                for turn in range(turns):
                    loops.append(run(f"bare-{kind}", place / kind, judge.base_url))
                    flows.append(flow(kind, kind, f"{kind}-{turn}"))
                return Side(_middle(loops), _middle(flows))

            # A server that has just started compiles its queries at the first run; one that is running has done so.
            flow("pairs", "few", "store-few")
            pairs = in_turns("pairs", TURNS)
            reuse = flow("pairs", "pairs", "pairs-0")
            many = flow("pairs", "many", "store-many")
            images = in_turns("images", TURNS)
            images_reuse = flow("images", "images", "images-0")
    drawing = run("drawing")["memory"]
    for each in (pairs.flow, many, images.flow):  # as if both peaks came at once
        each["memory"] += drawing
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}; a judge at 200 ms, {IN_FLIGHT} calls in flight")
    size = PICTURE_BYTES // 1000
    missed = report(f"{PAIRS} pairs of about {2 * size} KB, {PAIRS * len(DIMENSIONS)} calls", pairs, reuse, many)
    missed += report(f"{IMAGES} images of about {size} KB, {IMAGES} calls", images, images_reuse)
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall targets met")
    return 1 if missed else 0


class Side(NamedTuple):
    """The bare loop and the flow, side by side."""

    loop: dict[str, float]
    flow: dict[str, float]


def _middle(runs: list[dict[str, float]]) -> dict[str, float]:
    return sorted(runs, key=lambda run: run["wall"])[len(runs) // 2]


def report(work: str, side: Side, reuse: dict[str, float], many: dict[str, float] | None = None) -> list[str]:
    """Print the measurements of one kind of work as Markdown; returns the targets that were missed."""
    loop, flow = side
    rows = [
        ("wall time", f"{loop['wall']:.1f} s", f"{flow['wall']:.1f} s", flow["wall"] / loop["wall"], "wall", "x"),
        ("client CPU", f"{loop['cpu']:.1f} s", f"{flow['cpu']:.1f} s", flow["cpu"] / loop["cpu"], "cpu", "x"),
        ("Prefect server CPU", "-", f"{flow['server']:.1f} s", flow["server"], "server", "s"),
        ("peak memory", f"{loop['memory']:.0f} MB", f"{flow['memory']:.0f} MB", flow["memory"], "memory", "MB"),
        ("wall time, everything reused", "-", f"{reuse['wall']:.1f} s", reuse["wall"], "reuse", "s"),
    ]
    if many:
        growth = many["memory"] / flow["memory"]
        rows.append((f"peak memory, {MANY} pairs", "-", f"{many['memory']:.0f} MB", growth, "growth", "x"))
    print(f"\n| {work} | bare client loop | whole flow | measured | target |\n|---|---|---|---|---|")
    for name, left, right, value, target, unit in rows:
        print(f"| {name} | {left} | {right} | {value:.2f} {unit} | {TARGETS[target]:g} {unit} |")
    return [f"{name} ({work})" for name, _, _, value, target, _ in rows if value > TARGETS[target]]


if __name__ == "__main__":
    sys.exit(measure(*sys.argv[1:]) if len(sys.argv) > 1 else main())
