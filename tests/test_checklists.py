"""Checklists: reading replies, deciding outcomes, scores, and whole runs."""

import json
from dataclasses import replace
from math import log, sqrt
from pathlib import Path
from typing import Any

import pytest
from batch_twin import BatchTwin
from endpoint_twins import moved_to
from factories import judgment, slip
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, Request, allowed_reply, error, one_word, refusal, text
from written_datasets import png, write_checklist

from tasks.demo.samples import draw_diagram_checks, draw_samples
from tasks.judging.case import Call, Case
from tasks.ledger.labels import LabelItem
from tasks.pages.cards import Aspect, Card
from tasks.protocols.checklist.labels import LABELS
from tasks.protocols.checklist.parameters import ChecklistParameters
from tasks.protocols.checklist.protocol import PROTOCOL
from tasks.protocols.checklist.reply import LOWER_BOUND, answer_in_form, questions_text, read, reply_form, score_of
from tasks.protocols.protocol import NOT_ASKED
from tasks.records import Check, Place, Sample
from tasks.rubrics.rubric import load_rubric

RED = Check("red", "Is it red?", ("yes",))
TWO = Check("two", "How many cups are there?", ("two", "2"), form="number", parents=("red",))
KIND = Check("kind", "Which kind?", ("B",), form="choice", options=(("A", "tea"), ("B", "coffee")), weight=2.0)
WELL = Check("well", "How well does it fit?", ("2",), form="ordinal")
CHECKS = (RED, TWO, KIND, WELL)
RUBRIC = load_rubric("facts")


def sample(*checks: Check, tag: str = "together", **changes: Any) -> Sample:
    return Sample(sample_id="s", candidate="c", tag=tag, prompt_id="p", record=Place("f"), checks=checks, **changes)


def reply_of(*answers: object) -> str:
    given = [{"number": number, "reason": "seen", "answer": each} for number, each in enumerate(answers, 1)]
    return json.dumps({"answers": given})


@pytest.mark.parametrize(
    ("check", "given", "answer", "score"),
    [
        (RED, "Yes.", "yes", 100),
        (RED, False, "no", 0),
        (RED, "cannot tell", None, None),
        (RED, "yes, mostly", None, None),
        (TWO, 2, "2", 100),
        (TWO, "Two", "2", 100),
        (TWO, "3 cups", None, None),
        (TWO, -1, None, None),
        (TWO, 2.5, None, None),
        (TWO, ".2", None, None),
        (Check("letter", "Which?", ("B",), form="choice", options=(("A", "B"), ("B", "A"))), "B", "B", 100),
        (KIND, "b", "B", 100),
        (KIND, "(B)", "B", 100),
        (KIND, "Coffee", "B", 100),
        (KIND, "A: tea", "A", 0),
        (KIND, "A or B", None, None),
        (WELL, "1", "1", 50),
        (WELL, 3, None, None),
        (WELL, None, None, None),
        (WELL, ["2"], None, None),
    ],
)
def test_answer_must_have_the_form_of_its_check(check: Check, given: object, answer: str | None, score: float) -> None:
    found = answer_in_form(check, given)
    assert found == answer and (found is None or score_of(check, found) == score)


@pytest.mark.parametrize(
    ("reply", "known", "error"),
    [
        (reply_of("yes", 2, "B", 2), [100, 100, 100, 100], ""),
        ("```json\n" + reply_of("no", 3, "A", 0) + "\n```", [0, 0, 0, 0], ""),
        (reply_of("yes", 2, "B", 2).replace("}]", "},]"), [100, 100, 100, 100], ""),
        (reply_of("yes", 2, "B"), [100, 100, 100], "question 4 has no answer"),
        (reply_of("yes", "many", "B", 2), [100, 100, 100], "question 2 is answered 'many', allowed is a whole number"),
        (reply_of("yes", 2, "B", 2, "no"), [100, 100, 100, 100], "there is no question 5"),
        ("yes to all", [], "no answer found in the reply: 'yes to all'"),
        (reply_of(), [], "no answer found"),
    ],
)
def test_reply_to_several_checks_keeps_the_valid_answers(reply: str, known: list[float], error: str) -> None:
    reading = read(reply, sample(*CHECKS))
    assert [each.score for each in reading.scores] == known
    assert reading.error.startswith(error) if error else not reading.error


