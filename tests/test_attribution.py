"""What moved, the judge or the candidate: in numbers, and from ledgers to the words of an alarm."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from factories import end, judgment, outcome, start, write_run
from simulate_anchors import AT, BY, Judge, after, false_alarms, judged, told
from written_history import ask

from flows.cli import main
from tasks.comparing.alarms import payload_of, watched
from tasks.comparing.attribution import attributions
from tasks.history.database import HISTORY
from tasks.history.loading import sync
from tasks.pages.report_data import gather
from tasks.pages.report_page import page
from tasks.records import ANCHOR, Outcome, RunStart
from tasks.statistics.attribution import series
from tasks.statistics.cusum import BASELINE

FIRST = datetime(2026, 9, 1, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("judge", "candidate", "said"),
    [(-8.0, 0.0, "judge moved"), (8.0, 0.0, "judge moved"), (0.0, -8.0, "candidate moved"), (-8.0, -8.0, "both")],
)
def test_what_moved_by_8_points_at_night_20_is_found_by_night_24_and_named(
    judge: float, candidate: float, said: str
) -> None:
    """Six series each; `make simulate-anchors` has the shares."""
    random = np.random.default_rng(7)
    found = [told(random, judge, candidate) for _ in range(6)]
    assert all(AT <= each.night <= BY for each in found)
    assert sum(each.said_last == said for each in found) >= 5


def test_quiet_nights_raise_no_alarm_of_the_anchors() -> None:
    random = np.random.default_rng(8)
    assert sum(false_alarms(random, Judge(0.85)) for _ in range(12)) <= 1


def test_without_14_nights_before_it_nothing_is_put_down_to_anyone() -> None:
    random = np.random.default_rng(9)
    found = series(judged(random, 40, after(0, 13)), judged(random, 60, after(0, 13)), 100.0)
    assert found.attribution(10, 12).moved == "cannot tell" and found.attribution(10, 12).judge is None
    assert found.open_since(12) is None


def test_a_judge_that_always_repeats_itself_is_told_apart_too() -> None:
    """Nothing varies: what changes changes for certain."""
    anchors, candidate = np.full((20, 40), 50.0), np.full((20, 60), 75.0)
    anchors[16:] -= 8
    candidate[16:] -= 8
    found = series(anchors, candidate, 100.0)
    assert found.attribution(16, 19).moved == "judge moved"
    assert found.open_since(15) is None and found.open_since(19) == 16


def test_nights_whose_anchors_were_not_answered_are_left_out() -> None:
    random = np.random.default_rng(10)
    anchors, candidate = judged(random, 40, after(-8, 24)), judged(random, 292, after(-8, 24))
    anchors[20] = np.nan
    found = series(anchors, candidate, 100.0).attribution(19, 23)
    assert (found.moved, found.nights) == ("judge moved", 4)


def outcomes(day: int, change: int, names: range, control: str = "") -> Iterator[Outcome]:
    """Figures of which some come out otherwise from night to night; `change` of them fall or, below 0, rise."""
    for number in names:
        usual = "MMGH" if (number + day) % 7 else "MMGG"
        moved, overall = ("HMGH", "Human") if change > 0 else ("MMMM", "Model")
        yield outcome(
            f"s{number:02}", *((moved, overall) if number < abs(change) else (usual, "Model")), control=control
        )


def night(store: Path, day: int, judge: int = 0, candidate: int = 0, anchors: str = "a", **changes: object) -> RunStart:
    """A scheduled run with anchors on day 1, 2 …; how many of the anchors, and of the candidate's figures, fall."""
    at = FIRST + timedelta(days=day - 1)
    given = {"scheduled": True, "started_at": at.isoformat(), "anchors_key": anchors * 64, **changes}
    begun = start(f"{at:%Y%m%dT%H%M%S}000-diagram-{day:06}", **given)
    rows = [
        *outcomes(day, candidate, range(40)),
        *outcomes(day, judge, range(20), ANCHOR),
        judgment("s00", control=ANCHOR),
    ]
    write_run(store, begun, rows, end())
    return begun


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, empty_history: Path) -> Path:
    """A store with sixteen quiet nights, in ledger and history, to be copied."""
    store = tmp_path_factory.mktemp("kept")
    shutil.copy(empty_history, store / HISTORY)
    for day in range(1, BASELINE + 3):
        night(store, day)
    sync(store)
    return store


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Path:
    """One of the test's own."""
    return Path(shutil.copytree(kept, tmp_path / "store"))


def test_an_alarm_says_what_moved_with_both_figures_in_event_artifact_report_and_views(store: Path) -> None:
    newest = [night(store, day, candidate=20) for day in (BASELINE + 3, BASELINE + 4)][-1]
    sync(store)
    seen = watched(store, newest.run_id)
    [alarm] = seen.alarms
    assert alarm.moved == "candidate moved" and alarm in seen.news
    assert "The candidate moved: the anchors changed by 0.0 [" in alarm.words
    assert "on 2 nights since 2026-09-17, the candidate beside them by −13." in alarm.words
    payload = payload_of(alarm, newest)
    assert payload["moved"] == "candidate moved" and payload["attribution"] in alarm.words
    assert [each.line for each in seen.attributions] == [f"alpha: {alarm.attribution}"]
    assert ask(store, "SELECT DISTINCT moved, moved_since::DATE::VARCHAR FROM anchors WHERE moved IS NOT NULL") == [
        ("candidate moved", "2026-09-17")
    ]
    trend = "SELECT count(*) FROM trend WHERE dimension = 'overall' AND moved = 'candidate moved'"
    assert ask(store, trend) == [(2,)]
    html = page(gather(store, [newest.run_id]), {})
    assert "Judge or candidate" in html and alarm.attribution in html


def test_a_judge_that_moves_up_is_told_though_no_score_has_dropped_and_another_set_begins_anew(store: Path) -> None:
    newest = [night(store, BASELINE + 3 + day, judge=-20, candidate=-40) for day in range(3)][-1]
    sync(store)
    assert not watched(store, newest.run_id).alarms
    [found] = attributions(store, newest.run_id)
    assert found.moved == "judge moved" and found.judge_shift and found.judge_shift > 0
    assert found.judge_since and found.words.startswith("The judge moved: the anchors changed by +3")
    other = night(store, BASELINE + 6, anchors="b")
    sync(store)
    assert attributions(store, other.run_id) == []
    assert ask(store, "SELECT max(night) FROM anchor_nights WHERE starts_with(anchors_key, 'b')") == [(1,)]


def test_the_command_has_anchors_chosen_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "restart", "diagram", "--anchors", "--store", str(tmp_path)]) == 2
    assert "there are no anchors of diagram" in capsys.readouterr().err
    kept = tmp_path / "anchors" / "diagram" / "20260901T030000000000-0000000000000000"
    kept.mkdir(parents=True)
    (kept / "anchors.jsonl").write_text("{}\n")
    given = ["baseline", "restart", "diagram", "--anchors", "--store", str(tmp_path)]
    assert main([*given, "--candidate", "alpha"]) == 2
    assert main(given) == 0
    assert "the next scheduled run of diagram chooses its anchors anew" in capsys.readouterr().out
    assert main(given) == 2
