"""Supervision: `jury up`, its server, its runner and its runs are killed, and what is due is judged all the same.

One scenario, whose parts take most of a minute each to start; the tests look at what was seen in it.
"""

import os
import signal
import sqlite3
import subprocess
from collections import Counter
from contextlib import AbstractContextManager, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, Request, allowed_reply, delayed
from served import ENDED, JURY, Up, command, environment, free_port, jury_up, listed, wait_for, write_list

from flows.server.server import home
from tasks.demo.samples import drawn_samples
from tasks.ledger.run_files import JUDGMENTS

pytestmark = pytest.mark.timeout(900)  # four starts of `jury up`, of up to a minute each on a busy machine
NAME = "short"
RUNNER, SERVER = "flows.server.runner", "flows.server.server_process"
CONCURRENCY = 2
LAST = ENDED - {"CRASHED"}
"""States that a run stays in: one that crashed is begun again."""
NIGHTS = 3
"""Runs that come due while it is down."""


class Scene:
    """`jury up` on a list, and a judge that takes a while, and counts what it is asked."""

    def __init__(self, folder: Path, judge: LoopbackJudge) -> None:
        self.store, self.port, self.list = folder / "store", free_port(), folder / "prefect.yaml"
        self.asked, self.seeds = Counter[bytes](), count()
        plain = allowed_reply()

        def answer(request: Request) -> Reply:
            self.asked[request.raw] += 1
            return delayed(plain(request), 0.4)

        judge.answer = answer
        own = {"model": "slow", "base_url": judge.base_url, "concurrency": CONCURRENCY}
        form = {"dataset": str(drawn_samples(folder / "drawn", "counting", prompts=3)), "judge": own, "limit": 12}
        write_list(self.list, listed(NAME, {"nightly": "0 2 * * *"}, form))

    def up(self) -> AbstractContextManager[Up]:
        return jury_up(self.store, self.port, "--deployments", str(self.list))

    def begin(self, up: Up) -> str:
        """Press Run; wait until some replies of it are stored. No reply is an earlier run's.

        The first replies wait for the table of prices: until then more can be lost than the calls in flight.
        """
        self.asked.clear()
        before = self.stored()
        run = up.started(f"counting/{NAME}", judge={"seed": next(self.seeds)})
        wait_for(lambda: self.stored() > before + CONCURRENCY)
        return run

    def stored(self) -> int:
        return sum(rows.read_bytes().count(b"\n") for rows in (self.store / "ledger").glob(f"*/{JUDGMENTS}"))

    def twice(self) -> int:
        return self.asked.total() - len(self.asked)


def children(pid: int) -> dict[str, int]:
    """Module -> process of ours that another one started."""
    told = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    found = [line.split() for line in told.splitlines()]
    return {words[words.index("-m") + 1]: int(words[0]) for words in found if "-m" in words}


def alive(*pids: int) -> bool:
    wanted = ",".join(map(str, pids))
    states = subprocess.run(["ps", "-o", "stat=", "-p", wanted], capture_output=True, text=True).stdout.split()
    return any(not state.startswith("Z") for state in states)


def make_late(store: Path) -> None:
    """Let the runs that are planned next have come due days ago, in the database of a server that is down."""
    planned = "SELECT id, state_id FROM flow_run WHERE auto_scheduled AND state_type = 'SCHEDULED' ORDER BY 1 LIMIT ?"
    run = "UPDATE flow_run SET next_scheduled_start_time = datetime(next_scheduled_start_time, '-9 days') WHERE id = ?"
    state = "UPDATE flow_run_state SET state_details = json_remove(state_details, '$.scheduled_time') WHERE id = ?"
    with closing(sqlite3.connect(home(store) / "prefect.db")) as db, db:
        found = db.execute(planned, (NIGHTS,)).fetchall()
        db.executemany(run, [(each,) for each, _ in found])
        db.executemany(state, [(each,) for _, each in found])


