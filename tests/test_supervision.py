"""Supervision: after kills of `jury up`, its server, its runner and its runs, all due runs are still judged.

One scenario, since each part takes most of a minute to start; the tests check its observations. Its server requires a
sign-in.
"""

import os
import signal
import sqlite3
import subprocess
import urllib.error
from collections import Counter
from contextlib import AbstractContextManager, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, Request, allowed_reply, delayed
from served import (
    ENDED,
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

pytestmark = pytest.mark.timeout(900)  # two starts of `jury up`, each up to a minute on a busy machine
NAME = "short"
RUNNER, SERVER = "flows.server.runner", "flows.server.server_process"
CONCURRENCY = 2
LAST = ENDED - {"CRASHED"}
"""Final states of a run; a crashed run is restarted."""
NIGHTS = 3
"""Runs that come due while `jury up` is down."""


class Scene:
    """`jury up` with a list, and a slow judge that counts its requests."""

    def __init__(self, folder: Path, judge: LoopbackJudge) -> None:
        self.store, self.port, self.list = folder / "store", free_port(), folder / "prefect.yaml"
        self.images = str(drawn_samples(folder / "drawn", "counting", prompts=3))
        self.asked, self.seeds = Counter[bytes](), count()
        plain = allowed_reply()

        def answer(request: Request) -> Reply:
            self.asked[request.raw] += 1
            return delayed(plain(request), 0.4)

        judge.answer = answer
        self.judge = {"model": "slow", "base_url": judge.base_url, "concurrency": CONCURRENCY}
        form = {"dataset": self.images, "judge": self.judge, "limit": 12}
        write_list(self.list, listed(NAME, {"nightly": "0 2 * * *"}, form))

    def up(self, ended_by: signal.Signals) -> AbstractContextManager[Up]:
        return jury_up(self.store, self.port, "--auth", "--deployments", str(self.list), ended_by=ended_by)

    def start_run(self, up: Up) -> str:
        """Press Run; wait until some replies are stored, none of them reused.

        The first replies wait for the table of prices: until then, more than the calls in flight can be lost.
        """
        self.asked.clear()
        before = self.stored()
        run = up.start_run(f"counting/{NAME}", judge={"seed": next(self.seeds)})
        wait_for(lambda: self.stored() > before + CONCURRENCY)
        return run

    def stored(self) -> int:
        return sum(rows.read_bytes().count(b"\n") for rows in (self.store / "ledger").glob(f"*/{JUDGMENTS}"))

    def repeated_calls(self) -> int:
        return self.asked.total() - len(self.asked)


def children(pid: int) -> dict[str, int]:
    """Return the processes of ours that another one started, by module."""
    output = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True).stdout
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


def postpone_due_times(store: Path) -> None:
    """Set planned runs to have come due days ago, in the database of a stopped server."""
    planned = "SELECT id, state_id FROM flow_run WHERE auto_scheduled AND state_type = 'SCHEDULED' ORDER BY 1 LIMIT ?"
    run = "UPDATE flow_run SET next_scheduled_start_time = datetime(next_scheduled_start_time, '-9 days') WHERE id = ?"
    state = "UPDATE flow_run_state SET state_details = json_remove(state_details, '$.scheduled_time') WHERE id = ?"
    with closing(sqlite3.connect(home(store) / "prefect.db")) as db, db:
        found = db.execute(planned, (NIGHTS,)).fetchall()
        db.executemany(run, [(each,) for each, _ in found])
        db.executemany(state, [(each,) for _, each in found])


def observe_access(scene: Scene, up: Up) -> dict[str, Any]:
    """Return the replies to strangers, and the output of store commands."""
    refused: list[int] = []
    for stranger in ("", "jury:guess"):
        with pytest.raises(urllib.error.HTTPError) as raised:
            up._replace(auth=stranger).api("/deployments/filter", {})
        refused.append(raised.value.code)
    done = command("run", "position", "--dataset", scene.images, "--limit", "1", "--store", scene.store)
    status = command("status", "--store", scene.store).stdout
    return {"auth": up.auth, "ui": up.ui, "refused": refused, "done": done, "status": status}


