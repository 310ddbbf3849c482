"""The real client against a loopback judge that misbehaves on purpose."""

import asyncio

import pytest
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, drop, error, hang, reset, retry_after, to_samples, torn, verdict
from loopback_replies import Request as Seen

from tasks.endpoint import client
from tasks.endpoint import requests as asking
from tasks.endpoint.client import Vlm
from tasks.endpoint.replies import Reply as Answer
from tasks.endpoint.requests import Image, Request
from tasks.errors import JudgeStopped
from tasks.records.judge import Judge

QUESTION = Request(
    "Compare.",
    ("Human:", Image("image/png", b"AAAA"), "Reply as JSON."),
    "diagram_faithfulness",
    {"type": "object", "properties": {"winner": {"type": "string", "enum": ["Model"]}}, "required": ["winner"]},
)
SCHEMA = ["json_schema"]


def judge(loopback: LoopbackJudge, **changes: object) -> Judge:
    return Judge(model="gpt-test", base_url=loopback.base_url, **changes)  # pyright: ignore


async def ask_all(settings: Judge, questions: list[Request]) -> list[Answer]:
    async with Vlm(settings) as vlm:
        return await asyncio.gather(*(vlm.ask(question) for question in questions))


def ask(settings: Judge, question: Request = QUESTION) -> Answer:
    return asyncio.run(ask_all(settings, [question]))[0]


def test_request_carries_prompt_pictures_schema_and_settings(loopback: LoopbackJudge) -> None:
    ask(judge(loopback, temperature=0.5, max_output_tokens=500, detail="high"))
    body = loopback.requests[0].body
    assert body["messages"][0] == {"role": "system", "content": "Compare."}
    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "Human:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "high"}},
        {"type": "text", "text": "Reply as JSON."},
    ]
    assert (body["model"], body["temperature"], body["max_completion_tokens"]) == ("gpt-test", 0.5, 500)
    assert not {"seed", "reasoning_effort"} & body.keys()
    schema = body["response_format"]["json_schema"]
    assert schema == {"name": "diagram_faithfulness", "strict": True, "schema": QUESTION.schema}


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (error(400, "filtered", code="content_filter"), "refused", "filtered"),
        (error(400, "maximum context length is 8192 tokens, response_format aside"), "rejected", "8192"),
        (error(413, "request too large"), "rejected", "too large"),
        (error(422, "bad picture"), "rejected", "bad picture"),
        (Reply("", status=302, headers={"location": "http://127.0.0.1:9/else"}), "rejected", "redirects to http"),
    ],
)
def test_permanent_failures_are_asked_once(loopback: LoopbackJudge, answer: Reply, status: str, words: str) -> None:
    loopback.queue(answer)
    reply = ask(judge(loopback))
    assert (reply.status, loopback.count) == (status, 1)
    assert words in reply.error


WITHHELD = error(400, "Failed to generate JSON.", code="json_validate_failed")


@pytest.mark.parametrize("first", [error(500, "boom"), drop(), Reply("<html>", status=502), WITHHELD])
def test_transient_failure_is_retried(loopback: LoopbackJudge, first: Reply) -> None:
    loopback.queue(first)
    reply = ask(judge(loopback))
    assert (reply.status, reply.http_retries, reply.waits) == ("ok", 1, 0)
    assert loopback.count == 2 + 1, "the client also asks a small question"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (error(502, "overloaded"), "502: overloaded"),
        (drop(), "lost"),
        (torn(verdict("Model")), "the connection was lost"),
        (reset(), "the connection was reset"),
        (hang(), "no whole reply within"),
    ],
)
def test_lasting_failure_is_unavailable(
    loopback: LoopbackJudge, monkeypatch: pytest.MonkeyPatch, answer: Reply, words: str
) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.02)
    loopback.answer = to_samples(answer)
    reply = ask(judge(loopback, timeout_seconds=1))
    assert reply.status == "unavailable" and words in reply.error
    assert (loopback.by_name["diagram_faithfulness"], reply.http_retries, reply.waits) == (4, 3, 0)