def children_killed(scene: Scene) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    with scene.up() as up:
        for module in (RUNNER, SERVER):
            run = scene.begin(up)
            before = children(up.process.pid)[module]
            os.kill(before, signal.SIGKILL)
            wait_for(lambda before=before, module=module: children(up.process.pid).get(module, before) != before)
            seen[module] = {"run": up.ended(run, LAST), "twice": scene.twice()}
        seen |= {"said": up.said(), "stopped": [*children(up.process.pid).values()]}
        scene.begin(up)  # at work when Ctrl-C comes
    return {**seen, "once": up.said()}


def up_killed(scene: Scene) -> dict[str, Any]:
    """Kill `jury up` in the middle of a run, let nights pass, and start it again."""
    words = [JURY, "up", "--store", str(scene.store), "--port", str(scene.port), "--deployments", str(scene.list)]
    log = scene.store.with_name("first.log")
    with log.open("w") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, env=environment(), text=True)
    wait_for(lambda: "Ctrl-C stops all of it" in log.read_text())
    run = scene.begin(Up(process, scene.store, scene.port))
    own = children(process.pid)
    [working] = children(own[RUNNER]).values()
    process.kill()
    wait_for(lambda: not alive(*own.values(), working), 10)
    told = command("status", "--store", scene.store).stdout
    process.wait()
    make_late(scene.store)
    with scene.up() as up:
        again = {"run": up.ended(run, LAST), "twice": scene.twice(), "status": told, "said": up.said()}
        wait_for(lambda: len(late := nights(up)) == NIGHTS and {run["state_type"] for run in late} == {"COMPLETED"})
        again |= {"late": nights(up), "stopped": [*children(up.process.pid).values()]}
        scene.begin(up)
        up.process.send_signal(signal.SIGINT)
    return {**again, "twice_stopped": up.said()}


def nights(up: Up) -> list[dict[str, Any]]:
    return [run for run in up.runs() if run["auto_scheduled"]]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with LoopbackJudge() as judge:
        scene = Scene(tmp_path_factory.mktemp("supervised"), judge)
        return {**children_killed(scene), "up": up_killed(scene)}


@pytest.mark.parametrize(("module", "name"), [(RUNNER, "runner"), (SERVER, "Prefect server")])
def test_a_run_goes_on_where_runner_or_server_is_killed(seen: dict[str, Any], module: str, name: str) -> None:
    assert (seen[module]["run"]["state_name"], seen[module]["run"]["run_count"]) == ("Completed", 1)
    assert seen[module]["twice"] == 0 and seen["said"].count(f"the {name} has ended and starts again") == 1


def test_nothing_outlives_jury_up_and_the_next_one_takes_its_run_up_again(seen: dict[str, Any]) -> None:
    assert "down; `jury up` starts it" in seen["up"]["status"]
    assert (seen["up"]["run"]["state_name"], seen["up"]["run"]["run_count"]) == ("Completed", 2)
    assert seen["up"]["twice"] <= CONCURRENCY + 1, "calls that were in flight, and the first question of a run"


def test_of_late_runs_one_starts_and_the_others_are_skipped_without_a_process(seen: dict[str, Any]) -> None:
    assert f"late: {NIGHTS} runs came due while it was down; 1 begin now, {NIGHTS - 1} are" in seen["up"]["said"]
    skipped = [run for run in seen["up"]["late"] if run["state_name"] == "Skipped"]
    assert len(skipped) == NIGHTS - 1 and not any(run["run_count"] for run in skipped)


def test_ctrl_c_once_or_twice_beside_a_run_ends_all_in_a_few_words(seen: dict[str, Any]) -> None:
    for said, pids in ((seen["once"], seen["stopped"]), (seen["up"]["twice_stopped"], seen["up"]["stopped"])):
        lines = said.partition("Ctrl-C stops all of it.\n")[2].splitlines()
        assert 1 <= len([line for line in lines if "starts again" not in line]) <= 5 and "Traceback" not in said
        assert not alive(*pids)
