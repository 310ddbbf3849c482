"""Pages of old evaluations made small."""

import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from written_history import EARLIER, LATER, write_evaluations

from tasks.history.asking import query
from tasks.pages import site, thinning
from tasks.pages.page_names import page_of
from tasks.pages.thinning import STAGES, thin

pytestmark = pytest.mark.usefixtures("drawn_here", "laid_out")
DAY = 86_400.0


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = write_evaluations(tmp_path_factory.mktemp("thinning") / "store")
    site.renew(store, [LATER])
    return store


@pytest.fixture
def whole(written: Path) -> str:
    return page_of(written, LATER).read_text()


def cards(text: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="samples">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def pictures(text: str) -> int:
    return text.count('<script type="text/plain" id="p-')


def made(store: Path, run: str, text: str, days_ago: float) -> Path:
    page = page_of(store, run)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text)
    moment = time.time() - days_ago * DAY
    os.utime(page, (moment, moment))
    return page


def test_words_go_first_and_pictures_last(tmp_path: Path, whole: str) -> None:
    runs = [f"run{number:03}" for number in range(70)]
    young, old, older, oldest = (made(tmp_path, runs[at], whole, 100) for at in (13, 14, 59, 60))
    fresh = made(tmp_path, runs[61], whole, 29)
    assert thin(tmp_path, [runs, ["none"]]) == [old, older, oldest]
    assert young.read_text() == whole == fresh.read_text() and pictures(whole) > 0
    assert pictures(old.read_text()) == pictures(older.read_text()) == pictures(whole)
    assert pictures(oldest.read_text()) == 0
    for text in (old.read_text(), oldest.read_text()):
        assert [card["id"] for card in cards(text)] == [card["id"] for card in cards(whole)]
        assert [card["marks"] for card in cards(text)] == [card["marks"] for card in cards(whole)]
        assert not any("earlier" in card or "reasons" in each for card in cards(text) for each in card["questions"])
        assert text.count("<script>") == 1 and text.count("</script>") == 3 + pictures(text)
        assert "`jury pages RUN` makes it anew" in text
        assert len(text) < len(whole)
    assert "not of the newest 14 of its flow and candidate and was made more than 30 days ago" in old.read_text()
    assert "earlier verdicts and the pictures are not on it any more" in oldest.read_text()
    before = {page: page.stat() for page in (young, old, older, oldest)}
    assert thin(tmp_path, [runs]) == [], "once"
    assert {page: page.stat() for page in before} == before


def test_what_is_no_page_of_ours_stays_as_it_is(tmp_path: Path) -> None:
    page = made(tmp_path, "run", "<html>notes of a person</html>", 1000)
    assert thin(tmp_path, [[*map(str, range(99)), "run"]]) == []
    assert page.read_text() == "<html>notes of a person</html>"


def test_pages_made_anew_thin_old_ones_and_are_whole_themselves(
    written: Path, tmp_path: Path, whole: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Path(shutil.copytree(written, tmp_path / "store"))
    page = made(store, EARLIER, whole, 31)
    monkeypatch.setattr(thinning, "STAGES", (STAGES[0]._replace(newest=1), STAGES[1]))
    site.renew(store)
    assert 'data-thinned="1"' in page.read_text()[:100]
    site.renew(store, [EARLIER])
    site.renew(store)
    assert "data-thinned" not in page.read_text()[:100]
    assert query(store, "SELECT count(*) FROM evaluations").rows == [(3,)], "the history has all"
