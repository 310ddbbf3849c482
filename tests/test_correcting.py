"""Scores corrected by people's labels: the correction, which labels count, and the reasons given for others."""

import html
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answered_page import COUNTING, figures_store, images_store, make_page, prefer, save_answers
from factories import RUN, finished, outcome, picture
from simulate_labels import HARD, WORLDS, World, simulate
from written_history import ask

from tasks.history.derived_tables import Correction
from tasks.history.landing import land, rebuild
from tasks.history.queries import as_json_rows, held_together, query
from tasks.labels.labeling import import_labels
from tasks.ledger.labels import ABOUT, LABEL_PAGES, LabelItem, LabelPage, label_folder, read_page
from tasks.ledger.run_files import folder, read_judgments, read_outcomes
from tasks.pages.queries import people_lines_of
from tasks.statistics.intervals import FIXED, TUNED_FROM, corrected

pytestmark = pytest.mark.usefixtures("without_pages")

LATER = "20261121T120000-diagram-0000bb"
CORRECTED = "SELECT dimension, corrected, corrected_low, corrected_high, labels, people, agreed, why FROM corrected"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with 40 pairs; the judge prefers Model in half of them, Human in the others."""
    return figures_store(tmp_path_factory.mktemp("label") / "store")


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "store"))


def answer(store: Path, page: LabelPage, number: int | None = None, **people: Callable[..., str]) -> None:
    """Import the answers of these people to the first items of a page."""
    for name, say in people.items():
        import_labels(store, save_answers(page, store.parent / f"{name}.json", say, name, number))


def label(store: Path, *options: str, **answers: Any) -> None:
    """Make a label page, and import answers to it."""
    answer(store, make_page(store, store.parent / f"{'-'.join(answers)}.html", *options), **answers)
    land(store)


def unsure_of(*tokens: str) -> Callable[[LabelItem, str], str]:
    """Return the answers of a person who prefers Model, but cannot tell of these items."""
    return lambda item, question: "cannot tell" if item.token in tokens else prefer("model")(item, question)


@pytest.fixture(scope="module")
def labelled(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store with a page on which one person prefers Model throughout; tests copy it."""
    store = Path(shutil.copytree(kept, tmp_path_factory.mktemp("labelled") / "store"))
    label(store, ann=prefer("model"))
    return store


def test_score_is_corrected_from_15_labels_on(store: Path, jury: Any) -> None:
    label(store, ann=prefer("human"), number=14)
    [row] = ask(store, CORRECTED)
    assert row[:2] == ("overall", None) and row[4] == 14 and row[7] == "15 labels are needed, 14 count"
    assert jury("labels", "remove", "ann")[0] == 0
    assert ask(store, CORRECTED) == []
    label(store, ben=prefer("human"))
    with held_together(store):
        [(_, value, low, high, labels, people, agreed, why)] = ask(store, CORRECTED)
        assert (labels, people, why) == (30, 1, "")
        assert 0 <= low <= value <= high < 50 and value < 20  # people: Human in all 30; the judge: 50
        drawn = ask(store, "SELECT list(sample_id) FROM labels")[0][0]
        lost = sum(int(name[-3:]) % 2 == 0 for name in drawn)
        assert agreed == pytest.approx(lost / 30)
        assert ask(store, "SELECT score, ci_low < 50, shift < 0 FROM corrected") == [(50.0, True, True)]
        code, out, _ = jury("query", "corrected")
        assert code == 0 and "corrected_low" in out
        jury("report", RUN, "-o", store.parent / "report.html")
        report = (store.parent / "report.html").read_text()
        words = f"{value:.1f} [{low:.1f}, {high:.1f}]"
        assert f"corrected by people {words} (30 labels of 1 person, {agreed:.0%} as the judge)" in report
        [line] = people_lines_of(store, RUN)
        assert line in html.unescape(report) and "What people say</strong> 1 line on their labels" in report
        told = f"corrected by 30 labels of 1 person: {words}; judge and"
        assert line.startswith(f"alpha, overall: 50.0 by the judge; {told}")
        assert re.search(rf"; judge and people agree on {agreed:.0%} \[\d+, \d+\] of 30", line)


def test_people_are_compared_on_the_samples_they_share(store: Path) -> None:
    label(store, ann=prefer("human"), ben=prefer("model"))
    sql = "SELECT labels, people, shared, people_agreed, people_agreed_high, names FROM corrected"
    [(labels, people, shared, agreed, high, names)] = ask(store, sql)
    # Two people who contradict each other have no majority: a tie.
    assert (labels, people, shared, agreed, names) == (30, 2, 30, 0.0, ["ann", "ben"])
    assert 0.1 < high < 0.13
    [row] = as_json_rows(query(store, "corrections"))
    found = Correction.model_validate(row)
    assert (found.people_agreed_low, found.people_agreed, found.people_agreed_high) == (0.0, 0.0, high)
    # 30 are too few for an interval of kappa, and each person gives only one answer.
    assert (found.people_kappa_low, found.people_kappa_high) == (None, None)
    assert found.agreed == 0.0 and found.agreed_low == 0.0 and found.agreed_high == high
    assert (found.corrected_low, found.corrected_high, found.bounds_low, found.bounds_high) == (None,) * 4
    assert found.corrected is None and "two people who share 30 samples agree no better than by chance" in found.why
    assert "people agree with each other on 0% [0, 12] of 30" in people_lines_of(store, RUN)[0]


