"""The report page: what stands on it, and what strangers cannot do in it."""

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factories import judgment, outcome
from written_history import EARLIER, LATER, figures, keep, write_evaluations, written

from tasks.history import asking as history
from tasks.pages import queries
from tasks.records import SAME

pytestmark = pytest.mark.usefixtures("drawn_here", "laid_out")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_evaluations(tmp_path_factory.mktemp("page") / "store")


@pytest.fixture(scope="module")
def report(store: Path) -> Path:
    return written(store, store.parent / "report.html")


def data(page: Path) -> list[dict[str, Any]]:
    """The samples in a page."""
    found = re.search(r'<script type="application/json" id="samples">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    return json.loads(found[1])


# What is on the page


def test_the_newest_evaluation_is_shown_with_all_its_samples_in_the_order_of_their_numbers(report: Path) -> None:
    assert [card["id"] for card in data(report)] == [f"s{number}" for number in range(1, 13)]
    text = report.read_text()
    assert LATER in text and "11/12 samples scored" in text


def test_a_run_can_be_named_by_its_beginning_and_the_last_ones_share_a_page(store: Path, tmp_path: Path) -> None:
    one = written(store, tmp_path / "one.html", EARLIER[:9])
    assert f"Run {EARLIER}" in one.read_text()
    two = written(store, tmp_path / "two.html", "--flow", "diagram", "--last", "2")
    assert {card["run"] for card in data(two)} == {0, 1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["20201111"], "no run is called '20201111'"),
        (["2026111"], "is the beginning of several runs"),
        (["--flow", "plot"], "no finished plot evaluation"),
        (["--last", "99"], "--last 99: a page holds 1 to 20"),
        ([LATER, "--last", "2"], "not both"),
    ],
)
def test_what_cannot_be_reported_is_said(
    store: Path, jury: Callable[..., tuple[int, str, str]], arguments: list[str], said: str
) -> None:
    code, _, err = jury("report", *arguments, "--store", store, "-o", store.parent / "none.html")
    assert code == 2 and said in err
    assert not (store.parent / "none.html").exists()


def test_fewer_evaluations_than_were_asked_for_are_told(store: Path, jury: Callable[..., tuple[int, str, str]]) -> None:
    place = store.parent / "three.html"
    code, out, _ = jury("report", "--flow", "diagram", "--last", "3", "--store", store, "-o", place)
    assert code == 0 and "\n3 evaluations were asked for, there are 2: the page has all\n" in out
    _, out, _ = jury("report", "--flow", "diagram", "--last", "2", "--store", store, "-o", place)
    assert "were asked for" not in out


def test_a_ledger_of_junk_costs_the_page_nothing(
    store: Path, tmp_path: Path, jury: Callable[..., tuple[int, str, str]]
) -> None:
    shutil.copytree(store, tmp_path / "store")
    strange = tmp_path / "store" / "ledger" / "20261130T120000-diagram-0000ff"
    strange.mkdir()
    for name in ("run.json", "end.json", "judgments.jsonl", "outcomes.jsonl"):
        (strange / name).write_bytes(b"\xff\x00junk" * 1_500_000)
    code, out, err = jury("report", "-o", tmp_path / "page.html")
    assert code == 0 and LATER in out and "finished runs not yet in the history: 1" in err
    assert len(data(tmp_path / "page.html")) == 12


def test_no_folder_is_made_for_a_report(store: Path, jury: Callable[..., tuple[int, str, str]]) -> None:
    place = store.parent / "no" / "such"
    code, _, err = jury("report", "--store", store, "-o", place / "x.html")
    assert code == 2 and f"there is no folder {place}: make it" in err
    assert not place.parent.exists()
    (store.parent / "notes.txt").touch()
    code, _, err = jury("report", "--store", store, "-o", store.parent / "notes.txt" / "x.html")
    assert code == 2 and f"there is no folder {store.parent / 'notes.txt'}: " in err


def test_a_folder_is_no_file_to_write_the_report_to(store: Path, jury: Callable[..., tuple[int, str, str]]) -> None:
    place = store.parent / "pages"
    place.mkdir()
    code, _, err = jury("report", "--store", store, "-o", place)
    assert code == 2 and f"{place} is a folder: name a file" in err
    assert list(place.iterdir()) == []


