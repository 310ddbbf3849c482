"""What becomes of a call that a batch leaves without a reply, as far as there is money; else see `test_collect`."""

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest
from bench_batches import SETTINGS, case, put_down
from factories import DIMENSIONS, start

from flows.runtime.taking_in import taken_in
from tasks.batches.cases import custom_id
from tasks.batches.log import Log
from tasks.batches.requests import RequestFiles
from tasks.endpoint.client import Vlm
from tasks.judging.protocol import picture_policy
from tasks.judging.results import Results
from tasks.judging.run import Run
from tasks.ledger.reading import read_judgments, read_outcomes
from tasks.ledger.reuse import Replies
from tasks.ledger.writing import Ledger
from tasks.parameters import PairwiseParameters
from tasks.rubrics.rubric import load_rubric
from tasks.spending.budget import Budget, CallCosts
from tasks.spending.prices import Rates, Tariff

CALL = (1200 + 80 * 10) / 1e6
TARIFF = Tariff((Rates(1.0, 1.0, 1.0, 10.0),), "here")


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Two samples; the last reply is not there."""
    log = put_down(tmp_path, samples=2)
    files = RequestFiles(log, 1)
    for each in (case(number) for number in range(2)):
        for call in each.calls:
            files.add(custom_id(each, call, 1), [b"{}"])
    files.close()
    replies = log.replies(log.current[0], "output")
    replies.write_bytes(b"".join(replies.read_bytes().splitlines(keepends=True)[:-1]))
    return log


async def take_in(log: Log, budget: Budget) -> bool:
    judge = SETTINGS.model_copy(update={"price_in": 1.0, "price_out": 10.0})
    parameters, begun = PairwiseParameters(store=str(log.store), judge=judge), start()
    async with Vlm(judge) as vlm:
        with closing(Ledger(log.store, begun)) as ledger:
            ledger.go_on()
            rubric, policy = load_rubric("diagram"), picture_policy(parameters)
            results = Results(begun, [log.run])
            run = Run(begun, rubric, parameters, policy, vlm, ledger, Replies({}), results, budget=budget)
            return await taken_in(log, run)


@pytest.mark.parametrize(("limit", "again"), [(8.5 * CALL, False), (20 * CALL, True)])
def test_it_is_asked_again_only_if_the_budget_has_room(log: Log, limit: float, again: bool) -> None:
    budget = Budget(limit, CallCosts(TARIFF, 100))
    assert asyncio.run(take_in(log, budget)) == again
    assert budget.spent == pytest.approx(7 * CALL) and budget.waits == again
    rows = [*read_judgments(log.run)]
    assert len(rows) == 2 * len(DIMENSIONS) and [row.status for row in rows].count("unavailable") == 1
    assert len([*read_outcomes(log.run)]) == (1 if again else 2)
    assert log.turn == (2 if again else 1) and bool(budget.warnings) != again


def test_replies_that_tell_no_tokens_count_as_what_they_may_have_cost(log: Log) -> None:
    replies = log.replies(log.current[0], "output")
    lines = [json.loads(line) for line in replies.read_bytes().splitlines()]
    for line in lines:
        del line["response"]["body"]["usage"]
    replies.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    budget = Budget(1.0, CallCosts(TARIFF, 100))
    asyncio.run(take_in(log, budget))
    assert 7 * 100 * 10 / 1e6 < budget.spent < 1.0
