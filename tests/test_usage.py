"""Tokens as endpoints tell them: which counts hold others differs, what is billed does not."""

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


def told(sent: int, said: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": sent, "completion_tokens": said, **more}


def parts(**tokens: int) -> dict[str, Any]:
    return {"prompt_tokens_details": tokens}


def reasoned(tokens: int) -> dict[str, Any]:
    return {"completion_tokens_details": {"reasoning_tokens": tokens}}


ANTHROPIC = {"cache_read_input_tokens": 9_000, "cache_creation_input_tokens": 950}
BOTH = parts(cached_tokens=9_000, cache_creation_tokens=950)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (OPENAI, Usage(10_000, 9_000, 300, 3_000, 500, 400)),  # OpenAI, OpenRouter: parts are included
        (told(21, 198, total_tokens=624), Usage(tokens_in=21, tokens_out=603, tokens_reasoning=405)),  # Gemini
        # xAI: reasoning beside the completion
        (told(30, 9, total_tokens=139, **parts(cached_tokens=20), **reasoned(100)), Usage(30, 20, 0, 0, 109, 100)),
        # Anthropic: cached and written beside the input
        ({"input_tokens": 50, "output_tokens": 500, **ANTHROPIC}, Usage(10_000, 9_000, 950, 0, 500)),
        # LiteLLM before Anthropic: included, and told twice
        (told(10_000, 500, total_tokens=10_500, **ANTHROPIC, **BOTH), Usage(10_000, 9_000, 950, 0, 500)),
        # a router that counts as Anthropic, as its total shows
        (told(50, 500, total_tokens=10_500, **BOTH), Usage(10_000, 9_000, 950, 0, 500)),
        # DeepSeek: hits are included; vLLM
        (told(1_000, 80, prompt_cache_hit_tokens=640, prompt_cache_miss_tokens=360), Usage(1_000, 640, 0, 0, 80)),
        (told(1_200, 80, total_tokens=1_280, prompt_tokens_details=None), Usage(tokens_in=1_200, tokens_out=80)),
        # no part is more than the whole, nor are the parts together; a total that cannot be
        (told(100, 5, **parts(cached_tokens=900)), Usage(100, 100, 0, 0, 5)),
        (
            told(100, 7, **parts(cached_tokens=80, cache_write_tokens=80, image_tokens=1_000), **reasoned(70)),
            Usage(100, 80, 20, 100, 7, 7),
        ),
        (told(2**31 - 1, 1, total_tokens=10**30), Usage(tokens_in=2**31 - 1, tokens_out=1)),
        ("many", Usage()),
    ],
)
def test_every_kind_of_token_is_told_in_one_way(said: Any, expected: Usage) -> None:
    assert read_usage(said) == expected


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
def test_the_tier_is_the_one_that_the_reply_says(completion: dict[str, Any], tier: str) -> None:
    assert billed_tier(completion) == tier
