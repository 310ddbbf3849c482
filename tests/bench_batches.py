"""Memory and time of taking in a batch of 100,000 replies: `python tests/bench_batches.py [REPLIES]`.

Nothing is asked of anybody. Prints the highest memory of Python's objects and of the process above what it had before.
"""

import asyncio
import json
import resource
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

from factories import DIMENSIONS, judgment, picture, start
from plain_runs import run_of

from flows.runtime.collecting import taken_in
from tasks.batches.log import Log, begin
from tasks.batches.submission import CASES, custom_id, kept
from tasks.judging.case import Call, Case
from tasks.judging.results import Results
from tasks.ledger.run_files import Ledger
from tasks.pictures.preparation import Picture
from tasks.records import Place, Sample
from tasks.records.judge import Judge
from tasks.records.parameters import PairwiseParameters

SETTINGS = Judge(model="m", base_url="http://127.0.0.1:9/v1")


def case(number: int) -> Case:
    """A sample with a call on each dimension."""
    name, key = f"{number:06}", judgment().key
    sides = {role: Picture(picture(f"{role}{number}"), b"") for role in ("human", "model")}
    sample = Sample(sample_id=name, candidate="alpha", record=Place(path="test.json"))
    calls = tuple(Call(each, "human_first", 1, f"{key}{number}{each}") for each in DIMENSIONS)
    return Case(sample, {"caption": "The method.", "context": "It works."}, sides, None, calls)


def line(name: str) -> bytes:
    """A reply as endpoints put it into their files."""
    said = json.dumps({"comparison_reasoning": "Both show the method. " * 20, "winner": "Human"})
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
    used = {"prompt_tokens": 1200, "completion_tokens": 80, "total_tokens": 1280}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": used}
    row = {"id": "b", "custom_id": name, "response": {"status_code": 200, "body": body}, "error": None}
    return json.dumps(row).encode() + b"\n"


def put_down(store: Path, samples: int) -> Log:
    """A run of which all replies are here."""
    ledger = Ledger(store, start())
    ledger.begin()
    ledger.close()
    log = begin(store, start().run_id)
    log.add("prepared", requests=(samples * len(DIMENSIONS),), asked="a", rung="json_schema")
    with (log.work / CASES).open("wb") as cases, log.replies(log.parts[0], "output").open("wb") as replies:
        for number in range(samples):
            each = case(number)
            cases.write(kept(each))
            replies.writelines(line(custom_id(each, call)) for call in each.calls)
    return log


async def take_in(log: Log) -> None:
    """All of it, as `jury batch collect` does."""
    parameters, begun = PairwiseParameters(store=str(log.store), judge=SETTINGS), start()
    async with run_of(parameters, begun, results=Results(begun, [log.run])) as run:
        run.ledger.go_on()
        await taken_in(log, run)
        assert run.tally.judgments["ok"] == run.tally.calls == log.parts[0].requests


def main(replies: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = put_down(Path(folder), replies // len(DIMENSIONS))
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
        asyncio.run(take_in(log))
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{replies:,} replies: {time.monotonic() - began:.0f} s, {(after - before) / 1024:.0f} MB more")
    with tempfile.TemporaryDirectory() as folder:
        log = put_down(Path(folder), replies // 10 // len(DIMENSIONS))
        tracemalloc.start()
        asyncio.run(take_in(log))
        print(f"{replies // 10:,} replies: at most {tracemalloc.get_traced_memory()[1] / 1e6:.1f} MB of objects")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