@pytest.mark.parametrize("odd", [[1], {"a": 1}, None, True, "one", 1e300, 10**18, "9" * 4_000, [[[]]]])
def test_odd_values_in_a_reply_do_not_break_reading(odd: object) -> None:
    known = {"number": 2, "answer": "B"}
    for strange in ({"number": odd, "answer": "yes"}, {"number": 1, "answer": odd}):
        reading = read(json.dumps({"answers": [strange, known]}), sample(RED, KIND))
        assert reading.scores[-1].aspect == "kind" and bool(reading.error) == (len(reading.scores) == 1)
    assert read(json.dumps({"answer": odd}), sample(KIND, tag="single")).error


def test_check_answered_twice_counts_as_unanswered() -> None:
    twice = {"answers": [{"number": 1, "answer": "yes"}, {"number": "1", "answer": "no"}, {"number": 2, "answer": "B"}]}
    reading = read(json.dumps(twice), sample(RED, KIND))
    assert [each.aspect for each in reading.scores] == ["kind"] and "question 1 is answered 2 times" in reading.error


def test_single_check_gets_one_answer_with_its_reason() -> None:
    one = sample(KIND, tag="single")
    reading = read('{"reason": "a brown cup", "answer": "coffee"}', one)
    [score] = reading.scores
    assert (score.aspect, score.score, score.explanation) == ("kind", 100, "B (coffee): a brown cup")
    assert not reading.error
    assert "is answered 2 times" in read('{"answer": "A"} or {"answer": "B"}', one).error
    assert questions_text(one) == "Which kind? (a letter: A: tea; B: coffee)"
    assert questions_text(sample(RED, TWO)).splitlines()[1] == "2. How many cups are there? (a whole number in digits)"


def test_reply_is_reused_only_for_checks_with_the_same_ids() -> None:
    """Otherwise, a check with the id of another one would get the answer to that one."""
    one, other = (reply_form(sample(replace(RED, check_id=each))).allowed for each in ("1", "2"))
    assert one != other


@pytest.mark.parametrize(
    ("check", "odds", "score", "is_bound"),
    [
        (RED, {"Yes": 0.7, " yes": 0.2, "No": 0.1}, 90, False),
        (RED, {"no": 0.999}, 0, True),
        (RED, {"\u2581Yes": 0.6, "no": 0.3}, 60, True),
        (RED, {"The": 0.7, "Yes": 0.3}, None, False),
        (TWO, {"2": 0.5, " Two": 0.4, "three": 0.1}, 90, False),
        (TWO, {"tw": 0.9, "2": 0.1}, None, False),  # can begin two, twelve or twenty
        (Check("many", "?", ("11",), form="number"), {"elev": 0.8, "11": 0.1, "one": 0.1}, 90, False),
        (KIND, {"B": 0.6, "cof": 0.3, "(A": 0.1}, 90, False),
        (WELL, {"2": 0.5, "one": 0.5}, 75, False),
        (Check("many", "?", ("12",), form="number"), {"1": 1.0}, None, False),  # the first digit of 12
        (RED, {}, None, False),
    ],
)
def test_soft_score_is_the_probability_of_the_right_answer(
    check: Check, odds: dict[str, float], score: float | None, is_bound: bool
) -> None:
    tokens = [[token, log(share)] for token, share in odds.items()]
    body = json.dumps({"text": "12" if "1" in odds else "?", "first_token": tokens})
    reading = read(body, sample(check, tag="soft"))
    assert [each.score for each in reading.scores] == ([] if score is None else [pytest.approx(score)])
    assert (reading.recovery == LOWER_BOUND, bool(reading.error)) == (is_bound, score is None)


def decide(checks: tuple[Check, ...], votes: list[dict[str, float]], **changes: Any) -> Any:
    rows = [
        judgment("s", "together", None, order="single", vote=vote, scores=[
            {"aspect": name, "score": score, "explanation": f"answer {score}"} for name, score in found.items()
        ])
        for vote, found in enumerate(votes, 1)
    ]  # fmt: skip
    asked = ChecklistParameters(votes=max(1, len(votes)))
    return PROTOCOL.decide(sample(*checks, **changes), rows, RUBRIC, asked, {})


