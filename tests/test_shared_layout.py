"""The layout `shared`: what is sent, which runs may have it, and what it costs where beginnings are cached."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from billing_twins import RULES, BillingTwin
from loopback_judge import LoopbackJudge
from loopback_replies import drop, retry_after, verdict
from plain_runs import DIMENSIONS, METHOD, Scene, bills, case, layout, long_case, many, run_of
from prefect.exceptions import CancelledRun

from flows import pipeline
from tasks.endpoint import client
from tasks.errors import InputError
from tasks.extensions.shared_layout import FirstCalls, Leading, SharedLayout, check, keys_of, layout_of
from tasks.judging import questions
from tasks.judging.case import Call, Case, Chunk, plan
from tasks.judging.extension import Limit
from tasks.judging.protocol import asked_protocol
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
    """Each twin that bills, at the address of its endpoint."""
    with BillingTwin(request.param) as standing:
        standing.take_its_place(monkeypatch, key="")
        yield standing


# What is sent


@pytest.mark.parametrize("flow", FLOWS)
def test_the_questions_of_a_run_begin_alike_and_end_with_the_dimension(flow: str) -> None:
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
def test_the_system_message_holds_each_prompt_whole_under_its_name_and_nothing_of_a_sample(flow: str) -> None:
    rubric, made = FLOWS[flow], case()
    system = SharedLayout(rubric).instructions(rubric.prompts[0])
    opening, *sections = re.split(r"(?m)^=== (?=\w+ [0-9a-f]{12} ===$)", system)
    assert questions.GUARD in opening and "a single JSON object" in opening
    assert [section.split()[0] for section in sections] == [prompt.dimension for prompt in rubric.prompts]
    for prompt, section in zip(rubric.prompts, sections, strict=True):
        told = section.removesuffix("\n\n").partition(" ===\n\n")[2]
        restricted = prompt.dimension == "faithfulness" and flow == "plot"
        own = 'winner is one of "Human", "Both are good" alone\n\n' if restricted else ""
        assert told == own + prompt.body
    assert not any(text in system for text in made.texts.values())


def test_the_orders_of_a_sample_have_beginnings_of_their_own_and_one_key() -> None:
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
        ("http://localhost:8000/v1", 64, 1168, 1),  # vLLM, and others to which no key is sent
        ("https://openrouter.ai/api/v1", 64, 1168, 1),
        ("https://judge.example/v1", 64, 1168, 1),
    ],
)
def test_a_run_has_as_many_keys_as_its_calls_need(address: str, concurrency: int, calls: int, keys: int) -> None:
    assert keys_of(Judge(model="m", base_url=address, concurrency=concurrency), calls) == keys


def test_keys_are_no_part_of_what_a_call_or_a_protocol_is_known_by() -> None:
    rubric, made = FLOWS["diagram"], case()
    given = {"model": "m", "base_url": "https://api.openai.com/v1"}
    few, many = (PairwiseParameters(layout="shared", judge=Judge(**given, concurrency=most)) for most in (1, 64))
    assert plan(made, rubric, few, layout_of(few, rubric)) == plan(case(), rubric, many, layout_of(many, rubric))
    assert protocol_key(asked_protocol(few, rubric)) == protocol_key(asked_protocol(many, rubric))


def test_another_prompt_of_one_dimension_makes_other_questions_of_all() -> None:
    rubric, shared = FLOWS["diagram"], PairwiseParameters(layout="shared")
    *others, last = rubric.prompts
    body = f"{last.body} More."
    changed = last.model_copy(update={"body": body, "sha256": sha256(body.encode()).hexdigest()})
    moved = rubric.model_copy(update={"prompts": (*others, changed)})
    layouts = ((each, layout_of(shared, each)) for each in (rubric, moved))
    one, other = ({call.key for call in plan(case(), each, shared, own)} for each, own in layouts)
    assert one.isdisjoint(other)
    assert SharedLayout(rubric).identity.startswith(f"{questions.SHARED} ")


def test_without_a_caption_the_first_breakpoint_is_behind_the_pictures() -> None:
    made, prompt = case(), FLOWS["diagram"].prompt("faithfulness")
    bare = prompt.model_copy(update={"inputs": {k: v for k, v in prompt.inputs.items() if k != "caption"}})
    asked = SharedLayout(FLOWS["diagram"]).request(bare, made.sample, made.texts, made.pictures, "human_first")
    assert asked.breakpoints == (3, 4)


def test_the_layout_is_in_the_keys_of_a_run_only_where_it_is_asked_for() -> None:
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


def test_a_verdict_of_the_schema_but_not_of_the_dimension_is_invalid(scene: Scenes, loopback: LoopbackJudge) -> None:
    loopback.answer = lambda _: verdict("Model")
    made = scene(loopback)
    made.rubric = FLOWS["plot"]
    rows = {row.dimension: row for row in made.judge()}
    statuses = {name: row.status for name, row in rows.items()}
    assert statuses == dict.fromkeys(DIMENSIONS, "ok") | {"faithfulness": "invalid"}
    assert rows["faithfulness"].error == "winner 'Model' is not one of Human, Both are good"


# Which runs may have it


def words(base_url: str, rubric: Rubric = FLOWS["diagram"]) -> list[str]:
    model = {} if base_url == "embedded" else {"model": "m"}
    judge = Judge(base_url=base_url, **model)
    return check(PairwiseParameters(judge=judge, layout="shared"), rubric)  # pyright: ignore


def test_a_judge_without_a_cache_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"the embedded judge measures each picture once"):
        words("embedded")
    with pytest.raises(InputError, match=r"saves nothing at Anthropic, OpenAI layer: none .* OpenRouter and LiteLLM"):
        words("https://api.anthropic.com/v1")


def test_of_a_judge_whose_cache_is_not_known_the_run_says_so() -> None:
    assert words("https://api.openai.com/v1") == []
    [unknown], [silent] = words("https://judge.example/v1"), words("http://localhost:11434/v1")
    assert "https://judge.example/v1 may or may not cache" in unknown and "Ollama may or may not cache" in silent


def test_of_a_batch_the_run_says_that_no_call_goes_first() -> None:
    judge = Judge(model="m", base_url="https://api.openai.com/v1", service_tier="batch")
    [told] = check(PairwiseParameters(judge=judge, layout="shared"), FLOWS["diagram"])
    assert "in a batch no call about a sample goes before the others" in told


def test_prompts_with_several_labels_for_one_input_are_refused() -> None:
    first, *others = FLOWS["diagram"].prompts
    renamed = first.model_copy(update={"inputs": {**first.inputs, "human": "Drawn (Human)"}})
    rubric = FLOWS["diagram"].model_copy(update={"prompts": (renamed, *others)})
    with pytest.raises(InputError, match=r"several labels for human \(Drawn \(Human\), Human-drawn Diagram"):
        words("https://api.openai.com/v1", rubric)


def test_generated_images_have_one_question_and_no_such_layout(jury: Any) -> None:
    code, _, err = jury("run", "counting", "--dataset", "samples", "--layout", "shared")
    assert code == 2 and "--layout" in err


# What it costs, and who waits


def test_what_begins_alike_is_read_from_a_cache_and_billed_as_providers_do(scene: Scenes, twin: BillingTwin) -> None:
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
        assert all(row.tokens_cached > prompts + 1900 for row in others), "and two pictures at least"
    assert twin.read_share() > 0.6
    if rules.read:  # at vLLM nothing has a price, and 0 is none
        assert sum(row.price or 0 for row in rows) == pytest.approx(twin.bill())
    assert sum(row.tokens_written for row in rows) == sum(usage.written for _, usage in twin.used)
    for seen in twin.requests if rules.mark else ():
        assert not twin.refusals and sum(rules.mark in part for part in seen.parts) <= 3, "four breakpoints at most"
        assert [rules.mark in part for part in seen.body["messages"][0]["content"]] == [True], "the system message ends"


@pytest.mark.parametrize(
    ("twin", "method", "most"),
    [("openai-5.5", 20_000, 1.3), ("openai-5.6", 10_500, 1.8), ("anthropic", 10_500, 1.8), ("vllm", 10_500, 1.3)],
    indirect=["twin"],
)
def test_four_dimensions_cost_little_more_than_one(twin: BillingTwin, method: int, most: float, tmp_path: Path) -> None:
    """Of samples with a method section of so many bytes, of which each writes a twentieth of the prompts; a published
    call is priced without any cache."""
    assert bills(twin, tmp_path, lambda: many(long_case(method), 20), concurrency=2)["shared"] <= most


def test_no_key_has_many_more_calls_a_minute_than_find_a_cache(scene: Scenes, monkeypatch: pytest.MonkeyPatch) -> None:
    with BillingTwin("openai-5.6", latency=0.01, in_flight=16) as twin:
        twin.take_its_place(monkeypatch, key="")
        made = scene(twin, judge={"concurrency": 16})
        made.cases = many([case(0, METHOD * 40)], 32)
        rows = made.judge()
    keys = Counter(seen.body["prompt_cache_key"] for seen in twin.requests)
    assert len(keys) == 7 + 1, "and that of the first question"
    nothing = [row for row in rows if row.tokens_cached < 1024]
    assert len(nothing) <= 7 + 0.1 * len(rows), "the first of each key, and few that come to a machine too many"


@pytest.mark.parametrize("twin", ["openai-5.6"], indirect=True)
def test_each_order_has_a_leader_and_votes_wait_for_it(scene: Scenes, twin: BillingTwin) -> None:
    rows = scene(twin, orders="both", votes=2).judge()
    led = sorted(rows, key=lambda row: row.tokens_cached)[:2]
    leaders = sorted((row.dimension, row.order, row.vote) for row in led)
    assert leaders == [("faithfulness", "human_first", 1), ("faithfulness", "model_first", 1)]
    assert led[0].tokens_cached == 0 < led[1].tokens_cached < led[1].tokens_in - 1900, "the prompts, and no picture"


@pytest.mark.parametrize("twin", ["openai-5.5"], indirect=True)
def test_breakpoints_that_a_model_refuses_are_left_out_before_more_is_asked(scene: Scenes, twin: BillingTwin) -> None:
    rows = scene(twin).judge()
    assert len(twin.refusals) == 1, "of the first question, which is about no sample"
    assert {row.http_retries for row in rows} == {0}
    bodies = [seen.body for seen in twin.requests[2:]]
    assert all("prompt_cache_options" not in body and body["prompt_cache_key"] for body in bodies)
    assert all(isinstance(body["messages"][0]["content"], str) for body in bodies), "no mark, no parts"


def test_calls_that_wait_hold_no_place_and_an_unknown_endpoint_is_told_nothing_of_beginnings(
    scene: Scenes, loopback: LoopbackJudge
) -> None:
    made = scene(loopback, judge={"concurrency": 1})
    made.cases = [case(number) for number in range(6)]
    assert [row.status for row in made.judge()] == ["ok"] * 24 and loopback.peak == 1
    assert not [seen for seen in loopback.requests if b"cache" in seen.raw]
    assert all(isinstance(seen.body["messages"][0]["content"], str) for seen in loopback.requests)


def test_a_leader_without_a_reply_lets_the_others_go(
    scene: Scenes, loopback: LoopbackJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.0)
    loopback.answer = lambda seen: drop() if "faithfulness" in seen.texts[-1] else verdict("Model")
    statuses = {row.dimension: row.status for row in scene(loopback).judge()}
    assert statuses == dict.fromkeys(DIMENSIONS, "ok") | {"faithfulness": "unavailable"}


class Turns:
    """Calls about one sample, each of which is on its way until the test lets it end."""

    def __init__(self) -> None:
        self.leading, self.begun = Leading(), list[str]()
        self.ends = {call: asyncio.Event() for call in DIMENSIONS[:3]}

    async def call(self, name: str) -> None:
        alike = [Call(dimension, "human_first", 1, "") for dimension in DIMENSIONS[:3]]
        async with self.leading.turn(Call(name, "human_first", 1, ""), alike):
            self.begun.append(name)
            await self.ends[name].wait()

    def start(self, name: str) -> asyncio.Task[None]:
        return asyncio.create_task(self.call(name))


async def rest() -> None:
    """Until all tasks have gone as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_the_first_dimension_leads_in_whatever_order_the_calls_come_and_once() -> None:
    async def story() -> None:
        turns = Turns()
        tasks = [turns.start(name) for name in reversed(DIMENSIONS[:3])]
        await rest()
        assert turns.begun == ["faithfulness"]
        turns.ends["faithfulness"].set()
        await rest()
        assert sorted(turns.begun[1:]) == ["conciseness", "readability"], "the others start together"
        again = turns.start("conciseness")
        await rest()
        assert turns.begun[3:] == ["conciseness"], "a leader that ended is waited for no more"
        for end in turns.ends.values():
            end.set()
        await asyncio.gather(again, *tasks)

    asyncio.run(story())


