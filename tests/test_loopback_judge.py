"""The loopback judge, seen by the client that the judges of production are called with."""

import asyncio
import base64
import json
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from loopback_judge import MODEL, JudgeProcess, LoopbackJudge, judge_process
from loopback_replies import (
    Reply,
    Request,
    allowed_reply,
    cut_off,
    delayed,
    drop,
    error,
    hang,
    refusal,
    retry_after,
    text,
    torn,
    verdict,
    with_latency,
)
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion

PICTURES = [b"\x89PNG human", b"\x89PNG model"]
WINNERS = ["Human", "Both are good"]


def schema_format(name: str, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False, **more}
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


def verdict_format(name: str = "plot_faithfulness") -> dict[str, Any]:
    return schema_format(name, {"comparison_reasoning": {"type": "string"}, "winner": {"enum": WINNERS}})


def call(format: dict[str, Any] | None = None, caption: str = "A caption.") -> dict[str, Any]:
    urls = [f"data:image/png;base64,{base64.b64encode(picture).decode()}" for picture in PICTURES]
    pictures = [{"type": "image_url", "image_url": {"url": url, "detail": "auto"}} for url in urls]
    user = {"role": "user", "content": [{"type": "text", "text": caption}, *pictures]}
    messages = [{"role": "system", "content": "You are the judge."}, user]
    chosen = {"response_format": format} if format else {}
    return {"model": "any", "messages": messages, "max_completion_tokens": 100, "temperature": 1.0, **chosen}


async def ask_all(base_url: str, calls: list[dict[str, Any]], **options: Any) -> list[Any]:
    """Replies or errors of calls that are sent together, in the order of the calls."""
    async with AsyncOpenAI(base_url=base_url, api_key="none", **{"max_retries": 0, "timeout": 10, **options}) as client:
        return await asyncio.gather(*[client.chat.completions.create(**one) for one in calls], return_exceptions=True)


def ask(judge: LoopbackJudge | JudgeProcess, *calls: dict[str, Any], **options: Any) -> list[Any]:
    return asyncio.run(ask_all(judge.base_url, list(calls or [call()]), **options))


def content(completion: ChatCompletion) -> dict[str, Any]:
    return json.loads(completion.choices[0].message.content or "")


def test_a_verdict_is_a_whole_completion(loopback: LoopbackJudge):
    loopback.queue(verdict("Both are bad", "Neither can be read."))
    [reply] = ask(loopback)
    assert content(reply) == {"comparison_reasoning": "Neither can be read.", "winner": "Both are bad"}
    assert (reply.model, reply.choices[0].finish_reason, reply.choices[0].message.refusal) == (MODEL, "stop", None)
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens_details.cached_tokens) == (1200, 80, 1024)


def test_a_refusal_has_words_and_no_content(loopback: LoopbackJudge):
    loopback.queue(refusal("I cannot look at this."))
    message = ask(loopback)[0].choices[0].message
    assert (message.refusal, message.content) == ("I cannot look at this.", None)


def test_a_cut_off_reply_ends_for_its_length_and_is_no_json(loopback: LoopbackJudge):
    loopback.queue(cut_off())
    choice = ask(loopback)[0].choices[0]
    assert choice.finish_reason == "length"
    with pytest.raises(json.JSONDecodeError):
        json.loads(choice.message.content)


