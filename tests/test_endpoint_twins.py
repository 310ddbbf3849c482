"""Every known endpoint, in a run or by a question, as a twin that accepts and refuses what its documentation says."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from endpoint_habits import BOUND_WORDS, HABITS, OLD_VLLM, SCHEMA_WORDS, SMALL_OLLAMA
from endpoint_twins import LENGTHS, Twin, not_strict
from factories import any_sample
from loopback_judge import judged_by
from loopback_replies import Request as Asked
from written_datasets import record, result, write_benchmark, write_figures, write_json
from written_images import prompt_row, write_geneval

from tasks.endpoint import gate
from tasks.endpoint.catalog import addressed, endpoints
from tasks.endpoint.client import Vlm
from tasks.endpoint.replies import Reply as Answer
from tasks.endpoint.requests import Request, probe_request
from tasks.protocols import protocol_of
from tasks.records.judge import Judge
from tasks.records.parameters import Probe, RubricParameters
from tasks.rubrics.rubric import holdings, load_rubric

KEY = "sk-of-the-twin-0001"
CALLS = 4
"""One call for each dimension of a diagram."""


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options of `jury run diagram` for one diagram."""
    return write_figures(tmp_path_factory.mktemp("figures"), 1)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options of `jury run counting` for one image of one prompt."""
    rows = [prompt_row("clock", "counting")]
    return ["--dataset", str(write_geneval(tmp_path_factory.mktemp("images"), rows, images_per_prompt=1))]


@contextmanager
def in_place(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Twin]:
    """Run a twin in an endpoint's place, with its usual key listed and set."""
    with Twin(name) as running:
        key = endpoints()[name].key
        monkeypatch.setenv("JURY_ENDPOINTS", f"{running.place}={key}" if key else "")
        monkeypatch.setenv(key or "NO_KEY", KEY)
        running.take_its_place(monkeypatch)
        yield running


def options_for(twin: Twin) -> list[str]:
    """Return options of `jury run` for the endpoint, by its short name if it has a fixed address."""
    own = endpoints()[twin.name].has_resources
    return judged_by(twin, **({} if own else {"judge.base-url": twin.name}))


# Runs


