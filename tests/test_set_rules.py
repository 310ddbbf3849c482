"""Scores of the published sets: documented examples, and random tables scored by a second implementation."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import NamedTuple

import pytest
from factories import judgment, outcome, start

from tasks.protocols.checklist.parameters import ChecklistParameters
from tasks.protocols.checklist.protocol import PROTOCOL
from tasks.protocols.checklist.reply import read
from tasks.protocols.protocol import Decided
from tasks.records import Check, CheckForm, Place, Sample
from tasks.rubrics.rubric import load_rubric

RUBRIC = load_rubric("facts")
LETTERS = tuple(zip("ABCD", ("left", "right", "above", "none of these"), strict=True))
DOC = Path(__file__).parents[1] / "docs/howto/checklists.md"


class Image(NamedTuple):
    prompt: str
    checks: tuple[Check, ...]
    answers: tuple[str, ...]
    """`–`: no answer in the form of its check."""


def make_check(name: str, answer: str, group: str, parents: tuple[str, ...] = ()) -> Check:
    form: CheckForm = "number" if answer.isdigit() else "choice" if answer.isupper() else "yes_no"
    return Check(name, "?", (answer,), form, LETTERS if form == "choice" else (), group, parents)


def score_images(images: Sequence[Image]) -> tuple[list[float | None], dict[str, float | None]]:
    """Return the scores of the images, and the score of each row of the table, all 0-100."""
    tally, scores = PROTOCOL.score_tally(start(flow="facts")), list[float | None]()
    for number, image in enumerate(images):
        found = decide(image)
        scores.append(found.score)
        facts = {"flow": "facts", "tag": "together", "prompt_id": image.prompt, "score": found.score}
        tally.add(outcome(f"s{number}", "----", None, **facts, satisfied=found.satisfied, aspects=found.aspects))
    rows = {(row.measure, row.group_name): row.score for row in tally.rows()}
    right = rows.pop(("satisfied", ""))
    found = {group or "score": score for (_, group), score in rows.items()}
    return scores, {**found, "all right": None if right is None else 100 * right}


def decide(image: Image) -> Decided:
    sample = Sample(sample_id="s", candidate="c", tag="together", record=Place("f"), checks=image.checks)
    given = [{"number": n, "reason": "seen", "answer": each} for n, each in enumerate(image.answers, 1)]
    scores = read(json.dumps({"answers": given}), sample).scores
    reply = judgment("s", "together", None, order="single", scores=[each.model_dump() for each in scores])
    return PROTOCOL.decide(sample, [reply], RUBRIC, ChecklistParameters(), {})


@pytest.mark.parametrize("line", re.findall(r"^\| (?!set).+, all right .+ \|$", DOC.read_text("utf-8"), re.MULTILINE))
def test_documented_examples_have_the_computed_scores(line: str) -> None:
    name, asked, answers, scores, row = (cell.strip() for cell in line.strip("|").split("|"))
    found = re.findall(r"(\S+) (\w+)(?: \(of (\w+)\))?(?:, |$)", asked)
    checks = tuple(make_check(group, answer, group, (parent,) if parent else ()) for group, answer, parent in found)
    prompts = "ppq" if name == "UniGenBench" else "pqr"
    images = [
        Image(*each) for each in zip(prompts, [checks] * 3, map(tuple, map(str.split, answers.split(","))), strict=True)
    ]
    computed, rows = score_images(images)
    assert ", ".join(f"{score:.1f}" for score in computed) == scores
    named = ["score", "all right", *(group for group, *_ in found)]
    assert ", ".join(f"{group} {rows[group]:.1f}" for group in named) == row


class Rule(NamedTuple):
    """Kinds of checks in a set, and the number of images per prompt."""

    groups: tuple[str, ...]
    answers: tuple[str, ...]
    """Right answers."""
    images: int = 1
    parents: bool = False


SETS = {
    "GenEval 2": Rule(("object", "count", "verb"), ("yes", "1", "2", "10")),
    "UniGenBench": Rule(("Grammar - Negation", "Style", "Layout - 2D"), ("yes",), images=4),
    "T2I-CoReBench": Rule(("", "relation", "0-hop, variant"), ("yes",), images=3),
    "DSG": Rule(("entity", "attribute", "global"), ("yes",), parents=True),
    "TIFA": Rule(("animal", "color"), ("yes", "no", "A", "C")),
    "AIBench": Rule(("Level 1", "Level 2", "Level 3", "Level 4"), ("A", "B", "C", "D")),
}


def draw_images(rule: Rule, random: Random) -> list[Image]:
    images: list[Image] = []
    for prompt in range(random.randint(1, 4)):
        checks: list[Check] = []
        for at in range(random.randint(1, 6)):
            parents = [f"{n}" for n in range(at) if rule.parents and random.random() < 0.4]
            check = make_check(f"{at}", random.choice(rule.answers), random.choice(rule.groups), tuple(parents))
            checks.append(replace(check, weight=random.choice((1.0, 2.0))))
        for _ in range(random.randint(1, rule.images)):
            given = [random.choice([each.expected[0]] * 3 + ["no", "yes", "7", "B", "cannot tell"]) for each in checks]
            images.append(Image(f"p{prompt}", tuple(checks), tuple(given)))
    return images


def expected(image: Image) -> dict[str, float | None]:
    """Return check -> 1, 0 or None by the published rule: first its own answer, then the results of its parents."""
    allowed = {"yes_no": {"yes", "no"}, "choice": {*"ABCD"}, "number": {"1", "2", "7", "10"}}
    found: dict[str, float | None] = {}
    for check, answer in zip(image.checks, image.answers, strict=True):
        own = float(answer in check.expected) if answer in allowed[check.form] else None
        above = [found[parent] for parent in check.parents]
        found[check.check_id] = 0.0 if 0.0 in above else None if None in above and own != 0.0 else own
    return found


def mean(values: Iterable[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in values if value is not None]
    return sum(value * weight for value, weight in known) / sum(weight for _, weight in known) if known else None


def mean_by_prompt(values: Sequence[tuple[str, float | None]]) -> float | None:
    prompts: defaultdict[str, list[float]] = defaultdict(list)
    for prompt, value in values:
        if value is not None:
            prompts[prompt].append(value)
    return 100 * fmean(map(fmean, prompts.values())) if prompts else None


@pytest.mark.parametrize("name", SETS)
def test_scores_match_the_rules_on_random_tables(name: str) -> None:
    random = Random(name)
    for _ in range(60):
        images = draw_images(SETS[name], random)
        scores, rows = score_images(images)
        by_rule = [(image, expected(image)) for image in images]
        shares = [mean((each[check.check_id], check.weight) for check in image.checks) for image, each in by_rule]
        assert scores == [None if share is None else pytest.approx(100 * share) for share in shares]
        prompts = [image.prompt for image in images]
        right = [False if 0.0 in each.values() else None if None in each.values() else True for _, each in by_rule]
        pooled: defaultdict[str, list[tuple[float | None, float]]] = defaultdict(list)
        for image, each in by_rule:
            for check in image.checks:
                pooled[check.group].append((each[check.check_id], check.weight))
        wanted = {
            group: share if (share := mean(its)) is None else 100 * share for group, its in pooled.items() if group
        }
        wanted["score"] = mean_by_prompt(list(zip(prompts, shares, strict=True)))
        wanted["all right"] = mean_by_prompt([(prompt, each) for prompt, each in zip(prompts, right, strict=True)])
        assert rows == {group: None if value is None else pytest.approx(value) for group, value in wanted.items()}
