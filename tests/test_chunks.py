"""In what portions the samples of a run are read, and that all of them are worked on, each once."""

import asyncio
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from bench_data import draw_pairs
from factories import start
from loopback_judge import LoopbackJudge

from flows.runtime import chunks as module
from flows.runtime.chunks import Chunk, Chunks
from flows.runtime.progress import Progress
from flows.runtime.sending import Sending
from tasks.endpoint.client import Vlm
from tasks.judging.protocol import picture_policy
from tasks.judging.results import Results
from tasks.judging.run import Run
from tasks.kinds.loading import load_dataset
from tasks.ledger.reuse import Replies
from tasks.ledger.writing import Ledger
from tasks.parameters import Judge, PairwiseParameters
from tasks.rubrics.rubric import load_rubric

PAIRS = 5


async def worked_on(place: Path, base_url: str) -> list[str]:
    """The names of the parts in which the pairs are worked on, in chunks of three."""
    judge = Judge(model="m", base_url=base_url)  # pyright: ignore
    asked = PairwiseParameters(dataset=str(place), images=str(place / "model"), judge=judge, chunk_size=3)  # pyright: ignore
    begun, done, samples = start(), list[tuple[str, list[str]]](), load_dataset("diagram", asked).samples

    async def work(chunk: Chunk) -> None:
        assert all(case.picture_bytes for case in chunk.cases)
        done.append((chunk.samples, [case.sample.sample_id for case in chunk.cases]))

    async with Vlm(judge) as vlm:
        with closing(Ledger(place / "store", begun)) as ledger:
            parts = begun, load_rubric("diagram"), asked, picture_policy(asked), vlm, ledger, Replies({})
            run = Run(*parts, Results(begun, []))
            progress = Progress("diagram", PAIRS, StringIO())
            await Chunks(run, samples, progress, Sending(None, begun.run_id)).each(work)
    assert sorted(name for _, names in done for name in names) == [f"s{n}" for n in range(PAIRS)]
    return sorted(name for name, _ in done)


@pytest.mark.parametrize(
    ("first", "most_bytes", "expected"),
    [
        (3, 100_000_000, ["0-2", "3-4"]),
        (2, 100_000_000, ["0-1", "2-2", "3-4"]),
        (2, 1_000, ["0-1", "2-2", "3-3", "4-4"]),
    ],
    ids=["small pictures", "the first samples ahead", "large pictures"],
)
def test_the_judge_is_asked_about_a_chunk_portion_by_portion(
    first: int, most_bytes: int, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PORTION", first)
    monkeypatch.setattr(module, "PORTION_BYTES", most_bytes)
    draw_pairs(tmp_path, PAIRS, "JPEG")
    with LoopbackJudge() as judge:
        assert asyncio.run(worked_on(tmp_path, judge.base_url)) == expected
