"""Replies to pairwise questions: the schema, and the verdicts that can be read."""

import pytest

from tasks.protocols.figures.reply import format_words, read, schema
from tasks.rubrics.rubric import load_rubric

ALL, RESTRICTED = load_rubric("diagram").prompt("faithfulness"), load_rubric("plot").prompt("faithfulness")
GOOD = '{"comparison_reasoning": "Human: fine; Model: better", "winner": "Model"}'


@pytest.mark.parametrize(
    ("text", "verdict", "recovery"),
    [
        (GOOD, "Model", "strict"),
        (f"```json\n{GOOD}\n```", "Model", "fence removed"),
        (f"Here is my answer:\n{GOOD}\nI hope it helps.", "Model", "taken out of prose"),
        (f"{GOOD}\n{GOOD}", "Model", "taken out of prose"),
        (f"{GOOD}\n\nThe winner is Model.", "Model", "taken out of prose"),
        (f"{GOOD}\n**Model**", "Model", "taken out of prose"),
        (f'{GOOD} {{"note": "the Human figure has its merits"}}', "Model", "taken out of prose"),
        (f"{GOOD} The Human figure was close; the winner is not Human.", "Model", "taken out of prose"),
        (f"Winner: Human? No.\n{GOOD}", "Model", "taken out of prose"),
        (f"```json\n{GOOD}\n```\nWinner: **Model**", "Model", "taken out of prose"),
        ('{"comparison_reasoning": "a", "winner": "Model", "winner": "Model"}', "Model", "strict"),
        (f"<think>maybe {{'winner': 'Human'}}</think>{GOOD}", "Model", "thinking dropped"),
        ('{"comparison_reasoning": "two\nlines", "winner": "Human"}', "Human", "strict"),
        ('{"comparison_reasoning": "says "quoted" words", "winner": "Human"}', "Human", "broken JSON mended"),
        ('{"comparison_reasoning": "a", "winner": "Human",}', "Human", "broken JSON mended"),
        ("{'comparison_reasoning': 'a', 'winner': 'Both are bad'}", "Both are bad", "broken JSON mended"),
        ('{"comparison_reasoning": "a", "winner": "model."}', "Model", "strict"),
        ('{"comparison_reasoning": "a", "winner": "**Both are good**"}', "Both are good", "strict"),
        ('{"result": {"comparison_reasoning": "a", "winner": "Model"}}', "Model", "strict"),
    ],
)
def test_repairable_verdict_is_read_and_the_repair_noted(text: str, verdict: str, recovery: str) -> None:
    reading = read(text, ALL)
    assert (reading.verdict, reading.recovery, reading.error) == (verdict, recovery, "")
    assert reading.reasoning


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no winner"),
        ("The Model figure is clearly better than the Human one.", "no winner"),
        ('{"comparison_reasoning": "a long thought that was cut', "no winner"),
        ('{"comparison_reasoning": "a", "winner": "Model" | "Human" | "Both are good"}', "no winner"),
        ('{"comparison_reasoning": "a", "winner": "Tie"}', "not one of"),
        ('{"comparison_reasoning": "a", "winner": null}', "not one of"),
        ('{"comparison_reasoning": "a", "winner": ["Model"]}', "not one of"),
        ('{"comparison_reasoning": "a", "winner": "Model or Human"}', "not one of"),
        ('{"winner": "Model", "winner": "Human"}', "several winners"),
        ('{"winner": "Model"} no, rather {"winner": "Human"}', "several winners"),
        ('"winner": "Model",\n"winner": "Human",', "several winners"),
        (f"{GOOD} On reflection, the winner is Human.", "several winners in one reply: 'Model', 'Human'"),
        (f"{GOOD}\nWinner: **Both are good**", "'Both are good'"),
        (f"{GOOD} So the Human figure wins.", "several winners"),
        (f'{GOOD} {{"verdict": "Human"}}', "several winners"),
        (f'{GOOD} {{"comparison_reasoning": "b", "winner": "Human"', "several winners"),
        ("{" * 100_000, "no winner"),
        ('{"a":' * 5_000 + '"winner"', "no winner"),
    ],
)
def test_reply_without_exactly_one_allowed_verdict_is_invalid(text: str, words: str) -> None:
    reading = read(text, ALL)
    assert reading.verdict is None and words in reading.error


def test_structured_reasoning_is_kept_as_json() -> None:
    reading = read('{"comparison_reasoning": {"Human": "a"}, "winner": "Model"}', ALL)
    assert reading.reasoning == '{"Human": "a"}'


def test_schema_requests_reasoning_first_and_only_allowed_verdicts() -> None:
    made = schema(RESTRICTED.verdicts)
    assert list(made["properties"]) == made["required"] == ["comparison_reasoning", "winner"]
    assert made["properties"]["winner"]["enum"] == ["Human", "Both are good"]
    words = format_words(RESTRICTED.verdicts)
    assert "JSON" in words and '"Human", "Both are good"' in words
    assert read(GOOD, RESTRICTED).verdict is None
