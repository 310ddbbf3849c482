"""The layout `shared`: requests, eligible runs, and cost with endpoints that cache common beginnings."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from billing_twins import RULES, BillingTwin
from loopback_judge import LoopbackJudge
from loopback_replies import drop, retry_after, verdict
from plain_runs import DIMENSIONS, METHOD, Scene, case, layout, long_case, many, shared_bill

from tasks.endpoint import client
from tasks.errors import InputError
from tasks.extensions.shared_layout import FirstCalls, SharedLayout, check, keys_of, layout_of
from tasks.judging import questions
from tasks.judging.case import Call, Case, plan
from tasks.judging.extension import Limit
from tasks.judging.protocol_items import asked_protocol
from tasks.ledger.evaluations import protocol_key
from tasks.records import Judgment
from tasks.records.judge import Judge
from tasks.records.parameters import PairwiseParameters
from tasks.rubrics.rubric import Rubric, load_rubric

FLOWS = {flow: load_rubric(flow) for flow in ("diagram", "plot")}
Scenes = Callable[..., Scene]


@pytest.fixture
def scene(tmp_path: Path) -> Scenes:
    return lambda *given, **changes: Scene(tmp_path, *given, **changes)


@pytest.fixture(params=RULES)
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[BillingTwin]:
    """Yield each billing twin, in place of its endpoint."""
    with BillingTwin(request.param) as standing:
        standing.take_its_place(monkeypatch, key="")
        yield standing


# Requests


@pytest.mark.parametrize("flow", FLOWS)
def test_requests_share_their_beginning_and_end_with_the_dimension(flow: str) -> None:
    prompts, made, layout = FLOWS[flow].prompts, case(), SharedLayout(FLOWS[flow])
    asked = [layout.request(prompt, made.sample, made.texts, made.pictures, "human_first") for prompt in prompts]
    assert {each.system for each in asked} == {layout.instructions(prompts[0])}
    assert len({str(each.schema) for each in asked}) == 1 and {each.name for each in asked} == {f"{flow}_shared"}
    for prompt, each in zip(prompts, asked, strict=True):
        assert each.content[-1] == f"Judge {prompt.dimension} alone. Reply in JSON."
        assert each.content[:5] == asked[0].content[:5], "two labelled pictures and the caption"
        assert each.content[1] == ("image/png", made.pictures["human"].encoded)
        assert each.breakpoints == ((4, 5) if "context" in prompt.inputs else (4,))
        assert len(each.content) == each.breakpoints[-1] + 2
        assert each.system_is_shared and len(each.breakpoints) <= 3, "four breakpoints at most"
        assert (METHOD in str(each.content)) == ("context" in prompt.inputs)


@pytest.mark.parametrize("flow", FLOWS)
def test_system_message_has_all_prompts_and_no_sample_texts(flow: str) -> None:
    rubric, made = FLOWS[flow], case()
    system = SharedLayout(rubric).instructions(rubric.prompts[0])
    opening, *sections = re.split(r"(?m)^=== (?=\w+ [0-9a-f]{12} ===$)", system)
    assert questions.GUARD in opening and "a single JSON object" in opening
    assert [section.split()[0] for section in sections] == [prompt.dimension for prompt in rubric.prompts]
    for prompt, section in zip(rubric.prompts, sections, strict=True):
        body = section.removesuffix("\n\n").partition(" ===\n\n")[2]
        restricted = prompt.dimension == "faithfulness" and flow == "plot"
        own = 'winner is one of "Human", "Both are good" alone\n\n' if restricted else ""
        assert body == own + prompt.body
    assert not any(text in system for text in made.texts.values())


def test_orders_differ_in_their_beginning_but_share_the_cache_key() -> None:
    made, prompt, layout = case(), FLOWS["diagram"].prompt("readability"), SharedLayout(FLOWS["diagram"], 3)
    one, other = (
        layout.request(prompt, made.sample, made.texts, made.pictures, order)
        for order in ("human_first", "model_first")
    )
    assert other.content[:4] == (*one.content[2:4], *one.content[:2]) and one.system == other.system
    keys = [layout.key(number) for number in range(6)]
    assert keys[:3] == keys[3:] and len({*keys}) == 3 and {len(key) for key in keys} == {32}
    assert {*keys}.isdisjoint({SharedLayout(FLOWS["plot"], 3).key(number) for number in range(3)})


@pytest.mark.parametrize(
    ("address", "concurrency", "calls", "keys"),
    [
        ("https://api.openai.com/v1", 16, 1168, 7),  # 96 calls a minute, 15 of each key
        ("https://api.openai.com/v1", 2, 1168, 1),
        ("https://api.openai.com/v1", 64, 40, 3),  # all within a minute
        ("https://api.openai.com/v1", 16, 0, 1),
        ("http://localhost:8000/v1", 64, 1168, 1),  # vLLM, and others that get no key
        ("https://openrouter.ai/api/v1", 64, 1168, 1),
        ("https://judge.example/v1", 64, 1168, 1),
    ],
)
def test_number_of_cache_keys_follows_the_call_rate(address: str, concurrency: int, calls: int, keys: int) -> None:
    assert keys_of(Judge(model="m", base_url=address, concurrency=concurrency), calls) == keys


def test_cache_keys_do_not_change_call_or_protocol_keys() -> None:
    rubric, made = FLOWS["diagram"], case()
    given = {"model": "m", "base_url": "https://api.openai.com/v1"}
    few, many = (PairwiseParameters(layout="shared", judge=Judge(**given, concurrency=most)) for most in (1, 64))
    assert plan(made, rubric, few, layout_of(few, rubric)) == plan(case(), rubric, many, layout_of(many, rubric))
    assert protocol_key(asked_protocol(few, rubric)) == protocol_key(asked_protocol(many, rubric))


def test_changing_one_prompt_changes_all_call_keys() -> None:
    rubric, shared = FLOWS["diagram"], PairwiseParameters(layout="shared")
    *others, last = rubric.prompts
    body = f"{last.body} More."
    changed = last.model_copy(update={"body": body, "sha256": sha256(body.encode()).hexdigest()})
    moved = rubric.model_copy(update={"prompts": (*others, changed)})
    layouts = ((each, layout_of(shared, each)) for each in (rubric, moved))
    one, other = ({call.key for call in plan(case(), each, shared, own)} for each, own in layouts)
    assert one.isdisjoint(other)
    assert SharedLayout(rubric).identity.startswith(f"{questions.SHARED} ")


def test_first_breakpoint_without_a_caption_follows_the_pictures() -> None:
    made, prompt = case(), FLOWS["diagram"].prompt("faithfulness")
    bare = prompt.model_copy(update={"inputs": {k: v for k, v in prompt.inputs.items() if k != "caption"}})
    asked = SharedLayout(FLOWS["diagram"]).request(bare, made.sample, made.texts, made.pictures, "human_first")
    assert asked.breakpoints == (3, 4)


def test_layout_is_part_of_keys_only_if_shared() -> None:
    rubric, made = FLOWS["diagram"], case()
    published, shared = PairwiseParameters(), PairwiseParameters(layout="shared")
    assert "layout" not in asked_protocol(published, rubric)
    assert asked_protocol(shared, rubric)["layout"] == questions.SHARED
    assert protocol_key(asked_protocol(published, rubric)) != protocol_key(asked_protocol(shared, rubric))
    one, other = (plan(made, rubric, parameters, layout(parameters))[0] for parameters in (published, shared))
    assert one[:3] == other[:3] and one.key != other.key
    assert one.key == questions.call_key(
        rubric.prompts[0], made.sample, made.digests, "human_first", 1, published.judge
    )


def test_verdict_not_allowed_for_the_dimension_is_invalid(scene: Scenes, loopback: LoopbackJudge) -> None:
    loopback.answer = lambda _: verdict("Model")
    made = scene(loopback)
    made.rubric = FLOWS["plot"]
    rows = {row.dimension: row for row in made.judge()}
    statuses = {name: row.status for name, row in rows.items()}
    assert statuses == dict.fromkeys(DIMENSIONS, "ok") | {"faithfulness": "invalid"}
    assert rows["faithfulness"].error == "winner 'Model' is not one of Human, Both are good"


# Eligible runs


def warnings(base_url: str, rubric: Rubric = FLOWS["diagram"]) -> list[str]:
    model = {} if base_url == "embedded" else {"model": "m"}
    judge = Judge(base_url=base_url, **model)
    return check(PairwiseParameters(judge=judge, layout="shared"), rubric)  # pyright: ignore


def test_judge_without_a_cache_is_refused() -> None:
    with pytest.raises(InputError, match=r"the embedded judge measures each picture once"):
        warnings("embedded")
    with pytest.raises(InputError, match=r"saves nothing at Anthropic, OpenAI layer: none .* OpenRouter and LiteLLM"):
        warnings("https://api.anthropic.com/v1")


def test_judge_with_unknown_cache_gives_a_warning() -> None:
    assert warnings("https://api.openai.com/v1") == []
    [unknown], [silent] = warnings("https://judge.example/v1"), warnings("http://localhost:11434/v1")
    assert "https://judge.example/v1 may or may not cache" in unknown and "Ollama may or may not cache" in silent


def test_batch_tier_gives_a_warning() -> None:
    judge = Judge(model="m", base_url="https://api.openai.com/v1", service_tier="batch")
    [warning] = check(PairwiseParameters(judge=judge, layout="shared"), FLOWS["diagram"])
    assert "in a batch no call about a sample goes before the others" in warning


def test_prompts_with_differing_labels_are_refused() -> None:
    first, *others = FLOWS["diagram"].prompts
    renamed = first.model_copy(update={"inputs": {**first.inputs, "human": "Drawn (Human)"}})
    rubric = FLOWS["diagram"].model_copy(update={"prompts": (renamed, *others)})
    with pytest.raises(InputError, match=r"several labels for human \(Drawn \(Human\), Human-drawn Diagram"):
        warnings("https://api.openai.com/v1", rubric)


# Cost, and waiting for the leading call


def test_shared_beginnings_are_cached_and_billed_like_providers(scene: Scenes, twin: BillingTwin) -> None:
    rules = twin.rules
    prices = {"price_in": 1e6, "price_out": 1e-9, "price_cached": 1e6 * rules.read, "price_written": 1e6 * rules.write}
    made = scene(twin, judge=prices)
    made.cases = [case(number, METHOD * 40) for number in range(3)]
    rows = made.judge()
    assert {row.status for row in rows} == {"ok"} and {row.not_sent for row in rows} == {()}
    by_sample = [[row for row in rows if row.sample_id == f"s{number}"] for number in range(3)]
    prompts = len(SharedLayout(FLOWS["diagram"]).instructions(FLOWS["diagram"].prompts[0])) // 4
    again = prompts if prompts >= rules.least else 0
    for number, (leader, *others) in enumerate(by_sample):
        assert leader.dimension == "faithfulness"
        assert leader.tokens_cached in (range(1) if not number else range(again - 128, again + 128)), "the prompts"
        assert all(row.tokens_cached > prompts + 1900 for row in others), "at least two pictures are cached, too"
    assert twin.read_share() > 0.6
    if rules.read:  # vLLM has no prices
        assert sum(row.price or 0 for row in rows) == pytest.approx(twin.bill())
    assert sum(row.tokens_written for row in rows) == sum(usage.written for _, usage in twin.used)
    for seen in twin.requests if rules.mark else ():
        assert not twin.refusals and sum(rules.mark in part for part in seen.parts) <= 3, "four breakpoints at most"
        assert [rules.mark in part for part in seen.body["messages"][0]["content"]] == [True], "a mark at the end"


@pytest.mark.parametrize(
    ("twin", "method", "most"),
    [("openai-5.5", 20_000, 1.3), ("openai-5.6", 10_500, 1.8), ("anthropic", 10_500, 1.8), ("vllm", 10_500, 1.3)],
    indirect=["twin"],
)
def test_four_dimensions_cost_little_more_than_one(twin: BillingTwin, method: int, most: float, tmp_path: Path) -> None:
    """Each sample writes a twentieth of the prompts to the cache; a published call is priced without any cache."""
    assert shared_bill(twin, tmp_path, lambda: many(long_case(method), 20), concurrency=2) <= most


@pytest.mark.parametrize("twin", ["openai-5.6"], indirect=True)
def test_samples_are_spread_evenly_over_keys_each_written_once(scene: Scenes, twin: BillingTwin) -> None:
    made = scene(twin, judge={"concurrency": 16})
    made.cases = many([case(0, METHOD * 40)], 32)
    rows = made.judge()
    keys = Counter(seen.body["prompt_cache_key"] for seen in twin.requests)
    assert sorted(keys.values()) == [1, *[4 * 4] * 3, *[5 * 4] * 4], "the first question's, and seven keys"
    assert sum(row.tokens_cached < 1024 for row in rows) == 7, "the first call of each key"


@pytest.mark.parametrize("twin", ["openai-5.6"], indirect=True)
def test_each_order_has_a_leader_that_votes_wait_for(scene: Scenes, twin: BillingTwin) -> None:
    rows = scene(twin, orders="both", votes=2).judge()
    led = sorted(rows, key=lambda row: row.tokens_cached)[:2]
    leaders = sorted((row.dimension, row.order, row.vote) for row in led)
    assert leaders == [("faithfulness", "human_first", 1), ("faithfulness", "model_first", 1)]
    assert led[0].tokens_cached == 0 < led[1].tokens_cached < led[1].tokens_in - 1900, "only the prompts"


@pytest.mark.parametrize("twin", ["openai-5.5"], indirect=True)
def test_refused_breakpoints_are_dropped_after_the_first_question(scene: Scenes, twin: BillingTwin) -> None:
    rows = scene(twin).judge()
    assert len(twin.refusals) == 1, "only the first question is refused"
    assert {row.http_retries for row in rows} == {0}
    bodies = [seen.body for seen in twin.requests[2:]]
    assert all("prompt_cache_options" not in body and body["prompt_cache_key"] for body in bodies)
    assert all(isinstance(body["messages"][0]["content"], str) for body in bodies), "no marks, so no parts"


def test_unknown_endpoint_gets_no_cache_fields_and_waits_hold_no_slot(scene: Scenes, loopback: LoopbackJudge) -> None:
    made = scene(loopback, judge={"concurrency": 1})
    made.cases = [case(number) for number in range(6)]
    assert [row.status for row in made.judge()] == ["ok"] * 24 and loopback.peak == 1
    assert not [seen for seen in loopback.requests if b"cache" in seen.raw]
    assert all(isinstance(seen.body["messages"][0]["content"], str) for seen in loopback.requests)


def test_failed_leader_releases_the_other_calls(
    scene: Scenes, loopback: LoopbackJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.0)
    loopback.answer = lambda seen: drop() if "faithfulness" in seen.texts[-1] else verdict("Model")
    statuses = {row.dimension: row.status for row in scene(loopback).judge()}
    assert statuses == dict.fromkeys(DIMENSIONS, "ok") | {"faithfulness": "unavailable"}


async def settle() -> None:
    """Yield until all tasks have gone as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("how", ["ends", "fails", "cancelled"])
