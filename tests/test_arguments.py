"""The body of a call: its pieces, and what arrives of them."""

import asyncio
import json

import pytest
from loopback_judge import LoopbackJudge

from tasks.endpoint.arguments import PIECE_BYTES, Manner, body
from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import Image, Request
from tasks.parameters import Judge

URL = b"data:image/png;base64," + b"A" * (3 * PIECE_BYTES)
REQUEST = Request("Compare “these”.", ("a", Image(URL), "b", Image(URL[:-8])), "comparison", {"type": "object"})


def judge(base_url: str) -> Judge:
    return Judge(model="m", base_url=base_url)  # pyright: ignore


async def sent(times: int) -> list[list[bytes]]:
    made = body(judge("http://127.0.0.1:1/v1"), REQUEST, Manner())
    return [[bytes(piece) async for piece in made] for _ in range(times)]


def test_a_body_is_given_in_pieces_that_a_connection_can_take_and_may_be_sent_again() -> None:
    first, again = asyncio.run(sent(2))
    assert first == again
    assert max(map(len, first)) <= PIECE_BYTES
    content = json.loads(b"".join(first))["messages"][1]["content"]
    pictures = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    assert pictures == [URL.decode(), URL[:-8].decode()]


def test_the_length_of_a_body_is_that_of_its_pieces() -> None:
    [pieces] = asyncio.run(sent(1))
    assert len(body(judge("http://127.0.0.1:1/v1"), REQUEST, Manner())) == len(b"".join(pieces))


def test_a_server_is_told_the_length_and_gets_every_byte(loopback: LoopbackJudge) -> None:
    async def ask() -> None:
        async with Vlm(judge(loopback.base_url)) as vlm:
            await vlm.ask(REQUEST)

    asyncio.run(ask())
    [seen] = loopback.requests
    assert "transfer-encoding" not in seen.headers
    assert int(seen.headers["content-length"]) == len(seen.raw)
    assert URL in seen.raw and json.loads(seen.raw)["messages"][0]["content"] == "Compare “these”."


@pytest.mark.parametrize("size", [1, PIECE_BYTES + 1])
def test_the_embedded_judge_gets_pieces_too(size: int) -> None:
    async def ask() -> str:
        async with Vlm(Judge()) as vlm:  # pyright: ignore
            request = REQUEST._replace(content=(Image(b"data:image/png;base64," + b"A" * size),))
            return (await vlm.ask(request)).error

    # It has read the whole request, whose last part is the name of the question.
    assert "knows no 'comparison'" in asyncio.run(ask())