def test_shared_items_count_though_people_could_not_tell_some(store: Path) -> None:
    page = make_page(store, store.parent / "label.html", "-n", "20")
    answer(store, page, ann=prefer("human"), ben=unsure_of(page.items[0].token))
    land(store)
    sql = "SELECT labels, cannot_tell, shared, corrected, why FROM corrected"
    [(labels, undecided, shared, corrected, why)] = ask(store, sql)
    assert (labels, undecided) == (20, 0), "the answer of one person replaces another's cannot tell"
    assert (shared, corrected) == (19, None) and "who share 20 samples agree no better than by chance" in why


def test_pages_of_several_people_share_items_and_are_pooled(store: Path, jury: Any) -> None:
    options = ["-n", 24, "--people", 3]
    code, out, _ = jury("labels", "page", RUN, *options, "-o", store.parent / "label.html")
    assert code == 0 and f"32 samples drawn from 40 of {RUN}, uniformly" in out
    assert all((store.parent / f"label-{number}.html").exists() for number in (1, 2, 3))
    for number, file in enumerate(sorted((store / LABEL_PAGES).glob("*.json"))):
        answer(store, read_page(store, file.stem), **{f"reader-{number}": prefer("human")})
    land(store)
    assert ask(store, "SELECT labels, people, shared, people_agreed FROM corrected") == [(32, 3, 20, 1.0)]


def test_kappa_has_an_interval_from_50_labels_on(tmp_path: Path) -> None:
    def now_and_then(item: LabelItem, question: str) -> str:
        return prefer("model" if item.token < "8" else "human")(item, question)

    store = figures_store(tmp_path / "store", 50)
    label(store, "-n", "50", ann=now_and_then)
    sql = "SELECT agreed, kappa, kappa_low < kappa AND kappa < kappa_high, people_kappa FROM corrected"
    [(agreed, kappa, inside, people_kappa)] = ask(store, sql)
    assert inside and people_kappa is None and kappa < agreed
    assert f"of 50 (kappa {kappa:.2f})" in people_lines_of(store, RUN)[0]
    label(store, "-n", "20", ben=now_and_then)
    assert ask(store, "SELECT shared, people_kappa_low FROM corrected") == [(20, None)]


@pytest.mark.parametrize("skipped", [5, 10])
def test_undecided_labels_are_counted_and_shown_as_bounds(store: Path, skipped: int) -> None:
    """If people could not tell more than a fifth of the 30 shown, only bounds are shown."""
    page = make_page(store, store.parent / "a.html")
    by_id = sorted(page.items, key=lambda item: item.sample_id)  # the page has an order of its own each time
    answer(store, page, ann=unsure_of(*(item.token for item in by_id[:skipped])))
    land(store)
    sql = "SELECT labels, cannot_tell, corrected, corrected_low, corrected_high, bounds_low, bounds_high FROM corrected"
    [(labels, undecided, value, low, high, lowest, best)] = ask(store, sql)
    assert (labels, undecided) == (30 - skipped, skipped)
    [line] = people_lines_of(store, RUN)
    bounds = f"between {lowest:.1f} and {best:.1f} whatever those are"
    if skipped == 10:
        assert value is None and f"not corrected by people: people could not tell 10 of 30, and {bounds}" in line
    else:
        assert f"if those without an answer of judge or people are like the others, and {bounds}" in line
        assert lowest < low < value < high <= best
        assert best - lowest == pytest.approx(high - low + 100 * skipped / 30, rel=0.15)


WHY_NOT: list[tuple[dict[str, Any], str]] = [
    ({"prompts": {"faithfulness": "e" * 64}}, "of another protocol, whose prompts put other questions"),
    ({"dataset_key": "e" * 64}, "of another dataset"),
    ({}, "30 of its 30 answers are about other pictures"),
]
"""What a later run changed of the inputs, and why labels do not count for it; the last one has other pictures."""


