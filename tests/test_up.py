"""`jury up` in use: the Prefect UI in a real browser, its form and artifacts, refusals, and foreign pages."""

import fcntl
import http.client
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from foreign_page import Loot, attacked, foreign_page
from loopback_judge import LoopbackJudge
from loopback_replies import allowed_reply, delayed
from served import Up, command, free_port, jury_up, log_of, wait_for

from flows.flow_run import completed, read_json
from tasks.demo.chat import PROBE
from tasks.ledger.run_files import read_start
from tasks.records.parameters import PairwiseParameters

HOUSE = Path(__file__).parents[1]
FLOWS = ("diagram", "plot", "object", "counting", "colors", "position", "facts")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, commands: Path) -> Iterator[Up]:
    """`jury up`; it, its server, its runner and its runs are forked from a process that has imported everything."""
    place = tmp_path_factory.mktemp("served")
    (listed := place / "prefect.yaml").write_text(with_triggers())
    given = "--deployments", str(listed)
    with jury_up(place / "store", free_port(), *given, program=str(commands / "jury")) as served:
        yield served


def with_triggers() -> str:
    """Return the list with the triggers of the documentation, which it has as a comment."""
    [triggers] = re.findall(r"```yaml\n( +triggers:.*?)```", (HOUSE / "docs/howto/deploy.md").read_text(), re.DOTALL)
    text, comment = (HOUSE / "deployments/prefect.yaml").read_text(), re.sub("(?m)^    ", "    # ", triggers)
    assert text.count(comment) == 1
    return text.replace(comment, triggers)


FEWER_FRAMES = """
    window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 200);
    window.cancelAnimationFrame = clearTimeout;
    addEventListener("DOMContentLoaded", () => {
        const still = document.createElement("style");
        still.textContent = "*, *::before, *::after { animation: none !important; transition: none !important }";
        document.head.append(still);
    });
"""
"""Prefect's pages redraw graphs and placeholders all the time: a third of the processor, without a graphics card."""


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    """Return the context of all pages, which keeps the scripts of Prefect's UI."""
    opened = browser.new_context(viewport={"width": 1400, "height": 1800})
    opened.set_default_timeout(120_000)
    opened.add_init_script(FEWER_FRAMES)
    yield opened
    opened.close()


@pytest.fixture
def page(context: Any) -> Iterator[Any]:
    tab = context.new_page()
    yield tab
    tab.close()


def fill(page: Any, label: str, value: str) -> None:
    field = page.locator("label", has_text=label).first
    field.locator("xpath=following::*[self::input or self::textarea][1]").fill(value)


def open_form(page: Any, up: Up, name: str) -> None:
    page.goto(f"{up.ui}/deployments")
    page.get_by_text(name.partition("/")[0], exact=False).first.wait_for()
    page.goto(f"{up.ui}/deployments/deployment/{up.deployment(name)['id']}/run")
    page.get_by_text("Base Url").first.wait_for()


CLEARED = ("Candidate Name", "Api Key Env", "Limit", "Seed")
"""Fields that a person clears: all may be empty."""
STORED = {"candidate_name": "drawn", "limit": 5, "judge": {"api_key_env": "A_KEY", "seed": 7, "extra": {"top_k": 1}}}


def manual_runs(up: Up) -> list[dict[str, Any]]:
    """Return the runs that a person started; at night, schedules may start others."""
    return [run for run in up.api("/flow_runs/filter", {}) if not run["auto_scheduled"]]


