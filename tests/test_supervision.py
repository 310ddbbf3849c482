"""`jury up` over two starts: edits in its UI, kills of its processes and of all of it, and nights due meanwhile.

As a program, play this one scenario and print the observations as JSON. It mostly waits, so `conftest` runs it beside
the other tests, which check its observations. Its server requires a sign-in. The processes of the second start, and of
other commands, are forked from one with everything imported; those of the first start are what a user has.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import urllib.error
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, Request, allowed_reply, delayed
from served import (
    ENDED,
    JURY,
    Up,
    command,
    environment,
    free_port,
    jury_up,
    listed,
    wait_for,
    words_after_the_start,
    write_list,
)

from flows.server.server import SIGN_IN_FILE, home
from tasks.demo.samples import drawn_samples
from tasks.ledger.run_files import JUDGMENTS

SCHEDULE_PAUSED, PAUSED, EDITED = DEPLOYMENTS = "schedule-paused", "paused", "edited"
"""A person pauses the schedule of the first one, and the second one as a whole; then both are due every minute. The
third one is edited everywhere."""
OFTEN = "often"
"""Schedule of the paused deployments, due once a year until they are paused: before that, a minute may pass."""
NIGHTLY, WEEKLY, OURS = "nightly", "weekly", "ours"
"""Two schedules of the edited deployment, and the schedule that the person adds."""
EVERY_MINUTE = {"cron": "* * * * *", "timezone": "UTC"}
FEWER = {"parameters": {"limit": 9}}
"""Parameters of the added schedule."""
RUNNER, SERVER = "flows.server.runner", "flows.server.server_process"
CONCURRENCY = 2
LAST = ENDED - {"CRASHED"}
"""Final states of a run; a crashed run is restarted."""
NIGHTS = 3
"""Runs that come due while `jury up` is down."""


class Scene:
    """`jury up` with a list, and a slow judge that counts its requests."""

    def __init__(self, folder: Path, judge: LoopbackJudge, jury: str) -> None:
        self.jury = jury
        self.store, self.port, self.list = folder / "store", free_port(), folder / "prefect.yaml"
        self.images = str(drawn_samples(folder / "drawn", "counting", prompts=3))
        self.asked, self.seeds, self.seconds = Counter[bytes](), count(), 0.4
        plain = allowed_reply()

        def answer(request: Request) -> Reply:
            self.asked[request.raw] += 1
            return delayed(plain(request), self.seconds)

        judge.answer = answer
        self.judge = {"model": "slow", "base_url": judge.base_url, "concurrency": CONCURRENCY}

    def up(self, ended_by: signal.Signals, program: str, **form: Any) -> AbstractContextManager[Up]:
        """Start `jury up`; `form` adds parameters to the edited deployment in the list."""
        judged, often = {"dataset": self.images, "limit": 12}, {OFTEN: "0 4 1 1 *"}
        nights, edited = {NIGHTLY: "0 2 * * *", WEEKLY: "0 4 * * 0"}, {"candidate": ["steady"], "judge": self.judge}
        paused = (listed(name, often, judged) for name in (SCHEDULE_PAUSED, PAUSED))
        write_list(self.list, *paused, listed(EDITED, nights, {**judged, **edited, **form}, "Europe/Berlin"))
        options = "--auth", "--deployments", str(self.list)
        return jury_up(self.store, self.port, *options, ended_by=ended_by, program=program)

    def wait_for_replies(self, start: Callable[[], Any]) -> Any:
        """Start a run; wait until some replies are stored, none of them reused. Return what the start returned.

        The first replies wait for the table of prices: until then, more than the calls in flight can be lost.
        """
        self.asked.clear()
        before = self.stored()
        run = start()
        wait_for(lambda: self.stored() > before + CONCURRENCY)
        return run

    def press_run(self, up: Up) -> str:
        form = {"judge": {"seed": next(self.seeds)}, "reuse_hours": 20, "dataset": os.path.relpath(self.images)}
        return self.wait_for_replies(lambda: up.start_run(f"counting/{EDITED}", **form))

    def stored(self) -> int:
        return sum(rows.read_bytes().count(b"\n") for rows in (self.store / "ledger").glob(f"*/{JUDGMENTS}"))

    def repeated_calls(self) -> int:
        return self.asked.total() - len(self.asked)

    def parameters(self, run: str) -> list[dict[str, Any]]:
        """Return the parameters with which the processes of a run judged."""
        starts = [json.loads(file.read_bytes()) for file in self.store.glob("ledger/*/run.json")]
        return [start["parameters"] for start in starts if start["prefect_run_id"] == run]


def children(pid: int) -> dict[str, int]:
    """Return the processes of ours that another one started, by module. A forked command's name is its process."""
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    pid = int(name) if name.isdigit() else pid
    output = subprocess.run(["ps", "-wwo", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    found = [line.split() for line in output.splitlines()]
    return {words[words.index("-m") + 1]: int(words[0]) for words in found if "-m" in words}


def child(up: Up, module: str) -> int:
    """Return the process of a module under `jury up` once it exists: it may have just ended by itself."""
    found: dict[str, int] = {}
    wait_for(lambda: found.update(children(up.process.pid)) or module in found)
    return found[module]


def alive(*pids: int) -> bool:
    wanted = ",".join(map(str, pids))
    states = subprocess.run(["ps", "-o", "stat=", "-p", wanted], capture_output=True, text=True).stdout.split()
    return any(not state.startswith("Z") for state in states)


def deployments(up: Up) -> dict[str, Any]:
    return {name: up.deployment(f"counting/{name}") for name in DEPLOYMENTS}


def edit(up: Up) -> None:
    """Edit like the forms of the Prefect UI: pauses, a cron, an override, an added schedule, and a parameter."""
    change_schedule(up, SCHEDULE_PAUSED, OFTEN, active=False)
    change_schedule(up, SCHEDULE_PAUSED, OFTEN, schedule=EVERY_MINUTE)
    change(up, PAUSED, paused=True)
    change_schedule(up, PAUSED, OFTEN, schedule=EVERY_MINUTE)
    override = {"parameters": {"limit": 10, "candidate": ["careless"]}}
    soon = datetime.now(UTC) + timedelta(minutes=20)  # Prefect plans one hour ahead: all are planned, none is due
    minutes = ",".join(f"{(soon + timedelta(minutes=each)).minute}" for each in range(7))
    hourly = {"cron": f"{minutes} * * * *", "timezone": "UTC"}
    change_schedule(up, EDITED, NIGHTLY, schedule=hourly, parameters=override)
    change_schedule(up, EDITED, WEEKLY, active=False)
    added = {"slug": OURS, "active": True, "schedule": {"cron": "30 6 * * 1", "timezone": "UTC"}}
    there = up.deployment(f"counting/{EDITED}")
    up.api(f"/deployments/{there['id']}/schedules", [{**added, "parameters": FEWER}])
    change(up, EDITED, parameters={"parameters": {**there["parameters"]["parameters"], "chunk_size": 32}})


def change(up: Up, name: str, **fields: Any) -> None:
    up.api(f"/deployments/{up.deployment(f'counting/{name}')['id']}", fields, "PATCH")


def change_schedule(up: Up, name: str, slug: str, **fields: Any) -> None:
    deployment = up.deployment(f"counting/{name}")
    [schedule] = [each for each in deployment["schedules"] if each["slug"] == slug]
    up.api(f"/deployments/{deployment['id']}/schedules/{schedule['id']}", fields, "PATCH")


def begin_night(up: Up) -> str:
    """Start the next planned run of the nightly schedule, as if its time had come; return its id."""
    sought = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}, "sort": "EXPECTED_START_TIME_ASC"}

    def planned() -> list[str]:
        return [run["id"] for run in up.api("/flow_runs/filter", sought) if schedule_of(run) == NIGHTLY]

    wait_for(planned)
    [run, *_] = planned()
    up.api(f"/flow_runs/{run}/set_state", {"state": {"type": "SCHEDULED"}, "force": True})
    return run


