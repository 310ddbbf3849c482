"""Whole runs judged in batches: submitted, waiting, collected, ended; and killed at each step."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from batch_twin import Batch, BatchTwin, by_picture
from endpoint_twins import moved_to
from killed import SENDING, dies
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, Request, error, text
from prefect import get_client
from prefect.client.schemas.filters import DeploymentFilter
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound
from test_secrets import KEY, echoing
from written_datasets import write_figures
from written_images import prompt_row, write_geneval

from flows import run as session
from flows.cli import main
from flows.collect import collect
from tasks import report
from tasks.batches import submission
from tasks.batches.log import locked
from tasks.batches.submission import HandingIn
from tasks.endpoint import catalog
from tasks.ledger.run_files import read_judgments, read_outcomes, read_start, run_folders
from tasks.spending.budget import FEW, VARIABLE

SAMPLES, CALLS = 2, 8

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_figures(tmp_path_factory.mktemp("figures"), SAMPLES)


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchTwin]:
    """A batch endpoint in OpenAI's place; its batches end at the second poll."""
    with BatchTwin(by_picture, polls=1) as running:
        moved_to(monkeypatch, "openai", running.base_url)
        yield running


def batched(twin: LoopbackJudge, **options: object) -> list[str]:
    return judged_by(twin, **{"judge.service-tier": "batch", **options})


def results(store: Path) -> Counter[Any]:
    """Return outcomes and verdicts of the samples in finished runs, controls included."""
    rows = [row for run in run_folders(store) if (run / "end.json").exists() for row in read_outcomes(run)]
    return Counter(
        (row.sample_id, row.control, row.status, row.overall, row.tier_path, *(each.verdict for each in row.dimensions))
        for row in rows
    )


@pytest.fixture(scope="module")
def live_run(
    dataset: list[str], prefect_server: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Counter[Any], list[str]]:
    """Outcomes and verdicts of a live run of the same judge on the same figures, and its requests."""
    store = tmp_path_factory.mktemp("live")
    with BatchTwin(by_picture) as twin, pytest.MonkeyPatch.context() as patch:
        moved_to(patch, "openai", twin.base_url)
        patch.setattr(report, "renewed", lambda *_: [])
        assert main(["run", "diagram", *dataset, *judged_by(twin), "--store", str(store)]) == 0
    found = results(store)
    assert found.total() == SAMPLES
    return found, sorted(json.dumps(each.body) for each in twin.requests[1:])


@pytest.fixture
def live(live_run: tuple[Counter[Any], list[str]]) -> Counter[Any]:
    return live_run[0]


def check_paid_once(twin: BatchTwin, store: Path, calls: int = CALLS) -> None:
    """Assert that every request was answered once and that every reply is one row."""
    assert len(twin.paid) == calls and {*twin.paid.values()} == {1}
    rows = Counter((row.run_id, row.sample_id, row.dimension, row.attempt) for row in every_judgment(store))
    assert len(rows) == calls and {*rows.values()} == {1}


def every_judgment(store: Path) -> list[Any]:
    return [row for run in run_folders(store) for row in read_judgments(run)]


def nothing_left(twin: BatchTwin, store: Path) -> bool:
    return not twin.files and not [*(store / "batches").glob("*")]


# A run


def test_run_waits_for_its_batch_and_ends_when_collected(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any, ask: Any
) -> None:
    twin.polls, store = 3, tmp_path / "store"
    code, out, err = jury("run", "diagram", *dataset, *batched(twin))
    assert code == 3 and "waits for its replies: batches: 1 in_progress; 0 of 8 requests done" in out, err
    assert "`jury batch collect` takes them in" in out
    assert not [*store.glob("ledger/*/end.json")] and twin.count == 1
    assert ask("SELECT status FROM runs") == [{"status": "waiting"}] and ask("FROM failures") == []
    code, out, err = jury("status")
    waits = "2 samples: Waits for its batches: batches: 1 in_progress; 0 of 8 requests done, as of 20"
    assert waits in out and "; `jury batch collect` asks again." in out, out
    [run] = run_folders(store)
    code, out, err = jury("run", "diagram", *dataset, *batched(twin))
    assert code == 3 and f"Run {run.name} waits" in out and len(twin.batches) == 1, err
    code, out, err = jury("batch", "collect")
    assert code == 3 and "waits for its replies: batches: 1 finalizing; 0 of 8 requests done" in out, err
    code, out, err = jury("run", "diagram", *dataset, *batched(twin))
    assert code == 0 and "Traceback" not in err and f"run {run.name}" in out and run_folders(store) == [run], err
    check_paid_once(twin, store)
    assert twin.count == 3, "only the first question of each `jury run` is live"
    assert results(store) == live and nothing_left(twin, store)
    rows = ask("SELECT DISTINCT status, service_tier, attempt, rung, price_source FROM judgments")
    assert [[*row.values()][:4] for row in rows] == [["ok", "batch", 1, "json_schema"]]
    assert ask("SELECT status, calls FROM runs") == [{"status": "finished", "calls": CALLS}]
    assert jury("batch", "collect")[:2] == (0, "nothing waits\n")
    assert jury("batch", "collect", "--json") == (0, "", "jury: nothing waits\n"), "programs read no sentence"


