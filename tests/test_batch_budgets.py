"""Runs with a budget that are bought as batches: how much is handed in, what is claimed meanwhile, what is settled."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from batch_twin import BatchTwin, figures
from loopback_judge import judged_by
from loopback_replies import Reply, Request, allowed_reply
from test_collect import every_judgment, nothing_left
from test_collect import twin as twin_

from tasks.ledger.reading import read_start, run_folders
from tasks.spending import reservations

SAMPLES, CALLS = 10, 4
CALL = (1200 * 1 + 80 * 10) / 1e6
"""What a reply of the twin costs by these prices."""
PRICES = {"judge.price-in": 1, "judge.price-out": 10, "judge.max-output-tokens": 100}

twin = twin_

pytestmark = pytest.mark.usefixtures("prefect_server", "drawn_here", "laid_out")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return figures(tmp_path_factory.mktemp("figures"), SAMPLES)


def bought(twin: BatchTwin, **options: object) -> list[str]:
    return judged_by(twin, **{"judge.tier": "batch", **PRICES, **options})


def ends(store: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(file.read_bytes()) for file in sorted(store.glob("ledger/*/end.json")))


def claims(store: Path) -> dict[str, Any]:
    [file] = store.glob("budget/*.json")
    return json.loads(file.read_bytes())


def test_what_fits_is_handed_in_and_a_pilot_tells_what_calls_cost(
    tmp_path: Path,
    twin: BatchTwin,
    dataset: list[str],
    jury: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budget, store = 0.09, tmp_path / "store"
    twin.polls = 3
    monkeypatch.setenv(reservations.VARIABLE, "50")
    command = ["run", "diagram", *dataset, *bought(twin, budget=budget)]
    code, out, err = jury(*command)
    assert code == 3 and "waits for its replies" in out, err
    pilot, run = run_folders(store)
    asked_live = twin.count - 1  # but for the probe
    assert asked_live == 5 * CALLS
    assert [read_start(each).parameters["quote"] for each in (pilot, run)] == ["pilot", ""]
    [requests] = [len(file.data.splitlines()) for file in twin.uploaded]
    held = claims(store)[run.name]
    assert held["until"] is None and held["amount"] > requests * CALL
    assert requests % CALLS == 0 and 0 < requests < (SAMPLES - 5) * CALLS
    code, again, _ = jury(*command, "--budget", 0.5)
    assert code == 3 and f"Run {run.name} waits" in again and len(twin.batches) == 1

    while (code := jury("collect")[0]) and not [*ends(store)]:
        assert code == 3
    [end] = ends(store)
    stopped = end["stopped"]
    assert stopped["judged"] == 5 + requests // CALLS and stopped["samples"] == SAMPLES
    assert stopped["spent"] == pytest.approx(requests * CALL)
    assert asked_live * CALL + stopped["spent"] <= budget
    assert "5 samples were judged live first, not in the batch, for 0.04" in " ".join(end["warnings"])
    assert claims(store)[run.name] == {"amount": pytest.approx(requests * CALL), "until": None}
    rows = Counter((row.run_id == pilot.name, row.tier, bool(row.reused_from)) for row in every_judgment(store))
    assert rows == {(True, "", False): 20, (False, "", True): 20, (False, "batch", False): requests}
    assert nothing_left(twin, store)


def test_a_pilot_whose_replies_tell_no_tokens_is_no_gift(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any
) -> None:
    """What it was held to cost is gone from the budget, and nothing fits any more."""

    def without_usage(request: Request) -> Reply:
        said = allowed_reply()(request)
        return replace(said, body={**said.body, "usage": None})

    twin.answer = without_usage
    code, _, err = jury("run", "diagram", *dataset, *bought(twin, budget=0.09))
    assert code == 3 and re.search(r"judged live first, not in the batch, for 0\.0[1-9]", err), err
    [end] = ends(tmp_path / "store")
    assert not twin.uploaded and end["stopped"]["judged"] <= 5
