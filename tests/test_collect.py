"""Whole runs that are bought as batches: handed in, waiting, taken in, ended; and killed at each step."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from batch_twin import BatchTwin, figures
from killed import SENDING, dies, in_a_process
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, Request, allowed_reply, error, text, verdict
from prefect import get_client
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound
from prefect.flow_engine import run_flow
from prefect.utilities.callables import parameter_schema
from written_images import prompt_row, write_geneval

from flows.cli import main
from flows.collect import collect
from flows.diagram import diagram
from flows.runtime import session, shards
from tasks.batches import requests
from tasks.batches.log import lease
from tasks.endpoint import known
from tasks.ledger.reading import read_judgments, read_outcomes, read_start, run_folders

SAMPLES, CALLS = 4, 16

pytestmark = pytest.mark.usefixtures("prefect_server", "drawn_here", "laid_out")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return figures(tmp_path_factory.mktemp("figures"), SAMPLES)


def by_picture(request: Request) -> Reply:
    """A judge whose verdict depends on the pictures and the question, and on nothing else."""
    allowed = request.schema.get("properties", {}).get("winner", {}).get("enum")
    if not allowed:
        return allowed_reply()(request)
    asked = sha256(b"".join(request.images) + request.schema_name.encode()).digest()
    return verdict(allowed[asked[0] % len(allowed)])


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchTwin]:
    """A twin in the place of OpenAI, whose batches end when they are asked for the second time."""
    with BatchTwin(by_picture, polls=1) as standing:
        table = known.endpoints()
        moved = table["openai"].model_copy(update={"address": standing.base_url})
        monkeypatch.setattr(known, "endpoints", lambda: {**table, "openai": moved})
        yield standing


def bought(twin: LoopbackJudge, **options: object) -> list[str]:
    return judged_by(twin, **{"judge.tier": "batch", **options})


def told(store: Path) -> Counter[tuple[str, ...]]:
    """What the finished runs of a store say of their samples, controls included."""
    rows = [row for run in run_folders(store) if (run / "end.json").exists() for row in read_outcomes(run)]
    return Counter(
        (
            row.sample_id,
            row.control,
            row.status,
            str(row.overall),
            row.path,
            *(str(each.verdict) for each in row.dimensions),
        )
        for row in rows
    )


@pytest.fixture(scope="module")
def live(dataset: list[str], prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Counter[tuple[str, ...]]:
    """What a live run of the same judge says of the same figures."""
    store = tmp_path_factory.mktemp("live")
    with LoopbackJudge(by_picture) as judge:
        assert main(["run", "diagram", *dataset, *judged_by(judge), "--store", str(store)]) == 0
    found = told(store)
    assert found.total() == SAMPLES
    return found


def paid_once(twin: BatchTwin, store: Path, calls: int = CALLS) -> None:
    """Every request was answered once, and every reply is one row."""
    assert len(twin.paid) == calls and {*twin.paid.values()} == {1}
    rows = Counter((row.run_id, row.sample_id, row.dimension, row.attempt) for row in every_judgment(store))
    assert len(rows) == calls and {*rows.values()} == {1}


def every_judgment(store: Path) -> list[Any]:
    return [row for run in run_folders(store) for row in read_judgments(run)]


def nothing_left(twin: BatchTwin, store: Path) -> bool:
    return not twin.files and not [*(store / "batches").glob("*")]


# A run


def test_a_run_waits_for_its_batch_and_ends_when_it_is_collected(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any, ask: Any
) -> None:
    twin.polls, store = 2, tmp_path / "store"
    code, out, err = jury("run", "diagram", *dataset, *bought(twin))
    assert code == 3 and "waits for its replies: batches: 1 in_progress; 0 of 16 requests done" in out, err
    assert "`jury collect` takes them in" in out
    assert not [*store.glob("ledger/*/end.json")] and twin.count == 1
    assert ask("SELECT status FROM runs") == [{"status": "waiting"}] and ask("FROM failures") == []
    code, out, err = jury("status")
    assert "4 samples: waits for its batches" in out and "1 in_progress; 0 of 16 requests done, as of 20" in out, out
    code, out, err = jury("collect")
    assert code == 3 and "waits: batches: 1 finalizing; 0 of 16 requests done" in out, err
    code, out, err = jury("collect")
    assert code == 0 and "Traceback" not in err and f"run {run_folders(store)[0].name}" in out, err
    paid_once(twin, store)
    assert twin.count == 1 and told(store) == live and nothing_left(twin, store)
    rows = ask("SELECT DISTINCT status, tier, attempt, rung, price_source FROM judgments")
    assert [(row["status"], row["tier"], row["attempt"], row["rung"]) for row in rows] == [
        ("ok", "batch", 1, "json_schema")
    ]
    assert ask("SELECT status, calls FROM runs") == [{"status": "finished", "calls": CALLS}]
    assert jury("collect")[:2] == (0, "nothing waits\n")


def test_the_requests_are_those_of_a_live_run(
    twin: BatchTwin, dataset: list[str], tmp_path: Path, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MOST_REQUESTS", 7)
    assert jury("run", "diagram", *dataset, *bought(twin))[0] == 3
    assert jury("run", "diagram", *dataset, *judged_by(twin))[0] == 0
    sent = sorted(json.dumps(each.body) for each in twin.requests[2:])
    lines = [json.loads(line) for file in twin.uploaded for line in file.data.splitlines()]
    assert sorted(json.dumps(line["body"]) for line in lines) == sent
    assert [len(file.data.splitlines()) for file in twin.uploaded] == [7, 7, 2]
    assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
    assert len({line["custom_id"] for line in lines}) == CALLS


def test_votes_orders_and_controls_are_judged_in_a_batch_as_in_a_live_run(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any
) -> None:
    asked = ["--orders", "both", "--votes", "2", "--controls", "0.5", "--limit", "2"]
    assert jury("run", "diagram", *dataset, *asked, *bought(twin))[0] == 3
    assert jury("collect")[0] == 0
    other = tmp_path / "other"
    assert jury("run", "diagram", *dataset, *asked, *judged_by(twin), "--store", str(other))[0] == 0
    assert told(tmp_path / "store") == told(other) and told(other).total() > 2
    assert any(row.control for row in every_judgment(tmp_path / "store"))


def test_replies_of_earlier_runs_are_no_part_of_a_batch(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any
) -> None:
    assert jury("run", "diagram", *dataset, *judged_by(twin), "--limit", "2")[0] == 0
    code, out, err = jury("run", "diagram", *dataset, *bought(twin), "--json")
    assert code == 3 and "waits for its replies" in json.loads(out)["waits"], err
    code, out, err = jury("collect", "--json")
    assert code == 0 and json.loads(out), err
    _, batch = run_folders(tmp_path / "store")
    rows = Counter((bool(row.reused_from), row.tier) for row in read_judgments(batch))
    assert rows == {(True, ""): CALLS // 2, (False, "batch"): CALLS // 2} and len(twin.paid) == CALLS // 2
    whole = tmp_path / "whole"
    (whole / "ledger").mkdir(parents=True)
    batch.rename(whole / "ledger" / batch.name)
    assert told(whole) == live


def test_images_are_judged_in_a_batch_too_and_by_litellms_proxy(
    tmp_path: Path, twin: BatchTwin, jury: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, here = known.endpoints(), {"address": twin.base_url}
    monkeypatch.setattr(known, "endpoints", lambda: {"litellm": table["litellm"].model_copy(update=here)})
    images = write_geneval(tmp_path / "images", [prompt_row("clock", "counting")], images_per_prompt=1)
    assert jury("run", "counting", "--dataset", images, *bought(twin))[0] == 3
    code, _, err = jury("collect")
    assert code == 0, err
    [row] = ask("SELECT status, score FROM outcomes")
    assert (row["status"], row["score"]) == ("complete", 7)
    assert {*twin.models} == {"m"} and nothing_left(twin, tmp_path / "store")


# What a batch leaves over


FATES = {0: "expired", 3: "failed", 5: "lost", 6: "429"}


def first_time(twin: BatchTwin, fates: dict[int, str]) -> Callable[[int], str]:
    return lambda place: fates.get(place, "") if len(twin.batches) == 1 else ""


def broken_once() -> Callable[[Request], Reply]:
    """A judge whose first reply to one of the questions cannot be read."""
    broken: list[str] = []

    def answer(request: Request) -> Reply:
        if request.schema_name == "diagram_aesthetics" and not broken:
            broken.append("once")
            return text("The Model's, surely.")
        return by_picture(request)

    return answer


def test_what_a_batch_leaves_over_goes_into_a_second_one(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any, ask: Any
) -> None:
    twin.fate, twin.answer, store = first_time(twin, FATES), broken_once(), tmp_path / "store"
    assert jury("run", "diagram", *dataset, *bought(twin, **{"judge.seed": 5}))[0] == 3
    code, out, err = jury("collect")
    assert code == 3 and "a second time, batches: 1 finalizing; 0 of 5 requests done" in err + out, err + out
    assert jury("collect")[0] == 0
    assert told(store) == live and nothing_left(twin, store) and twin.count == 1
    rows = ask("SELECT status, attempt, error FROM judgments WHERE NOT last_attempt ORDER BY error")
    assert Counter((row["status"], row["attempt"]) for row in rows) == {("unavailable", 1): 4, ("invalid", 1): 1}
    words = " ".join(row["error"] for row in rows)
    assert "batch_expired: This request could not be" in words and "the batch has no reply to it in its files" in words
    assert "500: The server had an error" in words and "429: The server" in words
    seeds = [json.loads(line)["body"]["seed"] for line in twin.uploaded[1].data.splitlines()]
    assert Counter(seeds) == {5: 4, 6: 1}  # one that was invalid has another seed


@pytest.mark.parametrize(("rest", "asked", "code"), [("live", 5, 0), ("leave", 0, 3)])
def test_what_a_batch_leaves_over_is_asked_live_or_left_as_wanted(
    rest: str, asked: int, code: int, tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any
) -> None:
    twin.fate, twin.answer = first_time(twin, FATES), broken_once()
    assert jury("run", "diagram", *dataset, *bought(twin, **{"batch-rest": rest}))[0] == 3
    assert jury("collect")[0] == code
    assert twin.count == 1 + asked and len(twin.batches) == 1 and nothing_left(twin, tmp_path / "store")
    assert (told(tmp_path / "store") == live) == (rest == "live")
    tiers = Counter(row.tier for row in every_judgment(tmp_path / "store"))
    assert tiers == {"batch": CALLS, **({"": asked} if asked else {})}


def test_a_batch_that_fails_twice_as_a_whole_leaves_every_call_with_its_reason(
    twin: BatchTwin, dataset: list[str], jury: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(batch: Any, cancelled: bool = False) -> None:
        batch.status = "failed"
        batch.errors = [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "line": None}]

    monkeypatch.setattr(twin, "_answer_all", fails)
    assert jury("run", "diagram", *dataset, *bought(twin))[0] == 3
    assert jury("collect")[0] == jury("collect")[0] == 3
    rows = ask("SELECT DISTINCT status, attempt, error FROM judgments ORDER BY attempt")
    assert [(row["status"], row["attempt"]) for row in rows] == [("unavailable", 1), ("unavailable", 2)]
    assert {row["error"] for row in rows} == {"the batch failed: token_limit_exceeded: Enqueued token limit reached"}
    assert jury("collect")[:2] == (0, "nothing waits\n")


def test_a_run_that_is_cancelled_keeps_what_was_done(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any
) -> None:
    twin.polls = 100
    assert jury("run", "diagram", *dataset, *bought(twin))[0] == 3
    assert jury("collect", "--cancel")[0] == 2
    [run] = run_folders(tmp_path / "store")
    code, _, err = jury("collect", "--cancel", run.name[:15])
    assert code == 3 and len(twin.paid) == CALLS // 2, err
    statuses = Counter((row.status, row.attempt) for row in every_judgment(tmp_path / "store"))
    assert statuses == {("ok", 1): CALLS // 2, ("unavailable", 1): CALLS // 2}
    assert nothing_left(twin, tmp_path / "store")


def test_what_the_endpoint_has_no_more_holds_no_other_run_up_and_is_given_up_by_cancelling(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any
) -> None:
    def lose(_: str) -> None:
        lost = twin.batches["batch-0000"].outputs.get("output", "") if twin.batches else ""
        if twin.files.pop(lost, None):
            twin.deleted.append(lost)

    twin.seen = lose
    for samples in (2, 1):
        assert jury("run", "diagram", *dataset, *bought(twin), "--limit", samples)[0] == 3
    gone, other = run_folders(tmp_path / "store")
    code, out, err = jury("collect")
    assert code == 2 and f"run {other.name}" in out and "404: Nothing is there" in err, err
    assert f"Run {gone.name} still waits" in err and "`jury collect --cancel` gives the rest of it up" in err
    assert jury("collect", "--cancel", gone.name)[0] == 3
    assert Counter(row.status for row in read_judgments(gone)) == {"unavailable": 2 * CALLS // SAMPLES}
    assert nothing_left(twin, tmp_path / "store") and jury("collect")[:2] == (0, "nothing waits\n")


def test_a_batch_that_is_not_on_record_is_cancelled_too(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any
) -> None:
    twin.polls = 100
    dies(
        twin,
        "run",
        "diagram",
        *dataset,
        *bought(twin),
        "--store",
        tmp_path / "store",
        requests=100,
        asked="make batch",
        times=1,
    )
    [run] = run_folders(tmp_path / "store")
    assert jury("collect", "--cancel", run.name)[0] == 3
    assert len(twin.batches) == 1 and len(twin.paid) == CALLS // 2
    assert nothing_left(twin, tmp_path / "store")


# Again, at once, and after a kill


def test_the_same_command_attaches_to_what_waits_and_pays_nothing_again(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any
) -> None:
    twin.polls, store = 2, tmp_path / "store"
    assert jury("run", "diagram", *dataset, *bought(twin))[0] == 3
    [run] = run_folders(store)
    code, out, _ = jury("run", "diagram", *dataset, *bought(twin))
    assert code == 3 and f"Run {run.name} waits" in out and len(twin.batches) == 1
    code, out, _ = jury("run", "diagram", *dataset, *bought(twin))
    assert code == 0 and f"run {run.name}" in out and told(store) == live
    assert [each.name for each in run_folders(store)] == [run.name] and nothing_left(twin, store)
    paid_once(twin, store)


def test_a_live_run_of_calls_that_wait_says_that_they_are_paid_for_besides(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any
) -> None:
    twin.polls = 2
    assert jury("run", "diagram", *dataset, *bought(twin))[0] == 3
    [waits] = run_folders(tmp_path / "store")
    told = f"Run {waits.name} waits for a batch with these calls: what is asked now is paid for besides."
    code, _, err = jury("run", "diagram", *dataset, *judged_by(twin))
    assert code == 0 and told in " ".join(err.split())
    code, _, err = jury("run", "diagram", *dataset, *judged_by(twin, **{"judge.temperature": 0.5}))
    assert code == 0 and told not in " ".join(err.split())


def test_collecting_twice_at_once_takes_everything_in_once(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any
) -> None:
    store = tmp_path / "store"
    assert jury("run", "diagram", *dataset, *bought(twin))[0] == 3
    fetched, go_on = threading.Event(), threading.Event()

    def seen(what: str) -> None:
        if what == "content file" and not fetched.is_set():
            fetched.set()
            go_on.wait(120)

    twin.seen = seen
    other = in_a_process(twin, "collect", "--store", store, requests=100)
    assert fetched.wait(120)
    code, out, _ = jury("collect")
    assert code == 3 and "another process is at work on it" in out
    go_on.set()
    other.join(120)
    assert told(store) == live and nothing_left(twin, store)
    paid_once(twin, store)


def test_a_kill_at_any_step_loses_nothing_and_pays_for_nothing_twice(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any
) -> None:
    """One run, killed at each step in turn: whoever goes on finds what the one before it left."""
    store = tmp_path / "store"
    command: list[object] = ["run", "diagram", *dataset, *bought(twin)]
    for asked, times in SENDING.items():
        dies(twin, *command, "--store", store, requests=9, asked=asked, times=times)
        # The same command would do it, too, a minute later: so long the dead run's places at the limit are kept.
        command = ["collect"]
    [run] = run_folders(store)
    assert len(twin.batches) == 2 and not every_judgment(store)
    assert [len(file.data.splitlines()) for file in twin.uploaded] == [9, 7, 7]  # the last one is not on record

    rows = 0
    for more in (5, CALLS - 3):  # replies, then outcomes between them
        dies(twin, "collect", "--store", store, requests=9, rows=more)
        rows += more
        assert len(every_judgment(store)) + len([*read_outcomes(run)]) == rows
        assert 0 < len(every_judgment(store)) < CALLS and not (run / "end.json").exists()
        with (run / "judgments.jsonl").open("ab") as file:
            file.write(b'{"schema":6,"run_id":"torn')
    dies(twin, "collect", "--store", store, requests=9, asked="delete file", times=2)
    assert (run / "end.json").exists() and not nothing_left(twin, store)

    assert jury("collect")[0] == 0 and jury("collect")[:2] == (0, "nothing waits\n")
    assert told(store) == live and nothing_left(twin, store)
    assert len(twin.batches) == 2 and run_folders(store) == [run]
    paid_once(twin, store)


# Nights


def test_a_night_that_is_collected_late_stands_in_its_own_place(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "diagram", *dataset, "--reuse-hours", "0"]
    with monkeypatch.context() as scheduled:
        scheduled.setattr(session, "is_scheduled", lambda: True)
        assert jury(*command, *bought(twin))[0] == 3
        assert jury(*command, *judged_by(twin))[0] == 0
        assert jury(*command, *bought(twin))[0] == 3
    late, direct, waiting = [run.name for run in run_folders(tmp_path / "store")]
    assert [night["run_id"] for night in ask("FROM nights ORDER BY night")] == [direct]
    assert jury("collect", late)[0] == 0
    assert [night["run_id"] for night in ask("FROM nights ORDER BY night")] == [late, direct]
    assert [run["status"] for run in ask("FROM runs ORDER BY run_id")] == ["finished", "finished", "waiting"]
    assert [run["scheduled"] for run in ask("FROM runs")] == [True] * 3 and len(twin.paid) == CALLS
    assert jury("collect", waiting)[0] == 0 and {*twin.paid.values()} == {2}  # each night asks anew


@pytest.fixture
def served(prefect_server: str) -> UUID:
    """The deployment `collect` on the server, which other tests may have put there."""
    with get_client(sync_client=True) as client:
        try:
            return client.read_deployment_by_name("collect/collect").id
        except ObjectNotFound:
            return asyncio.run(collect.to_deployment("collect").aapply())  # pyright: ignore


def test_where_the_deployment_is_served_a_run_that_waits_sees_to_it_that_it_is_collected(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any, served: UUID
) -> None:
    twin.polls, store = 3, tmp_path / "store"
    code, out, _ = jury("run", "diagram", *dataset, *bought(twin))
    assert code == 3 and "So does the deployment collect/collect, every 10 minutes." in out
    with get_client(sync_client=True) as client:
        wanted = DeploymentFilter.model_validate({"id": {"any_": [served]}})

        def due() -> list[FlowRun]:
            runs = client.read_flow_runs(deployment_filter=wanted)
            return [run for run in runs if run.parameters == {"parameters": {"store": str(store)}}]

        [planned] = due()
        assert planned.state and planned.state.is_scheduled() and planned.expected_start_time
        assert abs(planned.expected_start_time - datetime.now(UTC) - timedelta(minutes=10)) < timedelta(minutes=1)
        states = [asyncio.run(collect(planned.parameters["parameters"], return_state=True)) for _ in range(2)]
        assert len(due()) in (1, 2)  # several looks within ten minutes are one
        for run in due():
            client.delete_flow_run(run.id)
        states.append(asyncio.run(collect(planned.parameters["parameters"], return_state=True)))
        assert len(due()) == 1  # arranged before anything was taken in: after a kill there is another look
        first = client.read_flow_run(UUID(read_start(run_folders(store)[0]).prefect_run_id))
    assert [state.name for state in states] == ["Waiting", "Waiting", "Completed"], states
    assert str(states[0].message).startswith(f"Run {run_folders(store)[0].name} waits for its replies")
    assert first.state and first.state.name == "Completed" and "4/4 samples scored" in str(first.state.message)
    assert told(store) == live and nothing_left(twin, store)


# Shards


@pytest.fixture
def worker(prefect_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs what is scheduled of the deployment of `diagram`, one after another, in a thread of this process."""
    monkeypatch.setattr(shards, "POLL_SECONDS", 0.2)
    scheduled, ended = {"state": {"type": {"any_": ["SCHEDULED"]}}}, threading.Event()
    with get_client(sync_client=True) as client:
        made = client.create_deployment(
            flow_id=client.create_flow(diagram),
            name="diagram-nightly",
            parameters={"parameters": {}},
            parameter_openapi_schema=parameter_schema(diagram).model_dump(exclude_unset=True),
        )

        def work() -> None:
            wanted = DeploymentFilter.model_validate({"id": {"any_": [made]}})
            while not ended.wait(0.1):
                due = FlowRunFilter.model_validate(scheduled)
                for run in client.read_flow_runs(deployment_filter=wanted, flow_run_filter=due):
                    asyncio.run(run_flow(diagram, flow_run=run, return_type="state"))  # pyright: ignore

        thread = threading.Thread(target=copy_context().run, args=(work,))  # with Prefect's settings
        thread.start()
        yield
        ended.set()
        thread.join()
        client.delete_deployment(made)


