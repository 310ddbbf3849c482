"""Benchmark: `jury up` while its children are killed and its server hangs (`make bench-supervision`, ten minutes).

With words as arguments only the parts whose name has one of them are measured.

A deployment is due every minute, and others are started by hand on a judge that counts what it is asked.
"""

import json
import os
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

from loopback_judge import LoopbackJudge
from served import Up, headers, listed, wait_for, write_list
from test_supervision import RUNNER, SERVER, Scene, children

from flows.server.server import running
from tasks.demo.samples import MOST_PROMPTS

KILLS = 5
OUTAGES = 20, 120
"""Seconds for which the server hangs."""
AT_WORK, ACTIONS = 6, 100
"""Runs at work, and what a person does in the UI meanwhile."""


def names() -> list[str]:
    return [f"by-hand-{number}" for number in range(AT_WORK)]


def scene_in(folder: Path, judge: LoopbackJudge) -> Scene:
    scene = Scene(folder, judge, 0.5, MOST_PROMPTS)
    quick = {"dataset": scene.form["dataset"], "limit": 1}
    by_hand = [listed(name, {"nightly": "0 2 * * *"}, {**scene.form, "limit": 40}) for name in names()]
    write_list(scene.list, listed("often", {"often": "* * * * *"}, quick), *by_hand)
    return scene


def kill_children(scene: Scene, up: Up) -> list[str]:
    """Kill runner and server by turns; the runner's first end comes while a run is about to begin."""
    runs = [scene.started(up, names()[0])]
    wait_for(lambda: up.state(runs[0]) == "RUNNING")
    for each in range(KILLS):
        if not each:
            runs.append(scene.started(up, names()[1], limit=5))
            wait_for(lambda: up.state(runs[1]) == "PENDING")
        for module in (RUNNER, SERVER):
            before = children(up.process.pid)[module]
            os.kill(before, signal.SIGKILL)
            wait_for(lambda module=module, before=before: children(up.process.pid).get(module, before) != before)
            wait_for(lambda: running(scene.store))
    return runs


def hang(scene: Scene, up: Up, seconds: int) -> list[str]:
    runs = [scene.started(up, names()[2])]
    wait_for(lambda: up.state(runs[0]) == "RUNNING")
    server = children(up.process.pid)[SERVER]
    os.kill(server, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(server, signal.SIGCONT)
    return runs


def act(scene: Scene, up: Up) -> tuple[list[str], int]:
    """Save, pause and press Run while runs work; the runs, and how many actions were refused."""
    page = {**headers(f"{up.ui}/api"), "sec-fetch-mode": "cors"}  # as a page that is open keeps its token
    runs, refused = [scene.started(up, name) for name in names()], 0
    wait_for(lambda: all(up.state(run) == "RUNNING" for run in runs))
    there = up.deployment("counting/by-hand-0")
    form = there["parameters"]["parameters"]
    own, often = f"/deployments/{there['id']}", f"/deployments/{up.deployment('counting/often')['id']}"
    save = own, "PATCH", {"parameters": {"parameters": {**form, "votes": 1}}}
    pause = own, "PATCH", {"paused": True}
    run = f"{often}/create_flow_run", "POST", {"state": {"type": "SCHEDULED"}}
    for number in range(ACTIONS):
        path, method, body = (save, pause)[number % 2] if number % 10 else run
        refused += not pressed(f"{up.ui}/api{path}", method, body, page)
        time.sleep(0.3)
    return runs, refused


def pressed(address: str, method: str, body: Any, page: dict[str, str]) -> bool:
    """Whether the server does at once what a page asks it for."""
    asked = urllib.request.Request(address, json.dumps(body).encode(), page, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=60):
            return True
    except (urllib.error.HTTPError, TimeoutError):
        return False


def late_and_double(up: Up) -> tuple[float, int]:
    """How late the latest run of the schedule began, in seconds, and how many began for the same minute."""
    own = up.deployment("counting/often")["id"]

    def begun() -> list[Any]:
        return [run for run in up.runs() if run["deployment_id"] == own and run["auto_scheduled"] and run["start_time"]]

    wait_for(lambda: begun() != [])  # the first part may be over before the first minute is
    runs = begun()
    due = [datetime.fromisoformat(run["expected_start_time"]) for run in runs]
    began = [datetime.fromisoformat(run["start_time"]) for run in runs]
    return max((b - d).total_seconds() for b, d in zip(began, due, strict=True)), len(due) - len({*due})


def main() -> int:
    """Measure, print the table, and say which targets were missed."""
    missed = 0
    print("| | completed | begun once | asked twice | refused | latest start | |\n|---|---|---|---|---|---|---|")
    parts: dict[str, Any] = {f"runner and server killed {KILLS} times": lambda s, u: (kill_children(s, u), 0)}
    parts |= {f"server silent for {n} s": lambda s, u, n=n: (hang(s, u, n), 0) for n in OUTAGES}
    parts |= {f"{ACTIONS} actions beside {AT_WORK} runs": act}
    with tempfile.TemporaryDirectory() as folder, LoopbackJudge(keep_requests=False) as judge:
        scene = scene_in(Path(folder), judge)
        with scene.up() as up:
            for name, part in parts.items():
                if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
                    continue
                scene.asked.clear()
                runs, refused = part(scene, up)
                ended = [up.ended(run, seconds=600) for run in runs]
                done = sum(run["state_type"] == "COMPLETED" for run in ended)
                once, (late, double) = sum(run["run_count"] == 1 for run in ended), late_and_double(up)
                met = done == len(runs) and not (scene.twice() or refused or double)  # how late depends on the machine
                missed += not met
                cells = name, f"{done}/{len(runs)}", once, scene.twice(), refused, f"{late:.0f} s", met
                print(f"| {' | '.join(map(str, cells))} |", flush=True)
            print(f"\n{up.said()}")
    print(f"\n{missed} missed" if missed else "\nall targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
