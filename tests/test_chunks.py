"""Chunks of a run: their size and order, each sample once, and the picture bytes held in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
from bench_data import draw_pairs
from factories import end, judgment, picture, start, write_run
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, allowed_reply, error
from loopback_replies import Request as Seen
from PIL import Image
from written_datasets import encoded

from flows import chunks as module
from flows.chunks import Chunks
from tasks.endpoint.client import Vlm
from tasks.errors import JudgeStopped
from tasks.judge import judge_dimension
from tasks.judging.case import Case, Chunk
from tasks.judging.results import Results
from tasks.judging.run import MOST_PICTURE_BYTES, InHand, Run
from tasks.ledger.reuse import Replies
from tasks.ledger.run_files import Ledger
from tasks.pictures.preparation import Picture
from tasks.protocols.loading import load_dataset
from tasks.records import Place, Sample
from tasks.records.judge import Judge
from tasks.records.parameters import PairwiseParameters
from tasks.rubrics.rubric import load_rubric

PAIRS = 5


def noise(rng: np.random.Generator, file_format: str) -> bytes:
    """Draw a picture of some kilobytes."""
    return encoded(Image.fromarray(rng.integers(0, 256, (64, 64), np.uint8)), file_format)


@asynccontextmanager
async def chunks(place: Path, replies: Replies, judge: Judge, **given: int) -> AsyncIterator[Chunks]:
    """Open the chunks of a run over these pairs."""
    parameters = PairwiseParameters(dataset=str(place), images=str(place / "model"), judge=judge, **given)  # pyright: ignore
    begun, samples = start(), load_dataset("diagram", parameters).samples
    async with Vlm(judge) as vlm:
        with closing(Ledger(place / "store", begun)) as ledger:
            parts = begun, load_rubric("diagram"), parameters, vlm, ledger, replies
            yield Chunks(Run(*parts, Results(begun, [])), samples)


async def judge_in_portions(place: Path, base_url: str, replies: Replies) -> list[tuple[str, list[str]]]:
    """Judge the pairs in chunks of three; return name and samples of each portion."""
    done = list[tuple[str, list[str]]]()

    async def work(_: Run, chunk: Chunk) -> None:
        assert all(case.picture_bytes for case in chunk.cases)
        done.append((chunk.name, [case.sample.sample_id for case in chunk.cases]))

    async with chunks(place, replies, Judge(model="m", base_url=base_url), chunk_size=3) as made:
        await made.each(work)
    counts = made.run.counts
    assert (counts.samples_done, counts.done, counts.reused) == (PAIRS, counts.calls, 0)
    assert sorted(name for _, names in done for name in names) == [f"s{n}" for n in range(PAIRS)]
    return done


@pytest.mark.parametrize(
    ("first", "most_bytes", "expected"),
    [
        (3, 100_000_000, ["0-2", "3-4"]),
        (2, 100_000_000, ["0-1", "2-2", "3-4"]),
        (2, 1_000, ["0-1", "2-2", "3-3", "4-4"]),
    ],
    ids=["small pictures", "a small first portion", "large pictures"],
)
def test_chunk_is_judged_in_portions_of_few_bytes(
    first: int, most_bytes: int, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PORTION", first)
    monkeypatch.setattr(module, "PORTION_BYTES", most_bytes)
    draw_pairs(tmp_path, PAIRS, "JPEG", draw=noise)
    with LoopbackJudge() as judge:
        done = asyncio.run(judge_in_portions(tmp_path, judge.base_url, Replies({})))
    assert sorted(name for name, _ in done) == expected


def test_stopped_run_leaves_few_samples_half_judged(tmp_path: Path) -> None:
    answered, most, samples = count(), 6, 12

    async def answer_until_refused(seen: Seen) -> Reply:
        await asyncio.sleep(0.1)
        return error(401, "no such key") if next(answered) >= 2 * samples else allowed_reply()(seen)

    draw_pairs(tmp_path, samples, "JPEG", draw=noise)
    done, steps = list[Case](), list[int]()

    async def work(run: Run, chunk: Chunk) -> None:
        done.extend(chunk.cases)
        async with asyncio.TaskGroup() as group:
            for dimension in chunk.dimensions:
                group.create_task(judge_dimension(run, dimension, chunk.cases, last=True))

    async def watch(run: Run) -> None:
        while True:
            steps.append(run.counts.samples_done)
            await asyncio.sleep(0.05)

    async def scene(judge: Judge) -> Run:
        async with chunks(tmp_path, Replies({}), judge) as made:
            watching = asyncio.create_task(watch(made.run))
            with pytest.raises(JudgeStopped, match="of 12 samples are not judged"):
                await made.each(work)
            watching.cancel()
            return made.run

    with LoopbackJudge(answer_until_refused) as judge:
        run = asyncio.run(scene(Judge(model="m", base_url=judge.base_url, concurrency=most)))
    begun = [case for case in done if case.judgments]
    assert sum(not case.settled for case in begun) <= most and run.tally.outcomes.total() >= samples // 2 - 1
    assert max(after - before for before, after in pairwise(steps)) <= 2


def test_samples_without_earlier_replies_are_judged_first(tmp_path: Path) -> None:
    draw_pairs(tmp_path, PAIRS, "JPEG", draw=noise)
    rows = [judgment(f"s{number}", candidate="model") for number in (0, 1, 3)]
    earlier = write_run(tmp_path / "earlier", start(), list(rows), end())
    with LoopbackJudge() as judge:
        done = asyncio.run(judge_in_portions(tmp_path, judge.base_url, Replies({earlier: None})))
    assert dict(done) == {"0-1": ["s2", "s4"], "2-4": ["s0", "s1", "s3"]}, "new samples come first"


def case(size: int) -> Case:
    sample = Sample(sample_id="s1", candidate="alpha", record=Place(path="test.json"))
    return Case(sample, {}, {"image": Picture(picture("a"), bytes(size))})


async def is_admitted(hand: InHand) -> bool:
    waiting = asyncio.create_task(hand.few_bytes())
    for _ in range(3):
        await asyncio.sleep(0)
    done = waiting.done()
    waiting.cancel()
    return done


def test_chunk_waits_until_pictures_in_memory_are_below_the_limit() -> None:
    async def scene() -> list[bool]:
        hand, cases = InHand(), [case(MOST_PICTURE_BYTES // 2 + 1), case(MOST_PICTURE_BYTES // 2)]
        found = [await is_admitted(hand)]
        hand.add(cases)
        found.append(await is_admitted(hand))
        waiting = asyncio.create_task(hand.few_bytes())
        await asyncio.sleep(0)
        hand.free(cases[0])
        await asyncio.wait_for(waiting, 5)
        hand.free(cases[0])  # freeing a sample twice changes nothing
        hand.free(cases[1])
        hand.add([case(MOST_PICTURE_BYTES + 1)])
        return [*found, await is_admitted(hand)]

    assert asyncio.run(scene()) == [True, False, False]


def test_freed_pictures_leave_only_their_notes() -> None:
    hand, freed = InHand(), case(100)
    hand.add([freed])
    hand.free(freed)
    assert freed.picture_bytes == 0
    assert freed.notes() == {"image": picture("a")}