@pytest.mark.parametrize("words", ["image too blurry, more details at https://…", "the temperature of the soup"])
def test_error_that_mentions_a_parameters_name_drops_none(loopback: LoopbackJudge, words: str) -> None:
    loopback.queue(Reply({"detail": words}, status=422))
    first, second = asyncio.run(ask_all(judge(loopback, concurrency=1), [QUESTION] * 2))
    assert (first.status, second.not_sent) == ("rejected", ()) and words in first.error


def test_wait_that_a_refusal_names_is_kept(loopback: LoopbackJudge) -> None:
    loopback.queue(retry_after(0.1))
    reply = ask(judge(loopback))
    assert (reply.status, reply.waits, reply.http_retries, loopback.count) == ("ok", 1, 0, 2)
    assert reply.waited_seconds >= 0.1


def test_retry_after_beyond_patience_makes_the_call_unavailable(loopback: LoopbackJudge) -> None:
    loopback.queue(verdict("Model"), retry_after(3600))
    _, reply = asyncio.run(ask_all(judge(loopback, concurrency=1), [QUESTION] * 2))
    assert (reply.status, reply.waits, loopback.count) == ("unavailable", 1, 2)
    assert reply.error.endswith("(it asks to wait 1 h)")


@pytest.mark.parametrize(
    ("refused", "rung", "in_flight"),
    [(SCHEMA, "json_object", 1), ([*SCHEMA, "json_object"], "plain", 1), (SCHEMA, "json_object", 16)],
)
def test_refused_reply_format_moves_down_one_rung_for_the_run(
    loopback: LoopbackJudge, refused: list[str], rung: str, in_flight: int
) -> None:
    def answer(seen: Seen) -> Reply:
        kind = (seen.body.get("response_format") or {}).get("type")
        return error(400, f"response_format {kind} is not supported") if kind in refused else verdict("Model")

    loopback.answer = answer
    replies = asyncio.run(ask_all(judge(loopback, concurrency=in_flight), [QUESTION] * 16))
    assert [(reply.status, reply.rung) for reply in replies] == [("ok", rung)] * 16
    assert loopback.count <= 16 + in_flight * len(refused)


def test_effort_seed_and_extra_fields_are_sent(loopback: LoopbackJudge) -> None:
    extra = {"top_k": 1, "chat_template_kwargs": {"enable_thinking": False}, "note": 'ünd "so"'}
    ask(judge(loopback, effort="minimal", seed=0, extra=extra))
    body = loopback.requests[0].body
    assert (body["reasoning_effort"], body["seed"]) == ("minimal", 0)
    assert {name: body[name] for name in extra} == extra


