"""Edited checklists: which checks count as unchanged; comparisons, nights and gates after an edit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import finished, outcome, page_trend
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, Request, allowed_reply, text
from written_datasets import write_checklist

from tasks.comparing.alarms import newest_places
from tasks.comparing.candidate_gate import least_score, no_worse
from tasks.comparing.comparison import NotAlike, compare, compare_candidates
from tasks.comparing.verdict import difference_grid, notes
from tasks.history.landing import land
from tasks.history.queries import query
from tasks.protocols.checklist.prompts import asked_keys
from tasks.records import AspectScore, Check, Outcome
from tasks.statistics.cusum import BASELINE
from tasks.statistics.series import Compared, Part, share_parts

CUP = Check("cup", "Is there a cup?", ("yes",))
RED = Check("red", "Is it red?", ("yes",), parents=("cup",), group="color")
TEA = Check("tea", "Which drink?", ("A",), form="choice", options=(("A", "tea"), ("B", "coffee")))


@pytest.mark.parametrize(
    ("check", "edit", "differ"),
    [
        (CUP, {"question": "Is there one cup?"}, {"cup", "red"}),  # the score of a child depends on its parent
        (RED, {"question": "Is it bright red?"}, {"red"}),
        (RED, {"expected": ("no",)}, {"red"}),
        (RED, {"weight": 2.0}, {"red"}),
        (RED, {"group": "hue"}, {"red"}),
        (RED, {"parents": ()}, {"red"}),
        (RED, {"parents": ("cup", "tea")}, {"red"}),
        (RED, {"absence": True}, set()),
        (TEA, {"options": (("A", "tea"), ("B", "milk"))}, {"tea"}),
        (TEA, {"form": "yes_no", "options": ()}, {"tea"}),
    ],
)
def test_check_is_unchanged_if_its_answer_would_count_the_same(
    check: Check, edit: dict[str, Any], differ: set[str]
) -> None:
    before = asked_keys((CUP, RED, TEA))
    after = asked_keys(tuple(replace(each, **edit) if each == check else each for each in (CUP, RED, TEA)))
    assert {name for name in before if before[name] != after[name]} == differ
    renamed = asked_keys((replace(CUP, check_id="1"), replace(RED, check_id="2", parents=("1",))))
    assert [*renamed.values()] == [before["cup"], before["red"]]


def outcomes_of(**prompts: str) -> list[Compared]:
    """Return one outcome per prompt; each letter is the key of a check."""
    return [
        Compared(f"{name}/0", name, "", "complete", None, None, None, {}, [Part(key, 100.0, 1.0) for key in keys])
        for name, keys in prompts.items()
    ]


@pytest.mark.parametrize(
    ("before", "after", "left_out", "of", "kept"),
    [
        (outcomes_of(p="abc"), outcomes_of(p="abc"), 0, 3, ["abc"]),
        (outcomes_of(p="abc"), outcomes_of(p="abd"), 1, 3, ["ab"]),
        (outcomes_of(p="abc"), outcomes_of(p="abcde"), 2, 5, ["abc"]),
        (outcomes_of(p="ab", q="ab"), outcomes_of(p="cd", q="ab"), 2, 4, ["ab"]),  # p has no common check
        (outcomes_of(p="ab"), outcomes_of(p="ab", q="zz"), 0, 2, ["ab"]),  # only one side has q: no edit
        (outcomes_of(p="ab"), outcomes_of(p="cd"), 2, 2, []),
        (outcomes_of(p=""), outcomes_of(p=""), 0, 0, [""]),  # a protocol without checks
    ],
)
def test_comparison_keeps_the_checks_that_both_sides_ask(
    before: list[Compared], after: list[Compared], left_out: int, of: int, kept: list[str]
) -> None:
    found = share_parts(before, after)
    assert (found.left_out, found.of) == (left_out, of)
    assert ["".join(part.asked_key for part in each.parts) for each in found.before] == kept


# Nights


def night_outcomes(edited: str, wrong: int = 0, score: float | None = 0.0) -> list[Outcome]:
    """Return outcomes of ten prompts with ten checks; letters in `edited` are new, the first `wrong` have `score`."""
    rows: list[Outcome] = []
    for number in range(10):
        scores = [(letter, score if at < wrong else 100.0) for at, letter in enumerate("abcdefghij")]
        aspects = [
            AspectScore(
                aspect=letter, score=score, explanation="", asked_key=letter.upper() if letter in edited else letter
            )
            for letter, score in scores
        ]
        facts = {"flow": "facts", "tag": "together", "prompt_id": f"p{number}", "aspects": aspects, "dimensions": ()}
        rows.append(outcome(f"p{number}/0", "----", None, **facts, score=sum(each or 0.0 for _, each in scores) / 10))
    return rows


def write_night(
    store: Path, day: int, edited: str = "", wrong: int = 0, score: float | None = 0.0, candidate: str = "alpha"
) -> str:
    own = {"scheduled": True, "dataset_key": edited.ljust(64, "0"), "series_key": "s" * 64, "dimensions": ("together",)}
    rows = [row.model_copy(update={"candidate": candidate}) for row in night_outcomes(edited, wrong, score)]
    run_id = f"202609{day:02}T030000000-facts-{day:06}"
    return finished(store, run_id, rows, candidates=(candidate,), **own).run_id


def query_nights(store: Path, columns: str) -> list[Any]:
    land(store)
    return query(store, f"SELECT {columns} FROM nights ORDER BY started_at").rows


def test_edited_check_leaves_the_series_of_the_others_unbroken(tmp_path: Path) -> None:
    for day in range(1, BASELINE + 1):
        write_night(tmp_path, day, wrong=1)  # check a, left out after the edit
    last = write_night(tmp_path, BASELINE + 1, edited="a", wrong=6)
    found = query_nights(tmp_path, "phase, night, baseline_score, change, left_out, alarm")
    assert found[-1] == ("watched", 15, 100, pytest.approx(-500 / 9), 10, 15)
    assert {row[:2] + row[4:5] for row in found[:-1]} == {("baseline", n, 10) for n in range(1, BASELINE + 1)}
    [(_, _, place)] = newest_places(tmp_path)
    assert place.words("facts").endswith("; 10 checks that other nights lack are left out")
    [*_, point] = page_trend(tmp_path, last, "together")
    assert (point.break_reason, point.edited, point.dropped) == (None, True, True)

    write_night(tmp_path, BASELINE + 2, edited="a", wrong=4, score=None)
    write_night(tmp_path, BASELINE + 3, edited="abcd")  # too many edits: a new series starts and the old one stays
    found = query_nights(tmp_path, "phase, night, left_out, scored")
    assert found[-3:] == [("watched", 15, 10, 1), ("left out", 16, 10, pytest.approx(2 / 3)), ("baseline", 1, 0, 1)]


def test_gate_compares_only_the_checks_of_both_runs(tmp_path: Path) -> None:
    cases: dict[str, tuple[str, str, str, list[str]]] = {
        "few": ("", "a", "10 of 100 checks differ and are left out.", []),
        "many": ("a", "bcde", "50 of 100", ["50 of 100 checks differ between"]),
    }
    before, after = write_night(tmp_path, 1, "abcdefghij"), write_night(tmp_path, 2)
    last = write_night(tmp_path, 3, wrong=5, score=None)
    for day, (name, (once, now, *_)) in enumerate(cases.items()):
        write_night(tmp_path, 4 + 2 * day, once, candidate=name)
        write_night(tmp_path, 5 + 2 * day, now, candidate=name)
    land(tmp_path)
    for name, (_, _, note, unsure) in cases.items():
        gate = no_worse(tmp_path, "facts", name, name, 5.0)
        assert gate.comparison and any(line.startswith(note) for line in notes(gate.comparison))
        assert [line[: len(start)] for line, start in zip(gate.unsure, unsure, strict=True)] == unsure
    with pytest.raises(NotAlike, match="have no checks in common"):
        compare(tmp_path, before, after)
    assert compare_candidates(tmp_path, before, after, ["alpha"]) == []
    for gate in (no_worse(tmp_path, "facts", "alpha", "alpha", 5.0), least_score(tmp_path, "facts", "alpha", 60.0)):
        assert gate.unsure == (f"50.0% of the checks of alpha have a score in {last}: less than 97%",)


def test_each_instrument_has_its_own_rule_for_satisfied(tmp_path: Path) -> None:
    for day, (tag, score) in enumerate({"single": 100.0, "soft": 60.0}.items(), 1):
        aspects = [AspectScore(aspect="a", score=score, explanation="", asked_key="a")]
        facts = {"flow": "facts", "tag": tag, "prompt_id": "p", "aspects": aspects, "dimensions": ()}
        own = {
            "protocol": {"instrument": tag, f"prompt {tag}": tag, "reply formats": tag},
            "dimensions": (tag,),
            "key": tag[1],
        }
        finished(tmp_path, f"2026090{day}T030000000-facts-00000{day}", [outcome("p", "----", None, **facts)], **own)
    land(tmp_path)
    one, other = (run_id for (run_id,) in query(tmp_path, "SELECT run_id FROM evaluations ORDER BY 1").rows)
    found = compare(tmp_path, one, other, across=("instrument",))
    rows = {row.measure: (row.difference.before, row.difference.after) for row in found.rows}
    assert rows == {"score": (100, 60), "satisfied": (1, 1)} and found.equal and found.equal.value == 1
    assert [line[1:4] for line in difference_grid(found.rows, "facts").lines][1] == ["1.00", "1.00", "0.00"]


# Whole runs


def yes_judge(seen: Request) -> Reply:
    """A judge that answers yes, but no to the second check if it is asked alone."""
    if seen.schema_name == "probe":
        return allowed_reply()(seen)
    if seen.schema_name == "facts_together":
        return text(json.dumps({"answers": [{"number": n, "reason": "seen", "answer": "yes"} for n in (1, 2)]}))
    return text(json.dumps({"reason": "seen", "answer": "yes" if any("red" in each for each in seen.texts) else "no"}))


@pytest.mark.usefixtures("prefect_server")
def test_runs_compare_after_an_edit_and_across_instruments(tmp_path: Path, jury: Any, ask: Any) -> None:
    with LoopbackJudge(yes_judge) as judge:

        def run_checks(second: str, *more: str) -> None:
            questions = {"red": "Is it red?", "two": second}
            checks = [{"id": name, "question": each, "expected": "yes"} for name, each in questions.items()]
            data = write_checklist(tmp_path / "data", checks, 4)
            code, _, err = jury("run", "facts", "--dataset", data, *judged_by(judge), *more)
            assert code == 0, err

        run_checks("Are there tow?")
        run_checks("Are there two?")
        code, out, err = jury("gate", "--flow", "facts", "--candidate", "cups", "--against", "cups", "--margin", 5)
        assert code == 5 and "4 of 8 checks differ between the two runs: more than 20%" in out, err
        run_checks("Are there two?", "--instrument", "single")
    first, mended, single = (row["run_id"] for row in ask("SELECT run_id FROM runs ORDER BY started_at"))
    keys = ask("SELECT count(DISTINCT dataset_key) AS datasets, count(DISTINCT series_key) AS series FROM runs")
    assert keys == [{"datasets": 2, "series": 1}]

    code, out, err = jury("compare", first, mended)
    assert code == 0 and "4 of 8 checks differ and are left out." in out and "n = 4 prompts" in out, err
    assert "instrument: together → single" in jury("compare", mended, single)[2]
    code, out, err = jury("compare", mended, single, "--across", "instrument")
    assert code == 0 and "Across: instrument." in out and "50.0 against 100.0" in out, err
    assert "Equal answers, both right or both wrong: 4 of 8 (n = 8 checks)." in out
