"""Evaluations in shards: division of the samples, and joining into one evaluation."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from deployed_here import Deployment
from factories import end, judgment, outcome, start
from prefect import flow
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import arun_deployment
from prefect.states import Scheduled
from written_datasets import png, record, write_benchmark
from written_images import prompt_row, write_geneval

from flows.flow_run import evaluate_in_shards
from tasks.datasets.dataset import Dataset
from tasks.datasets.paths import absolute
from tasks.errors import InputError
from tasks.history.landing import land
from tasks.history.queries import query
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.run_files import Ledger
from tasks.pages.run_summary import summarize
from tasks.protocols.loading import load_dataset
from tasks.records import OVERALL
from tasks.records.parameters import PairwiseParameters, Parameters, RubricParameters
from tasks.statistics.scores import ScoreRow

EVALUATION = "20261120T115900-diagram-00e0a1"


def shards(flow: str, parameters: Parameters, number: int) -> list[Dataset]:
    made = ({"shards": number, "shard": shard, "evaluation_id": EVALUATION} for shard in range(1, number + 1))
    return [load_dataset(flow, parameters.model_copy(update=changes)) for changes in made]


@pytest.fixture
def figures(tmp_path: Path) -> PairwiseParameters:
    root = write_benchmark(tmp_path / "bench", [record(n) for n in range(7)])
    for number in range(7):
        (root / f"test_{number}.png").write_bytes(png(number + 50))
    return PairwiseParameters(dataset=str(root), images=str(root))


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [(0, [7]), (0, [3, 4]), (0, [2, 2, 3]), (0, [1] * 7), (0, [0, 0, *[1] * 7]), (4, [2, 2])],
    ids=str,
)
def test_shards_divide_samples_evenly(limit: int, sizes: list[int], figures: PairwiseParameters) -> None:
    asked = figures.model_copy(update={"limit": limit})
    whole, parts = load_dataset("diagram", asked), shards("diagram", asked, len(sizes))
    assert sorted(len(part.samples) for part in parts) == sizes
    assert sorted(s.sample_id for part in parts for s in part.samples) == [s.sample_id for s in whole.samples]
    assert {part.key for part in parts} == {whole.key}


def test_images_of_a_prompt_stay_in_one_shard(tmp_path: Path) -> None:
    rows = [prompt_row(f"{n} clocks", "counting") for n in range(5)]
    write_geneval(tmp_path / "images", rows, 3, candidates=("one", "two"))
    parts = shards("counting", RubricParameters(dataset=str(tmp_path / "images")), 2)
    prompts = [{sample.prompt_id for sample in part.samples} for part in parts]
    assert not prompts[0] & prompts[1] and [len(each) for each in prompts] == [3, 2]
    assert [len(part.samples) for part in parts] == [3 * 6, 2 * 6]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shards": 2, "shard": 3, "evaluation_id": "e"}, "shard is 3, allowed are 0"),
        ({"shards": 2, "shard": 1}, "set together"),
        ({"evaluation_id": "e"}, "set together"),
    ],
)
def test_shard_parameters_must_be_set_together(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PairwiseParameters(**given)


def test_paths_become_absolute_before_shards_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = PairwiseParameters(dataset="bench", images="/figures", store="s3://bucket/jury")
    assert absolute(given) == given.model_copy(update={"dataset": str(tmp_path / "bench")})
    untouched = PairwiseParameters(dataset="samples", store="jury-store")
    assert absolute(untouched) == untouched


def test_shards_require_a_deployment(prefect_server: str, figures: PairwiseParameters) -> None:
    asked = figures.model_copy(update={"shards": 2})
    words = r"sketch/sketch-nightly, which .* does not have: `jury up` serves it"
    with pytest.raises(ValueError, match=words) as refused:
        asyncio.run(evaluate_in_shards("sketch", asked, asked.store, []))
    assert prefect_server in str(refused.value)


def shard_tags(shard: int, evaluation: str = EVALUATION) -> list[str]:
    return [f"shard:{shard}", f"evaluation:{evaluation}"]


async def start_from_parent(deployment: Deployment, given: dict[str, Any], tags: list[str]) -> FlowRun:
    """Start a run from another flow run, as an evaluation does; Prefect records the parent."""

    @flow
    async def evaluation() -> FlowRun:
        run = await arun_deployment(deployment.id, parameters={"parameters": given}, tags=tags, timeout=0)
        return run

    return await evaluation()


def test_shard_is_recognized_by_its_tags_after_a_restart(deployment: Deployment) -> None:
    run = asyncio.run(start_from_parent(deployment, {"shards": 2}, shard_tags(2)))
    for times in (1, 2):
        state = deployment.execute(deployment.client.read_flow_run(run.id))
        assert state.is_completed(), state.message
        marks = [(each["shard"], each["shards"], each["evaluation_id"]) for each in deployment.run_starts()]
        assert marks == times * [(2, 2, EVALUATION)]
        deployment.client.set_flow_run_state(run.id, Scheduled(name="AwaitingRetry"), force=True)


def test_copied_shard_run_is_not_judged(deployment: Deployment) -> None:
    state = deployment.execute(deployment.create_run({"shards": 2}, tags=shard_tags(2)))
    assert state.is_failed() and "but no evaluation started it" in str(state.message) and deployment.run_starts() == []


def write_shard(store: Path, shard: int, sample: str, verdict: str, run: str, **changes: Any) -> None:
    """Write the ledger of one of two shards, with one sample; finished by default."""
    finished = changes.pop("finished", True)
    ended = {"protocol": {"temperature": "1.0", "model answered": "gpt-x-1"}, **changes.pop("end", {})}
    of_all = {"evaluation_id": EVALUATION, "shards": 2, "samples": 1}
    ledger = Ledger(store, start(run, shard=shard, **of_all, **changes))
    ledger.append(judgment(sample, verdict=verdict, run_id=run))
    ledger.append(outcome(sample, overall=verdict, run_id=run))
    if finished:
        ledger.end(end(run, calls=1, judgments={"ok": 1}, outcomes={"complete": 1}, **ended))
    ledger.close()


def overall(store: Path) -> list[tuple[Any, ...]]:
    land(store)
    return query(store, "SELECT run_id, n, model_wins FROM leaderboard WHERE dimension = 'overall'").rows


FIRST, SECOND, THIRD = (f"20261120T120000-diagram-00000{number}" for number in (1, 2, 3))


def test_views_join_shards_after_all_have_finished(tmp_path: Path) -> None:
    write_shard(tmp_path, 1, "s1", "Model", FIRST)
    assert overall(tmp_path) == []
    write_shard(tmp_path, 2, "s2", "Human", SECOND)
    assert overall(tmp_path) == [(EVALUATION, 2, 1)]
    evaluations = "SELECT run_id, samples, shards, calls, seconds FROM evaluations"
    assert query(tmp_path, evaluations).rows == [(EVALUATION, 2, 2, 2, 60.0)]
    assert query(tmp_path, "SELECT run_id, calls FROM cost").rows == [(EVALUATION, 2)]
    assert query(tmp_path, "SELECT DISTINCT run_id FROM verdicts").rows == [(EVALUATION,)]
    write_shard(tmp_path, 2, "s2", "Human", THIRD, finished=False)
    assert overall(tmp_path) == [(EVALUATION, 2, 1)], "a dead shard landed last does not change the scores"


NOTHING_ASKED = {"protocol_key": "q" * 64, "protocol": {"temperature": "1.0", "model answered": ""}}


@pytest.mark.parametrize(("second", "same"), [(NOTHING_ASKED, True), ({"protocol_key": "q" * 64}, False)], ids=str)
def test_equally_judged_shards_share_one_protocol_key(second: dict[str, Any], same: bool, tmp_path: Path) -> None:
    write_shard(tmp_path, 1, "s1", "Model", FIRST)
    write_shard(tmp_path, 2, "s2", "Human", SECOND, end=second)
    found = read_evaluation(tmp_path, EVALUATION).end
    assert found and (found.protocol_key == "p" * 64) == same and found.protocol_key != "q" * 64


def test_evaluation_is_summarized_like_a_run(tmp_path: Path) -> None:
    write_shard(tmp_path, 1, "s1", "Model", FIRST)
    write_shard(tmp_path, 2, "s2", "Human", "20261120T120100-diagram-000002", started_at="2026-11-20T12:00:20+00:00")
    found = summarize(tmp_path, EVALUATION)
    assert (found.start.run_id, found.start.samples, found.judgments.calls) == (EVALUATION, 2, 2)
    [row] = [row for row in found.scores if isinstance(row, ScoreRow) and row.dimension == OVERALL]
    assert (row.n, row.model_wins, row.human_wins) == (2, 1, 1)
    assert found.end and (found.end.calls, found.end.outcomes, found.end.seconds) == (2, {"complete": 2}, 60.0)


def test_evaluation_without_all_shards_is_unfinished(tmp_path: Path) -> None:
    write_shard(tmp_path, 2, "s2", "Human", SECOND)
    assert read_evaluation(tmp_path, EVALUATION).end is None
    with pytest.raises(InputError, match="no finished shard"):
        read_evaluation(tmp_path, "20261120T115900-diagram-ffffff")
