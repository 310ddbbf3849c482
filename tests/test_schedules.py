"""Schedules with nobody at the keyboard, over a restart of `jury up`; `unattended` lets them run and tells."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from unattended import DEPLOYMENTS, PAUSED, RUNNING, SCHEDULE_PAUSED

# The wait is for full minutes, and is only felt where these tests run alone.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def seen(beside: Callable[[str], str]) -> dict[str, Any]:
    return json.loads(beside("unattended"))


def test_a_cron_of_every_minute_runs_by_itself_before_and_after_a_restart(seen: dict[str, Any]) -> None:
    assert seen["first"] and seen["then"]
    for run in [*seen["first"], *seen["then"]]:
        assert run["auto_scheduled"] and run["state_name"] == "Completed", run["state"]["message"]


def test_a_restart_loses_no_schedule_and_pauses_none(seen: dict[str, Any]) -> None:
    for name in DEPLOYMENTS:
        [schedule] = seen["after"][name]["schedules"]
        [earlier] = seen["before"][name]["schedules"]
        assert (schedule["slug"], schedule["schedule"]) == (earlier["slug"], earlier["schedule"])
    [schedule] = seen["after"][RUNNING]["schedules"]
    assert schedule["active"] and not seen["after"][RUNNING]["paused"]


def test_what_a_person_paused_stays_paused_over_a_restart(seen: dict[str, Any]) -> None:
    [schedule] = seen["after"][SCHEDULE_PAUSED]["schedules"]
    assert not schedule["active"] and not seen["after"][SCHEDULE_PAUSED]["paused"]
    assert seen["after"][PAUSED]["paused"]
    since = seen["then"][0]["expected_start_time"]
    late = {run["deployment_id"] for run in seen["runs"] if run["expected_start_time"] >= since}
    assert late == {seen["after"][RUNNING]["id"]}


def test_a_judge_that_has_ended_is_told_with_its_deployment_when_schedules_are_served(seen: dict[str, Any]) -> None:
    assert f"warning: the judge gpt-4-turbo (OpenAI) ended on 2026-10-23: {PAUSED} (by https://" in seen["said"]