def test_the_sql_beneath_every_figure_can_be_asked_again(store: Path, report: Path) -> None:
    asked = [html.unescape(found) for found in re.findall(r"<pre><code>(.*?)</code>", report.read_text(), re.DOTALL)]
    assert len(asked) >= 9
    for sql in asked:
        assert history.query(store, sql).columns


def test_every_question_of_the_report_is_one_that_the_history_answers(store: Path) -> None:
    for name in queries.names():
        assert queries.ask(store, name, run=LATER, previous=EARLIER, since="2026-01-01").title


def test_an_apostrophe_in_an_id_stays_within_the_question(store: Path) -> None:
    assert queries.ask(store, "scores", run="x' OR 'a' = 'a").rows == []


def test_what_changed_since_the_run_before_is_told_with_its_interval(report: Path) -> None:
    text = html.unescape(report.read_text())
    assert "no difference shown (at n = 11 samples): 1 changed (no interval below 5), 50.0 → 54.5" in text
    changed = {card["id"]: card["changed"] for card in data(report) if card.get("changed")}
    assert changed == {"s2": ["overall: Tie → Model"], "s11": ["faithfulness: Both are bad → Both are good"]}


def test_a_sample_has_its_verdicts_of_the_evaluations_before(report: Path) -> None:
    earlier = {card["id"]: card["earlier"] for card in data(report)}
    assert earlier["s2"] == [{"at": 0, "overall": "Tie", "verdicts": ["Model"] * 4}]
    assert earlier["s3"] == [
        {"at": 0, "overall": "incomplete", "verdicts": ["missing", "Human", "Both are good", "Model"]}
    ]
    found = re.search(r'<script type="application/json" id="before">(.*?)</script>', report.read_text())
    assert found and json.loads(found[1]) == {
        "in_site": False,
        "runs": [[{"run": EARLIER, "when": "2026-11-19 12:00", "differs": False, "page": f"{EARLIER}.html"}]],
    }


def test_pictures_are_left_out_where_they_may_not_be_and_the_page_says_so(store: Path, tmp_path: Path) -> None:
    without = written(store, tmp_path / "without.html", "--no-pictures").read_text()
    assert "Pictures are left out of this page (--no-pictures)." in without
    assert 'type="text/plain"' not in without and "data:image" not in without.replace("`data:image", "")
    assert [card["id"] for card in data(tmp_path / "without.html")] == [f"s{number}" for number in range(1, 13)]


def test_an_image_is_shown_with_prompt_aspects_and_check(store: Path, tmp_path: Path) -> None:
    page = written(store, tmp_path / "images.html", "--flow", "counting")
    good, bad = data(page)
    assert good["text"] == "a photo of two clocks" and list(good["pictures"]) == ["Image"]
    assert [(each["name"], each["score"]) for each in good["aspects"]] == [
        ("count_accuracy", "8.50"),
        ("object_uniformity", "does not apply"),
    ]
    assert good["marks"] == {"counting": "7 or more"} and bad["marks"] == {"counting": "below 7"}
    assert "what was asked for is not there" in bad["notes"]
    assert bad["questions"][0]["reasons"][0]["seen"] == "3 × clock (red)"


