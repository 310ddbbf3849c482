"""Twins of endpoints that cache prompts and bill: OpenAI before and after GPT-5.6, Anthropic on OpenRouter, and vLLM.

Rules as of 2026-11-22: developers.openai.com/api/docs/guides/prompt-caching, openrouter.ai/docs (`cache_control` on
blocks), platform.claude.com/docs/en/build-with-claude/prompt-caching, docs.vllm.ai/en/latest/design/prefix_caching.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from endpoint_habits import openai_error
from endpoint_twins import Twin
from loopback_replies import Reply, Request
from prompt_caches import BlockCache, BreakpointCache, Prompt, Usage, prompt_of

LEAST = 1024
"""Shortest prompt, in tokens, that OpenAI and most Anthropic models cache; some Anthropic models need 4,096."""
BREAKPOINT, OPTIONS, CONTROL = "prompt_cache_breakpoint", "prompt_cache_options", "cache_control"


@dataclass(frozen=True)
class Rules(ABC):
    """Caching rules of one provider; `read` and `write` are prices relative to a plain input token."""

    endpoint: str
    """Known endpoint that the twin replaces."""
    mark: str = ""
    """Field that marks a content part as the end of a cacheable prefix."""
    read: float = 0.1
    write: float = 1.0
    least: int = LEAST
    """Shortest prefix that is cached, in tokens."""

    @abstractmethod
    def cache(self) -> BlockCache | BreakpointCache:
        """Return an empty cache."""

    def refusal(self, request: Request) -> Reply | None:
        """Return an error for unknown fields, or None."""
        return None

    def prompt(self, request: Request) -> Prompt:
        return prompt_of(request, self.mark)

    def usage_details(self, usage: Usage) -> Mapping[str, Any]:
        """Return usage details for a reply, besides the three token counts."""
        return {"prompt_tokens_details": {"cached_tokens": usage.read, "cache_write_tokens": usage.written}}

    def bill(self, usage: Usage) -> float:
        """Return the price in full-price tokens."""
        return usage.total + (self.read - 1) * usage.read + (self.write - 1) * usage.written


class EarlierOpenAi(Rules):
    """OpenAI before GPT-5.6: caches automatically in steps of 128 tokens and refuses breakpoints."""

    def cache(self) -> BlockCache:
        return BlockCache(128, self.least, routed=True)

    def refusal(self, request: Request) -> Reply | None:
        named = [name for name in (OPTIONS, BREAKPOINT) if f'"{name}":'.encode() in request.raw]
        words = f"{named[0]} is not supported on this model" if named else ""
        return openai_error(400, words, named[0]) if named else None


class LaterOpenAi(Rules):
    """OpenAI from GPT-5.6 on: caches by key at breakpoints and, unless switched off, at the end of the message."""

    def cache(self) -> BreakpointCache:
        return BreakpointCache(self.least, keyed=True)

    def prompt(self, request: Request) -> Prompt:
        found = prompt_of(request, self.mark)
        alone = request.body.get(OPTIONS, {}).get("mode") == "explicit"
        return found if alone else found._replace(marks=(*found.marks, found.tokens))


class Anthropic(Rules):
    """Anthropic: caches at breakpoints only, at most four, without a key."""

    def cache(self) -> BreakpointCache:
        return BreakpointCache(self.least)

    def refusal(self, request: Request) -> Reply | None:
        marks = sum(CONTROL in part for part in request.parts)
        words = f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
        return openai_error(400, words, CONTROL) if marks > BreakpointCache.most else None


class Vllm(Rules):
    """vLLM: caches blocks of 16 tokens. Cached ones are not computed again. The schema is no part of the prompt."""

    def cache(self) -> BlockCache:
        return BlockCache(16)

    def prompt(self, request: Request) -> Prompt:
        return prompt_of(request, self.mark, with_schema=False)

    def usage_details(self, usage: Usage) -> Mapping[str, Any]:
        return {"prompt_tokens_details": {"cached_tokens": usage.read}}


RULES: dict[str, Rules] = {
    "openai-5.5": EarlierOpenAi("openai"),
    "openai-5.6": LaterOpenAi("openai", BREAKPOINT, write=1.25),
    "anthropic": Anthropic("openrouter", CONTROL, write=1.25),
    "anthropic-4096": Anthropic("openrouter", CONTROL, write=1.25, least=4096),
    "vllm": Vllm("vllm", read=0.0),
}


class BillingTwin(Twin):
    """A twin that counts tokens, caches prompts and bills them."""

    def __init__(self, name: str) -> None:
        self.rules = RULES[name]
        super().__init__(self.rules.endpoint)
        self.answer = self._answer_and_bill
        self.used: list[tuple[str, Usage]] = []
        """Schema name and tokens of each request, in order of arrival, the first question included."""
        self._cache = self.rules.cache()

    def bill(self, question: str = "") -> float:
        """Return the price of the samples' requests in full-price tokens; `question` selects schema names."""
        return sum(self.rules.bill(usage) for name, usage in self.used if name != "probe" and question in name)

    def read_share(self) -> float:
        """Return the share of tokens that was read from the cache."""
        return sum(usage.read for _, usage in self.used) / sum(usage.total for _, usage in self.used)

    async def _answer_and_bill(self, request: Request) -> Reply:
        if refused := self.rules.refusal(request):
            self.refusals.append(refused)
            return refused
        prompt = self.rules.prompt(request)
        usage = self._cache.look(prompt)
        self.used.append((request.schema_name, usage))
        await asyncio.sleep(0)  # other requests arrive before the prompt can be read from the cache
        self._cache.keep(prompt)
        reply = self._answer(request)
        counts = {"prompt_tokens": usage.total, "completion_tokens": 80, "total_tokens": usage.total + 80}
        return replace(reply, body={**reply.body, "usage": {**counts, **self.rules.usage_details(usage)}})
