"""Schedules over a week of nights and three restarts of `jury up`; `unattended` lets them run and tells."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from unattended import (
    DEPLOYMENTS,
    EDITED,
    EDITED_LIST,
    KILLED,
    NIGHTLY,
    OURS,
    PAUSED,
    RUNNING,
    SCHEDULE_PAUSED,
    STARTS,
    WEEKLY,
)

# The wait is for full minutes, and is only felt where these tests run alone.
pytestmark = pytest.mark.timeout(500)
RESTARTS = range(1, len(STARTS))


@pytest.fixture(scope="module")
def seen(beside: Callable[[str], str]) -> dict[str, Any]:
    return json.loads(beside("unattended"))


def at(seen: dict[str, Any], start: int, name: str) -> dict[str, Any]:
    """A deployment as it was once `jury up` had started for that time, and people had changed it in the first."""
    return seen["starts"][start]["there"][name]


def schedules(deployment: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {
        each["slug"]: (each["schedule"]["cron"], each["schedule"]["timezone"], each["active"], each["parameters"])
        for each in deployment["schedules"]
    }


def test_a_cron_of_every_minute_runs_by_itself_before_and_after_restarts(seen: dict[str, Any]) -> None:
    assert seen["first"] and seen["last"]
    for run in [*seen["first"], *seen["last"]]:
        assert run["auto_scheduled"] and run["state_name"] == "Completed", run["state"]["message"]


@pytest.mark.parametrize("restart", RESTARTS)
def test_a_restart_loses_no_schedule_and_pauses_none(seen: dict[str, Any], restart: int) -> None:
    for name in DEPLOYMENTS:
        [schedule] = at(seen, restart, name)["schedules"]
        [earlier] = at(seen, 0, name)["schedules"]
        assert (schedule["slug"], schedule["schedule"]) == (earlier["slug"], earlier["schedule"])
    [schedule] = at(seen, restart, RUNNING)["schedules"]
    assert schedule["active"] and not at(seen, restart, RUNNING)["paused"]


@pytest.mark.parametrize("restart", RESTARTS)
def test_what_a_person_paused_stays_paused_over_a_restart(seen: dict[str, Any], restart: int) -> None:
    [schedule] = at(seen, restart, SCHEDULE_PAUSED)["schedules"]
    assert not schedule["active"] and not at(seen, restart, SCHEDULE_PAUSED)["paused"]
    assert at(seen, restart, PAUSED)["paused"]
    since = seen["last"][0]["expected_start_time"]
    paused = {at(seen, restart, name)["id"] for name in (SCHEDULE_PAUSED, PAUSED)}
    late = {run["deployment_id"] for run in seen["runs"] if run["expected_start_time"] >= since}
    assert late and not late & paused


@pytest.mark.parametrize("restart", RESTARTS)
def test_what_a_person_edited_stays_over_a_restart_and_is_told(seen: dict[str, Any], restart: int) -> None:
    before, after = (at(seen, start, EDITED) for start in (0, restart))
    assert schedules(after) == schedules(before) and {*schedules(after)} == {NIGHTLY, WEEKLY, OURS}
    assert not schedules(after)[WEEKLY][2]
    assert after["parameters"]["parameters"]["votes"] == 2
    said = seen["starts"][restart]["said"]
    assert "votes is 2, as changed here; in the list it is 1" in said
    assert "schedule weekly active is False, as changed here; in the list it is True" in said
    assert "schedule nightly when is " in said and "schedule nightly parameters is {" in said


def test_a_week_of_nights_is_judged_as_people_and_the_edited_list_say(seen: dict[str, Any]) -> None:
    nights = seen["nights"]
    assert len({night["run"]["expected_start_time"] for night in nights}) == len(nights) == 7
    for night in nights:
        assert night["run"]["auto_scheduled"] and night["run"]["state_name"] == "Completed", night["run"]["state"]
        [asked] = night["asked"]
        assert (asked["limit"], asked["candidate"], asked["votes"]) == (1, ["careless"], 2)
    edited = sum(nights for nights, _ in STARTS[:EDITED_LIST])
    reused = [night["asked"][0]["reuse_hours"] for night in nights]
    assert 0 not in reused[:edited] and {*reused[edited:]} == {0}, "the list was edited after that night"


def test_a_server_that_is_killed_begins_again_and_its_nights_are_judged(seen: dict[str, Any]) -> None:
    for start, words in enumerate(seen["starts"]):
        assert words["in_the_end"].count("the Prefect server has ended; its last words are in ") == (start == KILLED)
        assert "Traceback" not in words["in_the_end"]


def test_a_schedule_that_a_person_added_runs_as_that_person_says(seen: dict[str, Any]) -> None:
    [asked] = seen["ours"]["asked"]
    assert (asked["limit"], asked["candidate"], asked["votes"]) == (1, ["steady"], 2)


def test_a_judge_that_has_ended_is_told_with_its_deployment_when_schedules_are_served(seen: dict[str, Any]) -> None:
    said = seen["starts"][0]["said"]
    assert f"warning: the judge gpt-4-turbo (OpenAI) ended on 2026-10-23: {PAUSED} (by https://" in said