@pytest.mark.usefixtures("worker")
def test_each_shard_waits_for_its_batch_and_the_last_that_is_taken_in_reports_the_evaluation(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any, ask: Any
) -> None:
    store, twin.polls = tmp_path / "store", 2
    code, out, err = jury("run", "diagram", *dataset, *bought(twin), "--shards", 2)
    assert code == 3 and "2 of 2 shards of evaluation" in out, (out, err)
    one, other = run_folders(store)
    starts = [read_start(each) for each in (one, other)]
    assert sorted(start.shard for start in starts) == [1, 2] and len(twin.batches) == 2
    [evaluation] = {start.evaluation_id for start in starts}
    assert f"evaluation {evaluation} wait for their replies" in out

    code, out, err = jury("run", "diagram", *dataset, *bought(twin), "--shards", 2)  # the same attaches
    assert code == 3 and f"evaluation {evaluation} wait" in out and len(twin.batches) == 2, err
    code, out, err = jury("collect")
    assert code == 0 and f"run {evaluation}" in out, (out, err)
    assert one.name not in out and other.name not in out  # a shard is no result
    assert told(store) == live and nothing_left(twin, store)
    assert len(every_judgment(store)) == len(twin.paid) == CALLS and {*twin.paid.values()} == {1}
    assert ask("SELECT samples, shards FROM evaluations") == [{"samples": SAMPLES, "shards": 2}]


