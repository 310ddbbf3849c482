"""Budgets of runs and of the month: limits, shares, and call prices known from earlier runs."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from factories import DIMENSIONS, NOON, end, judgment, start, write_run

from tasks.errors import InputError
from tasks.extensions.budget import announce_limit, budget_of, costs_of, release, tariff_of
from tasks.ledger.remote import Remote
from tasks.ledger.run_files import Ledger, read_start
from tasks.protocols.checklist.parameters import ChecklistParameters
from tasks.records import RunStart
from tasks.records.judge import Judge
from tasks.records.parameters import PairwiseParameters
from tasks.spending.budget import VARIABLE, Budget
from tasks.spending.prices import Amounts

JUDGE = Judge(model="gpt-x", base_url="https://judge.example/v1", price_in=1.0, price_out=10.0, max_output_tokens=1000)
PLANNED = dict.fromkeys(DIMENSIONS, 10)
"""Dimension -> planned calls of a run."""
NOW = start("20261121T120000-diagram-now", judge=JUDGE.model, endpoint=JUDGE.base_url)


def begin_budget(store: Path, now: RunStart = NOW, **given: Any) -> Budget:
    """Return the budget of a run that begins now."""
    parameters = PairwiseParameters(judge=JUDGE, **given)
    tariff = tariff_of(parameters.judge, parameters.budget)
    assert tariff
    return asyncio.run(budget_of(parameters, tariff, store, None, now, PLANNED))


def test_expected_prices_begin_with_those_of_earlier_runs(tmp_path: Path) -> None:
    rows = [judgment(f"s{n}", one, tokens_in=1000, tokens_out=100 + n) for one in DIMENSIONS[:3] for n in range(100)]
    parameters = PairwiseParameters(judge=JUDGE).model_dump(mode="json")
    write_run(tmp_path, start(parameters=parameters), rows, end())
    budget = begin_budget(tmp_path, NOW.model_copy(update={"parameters": parameters}), budget=1)
    assert budget.expected("readability", 10_000) == pytest.approx((1000 + 10 * 195) / 1e6, rel=0.01)
    assert budget.expected(DIMENSIONS[3], 10_000) == pytest.approx((10_000 + 10 * 1000) / 1e6)


@pytest.mark.parametrize(("instrument", "tokens"), [("single", 1000), ("soft", 16)])
def test_unknown_price_goes_by_the_longest_reply_of_the_instrument(
    tmp_path: Path, instrument: str, tokens: int
) -> None:
    asked = ChecklistParameters.model_validate({"judge": JUDGE, "instrument": instrument})
    tariff = tariff_of(JUDGE, 1.0)
    assert tariff
    costs = costs_of(asked, tmp_path, NOW.model_copy(update={"dimensions": (instrument,)}), tariff)
    assert costs.of(instrument, 10_000) == pytest.approx((10_000 + 10 * tokens) / 1e6)


class Run:
    """A run that makes calls one after another while its budget lasts, in a ledger of its own."""

    def __init__(self, store: Path, name: str, remote: Remote | None = None, **changes: Any) -> None:
        now = datetime.now(UTC).isoformat()
        self.start = start(name, judge=JUDGE.model, endpoint=JUDGE.base_url, started_at=now, **changes)
        self.ledger, self.store, self.remote = Ledger(store, self.start), store, remote
        self.spent, self.price, self.limit = 0.0, 0.07, 0.0

    async def judges(self, most: int = 10**6, waits: bool = False, **given: Any) -> None:
        """Make at most this many calls and end; or, with `waits`, submit them as a batch and wait."""
        parameters = PairwiseParameters(judge=JUDGE, **given)
        tariff = tariff_of(parameters.judge, parameters.budget)
        assert tariff
        budget = await budget_of(parameters, tariff, self.store, self.remote, self.start, PLANNED)
        assert budget.share
        announce_limit(budget.share, cast("Any", self), self.remote)
        for call in range(most):
            if not await budget.fits_now({call: self.price}):
                break
            self.limit = budget.share.amount
            await asyncio.sleep(0)  # lets other runs go on while the call is in flight
            if not waits:
                self._settle(budget, call)
        if waits:
            await budget.wait()
        await release(budget)
        if not waits:
            self.ledger.end(end(self.start.run_id))
        self.ledger.close()

    def _settle(self, budget: Budget, call: int) -> None:
        budget.settle(call, DIMENSIONS[0], self.price)
        self.spent += self.price
        about = {"run_id": self.start.run_id, "judged_at": datetime.now(UTC).isoformat()}
        self.ledger.append(judgment(f"s{call}", price=self.price, **about))


@pytest.fixture
def month(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "10")


@pytest.mark.usefixtures("month")
def test_successive_runs_stay_within_the_monthly_budget(tmp_path: Path) -> None:
    one, other, third = (Run(tmp_path, name) for name in ("1-one", "2-other", "3-third"))
    asyncio.run(one.judges(50))
    assert one.spent == pytest.approx(3.5), "an ended run releases the rest of its limit"
    asyncio.run(other.judges())
    asyncio.run(third.judges())
    assert 10.0 - one.price <= one.spent + other.spent <= 10.0 + 1e-9 and third.spent == 0.0


@pytest.mark.usefixtures("month")
def test_machines_sharing_a_bucket_share_the_monthly_budget(tmp_path: Path) -> None:
    remotes = [Remote(f"file://{tmp_path}/bucket", tmp_path / name) for name in ("one", "other")]
    before = datetime.now(UTC).replace(day=1, hour=0) - timedelta(hours=2)  # it goes on after the end of its month
    names = f"{before:%Y%m%dT%H%M%S}-diagram-0000aa", "2999-other"
    one, other = (Run(remote.folder, name, remote) for name, remote in zip(names, remotes, strict=True))

    async def scene() -> None:
        await one.judges(50)
        remotes[0].send(one.start.run_id)
        waits = Run(remotes[0].folder, "2999-waits", remotes[0])
        await waits.judges(30, waits=True)
        await other.judges()

    asyncio.run(scene())
    assert other.spent == pytest.approx(10.0 - 3.5 - 2.1, abs=other.price) and other.spent <= 10.0 - 3.5 - 2.1


@pytest.mark.usefixtures("month")
def test_limit_of_a_run_is_estimated_from_known_prices(tmp_path: Path) -> None:
    parameters = PairwiseParameters(judge=JUDGE, votes=2).model_dump(mode="json")
    rows = [judgment(f"s{n}", one, tokens_in=1000, tokens_out=100, price=0.0) for one in DIMENSIONS for n in range(100)]
    write_run(tmp_path, start(parameters=parameters), rows, end())
    run = Run(tmp_path, "2999-now", parameters=parameters)
    run.price = 0.001
    asyncio.run(run.judges(1, votes=2))
    assert run.limit == pytest.approx(1.25 * sum(PLANNED.values()) * (1000 + 10 * 100) / 1e6)
    assert read_start(run.ledger.folder).spending_limit == run.spent


def test_judge_listed_as_free_fits_any_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 'endpoint="http://127.0.0.1"\nmodel="*"\ninput=0\noutput=0\nlooked_up=2026-11-01\n'
    (tmp_path / "own.toml").write_text(f"[ours]\n{free}")
    parameters = PairwiseParameters(judge=Judge(model="m", base_url="http://127.0.0.1:8000/v1"), budget=0.01)
    with pytest.raises(InputError, match="the prices of a million tokens, 0 for a judge that costs nothing"):
        tariff_of(parameters.judge, parameters.budget)
    monkeypatch.setenv("JURY_PRICES", str(tmp_path / "own.toml"))
    tariff = tariff_of(parameters.judge, parameters.budget)
    own = tariff_of(parameters.judge.model_copy(update={"price_in": 0.0, "price_out": 0.0}), parameters.budget)
    assert tariff and own and tariff.price(Amounts(1e6, 0, 0, 1e6)) == own.price(Amounts(1e6, 0, 0, 1e6)) == 0


def test_calls_of_unknown_price_cause_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC).isoformat()
    rows = [judgment(price=None, judged_at=now), judgment("s2", price=None, judged_at=NOON.replace("2026", "2025"))]
    write_run(tmp_path, start(), rows, end())
    monkeypatch.setenv(VARIABLE, "10")
    assert "JURY_BUDGET_MONTH does not count 1 calls of " in begin_budget(tmp_path).warnings[0]
    monkeypatch.delenv(VARIABLE)
    assert not begin_budget(tmp_path, budget=1).warnings