def test_run_waits_until_the_endpoint_takes_its_batch(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any
) -> None:
    busy = error(429, "Too many files: try again later")
    quota = error(429, "You exceeded your current quota", code="insufficient_quota")
    first, again = ["run", "diagram", *dataset, *batched(twin)], ["batch", "collect"]
    tried: list[tuple[list[str], dict[str, Reply], int, list[str]]] = [
        (first, {"make file": error(403, "Not for you")}, 2, ["still waits: ", "takes no file: 403: Not for you"]),
        (again, {"make batch": busy}, 3, ["Too many files", "busy, and `jury batch collect` tries again"]),
        (again, {"make batch": quota}, 2, ["`jury batch cancel` gives the rest of it up"]),  # waiting would not help
        (again, {"make batch": error(502, "Bad gateway")}, 2, ["Bad gateway"]),  # perhaps made: it is searched for
        (again, {"list batches": error(501, "None")}, 2, ["does not list its batches: 501: None"]),
    ]
    for command, refuses, expected, words in tried:
        twin.refuses = refuses
        code, out, err = jury(*command)
        shown = " ".join((out + err).split())
        assert code == expected and [each for each in words if each not in shown] == [] and not twin.batches, shown
    twin.refuses, twin.polls = {}, 0
    assert jury("batch", "collect")[0] == 0
    assert len(twin.batches) == 1 and results(tmp_path / "store") == live
    check_paid_once(twin, tmp_path / "store")


class LeakyTwin(BatchTwin):
    """An endpoint that repeats the key in every field of its batch objects."""

    def _batch_object(self, batch: Batch) -> dict[str, Any]:
        shown = super()._batch_object(batch)
        status = KEY if batch.status in ("in_progress", "finalizing") else batch.status
        return {**shown, "status": status, "errors": {"data": [{"code": KEY, "message": KEY}]}, KEY: KEY}


def test_key_repeated_by_a_batch_is_stored_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jury: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    data = write_figures(tmp_path / "data", 1)
    fates = {0: "", 1: "500", 2: "expired", 3: ""}
    with LeakyTwin(lambda _: echoing(KEY, "Both are good"), polls=1, fate=lambda place: fates[place]) as twin:
        monkeypatch.setenv("JURY_ENDPOINTS", f"{twin.place}=OPENAI_API_KEY")
        moved_to(monkeypatch, "openai", twin.base_url)
        shown = [jury("run", "diagram", *data, *batched(twin))]
        shown += [jury("status"), jury("batch", "collect")]
    assert [code for code, _, _ in shown] == [3, 0, 3], shown
    assert "1 [key]; 0 of 4 requests done" in shown[0][1], shown
    assert not [words for _, out, err in shown for words in (out, err) if KEY in words]
    assert [one for one in (tmp_path / "store").rglob("*") if one.is_file() and KEY.encode() in one.read_bytes()] == []
    assert [row.reasoning for row in every_judgment(tmp_path / "store") if row.status == "ok"] == ["[key] [key]"] * 2
    assert {*twin.models} == {""}, "the header is for LiteLLM's proxy"


def test_batch_covers_votes_orders_and_controls(tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any) -> None:
    options, other = ["--orders", "both", "--votes", "2", "--controls", "0.5", "--limit", "2"], tmp_path / "other"
    twin.polls = 0
    assert jury("run", "diagram", *dataset, *options, *batched(twin))[0] == 0
    assert jury("run", "diagram", *dataset, *options, *judged_by(twin), "--store", str(other))[0] == 0
    assert results(tmp_path / "store") == results(other) and results(other).total() > 2
    assert any(row.control for row in every_judgment(tmp_path / "store"))


