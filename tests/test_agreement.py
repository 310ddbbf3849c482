"""Agreement of judges with judges and with people: which answers are paired, and what the command prints."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy  # loads scipy.stats, which takes half a second, when a test uses it
from factories import DIMENSIONS, end, image, outcome, picture, scored, start, write_run
from factories import figures as made

from tasks.history.landing import land
from tasks.labels.agreement import Agreed, Agreement, agreement
from tasks.labels.labeling import import_labels
from tasks.records import Outcome
from tasks.statistics.concordance import Pairs, Statistic, kappa, paired, quadratic_kappa, raw_agreement, tau_b

ONE, TWO = "20261120T120000-diagram-0000aa", "20261121T120000-diagram-0000bb"
COUNTED = "20261122T120000-counting-0000cc"
WORDS = {"M": "Model", "H": "Human", "G": "Both are good", "B": "Both are bad", "T": "Tie"}
RATERS: list[Callable[[Path], None]] = []
"""Functions that write a rater to a store; landing all at once takes the time of landing two."""


def store_run(store: Path, run_id: str, rows: Sequence[Outcome], **changes: Any) -> None:
    candidates = tuple(dict.fromkeys(row.candidate for row in rows))
    ended = {"protocol": changes["protocol"]} if "protocol" in changes else {}
    write_run(store, start(run_id, candidates=candidates, samples=len(rows), **changes), [*rows], end(**ended))


def figures(overalls: str, **changes: Any) -> list[Outcome]:
    """Return a figure for each letter: its overall verdict and its verdict on every dimension."""
    return made(*((4 * letter.replace("T", "G"), WORDS[letter]) for letter in overalls), **changes)


def import_people(store: Path, *rows: dict[str, Any], flow: str = "diagram", name: str = "people") -> None:
    file = store.parent / f"{name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    import_labels(store, file, flow)


def labels_of(overalls: str, dimension: str = "overall", **more: str) -> list[dict[str, str]]:
    own = {"dimension": dimension, **more}
    return [{"id": f"s{n:02}", "verdict": WORDS[letter], **own} for n, letter in enumerate(overalls)]


def run_of(rows: Sequence[Outcome], flow: str = "diagram", **changes: Any) -> str:
    """Add a run to the store of all tests; return its id."""
    run_id = f"20261119T12{len(RATERS):02}00-{flow}-0000aa"
    RATERS.append(lambda store: store_run(store, run_id, rows, flow=flow, **changes))
    return run_id


def people_of(*rows: dict[str, Any], flow: str = "diagram") -> str:
    """Add labels to the store of all tests; return their name."""
    name = f"people-{len(RATERS)}"
    RATERS.append(lambda store: import_people(store, *rows, flow=flow, name=name))
    return name


def find(found: Agreement, question: str = "overall", tag: str = "") -> Agreed:
    return next(each for each in found.questions if (each.question, each.tag) == (question, tag))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("agreement") / "store"
    for write in RATERS:
        write(store)
    land(store)
    return store


# Judges


def run_of_checks(edited: str) -> str:
    keys = {f"c{number}": f"c{number}" for number in range(12)} | {"edited": edited}
    scores = scored(**{name: 8.0 * number for number, name in enumerate(keys)})
    checks = [each.model_copy(update={"asked_key": keys[each.aspect]}) for each in scores]
    return run_of([image(flow="facts", tag="together", aspects=checks)], "facts")


JUDGES = run_of(figures("MMMMHHTTHH")), run_of(figures("MMMHHHTHHM"))
GOOD_OR_BAD = run_of(figures("GBGBMMHHGB")), run_of(figures("BGBGMMHHBG"))
FORFEIT = outcome("s90", "----", None, status="forfeit", score=0.0)
UNDECIDED = outcome("s91", "G-GG", None, status="incomplete")
ONE_SIDE = (
    run_of([*figures("MMH"), FORFEIT, UNDECIDED]),
    run_of(
        [*figures("MHHH"), outcome("s90"), outcome("s91", "GHGG", "Human")],
        protocol={"temperature": "0.5", "prompt faithfulness": "edited"},
    ),
)
DRAWN = {"human": picture("s00h"), "model": picture("s00m")}
REDRAWN = {
    role: run_of([*figures("MMH")[1:], outcome("s00", pictures={**DRAWN, role: picture("another")})]) for role in DRAWN
}
CHECKS = run_of_checks("1"), run_of_checks("2")
SHARDS = [run_of(figures("MHMH")[2 * n - 2 : 2 * n], evaluation_id=ONE, shard=n, shards=2) for n in (1, 2)]


def test_two_judges_are_compared_by_dimension_and_overall(store: Path, jury: Any) -> None:
    code, out, err = jury("labels", "agreement", *(name[:13] for name in JUDGES), "--json", "--store", store)
    assert (code, err) == (0, "")
    found = Agreement.model_validate_json(out)
    assert (found.a.name, found.b.name) == JUDGES
    assert [each.question for each in found.questions] == [*DIMENSIONS, "overall"]
    overall = find(found)
    assert (overall.n, overall.only_a, overall.only_b, overall.other_picture) == (10, 0, 0, 0)
    assert overall.categories == ("Model", "Tie", "Human") and overall.confusion == ((3, 0, 1), (0, 1, 1), (1, 0, 3))
    # By hand: 7 of 10 agree; 0.4 * 0.4 + 0.2 * 0.1 + 0.4 * 0.5 would by chance.
    assert overall.agreement.value == pytest.approx(0.7) and overall.kappa.value == pytest.approx((0.7 - 0.38) / 0.62)
    worth = {"M": 2, "T": 1, "H": 0}
    tau = scipy.stats.kendalltau([worth[x] for x in "MMMMHHTTHH"], [worth[x] for x in "MMMHHHTHHM"]).statistic
    assert overall.tau.value == pytest.approx(tau)
    assert (overall.tau.ci_low, overall.tau.why) == (None, "no interval below 50 figures or prompts")


def test_kappa_separates_good_from_bad_and_tau_does_not(store: Path) -> None:
    found = find(agreement(store, *GOOD_OR_BAD), "aesthetics")
    assert found.categories == ("Model", "Both are good", "Both are bad", "Human")
    assert found.agreement.value == pytest.approx(0.4) and found.tau.value == 1


def test_answers_of_one_side_only_are_counted_but_not_compared(store: Path) -> None:
    found = agreement(store, *ONE_SIDE)
    assert found.b.about.endswith("; edited between the two: prompt faithfulness")
    assert (find(found).n, find(found).only_a, find(found).only_b) == (3, 0, 3)
    assert (find(found, "faithfulness").n, find(found, "faithfulness").only_b) == (4, 2)
    assert (find(found, "conciseness").n, find(found, "conciseness").only_b) == (3, 3)


@pytest.mark.parametrize("role", REDRAWN)
def test_figures_redrawn_between_two_runs_are_not_compared(store: Path, role: str) -> None:
    found = find(agreement(store, ONE_SIDE[0], REDRAWN[role]))
    assert (found.n, found.other_picture) == (2, 1)


def test_checks_edited_between_two_runs_are_not_compared(store: Path, jury: Any) -> None:
    found = find(agreement(store, *CHECKS), "checks", "together")
    assert (found.n, found.other_picture) == (12, 1)
    code, out, _ = jury("labels", "agreement", *CHECKS, "--store", store)
    assert code == 0 and "12 of 12" in out and "A in rows" not in out, "a table of twelve scores is too wide"


def test_shards_of_an_evaluation_count_as_one_rater(store: Path) -> None:
    assert ONE not in SHARDS and find(agreement(store, ONE, JUDGES[0])).n == 4


# People

VOTES = {"Ann": "MMM", "Bob": "MHH", "Eve": "HMT"}
SEVERAL = people_of(*(row for name, overalls in VOTES.items() for row in labels_of(overalls, annotator=name)))
SPLIT = [*labels_of("M", "faithfulness", annotator="Ann"), *labels_of("H", "faithfulness", annotator="Bob")]
MIXED = run_of([outcome("s00", "XMMM", "Model")]), people_of(*SPLIT)
BY_DIMENSION = {"faithfulness": "MGG", "readability": "GBG", "conciseness": "HHG", "aesthetics": "HGB"}
DERIVED = (
    run_of(figures("MHT")),
    people_of(*(row for dimension, verdicts in BY_DIMENSION.items() for row in labels_of(verdicts, dimension))),
)
BOTH = people_of(*labels_of("H"), *(row for dimension in DIMENSIONS for row in labels_of("M", dimension)))
POOLED = (
    run_of([*figures("MHMHM", candidate="vanilla"), *figures("HHMMT", candidate="banana")]),
    people_of(*labels_of("MHMHM", candidate="vanilla"), *labels_of("HHMMT", candidate="banana")),
)


def test_labels_of_several_people_are_merged(store: Path) -> None:
    found = find(agreement(store, JUDGES[0], SEVERAL))
    assert found.categories == ("Model", "Tie") and found.confusion == ((2, 1), (0, 0))


def test_split_labels_of_people_become_mixed_like_a_judges_votes(store: Path) -> None:
    found = agreement(store, *MIXED)
    assert find(found, "faithfulness").categories == ("Mixed",)


def test_overall_is_derived_from_peoples_labels_of_dimensions(store: Path) -> None:
    found = agreement(store, *DERIVED)
    assert find(found).confusion == ((1, 0, 0), (0, 1, 0), (0, 0, 1)) and find(found, "conciseness").n == 3


def test_peoples_overall_label_is_compared_with_the_tier_rule(store: Path) -> None:
    found = find(agreement(store, JUDGES[0], BOTH))
    assert found.categories == ("Model", "Human") and found.confusion == ((0, 1), (0, 0))


def test_figures_of_two_candidates_are_pooled_as_in_the_paper(store: Path) -> None:
    found = find(agreement(store, *POOLED))
    assert (found.n, found.tau.value) == (10, pytest.approx(1))
    # Ten figures but five samples: figures of one sample are resampled together.
    assert found.tau.why == "no interval below 50 figures or prompts"


def test_labels_without_candidate_need_a_run_of_one_candidate(store: Path) -> None:
    words = r"people-\d+ does not name the candidate.* several candidates: banana, vanilla; imp"
    with pytest.raises(ValueError, match=words):
        agreement(store, POOLED[0], SEVERAL)


# Generated images

IMAGES: dict[str, Any] = {"parameters": {"threshold": 7.0}}
SCORES = [0.0, 2.0, 5.0, 5.0, 9.0, 10.0, 3.0, 4.0]
THEIRS = [score + shift for score, shift in zip(SCORES, [0, 1, 1, -1, 0, 0, 4, 0], strict=True)]
SCORED = [image(f"{n:05}/0000", score, aspects=scored(count_accuracy=score)) for n, score in enumerate(SCORES)]
# Ann and Bob are half a point below and above the mean.
LABELLED = [
    {"id": f"{n:05}/0000", "score": min(10, max(0, score + shift)), "annotator": name}
    for n, score in enumerate(THEIRS)
    for name, shift in (("Ann", -0.5), ("Bob", 0.5))
]
COUNTING = run_of(SCORED, "counting", **IMAGES), people_of(*LABELLED, flow="counting")
TAGGED = [image(f"0000{n}/0000", flow="colors", tag=tag) for n, tag in enumerate(("colors", "color_attr"))]
COLORS = (
    run_of(TAGGED, "colors", **IMAGES),
    people_of(*({"id": f"0000{n}/0000", "score": 7} for n in range(2)), flow="colors"),
)


def test_image_scores_are_compared_by_aspect_and_overall(store: Path) -> None:
    found = agreement(store, *COUNTING)
    overall = find(found, "overall_score", "counting")
    means = [0.25, *THEIRS[1:5], 9.75, *THEIRS[6:]]
    assert overall.n == 8 and overall.agreement.value == pytest.approx(7 / 8)
    assert overall.tau.value == pytest.approx(scipy.stats.kendalltau(SCORES, means).statistic)
    assert (find(found, "count_accuracy", "counting").n, find(found, "count_accuracy", "counting").only_a) == (0, 8)
    assert overall.categories == ("0", "2", "3", "4", "5", "6", "7", "9", "10")
    assert sum(map(sum, overall.confusion)) == 8


def test_labels_without_tags_take_the_runs_tags(store: Path) -> None:
    found = agreement(store, *COLORS)
    questions = [(each.tag, each.question, each.n) for each in found.questions]
    assert questions == [("colors", "overall_score", 1), ("color_attr", "overall_score", 1)]


# Output of the command


PRINTED = people_of(*labels_of("MMMHHHTHH"), *labels_of("MMMMMMMMM", "readability"))


def test_command_prints_tables_that_fit_a_terminal(store: Path, jury: Any) -> None:
    code, out, _ = jury("labels", "agreement", JUDGES[0], PRINTED, "--store", store)
    assert code == 0 and f"B: {PRINTED}, labels of diagram: 18 labels of people, {PRINTED}.jsonl" in out
    table = out.partition("\n\n")[2]
    assert all(len(line) <= 80 for line in table.splitlines()), table
    overall = next(line for line in out.splitlines() if line.startswith(" overall"))
    assert overall.split()[:5] == ["overall", "9", "7", "of", "9"]
    assert "kappa, tau-b undefined: B always the same: readability" in out
    assert "not paired, 1 answered by A alone: readability, overall" in out
    assert "overall, A in rows and B in columns" in out


def test_incomparable_raters_get_an_error_message(tmp_path: Path, jury: Any) -> None:
    store = tmp_path / "store"
    store_run(store, ONE, figures("MH"))
    store_run(store, TWO, [outcome("x1")])
    store_run(store, COUNTED, [image()], flow="counting", parameters={"threshold": 7.0})
    import_people(store, *labels_of("MH"))
    land(store)
    for a, b, expected in (
        ("nobody", ONE, f"no run is called 'nobody'; the newest .* {ONE}; labels are people"),
        ("2026", ONE, f"'2026' is the beginning of several runs: {ONE}, {TWO}, {COUNTED}; labels are people"),
        (ONE, "20261120", "are both 20261120T120000-diagram-0000aa: agreement takes two"),
        (ONE, COUNTED, "is of diagram and .* of counting: they share no samples"),
        (TWO, "people", "have answered no question about the same sample: .* such as x1 of alpha; .* such as s00"),
    ):
        with pytest.raises(ValueError, match=expected):
            agreement(store, a, b)
    assert jury("labels", "agreement", "nobody", ONE)[0] == 2


# Values against published tables and scipy, their intervals, and undefined cases


def table(*rows: list[int]) -> Pairs:
    cells = [(a, b) for a, row in enumerate(rows) for b, n in enumerate(row) for _ in range(n)]
    return each_alone([a for a, _ in cells], [b for _, b in cells])


def each_alone(first: list[float], second: list[float]) -> Pairs:
    return paired(first, second, [f"s{n}" for n in range(len(first))])


# Values


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([[20, 5], [10, 15]], 0.4),
        ([[45, 15], [25, 15]], 6 / 46),
        ([[0, 10], [10, 0]], -1.0),
        ([[25, 25], [25, 25]], 0.0),
        # Cohen (1960), two psychologists and 200 patients: 0.70 agree, 0.41 would by chance.
        ([[88, 14, 18], [10, 40, 10], [2, 6, 12]], 0.29 / 0.59),
    ],
)
def test_kappa_matches_published_and_hand_made_tables(counts: list[list[int]], expected: float) -> None:
    assert kappa(table(*counts)).value == pytest.approx(expected)


def test_quadratic_kappa_equals_concordance_of_scores() -> None:
    # By hand: covariance 1.625, variances 1.25 and 2.1875, means 0.25 apart: 2 * 1.625 / (1.25 + 2.1875 + 0.0625).
    assert quadratic_kappa(each_alone([1, 2, 3, 4], [1, 2, 3, 5])).value == pytest.approx(13 / 14)
    assert quadratic_kappa(each_alone([0.5, 2.5], [2.5, 0.5])).value == pytest.approx(-1)


@pytest.mark.parametrize("levels", [2, 3, 11, 1000])
@pytest.mark.parametrize("n", [5, 50, 100])
def test_tau_matches_scipys_tau_b(levels: int, n: int) -> None:
    random = np.random.default_rng(levels * n)
    first = random.integers(0, levels, n)
    second = np.where(random.random(n) < 0.5, first, random.integers(0, levels, n))
    assert tau_b(each_alone([*first], [*second])).value == pytest.approx(
        scipy.stats.kendalltau(first, second).statistic
    )


def test_raw_agreement_counts_scores_within_a_tolerance() -> None:
    pairs = each_alone([1, 2, 3, 4], [1, 3, 3, 9])
    assert raw_agreement(pairs).value == 0.5 and raw_agreement(pairs, within=1).value == 0.75
    assert raw_agreement(each_alone([4.4], [3.4]), within=1).value == 1  # 1.0000000000000004 apart


# Intervals


def test_kappa_interval_is_near_the_normal_approximation() -> None:
    # Cohen's standard error: sqrt(0.6 * 0.4 / 100) / (1 - 0.54) = 0.1065 around 6/46.
    found = kappa(table([45, 15], [25, 15]))
    assert (found.ci_low, found.ci_high) == pytest.approx((-0.078, 0.339), abs=0.03)


def test_images_of_one_prompt_are_resampled_together() -> None:
    first, second = [1, 2, 3, 4, 5, 6, 7, 8, 9, 9] * 5, [2, 2, 1, 5, 5, 9, 6, 8, 9, 7] * 5
    names = [str(n) for n in range(50)]
    once, fourfold = paired(first, second, names), paired(first * 4, second * 4, names * 4)
    for measure in (raw_agreement, quadratic_kappa, tau_b):
        one, four = measure(once), measure(fourfold)
        assert [four.value, four.ci_low, four.ci_high] == pytest.approx([one.value, one.ci_low, one.ci_high])
        assert one.ci_low is not None


def test_agreement_below_fifty_samples_has_no_interval() -> None:
    found = raw_agreement(each_alone([1] * 49, [1] * 48 + [2]))
    assert found == Statistic(value=48 / 49, why="no interval below 50 figures or prompts")
    assert raw_agreement(each_alone([1] * 50, [1] * 49 + [2])).ci_low is not None


def test_perfect_agreement_is_not_reported_as_certain() -> None:
    pairs = each_alone([1, 2] * 25, [1, 2] * 25)
    raw = raw_agreement(pairs)
    assert (raw.value, raw.ci_low, raw.ci_high) == (1, pytest.approx(0.025 ** (1 / 50)), 1)
    for found in (kappa(pairs), quadratic_kappa(pairs), tau_b(pairs)):
        assert found.value == 1 and found.ci_low is None and found.why.startswith("no interval: resampling cannot tell")


# Undefined cases


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ([1] * 10, [1] * 10, "undefined: A and B always the same"),
        ([1] * 10, [1, 2] * 5, "undefined: A always the same"),
        ([1, 2] * 5, [1] * 10, "undefined: B always the same"),
        ([], [], "nothing paired"),
    ],
)
def test_rater_with_one_answer_has_neither_kappa_nor_tau(first: list[float], second: list[float], why: str) -> None:
    pairs = each_alone(first, second)
    assert kappa(pairs) == quadratic_kappa(pairs) == tau_b(pairs) == Statistic(value=None, why=why)


def test_one_different_answer_is_too_few_for_an_interval() -> None:
    # A third of all resamples lack it; their kappa is undefined.
    found = kappa(each_alone([1] * 49 + [2], [1] * 49 + [2]))
    assert found == Statistic(value=1.0, why="no interval: too few different answers")
