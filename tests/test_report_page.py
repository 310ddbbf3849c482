"""The report page: its content, its safety against untrusted texts, and its size."""

import base64
import hashlib
import html
import http.client
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
from answered_page import COUNTING, images_store
from factories import image, judgment, outcome
from served import free_port
from written_history import EARLIER, LATER, figures, keep, keep_ledger, noise, pair, write_evaluations, written

from flows.server.pages import serving_pages
from tasks.history import queries as history
from tasks.pages import queries
from tasks.pages.page import embedded, fair_share, thumbnails
from tasks.pages.site import renew
from tasks.records import SAME, Outcome

Jury = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_evaluations(tmp_path_factory.mktemp("page") / "store")


@pytest.fixture(scope="module")
def report(store: Path) -> Path:
    return written(store, store.parent / "report.html")


@pytest.fixture(scope="module")
def counting(store: Path) -> Path:
    """The report on images."""
    return written(store, store.parent / "images.html", "--flow", "counting")


def data(page: Path) -> list[dict[str, Any]]:
    """Return the samples of a page."""
    found = re.search(r'id="samples"[^>]*>(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    return json.loads(found[1])


# Content


LOWEST_FIRST = ["s10", "s4", "s5", "s6", "s7", "s8", "s9", "s11", "s12", "s1", "s2", "s3"]
"""Samples in order of the mean of their dimensions; the incomplete one has none."""


def words(page: Path) -> str:
    """Return the visible text of a page without script, in one line."""
    text = re.sub(r"<(style|script).*?</\1>", "", page.read_text(), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub("<.*?>", " ", text.partition("<main>")[2], flags=re.DOTALL)).split())


def test_newest_evaluation_is_shown_with_its_change_and_the_lowest_samples_first(report: Path) -> None:
    assert [card["id"] for card in data(report)] == LOWEST_FIRST
    assert LATER in report.read_text() and "11 of 12 samples scored" in words(report)
    change = "+4.5 (no interval: 1 changed), no difference shown (at n = 11 of 12 samples). 1 of 11 changed"
    assert f"{change}: jury compare {EARLIER} {LATER} --candidate alpha" in words(report)


def test_page_begins_with_verdict_facts_and_notable_samples(report: Path, counting: Path) -> None:
    first = words(report).partition(" Numbers ")[0]
    assert first.startswith(
        "alpha scores 54.5 [38.6, 70.4] of 100: no difference from the Human figures (50) shown (at n = 11) Judge "
        "unchecked: no controls asked 11 of 12 samples scored alpha worst case [34.0, 74.3] Cost 12.0000 USD "
    )
    lowest, _, fragile = first.partition("Look at these")[2].partition("Most fragile")
    assert re.findall(r"\bs\d+\b", lowest) == ["s10", "s4", "s5"] and "faithfulness: Human." in lowest
    assert re.findall(r"\bs\d+\b", fragile) == ["s12"] and "replies differ on aesthetics" in fragile
    assert words(counting).startswith("alpha scores 5.25 (no interval below 8) of 10 Judge unchecked")


def test_worst_case_of_each_tag_is_named(tmp_path: Path) -> None:
    tags = ("colors", "color_attr")
    scores = [(f"{tag}-{at}/0", tag, 8.0 if at else None) for tag in tags for at in range(9)]
    rows = [image(sample_id, score, flow="colors", tag=tag) for sample_id, tag, score in scores]
    keep(tmp_path, LATER, rows, samples=18, flow="colors", parameters={"threshold": 7.0}, dimensions=tags)
    text = words(written(tmp_path, tmp_path / "page.html", LATER))
    assert all(f"alpha, {tag} worst case [" in text for tag in tags)


def test_candidates_are_compared_in_one_sentence(tmp_path: Path) -> None:
    two = [row for row in figures(later=True) if row.sample_id != "s3"]
    lost = [outcome(row.sample_id, "HHHH", "Human", candidate="beta") for row in two if isinstance(row, Outcome)]
    keep(tmp_path, LATER, [*two, *lost], samples=11, candidates=("alpha", "beta"))
    text = words(written(tmp_path, tmp_path / "page.html", LATER))
    assert text.startswith("alpha scores higher than beta: 54.5 against 0.0 of 100, difference +54.5 [+")
    assert re.search(r"Order and votes alpha pivotal 9.1% \[.*, beta pivotal 0.0% \[", text)


