"""Completions with status 200 and any bytes, JSON, text or numbers."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.endpoint.replies import Reply, read_completion
from tasks.protocols.figures import reply as verdict_reply
from tasks.records import MOST_COUNTED
from tasks.rubrics.rubric import load_rubric

STATUSES = set(get_args(Reply.__annotations__["status"])) - {"rejected"}
PROMPT = load_rubric("diagram").prompt("faithfulness")

numbers = st.integers() | st.floats() | st.sampled_from([10**30, -(10**30), 10**400, 2**31, -1])
anything = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20) | st.sampled_from(["length", "SAFETY", "\ud835"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip

FEWER = settings(max_examples=60)
"""For examples that take long to draw."""


def odd_object(*keys: str, **known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects with some of the keys; a value is drawn from `known` or is anything."""
    return st.fixed_dictionaries({}, optional={**dict.fromkeys(keys, anything), **known})


messages = odd_object("content", "refusal", "reasoning", "reasoning_content", "tool_calls")
choices = odd_object("finish_reason", "error", message=messages | anything)
usages = odd_object("prompt_tokens", "completion_tokens", "prompt_tokens_details")
completions = odd_object(
    "model", "system_fingerprint", "error", choices=st.lists(choices | anything, max_size=2), usage=usages | anything
)


def check(reply: Reply) -> None:
    """Assert a status, an error unless it is ok, and values that ledger and history can store."""
    assert reply.status in STATUSES and bool(reply.error) == (reply.status != "ok")
    assert all(0 <= count <= MOST_COUNTED for count in reply.usage)
    names = (reply.model, reply.fingerprint, reply.finish_reason)
    assert all(len(name) <= 200 for name in names)
    "".join(names).encode()
    reading = verdict_reply.read(reply.text, PROMPT)
    assert reading.verdict is None if reading.error else reading.verdict in PROMPT.verdicts


@FEWER
@given(st.binary(max_size=400))
def test_any_bytes_give_a_status(body: bytes) -> None:
    check(read_completion(body))


@FEWER
@given(anything | completions)
def test_any_json_gives_a_status(value: Any) -> None:
    check(read_completion(json.dumps(value).encode()))


@FEWER
@given(completions, st.data())
def test_damaged_completion_gives_a_status(value: dict[str, Any], data: st.DataObject) -> None:
    whole = json.dumps(value).encode()
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    check(read_completion(whole[:begin] + data.draw(st.binary(max_size=8)) + whole[end:]))


@given(st.text(st.characters()), st.sampled_from(["stop", None, "eos"]))
def test_any_text_is_returned_unchanged(content: str, finish: str | None) -> None:
    body = {"choices": [{"message": {"content": content}, "finish_reason": finish}]}
    reply = read_completion(json.dumps(body).encode())
    assert (reply.status, reply.text) == (("ok", content) if content.strip() else ("invalid", ""))


@pytest.mark.parametrize("depth", [100, 900, 1000, 5000, 200_000])
@pytest.mark.parametrize("begin", ['{"choices":[{"message":{"content":', '{"choices":[{"error":', '{"error":', ""])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_any_depth_gives_a_status(depth: int, begin: str, opening: str, closing: str) -> None:
    ends = {"[": "]", "{": "}"}
    close = "".join(ends[sign] for sign in reversed(begin) if sign in ends)
    check(read_completion((begin + opening * depth + "1" + closing * depth + close).encode()))
    check(read_completion((begin + opening * depth).encode()))
