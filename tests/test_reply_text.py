"""Parsing of replies: it takes linear work and never raises."""

import gc
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.endpoint.replies import objects, unwrapped
from tasks.protocols.figures import reply as verdict_reply
from tasks.protocols.images import reply as score_reply
from tasks.protocols.protocol import Reading
from tasks.rubrics.rubric import load_rubric

FIGURES = [prompt for flow in ("diagram", "plot") for prompt in load_rubric(flow).prompts]
IMAGES = [load_rubric("colors").prompt("colors"), load_rubric("position", "checked").prompt("position")]
GOOD = '{"comparison_reasoning": "a", "winner": "Model"}'
SCORES = json.dumps({key: {"explanation": "e", "score": 7} for key in (*IMAGES[0].aspects, "overall_score")})
SEEN = {"objects": [{"object": "dog", "present": True, "color": "", "count": 1}], "relation_holds": None}
CHECKED = json.dumps({**{key: {"score": 7} for key in (*IMAGES[1].aspects, "overall_score")}, "seen": SEEN})

PIECES = [
    GOOD, SCORES, "{", "}", "[", "]", '"', "'", ":", ",", "\\", "\\u", "\\ud835", "\\udd38", "\ud835", "```",
    "```json\n", "\n", " ", "\x00", "<think>", "</think>", "<thinking>", "</thinking>", '"winner"', "winner: 'Human'",
    "Winner", '{"winner": "Human"', '"comparison_reasoning": "', '"score": 8', '"overall_score"', '{"explanation":',
    '"8/10"', "1e999", "NaN", "-", "9" * 30, "9" * 5000, "null", "true",
    '{"seen": {"objects": [{"object": "a", "present": true, "count": ',
]  # fmt: skip
replies = st.lists(st.sampled_from(PIECES) | st.text(st.characters(), max_size=5), max_size=14).map("".join)
GROWING: dict[str, Callable[[int], str]] = {
    "line breaks in a fence": lambda n: "```\n" + "\n" * n,
    "fences": lambda n: "```\n" * n,
    "beginnings of thinking": lambda n: "<think>" * n,
    "thinking in objects": lambda n: '{"a": "<think>"}' * n + "<think>",
    "winners without a value": lambda n: "winner" * n,
    "winners and spaces": lambda n: "winner" + " " * n + "winner:" + " " * n,
    "reasoning without an end": lambda n: '"comparison_reasoning": "' * n,
    "commas and spaces": lambda n: '{"a": 1' + ", " * n,
    "braces and spaces": lambda n: "{ " * n + '"',
    "objects": lambda n: "{}" * n,
    "objects broken at their end": lambda n: '{"a": [' + "1, " * n + "x",
    "objects in broken objects": lambda n: '{"a": ' * 40 + '"' + "b" * n,
    "lists too deep": lambda n: '{"a": ' + "[" * n,
    "values of one key": lambda n: "{" + ", ".join(f'"a": {i}' for i in range(n)) + "}",
    "scores in words": lambda n: SCORES + "score is " * n,
    "marks around a verdict": lambda n: GOOD + "winner" + "* " * n,
    "pairs": lambda n: "{" + ", ".join(f'"a{i}": {i}' for i in range(n)) + "}",
    "halves of surrogate pairs": lambda n: '{"a": "' + "\\ud835" * n + '"}',
    "backslashes": lambda n: '{"a": "\\ud835' + "\\\\" * n + '"}',
    "digits in quotes": lambda n: '{"overall_score": "' + "9" * n + " " * n + '"}',
    "spaces in keys": lambda n: '{"' + " -" * n + 'a": 1}',
}


def read_all(text: str) -> list[Reading]:
    verdicts = [verdict_reply.read(text, prompt) for prompt in FIGURES]  # pyright: ignore
    return verdicts + [score_reply.read(text, prompt) for prompt in IMAGES]  # pyright: ignore


@given(replies)
@example(GOOD.replace('"a"', '"\ud835"'))
@example(GOOD.replace('"a"', '["\\ud835"]'))
@example(SCORES.replace('"e"', '"\\ud835"'))
@example(SCORES.replace('"e"', "[" * 900 + "]" * 900))
@example(SCORES.replace("7", "9" * 5000))
@example(CHECKED.replace("1}", "9" * 30 + "}"))
@example(CHECKED.replace("dog", "\\udd38"))
def test_any_reply_gives_allowed_values_or_an_error(text: str) -> None:
    for prompt, reading in zip([*FIGURES, *IMAGES], read_all(text), strict=True):
        found = reading.verdict is not None or bool(reading.scores)
        assert found != bool(reading.error)
        assert reading.verdict in (None, *getattr(prompt, "verdicts", ()))
        assert all(each.score is None or 0 <= each.score <= 10 for each in reading.scores)
        assert all(each.score is not None for each in reading.scores if each.aspect == "overall_score")
        "".join((reading.reasoning, reading.error, reading.recovery)).encode()
        assert all(each.model_dump_json() for each in (*reading.scores, reading.seen) if each)
        assert all(each.count < 2**31 for each in (reading.seen.objects if reading.seen else ()))


@given(replies, st.sampled_from(FIGURES[0].verdicts), replies)
def test_verdict_is_found_amid_other_text(before: str, winner: str, after: str) -> None:
    """The surrounding text is the only possible source of another verdict than the inserted one."""
    text = f'{before}{{"comparison_reasoning": "r", "winner": "{winner}"}}{after}'
    verdict = verdict_reply.read(text, FIGURES[0]).verdict  # pyright: ignore
    assert verdict in (None, winner) or verdict.casefold() in (before + after).casefold()


@given(st.text(st.characters()), st.sampled_from(["think", "thinking"]))
def test_thinking_before_an_answer_is_dropped(thought: str, mark: str) -> None:
    for text in (f"<{mark}>{thought}</{mark}>{GOOD}", f"{thought}</{mark}>\n{GOOD}"):
        if "think" not in thought and not objects(unwrapped(thought)[0]).pairs:
            assert unwrapped(text) == (GOOD, ["thinking dropped"])


class Work:
    """A count of the work of reading a text: function calls, and characters that the JSON decoder reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = self.characters = 0
        decode = json.JSONDecoder.raw_decode

        def count_characters(decoder: json.JSONDecoder, text: str, start: int = 0) -> tuple[Any, int]:
            try:
                value, end = decode(decoder, text, start)
            except json.JSONDecodeError as broken:
                self.characters += broken.pos - start
                raise
            self.characters += end - start
            return value, end

        monkeypatch.setattr(json.JSONDecoder, "raw_decode", count_characters)

    def measure(self, text: str) -> tuple[int, int]:
        self.calls = self.characters = 0
        gc.disable()
        sys.setprofile(self._count)
        try:
            read_all(text)
        finally:
            sys.setprofile(None)
            gc.enable()
        return self.calls, self.characters

    def _count(self, _frame: object, event: str, _argument: object) -> None:
        self.calls += event in ("call", "c_call")


@pytest.mark.parametrize("name", GROWING)
def test_reading_work_grows_linearly_with_the_reply(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work, text = Work(monkeypatch), GROWING[name]
    read_all(text(10))  # fill caches first
    calls, _ = work.measure(text(200))
    more_calls, characters = work.measure(text(800))
    assert more_calls <= 4 * calls + 100
    # Each reader decodes a text once, and once more to repair commas or to look for thinking.
    assert characters <= 3 * len(FIGURES + IMAGES) * len(text(800))
