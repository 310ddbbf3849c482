"""Requests to the loopback judge and its possible replies: bodies of the OpenAI API, good and bad."""

import base64
import gzip
import json
import math
import random
import re
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

VERDICTS = ("Model", "Human", "Both are good", "Both are bad")
CACHED = {"prompt_tokens_details": {"cached_tokens": 1024}}
USAGE = {"prompt_tokens": 1200, "completion_tokens": 80, "total_tokens": 1280, **CACHED}


@dataclass(frozen=True)
class Request:
    """A request as received; parsed only on access, since bodies are large."""

    line: str
    """Method and path."""
    headers: dict[str, str]
    """Names in lower case."""
    raw: bytes
    arrived: float
    """`time.monotonic()` when the last byte was in."""

    @cached_property
    def body(self) -> dict[str, Any]:
        return json.loads(self.raw)

    @cached_property
    def response_format(self) -> dict[str, Any]:
        """Reply format of the request; empty: none.

        It is parsed from its own key on: our client writes compact JSON with this key after the messages, and quotes
        inside a JSON string would be escaped. Other bodies are parsed whole.
        """
        key = b'"response_format":'
        at = self.raw.rfind(key)
        if at < 0:
            return self.body.get("response_format") or {}
        return json.JSONDecoder().raw_decode(self.raw[at + len(key) :].decode().lstrip())[0] or {}

    @property
    def schema_name(self) -> str:
        """Name of the reply schema (`diagram_faithfulness`, `probe`); empty: no schema was sent."""
        return self.response_format.get("json_schema", {}).get("name", "")

    @property
    def schema(self) -> dict[str, Any]:
        return self.response_format.get("json_schema", {}).get("schema", {})

    @cached_property
    def parts(self) -> list[dict[str, Any]]:
        """Content parts of all messages, in order."""
        contents = [message["content"] for message in self.body["messages"]]
        lists = [[{"type": "text", "text": content}] if isinstance(content, str) else content for content in contents]
        return [part for parts in lists for part in parts]

    @property
    def texts(self) -> list[str]:
        return [part["text"] for part in self.parts if part["type"] == "text"]

    @property
    def shown_first(self) -> str:
        """Side of a pair of figures whose picture comes first: Human or Model."""
        return next(side for text in self.texts for side in ("Human", "Model") if text.endswith(f"({side}):"))

    @property
    def images(self) -> list[bytes]:
        """The pictures sent as data URLs, decoded."""
        urls = [part["image_url"]["url"] for part in self.parts if part["type"] == "image_url"]
        return [base64.b64decode(url.partition(",")[2]) for url in urls if url.startswith("data:")]


