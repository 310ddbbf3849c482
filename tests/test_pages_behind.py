"""The page of a large run is made behind it, after the thumbnails: nobody waits for it."""

from pathlib import Path
from typing import Any

import pytest
from bench_data import draw_pairs
from loopback_judge import LoopbackJudge, judged_by
from served import wait_for

from tasks import report
from tasks.pages.behind import LARGE, renew_behind

pytestmark = pytest.mark.usefixtures("prefect_server", "drawn_here", "laid_out")


def test_the_page_of_a_large_run_is_made_behind_it_with_all_pictures(
    tmp_path: Path, loopback: LoopbackJudge, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_up: list[object] = []
    monkeypatch.setattr(report, "renew_behind", renew_behind)
    monkeypatch.setattr(report, "renewed", lambda *given: held_up.append(given))
    pairs = LARGE + 1
    draw_pairs(tmp_path / "data", pairs, "PNG")
    given = ["--dataset", tmp_path / "data", "--images", tmp_path / "data" / "model"]
    code, _, err = jury("run", "diagram", *given, *judged_by(loopback))
    assert code == 0 and not held_up, err
    [run] = (tmp_path / "store" / "ledger").iterdir()
    page = tmp_path / "store" / "pages" / f"{run.name}.html"
    wait_for((page.parent / "index.html").exists, 240)  # at the lowest priority, beside all other tests
    assert page.read_text().count("/9j/") >= 2 * pairs  # so a JPEG begins in base64
    assert page.stem in (page.parent / "index.html").read_text()