def test_labels_count_for_later_runs_by_any_judge_of_the_same_inputs(labelled: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(labelled, tmp_path / "store"))
    rows = [*read_judgments(folder(store, RUN)), *read_outcomes(folder(store, RUN))]
    others = [row.model_copy(update={"pictures": {"human": picture("a"), "model": picture("b")}}) for row in rows]
    later = [f"2026112{day}T120000-diagram-0000bb" for day in range(1, 5)]
    begun = ({"judge": "another"}, *(changes for changes, _ in WHY_NOT))
    unscored = [outcome(f"unread-{at}", "----", None, status="incomplete") for at in range(10)]
    for run_id, changes, about in zip(later, begun, ([*rows, *unscored], rows, rows, others), strict=True):
        key = "q" if "judge" in changes else "p"
        finished(store, run_id, about, key, samples=40, **changes)
    land(store)
    sql = "SELECT run_id, labels, corrected > score, bounds_low / corrected_low FROM corrected WHERE labels > 0"
    # The other judge did not score a fifth of the samples, and people may find each of them worse.
    assert ask(store, sql) == [(later[0], 30, True, pytest.approx(0.8)), (RUN, 30, True, None)]
    for run_id, (_, why) in zip(later[1:], WHY_NOT, strict=True):
        sql = f"SELECT corrected, labels, why FROM corrected WHERE run_id = '{run_id}'"
        reason = f"15 labels are needed, 0 count; ann does not count: {why}"
        assert ask(store, sql) == [(None, 0, reason)]
        line = f"alpha, overall: 50.0 by the judge; not corrected by people: {reason}"
        assert people_lines_of(store, run_id) == [line]


def test_labels_not_drawn_uniformly_correct_no_score(labelled: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(labelled, tmp_path / "store"))
    about = label_folder(store, "ann") / ABOUT
    about.write_text(about.read_text().replace('"uniform"', '"by hand"'))
    rebuild(store)
    [(corrected, why)] = ask(store, "SELECT corrected, why FROM corrected")
    assert corrected is None and "ann does not count: not drawn uniformly" in why


def test_images_are_corrected_by_prompt(tmp_path: Path) -> None:
    store = images_store(tmp_path / "store")
    page = make_page(store, tmp_path / "a.html", run=COUNTING)
    answer(store, page, ann=lambda _, question: "8" if question == "overall_score" else "3")
    land(store)
    [row] = ask(store, "SELECT dimension, score, labels, agreed, why FROM corrected")
    # Two images of one prompt: the judge scores 8.5 and 2.0; the first is within a point of people's score.
    assert row == ("counting", 5.25, 1, 0.5, "15 labels are needed, 1 count")


# Corrected values, and coverage of their intervals


def test_score_of_a_lenient_judge_is_lowered() -> None:
    judge = [100.0] * 60 + [0.0] * 40
    people = [0.0] * 6 + [100.0] * 12 + [0.0] * 12
    found = corrected(judge, [100.0] * 18 + [0.0] * 12, people)
    assert found
    # People prefer 12 of 30. The judge prefers 60% of the drawn and 60% of all, which moves nothing.
    assert found.value == pytest.approx(40) and found.weight == FIXED
    assert found.ci_low < 40 < found.ci_high < 60


def test_sample_that_differs_from_the_rest_is_adjusted_by_the_weight() -> None:
    found = corrected([100.0] * 50 + [0.0] * 50, [100.0] * 20 + [0.0] * 10, [100.0] * 20 + [0.0] * 10)
    assert found and found.value == pytest.approx(100 * 20 / 30 - FIXED * (100 * 20 / 30 - 50))


def test_missing_outputs_score_zero_after_correction() -> None:
    judge, drawn = [100.0] * 45 + [50.0] * 45, [100.0] * 15 + [50.0] * 15
    whole, part = corrected(judge, drawn, drawn), corrected(judge, drawn, drawn, zeros=10)
    assert whole and part and part.value == pytest.approx(0.9 * whole.value) and part.ci_high < whole.ci_high


def test_interval_of_equal_labels_has_a_width() -> None:
    found = corrected([0.0] * 100, [0.0] * 30, [0.0] * 30)
    assert found and (found.value, found.ci_low) == (0.0, 0.0) and 5 < found.ci_high < 20
    # Also if the judge's scores differ: 30 labels without Model leave up to 11.6% possible.
    mixed = corrected([100.0, 0.0] * 20, [100.0, 0.0] * 15, [0.0] * 30)
    assert mixed and mixed.value == 0.0 and mixed.ci_high == pytest.approx(11.57, abs=0.01)


def test_weight_is_tuned_from_many_labels() -> None:
    random = np.random.default_rng(1)
    judge = random.choice([0.0, 50.0, 100.0], 400)
    noise = random.choice([0.0, 50.0, 100.0], 400)
    near, far = (corrected(list(judge), list(judge[:TUNED_FROM]), list(human[:TUNED_FROM])) for human in (judge, noise))
    assert near and far and near.weight > 0.9 and far.weight < 0.2
    assert near.ci_high - near.ci_low < far.ci_high - far.ci_low


@pytest.mark.parametrize(("world", "labels", "least"), [(HARD[1], 15, 0.9), (WORLDS[1], 60, 0.93)])
def test_intervals_cover_the_truth_for_a_lenient_judge(world: World, labels: int, least: float) -> None:
    found = simulate(world, labels, runs=200)
    assert found.covered >= least - 0.05  # three standard errors of 200 runs; `make simulate-labels` has 1,000
    assert found.width < found.people_width and found.judge_covered < 0.2 and abs(found.bias) < 2.5