def kill_during_runs(scene: Scene) -> dict[str, Any]:
    """Kill runner and server during one run, and all of `jury up` during the next one."""
    with scene.up(signal.SIGKILL) as up:
        seen = observe_access(scene, up)
        run = scene.start_run(up)
        for module in (RUNNER, SERVER):
            before = child(up, module)
            os.kill(before, signal.SIGKILL)
            wait_for(lambda before=before, module=module: children(up.process.pid).get(module, before) != before)
        seen |= {"run": up.wait_for_end(run, LAST), "repeated": scene.repeated_calls()}
        wait_for(lambda: up.api("/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}}))
        seen["next"] = scene.start_run(up)
        own = [child(up, module) for module in (RUNNER, SERVER)]
        [working] = children(own[0]).values()
    wait_for(lambda: not alive(*own, working), 10)
    return {**seen, "output": up.output(), "down": command("status", "--store", scene.store).stdout}


def restart(scene: Scene, run: str) -> dict[str, Any]:
    """Let nights pass, start `jury up` again, and press Ctrl-C twice during a run."""
    postpone_due_times(scene.store)
    with scene.up(signal.SIGINT) as up:
        seen = {"run": up.wait_for_end(run, LAST), "repeated": scene.repeated_calls()}
        wait_for(lambda: len(late := nights(up)) == NIGHTS and {run["state_type"] for run in late} == {"COMPLETED"})
        seen |= {"late": nights(up), "stopped": [*children(up.process.pid).values()]}
        scene.start_run(up)
        up.process.send_signal(signal.SIGINT)
    return {**seen, "output": up.output()}


def nights(up: Up) -> list[dict[str, Any]]:
    return [run for run in up.runs() if run["auto_scheduled"]]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with LoopbackJudge() as judge:
        scene = Scene(tmp_path_factory.mktemp("supervised"), judge)
        first = kill_during_runs(scene)
        return {**first, "again": restart(scene, first["next"]), "store": scene.store}


def test_run_survives_kills_of_runner_and_server(seen: dict[str, Any]) -> None:
    assert (seen["run"]["state_name"], seen["repeated"]) == ("Completed", 0)
    # One ledger for each judging process: the server may count a start twice if its answer was late.
    begun = [start.read_text() for start in (seen["store"] / "ledger").glob("*/run.json")]
    assert sum(seen["run"]["id"] in start for start in begun) == 1
    for name in ("runner", "Prefect server"):
        assert f"the {name} has ended and starts again" in seen["output"]


def test_next_jury_up_resumes_the_run_of_a_killed_one(seen: dict[str, Any]) -> None:
    assert "down; `jury up` starts it" in seen["down"]
    again = seen["again"]
    assert (again["run"]["state_name"], again["run"]["run_count"]) == ("Completed", 2)
    assert again["repeated"] <= CONCURRENCY + 1, "calls in flight at the kill, and the run's first question"


def test_only_one_late_run_starts_and_the_others_are_skipped(seen: dict[str, Any]) -> None:
    assert f"late: {NIGHTS} runs came due while it was down; 1 begin now, {NIGHTS - 1} are" in seen["again"]["output"]
    skipped = [run for run in seen["again"]["late"] if run["state_name"] == "Skipped"]
    assert len(skipped) == NIGHTS - 1 and not any(run["run_count"] for run in skipped)


def test_two_ctrl_c_during_a_run_end_everything_quietly(seen: dict[str, Any]) -> None:
    lines = words_after_the_start(seen["again"]["output"])
    assert 1 <= len(lines) <= 5 and not alive(*seen["again"]["stopped"])


def test_commands_and_runs_sign_in_and_strangers_are_refused(seen: dict[str, Any]) -> None:
    assert seen["refused"] == [401, 401] and seen["auth"] not in str(environment())
    assert seen["done"].returncode == 0 and "temporary" not in seen["done"].stderr
    assert seen["ui"] in seen["status"] and "next " in seen["status"]
    kept = home(seen["store"]) / SIGN_IN_FILE
    written = [path for path in seen["store"].rglob("*") if path.is_file() and path != kept]
    assert len(written) > 10 and [path for path in written if seen["auth"].encode() in path.read_bytes()] == []
    shown = (seen["done"].stdout, seen["done"].stderr, seen["status"], seen["output"], seen["again"]["output"])
    assert seen["auth"] not in "".join(shown)
