"""Judges against judges and people: which answers stand against each other, and what the command says of them."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from factories import DIMENSIONS, end, image, outcome, picture, scored, start, write_run
from scipy.stats import kendalltau

from tasks.history.loading import sync
from tasks.labels.agreement import Agreed, Agreement, agreement
from tasks.labels.importing import import_labels
from tasks.records import Outcome

pytestmark = pytest.mark.usefixtures("laid_out")

Jury = Callable[..., tuple[int, str, str]]

ONE, TWO = "20261120T120000-diagram-0000aa", "20261121T120000-diagram-0000bb"
WORDS = {"M": "Model", "H": "Human", "G": "Both are good", "B": "Both are bad", "T": "Tie"}


def judged(store: Path, run_id: str, rows: Sequence[Outcome], **changes: Any) -> None:
    candidates = tuple(dict.fromkeys(row.candidate for row in rows))
    write_run(store, start(run_id, candidates=candidates, samples=len(rows), **changes), [*rows], end())


def figures(overalls: str, **changes: Any) -> list[Outcome]:
    """A figure a letter, which is its overall and its verdict on every dimension."""
    neutral = {"T": "G"}
    return [
        outcome(f"s{n:02}", 4 * neutral.get(letter, letter), WORDS[letter], **changes)
        for n, letter in enumerate(overalls)
    ]


def people(store: Path, *rows: dict[str, Any], flow: str = "diagram") -> None:
    file = store.parent / "people.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    import_labels(store, file, flow)
    sync(store)


def said(overalls: str, dimension: str = "overall", **more: str) -> list[dict[str, str]]:
    return [
        {"id": f"s{n:02}", "dimension": dimension, "verdict": WORDS[letter], **more}
        for n, letter in enumerate(overalls)
    ]


def of(found: Agreement, question: str = "overall", tag: str = "") -> Agreed:
    return next(each for each in found.questions if (each.question, each.tag) == (question, tag))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


# Judges


def test_two_judges_are_compared_on_every_dimension_and_overall(store: Path, jury: Jury) -> None:
    judged(store, ONE, figures("MMMMHHTTHH"))
    judged(store, TWO, figures("MMMHHHTHHM"))
    sync(store)
    code, out, err = jury("agreement", "20261120", "20261121", "--json")
    assert (code, err) == (0, "")
    found = Agreement.model_validate_json(out)
    assert (found.a.name, found.b.name) == (ONE, TWO)
    assert [each.question for each in found.questions] == [*DIMENSIONS, "overall"]
    overall = of(found)
    assert (overall.n, overall.only_a, overall.only_b, overall.other_picture) == (10, 0, 0, 0)
    assert overall.categories == ("Model", "Tie", "Human")
    assert overall.confusion == ((3, 0, 1), (0, 1, 1), (1, 0, 3))
    # By hand: 7 of 10 agree; by chance 0.4 * 0.4 + 0.2 * 0.1 + 0.4 * 0.5 would.
    assert overall.agreement.value == pytest.approx(0.7)
    assert overall.kappa.value == pytest.approx((0.7 - 0.38) / 0.62)
    worth = {"M": 2, "T": 1, "H": 0}
    tau = kendalltau([worth[x] for x in "MMMMHHTTHH"], [worth[x] for x in "MMMHHHTHHM"]).statistic
    assert overall.tau.value == pytest.approx(tau)
    assert (overall.tau.ci_low, overall.tau.why) == (None, "no interval below 50 samples")


def test_good_and_bad_are_apart_for_kappa_and_one_point_of_the_scale_for_tau(store: Path) -> None:
    judged(store, ONE, figures("GBGBMMHHGB"))
    judged(store, TWO, figures("BGBGMMHHBG"))
    sync(store)
    found = of(agreement(store, ONE, TWO), "aesthetics")
    assert found.categories == ("Model", "Both are good", "Both are bad", "Human")
    assert found.agreement.value == pytest.approx(0.4)
    assert found.tau.value == 1


def test_what_only_one_side_has_is_counted_and_compared_with_nothing(store: Path) -> None:
    forfeit = outcome("s90", "----", None, status="forfeit", score=0.0)
    undecided = outcome("s91", "G-GG", None, status="incomplete")
    judged(store, ONE, [*figures("MMH"), forfeit, undecided])
    judged(store, TWO, [*figures("MHHH"), outcome("s90"), outcome("s91", "GHGG", "Human")])
    sync(store)
    found = agreement(store, ONE, TWO)
    assert (of(found).n, of(found).only_a, of(found).only_b) == (3, 0, 3)
    assert (of(found, "faithfulness").n, of(found, "faithfulness").only_b) == (4, 2)
    assert (of(found, "conciseness").n, of(found, "conciseness").only_b) == (3, 3)


def test_figures_that_were_drawn_anew_between_two_runs_are_not_compared(store: Path) -> None:
    anew = {"human": picture("s00h"), "model": picture("another")}
    judged(store, ONE, figures("MMH"))
    judged(store, TWO, [*figures("MMH")[1:], outcome("s00", pictures=anew)])
    sync(store)
    found = of(agreement(store, ONE, TWO))
    assert (found.n, found.other_picture) == (2, 1)


def test_the_shards_of_an_evaluation_are_one_rater(store: Path) -> None:
    rows = figures("MHMH")
    for shard, part in enumerate((rows[:2], rows[2:]), 1):
        judged(store, f"{ONE}-{shard}", part, evaluation_id=ONE, shard=shard, shards=2)
    judged(store, TWO, rows)
    sync(store)
    assert of(agreement(store, ONE, TWO)).n == 4


def test_a_judge_with_one_answer_has_agreement_but_no_kappa_and_no_tau(store: Path) -> None:
    judged(store, ONE, figures("M" * 10))
    judged(store, TWO, figures("M" * 10))
    sync(store)
    found = of(agreement(store, ONE, TWO))
    assert found.agreement.value == 1
    assert found.kappa.value is None
    assert found.kappa.why == found.tau.why == "undefined: A and B always the same"


# People


def test_the_votes_of_several_people_are_merged(store: Path) -> None:
    judged(store, ONE, figures("MMM"))
    votes = {"Ann": "MMM", "Bob": "MHH", "Eve": "HMT"}
    people(store, *[row for name, overalls in votes.items() for row in said(overalls, annotator=name)])
    found = of(agreement(store, ONE, "people"))
    assert found.categories == ("Model", "Tie")
    assert found.confusion == ((2, 1), (0, 0))


def test_people_who_split_on_a_dimension_are_mixed_as_the_votes_of_a_judge_are(store: Path) -> None:
    judged(store, ONE, [outcome("s00", "XMMM", "Model")])
    for_each = {"Ann": "M", "Bob": "H"}
    people(store, *[row for name, said_ in for_each.items() for row in said(said_, "faithfulness", annotator=name)])
    assert of(agreement(store, ONE, "people"), "faithfulness").categories == ("Mixed",)


def test_overall_follows_from_what_people_say_of_the_dimensions(store: Path) -> None:
    judged(store, ONE, figures("MHT"))
    rows = {"faithfulness": "MGG", "readability": "GBG", "conciseness": "HHG", "aesthetics": "HGB"}
    people(store, *[row for dimension, verdicts in rows.items() for row in said(verdicts, dimension)])
    found = agreement(store, ONE, "people")
    assert of(found).confusion == ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    assert of(found, "conciseness").n == 3


def test_what_people_say_overall_stands_against_the_tier_rule(store: Path) -> None:
    judged(store, ONE, figures("M"))
    people(store, *said("H"), *[row for dimension in DIMENSIONS for row in said("M", dimension)])
    found = of(agreement(store, ONE, "people"))
    assert found.categories == ("Model", "Human")
    assert found.confusion == ((0, 1), (0, 0))


def test_two_sets_of_labels_can_be_compared(store: Path) -> None:
    for name, overalls in (("ann", "MMH"), ("bob", "MHH")):
        file = store.parent / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in said(overalls)), encoding="utf-8")
        import_labels(store, file, "diagram")
    sync(store)
    assert of(agreement(store, "ann", "bob")).agreement.value == pytest.approx(2 / 3)


def test_the_figures_of_two_systems_count_together_as_in_the_papers_check(store: Path) -> None:
    rows = [*figures("MHMHM", candidate="vanilla"), *figures("HHMMT", candidate="banana")]
    judged(store, ONE, rows)
    people(store, *said("MHMHM", candidate="vanilla"), *said("HHMMT", candidate="banana"))
    found = of(agreement(store, ONE, "people"))
    assert (found.n, found.tau.value) == (10, pytest.approx(1))
    # Five samples, though ten figures: those of one sample are drawn together.
    assert found.tau.why == "no interval below 50 samples"


def test_labels_without_a_candidate_need_a_single_one(store: Path) -> None:
    judged(store, ONE, [*figures("MH", candidate="vanilla"), *figures("HM", candidate="banana")])
    people(store, *said("MH"))
    with pytest.raises(ValueError, match=r"people does not tell whose.* several candidates: banana, vanilla; imp"):
        agreement(store, ONE, "people")


# Generated images

COUNTED = "20261122T120000-counting-0000cc"


def test_scores_of_images_are_compared_aspect_by_aspect_and_overall(store: Path) -> None:
    scores = [0.0, 2.0, 5.0, 5.0, 9.0, 10.0, 3.0, 4.0]
    rows = [image(f"{n:05}/0000", score, aspects=scored(count_accuracy=score)) for n, score in enumerate(scores)]
    judged(store, COUNTED, rows, flow="counting", parameters={"threshold": 7.0})
    theirs = [score + shift for score, shift in zip(scores, [0, 1, 1, -1, 0, 0, 4, 0], strict=True)]
    # Ann and Bob are a point to either side of the mean.
    labels = [
        {"filename": f"{n:05}/samples/0000.png", "score": min(10, max(0, score + shift)), "annotator": name}
        for n, score in enumerate(theirs)
        for name, shift in (("Ann", -0.5), ("Bob", 0.5))
    ]
    people(store, *labels, flow="counting")
    found = agreement(store, COUNTED, "people")
    overall = of(found, "overall_score", "counting")
    means = [0.25, *theirs[1:5], 9.75, *theirs[6:]]
    assert overall.n == 8
    assert overall.agreement.value == pytest.approx(7 / 8)
    assert overall.tau.value == pytest.approx(kendalltau(scores, means).statistic)
    assert (of(found, "count_accuracy", "counting").n, of(found, "count_accuracy", "counting").only_a) == (0, 8)
    assert overall.categories == ("0", "2", "3", "4", "5", "6", "7", "9", "10")
    assert sum(map(sum, overall.confusion)) == 8


def test_labels_without_tags_take_those_of_the_run(store: Path) -> None:
    colors = "20261122T120000-colors-0000cc"
    rows = [
        image("00001/0000", 8.0, flow="colors", tag="colors"),
        image("00002/0000", 3.0, flow="colors", tag="color_attr"),
    ]
    judged(store, colors, rows, flow="colors", parameters={"threshold": 7.0})
    people(store, {"id": "00001/0000", "score": 7}, {"id": "00002/0000", "score": 7}, flow="colors")
    found = agreement(store, colors, "people")
    assert [(each.tag, each.question, each.n) for each in found.questions] == [
        ("colors", "overall_score", 1),
        ("color_attr", "overall_score", 1),
    ]


# What the command says


def test_the_command_shows_what_fits_a_terminal(store: Path, jury: Jury) -> None:
    judged(store, ONE, figures("MMMMHHTTHH"))
    people(store, *said("MMMHHHTHH"), *said("MMMMMMMMM", "readability"))
    code, out, _ = jury("agreement", ONE, "people")
    assert code == 0
    assert "B: people, labels of diagram: 18 labels of people, people.jsonl" in out
    table = out.partition("\n\n")[2]
    assert all(len(line) <= 80 for line in table.splitlines()), table
    overall = next(line for line in out.splitlines() if line.startswith(" overall"))
    assert overall.split()[:5] == ["overall", "9", "7", "of", "9"]
    assert "kappa, tau-b undefined: B always the same: readability" in out
    assert "not paired, 1 answered by A alone: readability, overall" in out
    assert "overall, A in rows and B in columns" in out


def test_a_history_behind_the_ledgers_is_told_beside_the_answer(store: Path, jury: Jury) -> None:
    judged(store, ONE, figures("MH"))
    people(store, *said("MH"))
    judged(store, TWO, figures("MH"))
    code, out, err = jury("agreement", ONE, "people")
    assert code == 0 and out
    assert err == "jury: finished runs not yet in the history: 1; `jury sync` loads them\n"


def test_what_cannot_be_compared_is_told(store: Path, jury: Jury) -> None:
    judged(store, ONE, figures("MH"))
    judged(store, TWO, [outcome("x1")])
    judged(store, COUNTED, [image()], flow="counting", parameters={"threshold": 7.0})
    people(store, *said("MH"))
    for a, b, expected in (
        ("nobody", ONE, f"no run is called 'nobody'; the newest .* {ONE}; labels are people"),
        ("2026", ONE, f"'2026' is the beginning of several runs: {ONE}, {TWO}, {COUNTED}; labels are people"),
        (ONE, "20261120", "are both 20261120T120000-diagram-0000aa: agreement takes two"),
        (ONE, COUNTED, "is of diagram and .* of counting: they share no samples"),
        (TWO, "people", "have answered no question about the same sample: .* such as x1 of alpha; .* such as s00"),
    ):
        with pytest.raises(ValueError, match=expected):
            agreement(store, a, b)
    assert jury("agreement", "nobody", ONE)[0] == 2


def test_without_a_history_the_way_to_one_is_told(jury: Jury) -> None:
    code, _, err = jury("agreement", ONE, TWO)
    assert code == 2
    assert "holds no history yet" in err