def test_missing_answers_are_never_guessed() -> None:
    found = decide(CHECKS, [{"red": 100, "kind": 0}])
    assert (found.status, found.score, found.satisfied) == ("complete", 100 / 3, False)
    assert [each.score for each in found.aspects] == [100, None, 0, None]
    assert found.tier_path == "1 of 4 checks right, 2 not scored"
    assert decide(CHECKS, [{"red": 100}]).satisfied is None
    none = decide(CHECKS, [])
    assert (none.status, none.score, none.satisfied) == ("incomplete", None, None)


@pytest.mark.parametrize("weights", [(0.3, 0.6), (0.1, 0.7, 1.0), (0.07, 0.29, 0.57, 0.01)])
def test_all_right_is_exactly_the_highest_score(weights: tuple[float, ...]) -> None:
    checks = tuple(Check(f"c{number}", "?", ("yes",), weight=weight) for number, weight in enumerate(weights))
    assert decide(checks, [{check.check_id: 100 for check in checks}]).score == 100


def test_check_is_right_if_most_votes_are_and_scored_if_half_answer() -> None:
    found = decide((KIND,), [{"kind": 0}, {"kind": 100}, {"kind": 100}])
    [kind] = found.aspects
    assert kind.score == found.score == pytest.approx(200 / 3) and kind.explanation == "answer 100"
    assert (found.satisfied, found.tier_path) == (True, "1 of 1 check right")
    assert decide((KIND,), [{"kind": 0}, {"kind": 100}]).satisfied is decide((WELL,), [{"well": 50}]).satisfied is False
    assert decide((RED,), [{"red": 100}, {}, {}]).status == "incomplete"


@pytest.mark.parametrize(
    ("parent", "own", "score"),
    [(100, 100, 100), (0, 100, 0), (0, None, 0), (None, 100, None), (None, 0, 0), (100, None, None)],
)
def test_check_score_depends_on_its_parent(parent: float | None, own: float | None, score: float | None) -> None:
    given = {name: value for name, value in (("red", parent), ("two", own)) if value is not None}
    assert decide((RED, TWO), [given]).aspects[1].score == score


@pytest.mark.parametrize(
    ("answers", "asked", "due", "needless"),
    [
        ({}, (), ["red", "kind"], []),
        ({}, ("red",), ["two", "kind"], []),  # asked, without an answer so far
        ({"red": 100}, (), ["two", "kind"], []),
        ({"red": 100, "two": 100}, (), ["shape", "kind"], []),
        ({"red": 0}, (), ["kind"], ["two", "shape"]),
        ({"red": 0, "kind": 0}, (), [], ["two", "shape"]),
        ({"red": None}, (), ["red", "kind"], []),
        ({"red": None, "two": 0, "kind": 100}, ("red",), [], ["shape"]),
    ],
)
def test_check_is_asked_after_its_parents_unless_one_is_wrong(
    answers: dict[str, float | None], asked: tuple[str, ...], due: list[str], needless: list[str]
) -> None:
    shape = Check("shape", "Are they round?", ("yes",), parents=("two",))
    judged = Case(sample(RED, TWO, shape, KIND, tag="single"), {}, {})
    calls = {name: Call(name, "single", 1, name, "single") for name in judged.questions(RUBRIC)}
    judged.calls = tuple(calls.values())
    for name, score in answers.items():
        scores = [] if score is None else [{"aspect": name, "score": score, "explanation": ""}]
        status = "invalid" if score is None else "ok"
        judged.judgments.append(judgment("s", name, None, order="single", status=status, scores=scores))
    assert [call.dimension for call in judged.due("single", {calls[name] for name in asked})] == due
    left = [call for call in judged.calls if not judged.attempts(call) and not judged.is_open(call)]
    assert [call.dimension for call in left] == needless
    assert judged.settled == (not due and "red" not in asked)


def test_answered_checks_are_not_ruled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.protocols.checklist.protocol._wrong_parent", slip)
    judged = Case(sample(RED, TWO, tag="single"), {}, {})
    judged.calls = tuple(Call(name, "single", 1, name, "single") for name in judged.questions(RUBRIC))
    judged.judgments = [judgment("s", name, None, order="single") for name in ("red", "two")]
    assert judged.settled