# What is refused


def test_an_endpoint_that_takes_no_files_leaves_the_run_waiting_and_says_why(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any
) -> None:
    twin.refuses["make file"] = error(403, "Your project may not use the Batch API")
    code, _, err = jury("run", "diagram", *dataset, *bought(twin))
    assert code == 2 and "still waits: " in err and "takes no file: 403: Your project may not use the Batch API" in err
    assert "jury collect --cancel" in err
    twin.refuses.clear()
    assert jury("collect")[0] == 3 and jury("collect")[0] == 0
    assert told(tmp_path / "store") == live


def test_a_batch_that_may_have_been_made_is_looked_for_before_another_is(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any
) -> None:
    twin.refuses["make batch"] = error(502, "Bad gateway")
    assert jury("run", "diagram", *dataset, *bought(twin))[0] == 2
    twin.refuses = {"list batches": error(501, "Not implemented")}
    code, _, err = jury("collect")
    assert code == 2 and "does not list its batches: 501: Not implemented" in err and not twin.batches
    twin.refuses.clear()
    assert jury("collect")[0] == 3 and len(twin.batches) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"store": "file:///nowhere/store"}, "kept apart by conditional puts, which only s3:// has"),
        ({"judge.base-url": "mistral"}, "Mistral is not known to have it; those that have are OpenAI, LiteLLM proxy"),
    ],
)
def test_what_no_batch_is_for_is_refused_before_the_first_call(
    options: dict[str, object], words: str, twin: BatchTwin, dataset: list[str], jury: Any
) -> None:
    code, _, err = jury("run", "diagram", *dataset, *bought(twin, **options))
    assert code == 2 and words in err and twin.count == 0


def test_a_run_whose_prompts_have_changed_goes_on_waiting(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any
) -> None:
    prompts = tmp_path / "prompts"
    original = Path(known.__file__).parents[2] / "prompts" / "diagram"
    (prompts / "diagram").mkdir(parents=True)
    own = prompts / "diagram" / "aesthetics.md"
    own.write_text((original / "aesthetics.md").read_text(encoding="utf-8"), encoding="utf-8")
    assert jury("run", "diagram", *dataset, *bought(twin, **{"prompt-set": prompts}))[0] == 3
    own.write_text(own.read_text(encoding="utf-8") + "\nBe brief.\n", encoding="utf-8")
    code, _, err = jury("collect")
    assert code == 2 and "was asked with other prompts" in err and "(aesthetics)" in err
    with lease(tmp_path / "store", run_folders(tmp_path / "store")[0].name) as log:
        assert log and not log.ended
