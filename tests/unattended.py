"""`jury up` left to itself over a restart. What was seen is printed as JSON, for `test_schedules` to judge.

A program of its own: it mostly waits for full minutes, so `conftest` lets it do that beside the other tests.
"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from served import Up, free_port, jury_up, wait_for

RUNNING, SCHEDULE_PAUSED, PAUSED = "running", "schedule-paused", "paused"
DEPLOYMENTS = RUNNING, SCHEDULE_PAUSED, PAUSED
"""All are due every minute. A person pauses the schedule of the second; the third, whose judge is gone, as a whole."""
PATIENCE_SECONDS = 150
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}


def write_list(path: Path) -> Path:
    """A list of deployments of one small evaluation."""
    every_minute = {"slug": "every-minute", "cron": "* * * * *", "timezone": "Europe/Berlin"}
    common = {
        "entrypoint": "flows.counting.counting",
        "description": "Due every minute.",
        "tags": ["test"],
        "schedules": [every_minute],
        "parameters": {"parameters": {"dataset": "samples", "limit": 1}},
    }
    listed: list[dict[str, Any]] = [{"name": name, **common} for name in DEPLOYMENTS]
    listed[-1]["parameters"] = {"parameters": {"judge": {"model": "gpt-4-turbo", "base_url": "openai"}}}
    path.write_text(yaml.safe_dump({"deployments": listed}))
    return path


def pause_two(up: Up) -> None:
    """As the switches of the Prefect UI do it."""
    deployment = up.deployment(f"counting/{SCHEDULE_PAUSED}")
    [schedule] = deployment["schedules"]
    up.api(f"/deployments/{deployment['id']}/schedules/{schedule['id']}", {"active": False}, "PATCH")
    up.api(f"/deployments/{up.deployment(f'counting/{PAUSED}')['id']}", {"paused": True}, "PATCH")


def ended(up: Up, since: str) -> list[dict[str, Any]]:
    """Runs of the deployment that nobody paused that were due since then and have ended, the oldest first."""
    own = up.deployment(f"counting/{RUNNING}")["id"]
    return [
        run
        for run in up.runs()
        if run["deployment_id"] == own and run["expected_start_time"] > since and run["state_type"] in ENDED
    ]


def watch(folder: Path) -> dict[str, Any]:
    """Wait for a run, restart, and wait for a run that came due after the restart."""
    listed, port, began = str(write_list(folder / "prefect.yaml")), free_port(), _now()
    with jury_up(folder / "store", port, "--deployments", listed) as up:
        pause_two(up)
        before, said = _told(up), (folder / "store-up.log").read_text()
        wait_for(lambda: ended(up, began), PATIENCE_SECONDS)
        first = ended(up, began)
    with jury_up(folder / "store", port, "--deployments", listed) as up:
        restarted, after = _now(), _told(up)
        wait_for(lambda: ended(up, restarted), PATIENCE_SECONDS)
        seen = {"before": before, "after": after, "first": first, "then": ended(up, restarted), "runs": up.runs()}
        return {**seen, "said": said}


def _told(up: Up) -> dict[str, Any]:
    return {name: up.deployment(f"counting/{name}") for name in DEPLOYMENTS}


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"


if __name__ == "__main__":
    print(json.dumps(watch(Path(sys.argv[1]))))
