"""Tokens that a reply reports, by whatever names, brought to one meaning.

Anthropic counts cached tokens beside its `input_tokens`; Gemini and xAI count reasoning in the total only.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from tasks.records import token_count

STANDARD = "standard"
"""The tier of calls that were asked for no other."""
_STANDARD_TOO = {"default", "on_demand"}
"""OpenAI's and Groq's words for it."""
_NOT_SAID = {"", "auto"}


class Usage(NamedTuple):
    """Tokens of one call; 0: not told, or a number that cannot be. No part is more than its whole."""

    tokens_in: int = 0
    """All that was sent, from a cache or not."""
    tokens_cached: int = 0
    """Those of them that were read from a cache."""
    tokens_written: int = 0
    """Those of them that were written to a cache."""
    tokens_pictures: int = 0
    """Those of them that pictures took."""
    tokens_out: int = 0
    """All that the model wrote, its reasoning included."""
    tokens_reasoning: int = 0
    """Those of them that it reasoned with."""


def read_usage(told: Any) -> Usage:
    """The `usage` of a reply. Never raises: what is no number of tokens counts as not told."""
    usage = as_object(told)
    parts = as_object(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    reasons = as_object(usage.get("completion_tokens_details") or usage.get("output_tokens_details"))
    sent = _first(usage, "prompt_tokens", "input_tokens")
    said = _first(usage, "completion_tokens", "output_tokens")
    cached = _first(parts, "cached_tokens") or _first(
        usage, "cache_read_input_tokens", "prompt_cache_hit_tokens", "cached_tokens"
    )
    written = _first(parts, "cache_write_tokens", "cache_creation_tokens") or _first(
        usage, "cache_creation_input_tokens"
    )
    reasoned = _first(reasons, "reasoning_tokens", "thinking_tokens")
    beside = max(0, _first(usage, "total_tokens") - sent - said)
    if beside == cached + written or ("cache_read_input_tokens" in usage and "prompt_tokens" not in usage):
        sent, beside = token_count(sent + cached + written), 0
    return _within(
        Usage(
            tokens_in=sent,
            tokens_cached=cached,
            tokens_written=written,
            tokens_pictures=_first(parts, "image_tokens"),
            tokens_out=token_count(said + beside),
            tokens_reasoning=max(reasoned, beside),
        )
    )


def billed_tier(completion: Mapping[str, Any]) -> str:
    """The tier that a reply says it was served in, in small letters: `standard`, `flex`, …; empty: it says none."""
    told = completion.get("service_tier") or as_object(completion.get("usage")).get("service_tier")
    name = told.strip().lower()[:20] if isinstance(told, str) else ""
    if name in _NOT_SAID or not name.isascii() or not name.replace("_", "").isalnum():
        return ""
    return STANDARD if name in _STANDARD_TOO else name


def _within(usage: Usage) -> Usage:
    cached = min(usage.tokens_cached, usage.tokens_in)
    return usage._replace(
        tokens_cached=cached,
        tokens_written=min(usage.tokens_written, usage.tokens_in - cached),
        tokens_pictures=min(usage.tokens_pictures, usage.tokens_in),
        tokens_reasoning=min(usage.tokens_reasoning, usage.tokens_out),
    )


def _first(told: Mapping[str, Any], *names: str) -> int:
    """The first of these counts that is told and is not 0."""
    return next((count for name in names if (count := token_count(told.get(name)))), 0)


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON object as it is, and an empty one in the place of anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
