"""Models of providers' prompt caches: a prompt as a stream of tokens, of which a cache reads and writes parts.

A token is four bytes of text, or a picture patch of 32 x 32 pixels.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from typing import Any, NamedTuple

from loopback_replies import Request
from PIL import Image

TOKEN = 4
"""Bytes of text in a token."""
PATCH, MOST_PATCHES = 32, 2500
"""Side of a picture patch that is one token, in pixels; and most tokens of a picture."""
ROUTED_BY = 256
"""Tokens that, with the key, determine the machine."""


class Usage(NamedTuple):
    """Tokens of one request."""

    total: int
    read: int
    """Tokens of the total found in the cache."""
    written: int
    """Tokens of the total written to the cache at a price."""


class Prompt(NamedTuple):
    """A request's prompt as a model receives it, four bytes a token, with its breakpoints."""

    stream: bytes
    marks: tuple[int, ...]
    """Tokens before each breakpoint, in order."""
    key: str
    """`prompt_cache_key` of the request."""

    @property
    def tokens(self) -> int:
        return len(self.stream) // TOKEN

    def prefixes(self, ends: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Yield token counts with the hash of that many tokens from the beginning; `ends` ascend."""
        hashed, done = sha256(self.key.encode()), 0
        for end in ends:
            hashed.update(self.stream[done * TOKEN : end * TOKEN])
            done = end
            yield end, hashed.digest()


def prompt_of(request: Request, mark: str, with_schema: bool = True) -> Prompt:
    """Return the prompt of a request.

    Args:
        mark: name of the field that puts a breakpoint at the end of a content part; "": no breakpoints.
        with_schema: whether the reply's schema precedes the messages, so that another schema changes the beginning.
    """
    schema = json.dumps(request.response_format) if with_schema else ""
    stream, marks = _padded(schema.encode()), list[int]()
    for part in request.parts:
        stream += tokens_of(part)
        if mark and mark in part:
            marks.append(len(stream) // TOKEN)
    return Prompt(stream, tuple(marks), request.body.get("prompt_cache_key", ""))


def tokens_of(part: dict[str, Any]) -> bytes:
    """Return the tokens of a text; or of a picture: its hash for each token, which depends on the detail setting."""
    if part["type"] == "text":
        return _padded(part["text"].encode())
    shown = part["image_url"]
    encoded = shown["url"].partition(",")[2]
    seen = sha256(f"{shown.get('detail')} {encoded}".encode()).digest()[:TOKEN]
    return seen * picture_tokens(encoded)


def picture_tokens(encoded: str) -> int:
    """Return the number of patches that cover a picture, given in Base64."""
    with Image.open(BytesIO(base64.b64decode(encoded))) as picture:
        width, height = picture.size
    return min(MOST_PATCHES, -(-width // PATCH) * -(-height // PATCH))


def _padded(text: bytes) -> bytes:
    return text + b" " * (-len(text) % TOKEN)


@dataclass
class BlockCache:
    """Cache of token blocks, each identified by all before it: OpenAI's before GPT-5.6, and vLLM's. Writing is free.

    OpenAI reads in steps of 128 tokens from 1,024 on, on the machine for the first 256 tokens and the key; vLLM reads
    blocks of 16 (docs.vllm.ai/en/latest/design/prefix_caching).
    """

    block: int
    least: int = 0
    routed: bool = False
    _known: set[tuple[bytes, bytes]] = field(default_factory=set[tuple[bytes, bytes]])

    def look(self, prompt: Prompt) -> Usage:
        """Return the tokens read for the prompt now."""
        found = max((end for end, known in self._blocks(prompt) if known in self._known), default=0)
        return Usage(prompt.tokens, found, 0)

    def keep(self, prompt: Prompt) -> None:
        """Make the prompt readable from now on."""
        self._known.update(known for _, known in self._blocks(prompt))

    def _blocks(self, prompt: Prompt) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
        machine = sha256(prompt.stream[: ROUTED_BY * TOKEN]).digest() if self.routed else b""
        first = max(self.least, self.block)
        for end, known in prompt.prefixes(range(first, prompt.tokens + 1, self.block)):
            yield end, (machine, known)


@dataclass
class BreakpointCache:
    """Cache of beginnings that end at a breakpoint: OpenAI's from GPT-5.6 on, and Anthropic's. Writing has a price."""

    least: int
    most: int = 4
    keyed: bool = False
    """Whether nothing is found without a key."""
    _known: set[bytes] = field(default_factory=set[bytes])

    def look(self, prompt: Prompt) -> Usage:
        """Return the tokens read and written now: all up to the last breakpoint that is not cached is written."""
        ends = self._ends(prompt)
        read = max((end for end, known in prompt.prefixes(ends) if self._has(prompt, known)), default=0)
        return Usage(prompt.tokens, read, max(0, max(ends, default=0) - read))

    def keep(self, prompt: Prompt) -> None:
        """Make the prompt readable from now on."""
        self._known.update(known for _, known in prompt.prefixes(self._ends(prompt)))

    def _has(self, prompt: Prompt, known: bytes) -> bool:
        return known in self._known and bool(prompt.key or not self.keyed)

    def _ends(self, prompt: Prompt) -> list[int]:
        return [end for end in prompt.marks[-self.most :] if end >= self.least]