def test_every_number_of_a_chart_is_in_a_table_too(report: Path) -> None:
    cells = [html.unescape(found) for found in re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", report.read_text())]
    for name, numbers in (
        ("faithfulness", ["54.5", "[38.6, 70.4]", "2", "1", "8", "0", "0", "", "11/12"]),
        ("vision", ["57.1", "none below 8", "1", "0", "6", "7/7"]),
    ):
        line = cells.index(name) + 1
        assert cells[line : line + len(numbers)] == numbers
    # One of twelve has no score: the page tells how far that may reach, above and below the table.
    text = html.unescape(report.read_text())
    worst = re.search(r"<p>worst case \[(\d+\.\d), (\d+\.\d)\]</p>", text)
    assert worst and float(worst[1]) < 50 and float(worst[2]) > 700 / 12
    assert "Worst case of alpha, were all missing" in text


def test_controls_are_paid_for_and_their_failures_are_not_the_samples(tmp_path: Path) -> None:
    control = judgment("s1", control="blank", verdict=None, status="refused", price=0.0042)
    run_id = keep(tmp_path / "store", LATER, [judgment("s1", price=0.0), control, outcome("s1")])
    statuses = queries.ask(tmp_path / "store", "statuses", run=run_id)
    assert [(row["kind"], row["status"], row["n"]) for row in statuses.rows] == [
        ("judgments", "ok", 1),
        ("samples", "complete", 1),
    ]
    assert '<td class="number">0.0042</td>' in written(tmp_path / "store", tmp_path / "page.html").read_text()


def lines(page: Path) -> list[list[str]]:
    """The cells of the table that a page of several evaluations begins with."""
    found = re.search(r'<table class="newest">(.*?)</table>', page.read_text(), re.DOTALL)
    rows = found[1].split("<tr>")[1:] if found else []
    cells = (re.findall(r"<t[hd].*?</t[hd]>", row) for row in rows)
    return [[html.unescape(re.sub("<.*?>", "", cell)) for cell in row] for row in cells]


def test_several_evaluations_begin_with_a_table_of_them(store: Path, report: Path, tmp_path: Path) -> None:
    header, *found = lines(written(store, tmp_path / "three.html", "--last", "3"))
    assert header[:6] == ["evaluation", "flow", "candidate", "score", "95% interval", "scored"]
    assert [line[:4] for line in found] == [
        ["2026-11-20 12:00", "diagram", "alpha", "54.5"],
        ["2026-11-19 12:00", "diagram", "alpha", "50.0"],
        ["2026-11-18 12:00", "counting", "alpha, counting", "5.25"],
    ]
    assert found[0][6:] == ["+4.5 no difference shown", "gpt-x at judge.example", "no controls"]
    assert lines(report) == []


def test_a_red_judge_is_told_before_all_else(tmp_path: Path) -> None:
    store = tmp_path / "store"
    failed = [outcome(f"s{number}", "MMMM", "Model", control=SAME) for number in range(6)]
    keep(store, EARLIER, [*figures(later=False), *failed], samples=12)
    keep(store, LATER, figures(later=True), samples=12, started_at="2026-11-21T12:00:00+00:00")
    text = written(store, tmp_path / "red.html", EARLIER).read_text()
    body = re.sub("<.*?>", "", text.partition('<div id="scores">')[2], flags=re.DOTALL)
    assert html.unescape(body).startswith("Controls RED: false preference 24 of 24: do not trust this judge's scores.")
    two = written(store, tmp_path / "two.html", "--last", "2")
    assert [line[-1] for line in lines(two)] == ["judge status", "no controls", "✗ RED"]
    assert "2026-11-20 12:00 UTC: alpha, judge RED</summary>" in two.read_text()


def test_a_page_of_broken_trends_has_the_dates_of_the_breaks(tmp_path: Path) -> None:
    store, other = tmp_path / "store", {"protocol": {"temperature": "0"}, "protocol_key": "f" * 64}
    keep(store, EARLIER, figures(later=False), samples=12, started_at="2026-11-19T12:00:00+00:00")
    renamed = [judgment(model_answered="gpt-x-2")]
    keep(store, LATER, [*figures(later=True), *renamed], samples=12, ended=other)
    text = written(store, tmp_path / "page.html").read_text()
    assert "Broken at 2026-11-20 12:00, where this differs: " in text and "Human 50" in text
    assert "system_fingerprint than before: 2026-11-20 12:00 model answered gpt-x-2</p>" in text


# What strangers cannot do


def addresses(text: str) -> list[str]:
    """All that a page's elements point to; a stranger's text has no tags."""
    return re.findall(
        r'<\w[^>]*\s(?:src|srcset|href|action|data)="([^"]*)"', re.sub(r"<script.*?</script>", "", text, flags=re.S)
    )


def test_nothing_is_loaded_and_only_this_script_may_run(report: Path) -> None:
    text = report.read_text()
    assert addresses(text) and all(address.startswith("#") for address in addresses(text))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert policy and len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    rules = html.unescape(policy[1])
    assert rules.startswith("default-src 'none'") and f"script-src 'sha256-{digest}'" in rules


def test_the_page_is_part_of_the_package(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=root, capture_output=True
    )
    assert built.returncode == 0, built.stderr.decode()
    [wheel] = tmp_path.glob("*.whl")
    names = {f"tasks/pages/{name}" for name in ("queries.sql", "template.html.j2", "page.css", "page.js")} | {
        f"tasks/pages/{name}"
        for name in ("index.html.j2", "index.js", "common.js", "base.css", "grid.html.j2", "comparison.html.j2")
    }
    assert names <= set(zipfile.ZipFile(wheel).namelist())
