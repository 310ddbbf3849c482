"""Judge exams: lines and pass marks, drawn items, reading replies, and the card."""

import asyncio
import json
from dataclasses import replace
from math import prod
from random import Random

import pytest
from factories import any_sample

from tasks.endpoint.client import Vlm
from tasks.judging.questions import Layout
from tasks.ledger.passports import PassportReply
from tasks.passport import items, lines
from tasks.passport.items import Answer, Item, card_lines, items_of, marks, smallest_words, state_of
from tasks.passport.lines import GOOD, LINE, LINES, at_least, card_grid, needed
from tasks.protocols.checklist.protocol import PROTOCOL
from tasks.records import Check
from tasks.records.judge import Judge
from tasks.records.parameters import FLOWS
from tasks.rubrics.rubric import load_rubric

TESTED = [line for line in LINES if line.items]


def row(item: Item, answer: Answer | None, **changes: object) -> PassportReply:
    fields = {
        "key": f"{item.line}{item.number}",
        "line": item.line,
        "item": item.number,
        "expected": item.answer,
        "raw": "{}",
    }
    reply = {"error": "", "pictures": (), "rung": "json_schema", "judge_answered": "m"}
    more = {"not_sent": (), "asked_at": "2026-11-22T09:00:00+00:00"}
    result = {"status": "ok", "answer": answer, "right": answer is not None and item.is_right(answer)}
    return PassportReply.model_validate({**fields, **reply, **more, **result, **changes})


def replies(items: list[Item], errs: float = 0.0, random: Random | None = None) -> list[PassportReply]:
    draws = random or Random(0)
    return [row(item, None if draws.random() < errs else item.answer) for item in items]


# Lines


@pytest.mark.parametrize("line", TESTED, ids=lambda line: line.name)
def test_line_has_six_items_or_more_and_guessing_rarely_passes(line: lines.Line) -> None:
    assert line.items >= 6 and line.pass_mark < line.items
    assert at_least(line.pass_mark, line.items, line.chance) < 0.05
    assert at_least(line.pass_mark, line.items, GOOD) >= 0.995


def test_good_judge_passes_all_lines_in_95_of_100_exams() -> None:
    assert prod(at_least(line.pass_mark, line.items, GOOD) for line in TESTED) > 0.97
    made = [card_lines(items, replies(items, 1 - GOOD, Random(n))) for n in range(100) for items in [items_of(n)]]
    clean = [all(line.state != "failed" for line in card if line.items) for card in made]
    assert sum(clean) >= 0.95 * len(clean)


def test_each_flow_needs_the_lines_that_match_its_task() -> None:
    names = {flow: {line.name for line in needed(flow)} for flow in FLOWS}
    assert {"text", "two_pictures", "which_is_first", "faint"} <= names["diagram"] & names["plot"]
    assert "counting" in names["counting"] and "colors" in names["colors"] and "positions" in names["position"]
    assert {"yes_no", "counting", "colors", "positions"} <= names["facts"]
    assert all({"blank", "reply_format"} <= found for found in names.values())


# Items


def test_seed_determines_the_drawn_pictures() -> None:
    first, again, other = items_of(3), items_of(3), items_of(4)
    text = next(item for item in first if item.line == lines.TEXT)
    assert [item.answer for item in first] == [item.answer for item in again] != [item.answer for item in other]
    assert [draw() for draw in text.draws] == [draw() for draw in again[first.index(text)].draws]


@pytest.mark.parametrize("seed", range(20))
def test_line_has_its_number_of_items_and_fails_constant_answers(seed: int) -> None:
    items = items_of(seed)
    for line in TESTED:
        own = [item for item in items if item.line == line.name and item.counts]
        assert len(own) == line.items
        assert max(sum(item.is_right(other.answer) for item in own) for other in own) < line.pass_mark


def test_colors_are_equally_bright() -> None:
    grays = [sum(part * share for part, share in zip(bytes.fromhex(color[1:]), (0.299, 0.587, 0.114), strict=True))
             for color in lines.COLORS.values()]  # fmt: skip
    assert max(grays) - min(grays) < 1


def test_answers_ignore_case_and_the_order_of_two_pictures() -> None:
    two = next(item for item in items_of(1) if item.line == lines.TWO)
    word = next(item for item in items_of(1) if item.line == lines.TEXT)
    assert isinstance(two.answer, tuple) and isinstance(word.answer, str)
    assert two.is_right(two.answer[::-1]) and not two.is_right((two.answer[0], two.answer[0]))
    assert word.is_right(f" {word.answer.upper()}.") and not word.is_right(word.answer[:-1])
    assert [marks(answer) for answer in lines.WHICH] == [(True, False), (False, True), (True, True), (False, False)]


# Replies


def one(line: str) -> Item:
    return next(item for item in items_of(1) if item.line == line)