def test_images_are_judged_in_a_batch_by_litellms_proxy(
    tmp_path: Path, twin: BatchTwin, jury: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, here = catalog.endpoints(), {"address": twin.base_url}
    monkeypatch.setattr(catalog, "endpoints", lambda: {"litellm": table["litellm"].model_copy(update=here)})
    images = write_geneval(tmp_path / "images", [prompt_row("clock", "counting")], images_per_prompt=1)
    assert jury("run", "counting", "--dataset", images, *batched(twin))[0] == 3
    code, out, err = jury("batch", "collect", "--json")
    assert code == 0 and json.loads(out), err
    [row] = ask("SELECT status, score FROM outcomes")
    assert (row["status"], row["score"]) == ("complete", 7)
    assert {*twin.models} == {"m"} and nothing_left(twin, tmp_path / "store")


# Calls that a batch leaves unanswered


FATES = {0: "expired", 3: "failed", 5: "lost", 6: "429"}


def broken_once() -> Callable[[Request], Reply]:
    """Return a judge whose first reply to one of the questions cannot be parsed."""
    broken: list[str] = []

    def answer(request: Request) -> Reply:
        if request.schema_name == "diagram_aesthetics" and not broken:
            broken.append("once")
            return text("The Model's, surely.")
        return by_picture(request)

    return answer


def test_same_command_asks_again_for_calls_left_by_a_batch(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any, ask: Any
) -> None:
    twin.fate, twin.answer, store = lambda place: FATES.get(place, ""), broken_once(), tmp_path / "store"
    code, out, err = jury("run", "diagram", *dataset, *batched(twin), "--json")
    assert code == 3 and "waits for its replies" in json.loads(out)["waits"], err
    code, out, err = jury("batch", "collect")
    words = "The batch left 5 calls without a reply that can be used: the same command asks for them"
    assert code == 3 and words in " ".join((out + err).split())
    assert twin.count == 1 and len(twin.batches) == 1 and nothing_left(twin, store)
    assert len(every_judgment(store)) == CALLS
    rows = ask("SELECT status, attempt, error FROM judgments WHERE status <> 'ok' ORDER BY error")
    assert Counter((row["status"], row["attempt"]) for row in rows) == {("unavailable", 1): 4, ("invalid", 1): 1}
    words = " ".join(row["error"] for row in rows)
    assert "batch_expired: This request could not be" in words and "the batch has no reply to it in its files" in words
    assert "500: The server had an error" in words and "429: The server" in words

    twin.fate, twin.polls, whole = lambda _: "", 0, tmp_path / "whole"
    code, _, err = jury("run", "diagram", *dataset, *batched(twin))
    assert code == 0, err
    _, again = run_folders(store)
    assert Counter(bool(row.reused_from) for row in read_judgments(again)) == {True: CALLS - 5, False: 5}
    (whole / "ledger").mkdir(parents=True)
    again.rename(whole / "ledger" / again.name)
    assert results(whole) == live and nothing_left(twin, store)


def test_failed_batch_gives_every_call_its_reason(
    twin: BatchTwin, dataset: list[str], jury: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(batch: Any, cancelled: bool = False) -> None:
        batch.status = "failed"
        batch.errors = [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "line": None}]

    monkeypatch.setattr(twin, "_answer_all", fails)
    twin.polls = 0
    assert jury("run", "diagram", *dataset, *batched(twin))[0] == 3
    [row] = ask("SELECT DISTINCT status, attempt, error FROM judgments")
    assert (row["status"], row["attempt"]) == ("unavailable", 1)
    assert row["error"] == "the batch failed: token_limit_exceeded: Enqueued token limit reached"
    assert jury("batch", "collect")[:2] == (0, "nothing waits\n")


def test_cancellation_that_was_cut_off_goes_on_and_keeps_replies(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live_run: Any, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "MOST_REQUESTS", 6)
    twin.polls = 100
    assert jury("run", "diagram", *dataset, *batched(twin))[0] == 3
    lines = [json.loads(line) for file in twin.uploaded for line in file.data.splitlines()]
    assert sorted(json.dumps(line["body"]) for line in lines) == live_run[1], "the requests are those of a live run"
    assert [len(file.data.splitlines()) for file in twin.uploaded] == [6, 2]
    assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/chat/completions")}
    assert len({line["custom_id"] for line in lines}) == CALLS
    first, second = twin.batches.values()
    [run] = run_folders(tmp_path / "store")
    assert jury("batch", "cancel")[0] == 2 and first.status == "in_progress", "a run must be named"

    def end_after_the_first(name: str) -> None:
        if name == "cancel batch":
            twin.refuses = {name: error(500, "Try again later.")}

    async def stay(_: Batch, **__: bool) -> None:
        """Let a batch be cancelled for some minutes."""

    answer_all, twin.seen = twin._answer_all, end_after_the_first  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(twin, "_answer_all", stay)
    assert jury("batch", "cancel", run.name[:15])[0] == 2
    assert (first.status, second.status) == ("cancelling", "in_progress")
    twin.refuses, twin.seen = {}, lambda _: None
    code, out, err = jury("batch", "cancel", run.name)
    assert code == 3 and "batches: 2 cancelling" in out and second.status == "cancelling", err
    monkeypatch.setattr(twin, "_answer_all", answer_all)
    assert jury("batch", "collect")[0] == 3 and len(twin.paid) == CALLS // 2
    statuses = Counter((row.status, row.attempt) for row in every_judgment(tmp_path / "store"))
    assert statuses == {("ok", 1): CALLS // 2, ("unavailable", 1): CALLS // 2}
    assert nothing_left(twin, tmp_path / "store")


def test_lost_batch_blocks_no_other_run_and_can_be_cancelled(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any
) -> None:
    def lose(_: str) -> None:
        lost = twin.batches["batch-0000"].outputs.get("output", "") if twin.batches else ""
        if twin.files.pop(lost, None):
            twin.deleted.append(lost)

    twin.seen = lose
    for samples in (2, 1):
        assert jury("run", "diagram", *dataset, *batched(twin), "--limit", samples)[0] == 3
    gone, other = run_folders(tmp_path / "store")
    code, _, err = jury("batch", "cancel", "20")
    assert code == 2 and "name one run that waits, by its id or the beginning of it: '20' fits 2" in err
    code, out, err = jury("batch", "collect")
    assert code == 2 and f"run {other.name}" in out and "404: Nothing is there" in err, err
    assert f"Run {gone.name} still waits" in err and "`jury batch cancel` gives the rest of it up" in err
    assert jury("batch", "cancel", gone.name)[0] == 3
    assert Counter(row.status for row in read_judgments(gone)) == {"unavailable": 2 * CALLS // SAMPLES}
    assert nothing_left(twin, tmp_path / "store") and jury("batch", "collect")[:2] == (0, "nothing waits\n")


# Budgets


def test_batch_submits_samples_that_fit_the_budget_after_a_quote(
    tmp_path: Path, twin: BatchTwin, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget, samples, store = 0.03, 7, tmp_path / "store"
    call, of_each = (1200 * 1 + 80 * 10) / 1e6, CALLS // SAMPLES  # price of a reply
    most = call * (1 + FEW / 5)  # of a call, by five replies of the pilot about its dimension
    prices = {"judge.price-in": 1, "judge.price-out": 10, "judge.max-output-tokens": 100}
    given = ["run", "diagram", *write_figures(tmp_path / "data", samples), *batched(twin, **prices)]
    twin.polls = 2
    monkeypatch.setenv(VARIABLE, "50")
    command = [*given, "--budget", budget]
    code, _, err = jury(*command)
    assert code == 2 and "the same command with --quote" in err and not twin.uploaded and not run_folders(store)
    assert jury(*given, "--quote")[0] == 0
    limits: list[float | None] = []

    def close(handing_in: HandingIn) -> None:
        limits.extend(read_start(run).spending_limit for run in run_folders(store)[-1:])
        original(handing_in)

    original = HandingIn.close
    monkeypatch.setattr(HandingIn, "close", close)
    code, out, err = jury(*command)
    assert code == 3 and "waits for its replies" in out, err
    assert limits == [budget], "other runs see it before the batch is sent"
    pilot, run = run_folders(store)
    assert [read_start(each).parameters["quote"] for each in (pilot, run)] == ["pilot", ""]
    [requests] = [len(file.data.splitlines()) for file in twin.uploaded]
    assert (read_start(run).spending_limit or 0.0) > requests * call
    assert requests == of_each and most * 2 * of_each < budget < most * 2 * of_each + call, "the first question counts"
    code, again, _ = jury(*given, "--budget", 0.5)
    assert code == 3 and f"Run {run.name} waits" in again and len(twin.batches) == 1
    assert run_folders(store) == [pilot, run], "of the attempt that found it, nothing is left"

    assert jury("batch", "collect")[0] == 3
    [end] = [json.loads(file.read_bytes()) for file in store.glob("ledger/*/end.json")]
    rows = Counter((row.run_id == pilot.name, row.service_tier, bool(row.reused_from)) for row in every_judgment(store))
    reused = rows[False, "", True]
    assert rows == Counter({(True, "", False): 20, (False, "", True): reused, (False, "batch", False): requests})
    stopped = end["stopped"]
    assert stopped["judged"] == (reused + requests) // of_each and stopped["samples"] == samples
    first = (1200 * 1 + 80 * 10) / 1e6  # the first question of the run, live
    assert stopped["spent"] == pytest.approx(requests * call + first) and stopped["spent"] <= budget
    assert sum(end["cost"].values()) == pytest.approx(requests * call)
    assert nothing_left(twin, store)


# Repeated and concurrent commands, and kills


def test_killed_run_resumes_without_paying_twice(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any
) -> None:
    """One run, killed at each step in turn; the next command continues from what the last one stored."""
    store = tmp_path / "store"
    command: list[object] = ["run", "diagram", *dataset, *batched(twin)]
    for operation, times in SENDING.items():
        dies(twin, *command, "--store", store, requests=5, asked=operation, times=times)
        # The same command would continue it, too, but only after a minute, when the dead run's slots expire.
        command = ["batch", "collect"]
    [run] = run_folders(store)
    assert len(twin.batches) == 2 and not every_judgment(store)
    assert [len(file.data.splitlines()) for file in twin.uploaded] == [5, 3, 3]  # the last upload was not logged

    for rows in (3, CALLS - 2):  # replies, then outcomes between them
        dies(twin, "batch", "collect", "--store", store, requests=5, rows=rows)
        assert len(every_judgment(store)) + len([*read_outcomes(run)]) == rows
        assert 0 < len(every_judgment(store)) < CALLS and not (run / "end.json").exists()
        with (run / "judgments.jsonl").open("ab") as file:
            file.write(b'{"schema":7,"run_id":"torn')
    dies(twin, "batch", "collect", "--store", store, requests=5, asked="delete file", times=2)
    assert (run / "end.json").exists() and not nothing_left(twin, store)

    assert jury("batch", "collect")[0] == 0 and jury("batch", "collect")[:2] == (0, "nothing waits\n")
    assert results(store) == live and nothing_left(twin, store)
    assert len(twin.batches) == 2 and run_folders(store) == [run]
    check_paid_once(twin, store)


# Nights


def test_night_collected_late_is_sorted_by_its_start(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "diagram", *dataset, "--reuse-hours", "0"]
    with monkeypatch.context() as scheduled:
        scheduled.setattr(session, "is_scheduled", lambda: True)
        assert jury(*command, *batched(twin))[0] == 3
        assert jury(*command, *judged_by(twin))[0] == 0
        assert jury(*command, *batched(twin))[0] == 3
    late, direct, _ = [run.name for run in run_folders(tmp_path / "store")]
    assert [night["run_id"] for night in ask("FROM nights ORDER BY night")] == [direct]
    assert jury("batch", "collect", late)[0] == 0
    assert [night["run_id"] for night in ask("FROM nights ORDER BY night")] == [late, direct]
    assert [run["status"] for run in ask("FROM runs ORDER BY run_id")] == ["finished", "finished", "waiting"]
    assert [run["scheduled"] for run in ask("FROM runs")] == [True] * 3 and len(twin.paid) == CALLS
    assert [len(file.data.splitlines()) for file in twin.uploaded] == [CALLS] * 2, "nights reuse no replies"


@pytest.fixture
def collect_deployment(prefect_server: str) -> UUID:
    """Id of the deployment `collect` on the server; another test may have created it."""
    with get_client(sync_client=True) as client:
        try:
            return client.read_deployment_by_name("collect/collect").id
        except ObjectNotFound:
            return asyncio.run(collect.to_deployment("collect").aapply())  # pyright: ignore


def test_waiting_run_schedules_the_collect_deployment(
    tmp_path: Path, twin: BatchTwin, dataset: list[str], live: object, jury: Any, collect_deployment: UUID
) -> None:
    twin.polls, store = 2, tmp_path / "store"
    code, out, _ = jury("run", "diagram", *dataset, *batched(twin))
    assert code == 3 and "So does the deployment collect/collect, every 10 minutes." in out
    with get_client(sync_client=True) as client:
        wanted = DeploymentFilter.model_validate({"id": {"any_": [collect_deployment]}})

        def due() -> list[FlowRun]:
            runs = client.read_flow_runs(deployment_filter=wanted)
            return [run for run in runs if run.parameters == {"parameters": {"store": str(store)}}]

        [planned] = due()
        assert planned.state and planned.state.is_scheduled() and planned.expected_start_time
        assert abs(planned.expected_start_time - datetime.now(UTC) - timedelta(minutes=10)) < timedelta(minutes=1)
        states = [asyncio.run(collect(planned.parameters["parameters"], return_state=True))]
        assert len(due()) in (1, 2)  # ten minutes have at most one more run
        for run in due():
            client.delete_flow_run(run.id)
        states.append(asyncio.run(collect(planned.parameters["parameters"], return_state=True)))
        assert len(due()) == 1  # scheduled before replies are fetched, in case of a kill
        first = client.read_flow_run(UUID(read_start(run_folders(store)[0]).prefect_run_id))
    assert [state.name for state in states] == ["Waiting", "Completed"], states
    assert str(states[0].message).startswith(f"Run {run_folders(store)[0].name} waits for its replies")
    assert first.state and first.state.name == "Completed" and " of 100" in str(first.state.message)
    assert results(store) == live and nothing_left(twin, store)


# Refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"store": "s3://bucket/store"}, "the store is s3://bucket/store: one machine hands a batch in and takes"),
        ({"shards": 2}, "shards is 2: one machine hands a batch in and takes it in again. Give a folder as the store"),
        ({"judge.base-url": "mistral"}, "Mistral does not document it; it is available from OpenAI, LiteLLM proxy"),
    ],
)
def test_unsupported_batch_options_are_refused_before_the_first_call(
    options: dict[str, object], words: str, twin: BatchTwin, dataset: list[str], jury: Any
) -> None:
    code, _, err = jury("run", "diagram", *dataset, *batched(twin, **options))
    assert code == 2 and words in err and twin.count == 0


def test_collect_refuses_a_bucket(jury: Any) -> None:
    code, _, err = jury("batch", "collect", "--store", "s3://bucket/store")
    assert code == 2 and "s3://bucket/store is no folder: runs wait for batches in a store that is a folder" in err


def test_run_with_changed_prompts_keeps_waiting(tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any) -> None:
    prompts = tmp_path / "prompts"
    original = Path(catalog.__file__).parents[2] / "prompts" / "diagram"
    (prompts / "diagram").mkdir(parents=True)
    own = prompts / "diagram" / "aesthetics.md"
    own.write_text((original / "aesthetics.md").read_text(encoding="utf-8"), encoding="utf-8")
    assert jury("run", "diagram", *dataset, *batched(twin, **{"prompt-set": prompts}))[0] == 3
    own.write_text(own.read_text(encoding="utf-8") + "\nBe brief.\n", encoding="utf-8")
    code, _, err = jury("batch", "collect")
    assert code == 2 and "was asked with other prompts" in err and "(aesthetics)" in err
    with locked(tmp_path / "store", run_folders(tmp_path / "store")[0].name) as log:
        assert log and not log.ended


def test_batch_missing_from_log_is_cancelled(tmp_path: Path, twin: BatchTwin, dataset: list[str], jury: Any) -> None:
    twin.polls = 100
    command = ["run", "diagram", *dataset, *batched(twin), "--store", tmp_path / "store"]
    dies(twin, *command, requests=100, asked="make batch", times=1)
    [run] = run_folders(tmp_path / "store")
    assert jury("batch", "cancel", run.name)[0] == 3
    assert len(twin.batches) == 1 and len(twin.paid) == CALLS // 2
    assert nothing_left(twin, tmp_path / "store")