def test_form_validates_values_and_its_run_gets_a_report(up: Up, page: Any, loopback: LoopbackJudge) -> None:
    for field, wrong, words in (("Limit", "-3", "less than the minimum"), ("Temperature", "7", "greater than the max")):
        open_form(page, up, "counting/counting-nightly")  # anew: on a busy machine, one refused form ignored a press
        fill(page, field, wrong)
        page.get_by_role("button", name="Submit").click()
        page.get_by_text(words).first.wait_for()
    assert "/run" in page.url and not manual_runs(up)
    open_form(page, up, "counting/counting-nightly")
    fill(page, "Limit", "2")
    fill(page, "Model", "loopback-1")
    fill(page, "Base Url", loopback.base_url)
    page.get_by_role("button", name="Submit").click()
    wait_for(lambda: manual_runs(up))
    page.goto("about:blank")  # a page of a run at work is drawn again and again
    wait_for(lambda: manual_runs(up)[0]["state_type"] == "COMPLETED")
    [run] = manual_runs(up)
    page.goto(f"{up.ui}/runs/flow-run/{run['id']}")
    page.get_by_text("Completed").first.wait_for()
    link = page.locator("a[href$='.html']").first  # in the last log line, with the address of its page
    link.wait_for()
    assert link.get_attribute("href").startswith("http://127.0.0.1:")
    assert page.request.get(link.get_attribute("href")).status == 200
    assert run["name"] == "counting · careless + steady · loopback-1 · 8 samples"
    assert run["parameters"]["parameters"]["limit"] == 2
    of_this_run = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}, "key": {"any_": ["counting-nightly-by-hand"]}}}
    [summary] = up.api("/artifacts/filter", of_this_run)
    page.goto(f"{up.ui}/artifacts/artifact/{summary['id']}")
    page.get_by_role("heading", name="Scores").wait_for()
    wait_for(lambda: page.evaluate("[...document.images].every(one => one.complete)"))
    assert page.get_by_text("count_accuracy").count() >= 2
    loaded = page.eval_on_selector_all("img", "all => all.filter(one => one.naturalWidth > 0).map(one => one.alt)")
    assert "Scores" in loaded and loaded.count("Image") >= 1
    started = [read_start(ledger) for ledger in (up.store / "ledger").iterdir()]
    [parameters] = [start.parameters for start in started if start.prefect_run_id == run["id"]]
    assert (parameters["limit"], parameters["judge"]["base_url"]) == (2, loopback.base_url)


@pytest.mark.parametrize("ui", ["", "/v2"])
def test_both_forms_begin_with_common_fields_and_cleared_fields_are_empty(up: Up, page: Any, ui: str) -> None:
    listed = up.deployment("plot/plot-nightly")
    deployment = listed["id"]
    up.api(f"/deployments/{deployment}", {"parameters": {"parameters": STORED}}, "PATCH")
    page.route("**/create_flow_run", lambda route: route.abort())  # only the request matters
    page.goto(f"{up.ui}{ui}/deployments/deployment/{deployment}/run")
    page.get_by_text("Base Url").first.wait_for()
    labels = [label.removesuffix(" (Optional)") for label in page.locator("label").all_inner_texts()]
    wanted = ["Dataset", "Results", "Images", "Candidate Name", "Limit", "Orders", "Votes", "Controls", "Judge"]
    assert [label for label in labels if label in wanted] == wanted and not {"Shard", "Evaluation Id"} & {*labels}
    for label in CLEARED:
        fill(page, label, "")
    with page.expect_request("**/create_flow_run") as sent:
        page.get_by_role("button", name="Submit").click()
    up.api(f"/deployments/{deployment}", {"parameters": listed["parameters"]}, "PATCH")
    own = read_json(sent.value.post_data_json["parameters"]["parameters"])
    values, taken, emptied = completed(own, STORED, PairwiseParameters)
    assert (taken, sorted(emptied)) == ([], ["candidate_name", "judge.api_key_env", "judge.seed", "limit"])
    judged = PairwiseParameters.model_validate(values)
    assert (judged.candidate_name, judged.limit, judged.judge.api_key_env, judged.judge.seed) == ("", None, "", None)
    assert judged.judge.extra == {"top_k": 1}


FIRST_WORDS = r"""starting a Prefect server \(about 10 s\) …
Image Jury is up\.

  Prefect UI   http://127\.0\.0\.1:\d+
  pages        http://127\.0\.0\.1:\d+
  store        \S+
  deployments
(?:    [a-z]+/[a-z]+-nightly +\d+ \d \* \* \* UTC
){7}    collect/collect +without a schedule

Press Run on a deployment in the UI, or wait for its schedule\. Ctrl-C stops all of it\.
"""


def test_first_start_prints_addresses_and_deployments_without_warnings(up: Up) -> None:
    assert re.match(FIRST_WORDS, up.output()), up.output()


def test_second_jury_up_finds_the_first(up: Up) -> None:
    again = command("up", "--store", up.store, "--port", free_port(), program=up.process.args[0])
    assert again.returncode == 0 and f"up already: {up.ui}" in again.stdout
    process = again.stdout.rstrip().rpartition("kill ")[2]
    assert Path(f"/proc/{process}/fd/1").samefile(log_of(up.store))


def test_taken_port_is_refused(up: Up, tmp_path: Path) -> None:
    refused = command("up", "--store", tmp_path, "--port", up.port, program=up.process.args[0])
    assert refused.returncode == 2
    [fault] = refused.stderr.splitlines()
    assert f"port {up.port} is taken; choose another with --port" in fault