@pytest.mark.parametrize(
    ("status", "raised"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (402, openai.APIStatusError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (529, openai.InternalServerError),
    ],
)
def test_an_error_status_reaches_the_client_with_all_it_says(
    loopback: LoopbackJudge, status: int, raised: type[openai.APIStatusError]
):
    loopback.queue(error(status, "No.", code="some_code", type="some_type", param="temperature"))
    [problem] = ask(loopback)
    assert type(problem) is raised
    said = (problem.status_code, problem.code, problem.type, problem.param, problem.response.json()["error"]["message"])
    assert said == (status, "some_code", "some_type", "temperature", "No.")


def test_retry_after_is_a_429_that_the_client_waits_out(loopback: LoopbackJudge):
    loopback.queue(retry_after(0.2), verdict("Human"), retry_after(150))
    [reply] = ask(loopback, max_retries=1)
    first, second = loopback.requests
    assert content(reply)["winner"] == "Human"
    assert second.arrived - first.arrived >= 0.2
    [problem] = ask(loopback)
    assert (problem.status_code, problem.response.headers["retry-after"]) == (429, "150")


def test_a_page_of_another_server_is_no_completion(loopback: LoopbackJudge):
    loopback.queue(Reply("<html>Bad gateway</html>", status=502))
    [problem] = ask(loopback)
    assert isinstance(problem, openai.InternalServerError)
    assert (problem.response.text, problem.response.headers["content-type"]) == (
        "<html>Bad gateway</html>",
        "text/html",
    )


@pytest.mark.parametrize("reply", [drop(), torn(verdict("Model")), delayed(drop(), 0.05)])
def test_a_closed_socket_is_a_connection_error_and_the_next_call_is_answered(loopback: LoopbackJudge, reply: Reply):
    loopback.queue(reply)
    [problem] = ask(loopback)
    assert type(problem) is openai.APIConnectionError
    assert content(ask(loopback)[0])["winner"] == "Model"


@pytest.mark.parametrize("reply", [hang(), delayed(verdict("Model"), 60)])
def test_a_client_that_gives_up_on_a_late_reply_is_let_go(loopback: LoopbackJudge, reply: Reply):
    loopback.queue(reply)
    [problem] = ask(loopback, timeout=0.2)
    assert type(problem) is openai.APITimeoutError
    deadline = time.monotonic() + 60
    while loopback.in_flight and time.monotonic() < deadline:
        ask(loopback)
    assert (loopback.in_flight, loopback.peak <= 2) == (0, True)


def test_a_delayed_reply_comes_after_its_delay(loopback: LoopbackJudge):
    loopback.queue(delayed(verdict("Model"), 0.2))
    [reply] = ask(loopback)
    assert content(reply)["winner"] == "Model"
    assert time.monotonic() - loopback.requests[0].arrived >= 0.2


def test_what_was_asked_is_recorded(loopback: LoopbackJudge):
    before = time.monotonic()
    ask(loopback, call(verdict_format(), 'Naïve “caption” with "response_format": {}'))
    [request] = loopback.requests
    assert request.schema_name == "plot_faithfulness"
    assert request.texts == ["You are the judge.", 'Naïve “caption” with "response_format": {}']
    assert request.images == PICTURES
    assert (request.body["model"], request.headers["authorization"]) == ("any", "Bearer none")
    assert before <= request.arrived <= time.monotonic()


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize(
    ("format", "name"), [(verdict_format("x_y"), "x_y"), ({"type": "json_object"}, ""), (None, "")]
)
def test_the_schema_name_is_found_however_the_body_is_written(
    separators: tuple[str, str], format: dict[str, Any] | None, name: str
):
    body = {"response_format": format, **call(), "user": "name"}
    request = Request("POST /", {}, json.dumps(body, separators=separators).encode(), 0.0)
    assert request.schema_name == name


ASPECTS = schema_format(
    "counting",
    {
        "count_accuracy": {"$ref": "#/$defs/Aspect"},
        "overall_score": {"anyOf": [{"$ref": "#/$defs/Aspect"}, {"type": "null"}]},
    },
    **{"$defs": {"Aspect": {"properties": {"explanation": {"type": "string"}, "score": {"type": ["number", "null"]}}}}},
)
ASPECT = {"explanation": "As the schema asks.", "score": 7}


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        (schema_format("probe", {"ready": {"type": "boolean"}}), {"ready": True}),
        (verdict_format(), {"comparison_reasoning": "As the schema asks.", "winner": "Human"}),
        (ASPECTS, {"count_accuracy": ASPECT, "overall_score": ASPECT}),
    ],
)
def test_left_alone_it_gives_the_plainest_reply_that_the_schema_allows(
    loopback: LoopbackJudge, format: dict[str, Any], expected: dict[str, Any]
):
    assert content(ask(loopback, call(format))[0]) == expected


@pytest.mark.parametrize(
    ("winner", "format", "expected"),
    [
        ("", None, "Model"),
        ("Human", None, "Human"),
        ("Both are good", verdict_format(), "Both are good"),
        ("Both are bad", verdict_format(), "Human"),
    ],
)
def test_the_winner_of_choice_wins_where_it_is_allowed(winner: str, format: dict[str, Any] | None, expected: str):
    with LoopbackJudge(allowed_reply(winner)) as judge:
        assert content(ask(judge, call(format))[0])["winner"] == expected


