"""What people's labels make of scores in the history, which of them count, and what is said of others."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answered_page import COUNTING, figures_store, images_store, made_page, prefer, saved
from factories import RUN
from written_history import ask, keep, pair

from flows.cli import main
from tasks.history.asking import as_json_rows, query
from tasks.history.correcting import Correction
from tasks.history.loading import sync
from tasks.ledger.label_pages import FOLDER, LabelItem, read_page
from tasks.pages.people_words import people_lines_of

pytestmark = pytest.mark.usefixtures("laid_out", "drawn_here", "without_pages")

Jury = Callable[..., tuple[int, str, str]]
LATER = "20261121T120000-diagram-0000bb"
TOLD = "SELECT dimension, corrected, corrected_low, corrected_high, labels, people, agreed, why FROM corrected"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 pairs, half of them Model, half Human in the eyes of the judge."""
    return figures_store(tmp_path_factory.mktemp("label") / "store")


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "store"))


def brought(
    store: Path, say: Callable[[LabelItem, str], str], name: str = "reader-1", *options: str, **more: Any
) -> None:
    """Make a page, let a person answer it, and import what is saved."""
    page = made_page(store, store.parent / f"{name}.html", *options)
    file = saved(page, store.parent / f"{name}.json", say, name, **more)
    assert main(["labels", "import", str(file), "--store", str(store)]) == 0


def later(store: Path, **changes: Any) -> None:
    """The same figures judged again, another way."""
    rows = [row for at in range(40) for row in pair(f"secret-{at:03}", "GGGG", "Tie")]
    pictures = changes.pop("pictures", None)
    if pictures:
        rows = [row.model_copy(update={"pictures": pictures}) for row in rows]
    keep(store, LATER, rows, samples=40, started_at="2026-11-21T12:00:00+00:00", **changes)


def test_a_score_is_corrected_by_15_labels_and_stands_beside_the_raw_one(store: Path, jury: Jury) -> None:
    brought(store, prefer("human"), number=14)
    [row] = ask(store, TOLD)
    assert row[:2] == ("overall", None) and row[4] == 14 and row[7] == "15 labels are needed, 14 count"
    assert jury("labels", "remove", "reader-1")[0] == 0
    assert ask(store, TOLD) == []
    brought(store, prefer("human"), "reader-2")
    [(_, value, low, high, labels, people, agreed, why)] = ask(store, TOLD)
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
    assert f"corrected by people {words}" in report and "What people say" in report
    assert re.search(rf"judge and people agree on {agreed:.0%} of 30, which can mean \d+-\d+%", report)
    said = f"alpha, overall: {words} corrected by 30 labels of 1 person; the judge alone: 50.0"
    assert said in people_lines_of(store, RUN) and said in report


def test_people_are_compared_with_each_other_on_what_they_share(store: Path) -> None:
    brought(store, prefer("human"), "reader-1")
    brought(store, prefer("model"), "reader-2")
    sql = "SELECT labels, people, shared, people_agreed, people_agreed_high, names FROM corrected"
    [(labels, people, shared, agreed, high, names)] = ask(store, sql)
    # Of two people who say the opposite there is no majority, which counts as a tie.
    assert (labels, people, shared, agreed, names) == (30, 2, 30, 0.0, ["reader-1", "reader-2"])
    assert 0.1 < high < 0.13
    [row] = as_json_rows(query(store, "corrections"))
    told = Correction.model_validate(row)
    assert (told.people_agreed_low, told.people_agreed, told.people_agreed_high) == (0.0, 0.0, high)
    # 30 are too few for an interval of kappa, and here each says one thing of all.
    assert (told.people_kappa_low, told.people_kappa_high) == (None, None)
    assert told.agreed == 0.0 and told.agreed_low == 0.0 and told.agreed_high == high
    # Ties, brought nearer to 50 by half of what the judge's own score of the drawn lies above or below that of all.
    assert told.corrected and told.corrected_low and told.corrected_high
    assert 40 < told.corrected_low < told.corrected < told.corrected_high < 60
    lines = people_lines_of(store, RUN)
    assert "people agree with each other on 0% of 30, which can mean 0-12%" in lines[1]


def test_several_people_with_a_page_each_share_some_items_and_count_together(store: Path, jury: Jury) -> None:
    asked = ["-n", 12, "--people", 3, "--overlap", 4]
    code, out, _ = jury("label", RUN, *asked, "-o", store.parent / "label.html")
    assert code == 0 and f"28 samples drawn from 40 of {RUN}, uniformly" in out
    assert all((store.parent / f"label-{number}.html").exists() for number in (1, 2, 3))
    for number, file in enumerate(sorted((store / FOLDER).glob("*.json"))):
        name = f"reader-{number}"
        answers = saved(read_page(store, file.stem), store.parent / f"{name}.json", prefer("human"), name)
        assert jury("labels", "import", answers)[0] == 0
    assert ask(store, "SELECT labels, people, shared, people_agreed FROM corrected") == [(28, 3, 4, 1.0)]


