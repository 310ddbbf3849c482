"""Tokens as endpoints tell them: which counts hold others differs, what is billed does not."""

from typing import Any

import pytest

from tasks.endpoint.usage import Usage, billed_tier, read_usage

OPENAI = {
    "prompt_tokens": 10_000,
    "completion_tokens": 500,
    "total_tokens": 10_500,
    "prompt_tokens_details": {"cached_tokens": 9_000, "cache_write_tokens": 300, "image_tokens": 3_000},
    "completion_tokens_details": {"reasoning_tokens": 400},
}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param(OPENAI, Usage(10_000, 9_000, 300, 3_000, 500, 400), id="OpenAI, OpenRouter: parts are included"),
        pytest.param(
            {"prompt_tokens": 21, "completion_tokens": 198, "total_tokens": 624},
            Usage(tokens_in=21, tokens_out=603, tokens_reasoning=405),
            id="Gemini: thoughts are in the total alone",
        ),
        pytest.param(
            {
                "prompt_tokens": 30,
                "completion_tokens": 9,
                "total_tokens": 139,
                "prompt_tokens_details": {"cached_tokens": 20},
                "completion_tokens_details": {"reasoning_tokens": 100},
            },
            Usage(30, 20, 0, 0, 109, 100),
            id="xAI: reasoning beside the completion",
        ),
        pytest.param(
            {
                "input_tokens": 50,
                "cache_read_input_tokens": 9_000,
                "cache_creation_input_tokens": 950,
                "output_tokens": 500,
            },
            Usage(10_000, 9_000, 950, 0, 500),
            id="Anthropic: cached and written beside the input",
        ),
        pytest.param(
            {
                "prompt_tokens": 10_000,
                "completion_tokens": 500,
                "total_tokens": 10_500,
                "cache_read_input_tokens": 9_000,
                "cache_creation_input_tokens": 950,
                "prompt_tokens_details": {"cached_tokens": 9_000, "cache_creation_tokens": 950},
            },
            Usage(10_000, 9_000, 950, 0, 500),
            id="LiteLLM before Anthropic: included, and told twice",
        ),
        pytest.param(
            {
                "prompt_tokens": 50,
                "completion_tokens": 500,
                "total_tokens": 10_500,
                "prompt_tokens_details": {"cached_tokens": 9_000, "cache_creation_tokens": 950},
            },
            Usage(10_000, 9_000, 950, 0, 500),
            id="a router that counts as Anthropic, as its total shows",
        ),
        pytest.param(
            {
                "prompt_tokens": 1_000,
                "completion_tokens": 80,
                "prompt_cache_hit_tokens": 640,
                "prompt_cache_miss_tokens": 360,
            },
            Usage(1_000, 640, 0, 0, 80),
            id="DeepSeek: hits are included",
        ),
        pytest.param(
            {"prompt_tokens": 1_200, "completion_tokens": 80, "total_tokens": 1_280, "prompt_tokens_details": None},
            Usage(tokens_in=1_200, tokens_out=80),
            id="vLLM: no details",
        ),
        pytest.param(
            {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 900}},
            Usage(100, 100, 0, 0, 5),
            id="no part is more than the whole",
        ),
        pytest.param(
            {
                "prompt_tokens": 100,
                "prompt_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 80, "image_tokens": 1_000},
                "completion_tokens": 7,
                "completion_tokens_details": {"reasoning_tokens": 70},
            },
            Usage(100, 80, 20, 100, 7, 7),
            id="nor are the parts together",
        ),
        pytest.param(
            {"prompt_tokens": 2**31 - 1, "completion_tokens": 1, "total_tokens": 10**30},
            Usage(tokens_in=2**31 - 1, tokens_out=1),
            id="a total that cannot be",
        ),
        pytest.param("many", Usage(), id="no object"),
    ],
)
def test_every_kind_of_token_is_told_in_one_way(told: Any, expected: Usage) -> None:
    assert read_usage(told) == expected


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
