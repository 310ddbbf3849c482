"""Token usage as reported by endpoints: which counts include others differs, the billed result must not."""

from typing import Any

import pytest

from tasks.endpoint.replies import Usage, billed_tier, read_usage

OPENAI = {
    "prompt_tokens": 10_000,
    "completion_tokens": 500,
    "total_tokens": 10_500,
    "prompt_tokens_details": {"cached_tokens": 9_000, "cache_write_tokens": 300, "image_tokens": 3_000},
    "completion_tokens_details": {"reasoning_tokens": 400},
}


def counts(sent: int, out: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": sent, "completion_tokens": out, **more}


def parts(**tokens: int) -> dict[str, Any]:
    return {"prompt_tokens_details": tokens}


def reasoned(tokens: int) -> dict[str, Any]:
    return {"completion_tokens_details": {"reasoning_tokens": tokens}}


ANTHROPIC = {"cache_read_input_tokens": 9_000, "cache_creation_input_tokens": 950}
BOTH = parts(cached_tokens=9_000, cache_creation_tokens=950)


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (OPENAI, Usage(10_000, 9_000, 300, 3_000, 500, 400)),  # OpenAI, OpenRouter: parts are included
        (counts(21, 198, total_tokens=624), Usage(tokens_in=21, tokens_out=603, tokens_reasoning=405)),  # Gemini
        # xAI: reasoning beside the completion
        (counts(30, 9, total_tokens=139, **parts(cached_tokens=20), **reasoned(100)), Usage(30, 20, 0, 0, 109, 100)),
        # Anthropic: cached and written beside the input
        ({"input_tokens": 50, "output_tokens": 500, **ANTHROPIC}, Usage(10_000, 9_000, 950, 0, 500)),
        # LiteLLM before Anthropic: included, and reported twice
        (counts(10_000, 500, total_tokens=10_500, **ANTHROPIC, **BOTH), Usage(10_000, 9_000, 950, 0, 500)),
        # a router that counts like Anthropic, as its total shows
        (counts(50, 500, total_tokens=10_500, **BOTH), Usage(10_000, 9_000, 950, 0, 500)),
        # DeepSeek: hits are included; vLLM
        (counts(1_000, 80, prompt_cache_hit_tokens=640, prompt_cache_miss_tokens=360), Usage(1_000, 640, 0, 0, 80)),
        (counts(1_200, 80, total_tokens=1_280, prompt_tokens_details=None), Usage(tokens_in=1_200, tokens_out=80)),
        # no part exceeds the whole, nor do the parts together; an impossible total
        (counts(100, 5, **parts(cached_tokens=900)), Usage(100, 100, 0, 0, 5)),
        (
            counts(100, 7, **parts(cached_tokens=80, cache_write_tokens=80, image_tokens=1_000), **reasoned(70)),
            Usage(100, 80, 20, 100, 7, 7),
        ),
        (counts(2**31 - 1, 1, total_tokens=10**30), Usage(tokens_in=2**31 - 1, tokens_out=1)),
        ("many", Usage()),
    ],
)
def test_usage_of_all_endpoints_is_read_alike(reported: Any, expected: Usage) -> None:
    assert read_usage(reported) == expected


@pytest.mark.parametrize(
    ("completion", "tier"),
    [
        ({"service_tier": "default"}, "standard"),
        ({"service_tier": "on_demand"}, "standard"),
        ({"service_tier": "flex"}, "flex"),
        ({"usage": {"service_tier": "batch"}}, "batch"),
        ({"service_tier": "auto"}, ""),
        ({"service_tier": None}, ""),
        ({"service_tier": {"a": 1}}, ""),
        ({"service_tier": "\ud835<b>"}, ""),
        ({}, ""),
    ],
)
def test_billed_service_tier_is_read_from_the_reply(completion: dict[str, Any], tier: str) -> None:
    assert billed_tier(completion) == tier