def test_blank_picture_gets_no_score_for_absence_checks() -> None:
    absent = Check("no cat", "Is there a cat?", ("no",), absence=True)
    found = decide((RED, absent), [{"red": 0, "no cat": 100}], control="blank")
    assert ([each.score for each in found.aspects], found.score) == ([0, None], 0)


@pytest.mark.parametrize(
    ("check", "answer", "score"),
    [(RED, "no", 0), (RED, "cannot tell", None), (TWO, "2", 100), (TWO, "3", 0), (TWO, "not there", 0),
     (KIND, "B", 100), (WELL, "1", 50)],
)  # fmt: skip
def test_answers_of_people_are_scored_like_those_of_judges(check: Check, answer: str, score: float | None) -> None:
    own = LABELS.own_question(sample(*CHECKS), check.check_id)
    asked = {"question": check.check_id, "scores": own.scores}
    item = LabelItem.model_validate(
        {"token": "t", "candidate": "c", "sample_id": "s", "tag": "t", "pictures": {}, "left": "", **asked}
    )
    found = LABELS.people_label(item, own.asked.question, answer)
    assert (found.aspect, found.score, LABELS.merged_answer("", [found.score])) == (check.check_id, score, score)
    assert LABELS.scale.alike(100.0, 200 / 3) and not LABELS.scale.alike(50.0, 100.0)


@pytest.mark.parametrize(("answers", "merged"), [([100, 0], 50), ([50, 0, 50], 50), ([100, 100, 0, None], 100)])
def test_people_who_disagree_about_a_check_share_its_score(answers: list[float | None], merged: float) -> None:
    """Without them, people would seem to agree with the judge, and fewer labels would count."""
    assert LABELS.merged_answer("", answers) == merged


# Whole runs


def write_manifest(folder: Path, pictures: int = 3) -> Path:
    cups = {"id": "two", "question": "How many cups are there?", "expected": 2, "form": "number", "parents": ["red"]}
    checks = [{"id": "red", "question": "Is it red?", "expected": "yes", "group": "color"}, {**cups, "group": "count"}]
    return write_checklist(folder, checks, pictures, candidate="kiln")


def red_cups_judge(seen: Request) -> Reply:
    """A judge that sees red cups: two of them if asked together, three if each check is asked alone."""
    if seen.schema_name == "probe":
        return allowed_reply()(seen)
    if seen.schema_name == "facts_together":
        return text(reply_of("yes", 2))
    count = any("How many" in words for words in seen.texts)
    return text(json.dumps({"reason": "seen", "answer": "3" if count else "yes"}))


@pytest.mark.usefixtures("prefect_server")
def test_checks_of_drawn_diagrams_show_their_defects(tmp_path: Path, jury: Any, ask: Any) -> None:
    draw_samples(tmp_path, "diagram", 3, seed=301)  # a copy, black paper and another diagram
    code, out, err = jury("run", "facts", "--dataset", draw_diagram_checks(tmp_path, 301))
    assert code == 0 and "caught 2 of 2 injected defects" in out, err
    assert "false alarms on clean images: 0 of 4" in out
    [row] = ask("SELECT DISTINCT explanation FROM aspect_scores WHERE sample_id = 'test_0' AND aspect = 'boxes 1'")
    assert row["explanation"] == "8: pixels show 8 boxes and 7 arrows; nothing was recognized."


