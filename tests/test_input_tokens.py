"""Warnings when the input tokens that replies report suggest truncated questions."""

import pytest

from tasks.endpoint.replies import InputTokens, Reply, Usage
from tasks.endpoint.requests import Image, Request


def warnings_after(*questions: tuple[int, int], base_url: str = "https://judge.example/v1") -> list[str]:
    """Return the warnings after questions of the given lengths in characters and reported input tokens."""
    seen = InputTokens()
    for length, tokens in questions:
        content = ("x" * (length - 10), Image("image/png", b"a picture of any size" * 100))
        seen.note(Request("y" * 10, content, "diagram_faithfulness", {}), Reply("ok", usage=Usage(tokens)))
    return seen.warnings(base_url)


@pytest.mark.parametrize(
    "questions",
    [
        [],
        [(8000, 1000)],
        [(100_000, 0)],
        [(4000, 2050)] * 20,
        [(4000, 1200), (5000, 1200), (6000, 1200)],
        [(50, 1024), (60, 1024)],
        [(4000 + more, 2048 + more) for more in range(3)] * 20,
        [*((4000 + 500 * more, 2048) for more in range(3)), *[(8000, 2500)] * 60],
    ],
    ids=["none", "eight a token", "not reported", "one length", "no limit", "two", "nearly one length", "rare"],
)
def test_plausible_token_counts_give_no_warning(questions: list[tuple[int, int]]) -> None:
    assert warnings_after(*questions) == []


@pytest.mark.parametrize("limit", [2048, 2050, 4097, 32_770, 40_960])
def test_equal_token_counts_near_a_context_limit_give_a_warning(limit: int) -> None:
    [words] = warnings_after(*((4 * limit + more, limit) for more in (0, 500, limit)))
    assert f"questions of different lengths all report {limit:,} input tokens" in words


def test_warning_gives_advice_for_the_endpoint() -> None:
    [words] = warnings_after((8000, 2050), (9000, 2050), (9999, 2050), base_url="http://gpu-box:11434/v1")
    assert words.endswith("Start Ollama with OLLAMA_CONTEXT_LENGTH=32768 in its environment.")
