"""Benchmark: the whole flow beside a bare client loop, in one run on one machine (`make bench`).

292 pairs of about 250 KB on four dimensions, a loopback judge at 200 ms (log-normal, sigma 0.3), 64 calls in flight, a
running Prefect server. Each measurement is a process of its own, so that CPU and peak memory are its own too. Loop and
flow are measured in turns, and of each the run with the middle wall time counts.
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
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from loopback_judge import judge_process
from PIL import Image, ImageDraw

PAIRS, MANY = 292, 2920
IN_FLIGHT = 64
DIMENSIONS = ("faithfulness", "conciseness", "readability", "aesthetics")
SIZE = (1400, 500)
PICTURE_BYTES = 125_000
"""Of one picture, half a pair; `_picture` is made to come out at it."""
WORDS = 3000
TURNS = 5
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


async def bare(root: Path, base_url: str) -> None:
    """What anyone would write: read, encode, four calls a pair, a semaphore, parse the JSON."""
    from openai import AsyncOpenAI

    from tasks.reply import schema
    from tasks.rubric import load_rubric

    client, slots, rubric = (
        AsyncOpenAI(api_key="none", base_url=base_url),
        asyncio.Semaphore(IN_FLIGHT),
        load_rubric("diagram"),
    )

    async def call(messages: list[Any], response_format: Any) -> None:
        async with slots:
            made = await client.chat.completions.create(
                model="bare",
                messages=messages,
                response_format=response_format,
                temperature=1,
                max_completion_tokens=10_000,
            )
        json.loads(made.choices[0].message.content or "")["winner"]

    async def pair(record: dict[str, Any]) -> None:
        files = (root / "diagram" / record["path_to_gt_image"], root / "model" / f"{record['id']}.jpg")
        urls = [f"data:image/jpeg;base64,{base64.b64encode(file.read_bytes()).decode()}" for file in files]
        pictures = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        text = [{"type": "text", "text": record["content"]}, {"type": "text", "text": record["visual_intent"]}]
        async with asyncio.TaskGroup() as group:
            for prompt in rubric.prompts:
                messages = [{"role": "system", "content": prompt.body}, {"role": "user", "content": [*text, *pictures]}]
                named = {"name": f"diagram_{prompt.dimension}", "strict": True, "schema": schema(prompt)}
                group.create_task(call(messages, {"type": "json_schema", "json_schema": named}))

    records = json.loads((root / "diagram" / "test.json").read_text())
    waiting = asyncio.Semaphore(IN_FLIGHT // len(DIMENSIONS) + 16)

    async def bounded(record: dict[str, Any]) -> None:
        async with waiting:
            await pair(record)

    async with asyncio.TaskGroup() as group:
        for record in records:
            group.create_task(bounded(record))
    await client.close()


async def ours(root: Path, base_url: str, store: str) -> None:
    """The whole flow: checks, calls, ledger, aggregation, history, report."""
    from flows.diagram import diagram
    from tasks.parameters import Judge, PairwiseParameters

    judge = Judge(model="bench", base_url=base_url, concurrency=IN_FLIGHT)  # pyright: ignore
    parameters = PairwiseParameters(dataset=str(root), images=str(root / "model"), store=store, judge=judge)  # pyright: ignore
    state = await diagram(parameters, return_state=True)
    if "incomplete" in str(state.message) or not state.is_completed():
        raise SystemExit(f"not every call was ok: {state.message}")


def measure(kind: str, *arguments: str) -> None:
    """Run one of the two and print wall time, CPU and peak memory as JSON. Imports are not counted, for either."""
    if kind == "ours":
        import flows.diagram  # noqa: F401
    else:
        import openai  # noqa: F401
    started, before = time.perf_counter(), os.times()
    root, *others = arguments
    asyncio.run(bare(Path(root), *others) if kind == "bare" else ours(Path(root), *others))
    after = os.times()
    cpu = sum(after[:4]) - sum(before[:4])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall": time.perf_counter() - started, "cpu": cpu, "memory": peak}))


def drawing_memory() -> float:
    """Peak memory in MB of the process that draws the chart, measured beside a parent that is smaller."""
    draw = 'from tasks import plotter; plotter.png({"data": {"values": [{"a": 1}]}, "mark": "bar"})'
    tell = "import resource; print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", f"{draw}; {tell}"], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


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
    """Measure, print the table, and say which targets were missed."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, pairs in (("few", 2), ("some", PAIRS), ("many", MANY)):
            draw_dataset(place / name, pairs)
        (place / "home").mkdir()
        latency = ("--latency", "0.2", "--sigma", "0.3", "--seed", "1")
        with prefect_server(place / "home") as (api, pid), judge_process(*latency) as judge:
            settings = {"PREFECT_API_URL": api, "PREFECT_HOME": str(place / "client"), "DO_NOT_TRACK": "1"}
            settings |= {
                "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
                "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            }
            # A server that has just started compiles its queries at the first run; one that is running has done so.
            run("ours", place / "few", judge.base_url, place / "store-few", **settings)
            loops, flows = list[dict[str, float]](), list[dict[str, float]]()
            for turn in range(TURNS):
                loops.append(run("bare", place / "some", judge.base_url))
                before = cpu_of(pid)
                flows.append(run("ours", place / "some", judge.base_url, place / f"store-{turn}", **settings))
                flows[-1]["server"] = cpu_of(pid) - before
            reuse = run("ours", place / "some", judge.base_url, place / "store-0", **settings)
            many = run("ours", place / "many", judge.base_url, place / "store-many", **settings)
    flow = _middle(flows)
    for each in (flow, many):  # as if both peaks came at once
        each["memory"] += drawing_memory()
    return report(_middle(loops), flow, reuse, many)


def _middle(runs: list[dict[str, float]]) -> dict[str, float]:
    return sorted(runs, key=lambda run: run["wall"])[len(runs) // 2]


def report(bare_loop: dict[str, float], flow: dict[str, float], reuse: dict[str, float], many: dict[str, float]) -> int:
    """Print the measurements as Markdown; 1 when a target was missed."""
    work = f"{PAIRS} pairs of about {2 * PICTURE_BYTES // 1000} KB, {PAIRS * len(DIMENSIONS)} calls at 200 ms"
    print(f"{work}, {IN_FLIGHT} in flight; {os.cpu_count()} cores, Python {platform.python_version()}\n")
    rows = [
        (
            "wall time",
            f"{bare_loop['wall']:.1f} s",
            f"{flow['wall']:.1f} s",
            flow["wall"] / bare_loop["wall"],
            "wall",
            "x",
        ),
        ("client CPU", f"{bare_loop['cpu']:.1f} s", f"{flow['cpu']:.1f} s", flow["cpu"] / bare_loop["cpu"], "cpu", "x"),
        ("Prefect server CPU", "-", f"{flow['server']:.1f} s", flow["server"], "server", "s"),
        ("peak memory", f"{bare_loop['memory']:.0f} MB", f"{flow['memory']:.0f} MB", flow["memory"], "memory", "MB"),
        (f"peak memory, {MANY} pairs", "-", f"{many['memory']:.0f} MB", many["memory"] / flow["memory"], "growth", "x"),
        ("wall time, everything reused", "-", f"{reuse['wall']:.1f} s", reuse["wall"], "reuse", "s"),
    ]
    print("| | bare client loop | whole flow | measured | target |\n|---|---|---|---|---|")
    for name, left, right, value, target, unit in rows:
        print(f"| {name} | {left} | {right} | {value:.2f} {unit} | {TARGETS[target]:g} {unit} |")
    missed = [name for name, _, _, value, target, _ in rows if value > TARGETS[target]]
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(measure(*sys.argv[1:]) if len(sys.argv) > 1 else main())
