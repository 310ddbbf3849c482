"""Unusual replies of judges, each with its expected handling."""

import json
from dataclasses import dataclass
from typing import Any

from loopback_replies import USAGE, Reply, completion, gzip_bomb, gzipped, text

PLAIN = '{"comparison_reasoning": "half of it", "winner": "Model"}'
OTHER = '{"comparison_reasoning": "maybe", "winner": "Human"}'
DEEP = 200_000
MUCH = b"x" * 1_000_000


@dataclass(frozen=True)
class Odd:
    """One reply to a pairwise question that allows every verdict."""

    name: str
    reply: Reply
    status: str
    words: str = ""
    """Part of the recorded error; empty: none."""
    kept: str = ""
    """Part of the recorded raw reply."""
    verdict: str | None = None
    recovery: str = ""
    reasoning: str = ""
    """Part of the recorded reasoning."""
    tokens_in: int | None = None


def chat(content: Any, finish: Any = "stop", choice: dict[str, Any] | None = None, **message: Any) -> Reply:
    """Return a completion with any content, and additional fields in its message and choice."""
    own = {"role": "assistant", "content": content, **message}
    return Reply({"choices": [{"index": 0, "message": own, "finish_reason": finish, **(choice or {})}], "usage": USAGE})


def billed(usage: str) -> Reply:
    """Return a good reply with this usage as JSON, or as almost JSON."""
    message = json.dumps({"role": "assistant", "content": PLAIN})
    body = f'{{"choices": [{{"message": {message}, "finish_reason": "stop"}}], "usage": {usage}}}'
    return Reply(body.encode())


def with_half(words: str) -> Reply:
    """Return a good reply whose reasoning, inside its JSON, has these words instead of "half"."""
    return text(PLAIN.replace("half", words))


def failing(error: Any, content: str | None = None, finish: str = "error") -> Reply:
    """Return a choice with an error object, as routers send when the provider behind them fails midway."""
    return chat(content, finish, {"error": error})


def ok(name: str, reply: Reply, recovery: str = "strict", **more: Any) -> Odd:
    return Odd(name, reply, "ok", verdict="Model", recovery=recovery, **more)


def filtered(finish: str) -> Odd:
    return Odd(f"finish reason {finish}", chat("", finish), "refused", f"filtered the content ({finish})")


def no_completion(name: str, body: Any, words: str = "", kept: str = "", **more: Any) -> Odd:
    return Odd(name, Reply(body, **more), "unavailable", f"no chat completion: {words}", kept)


GOOD = json.dumps(text(PLAIN).body).encode()
UPSTREAM = {"code": 502, "message": "Provider returned error", "metadata": {"raw": "overloaded upstream"}}
CANNOT_BE = ("1e999", "NaN", "-5", "1" + "0" * 30, "1" + "0" * 5000, '"many"', "{}", "null")

