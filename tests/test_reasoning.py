"""A judge's reasoning: its division into parts, and the amount that a report keeps."""

import time

import pytest

from tasks.history.queries import Table
from tasks.pages.cards import Card, Context, Question, Reason, cards, reasons_by_question, text_limit
from tasks.presentation.wording import reasoning_parts
from tasks.protocols import display_of


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Faithfulness of Human: a; Faithfulness of Model: b; Conclusion: c.", ["a", "b", "c."]),
        ("**Readability of Human:** a\n **Readability of Model:** b\n **Conclusion:** c", ["a", "b", "c"]),
        ("Beauty of Human: a; Beauty of the Model: b; Conclusion: c; Conclusion: d", ["a", "b", "c; Conclusion: d"]),
        ("Age of Human: a;\nAge of Model: b (c);\nConclusion: Age of Human: d", ["a", "b (c)", "Age of Human: d"]),
        ("Both look fine to me.", None),
        ("First: Faithfulness of Human: a; Faithfulness of Model: b; Conclusion: c", None),
        ("Faithfulness of Model: b; Faithfulness of Human: a; Conclusion: c", None),
        ("", None),
    ],
)  # fmt: skip
def test_structured_reasoning_is_split_and_other_text_stays_whole(text: str, parts: list[str] | None) -> None:
    found = reasoning_parts(text)
    assert found == (list(zip(["Human", "Model", "Conclusion"], parts, strict=True)) if parts else [("", text)])


@pytest.mark.parametrize("text", [" " * 50_000, "a" * 50_000, "* " * 25_000, "Model of " * 6_000, "of Human:" * 6_000])
def test_splitting_hostile_text_takes_linear_time(text: str) -> None:
    began = time.process_time()
    assert reasoning_parts(text) == [("", text)]
    assert time.process_time() - began < 5


def test_long_reasoning_is_cut_to_a_shared_budget() -> None:
    row = {"candidate": "a", "sample_id": "s", "order": "human_first", "verdict": "Model", "status": "ok", "error": ""}
    row |= dict.fromkeys(["seen", "score"])
    long = f"Ink of Human: {'é' * 50_000}; Ink of Model: fine; Conclusion: Model."
    words = [row | {"dimension": f"d{n}", "vote": 1, "reasoning": long} for n in range(100)]
    sample = {
        "candidate": "a", "sample_id": "s", "category": "", "difficulty": "", "tag": "", "prompt": "", "caption": "",
        "status": "complete", "overall": "Tie", "score": 50.0, "tier": "", "tier_path": "", "aspects": None,
        "human": None, "model": None, "image": None, "pivotal": None,
        "satisfied": None, "mean": 50.0, "injected": "", "caught": None, "problem": "",
        "notes": [],
        "dimensions": [
            {"dimension": f"d{n}", "verdict": "Model", "score": 100.0, "order_flip": None, "reversal": None}
            for n in range(100)
        ],
    }  # fmt: skip
    table = Table(tuple(sample), [tuple(sample.values())])
    limit = text_limit(words, table, 1_000_000)
    context = Context(reasons_by_question(words, limit), 0.0, display_of("diagram"), limit)
    [card] = cards(table, context)
    assert sum(len(text.encode()) for each in card.questions for _, text in each.reasons[0].parts) < 1_010_000
    for each in card.questions:
        human, model, conclusion = (text for _, text in each.reasons[0].parts)
        assert human.endswith("… (cut)")
        assert (model, conclusion) == ("fine", "Model.")
    terse = [row | {"dimension": "d", "vote": 1, "reasoning": "Ink of Human: a; Ink of Model: b; Conclusion: c."}]
    [[reason]] = reasons_by_question(terse, text_limit(terse, table, 1_000_000)).values()
    assert len(reason.parts) == 3, "nothing is left out where all fits"


def test_reason_beside_an_outcome_is_of_a_reply_with_its_verdict() -> None:
    given = ("refused", "Human", "Model", "Model")
    reasons = tuple(Reason(call="", verdict=verdict, parts=(("", f"says {verdict}"),)) for verdict in given)
    asked = Question(name="readability", verdict="Model", reasons=reasons)
    card = Card.model_construct(questions=(asked,), overall="Model wins")
    assert card.conclusion() == "readability: says Model" and asked.contested
    assert not asked.model_copy(update={"reasons": reasons[::2]}).contested, "a refused reply is no other verdict"