@pytest.mark.usefixtures("prefect_server")
def test_both_instruments_put_their_answers_into_table_and_page(tmp_path: Path, jury: Any, ask: Any) -> None:
    command = ["run", "facts", "--dataset", write_manifest(tmp_path / "data"), "--store", tmp_path / "store"]
    with LoopbackJudge(red_cups_judge) as judge:
        code, out, err = jury(*command, *judged_by(judge))
        assert code == 0, err
        assert judge.by_name == {"probe": 1, "facts_together": 3} and "100.0" in out and "color" in out
        assert "nobody has tested what the judge m sees" in err
        code, out, err = jury(*command, *judged_by(judge), "--instrument", "single")
        assert code == 0, err
        assert judge.by_name["facts_single"] == 6 and "50.0" in out
    rows = ask("SELECT dimension, score, score_scale FROM leaderboard ORDER BY started_at")
    assert [tuple(row.values()) for row in rows] == [("together", 100, 100), ("single", 50, 100)]
    asked = ask("SELECT DISTINCT dimension FROM judgments ORDER BY 1")
    assert [row["dimension"] for row in asked] == ["red", "together", "two"]
    [single] = ask("SELECT run_id FROM evaluations WHERE list_contains(dimensions, 'single')")
    page = tmp_path / "page.html"
    assert jury("report", single["run_id"], "-o", page)[0] == 0
    shown = page.read_text(encoding="utf-8")
    assert "How many cups are there?" in shown and "3: seen" in shown and "wrong" in shown
    assert "not all checks are right" in shown
    assert ask("SELECT DISTINCT aspect FROM aspect_scores ORDER BY 1") == [{"aspect": "red"}, {"aspect": "two"}]


def first_is_red(seen: Request) -> Reply:
    """A judge that sees red only in the first picture."""
    is_green = any("Is it red" in words for words in seen.texts) and png(0) not in seen.images
    return text('{"reason": "green", "answer": "no"}') if is_green else red_cups_judge(seen)


@pytest.mark.usefixtures("prefect_server")
def test_child_of_a_wrong_parent_is_skipped_and_costs_no_budget(tmp_path: Path, jury: Any, ask: Any) -> None:
    command = ["run", "facts", "--dataset", write_manifest(tmp_path / "data"), "--instrument", "single"]
    prices = {"judge.price-in": 1, "judge.price-out": 10, "judge.max-output-tokens": 100}
    with LoopbackJudge(first_is_red) as judge:
        # Room for the calls of one sample at a time: a run that never releases its reservations waits for ever.
        code, _, err = jury(*command, *judged_by(judge, **prices, budget=0.019))
        assert code == 0, err
        assert judge.by_name["facts_single"] == 4
        code, _, err = jury(*command, *judged_by(judge, **prices, budget=0.019))
        assert code == 0 and judge.by_name["facts_single"] == 4, err
    first, *others = ask("SELECT status, score, aspects FROM outcomes ORDER BY sample_id, decided_at")[::2]
    assert (first["score"], [each["explanation"] for each in first["aspects"]]) == (50, ["yes: seen", "3: seen"])
    for row in others:
        assert (row["status"], row["score"]) == ("complete", 0)
        assert [each["explanation"] for each in row["aspects"]] == ["no: green", "not asked: 'Is it red?' is wrong"]


@pytest.mark.usefixtures("prefect_server")
def test_batch_skips_checks_that_earlier_replies_make_needless(
    tmp_path: Path, jury: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "facts", "--dataset", write_manifest(tmp_path / "data"), "--instrument", "single"]
    with BatchTwin(first_is_red) as twin:
        moved_to(monkeypatch, "openai", twin.base_url)
        assert jury(*command, *judged_by(twin), "--limit", "2")[0] == 0
        code, _, err = jury(*command, *judged_by(twin, **{"judge.service-tier": "batch"}))
        assert code == 0 and twin.paid.total() == 2, err
    asked = ask("SELECT sample_id, count(*) AS calls FROM judgments WHERE run_id = (SELECT max(run_id) FROM runs) "
                "AND status = 'ok' GROUP BY ALL ORDER BY ALL")  # fmt: skip
    assert [each["calls"] for each in asked] == [2, 1, 2]


@pytest.mark.usefixtures("prefect_server")
def test_invalid_answer_is_retried_and_leaves_only_its_check_unscored(tmp_path: Path, jury: Any, ask: Any) -> None:
    def unsure(seen: Request) -> Reply:
        return text(reply_of("yes", "several")) if seen.schema_name == "facts_together" else red_cups_judge(seen)

    command = ["run", "facts", "--dataset", write_manifest(tmp_path / "data", 1), "--store", tmp_path / "store"]
    with LoopbackJudge(unsure) as judge:
        code, out, err = jury(*command, *judged_by(judge), "--retry-delay-seconds", "0")
        assert code == 3 and "0/1" in out and "n/a" not in out, err
        assert judge.by_name["facts_together"] == 3
    [row] = ask("SELECT status, score, satisfied, aspects FROM outcomes")
    assert (row["status"], row["score"], row["satisfied"]) == ("complete", 100, None)
    assert [each["score"] for each in row["aspects"]] == [100, None]
    [board] = ask("SELECT coverage, scored FROM leaderboard")
    assert board == {"coverage": 0.5, "scored": 1}