def test_run_without_scores_begins_with_nothing_is_scored(tmp_path: Path) -> None:
    keep(tmp_path / "store", LATER, pair("s1", "-HGM", None, status="incomplete"), samples=1)
    page = written(tmp_path / "store", tmp_path / "page.html")
    assert words(page).startswith("Nothing is scored: 0 of 1 samples Judge unchecked")
    assert [card["id"] for card in data(page)] == ["s1"]


def test_reused_answers_are_reported_without_a_warning(tmp_path: Path) -> None:
    keep_ledger(tmp_path / "store", EARLIER, [judgment("s1"), outcome("s1")], samples=1)
    again = [judgment("s1", reused_from=EARLIER), outcome("s1")]
    keep(tmp_path / "store", LATER, again, samples=1, ended={"calls": 0, "reused": 1})
    page = written(tmp_path / "store", tmp_path / "page.html").read_text()
    assert "<p>All 1 answers reused, nothing spent; --reuse-hours 0 asks again. This run is compared" in page
    assert '<p class="red">' not in page


def test_large_run_stores_pictures_beside_the_page(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.pages.report_data.EMBEDDED", 11)
    page = written(store, tmp_path / "a b.html")
    text, kept = page.read_text(), {file.name for file in (tmp_path / "a b.files").iterdir()}
    assert len(kept) == 24 and all((tmp_path / "a b.files" / name).read_bytes()[:2] == b"\xff\xd8" for name in kept)
    assert "img-src data: 'self';" in html.unescape(text)
    assert "data:image" not in text and 'type="text/plain"' not in text
    assert 'src="a%20b.files/' in text and 'data-beside="a%20b.files"' in text
    shutil.rmtree(tmp_path / "a b.files")
    (tmp_path / "a b.files").symlink_to(tmp_path)
    with pytest.raises(AssertionError):
        written(store, tmp_path / "a b.html")
    assert not [*tmp_path.glob("*.jpg")]


def test_pictures_beside_a_page_are_served_and_removed_with_it(tmp_path: Path, monkeypatch: Any, jury: Jury) -> None:
    images_store(tmp_path / "store")
    monkeypatch.setattr("tasks.pages.report_data.EMBEDDED", 1)
    for chosen in (False, None):
        [page] = renew(tmp_path / "store", [COUNTING], chosen).pages
        folder = page.with_suffix(".files")
        assert not folder.exists(), "pictures that were left out stay out until a person asks for them"
    renew(tmp_path / "store", [COUNTING], with_pictures=True)
    [*_, name] = sorted(file.name for file in folder.iterdir())
    with serving_pages(tmp_path / "store", free_port(), "") as address:
        for path, status in ((f"/{folder.name}/{name}", 200), (f"/{folder.name}/../{page.name}", 404)):
            connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
            connection.request("GET", path)
            reply = connection.getresponse()
            assert reply.status == status and (status == 404 or reply.getheader("content-type") == "image/jpeg")
            connection.close()
    assert jury("store", "forget", "--sample", "00000/0001", "--yes")[0] == 0
    assert len(data(page)) == 1 and not folder.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["20201111"], "no run is called '20201111'"),
        (["2026111"], "is the beginning of several runs"),
        (["--flow", "plot"], "no finished plot run"),
        ([LATER, "--flow", "diagram"], "not both"),
    ],
)
def test_impossible_report_request_is_an_error(store: Path, jury: Jury, arguments: list[str], message: str) -> None:
    code, _, err = jury("report", *arguments, "--store", store, "-o", store.parent / "none.html")
    assert code == 2 and message in err and not (store.parent / "none.html").exists()