def test_a_leader_that_is_cancelled_lets_the_others_go() -> None:
    async def story() -> None:
        turns = Turns()
        leader, other = turns.start("faithfulness"), turns.start("conciseness")
        await rest()
        leader.cancel()
        await rest()
        assert turns.begun == ["faithfulness", "conciseness"]
        other.cancel()

    asyncio.run(story())


@pytest.mark.parametrize("how", ["ends", "fails", "cancelled"])
def test_the_first_call_with_each_key_goes_ahead_and_the_others_follow_in_their_order(how: str) -> None:
    async def story() -> None:
        first_calls, begun, ends = FirstCalls(), list[str](), {key: asyncio.Event() for key in "ab"}

        async def call(name: str) -> None:
            async with first_calls.turn(name[0]):
                begun.append(name)
                await ends[name[0]].wait()
                if how == "fails":
                    raise ConnectionError("no reply")

        tasks = [asyncio.create_task(call(name)) for name in ("a1", "a2", "b1", "b2", "a3")]
        await rest()
        assert begun == ["a1", "b1"]
        tasks[0].cancel() if how == "cancelled" else ends["a"].set()
        await rest()
        assert begun == ["a1", "b1", "a2"], "it came before there was another to wait for"
        ends["b"].set()
        await rest()
        assert begun == ["a1", "b1", "a2", "b2", "a3"]
        ends["a"].set()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(story())