LIKELY = {"Yes": 0.9, " yes": 0.05, "no": 0.05}
ODD = [
    ("ok", one_word("Yes it is red", "length", Yes=0.99, no=0.01)),
    ("ok", one_word("no", no=0.995)),
    ("refused", refusal("No.")),
    ("invalid", text("yes")),
    ("invalid", one_word("yes", **{"<think>": 0.9, "yes": 0.1})),
    ("invalid", one_word("yes", yes=2.0, no=0.1)),
    ("invalid", one_word("The cup", The=0.9, yes=0.1)),
]
"""Status of a judgment, and the reply to a first check that leads to it."""


@pytest.mark.usefixtures("prefect_server")
def test_soft_run_scores_probabilities_and_guesses_no_odd_reply(tmp_path: Path, jury: Any, ask: Any) -> None:
    firsts = [one_word("Yes", **LIKELY), one_word("no", no=0.9, yes=0.1), *(each for _, each in ODD)]

    def unsure(seen: Request) -> Reply:
        assert seen.body["logprobs"] and seen.body["top_logprobs"] == 20 and seen.body["max_completion_tokens"] == 16
        assert not seen.response_format
        if "checks that" in seen.texts[1]:
            return one_word("yes", yes=1.0)
        if any("How many" in words for words in seen.texts):
            return one_word("two", two=0.6, **{"2": 0.2, "three": 0.2})
        return next(reply for number, reply in enumerate(firsts) if png(number) in seen.images)

    command = ["run", "facts", "--dataset", write_manifest(tmp_path / "data", len(firsts)), "--instrument", "soft"]
    with LoopbackJudge(unsure) as judge:
        code, out, err = jury(*command, *judged_by(judge))
    assert code == 3 and "geometric" in out and "50% of 4" in out, err
    rows = ask("SELECT sample_id, status, raw, scores, rung FROM judgments WHERE last_attempt AND dimension = 'red'")
    found = {row["sample_id"]: row for row in rows}
    assert [found[f"s{number}"]["status"] for number in range(2, len(firsts))] == [status for status, _ in ODD]
    first, second, _, bound, *_ = ask("SELECT * FROM outcomes ORDER BY sample_id")
    assert first["score"] == pytest.approx(87.5) and first["aspect_mean"] == pytest.approx(100 * sqrt(0.95 * 0.8))
    assert first["satisfied"] and (second["score"], second["aspect_mean"]) == (pytest.approx(5), 0)
    assert bound["tier_path"] == "geometric mean of 2 checks 0.0, 1 lower bound"
    again = read(found["s0"]["raw"], sample(RED, tag="soft"))
    assert found["s0"]["scores"][0]["score"] == again.scores[0].score and found["s0"]["rung"] == "plain"


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("reply", [error(400, "logprobs are not supported with this model"), text("yes")])
def test_soft_run_without_probabilities_ends_before_its_first_check(tmp_path: Path, jury: Any, reply: Reply) -> None:
    command = ["run", "facts", "--dataset", write_manifest(tmp_path / "data"), "--instrument", "soft"]
    with LoopbackJudge(lambda _: reply) as judge:
        code, _, err = jury(*command, *judged_by(judge))
        assert code and "use `--instrument together`" in err and judge.count == 1


def test_card_shows_a_wrong_answer_before_a_check_that_was_not_asked() -> None:
    skipped = Aspect(name="How many cups?", score="wrong", explanation=f"{NOT_ASKED}'Any cups?' is wrong", points=0)
    asked = Aspect(name="Any cups?", score="2% right", explanation="no 98.0%", points=2)
    assert Card.model_construct(aspects=(skipped, asked)).conclusion() == "Any cups? 2% right: no 98.0%"