def test_invalid_list_is_refused_before_a_server_starts(up: Up, tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("deployments: [{name: nightly, entrypoint: flows.plott.plot}]")
    (tmp_path / "store").mkdir(mode=0o700)
    (tmp_path / "store" / "history.duckdb").write_bytes(b"damaged")
    given = ("--store", str(tmp_path / "store"), "--port", str(free_port()))
    refused = command("up", "--deployments", tmp_path / "list.yaml", *given, program=up.process.args[0])
    assert refused.returncode == 2 and "entry 1: description: Field required" in refused.stderr
    assert "`jury store rebuild` rebuilds it from the ledgers; until then no night is compared" in refused.stdout
    assert "starting" not in refused.stderr and not (tmp_path / "store" / "prefect" / "server.log").exists()


def task_states(up: Up, run: str) -> dict[str, str]:
    found = up.api("/task_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    return {task["name"]: task["state_type"] for task in found}


@contextmanager
def block_opening(file: Path) -> Iterator[threading.Event]:
    """Block openings of the file until the context ends, at most 45 seconds; yield an event that the first one sets."""
    wanted = threading.Event()
    before = signal.signal(signal.SIGIO, lambda *_: wanted.set())
    with file.open("r+b") as opened:
        fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield wanted
    signal.signal(signal.SIGIO, before)


def process_of(up: Up, run: str) -> int:
    [claim] = up.store.rglob(run)
    return int(claim.read_text())


@pytest.fixture(scope="module")
def runs(up: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield runs at a slow judge: one ended by SIGTERM, one cancelled, one cancelled while loading its dataset, and one
    that fails. The ended one is cancelled afterwards, or it would restart.

    `status` is the output of `jury status` during these runs, with one schedule and one deployment paused.
    """
    folder = tmp_path_factory.mktemp("held")
    manifest = folder / "manifest.jsonl"
    manifest.write_text("{}")
    plain = allowed_reply()
    with LoopbackJudge(lambda seen: plain(seen) if seen.schema_name == PROBE else delayed(plain(seen), 60)) as judge:
        slow = {"base_url": judge.base_url, "concurrency": 4}
        made = {
            name: up.start_run("plot/plot-nightly", judge={"model": name, **slow}) for name in ("cancelled", "ended")
        }
        made["failed"] = up.start_run("object/object-nightly", dataset=str(folder / "nowhere"))
        wait_for(lambda: judge.in_flight == 4 * 2)
        os.kill(process_of(up, made["ended"]), signal.SIGTERM)
        wait_for(lambda: up.state(made["ended"]) == "CRASHED")
        assert up.wait_for_end(made["failed"])["state_type"] == "FAILED"
        with paused(up):
            made["status"] = command("status", "--store", up.store, program=up.process.args[0]).stdout
        up.api(f"/flow_runs/{made['ended']}/set_state", {"state": {"type": "CANCELLED"}, "force": True})
        with block_opening(manifest) as wanted:
            made["loading"] = up.start_run("diagram/diagram-nightly", dataset=str(manifest))
            wait_for(wanted.is_set)
            for name in ("loading", "cancelled"):
                up.api(f"/flow_runs/{made[name]}/set_state", {"state": {"type": "CANCELLING"}})
            wait_for(lambda: {*task_states(up, made["loading"]).values()} == {"CANCELLED"})
        yield made


@contextmanager
def paused(up: Up) -> Iterator[None]:
    """Pause a deployment, and the schedule of another one, until the context ends."""
    whole = up.deployment("position/position-nightly")
    [schedule] = up.deployment("colors/colors-nightly")["schedules"]
    switches = (
        (f"/deployments/{whole['id']}", "paused"),
        (f"/deployments/{schedule['deployment_id']}/schedules/{schedule['id']}", "active"),
    )
    for path, field in switches:
        up.api(path, {field: field == "paused"}, "PATCH")
    yield
    for path, field in switches:
        up.api(path, {field: field != "paused"}, "PATCH")


def test_cancelled_runs_are_cancelled_without_crashes(up: Up, runs: dict[str, str]) -> None:
    for name, last in (("loading", {"CANCELLED"}), ("cancelled", {"COMPLETED", "CANCELLED"})):
        run = runs[name]
        assert up.wait_for_end(run)["state_name"] == "Cancelled"
        wait_for(lambda run=run, last=last: {*task_states(up, run).values()} == last)  # they arrive later
        logs = up.api("/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}, "level": {"ge_": 40}}})
        errors = [log["message"] for log in logs]
        assert len(errors) <= 5 and "Traceback" not in str(errors), errors
    assert "Crash" not in up.output() and "Traceback" not in up.output()


def test_run_ended_by_sigterm_is_settled_and_others_continue(runs: dict[str, str]) -> None:
    assert "up to 4 calls in flight at its end may be billed as well" in runs["status"]
    assert "running  plot-nightly  typed, running since " in runs["status"]


def test_status_shows_failed_runs_and_paused_schedules(runs: dict[str, str]) -> None:
    status = runs["status"]
    assert re.search(r"failed   object-nightly  typed, \d{4}-\d\d-\d\d \d\d:\d\d UTC: .*nowhere", status)
    assert "paused   position-nightly, as a whole\n" in status
    assert "paused   colors-nightly, its schedule nightly\n" in status
    coming = re.findall(r"next     \d{4}-\d\d-\d\d \d\d:\d\d UTC  (.*)\n", status)
    assert "diagram-nightly" in coming and len({*coming}) == len(coming)


def test_automation_marks_runs_whose_process_vanished(up: Up) -> None:
    made = [each for each in up.api("/automations/filter", {}) if each["enabled"]]
    [zombies] = [each for each in made if each["actions"][0].get("state") == "CRASHED"]
    assert "prefect.flow-run.Suspended" in zombies["trigger"]["expect"]


# Foreign pages


SECRET = "sk-kept-in-a-block"


@pytest.fixture(scope="module")
def loot(up: Up) -> Loot:
    """Return the targets of an attack: a key in a Secret block, and a deployment to start."""
    kind = up.api("/block_types/slug/secret")["id"]
    [schema, *_] = up.api("/block_schemas/filter", {"block_schemas": {"block_type_id": {"any_": [kind]}}})
    document = {"name": "key", "data": {"value": SECRET}, "block_type_id": kind, "block_schema_id": schema["id"]}
    block = up.api("/block_documents/", document)["id"]
    deployment = up.deployment("colors/colors-nightly")
    return Loot(f"{up.ui}/api", block, deployment["flow_id"], deployment["id"], str(up.store / "taken-over"))


def assert_untouched(up: Up, loot: Loot) -> None:
    assert all(each["name"] != "mine" for each in up.api("/deployments/filter", {}))
    assert all(run["name"] != "mine" for run in up.api("/flow_runs/filter", {}))
    forged = {"filter": {"event": {"name": ["jury.regression"]}}}
    assert up.api("/events/filter", forged)["events"] == [] and not Path(loot.marker).exists()


def test_foreign_page_cannot_read_or_change_anything(up: Up, page: Any, loot: Loot) -> None:
    with foreign_page() as address:
        replies = attacked(page, address, loot)
    assert {*replies} <= {"nothing", "opaque 0 "} and SECRET not in str(replies)
    assert_untouched(up, loot)
    # The server's own page may do the same.
    page.goto(up.ui)
    own = page.evaluate(f"fetch('/api/block_documents/{loot.block}?include_secrets=true').then(one => one.text())")
    assert SECRET in own


def test_foreign_host_name_is_refused(up: Up, loot: Loot) -> None:
    for host, status in ((f"evil.example:{up.port}", 403), ("localhost:9999", 200)):  # the second as through a tunnel
        connection = http.client.HTTPConnection("127.0.0.1", up.port, timeout=120)
        connection.request("GET", f"/api{loot.requests[0][0]}", None, {"Host": host, "Origin": f"http://{host}"})
        answer = connection.getresponse()
        assert (answer.status, SECRET in answer.read().decode()) == (status, status == 200)
        connection.close()


# A night started by an automation


def test_trigger_after_a_generator_starts_a_night(up: Up) -> None:
    """The generator is a flow run of any program."""
    own = up.deployment("counting/counting-nightly")
    fewer = {"parameters": own["parameters"]["parameters"] | {"limit": 1}}
    up.api(f"/deployments/{own['id']}", {"parameters": fewer}, "PATCH")
    generator = {"flow_id": up.api("/flows/", {"name": "generate"})["id"], "state": {"type": "RUNNING"}}
    ended = {"state": {"type": "COMPLETED", "name": "Completed"}}
    up.api(f"/flow_runs/{up.api('/flow_runs/', generator)['id']}/set_state", ended)
    wait_for(lambda: triggered(up))
    [run] = triggered(up)
    assert up.wait_for_end(run["id"])["state_type"] == "COMPLETED"
    assert read_start(max(up.store.glob("ledger/*-counting-*"))).scheduled


def triggered(up: Up) -> list[dict[str, Any]]:
    return [run for run in up.runs() if (run["created_by"] or {}).get("type") == "AUTOMATION"]
