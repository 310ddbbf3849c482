"""Schedules of `jury up` over several nights and a restart, with and without edits in its UI.

As a program, let the nights pass and print the observations as JSON. It mostly waits, so `conftest` runs it beside the
other tests.
"""

import json
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from served import ENDED, Up, free_port, jury_up, listed, wait_for, write_list

from tasks.demo.samples import drawn_samples

RUNNING, SCHEDULE_PAUSED, PAUSED = "running", "schedule-paused", "paused"
DEPLOYMENTS = RUNNING, SCHEDULE_PAUSED, PAUSED
"""All are due every minute. A person pauses the second one's schedule, and the third one as a whole."""
EDITED, NIGHTLY, WEEKLY, OURS = "edited", "nightly", "weekly", "ours"
"""A deployment that a person edits everywhere, its two schedules, and the schedule that the person adds."""
STARTS = ((1, signal.SIGINT), (1, signal.SIGTERM))
"""Number of nights of each start, and the signal that ends it."""
EDITED_LIST = 1
"""From this start on, the list turns off reuse."""
PATIENCE_SECONDS = 300


def write_deployments(path: Path, dataset: Path, **form: Any) -> str:
    judged = {"dataset": str(dataset)}
    often = [listed(name, {"every-minute": "* * * * *"}, {"limit": 1, **judged}) for name in DEPLOYMENTS]
    nights = {NIGHTLY: "0 2 * * *", WEEKLY: "0 4 * * 0"}
    edited = {"candidate": ["steady"], "limit": 2, **judged, **form}
    return write_list(path, *often, listed(EDITED, nights, edited, "Europe/Berlin"))


def pause_two(up: Up) -> None:
    change_schedule(up, SCHEDULE_PAUSED, "every-minute", active=False)
    change(up, PAUSED, paused=True)


def edit_one(up: Up) -> None:
    """Edit like the forms of the Prefect UI: a cron, an override, an added schedule, one turned off, a parameter."""
    override = {"parameters": {"limit": 1, "candidate": ["careless"]}}
    soon = datetime.now(UTC) + timedelta(minutes=20)  # Prefect plans one hour ahead: all are planned, none is due
    minutes = ",".join(f"{(soon + timedelta(minutes=each)).minute}" for each in range(7))
    hourly = {"cron": f"{minutes} * * * *", "timezone": "UTC"}
    change_schedule(up, EDITED, NIGHTLY, schedule=hourly, parameters=override)
    change_schedule(up, EDITED, WEEKLY, active=False)
    added = {"slug": OURS, "active": True, "schedule": {"cron": "30 6 * * 1", "timezone": "UTC"}}
    there = up.deployment(f"counting/{EDITED}")
    up.api(f"/deployments/{there['id']}/schedules", [{**added, "parameters": {"parameters": {"limit": 1}}}])
    change(up, EDITED, parameters={"parameters": {**there["parameters"]["parameters"], "votes": 2}})


def change(up: Up, name: str, **fields: Any) -> None:
    up.api(f"/deployments/{up.deployment(f'counting/{name}')['id']}", fields, "PATCH")


def change_schedule(up: Up, name: str, slug: str, **fields: Any) -> None:
    deployment = up.deployment(f"counting/{name}")
    [schedule] = [each for each in deployment["schedules"] if each["slug"] == slug]
    up.api(f"/deployments/{deployment['id']}/schedules/{schedule['id']}", fields, "PATCH")


def run_night(up: Up, slug: str) -> dict[str, Any]:
    """Run the next planned run of a schedule of the edited deployment now, as if its time had come.

    Returns:
        `run` in its final state, and `asked`, the parameters that it judged with.
    """
    wanted = {"deployment_id": {"any_": [up.deployment(f"counting/{EDITED}")["id"]]}}
    sought = {"flow_runs": {**wanted, "state": {"type": {"any_": ["SCHEDULED"]}}}, "sort": "EXPECTED_START_TIME_ASC"}

    def planned() -> list[str]:
        there = up.api("/flow_runs/filter", sought)
        return [run["id"] for run in there if (run["created_by"] or {}).get("display_value") == slug]

    wait_for(planned, PATIENCE_SECONDS)
    run = f"/flow_runs/{planned()[0]}"
    up.api(f"{run}/set_state", {"state": {"type": "SCHEDULED"}, "force": True})
    wait_for(lambda: up.api(run)["state_type"] in ENDED, PATIENCE_SECONDS)
    done = up.api(run)
    starts = [json.loads(file.read_bytes()) for file in up.store.glob("ledger/*/run.json")]
    return {"run": done, "asked": [each["parameters"] for each in starts if each["prefect_run_id"] == done["id"]]}


def finished_runs(up: Up, since: str) -> list[dict[str, Any]]:
    """Return finished runs of the unedited deployment that were due since then, the oldest first.

    On a busy machine a run may take more than its minute; the next one is then correctly skipped.
    """
    own = up.deployment(f"counting/{RUNNING}")["id"]
    due = [run for run in up.runs() if run["deployment_id"] == own and run["expected_start_time"] > since]
    return [run for run in due if run["state_type"] in ENDED and run["state_name"] != "Skipped"]


