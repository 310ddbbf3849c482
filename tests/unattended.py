"""`jury up` over a week of nights and three restarts, while people change things in its UI, or leave it to itself.

What was seen is printed as JSON, for `test_schedules` to judge. A program of its own: it mostly waits, so `conftest`
lets it do that beside the other tests.
"""

import json
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from served import Up, free_port, jury_up, wait_for

from flows.runtime.server import running
from tasks.synthetic.samples import drawn_samples

RUNNING, SCHEDULE_PAUSED, PAUSED = "running", "schedule-paused", "paused"
DEPLOYMENTS = RUNNING, SCHEDULE_PAUSED, PAUSED
"""All are due every minute. A person pauses the schedule of the second; the third, whose judge is gone, as a whole."""
EDITED, NIGHTLY, WEEKLY, OURS = "edited", "nightly", "weekly", "ours"
"""A deployment of which a person changes everything, with its two schedules, and the one that the person adds."""
STARTS = ((2, signal.SIGINT), (2, signal.SIGTERM), (2, signal.SIGINT), (1, signal.SIGTERM))
"""Nights of each start, and what ends it."""
EDITED_LIST = 2
"""From this start on the list says that nothing is reused."""
KILLED = 1
"""In this start the server is killed before the nights."""
PATIENCE_SECONDS = 150
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}


def write_list(path: Path, dataset: Path, **form: Any) -> str:
    """A list of deployments of small evaluations."""
    judged = {"dataset": str(dataset)}
    made = [_listed(name, {"every-minute": "* * * * *"}, {"limit": 1, **judged}) for name in DEPLOYMENTS]
    made[-1]["parameters"]["parameters"]["judge"] = {"model": "gpt-4-turbo", "base_url": "openai"}
    nights = {NIGHTLY: "0 2 * * *", WEEKLY: "0 4 * * 0"}
    edited = _listed(EDITED, nights, {"candidate": ["steady"], "limit": 2, **judged, **form})
    path.write_text(yaml.safe_dump({"deployments": [*made, edited]}))
    return str(path)


def _listed(name: str, crons: dict[str, str], form: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "entrypoint": "flows.counting.counting",
        "description": "Due again and again.",
        "tags": ["test"],
        "schedules": [{"slug": slug, "cron": cron, "timezone": "Europe/Berlin"} for slug, cron in crons.items()],
        "parameters": {"parameters": form},
    }


def pause_two(up: Up) -> None:
    """As the switches of the Prefect UI do it."""
    change_schedule(up, SCHEDULE_PAUSED, "every-minute", active=False)
    change(up, PAUSED, paused=True)


def edit_one(up: Up) -> None:
    """As the forms of the Prefect UI do it: a cron, an override, an added schedule, one switched off, a parameter."""
    override = {"parameters": {"limit": 1, "candidate": ["careless"]}}
    soon = datetime.now(UTC) + timedelta(minutes=20)  # Prefect plans an hour ahead: a whole week, and none is due yet
    minutes = ",".join(f"{(soon + timedelta(minutes=each)).minute}" for each in range(7))
    change_schedule(
        up, EDITED, NIGHTLY, schedule={"cron": f"{minutes} * * * *", "timezone": "UTC"}, parameters=override
    )
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


def night(up: Up, slug: str) -> dict[str, Any]:
    """The next run that is planned for a schedule of the edited deployment, due now as by a clock that runs fast.

    Returns:
        `run` as it ended, and `asked`, the parameters by which it judged.
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


def kill_server(up: Up) -> None:
    """As the system does that is short of memory; wait until there is another."""
    first = running(up.store)
    assert first
    os.kill(first.pid, signal.SIGKILL)
    wait_for(lambda: (running(up.store) or first).pid != first.pid, PATIENCE_SECONDS)


def ended(up: Up, since: str) -> list[dict[str, Any]]:
    """Runs of the deployment that nobody touched that were due since then and have ended, the oldest first."""
    own = up.deployment(f"counting/{RUNNING}")["id"]
    return [
        run
        for run in up.runs()
        if run["deployment_id"] == own and run["expected_start_time"] > since and run["state_type"] in ENDED
    ]


def watch(folder: Path) -> dict[str, Any]:
    """Start, let nights pass, stop, start again; the first and the last time a cron of every minute is waited for."""
    listed, store, port = folder / "prefect.yaml", folder / "store", free_port()
    drawn = drawn_samples(folder / "drawn", "counting", prompts=2)  # once, and not by each run
    seen: dict[str, Any] = {"starts": [], "nights": []}
    for start, (nights, number) in enumerate(STARTS):
        given = write_list(listed, drawn, **({"reuse_hours": 0} if start >= EDITED_LIST else {}))
        with jury_up(store, port, "--deployments", given, ended_by=number) as up:
            began = _now()
            if not start:
                pause_two(up)
                edit_one(up)
            there = {name: up.deployment(f"counting/{name}") for name in (*DEPLOYMENTS, EDITED)}
            seen["starts"].append({"there": there, "said": up.said()})
            if start == KILLED:
                kill_server(up)
            seen["nights"] += [night(up, NIGHTLY) for _ in range(nights)]
            if start in (0, len(STARTS) - 1):
                wait_for(lambda up=up, began=began: ended(up, began), PATIENCE_SECONDS)
                seen["last" if start else "first"] = ended(up, began)
            if start == len(STARTS) - 1:
                seen |= {"ours": night(up, OURS), "runs": up.runs()}
            wait_for(lambda up=up: all(run["state_type"] in ENDED for run in up.runs()), PATIENCE_SECONDS)
            seen["starts"][-1]["in_the_end"] = up.said()
    return seen


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"


if __name__ == "__main__":
    print(json.dumps(watch(Path(sys.argv[1]))))
