"""Body of a chat completion, and the ways to ask otherwise where an endpoint refuses a part of it."""

import json
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, NamedTuple, cast

from tasks.endpoint.known import CacheField, Endpoint
from tasks.endpoint.requests import Image, Request
from tasks.parameters import Judge

RUNGS = ("json_schema", "json_object", "plain")
"""Reply formats, the strictest first."""
DISPENSABLE = ("temperature", "detail", "seed", "reasoning_effort")
"""Parameters without which a call still asks the same."""

PIECE_BYTES = 256 * 1024
"""Most that a connection is given at once; the next piece waits until it has taken this one."""
_OPTIONS = "prompt_cache_options"
_MARKS: Mapping[CacheField, Mapping[str, Any]] = {
    "prompt_cache_breakpoint": {"mode": "explicit"},
    "cache_control": {"type": "ephemeral"},
}
"""What a part says with which a shared beginning ends."""
_PLACE = secrets.token_hex(16)
"""Stands for a picture while the rest of a request is made into JSON; no text can hold it by chance or intent."""
_LENGTH = ("max_completion_tokens", "max_tokens")
"""Names of the longest reply, today's and the older one."""
_FORMAT_WORDS = ("response_format", "json_schema", "json_object", "json mode", "structured output")
_REFUSAL = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|does not accept|deprecated"
)
_LENGTH_WORDS = ("context length", "context_length", "too long", "too large", "maximum context")


class Manner(NamedTuple):
    """How an endpoint is asked: what it refuses is asked otherwise, or left out, for the rest of the run."""

    rung: int = 0
    """Place among `RUNGS`; a refusal moves one down."""
    length_name: str = _LENGTH[0]
    left_out: frozenset[str] = frozenset()
    cache_fields: tuple[CacheField, ...] = ()
    """What a request says of a beginning that it shares. No part of what is asked: a refusal is not told."""


def first_manner(known: Endpoint | None) -> Manner:
    """How an endpoint is asked first, by what its documentation promises where it is known."""
    if not known:
        return Manner()
    return Manner(RUNGS.index(known.reply_format), known.token_limit, cache_fields=known.cache_fields)


class Body:
    """A body in pieces, read as often as it is sent, and never put together, which would copy its pictures."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = tuple(memoryview(piece) for piece in pieces)

    def __len__(self) -> int:
        """Its bytes."""
        return sum(map(len, self.pieces))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            for start in range(0, len(piece), PIECE_BYTES):
                yield cast(bytes, piece[start : start + PIECE_BYTES])  # a view: every transport takes it like bytes


def body(judge: Judge, request: Request, manner: Manner) -> Body:
    """Return the request as JSON, with the pictures put in as they are: a data URL holds nothing that JSON escapes."""
    pieces = json.dumps(_arguments(judge, request, manner), ensure_ascii=False).encode().split(_PLACE.encode())
    urls = [part.data_url for part in request.content if isinstance(part, Image)]
    return Body(piece for pair in zip(pieces, [*urls, b""], strict=True) for piece in pair)


def give_way(manner: Manner, words: str, param: str) -> Manner | None:
    """Return how to ask after a refusal of what every call sends; None where something else is refused.

    Args:
        param: the parameter that the endpoint named; "" where it named none.
    """
    words = words.lower()
    if any(length in words for length in _LENGTH_WORDS):
        return None
    if manner.rung < len(RUNGS) - 1 and any(name in words for name in _FORMAT_WORDS):
        return manner._replace(rung=manner.rung + 1)
    if manner.length_name == _LENGTH[0] and _refused(_LENGTH[0], words, param):
        return manner._replace(length_name=_LENGTH[1])
    if refused := {name for name in manner.cache_fields if any(_refused(word, words, param) for word in _words(name))}:
        return manner._replace(cache_fields=tuple(name for name in manner.cache_fields if name not in refused))
    dispensable = (name for name in DISPENSABLE if name not in manner.left_out and _refused(name, words, param))
    name = next(dispensable, None)
    return manner._replace(left_out=manner.left_out | {name}) if name else None


def _arguments(judge: Judge, request: Request, manner: Manner) -> dict[str, Any]:
    system = {"role": "system", "content": _system(request, manner)}
    user = {"role": "user", "content": _content(judge, request, manner)}
    return {
        "model": judge.model,
        "messages": [system, user],
        manner.length_name: judge.max_output_tokens,
        **{name: value for name, value in _settings(judge, request).items() if name not in manner.left_out},
        **({"service_tier": "flex"} if judge.service_tier == "flex" else {}),
        **_shared_beginning(request, manner),
        **judge.extra,
        **_response_format(request, RUNGS[manner.rung]),
    }


def _settings(judge: Judge, request: Request) -> dict[str, Any]:
    """The parameters that an endpoint may refuse, where they are asked for."""
    settings: dict[str, Any] = {"temperature": judge.temperature}
    if judge.effort:
        settings["reasoning_effort"] = judge.effort
    if judge.seed >= 0:
        settings["seed"] = judge.seed + request.turn
    return settings


def _response_format(request: Request, rung: str) -> Mapping[str, Any]:
    if rung == "json_schema":
        schema = {"name": request.name, "strict": True, "schema": request.schema}
        return {"response_format": {"type": rung, "json_schema": schema}}
    return {"response_format": {"type": rung}} if rung == "json_object" else {}


def _shared_beginning(request: Request, manner: Manner) -> dict[str, Any]:
    """What is said of a shared beginning beside its breakpoints.

    Without the option OpenAI puts a breakpoint of its own behind the whole question, and charges for writing it.
    """
    said: dict[str, Any] = {}
    if request.key and "prompt_cache_key" in manner.cache_fields:
        said["prompt_cache_key"] = request.key
    if request.breakpoints and "prompt_cache_breakpoint" in manner.cache_fields:
        said[_OPTIONS] = _MARKS["prompt_cache_breakpoint"]
    return said


def _system(request: Request, manner: Manner) -> str | list[dict[str, Any]]:
    """Plain where no mark is needed: not every endpoint takes a system message in parts."""
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
    return {"type": "image_url", "image_url": {"url": _PLACE, **detail}}


def _words(name: CacheField) -> tuple[str, ...]:
    """What a refusal of a field may name."""
    return (name, _OPTIONS) if name == "prompt_cache_breakpoint" else (name,)


def _refused(parameter: str, words: str, param: str) -> bool:
    """Whether the endpoint refuses this parameter, and not only mentions a word like it."""
    return param == parameter or bool(re.search(rf"\b{parameter}\b", words) and _REFUSAL.search(words))
