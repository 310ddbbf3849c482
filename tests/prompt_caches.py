"""How providers cache what a request begins with: the prompt as a stream of tokens, and what of it is read or written.

Tokens are counted as four bytes of text, and as a patch of 32 pixels of a picture.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from typing import Any, NamedTuple

from loopback_replies import Request
from PIL import Image

TOKEN = 4
"""Bytes of text that are one token."""
PATCH, MOST_PATCHES = 32, 2500
"""Pixels a side of what is one token of a picture, and most tokens of one."""
ROUTED_BY = 256
"""Tokens that decide, beside the key, which machine answers."""
CALLS_A_MINUTE, MOST_A_MACHINE = 6, 15
"""Of a place in flight, and of one key and beginning."""


class Usage(NamedTuple):
    """Tokens of one request."""

    total: int
    read: int
    """Of the total, those found in the cache."""
    written: int
    """Of the total, those put into the cache at a price."""


class Prompt(NamedTuple):
    """What a model gets of a request, four bytes a token, and where its breakpoints are."""

    stream: bytes
    marks: tuple[int, ...]
    """Tokens before each breakpoint, in order."""
    key: str
    """The request's `prompt_cache_key`."""
    machine: int = 0
    """Which of the machines it comes to that this key and this beginning lead to; each has a cache of its own."""

    @property
    def tokens(self) -> int:
        return len(self.stream) // TOKEN

    def prefixes(self, ends: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Tokens -> hash of so many from the beginning; `ends` ascend."""
        hashed, done = sha256(f"{self.machine} {self.key}".encode()), 0
        for end in ends:
            hashed.update(self.stream[done * TOKEN : end * TOKEN])
            done = end
            yield end, hashed.digest()


def prompt_of(request: Request, mark: str, with_schema: bool = True) -> Prompt:
    """The prompt of a request.

    Args:
        mark: name of the field that makes a content part end at a breakpoint; "": there is none.
        with_schema: the reply's schema stands before the messages, so that another one is another beginning.
    """
    schema = json.dumps(request.response_format) if with_schema else ""
    stream, marks = _padded(schema.encode()), list[int]()
    for part in request.parts:
        stream += tokens_of(part)
        if mark and mark in part:
            marks.append(len(stream) // TOKEN)
    return Prompt(stream, tuple(marks), request.body.get("prompt_cache_key", ""))


def tokens_of(part: dict[str, Any]) -> bytes:
    """A text, or a picture as its hash once for each of its tokens; looked at in another detail it is another one."""
    if part["type"] == "text":
        return _padded(part["text"].encode())
    shown = part["image_url"]
    encoded = shown["url"].partition(",")[2]
    seen = sha256(f"{shown.get('detail')} {encoded}".encode()).digest()[:TOKEN]
    return seen * picture_tokens(encoded)


def picture_tokens(encoded: str) -> int:
    """Patches that cover a picture, given in Base64."""
    with Image.open(BytesIO(base64.b64decode(encoded))) as picture:
        width, height = picture.size
    return min(MOST_PATCHES, -(-width // PATCH) * -(-height // PATCH))


def _padded(text: bytes) -> bytes:
    return text + b" " * (-len(text) % TOKEN)


@dataclass
class Traffic:
    """Which machine a request comes to: of one key and beginning a machine takes 15 requests a minute, more of them go
    on to the next one (developers.openai.com/api/docs/guides/prompt-caching). Calls take ten seconds.
    """

    in_flight: int
    """Calls at once, so that a minute is six times as many; 0: they come so slowly that one machine takes all."""
    _all: int = 0
    _seen: Counter[tuple[int, str, bytes]] = field(default_factory=Counter[tuple[int, str, bytes]])

    def sent_on(self, prompt: Prompt) -> Prompt:
        """The prompt, at the machine that it comes to."""
        if not self.in_flight:
            return prompt
        here = (self._all // (CALLS_A_MINUTE * self.in_flight), prompt.key, prompt.stream[: ROUTED_BY * TOKEN])
        self._all += 1
        self._seen[here] += 1
        return prompt._replace(machine=(self._seen[here] - 1) // MOST_A_MACHINE)


@dataclass
class BlockCache:
    """Blocks of tokens, each known by all that comes before it: OpenAI's before GPT-5.6, and vLLM's. Writing is free.

    OpenAI reads in steps of 128 tokens from 1,024 on, on the machine that the first 256 tokens and the key lead to;
    vLLM in blocks of 16 (docs.vllm.ai/en/latest/design/prefix_caching).
    """

    block: int
    least: int = 0
    routed: bool = False
    _known: set[tuple[bytes, bytes]] = field(default_factory=set[tuple[bytes, bytes]])

    def look(self, prompt: Prompt) -> Usage:
        """What is read of it now."""
        found = max((end for end, known in self._blocks(prompt) if known in self._known), default=0)
        return Usage(prompt.tokens, found, 0)

    def keep(self, prompt: Prompt) -> None:
        """From now on it can be read."""
        self._known.update(known for _, known in self._blocks(prompt))

    def _blocks(self, prompt: Prompt) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
        machine = sha256(prompt.stream[: ROUTED_BY * TOKEN]).digest() if self.routed else b""
        first = max(self.least, self.block)
        for end, known in prompt.prefixes(range(first, prompt.tokens + 1, self.block)):
            yield end, (machine, known)


@dataclass
class BreakpointCache:
    """Beginnings that end at a breakpoint: OpenAI's from GPT-5.6 on, and Anthropic's. Writing costs."""

    least: int
    most: int = 4
    keyed: bool = False
    """Without a key nothing is found again."""
    _known: set[bytes] = field(default_factory=set[bytes])

    def look(self, prompt: Prompt) -> Usage:
        """What is read and written of it now: whatever ends at a breakpoint and is not there is written."""
        ends = self._ends(prompt)
        read = max((end for end, known in prompt.prefixes(ends) if self._has(prompt, known)), default=0)
        return Usage(prompt.tokens, read, max(0, max(ends, default=0) - read))

    def keep(self, prompt: Prompt) -> None:
        """From now on it can be read."""
        self._known.update(known for _, known in prompt.prefixes(self._ends(prompt)))

    def _has(self, prompt: Prompt, known: bytes) -> bool:
        return known in self._known and bool(prompt.key or not self.keyed)

    def _ends(self, prompt: Prompt) -> list[int]:
        return [end for end in prompt.marks[-self.most :] if end >= self.least]
