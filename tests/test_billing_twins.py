"""The twins that bill: each caches and prices what it is sent as its provider's pages say."""

import asyncio
import base64
import io
import json
from typing import Any

import pytest
from billing_twins import RULES, BillingTwin, Rules
from loopback_replies import Request
from PIL import Image
from prompt_caches import Traffic, Usage

from tasks.endpoint.client import Vlm
from tasks.endpoint.completion import Reply
from tasks.endpoint.requests import probe_request
from tasks.parameters import Judge

LONG = "A method of many words. " * 400
"""2,400 tokens."""
EXPLICIT: dict[str, Any] = {"prompt_cache_breakpoint": {"mode": "explicit"}}
ALONE: dict[str, Any] = {"prompt_cache_options": {"mode": "explicit"}}
CONTROL: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}


def picture(shade: int = 0, width: int = 640, **shown: str) -> dict[str, Any]:
    """A picture of 20 x 10 patches."""
    file = io.BytesIO()
    Image.new("L", (width, 320), shade).save(file, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    return {"type": "image_url", "image_url": {"url": url, "detail": "auto", **shown}}


def text(words: str, **marks: object) -> dict[str, Any]:
    return {"type": "text", "text": words, **marks}


def asked(*parts: dict[str, Any], schema: str = "one", key: str = "s1", **fields: object) -> Request:
    messages = [{"role": "system", "content": "Compare."}, {"role": "user", "content": parts}]
    form = {"type": "json_schema", "json_schema": {"name": schema, "schema": {}}}
    body = {"model": "m", "messages": messages, "response_format": form, "prompt_cache_key": key, **fields}
    return Request("POST /v1/chat/completions", {}, json.dumps(body).encode(), 0.0)


def used(rules: Rules, *requests: Request) -> list[Usage]:
    """What each is billed for, when the reply to one has begun before the next is sent."""
    cache, found = rules.cache(), list[Usage]()
    for request in requests:
        prompt = rules.prompt(request)
        found.append(cache.look(prompt))
        cache.keep(prompt)
    return found


def reads(name: str, *requests: Request) -> list[int]:
    return [usage.read for usage in used(RULES[name], *requests)]


def test_tokens_are_bytes_of_text_and_patches_of_pictures() -> None:
    rules = RULES["vllm"]
    assert rules.prompt(asked(text("x" * 400), picture(), picture(width=6400))).tokens == 2 + 100 + 200 + 2000
    assert rules.prompt(asked(picture(width=9000))).tokens == 2 + 2500, "the most of one picture"


def test_earlier_openai_models_find_an_equal_beginning_in_steps_of_128_tokens() -> None:
    first, again = used(RULES["openai-5.5"], asked(text(LONG), text("One?")), asked(text(LONG), text("Two?")))
    assert first.read == 0 and again.read % 128 == 0 and 2400 - 128 < again.read <= 2440
    assert RULES["openai-5.5"].bill(again) == again.total - 0.9 * again.read, "what is read costs a tenth"
    assert first.written == again.written == 0, "nothing is paid for writing"
    assert reads("openai-5.5", asked(text(LONG[:4000])), asked(text(LONG[:4000]))) == [0, 0], "below 1,024 tokens"


@pytest.mark.parametrize(
    "other",
    [
        asked(text(LONG), schema="two"),
        asked(text(LONG), key="s2"),
        asked(picture(1), text(LONG)),
        asked(picture(detail="high"), text(LONG)),
    ],
    ids=["schema", "key", "picture", "detail"],
)
def test_earlier_openai_models_find_nothing_where_the_beginning_or_the_key_differs(other: Request) -> None:
    same = asked(picture(), text(LONG)) if len(other.parts) > 2 else asked(text(LONG))
    assert reads("openai-5.5", same, other) == [0, 0]
    assert reads("openai-5.5", same, same)[1] > 2300


def test_earlier_openai_models_refuse_breakpoints() -> None:
    refused = RULES["openai-5.5"].refusal(asked(text(LONG, **EXPLICIT)))
    assert refused and refused.status == 400
    assert "prompt_cache_breakpoint is not supported" in json.dumps(refused.body)
    assert RULES["openai-5.5"].refusal(asked(text(LONG))) is None


def test_later_openai_models_read_up_to_a_breakpoint_and_charge_for_what_is_written() -> None:
    rules = RULES["openai-5.6"]
    one, other = (asked(text(LONG, **EXPLICIT), text(words * 50), **ALONE) for words in ("One?", "Two?"))
    first, again = used(rules, one, other)
    assert first == Usage(again.total, 0, again.read) and again.read > 2400 and again.written == 0
    assert rules.bill(first) == first.total + 0.25 * first.written
    assert rules.bill(again) == again.total - 0.9 * again.read
    without_key = asked(text(LONG, **EXPLICIT), key="", **ALONE)
    assert reads("openai-5.6", without_key, without_key) == [0, 0]


def test_later_openai_models_write_the_whole_message_unless_that_is_switched_off() -> None:
    rules = RULES["openai-5.6"]
    [by_itself] = used(rules, asked(text(LONG)))
    assert by_itself.written == by_itself.total, "a breakpoint at the end of the message"
    assert reads("openai-5.6", asked(text(LONG), text("One?")), asked(text(LONG), text("Two?"))) == [0, 0]
    assert used(rules, asked(text(LONG), **ALONE))[0].written == 0


def test_the_longest_breakpoint_found_is_read_and_the_rest_up_to_the_next_is_written() -> None:
    short = asked(text(LONG, **CONTROL), text("Short?"))
    long = asked(text(LONG, **CONTROL), text(LONG, **CONTROL), text("Long?"))
    first, second, third, fourth = used(RULES["anthropic"], short, long, long, short)
    assert (first.read, second.read) == (0, first.written)
    assert second.written == 2400 and third.read == first.written + 2400 and fourth.read == first.written


def test_anthropic_needs_a_minimum_no_key_and_at_most_four_blocks() -> None:
    rules, keyless = RULES["anthropic"], asked(text(LONG, **CONTROL), key="")
    assert reads("anthropic", keyless, keyless)[1] > 2400
    [short] = used(rules, asked(text(LONG[:4000], **CONTROL)))
    assert (short.read, short.written) == (0, 0)
    assert rules.refusal(asked(*[text("x", **CONTROL)] * 5)) and not rules.refusal(asked(*[text("x", **CONTROL)] * 4))


def test_what_the_system_message_ends_with_can_be_a_breakpoint() -> None:
    def told(words: str) -> Request:
        system = {"role": "system", "content": [text(LONG, **CONTROL)]}
        return asked(messages=[system, {"role": "user", "content": [text(words * 50, **CONTROL)]}])

    first, again, other = used(RULES["anthropic"], told("One?"), told("One?"), told("Two?"))
    assert (first.read, again.written) == (0, 0) and 2400 <= other.read < again.read
    assert reads("anthropic-4096", told("One?"), told("One?")) == [0, 0], "its least is more"


def test_more_than_15_calls_a_minute_with_one_key_go_to_a_machine_that_has_not_seen_them() -> None:
    traffic, prompt = Traffic(in_flight=4), RULES["openai-5.6"].prompt(asked(text(LONG)))
    other = prompt._replace(key="s2")
    machines = [traffic.sent_on(each).machine for each in [prompt] * 20 + [other] * 4 + [prompt] * 15]
    assert machines == [0] * 15 + [1] * 5 + [0] * 4 + [0] * 15, "a minute has 24 calls"
    assert prompt._replace(machine=1) != prompt == Traffic(0).sent_on(prompt)


def test_vllm_reads_blocks_of_16_tokens_whatever_the_reply_is_to_be() -> None:
    one, other = asked(picture(), text("A. " * 30), schema="one"), asked(picture(), text("A. " * 30), schema="two")
    assert reads("vllm", one, other) == [0, 224 - 224 % 16]
    assert reads("vllm", one, asked(picture(7), text("A. " * 30))) == [0, 0]


class OfThree(BillingTwin):
    """One whose first two replies begin together."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._both = asyncio.Barrier(2)

    async def begins(self) -> None:
        if len(self.used) <= 2:
            await self._both.wait()


@pytest.mark.parametrize("name", ["openai-5.5", "openai-5.6", "vllm"])
def test_what_a_reply_begins_with_can_be_read_once_it_has_begun(name: str) -> None:
    question = probe_request(2)._replace(content=(LONG, *probe_request(2).content))

    async def ask(address: str) -> Reply:
        async with Vlm(Judge(model="m", base_url=address, extra={"prompt_cache_key": "s1"})) as vlm:
            await asyncio.gather(vlm.ask(question), vlm.ask(question))
            return await vlm.ask(question)

    with OfThree(name) as twin:
        reply = asyncio.run(ask(twin.base_url))
    assert [usage.read > 2400 for _, usage in twin.used] == [False, False, True]
    assert (reply.tokens_in, reply.tokens_cached) == (twin.used[2][1].total, twin.used[2][1].read)
    assert twin.bill() == 0 < twin.read_share(), "no question about a sample was asked"
