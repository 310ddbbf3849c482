"""The judge step against a judge with all faults at once: nothing is missing, and nothing is asked once too often."""

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from factories import start
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, drop, error, example, text
from loopback_replies import Request as Seen
from plain_runs import POLICY, RUBRIC, case_of, run_of
from written_datasets import png

from tasks.endpoint import client, gate
from tasks.errors import InvalidReply, JudgeUnavailable
from tasks.judge import judge_dimension
from tasks.judging.case import INVALID_ATTEMPTS, Case, plan
from tasks.judging.run import Run
from tasks.ledger.run_files import read_judgments
from tasks.pictures.preparation import Picture, prepare
from tasks.records import Judgment
from tasks.records.judge import Judge
from tasks.records.parameters import PairwiseParameters

SAMPLES = 73
CALLS = SAMPLES * 4
SHARES = {"busy": 0.05, "500": 0.03, "prose": 0.02, "fenced": 0.10, "dropped": 0.01}
FAULTS = {*SHARES} - {"fenced"}
"""Each of them is asked about once more."""


class Faulty:
    """Answers with faults by chance: those of one question are the same in every run, in whatever turn it is asked."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._asked: Counter[str] = Counter()
        self.served: Counter[str] = Counter()
        self.prose: Counter[str] = Counter()
        """By question."""

    def __call__(self, seen: Seen) -> Reply:
        if seen.schema_name == "probe":
            return text(json.dumps(example(seen.schema, {})))
        asked = f"{seen.schema_name} {next(words for words in seen.texts if 'Sample ' in words)}"
        self._asked[asked] += 1
        fault = self._drawn(f"{self._seed} {asked} {self._asked[asked]}")
        self.served[fault] += 1
        self.prose[asked] += fault == "prose"
        content = json.dumps(example(seen.schema, {}))
        return {
            "busy": error(429, "Too many requests."),
            "500": error(500, "The worker died."),
            "prose": text("I would say that the Model figure is better."),
            "fenced": text(f"```json\n{content}\n```"),
            "dropped": drop(),
        }.get(fault, text(content))

    def _drawn(self, seed: str) -> str:
        [fault] = random.Random(seed).choices([*SHARES, "none"], [*SHARES.values(), 1 - sum(SHARES.values())])
        return fault


@pytest.fixture(scope="module")
def pictures() -> dict[str, Picture]:
    return {side: prepare(png(0), POLICY) for side in ("human", "model")}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """In proportion to a judge that answers at once."""
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(gate, "BACKOFF_SECONDS", (0.001, 0.002))
    monkeypatch.setattr(gate, "SHORTEST_ROUND", 0.01)


@pytest.mark.parametrize("seed", [4, 6, 7])
def test_every_call_gets_its_judgment_for_one_request_more_a_fault(
    seed: int, tmp_path: Path, loopback: LoopbackJudge, pictures: dict[str, Picture]
) -> None:
    loopback.answer, loopback.keep_requests = (faulty := Faulty(seed)), False
    asyncio.run(judged(tmp_path, loopback.base_url, pictures))
    last: dict[str, Judgment] = {row.key: row for row in rows(tmp_path)}
    hopeless = sum(prose == INVALID_ATTEMPTS for prose in faulty.prose.values())
    assert Counter(row.status for row in last.values()) == Counter(ok=CALLS - hopeless, invalid=hopeless)
    kept, served = Counter[str](), faulty.served
    assert sum(served.values()) == CALLS + sum(served[fault] for fault in FAULTS) - hopeless
    for row in rows(tmp_path):
        kept.update(busy=row.waits, failed=row.http_retries, prose=row.status == "invalid")
        kept["fenced"] += row.recovery == "fence removed"
    failed = served["500"] + served["dropped"]
    assert kept == Counter(busy=served["busy"], failed=failed, prose=served["prose"], fenced=served["fenced"])


def rows(store: Path) -> list[Judgment]:
    return [*read_judgments(store / "ledger" / start().run_id)]


async def judged(store: Path, base_url: str, pictures: dict[str, Picture]) -> None:
    """All samples on all dimensions, with the retries of a run."""
    parameters = PairwiseParameters(store=str(store), judge=Judge(model="m", base_url=base_url))
    cases = [case(number, pictures, parameters) for number in range(SAMPLES)]
    async with run_of(parameters) as run, asyncio.TaskGroup() as dimensions:
        for prompt in RUBRIC.prompts:
            dimensions.create_task(with_retries(run, prompt.dimension, cases))


def case(number: int, pictures: dict[str, Picture], parameters: PairwiseParameters) -> Case:
    made = case_of(f"s{number}", "A method.", f"Sample {number}.", pictures)
    made.calls = tuple(plan(made, RUBRIC, parameters))
    return made


async def with_retries(run: Run, dimension: str, cases: list[Case]) -> None:
    for _ in range(run.parameters.retries):
        try:
            await judge_dimension(run, dimension, cases, last=False)
        except (JudgeUnavailable, InvalidReply):
            continue
        return
    await judge_dimension(run, dimension, cases, last=True)
