"""Question of one call, the body of its request, and the fallbacks for parts that an endpoint refuses."""

import base64
import json
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple, cast

from tasks.demo.chat import PROBE
from tasks.endpoint.catalog import CacheField
from tasks.records.judge import Judge


class Image(NamedTuple):
    """A picture in a request."""

    media_type: str
    encoded: bytes
    """File in base64. A data URL as one piece would be a copy of it."""


class Request(NamedTuple):
    """One question to the judge."""

    system: str
    content: tuple[str | Image, ...]
    name: str
    """Name of the reply schema."""
    schema: Mapping[str, Any]
    """JSON schema of the reply. Empty: one word as plain text, with the probabilities of its first token."""
    seed_offset: int = 0
    """Number added to the seed, so that a vote or a new try repeats no earlier question."""
    breakpoints: tuple[int, ...] = ()
    """Indices of the parts that end a shared prefix; empty if none is shared."""
    system_is_shared: bool = False
    """True if the system message by itself is a shared prefix."""
    key: str = ""
    """Key under which a cache looks for the shared prefix; empty if none is shared."""
    needs_probabilities: str = ""
    """Of a first question: why the real ones need probabilities, and what to do without; empty: they need none."""

    @property
    def pictures(self) -> int:
        """Number of pictures in the question."""
        return sum(isinstance(part, Image) for part in self.content)


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with exactly these properties, in their order."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@cache
def probe_request(pictures: int = 1, shares: bool = False, needs_probabilities: str = "") -> Request:
    """Return a cheap question in the form of the real ones: as many pictures, a reply schema, the word JSON.

    Args:
        shares: the real questions share prefixes; then the cheap one marks one, too, to detect a refusal of the marks.
        needs_probabilities: why the real questions ask for a word and its probabilities, and what to do without; then
            the cheap one asks for `YES`. Empty: they ask for no probabilities.
    """
    from PIL import Image as PillowImage  # readers of bills and quotes do without it

    white = BytesIO()
    PillowImage.new("RGB", (64, 64), "white").save(white, "PNG")
    reply = f"word {YES}" if needs_probabilities else 'JSON object {"ready": true}'
    words = f"This checks that you can be reached. Reply with the {reply} and nothing around it."
    schema = {} if needs_probabilities else object_schema({"ready": {"type": "boolean"}})
    picture = Image("image/png", base64.b64encode(white.getvalue()))
    content = (words, *[picture] * pictures)
    probe = Request("You answer readiness checks.", content, PROBE, schema, needs_probabilities=needs_probabilities)
    return probe._replace(breakpoints=(pictures,), system_is_shared=True, key=PROBE) if shares else probe


YES = "yes"
"""Word that a first question asks for."""
WORD_TOKENS = 16
"""Most tokens of a reply of one word."""
ALTERNATIVES = 20
"""First tokens whose probabilities are asked for: as many as OpenAI allows."""
RUNGS = ("json_schema", "json_object", "plain")
"""Reply formats, the strictest first."""
DISPENSABLE = ("temperature", "detail", "seed", "reasoning_effort")
"""Parameters that can be left out without a change of the question."""

PIECE_BYTES = 256 * 1024
"""Largest piece given to a connection, in bytes; the next piece waits until the connection has taken this one."""
_OPTIONS = "prompt_cache_options"
_MARKS: Mapping[CacheField, Mapping[str, Any]] = {
    "prompt_cache_breakpoint": {"mode": "explicit"},
    "cache_control": {"type": "ephemeral"},
}
"""Field and value that mark the last part of a shared prefix."""
_PLACE = secrets.token_hex(16)
"""Random placeholder for a picture while the rest becomes JSON; no text can contain it by chance or intent."""
_TOKEN_LIMITS = ("max_completion_tokens", "max_tokens")
"""Names of the parameter that limits reply tokens. The first gives way to the second, never the other way round.
`Endpoint.token_limit` and `OWN_ARGUMENTS` have them, too."""
_FORMAT_WORDS = ("response_format", "json_schema", "json_object", "json mode", "structured output")
_REFUSAL = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|does not accept|deprecated"
)
_QUESTION_TOO_LONG = ("context length", "context_length", "too long", "too large", "maximum context")


class Manner(NamedTuple):
    """Form of the requests to an endpoint: refused parts are replaced or left out for the rest of the run."""

    rung: int = 0
    """Index in `RUNGS`; a refusal adds one."""
    length_name: str = _TOKEN_LIMITS[0]
    left_out: frozenset[str] = frozenset()
    cache_fields: tuple[CacheField, ...] = ()
    """Fields that mark a shared prefix. They are no part of the question, so that their refusal is not recorded."""


