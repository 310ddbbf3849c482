"""Token counts of a reply, under any names, converted to one meaning.

Anthropic counts cached tokens beside its `input_tokens`; Gemini and xAI count reasoning in the total only.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from tasks.records import token_count

STANDARD = "standard"
"""Tier of calls without a request for another."""
_STANDARD_TOO = {"default", "on_demand"}
"""OpenAI's and Groq's names of it."""
_NOT_SAID = {"", "auto"}


class Usage(NamedTuple):
    """Token counts of one call; 0 if missing or impossible. No part is more than its whole."""

    tokens_in: int = 0
    """All input tokens, cached or not."""
    tokens_cached: int = 0
    """Input tokens read from a cache."""
    tokens_written: int = 0
    """Input tokens written to a cache."""
    tokens_pictures: int = 0
    """Input tokens of pictures."""
    tokens_out: int = 0
    """All output tokens, including reasoning."""
    tokens_reasoning: int = 0
    """Output tokens of reasoning."""


def read_usage(told: Any) -> Usage:
    """Return the counts in the `usage` of a reply. Never raises: an invalid count is treated as missing."""
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
    """Return the tier in which a reply was served, in lower case: `standard`, `flex`, …; empty if it names none."""
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
    """Return the first of these counts that is present and not 0, else 0."""
    return next((count for name in names if (count := token_count(told.get(name)))), 0)


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON object unchanged, and an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
