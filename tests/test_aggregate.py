"""The aggregate step: outcomes on record, and room for everybody else meanwhile."""

import asyncio
from contextlib import closing
from pathlib import Path

from factories import start
from loopback_judge import LoopbackJudge

from tasks.aggregate import aggregate
from tasks.endpoint.client import Vlm
from tasks.judging.case import Case
from tasks.judging.results import Results
from tasks.judging.run import Run, current
from tasks.kinds.values import Lack
from tasks.ledger.reading import read_outcomes
from tasks.ledger.reuse import Replies
from tasks.ledger.writing import Ledger
from tasks.parameters import Judge, PairwiseParameters
from tasks.pictures.prepare import Policy
from tasks.records import Place, Sample
from tasks.rubrics.rubric import load_rubric

MANY = 50


def forfeit(number: int) -> Case:
    sample = Sample(sample_id=f"s{number}", candidate="alpha", record=Place(path="test.json"))
    return Case(sample, {"caption": "An overview."}, {}, Lack("forfeit", "no picture: gone"))


async def turns_of_others(store: Path, base_url: str) -> int:
    """How often another task has its turn while many samples are decided."""
    parameters = PairwiseParameters(store=str(store), judge=Judge(model="m", base_url=base_url))  # pyright: ignore
    policy, turns = Policy(max_bytes=1_000_000, max_side=1000, normalize=False), 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with Vlm(parameters.judge) as vlm:
        with closing(Ledger(store, start())) as ledger:
            rubric = load_rubric("diagram")
            run = Run(start(), rubric, parameters, policy, vlm, ledger, Replies({}), Results(start(), []))
            run.in_hand.chunks["all"] = [forfeit(number) for number in range(MANY)]
            waiting = asyncio.create_task(other())
            with current(run):
                assert await aggregate.fn("all") == {"forfeit": MANY}
            waiting.cancel()
    return turns


def test_many_samples_are_decided_without_keeping_others_from_their_turns(
    tmp_path: Path, loopback: LoopbackJudge
) -> None:
    assert asyncio.run(turns_of_others(tmp_path, loopback.base_url)) >= MANY
    assert len(list(read_outcomes(tmp_path / "ledger" / start().run_id))) == MANY