@dataclass(frozen=True)
class Reply:
    """A reply to send over the connection."""

    body: Any
    """Bytes are sent unchanged, a str as a foreign page; None closes the socket silently; all else is sent as JSON."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    """Wait before it is sent."""
    torn: bool = False
    """Whether only half of the body is sent before the socket is closed."""
    reset: bool = False
    """Whether the connection is reset after the reply, or instead of it."""
    times: int = 1
    """Number of times that the body is sent, for a long body without holding it in memory."""
    pause: float = 0.0
    """Seconds before each repetition."""
    chunked: bool = False
    """Whether the body is sent without a length."""


Answer = Callable[[Request], Reply | Awaitable[Reply]]


def to_samples(reply: Reply) -> Answer:
    """Return the same reply for every question on a sample; the first question gets an allowed reply."""
    return lambda seen: allowed_reply()(seen) if seen.schema_name == "probe" else reply


def completion(content: str | None, finish_reason: str = "stop", refusal: str | None = None) -> Reply:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
    return Reply({"choices": [choice], "usage": USAGE})


def text(content: str, finish_reason: str = "stop") -> Reply:
    return completion(content, finish_reason)


def one_word(content: str, finish_reason: str = "stop", **odds: float) -> Reply:
    """A word with the probabilities of its first token, the first of which is that of the word."""
    reply = completion(content, finish_reason)
    top = [{"token": token, "logprob": math.log(share), "bytes": None} for token, share in odds.items()]
    reply.body["choices"][0]["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
    return reply


def verdict(winner: str, reasoning: str = "The loopback judge looked at neither figure.") -> Reply:
    return text(json.dumps({"comparison_reasoning": reasoning, "winner": winner}))


def refusal(words: str) -> Reply:
    return completion(None, refusal=words)


def cut_off() -> Reply:
    """Return a reply that hit the token limit in the middle of its reasoning."""
    return text('{"comparison_reasoning": "The Model figure shows', finish_reason="length")


def gzipped(content: bytes) -> Reply:
    return Reply(gzip.compress(content), headers={"content-encoding": "gzip"})


def gzip_bomb(megabytes: int) -> Reply:
    """Return a body of this many megabytes of spaces, compressed to a thousandth."""
    packer, spaces = zlib.compressobj(9, wbits=31), b" " * 2**20
    first, again = (packer.compress(spaces) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return Reply(first + again * (megabytes - 1), headers={"content-encoding": "gzip"})


def error(
    status: int,
    message: str,
    code: str | None = None,
    type: str | None = None,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    details = {"message": message, "type": type, "param": param, "code": code}
    return Reply({"error": details}, status, headers or {})


def retry_after(seconds: float) -> Reply:
    """Return a 429 with the time to wait."""
    words = f"Rate limit reached. Please try again in {seconds:g}s."
    return error(429, words, "rate_limit_exceeded", "requests", headers={"retry-after": f"{seconds:g}"})


def drop() -> Reply:
    return Reply(None)


def reset() -> Reply:
    """Reset the connection without a reply."""
    return Reply(None, reset=True)


def torn(reply: Reply) -> Reply:
    return replace(reply, torn=True)


def delayed(reply: Reply, seconds: float) -> Reply:
    return replace(reply, seconds=seconds)


def hang() -> Reply:
    """Never answer while the client stays."""
    return delayed(drop(), math.inf)


def trickle() -> Reply:
    """Return a reply that is never silent and never ends."""
    return Reply(b" ", times=2**20, pause=0.05)


def example(schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    """Return the plainest value that a JSON schema allows: the first choice, true, 7, every property."""
    if "$ref" in schema:
        return example(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if choices := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return choices[0]
    if "anyOf" in schema:
        return example(schema["anyOf"][0], definitions)
    if "properties" in schema:
        return {name: example(part, definitions) for name, part in schema["properties"].items()}
    kinds = schema.get("type", "string")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    return {"boolean": True, "integer": 7, "number": 7, "array": [], "null": None}.get(kind, "As the schema asks.")


def allowed_reply(winner: str = "") -> Callable[[Request], Reply]:
    """Always send an allowed reply: `winner` if the schema has it, else its first choice; yes to all checks of a list;
    without a schema, a verdict.
    """

    def answer(request: Request) -> Reply:
        schema, properties = request.schema, request.schema.get("properties", {})
        if not schema:
            return verdict(winner or "Model")
        content = example(schema, schema.get("$defs", {}))
        if winner in properties.get("winner", {}).get("enum", ()):
            content["winner"] = winner
        if "answers" in properties and (asked := re.search(rb"each of the (\d+) questions", request.raw)):
            said = {"reason": "It is seen.", "answer": "yes"}
            content["answers"] = [{"number": number, **said} for number in range(1, int(asked[1]) + 1)]
        elif properties.get("answer") == {"type": "string"}:
            content["answer"] = "yes"
        return text(json.dumps(content))

    return answer


def leaning_reply(prefers: Callable[[Request], str], position: float, noise: float, seed: int = 0) -> Answer:
    """Return a judge of pairs with known habits, for tests to measure.

    It names the first figure in a share `position` of its replies; among the others, a share `noise` is a random
    verdict, and the rest is the result of `prefers` for the request. Random draws depend on question, pictures and the
    number of earlier equal requests: for one question they are the same in every run, whatever the order of its votes.
    """
    asked: Counter[str] = Counter()
    plain = allowed_reply()

    def answer(request: Request) -> Reply:
        if "winner" not in request.schema.get("properties", {}):
            return plain(request)
        question = f"{request.schema_name} {sha256(b''.join(request.images)).hexdigest()}"
        asked[question] += 1
        draws = random.Random(f"{seed} {question} {asked[question]}")
        if draws.random() < position:
            return verdict(request.shown_first)
        return verdict(draws.choice(VERDICTS) if draws.random() < noise else prefers(request))

    return answer


def with_latency(answer: Callable[[Request], Reply], latency: float, sigma: float, seed: int) -> Answer:
    """Delay `answer` by a log-normal wait: `latency` seconds in the median, `sigma` its spread in logarithms."""
    draws = random.Random(seed)
    return lambda request: delayed(answer(request), latency * draws.lognormvariate(0, sigma))
