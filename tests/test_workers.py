"""An evaluation in shards survives the death of a worker: what `two_workers.py` has seen."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from postgres import programs
from two_workers import IN_FLIGHT, SAMPLES, SHARDS

CALLS = 4 * SAMPLES

# The wait is for Prefect to notice a death, and is only felt where these tests run alone.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def seen(beside: Callable[[str], str]) -> dict[str, Any]:
    if not programs():
        pytest.skip("PostgreSQL is not installed")
    return json.loads(beside("two_workers"))


def test_the_evaluation_completes_on_the_other_worker(seen: dict[str, Any]) -> None:
    assert seen["code"] == 0, seen["said"]
    assert seen["said"].count("its process vanished, it is run again") == 1
    assert "200/200" in seen["said"]


def test_a_third_place_shows_all_of_it_as_one(seen: dict[str, Any]) -> None:
    assert seen["leaderboard"] == [{"n": SAMPLES, "scored": SAMPLES}]
    assert seen["evaluations"] == [{"samples": SAMPLES, "shards": SHARDS}]
    assert seen["runs"] == [{"status": "finished", "n": SHARDS}, {"status": "unfinished", "n": 1}]


def test_only_what_the_dead_worker_had_not_sent_is_judged_again(seen: dict[str, Any]) -> None:
    assert seen["calls"] == CALLS
    assert seen["again"] <= 2 * IN_FLIGHT