WHOLE = ("openai", "anthropic")
"""Endpoints tested by whole runs; the others are tested by single questions."""


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("name", WHOLE)
def test_run_asks_as_documented(
    name: str, figures: list[str], images: list[str], jury: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = endpoints()[name]
    with in_place(name, monkeypatch) as twin:
        for flow, data in (("diagram", figures), ("counting", images)):
            code, _, err = jury("run", flow, *data, *options_for(twin))
            assert code == 0 and "seems to read" not in err, err
    rows = ask("SELECT status, rung, endpoint, tokens_in, tokens_out, not_sent, recovery FROM judgments")
    assert len(rows) == CALLS + 1
    assert {(row["status"], row["rung"], row["endpoint"]) for row in rows} == {("ok", docs.reply_format, twin.base_url)}
    assert all(row["tokens_in"] > 0 and row["tokens_out"] == 80 and row["not_sent"] == [] for row in rows)
    assert {row["recovery"] for row in rows} == {"fence removed" if docs.reply_format == "plain" else "strict"}
    assert [len(seen.images) for seen in twin.requests] == [2] * (1 + CALLS) + [1] * 2  # the first question, too
    check_requests(twin)


def check_requests(twin: Twin) -> None:
    docs = endpoints()[twin.name]
    assert twin.refusals == [], "the endpoint refused a request"
    for seen in twin.requests:
        [length] = LENGTHS & set(seen.body)
        assert length == docs.token_limit and length in twin.habits.token_limits
        assert (seen.response_format.get("type") or "plain") == docs.reply_format
        assert seen.headers["authorization"] == f"Bearer {KEY if docs.key else 'none'}"


@pytest.mark.usefixtures("prefect_server")
def test_one_picture_limit_is_reported_in_the_servers_words(figures: list[str], images: list[str], jury: Any) -> None:
    with Twin("vllm", OLD_VLLM) as twin:
        code, _, err = jury("run", "diagram", *figures, *judged_by(twin))
        assert code == 2 and len(twin.requests) == 1
        assert "refuses the first question: 400: At most 1 image(s) may be provided in one request" in err
        assert jury("run", "counting", *images, *judged_by(twin))[0] == 0


@pytest.mark.usefixtures("prefect_server")
def test_truncated_prompts_are_reported_at_the_end_of_the_run(
    tmp_path: Path, jury: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_benchmark(tmp_path / "data", [record(n, content="It reads tokens. " * 900 * n) for n in (1, 2)])
    results = write_json(root / "results.json", [result(n) for n in (1, 2)])
    with Twin("ollama", SMALL_OLLAMA) as twin:
        twin.take_its_place(monkeypatch)
        data = ["--dataset", str(root), "--results", str(results)]
        code, _, err = jury("run", "diagram", *data, *judged_by(twin, **{"judge.base-url": "ollama"}))
    assert code == 0
    words = "the judge seems to read only the beginning of its questions: "
    assert words in err and "all report 2,050 input tokens" in err and "OLLAMA_CONTEXT_LENGTH=32768" in err
    [run] = ask("SELECT warnings FROM runs")
    assert [each for each in run["warnings"] if each.startswith(words)]


@pytest.mark.usefixtures("prefect_server")
def test_flow_run_takes_a_short_endpoint_name_and_stores_its_address(
    tmp_path: Path, images: list[str], ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.counting import counting

    judge = Judge(model="m", base_url="groq")
    with Twin("groq") as twin:
        twin.take_its_place(monkeypatch)
        given = RubricParameters(dataset=images[1], store=str(tmp_path / "store"), judge=judge)  # pyright: ignore
        state = asyncio.run(counting(given, return_state=True))  # pyright: ignore
    assert state.is_completed(), state.message
    [run] = ask("SELECT endpoint, protocol FROM runs")
    assert run["endpoint"] == run["protocol"]["endpoint"] == twin.base_url


# The twins themselves: they refuse what the table lists, in the documented form


def ask_twin(twin: Twin, request: Request, **settings: Any) -> Answer:
    async def scene() -> Answer:
        place = twin.base_url if endpoints()[twin.name].has_resources else twin.name
        judge = addressed(Probe(judge=Judge(model="m", base_url=place, **settings))).judge
        async with Vlm(judge) as vlm:
            return await vlm.ask(request)

    return asyncio.run(scene())


@pytest.mark.parametrize("name", [name for name in endpoints() if name not in WHOLE])
def test_question_is_asked_as_documented(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = endpoints()[name]
    with in_place(name, monkeypatch) as twin:
        for pictures in (2, 1):
            reply = ask_twin(twin, probe_request(pictures))
            assert (reply.status, reply.rung, reply.not_sent) == ("ok", docs.reply_format, ())
            assert reply.usage.tokens_out == 80 and reply.usage.tokens_in > 0
    assert [len(seen.images) for seen in twin.requests] == [2, 1]
    check_requests(twin)


def test_every_reply_schema_is_strict_for_every_endpoint() -> None:
    words = frozenset(SCHEMA_WORDS | BOUND_WORDS)
    sets = [(flow, name) for name in ("default", "paper", "checked") for flow in holdings(name)]
    prompts = [prompt for flow, name in sets for prompt in load_rubric(flow, name).prompts]
    assert len(prompts) > 20
    schemas = [protocol_of(each.flow).reply_form(each, any_sample()).schema for each in prompts]
    assert [not_strict(schema, words) for schema in schemas] == [[]] * len(prompts)


@pytest.mark.parametrize("name", [*HABITS])
def test_flex_call_names_its_tier_and_waits_for_capacity(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BACKOFF_SECONDS", (0.01, 0.03))
    full = HABITS[name].flex_full
    assert bool(full) == ("flex" in endpoints()[name].tiers)
    if not full:
        return
    with Twin(name) as twin:
        twin.take_its_place(monkeypatch)
        twin.queue(full, full)
        in_flex, standard = ask_twin(twin, probe_request(), service_tier="flex"), ask_twin(twin, probe_request())
    assert (in_flex.status, in_flex.waits, in_flex.http_retries) == ("ok", 2, 0)
    assert [each.body.get("service_tier") for each in twin.requests] == ["flex"] * 3 + [None]
    assert (standard.status, standard.waits) == ("ok", 0)


@pytest.mark.usefixtures("prefect_server")
def test_flex_run_reports_replies_billed_otherwise(
    figures: list[str], monkeypatch: pytest.MonkeyPatch, jury: Any, ask: Any
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Twin("openai") as twin:
        monkeypatch.setenv("JURY_ENDPOINTS", f"{twin.place}=OPENAI_API_KEY")
        twin.take_its_place(monkeypatch)
        answer = twin.answer

        def report_every_second_tier(seen: Asked) -> Any:
            twin.tier = "default" if len(twin.requests) % 2 else ""
            return answer(seen)

        twin.answer = report_every_second_tier
        code, _, err = jury("run", "diagram", *figures, *options_for(twin), "--judge.service-tier", "flex")
    assert code == 0 and "2 of 4 replies were billed otherwise (2 standard): judge.service_tier is flex" in err
    words = "2 of 4 replies do not say what they were bought as, only the provider's bill says whether they were"
    assert words in err and {row["service_tier"] for row in ask("FROM judgments")} == {"standard", ""}


def test_every_known_endpoint_has_a_twin() -> None:
    assert [*HABITS] == [*endpoints()]