def watch(folder: Path) -> dict[str, Any]:
    """Start, let nights pass, stop, and start again; wait for a run of the every-minute cron each time."""
    store, port = folder / "store", free_port()
    drawn = drawn_samples(folder / "drawn", "counting", prompts=2)  # drawn once instead of by each run
    seen: dict[str, Any] = {"starts": [], "nights": []}
    for start, (nights, number) in enumerate(STARTS):
        form = {"reuse_hours": 0} if start >= EDITED_LIST else {}
        given = write_deployments(folder / "prefect.yaml", drawn, **form)
        with jury_up(store, port, "--deployments", given, ended_by=number) as up:
            began = _now()
            if not start:
                pause_two(up)
                edit_one(up)
            there = {name: up.deployment(f"counting/{name}") for name in (*DEPLOYMENTS, EDITED)}
            seen["starts"].append({"there": there, "output": up.output()})
            seen["nights"] += [run_night(up, NIGHTLY) for _ in range(nights)]
            wait_for(lambda up=up, began=began: finished_runs(up, began), PATIENCE_SECONDS)
            seen["last" if start else "first"] = finished_runs(up, began)
            if start:
                seen |= {"ours": run_night(up, OURS), "runs": up.runs()}
            wait_for(lambda up=up: all(run["state_type"] in ENDED for run in up.runs()), PATIENCE_SECONDS)
            seen["starts"][-1]["in_the_end"] = up.output()
    return seen


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"


# The wait is for full minutes; it is noticeable only if these tests run alone.
pytestmark = pytest.mark.timeout(1000)
RESTART = 1


@pytest.fixture(scope="module")
def seen(program_output: Callable[[str], str]) -> dict[str, Any]:
    return json.loads(program_output("test_schedules"))


def at(seen: dict[str, Any], start: int, name: str) -> dict[str, Any]:
    """Return a deployment after this start of `jury up`; after the first one, with people's edits."""
    return seen["starts"][start]["there"][name]


def test_every_minute_schedule_runs_before_and_after_a_restart(seen: dict[str, Any]) -> None:
    assert seen["first"] and seen["last"]
    for run in [*seen["first"], *seen["last"]]:
        assert run["auto_scheduled"] and run["state_name"] == "Completed", run["state"]["message"]


def test_restart_keeps_schedules_active(seen: dict[str, Any]) -> None:
    for name in DEPLOYMENTS:
        [schedule] = at(seen, RESTART, name)["schedules"]
        [earlier] = at(seen, 0, name)["schedules"]
        assert (schedule["slug"], schedule["schedule"]) == (earlier["slug"], earlier["schedule"])
    [schedule] = at(seen, RESTART, RUNNING)["schedules"]
    assert schedule["active"] and not at(seen, RESTART, RUNNING)["paused"]


def test_paused_schedules_and_deployments_stay_paused_after_a_restart(seen: dict[str, Any]) -> None:
    [schedule] = at(seen, RESTART, SCHEDULE_PAUSED)["schedules"]
    assert not schedule["active"] and not at(seen, RESTART, SCHEDULE_PAUSED)["paused"]
    assert at(seen, RESTART, PAUSED)["paused"]
    since = seen["last"][0]["expected_start_time"]
    paused = {at(seen, RESTART, name)["id"] for name in (SCHEDULE_PAUSED, PAUSED)}
    late = {run["deployment_id"] for run in seen["runs"] if run["expected_start_time"] >= since}
    assert late and not late & paused


def test_ui_edits_survive_a_restart_and_are_reported(seen: dict[str, Any]) -> None:
    there = (at(seen, start, EDITED)["schedules"] for start in (0, RESTART))
    before, after = (
        {one["slug"]: (one["schedule"], one["active"], one["parameters"]) for one in found} for found in there
    )
    assert after == before and {*after} == {NIGHTLY, WEEKLY, OURS} and not after[WEEKLY][1]
    assert "votes is 2, as changed here; in the list it is 1" in seen["starts"][RESTART]["output"]


def test_nights_use_ui_edits_and_the_edited_list(seen: dict[str, Any]) -> None:
    nights = seen["nights"]
    assert (
        len({night["run"]["expected_start_time"] for night in nights}) == len(nights) == sum(each for each, _ in STARTS)
    )
    for night in nights:
        assert night["run"]["auto_scheduled"] and night["run"]["state_name"] == "Completed", night["run"]["state"]
        [asked] = night["asked"]
        assert (asked["limit"], asked["candidate"], asked["votes"]) == (1, ["careless"], 2)
    edited = sum(nights for nights, _ in STARTS[:EDITED_LIST])
    reused = [night["asked"][0]["reuse_hours"] for night in nights]
    assert 0 not in reused[:edited] and {*reused[edited:]} == {0}, "reuse is off only after the edit of the list"


def test_nights_log_no_errors(seen: dict[str, Any]) -> None:
    for words in seen["starts"]:
        assert "the Prefect server has ended" not in words["in_the_end"] and "Traceback" not in words["in_the_end"]


def test_schedule_added_in_the_ui_runs_with_its_parameters(seen: dict[str, Any]) -> None:
    [asked] = seen["ours"]["asked"]
    assert (asked["limit"], asked["candidate"], asked["votes"]) == (1, ["steady"], 2)


if __name__ == "__main__":
    print(json.dumps(watch(Path(sys.argv[1]))))