ODD = [
    # No chat completion
    no_completion("nothing at all", b"", "it is empty"),
    no_completion("bytes", bytes(range(256)), kept="\ufffd"),
    no_completion("a page", "<html>busy</html>", "<html>busy</html>", "<html>busy</html>"),
    no_completion("a list", [], "[]", "[]"),
    no_completion("null", b"null", "null", "null"),
    no_completion("choices are null", {"choices": None}, "{", "choices"),
    no_completion("a choice is null", {"choices": [None]}, "{"),
    no_completion("a choice that failed", {"choices": [{"message": None, "finish_reason": "error"}]}, "error", "mess"),
    no_completion("a message that is a text", {"choices": [{"message": "Model"}]}, "{", "Model"),
    no_completion("an error in words", {"error": "no such luck"}, "no such luck"),
    no_completion("an error object", {"error": {"message": "it fell over", "code": 502}}, "502: it fell over"),
    no_completion("an error that reads 429", {"error": {"message": "429 tokens were read.", "code": "server_error"}}),
    no_completion("an error of a router", {"error": UPSTREAM}, "502: Provider returned error: overloaded upstream"),
    no_completion("an error with objects in it", {"error": {"message": {"de": "kaputt"}}}, '{"de": "kaputt"}'),
    no_completion("brackets", b"[" * DEEP, "[[[", "[[[["),
    no_completion("half of a completion", GOOD[: len(GOOD) // 2], "{"),
    no_completion("a stream of events", b'data: {"choices": []}\n\ndata: [DONE]\n\n', "data:", "[DONE]"),
    no_completion("UTF-16", GOOD.decode().encode("utf-16")),
    no_completion("a long page", MUCH, "it is longer than 4,000,000 bytes", times=5),
    no_completion("a long page without a length", MUCH, "it is longer", "xxx\n[The rest", times=5, chunked=True),
    no_completion("a good reply, then 4 MB spaces", GOOD + b" " * 4_000_000, "it is longer than 4,000,000", PLAIN[2:9]),
    Odd("a gzip bomb", gzip_bomb(60), "unavailable", "it is longer than 4,000,000 bytes", "not read"),
    no_completion("invalid gzip", GOOD, "it cannot be decompressed", headers={"content-encoding": "gzip"}),
    # Readable answers
    ok("a byte order mark", Reply(b"\xef\xbb\xbf" + GOOD), kept=PLAIN),
    ok("bytes that are no UTF-8", Reply(GOOD.replace(b"half of", b"half \xff of")), reasoning="half \ufffd of it"),
    ok("gzip", gzipped(GOOD), kept=PLAIN),
    ok("chunked", Reply(GOOD, chunked=True), kept=PLAIN),
    ok("a lone surrogate in the JSON", with_half("half \\ud835"), reasoning="half ? of it"),
    ok("a surrogate pair", with_half("\\ud835\\udd38"), reasoning="\U0001d538 of it"),
    ok("a pair after a lone surrogate", with_half("\\ud835\\ud835\\udd38"), reasoning="?\U0001d538 of it"),
    ok("an escaped backslash before ud835", with_half(r"\\ud835"), reasoning=r"\ud835 of it"),
    ok("nul", with_half("\\u0000"), reasoning="\x00 of it"),
    ok("a minimal reply", Reply({"model": None, "choices": [{"message": {"content": PLAIN}}]}), tokens_in=0),
    ok("content in parts", chat([{"type": "text", "text": PLAIN[:20]}, PLAIN[20:]]), kept=PLAIN),
    ok("thinking as a part", chat([{"type": "thinking", "thinking": OTHER}, {"text": PLAIN}]), kept=PLAIN),
    ok("reasoning after it", chat([{"type": "text", "text": PLAIN}, {"type": "reasoning", "text": OTHER}]), kept=PLAIN),
    ok("a thought", chat([{"text": OTHER, "thought": True}, {"text": PLAIN, "thought": False}]), kept=PLAIN),
    ok("content is an object", chat(json.loads(PLAIN)), kept='"winner": "Model"'),
    ok("a model that is an object", Reply({**text(PLAIN).body, "model": {"name": "m"}})),
    ok("a model with a long name", Reply({**text(PLAIN).body, "model": "m" * 1_000_000})),
    ok("a finish reason that is an object", chat(PLAIN, {"type": "stop"})),
    ok("no finish reason", chat(PLAIN, None)),
    ok("reasoning beside the answer", chat(PLAIN, reasoning_content=OTHER), kept=PLAIN),
    ok("line breaks in a fence", text("```json" + "\n" * 3000 + PLAIN + "\n" * 3000 + "```"), "fence removed"),
    ok("prose around it", text(f"So \\frac{{a}}{{b}}: {PLAIN} as asked."), "taken out of prose"),
    ok("broken JSON", text('{"comparison_reasoning": "a "half" of it", "winner": "Model"}'), "broken JSON mended"),
    ok("thousands of objects", text("{}" * 500_000 + PLAIN), "broken JSON mended", kept="{}{}"),
    ok("thinking", text(f"<think>{OTHER}</think>{PLAIN}"), "thinking dropped", kept="maybe"),
    ok("thinking without a start mark", text(f"Hm, {OTHER}? No.</think>{PLAIN}"), "thinking dropped"),
    ok("thinking within thinking", text(f"<think>a<think>b</think>{OTHER}</think>{PLAIN}"), "thinking dropped"),
    ok("marks of thinking in the answer", with_half("<think>"), reasoning="<think> of it"),
    ok("an empty list of tool calls", chat(PLAIN, tool_calls=[])),
    ok("many tokens", billed('{"prompt_tokens": 2147483647}'), tokens_in=2**31 - 1),
    ok("tokens in quotes", billed('{"prompt_tokens": "12"}'), tokens_in=12),
    ok("details that are a text", billed('{"prompt_tokens": 3, "prompt_tokens_details": "none"}'), tokens_in=3),
    *(
        ok(f"{value[:12]} tokens in {len(value)} signs", billed(f'{{"prompt_tokens": {value}}}'), tokens_in=0)
        for value in CANNOT_BE
    ),
    # Unreadable answers
    Odd("another verdict", text('{"winner": "Tie"}'), "invalid", "'Tie' is not one of"),
    Odd("a long verdict", text(json.dumps({"winner": "Model " * 10_000})), "invalid", "is not one of"),
    Odd("two verdicts", text(PLAIN + OTHER), "invalid", "several winners in one reply: 'Model', 'Human'"),
    Odd("another verdict in words", text(f"{PLAIN}\nOn reflection, winner: Human"), "invalid", "several winners"),
    Odd("two verdicts among too many objects", text("{}" * 5000 + PLAIN + OTHER), "invalid", "several winners"),
    Odd("a verdict too deep", text('{"winner":' * 5000), "invalid", "no winner found"),
    Odd("a deep verdict", text('{"winner":' + "[" * 400 + "]" * 400 + "}"), "invalid", "is not one of"),
    Odd("thinking without an end", text(f"<think>a {OTHER}"), "invalid", "which breaks off while thinking: '<think>a"),
    Odd("empty", text(""), "invalid", "the reply is empty (finish reason: stop)"),
    Odd("no content", chat(None), "invalid", "the reply is empty"),
    Odd("content is a number", chat(7), "invalid", "no winner found in the reply: '7'", "7"),
    Odd("parts of other types", chat([None, 7, {"text": {"a": 1}}, ["Model"]]), "invalid", "no winner found"),
    Odd("reasoning alone", chat("", reasoning_content=PLAIN), "invalid", "empty beside 57 characters of reason", PLAIN),
    Odd("reasoning parts alone", chat([{"type": "reasoning", "text": PLAIN}]), "invalid", "beside ", '"type": "reason'),
    Odd("reasoning by its new name", chat(None, reasoning=PLAIN), "invalid", "of reasoning (finish reason: stop)"),
    Odd("a tool call", chat(None, "tool_calls", tool_calls=[{"id": "1"}]), "invalid", "only calls tools"),
    # Refused, cut, failed
    Odd("a refusal", completion(None, refusal="I will not"), "refused", "I will not", "I will not"),
    Odd("a refusal that is an object", completion(None, refusal={"why": "no"}), "refused", '{"why": "no"}'),  # pyright: ignore
    Odd("a refusal beside an answer", completion(PLAIN, refusal="I will not"), "refused", "I will not", PLAIN),
    *map(filtered, ("content_filter", "safety", "SAFETY", "RECITATION", "prohibited_content", "content_filter: OTHER")),
    Odd("half of an answer, then a filter", chat(PLAIN[:30], "SAFETY"), "refused", "(SAFETY)", PLAIN[:30]),
    Odd("a filter as an error", failing({"code": "content_filter", "message": "no"}), "refused", "content_filter: no"),
    Odd("an error within a choice", failing(UPSTREAM), "unavailable", "within its reply: 502: Provider", "upstream"),
    Odd("an error beside an answer", failing(UPSTREAM, PLAIN, "stop"), "unavailable", "overloaded upstream", PLAIN),
    Odd("an end by an error", chat(PLAIN[:30], "error"), "unavailable", "failed within its reply: error", PLAIN[:30]),
    *(
        Odd(f"cut: {finish}", chat(PLAIN[:30], finish), "truncated", "the reply hit the token limit", PLAIN[:30])
        for finish in ("length", "MAX_TOKENS", "model_length")
    ),
    Odd("nothing but reasoning up to the limit", chat("", "length", reasoning="hm"), "truncated", "token limit"),
]  # fmt: skip
