"""Remaining requests and tokens, read from an endpoint's rate-limit headers."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tasks.endpoint.refusals import OF_REQUESTS, OF_TOKENS, Room, room


def openai_headers(of: str, limit: object, left: object, reset: str) -> dict[str, str]:
    values = {"limit": str(limit), "remaining": str(left), "reset": reset}
    return {f"x-ratelimit-{name}-{of}": value for name, value in values.items()}


def anthropic_headers(of: str, limit: int, left: int, seconds: float) -> dict[str, str]:
    moment = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    values = {"limit": str(limit), "remaining": str(left), "reset": moment}
    return {f"anthropic-ratelimit-{of}-{name}": value for name, value in values.items()}


@pytest.mark.parametrize(
    ("headers", "tokens_per_call", "found"),
    [
        (openai_headers("requests", 60, 40, "10s"), 0.0, Room(40, 4)),
        (openai_headers("requests", 60, 0, "60s"), 0.0, Room(0, 1)),
        (openai_headers("requests", 500, 499, "120ms"), 0.0, Room(499, 499 / 0.12)),
        (openai_headers("requests", 10_000, 0, "6m0s"), 0.0, Room(0, 10_000 / 360)),
        (openai_headers("tokens", 150_000, 30_000, "1m0s"), 1_500.0, Room(20, 120_000 / 60 / 1_500)),
        (openai_headers("requests", 60, 60, "0s"), 0.0, Room(60, math.inf)),
        (openai_headers("requests", 60, 60, ""), 0.0, Room(60, math.inf)),
    ],
)
def test_openai_headers_give_time_to_reset(headers: Mapping[str, str], tokens_per_call: float, found: Room) -> None:
    left = room(headers, tokens_per_call)
    assert left and (left.left, left.per_second) == pytest.approx((found.left, found.per_second))


@pytest.mark.parametrize("of", ["requests", "tokens"])
def test_anthropic_headers_give_reset_moment(of: str) -> None:
    per_call = 1.0 if of == "requests" else 1_000.0
    left = room(anthropic_headers(of, 50_000, 10_000, 20), per_call)
    assert left and left.left == 10_000 / per_call
    assert left.per_second == pytest.approx(40_000 / 20 / per_call, rel=0.1)


def test_past_reset_moment_does_not_limit() -> None:
    assert room(anthropic_headers("requests", 50, 0, -5), 0.0) == Room(0, math.inf)


def test_tightest_limit_applies() -> None:
    requests, tokens = openai_headers("requests", 60, 30, "30s"), openai_headers("tokens", 60_000, 8_000, "30s")
    assert room({**requests, **tokens}, 1_000.0) == room(tokens, 1_000.0)
    assert room({**requests, **tokens}, 100.0) == room(requests, 100.0)


def test_token_limit_is_ignored_until_tokens_per_call_are_known() -> None:
    assert room(openai_headers("tokens", 60_000, 0, "30s"), 0.0) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"retry-after": "1"},
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s"},
        openai_headers("requests", 60, "", "1s"),
        openai_headers("requests", 60, "-1", "1s"),
        openai_headers("requests", 60, "1e9", "1s"),
        openai_headers("requests", "60;w=60", 1, "1s"),
        openai_headers("requests", "unlimited", "unlimited", "1s"),
        openai_headers("requests", "²", "²", "1s"),
        openai_headers("requests", "1" * 16, 0, "1s"),
        openai_headers("requests", 0, 0, "1s"),
        openai_headers("tokens", 999, 500, "1s"),
    ],
)
def test_invalid_limit_headers_are_ignored(headers: Mapping[str, str]) -> None:
    assert room(headers, 1_000.0) is None


ODD = some.text(max_size=20) | some.integers(0, 10**16).map(str) | some.sampled_from(["0", "1s", "1ms", "9999999999"])
NAMES = [name for limit in OF_REQUESTS + OF_TOKENS for name in (limit.limit, limit.remaining, limit.reset)]


@given(some.dictionaries(some.sampled_from(NAMES), ODD), some.floats(0, 1e9))
def test_any_headers_give_finite_nonnegative_limits(headers: dict[str, str], tokens_per_call: float) -> None:
    left = room(headers, tokens_per_call)
    assert left is None or (0 <= left.left < math.inf and left.per_second > 0)
