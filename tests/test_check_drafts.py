"""Checklists that a model drafts, and their trial on the Human figures."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from factories import end, outcome, start, write_run
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, Request, allowed_reply, text
from written_datasets import png, record, write_benchmark, write_figures

from tasks.errors import InputError
from tasks.protocols.checklist.drafts import CHECKS, DRAFT, GROUPS, PICTURES, Draft, keep_right, read_draft
from tasks.records import AspectScore

pytestmark = pytest.mark.usefixtures("prefect_server")
DRAFTED = [
    {"group": group, "question": f"Is fact {number} of the {group} shown?", "form": "yes_no", "expected": "yes"}
    for group in GROUPS
    for number in range(3)
]


def draft_reply(*changed: dict[str, object]) -> str:
    """Return a reply with twelve checks, the first ones changed."""
    checks = [{**each, **change} for each, change in zip(DRAFTED, changed, strict=False)]
    return json.dumps({"checks": [*checks, *DRAFTED[len(changed) :]]})


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (draft_reply(), ""),
        (f"<think>Hm.</think>```json\n{draft_reply()}\n```", ""),
        (draft_reply({"form": "number", "expected": "two"}), ""),
        (draft_reply({"expected": "maybe"}), "check '1': expected is 'maybe', allowed are yes, no"),
        (
            draft_reply({"form": "number", "expected": "some"}),
            "check '1': expected is 'some', must be a whole number, 0 or above",
        ),
        (draft_reply({"group": "beauty"}), "group is 'beauty', allowed are components, relations, labels, must-not"),
        (draft_reply({"question": None}), "check 1: question: Field required"),
        (json.dumps({"checks": DRAFTED[:1] * 12}), "the reply has 1 checks, allowed are 8 to 20"),
        (json.dumps({"checks": "twelve"}), "the reply has 0 checks, allowed are 8 to 20"),
    ],
)
def test_draft_needs_8_to_20_valid_checks(reply: str, error: str) -> None:
    checks, problem = read_draft(reply)
    assert problem == error and (error or len(checks) == len(DRAFTED))


def test_draft_is_used_again_for_the_same_text_and_picture(tmp_path: Path) -> None:
    Draft(tmp_path).add("a", "A text.", png(1), "m", [])
    kept = Draft(tmp_path)
    assert kept.has("a", "A text.", png(1))
    assert not any((kept.has("a", "Another.", png(1)), kept.has("a", "A text.", png(2)), kept.has("b", "", png(1))))


def test_checks_are_kept_or_dropped_once_all_figures_were_asked_about(tmp_path: Path) -> None:
    for name in "ab":
        Draft(tmp_path).add(name, "A text.", png(1), "m", [{"id": number} for number in "123"])
    scores = {"1": 100.0, "2": 0.0, "3": None}
    aspects = tuple(AspectScore(aspect=name, score=score, explanation="") for name, score in scores.items())
    one, other = (outcome(name, aspects=aspects) for name in "ab")
    stopped, whole = write_run(tmp_path, start("1"), [one], None), write_run(tmp_path, start("2"), [one, other], end())
    with pytest.raises(InputError, match="before it asked about 1 of 2 Human figures: the same command goes on"):
        keep_right(tmp_path, stopped)
    assert not (tmp_path / CHECKS).exists()
    kept = keep_right(tmp_path, whole)
    assert kept == "2 of 6 checks pass at 2 Human figures (2 checks without an answer left out)"


class DraftingJudge:
    """Judge that drafts checks and answers yes to each; its second draft is unusable."""

    def __init__(self) -> None:
        self.drafts: list[Request] = []

    def __call__(self, seen: Request) -> Reply:
        if seen.schema_name == "draft_checks":
            self.drafts.append(seen)
            usable = len(self.drafts) != 2  # the second one must be asked for again
            return text(draft_reply({"expected": "no"}, {"expected": "no"}) if usable else "I would rather not.")
        if seen.schema_name != "facts_together":
            return allowed_reply()(seen)
        asked = re.findall(r"^(\d+)\. Is fact", "\n".join(seen.texts), re.MULTILINE)
        return text(json.dumps({"answers": [{"number": int(n), "reason": "", "answer": "yes"} for n in asked]}))


def test_drafted_checks_are_tried_on_human_figures_judge_others_and_resume(
    tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any
) -> None:
    loopback.answer = judge = DraftingJudge()
    folder, named = tmp_path / "draft", ["--judge.model", "m", "--judge.base-url", loopback.base_url]
    command = ["prompts", "draft-checks", "diagram", *write_figures(tmp_path / "figures", 2), "--out", folder, *named]
    write_benchmark(tmp_path / "figures", [record(0), record(1), record(2, content="", visual_intent=" ")])
    assert "name a model with --judge" in jury(*command[:-4])[2]
    assert "not in a batch" in jury(*command[:-4], "--judge", "openai/m", "--judge.service-tier", "batch")[2]
    code, out, err = jury(*command)
    assert code == 0, err
    assert f"20 of 24 checks pass at 2 Human figures and are in {folder / CHECKS}" in out
    assert "m drafts the checks of 3 figures; those in" in err and "test_2 is left out: it has no text" in err
    assert "people confirmed 0 of them (0%)" in err and "m drafted the checks that it answers" in err
    assert "their score is high by construction" in " ".join(err.split())
    assert len(judge.drafts) == 3 and not any(seen.images for seen in judge.drafts)
    assert ask("SELECT purpose, count(*) AS n FROM other_calls WHERE purpose = 'draft' GROUP BY ALL")[0]["n"] >= 3
    first, second = (row["score"] for row in ask("SELECT score FROM leaderboard ORDER BY score"))
    assert (first, second) == (pytest.approx(100 * 20 / 24), 100.0)
    code, _, err = jury(*command)
    assert code == 2 and f"run facts --dataset {folder / CHECKS} --store" in " ".join(err.split())
    assert len([*(folder / PICTURES).iterdir()]) == 2

    rows = [json.loads(line) for line in (folder / CHECKS).read_text().splitlines()]
    assert [len(row["checks"]) for row in rows] == [10, 10]
    for check in rows[0]["checks"]:
        check["confirmed"] = True
    (folder / CHECKS).write_text("\n".join(map(json.dumps, rows)))
    (models := tmp_path / "models").mkdir()
    for number, row in enumerate(rows):
        (models / f"{row['id']}.png").write_bytes(png(number))
    code, _, err = jury("run", "facts", "--dataset", folder / CHECKS, "--images", models, *named)
    assert code == 0 and "people confirmed 10 of them (50%)" in err and "by construction" not in err
    keys = ask("SELECT DISTINCT dataset_key FROM evaluations WHERE list_contains(candidates, 'models')")
    assert keys[0] not in ask("SELECT DISTINCT dataset_key FROM evaluations WHERE list_contains(candidates, 'Human')")

    # A stopped draft continues without paying twice.
    (folder / CHECKS).unlink()
    kept = (folder / DRAFT).read_bytes().splitlines(keepends=True)[0]
    (folder / DRAFT).write_bytes(kept + b'{"id": "test_1", "pro')
    assert jury(*command)[0] == 0 and len(judge.drafts) == 3 + 1
    assert [json.loads(line)["id"] for line in (folder / DRAFT).read_text().splitlines()] == ["test_0", "test_1"]