def test_answers_go_by_dimension_and_by_caption():
    def answer(request: Request) -> Reply:
        if "unfit" in request.texts[-1]:
            return refusal("No.")
        return verdict({"diagram_aesthetics": "Model", "diagram_readability": "Human"}[request.schema_name])

    with LoopbackJudge(answer, model="another-model") as judge:
        formats = [verdict_format("diagram_readability"), verdict_format("diagram_aesthetics")]
        human, model, refused = ask(judge, *map(call, formats), call(formats[0], "An unfit figure."))
        assert (content(human)["winner"], content(model)["winner"]) == ("Human", "Model")
        assert (refused.choices[0].message.refusal, refused.model) == ("No.", "another-model")
        assert judge.stats()["by_name"] == {"diagram_readability": 2, "diagram_aesthetics": 1}


def test_queued_replies_come_first_and_in_order(loopback: LoopbackJudge):
    loopback.queue(text("one"), text("two"))
    said = [ask(loopback)[0].choices[0].message.content for _ in range(3)]
    assert said[:2] == ["one", "two"]
    assert json.loads(said[2])["winner"] == "Model"


def test_an_answer_that_fails_is_a_500_that_says_why():
    with LoopbackJudge(lambda request: verdict(request.body["no such key"])) as judge:
        [problem] = ask(judge)
        assert problem.status_code == 500
        assert "KeyError('no such key')" in problem.message


@pytest.mark.parametrize("together", [1, 5])
def test_the_peak_is_the_number_of_requests_held_at_once(together: int):
    all_here = asyncio.Barrier(together)

    async def answer(request: Request) -> Reply:
        await all_here.wait()
        return verdict("Model")

    with LoopbackJudge(answer) as judge:
        for _ in range(3):
            ask(judge, *[call()] * together)
        assert (judge.count, judge.peak, judge.in_flight) == (3 * together, together, 0)


def test_the_peak_never_exceeds_what_a_client_has_open():
    async def in_turn(base_url: str) -> None:
        async with AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:

            async def worker() -> None:
                for _ in range(50):
                    await client.chat.completions.create(**call())

            await asyncio.gather(*[worker() for _ in range(4)])

    with LoopbackJudge() as judge:
        asyncio.run(in_turn(judge.base_url))
        assert judge.count == 200
        assert judge.peak <= 4


def test_bodies_of_several_megabytes_arrive_whole(loopback: LoopbackJudge):
    caption = "é" * 3_000_000
    ask(loopback, call(verdict_format(), caption))
    assert loopback.requests[0].texts[-1] == caption
    assert loopback.requests[0].schema_name == "plot_faithfulness"


def test_it_stops_without_a_word_while_requests_hang_and_sockets_idle(caplog: pytest.LogCaptureFixture):
    with ExitStack() as sockets:
        with LoopbackJudge(lambda request: hang()) as judge:
            address = ("127.0.0.1", urlsplit(judge.base_url).port)
            idle, busy = [sockets.enter_context(socket.create_connection(address, timeout=5)) for _ in range(2)]
            busy.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
            while not judge.in_flight:
                time.sleep(0.001)
        assert (idle.recv(1), busy.recv(1)) == (b"", b"")
    assert caplog.messages == []


def test_waits_are_log_normal_around_the_median_and_repeat_with_the_seed():
    def draw(seed: int) -> list[float]:
        answer: Callable[[Request], Any] = with_latency(allowed_reply(), 0.2, 0.3, seed)
        return sorted(answer(Request("POST /", {}, b"{}", 0.0)).seconds for _ in range(999))

    waits = draw(1)
    assert waits == draw(1) != draw(2)
    assert waits[499] == pytest.approx(0.2, rel=0.05)
    assert waits[839] / waits[499] == pytest.approx(2.718**0.3, rel=0.1)


def test_as_a_process_it_answers_counts_and_ends_with_its_standard_input(capfd: pytest.CaptureFixture[str]):
    with judge_process("--latency", "1", "--sigma", "0.3", "--seed", "1") as process:
        replies = ask(process, *[call(verdict_format(name)) for name in ("a_b", "a_b", "c_d")])
        stats = process.stats()
    assert [content(reply)["winner"] for reply in replies] == ["Human"] * 3
    assert (stats["count"], stats["peak"], stats["in_flight"]) == (3, 3, 0)
    assert stats["by_name"] == {"a_b": 2, "c_d": 1}
    assert (process.popen.returncode, capfd.readouterr().err) == (0, "")


def test_as_a_process_it_ends_on_sigterm_and_by_itself():
    with judge_process() as process:
        process.popen.send_signal(signal.SIGTERM)
        assert process.popen.wait(60) == 0
    with judge_process("--seconds", "0.1") as process:
        assert process.popen.wait(60) == 0