def schedule_of(run: dict[str, Any]) -> str | None:
    return (run["created_by"] or {}).get("display_value")


def postpone_due_times(store: Path) -> None:
    """Set planned nights to have come due days ago, in the database of a stopped server."""
    planned = """SELECT id, state_id FROM flow_run WHERE state_type = 'SCHEDULED'
        AND json_extract(created_by, '$.display_value') = ? ORDER BY 1 LIMIT ?"""
    run = "UPDATE flow_run SET next_scheduled_start_time = datetime(next_scheduled_start_time, '-9 days') WHERE id = ?"
    state = "UPDATE flow_run_state SET state_details = json_remove(state_details, '$.scheduled_time') WHERE id = ?"
    with closing(sqlite3.connect(home(store) / "prefect.db")) as db, db:
        found = db.execute(planned, (NIGHTLY, NIGHTS)).fetchall()
        db.executemany(run, [(each,) for each, _ in found])
        db.executemany(state, [(each,) for _, each in found])


def observe_access(scene: Scene, up: Up) -> dict[str, Any]:
    """Return the replies to strangers, and the output of store commands."""
    refused: list[int] = []
    for stranger in ("", "jury:guess"):
        with pytest.raises(urllib.error.HTTPError) as raised:
            up._replace(auth=stranger).api("/deployments/filter", {})
        refused.append(raised.value.code)
    given = "--dataset", scene.images, "--limit", "1", "--store", scene.store
    done = command("run", "position", *given, program=scene.jury)
    status = command("status", "--store", scene.store, program=scene.jury).stdout
    shown = {"code": done.returncode, "err": done.stderr, "shown": done.stdout + done.stderr + status}
    return {"auth": up.auth, "ui": up.ui, "refused": refused, "status": status, **shown}