def test_kappa_stands_beside_agreement_and_has_its_interval_from_50_on(tmp_path: Path) -> None:
    def now_and_then(item: LabelItem, question: str) -> str:
        return prefer("model" if item.token < "8" else "human")(item, question)

    store = figures_store(tmp_path / "store", 60)
    brought(store, now_and_then, "reader-1", "-n", "60")
    sql = "SELECT agreed, kappa, kappa_low < kappa AND kappa < kappa_high, people_kappa FROM corrected"
    [(agreed, kappa, inside, people_kappa)] = ask(store, sql)
    assert inside and people_kappa is None and kappa < agreed
    [_, line] = people_lines_of(store, RUN)
    assert re.search(rf"of 60, which can mean .*, kappa {kappa:.2f} \[−?-?\d", line)
    brought(store, now_and_then, "reader-2", "-n", "20")
    assert ask(store, "SELECT shared, people_kappa_low FROM corrected") == [(20, None)]


def test_cannot_tell_is_no_answer_and_is_counted(store: Path) -> None:
    page = made_page(store, store.parent / "a.html")
    doubtful = {item.token for item in page.items[:5]}
    say = prefer("model")
    file = saved(
        page, store.parent / "a.json", lambda item, q: "cannot tell" if item.token in doubtful else say(item, q)
    )
    assert main(["labels", "import", str(file), "--store", str(store)]) == 0
    assert ask(store, "SELECT labels, cannot_tell FROM corrected") == [(25, 5)]


def test_labels_count_for_later_runs_of_the_same_pictures_and_prompts_by_any_judge(store: Path) -> None:
    brought(store, prefer("model"))
    later(store, model="another", ended={"protocol_key": "q" * 64})
    found = ask(store, "SELECT run_id, labels, corrected > score FROM corrected")
    assert found == [(LATER, 30, True), (RUN, 30, True)]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"prompts": {"faithfulness": "e" * 64}}, "of another protocol, whose prompts put other questions"),
        ({"dataset_key": "e" * 64}, "of another dataset"),
        ({"pictures": {}}, "30 of its 30 answers are about other pictures"),
    ],
)
def test_labels_of_something_else_do_not_count_and_that_is_said(store: Path, changes: dict[str, Any], why: str) -> None:
    if "pictures" in changes:
        from factories import picture

        changes = {"pictures": {"human": picture("other"), "model": picture("another")}}
    brought(store, prefer("model"))
    later(store, **changes)
    [(corrected, labels, told)] = ask(store, f"SELECT corrected, labels, why FROM corrected WHERE run_id = '{LATER}'")
    assert (corrected, labels) == (None, 0)
    assert people_lines_of(store, LATER) == [f"alpha, overall: not corrected by people: {told}"]
    assert told == f"15 labels are needed, 0 count; reader-1 does not count: {why}"


def test_labels_drawn_by_disagreements_correct_no_score(tmp_path: Path) -> None:
    store = tmp_path / "store"
    keep(store, RUN, [row for at in range(20) for row in pair(f"s{at}", "XMMM", "Model")], samples=20)
    brought(store, prefer("human"), "reader-1", "--disagreements")
    [(corrected, why)] = ask(store, "SELECT corrected, why FROM corrected")
    assert corrected is None and "drawn by disagreements, for finding errors" in why


def test_a_rebuilt_history_has_the_same_corrections(store: Path) -> None:
    brought(store, prefer("human"))
    before = ask(store, "FROM corrected")
    sync(store, rebuild=True)
    assert ask(store, "FROM corrected") == before and len(before) == 1


def test_images_are_corrected_by_prompt(tmp_path: Path) -> None:
    store = images_store(tmp_path / "store")
    page = made_page(store, tmp_path / "a.html", run=COUNTING)
    file = saved(page, tmp_path / "a.json", lambda _, question: "8" if question == "overall_score" else "3")
    assert main(["labels", "import", str(file), "--store", str(store)]) == 0
    [row] = ask(store, "SELECT dimension, score, labels, agreed, why FROM corrected")
    # Two images of one prompt: 8.5 and 2.0 by the judge; the first is within a point of what people say.
    assert row == ("counting", 5.25, 1, 0.5, "15 labels are needed, 1 count")
