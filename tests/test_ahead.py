"""Work before a run's server answers: the dataset is read once, the judge asked once, refusals reported at once."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loopback_judge import LoopbackJudge
from loopback_replies import error, hang
from written_datasets import record, result, write_benchmark, write_json

from flows.process import judge_client, while_it_begins
from tasks.demo.chat import PROBE
from tasks.errors import JudgeStopped
from tasks.protocols.loading import dataset_of, load_ahead
from tasks.records.judge import Judge
from tasks.records.parameters import PairwiseParameters


class Server:
    def __init__(self, holds: Callable[[], bool]) -> None:
        self._holds = holds

    async def answering(self) -> None:
        while not self._holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # the condition changes in another thread


def pairs(tmp_path: Path) -> dict[str, Any]:
    data = write_benchmark(tmp_path / "data", [record(number) for number in range(2)])
    results = write_json(data / "results.json", [result(number) for number in range(2)])
    return {"dataset": str(data), "results": str(results), "store": str(tmp_path / "store")}


def parameters_of(tmp_path: Path, judge: LoopbackJudge, **changes: object) -> PairwiseParameters:
    endpoint = {"model": "m", "base_url": judge.base_url}
    return PairwiseParameters.model_validate({**pairs(tmp_path), "judge": endpoint, **changes})


async def takes_over(parameters: PairwiseParameters, holds: Callable[[], bool] = lambda: True) -> bool:
    """Begin a run; return whether it takes over the client made ahead. Another judge gets a client of its own."""
    other = Judge(model="another", base_url=parameters.judge.base_url)  # pyright: ignore[reportCallIssue]
    server: Any = Server(holds)
    async with while_it_begins(server, "diagram", parameters), judge_client("diagram", parameters) as own:
        async with judge_client("diagram", parameters.model_copy(update={"judge": other})) as another:
            assert another.judge == other
        async with judge_client("diagram", parameters) as again:
            return own is again


@pytest.mark.parametrize(("change", "samples"), [({}, [2, 1]), ({"limit": 1}, [1, 1]), ({"seed": 1}, [1, 1])], ids=str)
def test_dataset_read_ahead_is_used_once_and_for_the_same_parameters(
    change: dict[str, int], samples: list[int], tmp_path: Path
) -> None:
    parameters = PairwiseParameters.model_validate(pairs(tmp_path))
    load_ahead("diagram", parameters)
    write_json(tmp_path / "data" / "diagram" / "test.json", [record(0)])
    write_json(tmp_path / "data" / "results.json", [result(0)])
    changed = {"judge": parameters.judge.model_copy(update=change)} if "seed" in change else change
    wanted = parameters.model_copy(update=changed)
    assert [len(dataset_of("diagram", wanted).samples) for _ in samples] == samples


def test_judge_refusal_is_reported_before_the_server_answers(tmp_path: Path, loopback: LoopbackJudge) -> None:
    loopback.answer = lambda _: error(401, "no such key")
    with pytest.raises(JudgeStopped, match="no such key"):
        asyncio.run(takes_over(parameters_of(tmp_path, loopback), lambda: False))


def test_slow_judge_does_not_delay_the_run(tmp_path: Path, loopback: LoopbackJudge) -> None:
    loopback.answer = lambda _: hang()
    assert asyncio.run(takes_over(parameters_of(tmp_path, loopback), lambda: loopback.count > 0))


def test_judge_is_not_asked_ahead_if_replies_may_be_reused(tmp_path: Path, loopback: LoopbackJudge) -> None:
    parameters = parameters_of(tmp_path, loopback)
    (tmp_path / "store" / "ledger").mkdir(parents=True)
    assert asyncio.run(takes_over(parameters)) and loopback.count == 0
    asyncio.run(takes_over(parameters.model_copy(update={"reuse_hours": 0}), lambda: loopback.count > 0))
    assert loopback.by_name == {PROBE: 1}


@pytest.mark.parametrize("quote", ["pilot", "history"])
def test_judge_is_not_asked_ahead_for_a_quote(tmp_path: Path, loopback: LoopbackJudge, quote: str) -> None:
    assert asyncio.run(takes_over(parameters_of(tmp_path, loopback, quote=quote)))
    assert loopback.count == 0