class Body:
    """Body in pieces, read each time it is sent. The pieces are never joined, since that would copy the pictures."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = tuple(memoryview(piece) for piece in pieces)

    def __len__(self) -> int:
        """Return the number of bytes."""
        return sum(map(len, self.pieces))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            for start in range(0, len(piece), PIECE_BYTES):
                yield cast(bytes, piece[start : start + PIECE_BYTES])  # a view: every transport takes it like bytes


def body(judge: Judge, request: Request, manner: Manner) -> Body:
    """Return the request as JSON, with the pictures inserted unescaped: base64 has nothing that JSON escapes."""
    pieces = json.dumps(_arguments(judge, request, manner), ensure_ascii=False).encode().split(_PLACE.encode())
    pictures = [part.encoded for part in request.content if isinstance(part, Image)]
    return Body(piece for pair in zip(pieces, [*pictures, b""], strict=True) for piece in pair)


def give_way(manner: Manner, words: str, param: str) -> Manner | None:
    """Return the form of requests after a refusal of a part that every call has; None if another part is refused.

    Args:
        param: parameter that the endpoint named; "" if it named none.
    """
    words = words.lower()
    if any(length in words for length in _QUESTION_TOO_LONG):
        return None
    if manner.rung < len(RUNGS) - 1 and any(name in words for name in _FORMAT_WORDS):
        return manner._replace(rung=manner.rung + 1)
    if manner.length_name == _TOKEN_LIMITS[0] and _refused(_TOKEN_LIMITS[0], words, param):
        return manner._replace(length_name=_TOKEN_LIMITS[1])
    if refused := {name for name in manner.cache_fields if any(_refused(word, words, param) for word in _words(name))}:
        return manner._replace(cache_fields=tuple(name for name in manner.cache_fields if name not in refused))
    dispensable = (name for name in DISPENSABLE if name not in manner.left_out and _refused(name, words, param))
    name = next(dispensable, None)
    return manner._replace(left_out=manner.left_out | {name}) if name else None


def most_tokens(judge: Judge, of_one_word: bool) -> int:
    """Return the most tokens of a reply."""
    return min(WORD_TOKENS, judge.max_output_tokens) if of_one_word else judge.max_output_tokens


def _arguments(judge: Judge, request: Request, manner: Manner) -> dict[str, Any]:
    settings: dict[str, Any] = {"temperature": judge.temperature}
    if judge.effort:
        settings["reasoning_effort"] = judge.effort
    if judge.seed is not None:
        settings["seed"] = judge.seed + request.seed_offset
    arguments: dict[str, Any] = {
        "model": judge.model,
        "messages": [
            {"role": "system", "content": _system(request, manner)},
            {"role": "user", "content": _content(judge, request, manner)},
        ],
        manner.length_name: most_tokens(judge, not request.schema),
        **{name: value for name, value in settings.items() if name not in manner.left_out},
    }
    if judge.service_tier == "flex":
        arguments["service_tier"] = "flex"
    if request.key and "prompt_cache_key" in manner.cache_fields:
        arguments["prompt_cache_key"] = request.key
    if request.breakpoints and "prompt_cache_breakpoint" in manner.cache_fields:
        # Without the option, OpenAI sets a breakpoint of its own at the end of the question, and charges for it.
        arguments[_OPTIONS] = _MARKS["prompt_cache_breakpoint"]
    return arguments | judge.extra | _response_format(request, RUNGS[manner.rung])


def _response_format(request: Request, rung: str) -> dict[str, Any]:
    if not request.schema:
        return {"logprobs": True, "top_logprobs": ALTERNATIVES}
    if rung == "json_schema":
        schema = {"name": request.name, "strict": True, "schema": request.schema}
        return {"response_format": {"type": rung, "json_schema": schema}}
    return {"response_format": {"type": rung}} if rung == "json_object" else {}


def _system(request: Request, manner: Manner) -> str | list[dict[str, Any]]:
    """Return the system message, plain if no mark is needed: some endpoints refuse a system message in parts."""
    marks = _marks(manner) if request.system_is_shared else {}
    return [{"type": "text", "text": request.system, **marks}] if marks else request.system


def _content(judge: Judge, request: Request, manner: Manner) -> list[dict[str, Any]]:
    parts = [_part(part, judge, manner) for part in request.content]
    for place in request.breakpoints:
        parts[place] |= _marks(manner)
    return parts


def _marks(manner: Manner) -> dict[str, Any]:
    return {name: _MARKS[name] for name in manner.cache_fields if name in _MARKS}


def _part(part: str | Image, judge: Judge, manner: Manner) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    detail = {} if "detail" in manner.left_out else {"detail": judge.detail}
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{_PLACE}", **detail}}


def _words(name: CacheField) -> tuple[str, ...]:
    """Return the names that a refusal of a field may contain."""
    return (name, _OPTIONS) if name == "prompt_cache_breakpoint" else (name,)


def _refused(parameter: str, words: str, param: str) -> bool:
    """Return whether the endpoint refuses this parameter; the mention of a similar word is not enough."""
    return param == parameter or bool(re.search(rf"\b{parameter}\b", words) and _REFUSAL.search(words))