def test_junk_ledger_does_not_affect_the_report(store: Path, tmp_path: Path, jury: Jury) -> None:
    shutil.copytree(store, tmp_path / "store")
    strange = tmp_path / "store" / "ledger" / "20261130T120000-diagram-0000ff"
    strange.mkdir()
    for name in ("run.json", "end.json", "judgments.jsonl", "outcomes.jsonl"):
        (strange / name).write_bytes(b"\xff\x00junk" * 1_500_000)
    code, out, _ = jury("report", "-o", tmp_path / "page.html")
    assert code == 0 and LATER in out and len(data(tmp_path / "page.html")) == 12


def test_report_path_must_be_a_file_in_an_existing_folder(store: Path, tmp_path: Path, jury: Jury) -> None:
    (tmp_path / "notes.txt").touch()
    for place, message in (
        (tmp_path / "no" / "x.html", f"there is no folder {tmp_path / 'no'}: make it"),
        (tmp_path / "notes.txt" / "x.html", f"there is no folder {tmp_path / 'notes.txt'}: "),
        (tmp_path, f"{tmp_path} is a folder: name a file"),
    ):
        code, _, err = jury("report", "--store", store, "-o", place)
        assert code == 2 and message in err
    assert [*tmp_path.iterdir()] == [tmp_path / "notes.txt"]


def test_all_report_queries_run_on_the_history_with_escaped_values(store: Path) -> None:
    with history.held_together(store):
        for name in queries.QUERIES:
            assert history.query(store, queries.question(name, run=LATER, since="2026-01-01")).columns
        assert queries.ask(store, "scores", run="x' OR 'a' = 'a") == []


def test_no_pictures_option_is_stated_on_the_page(store: Path, tmp_path: Path) -> None:
    without = written(store, tmp_path / "without.html", "--no-pictures").read_text()
    assert "Pictures are left out of this page (--no-pictures)." in without
    assert 'type="text/plain"' not in without and "data:image" not in without.replace("`data:image", "")
    assert [card["id"] for card in data(tmp_path / "without.html")] == LOWEST_FIRST


def test_image_is_shown_with_prompt_aspects_and_check(counting: Path) -> None:
    bad, good = data(counting)
    assert good["text"] == "a photo of two clocks" and list(good["pictures"]) == ["Image"]
    scores = [(each["name"], each["score"]) for each in good["aspects"]]
    assert scores == [("count_accuracy", "8.50"), ("object_uniformity", "does not apply")]
    assert good["marks"] == {"counting": "7 or more"} and bad["marks"] == {"counting": "below 7"}
    assert "what was asked for is not there" in bad["notes"]
    assert bad["questions"][0]["reasons"][0]["seen"] == "3 × clock (red)"