@pytest.mark.parametrize(
    ("line", "reply", "answer"),
    [
        (lines.COUNTING, '{"seen": "five", "answer": 5}', 5),
        (lines.COUNTING, '```json\n{"seen": "", "answer": "5"}\n```', 5),
        (lines.COUNTING, '{"answer": true}', None),
        (lines.COUNTING, '{"answer": -1}', None),
        (lines.COUNTING, "There are 5.", None),
        (lines.COLOR, '<think>red?</think>{"seen": "", "answer": "Blue."}', "blue"),
        (lines.COLOR, '{"answer": "teal"}', None),
        (lines.COLOR, '{"answer": "red"} or {"answer": "blue"}', None),
        (lines.TWO, '{"answer": ["Star", "box"]}', ("star", "box")),
        (lines.TWO, '{"answer": ["star", "cube"]}', None),
        (lines.TWO, '{"answer": "star"}', None),
        (lines.TWO, '{"answer": []}', None),
        (lines.TEXT, '{"answer": " Zefofo "}', "Zefofo"),
        (lines.TEXT, '{"answer": ["Zefofo"]}', None),
    ],
)
def test_answer_is_read_from_its_wrapping_and_never_guessed(line: str, reply: str, answer: Answer | None) -> None:
    read, problem = items.read_reply(reply, one(line))
    assert read == answer and bool(problem) == (answer is None)


def test_exam_question_has_the_layout_of_flow_questions() -> None:
    item = one(lines.FIRST)
    pictures = items.prepared(item)
    asked = items.question_of(item, pictures)
    texts = [part for part in asked.content if isinstance(part, str)]
    assert asked.name == "passport_which_is_first" and asked.pictures == 2
    assert texts[1:3] == ["First picture:", "Second picture:"] and "JSON" in texts[-1]
    assert all(json.dumps(word) in texts[-1] for word in lines.WHICH)
    assert str(item.answer) not in texts[0]
    assert [picture.note.changes for picture in pictures] == [(), ()]


def test_missing_replies_leave_a_line_not_measured_if_they_matter() -> None:
    counting = LINE[lines.COUNTING]
    items = [item for item in items_of(1) if item.line == lines.COUNTING]
    rows = replies(items)
    away = [row(item, None, status="unavailable") for item in items]
    assert state_of(counting, [*rows[:6], *away[6:]]) == "passed"
    assert state_of(counting, [*rows[:5], *away[5:]]) == "not measured"
    wrong = [row(item, None, status="refused") for item in items]
    assert state_of(counting, [*rows[:4], *away[4:5], *wrong[5:]]) == "failed"


async def ask_embedded_judge(asked: list[Item]) -> list[str]:
    """Return the embedded judge's answers to yes/no items, asked like checks of a run."""
    prompt, answers = load_rubric("facts").prompt("single"), list[str]()
    async with Vlm(Judge()) as vlm:
        for item in asked:
            sample = replace(any_sample(), tag="single", checks=(Check("c", item.question, ("yes",)),))
            shown = {"image": items.prepared(item)[0]}
            reply = await vlm.ask(Layout().request(prompt, sample, PROTOCOL.texts_of(sample), shown, "single"))
            answers.append(json.loads(reply.text)["answer"])
    return answers


def test_constant_yes_or_no_fails_and_the_embedded_judge_passes() -> None:
    asked = [item for item in items_of(1) if item.line == lines.YES_NO]
    assert [item.answer for item in asked].count("yes") * 2 == len(asked)
    given = {"looks": asyncio.run(ask_embedded_judge(asked)), "yes": ["yes"] * len(asked), "no": ["no"] * len(asked)}
    made = {name: card_lines(asked, [*map(row, asked, answers)]) for name, answers in given.items()}
    cards = {name: next(line for line in card if line.line == lines.YES_NO) for name, card in made.items()}
    assert {name: card.state for name, card in cards.items()} == {"looks": "passed", "yes": "failed", "no": "failed"}
    assert cards["no"].found == "answered no 20 of 20 times"


def test_card_reports_the_smallest_letters_read() -> None:
    items = [item for item in items_of(1) if item.line == lines.TEXT]
    rows = [row(item, item.answer if item.letters > 12 else "?") for item in items]
    assert smallest_words(items, rows) == "smallest letters read: 16 pixels"
    assert smallest_words(items, replies(items)) == "smallest letters read: 9 pixels"
    assert smallest_words(items, [row(item, "?") for item in items]) == "no letters were read"


def test_judge_with_only_invalid_replies_fails_every_line() -> None:
    items = items_of(1)
    card = card_lines(items, [row(item, None, status="invalid") for item in items])
    assert {line.state for line in card} == {"failed"}


def test_card_table_fits_80_columns() -> None:
    from tasks.ledger.passports import Card

    items = items_of(1)
    about = {"passport_id": "p", "judge": "m", "endpoint": "e", "judge_answered": "m", "edition": "1", "seed": 1}
    times = {"finished_at": "2026-11-22T09:00:00+00:00", "calls": 84, "seconds": 5.0}
    card = Card.model_validate({**about, **times, "lines": card_lines(items, [])})
    grid = card_grid(card)
    widths = [max(map(len, column)) for column in zip(*grid.lines, strict=True)]
    assert sum(widths) + 2 * len(widths) <= 80
    assert {line.state for line in card.lines if line.items} == {"not measured"}