def kill_during_runs(scene: Scene) -> dict[str, Any]:
    """Kill runner and server during a night, and all of `jury up` during the next run."""
    with scene.up(signal.SIGKILL, JURY) as up:
        edit(up)
        seen = {**observe_access(scene, up), "there": deployments(up)}
        run = scene.wait_for_replies(lambda: begin_night(up))
        for module in (RUNNER, SERVER):
            before = child(up, module)
            os.kill(before, signal.SIGKILL)
            wait_for(lambda before=before, module=module: children(up.process.pid).get(module, before) != before)
        seen |= {"run": up.wait_for_end(run, LAST), "repeated": scene.repeated_calls()}
        wait_for(lambda: up.api("/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}}))
        scene.seconds = 2.0  # the run is still at work when all is killed
        seen["next"] = scene.press_run(up)
        own = [child(up, module) for module in (RUNNER, SERVER)]
        [working] = children(own[0]).values()
    wait_for(lambda: not alive(*own, working), 10)
    down = command("status", "--store", scene.store, program=scene.jury).stdout
    return {**seen, "asked": scene.parameters(run), "output": up.output(), "down": down}


def restart(scene: Scene, run: str) -> dict[str, Any]:
    """Let nights pass, start `jury up` again with an edited list, and press Ctrl-C twice during a scheduled run."""
    scene.seconds = 0.4
    postpone_due_times(scene.store)
    began = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"
    with scene.up(signal.SIGINT, scene.jury, reuse_hours=0) as up:
        seen = {"there": deployments(up), "run": up.wait_for_end(run, LAST), "repeated": scene.repeated_calls()}
        wait_for(lambda: len(late := nights(up)) == 1 + NIGHTS and {run["state_type"] for run in late} == {"COMPLETED"})
        seen |= {"nights": nights(up), "stopped": [*children(up.process.pid).values()]}
        scene.seconds = 2.0  # the run is still at work when Ctrl-C is pressed
        scene.wait_for_replies(lambda: change_schedule(up, EDITED, OURS, schedule=EVERY_MINUTE, parameters=FEWER))
        seen["due"] = [run for run in up.runs() if run["expected_start_time"] >= began]
        up.process.send_signal(signal.SIGINT)
    for run in (*seen["nights"], *seen["due"]):
        run["asked"] = scene.parameters(run["id"])
    return {**seen, "output": up.output()}


def nights(up: Up) -> list[dict[str, Any]]:
    return [run for run in up.runs() if schedule_of(run) == NIGHTLY]


def play(folder: Path, commands: str) -> dict[str, Any]:
    working = folder / "working"
    working.mkdir()
    (working / "tasks.py").write_text("raise SystemExit('a program of the working folder was run')")
    os.chdir(working)
    with LoopbackJudge() as judge:
        scene = Scene(folder, judge, f"{commands}/jury")
        first = kill_during_runs(scene)
        return {**first, "again": restart(scene, first["next"]), "store": str(scene.store)}


# The wait is noticeable only if these tests run alone.
pytestmark = pytest.mark.timeout(1000)


@pytest.fixture(scope="module")
def seen(program_output: Callable[[str], str]) -> dict[str, Any]:
    return json.loads(program_output("test_supervision"))


def test_run_survives_kills_of_runner_and_server(seen: dict[str, Any]) -> None:
    # On a busy machine the server may be away for longer than a run that has ended waits to record that: it begins
    # again then, and takes over all its replies.
    assert (seen["run"]["state_name"], seen["repeated"]) == ("Completed", 0)
    for name in ("runner", "Prefect server"):
        assert f"the {name} has ended and starts again" in seen["output"]
    assert "Traceback" not in seen["output"]


def test_next_jury_up_resumes_the_run_of_a_killed_one(seen: dict[str, Any]) -> None:
    assert "down; `jury up` starts it" in seen["down"]
    again = seen["again"]
    assert (again["run"]["state_name"], again["run"]["run_count"]) == ("Completed", 2)
    assert again["repeated"] <= CONCURRENCY + 1, "calls in flight at the kill, and the run's first question"


def late_runs(seen: dict[str, Any], begun: bool) -> list[dict[str, Any]]:
    """Return the nights that came due while it was down, as far as they began or were skipped."""
    late = [run for run in seen["again"]["nights"] if run["id"] != seen["run"]["id"]]
    return [run for run in late if (run["run_count"] > 0) == begun]


def test_only_one_late_run_starts_and_the_others_are_skipped(seen: dict[str, Any]) -> None:
    assert f"late: {NIGHTS} runs came due while it was down; 1 begin now, {NIGHTS - 1} are" in seen["again"]["output"]
    assert [run["state_name"] for run in late_runs(seen, begun=True)] == ["Completed"]
    assert [run["state_name"] for run in late_runs(seen, begun=False)] == ["Skipped"] * (NIGHTS - 1)


def test_nights_use_ui_edits_and_the_edited_list(seen: dict[str, Any]) -> None:
    [late] = late_runs(seen, begun=True)
    for night, asked, reuse_hours in ((seen["run"], seen["asked"], 20), (late, late["asked"], 0)):
        assert night["auto_scheduled"] and asked
        expected = {"limit": 10, "candidate": ["careless"], "chunk_size": 32, "reuse_hours": reuse_hours}
        assert all(expected.items() <= each.items() for each in asked), "reuse is off only after the edit of the list"


def test_restart_keeps_ui_edits_and_reports_them(seen: dict[str, Any]) -> None:
    before, after = (
        {
            (name, each["slug"]): (each["schedule"], each["active"], each["parameters"])
            for name, deployment in found["there"].items()
            for each in deployment["schedules"]
        }
        for found in (seen, seen["again"])
    )
    assert after == before and {slug for name, slug in after if name == EDITED} == {NIGHTLY, WEEKLY, OURS}
    active = {place: is_active for place, (_, is_active, _) in after.items()}
    assert active[EDITED, NIGHTLY] and not active[EDITED, WEEKLY] and not active[SCHEDULE_PAUSED, OFTEN]
    there = seen["again"]["there"]
    assert [there[name]["paused"] for name in DEPLOYMENTS] == [name == PAUSED for name in DEPLOYMENTS]
    assert "chunk_size is 32, as changed here; in the list it is 64" in seen["again"]["output"]


def test_schedule_of_the_ui_runs_by_the_clock_and_paused_ones_do_not(seen: dict[str, Any]) -> None:
    """All three are due every minute. On a slow machine, the next minute begins before the first run's replies come."""
    due = [run for run in seen["again"]["due"] if schedule_of(run) in (OFTEN, OURS)]
    assert all(run["auto_scheduled"] and run["deployment_id"] == seen["there"][EDITED]["id"] for run in due)
    [asked] = due[0]["asked"]
    assert (asked["limit"], asked["candidate"], asked["chunk_size"]) == (9, ["steady"], 32)


def test_two_ctrl_c_during_a_run_end_everything_quietly(seen: dict[str, Any]) -> None:
    lines = words_after_the_start(seen["again"]["output"])
    assert 1 <= len(lines) <= 5 and len(seen["again"]["stopped"]) == 2 and not alive(*seen["again"]["stopped"])
    assert "has ended" not in seen["again"]["output"]


def test_commands_and_runs_sign_in_and_strangers_are_refused(seen: dict[str, Any]) -> None:
    assert seen["refused"] == [401, 401] and seen["auth"] not in str(environment())
    assert seen["code"] == 0 and "temporary" not in seen["err"]
    assert seen["ui"] in seen["status"] and "next " in seen["status"]
    kept = home(Path(seen["store"])) / SIGN_IN_FILE
    written = [path for path in Path(seen["store"]).rglob("*") if path.is_file() and path != kept]
    assert len(written) > 10 and [path for path in written if seen["auth"].encode() in path.read_bytes()] == []
    assert seen["auth"] not in seen["shown"] + seen["output"] + seen["again"]["output"]


if __name__ == "__main__":
    print(json.dumps(play(Path(sys.argv[1]), sys.argv[2])))