def test_first_call_of_each_beginning_leads_and_others_follow_in_order(how: str) -> None:
    async def story() -> None:
        first_calls, begun, ends = FirstCalls(), list[str](), {key: asyncio.Event() for key in "ab"}

        async def call(name: str) -> None:
            async with first_calls.turn(name[0]):
                begun.append(name)
                await ends[name[0]].wait()
                if how == "fails":
                    raise ConnectionError("no reply")

        tasks = [asyncio.create_task(call(name)) for name in ("a1", "a2", "b1", "b2", "a3")]
        await settle()
        assert begun == ["a1", "b1"]
        tasks[0].cancel() if how == "cancelled" else ends["a"].set()
        await settle()
        assert begun == ["a1", "b1", "a2"], "a2 came before b1, so it does not wait for b1"
        ends["b"].set()
        await settle()
        assert begun == ["a1", "b1", "a2", "b2", "a3"]
        ends["a"].set()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(story())


class Spent(Limit):
    """A limit that excludes one dimension."""

    async def before_call(self, case: Case, call: Call) -> bool:
        return call.dimension != "faithfulness"

    def after_call(self, case: Case, call: Call, row: Judgment) -> None:
        pass


def test_leader_beyond_the_budget_releases_the_other_calls(scene: Scenes, loopback: LoopbackJudge) -> None:
    made = scene(loopback)
    made.limit = Spent()
    assert sorted(row.dimension for row in made.judge()) == sorted(set(DIMENSIONS) - {"faithfulness"})


def test_other_calls_wait_for_a_rate_limited_leader(scene: Scenes, loopback: LoopbackJudge) -> None:
    questions_sent: list[str] = []

    def answer(seen: Any) -> Any:
        questions_sent.append(seen.texts[-1])
        return retry_after(0.05) if len(questions_sent) == 2 else verdict("Model")

    loopback.answer = answer
    rows = scene(loopback).judge()
    assert [row.waits for row in rows if row.dimension == "faithfulness"] == [1]
    assert questions_sent[1] == questions_sent[2], "no other call was made in between"