class Cancelled:
    """A step that ends before it has begun, as when people cancel a run."""

    def with_options(self, **_: object) -> Callable[..., Awaitable[None]]:
        async def step(*_: object) -> None:
            raise CancelledRun

        return step


def test_nobody_waits_for_a_dimension_whose_step_never_began(
    tmp_path: Path, loopback: LoopbackJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def decided(*_: object) -> None:
        pass

    monkeypatch.setattr(pipeline, "judge", Cancelled())
    monkeypatch.setattr(pipeline, "aggregate", decided)
    made = case()
    made.calls = plan(made, FLOWS["diagram"], PairwiseParameters(layout="shared"), SharedLayout(FLOWS["diagram"]))

    async def others() -> None:
        async with run_of(Scene(tmp_path, loopback).parameters) as run:
            waiting = asyncio.create_task(run.layout.turn(made, made.calls[1]).__aenter__())
            await asyncio.sleep(0)
            await pipeline.judge_chunk(run, Chunk("0-0", ("faithfulness",), (made,)))
        await waiting

    asyncio.run(others())


class Spent(Limit):
    """A limit without room for one dimension."""

    async def before_call(self, case: Case, call: Call) -> bool:
        return call.dimension != "faithfulness"

    def after_call(self, case: Case, call: Call, row: Judgment) -> None:
        pass


def test_a_leader_that_the_budget_has_no_room_for_lets_the_others_go(scene: Scenes, loopback: LoopbackJudge) -> None:
    made = scene(loopback)
    made.limit = Spent()
    assert sorted(row.dimension for row in made.judge()) == sorted(set(DIMENSIONS) - {"faithfulness"})


def test_a_leader_that_is_told_to_wait_is_waited_for(scene: Scenes, loopback: LoopbackJudge) -> None:
    told: list[str] = []

    def answer(seen: Any) -> Any:
        told.append(seen.texts[-1])
        return retry_after(0.05) if len(told) == 2 else verdict("Model")

    loopback.answer = answer
    rows = scene(loopback).judge()
    assert [row.waits for row in rows if row.dimension == "faithfulness"] == [1]
    assert told[1] == told[2], "nobody else was asked in between"