@pytest.mark.parametrize("name", ["temperature", "detail", "max_completion_tokens", "seed", "reasoning_effort"])
def test_refused_parameter_is_omitted_for_the_rest_of_the_run(loopback: LoopbackJudge, name: str) -> None:
    def answer(seen: Seen) -> Reply:
        present = name in seen.line or name in str(seen.body)
        return error(400, f"Unsupported parameter: '{name}'", param=name) if present else verdict("Model")

    loopback.answer = answer
    replies = asyncio.run(ask_all(judge(loopback, concurrency=8, effort="low", seed=1), [QUESTION] * 8))
    assert {reply.status for reply in replies} == {"ok"}
    assert loopback.count <= 16
    if name != "max_completion_tokens":
        assert {reply.not_sent for reply in replies} == {(name,)}
    if name == "max_completion_tokens":
        assert loopback.requests[-1].body["max_tokens"] == 10_000


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (error(401, "Incorrect API key provided: sk-secret-1"), "Incorrect API key provided: [key]"),
        (error(402, "no credit"), "no credit"),
        (error(429, "You exceeded your current quota", code="insufficient_quota"), "quota"),
    ],
)
def test_account_errors_stop_the_run_without_printing_the_key(
    loopback: LoopbackJudge, answer: Reply, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-secret-1")
    monkeypatch.setenv("JURY_ENDPOINTS", f"{loopback.place}=TEST_KEY")
    loopback.answer = lambda _: answer
    with pytest.raises(JudgeStopped) as stopped:
        ask(judge(loopback, api_key_env="TEST_KEY"))
    assert words in str(stopped.value) and loopback.base_url in str(stopped.value)
    assert "sk-secret-1" not in str(stopped.value)
    assert loopback.requests[0].headers["authorization"] == "Bearer sk-secret-1"


@pytest.mark.parametrize(("name", "value"), [("SSL_CERT_FILE", __file__), ("HTTPS_PROXY", "http://user:pass/word@a")])
def test_useless_surroundings_are_the_users_mistake(
    loopback: LoopbackJudge, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(JudgeStopped, match=name) as stopped:
        ask(judge(loopback))
    assert "pass" not in str(stopped.value)


def test_judge_that_wants_a_key_and_is_sent_none_says_where_to_list_one(loopback: LoopbackJudge) -> None:
    loopback.queue(error(401, "Unauthorized"))
    words = rf"401: .*no key was sent: list .* JURY_ENDPOINTS={loopback.place}=KEY_NAME"
    with pytest.raises(JudgeStopped, match=words):
        ask(judge(loopback))


@pytest.mark.parametrize("refused", [error(403, "not your model"), error(404, "The model gpt-test does not exist")])
def test_few_refused_calls_are_rejected_and_many_stop_the_run(loopback: LoopbackJudge, refused: Reply) -> None:
    loopback.queue(*[refused] * 6)
    replies = asyncio.run(ask_all(judge(loopback, concurrency=1), [QUESTION] * 8))
    assert [reply.status for reply in replies] == ["rejected"] * 6 + ["ok"] * 2
    loopback.answer = lambda _: refused
    with pytest.raises(ExceptionGroup) as stopped:
        asyncio.run(ask_together(judge(loopback, concurrency=1), [QUESTION] * 20))
    assert "refuses all calls (40" in str(stopped.value.exceptions[0]) and loopback.count == 8 + 20


def test_same_error_in_the_first_twenty_calls_stops_the_run(loopback: LoopbackJudge) -> None:
    loopback.answer = lambda _: error(422, "pictures must be JPEG")
    with pytest.raises(ExceptionGroup) as stopped:
        asyncio.run(ask_together(judge(loopback, concurrency=1), [QUESTION] * 40))
    assert "pictures must be JPEG" in str(stopped.value.exceptions[0]) and loopback.count == 20


async def ask_together(settings: Judge, questions: list[Request]) -> None:
    """Ask in a task group, as the judge step does: the first exception cancels all."""
    async with Vlm(settings) as vlm, asyncio.TaskGroup() as group:
        for question in questions:
            group.create_task(vlm.ask(question))


def probe(settings: Judge) -> Answer:
    async def scene() -> Answer:
        async with Vlm(settings) as vlm:
            return await vlm.probe(asking.probe_request())

    return asyncio.run(scene())


@pytest.mark.parametrize(
    ("path", "words"),
    [("/v1", "takes no pictures$"), ("", "404: .* judge.base_url has no path, and most servers want /v1 at its end")],
)
def test_refused_first_question_stops_the_run(loopback: LoopbackJudge, path: str, words: str) -> None:
    loopback.answer = lambda _: error(400, "this model takes no pictures")
    with pytest.raises(JudgeStopped, match=words):
        probe(Judge(model="gpt-test", base_url=f"http://{loopback.place}{path}"))


def test_first_question_waits_for_a_busy_judge(loopback: LoopbackJudge) -> None:
    loopback.queue(error(503, "warming up"))
    assert probe(judge(loopback)).status == "ok" and loopback.count == 2