def test_score_tables_have_the_expected_numbers(report: Path) -> None:
    cells = [html.unescape(found) for found in re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", report.read_text())]
    for name, numbers in (
        ("faithfulness", ["54.5", "[38.6, 70.4]", "2", "1", "8", "0", "0", "", "11/12"]),
        ("vision", ["57.1", "none below 8", "1", "0", "6", "7/7"]),
    ):
        line = cells.index(name) + 1
        assert cells[line : line + len(numbers)] == numbers
    assert "Worst case of alpha, were all missing" in words(report)


def test_controls_count_in_the_price_but_not_in_sample_statuses(tmp_path: Path) -> None:
    control = judgment("s1", control="blank", verdict=None, status="refused", price=0.0042)
    run_id = keep(tmp_path / "store", LATER, [judgment("s1", price=0.0), control, outcome("s1")])
    statuses = queries.ask(tmp_path / "store", "statuses", run=run_id)
    counts = [(row["kind"], row["status"], row["n"]) for row in statuses]
    assert counts == [("judgments", "ok", 1), ("samples", "complete", 1)]
    text = words(written(tmp_path / "store", tmp_path / "page.html"))
    assert "2 calls made, 0 replies reused" in text and "price 0.0042" in text


def test_red_judge_is_the_first_statement(tmp_path: Path) -> None:
    store = tmp_path / "store"
    failed = [outcome(f"s{number}", "MMMM", "Model", control=SAME) for number in range(6)]
    keep(store, EARLIER, [*figures(later=False), *failed], samples=12)
    text = words(written(store, tmp_path / "red.html", EARLIER[:9]))
    assert text.startswith("Do not trust this score: alpha scores ")
    assert "Judge RED, failed its controls: 6 of 6 missed (false preference: 6 of 6)" in text


def test_broken_trend_shows_the_date_of_the_break(tmp_path: Path) -> None:
    store, other = tmp_path / "store", {"protocol": {"temperature": "0"}, "protocol_key": "f" * 64}
    keep_ledger(store, EARLIER, figures(later=False), samples=12, started_at="2026-11-19T12:00:00+00:00")
    keep(store, LATER, figures(later=True), samples=12, ended=other)
    text = written(store, tmp_path / "page.html").read_text()
    assert "Broken at 2026-11-20 12:00, where this differs: " in text and "Human 50" in text


# Safety


def addresses(text: str) -> list[str]:
    """Return all link targets of a page's elements; untrusted texts contain no tags."""
    without = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    return re.findall(r'<\w[^>]*\s(?:src|srcset|href|action|data)="([^"]*)"', without)


def test_page_loads_nothing_and_runs_only_its_own_script(report: Path) -> None:
    text = report.read_text()
    assert addresses(text) and all(address.startswith(("#", "data:image/jpeg;base64,")) for address in addresses(text))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert policy and len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    rules = html.unescape(policy[1])
    assert rules.startswith("default-src 'none'") and f"script-src 'sha256-{digest}'" in rules


def test_wheel_contains_page_files(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    built = subprocess.run(build, cwd=root, capture_output=True)
    assert built.returncode == 0, built.stderr.decode()
    [wheel] = tmp_path.glob("*.whl")
    names = {f"tasks/pages/{file.name}" for file in (root / "tasks" / "pages").iterdir() if file.is_file()}
    assert len(names) > 20 and names <= set(zipfile.ZipFile(wheel).namelist())


# Size


@pytest.mark.parametrize(
    ("sizes", "budget", "share"),
    [([10, 20, 30], 100, 30), ([10, 20, 30], 60, 30), ([10, 20, 30], 50, 20), ([100, 100, 1], 101, 50), ([], 7, 7)],
)
def test_fair_share_stays_within_the_budget(sizes: list[int], budget: int, share: int) -> None:
    assert fair_share(sizes, budget) == share and sum(min(size, share) for size in sizes) <= budget


def of_size(jpeg: bytes, width: int, height: int) -> bytes:
    """Return the JPEG with this size in its header."""
    at = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + jpeg[at + 4 :]


LEAST = 8_000
JUNK = b"\xff\x00junk" * 300_000
STRANGE = {
    "junk of 9 MB": JUNK * 5,
    "junk that begins like a JPEG": b"\xff\xd8\xff" + JUNK,
    "a picture before junk": noise(20) + JUNK,
    "a picture of 3.6 gigapixels": of_size(noise(20), 60_000, 60_000) + JUNK,
    "a picture of 108 megapixels": of_size(noise(20), 12_000, 9_000) + JUNK,
    "half of a picture": noise(600)[: len(noise(600)) // 2],
    "a large picture": noise(600),  # more than four times its share
}
"""Files in place of thumbnails, as a stranger might write them."""


@pytest.mark.parametrize("name", STRANGE)
def test_invalid_thumbnail_is_left_out_or_shrunk(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.pages.page.fair_share", lambda _sizes, _budget: LEAST)
    strange, small = "a" * 64, "b" * 64
    (tmp_path / "pictures").mkdir()
    for sha256, kept in ((strange, STRANGE[name]), (small, noise(20))):
        (tmp_path / "pictures" / f"{sha256}.jpg").write_bytes(kept)
    found = dict(embedded(thumbnails(tmp_path, [strange, small])))
    assert base64.b64decode(found[small]) == noise(20) and len(found.get(strange, "")) <= LEAST * 4 / 3
    assert strange in found or name != "a large picture"
    assert strange not in found or name != "half of a picture"
