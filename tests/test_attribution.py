"""What moved, the judge or the candidate: in numbers, and from ledgers to the words of an alarm."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from anchored_nights import night
from simulate_anchors import AT, BY, Judge, after, false_alarms, judged, told
from written_history import ask

from flows.cli import main
from tasks.comparing.alarms import note_told, payload_of, watched
from tasks.comparing.attribution import attributions
from tasks.comparing.moved_judges import MovedJudge, moved_judges
from tasks.history.database import HISTORY
from tasks.history.loading import sync
from tasks.pages.report_data import gather
from tasks.pages.report_page import page
from tasks.records import RunStart
from tasks.statistics.attribution import series
from tasks.statistics.cusum import BASELINE


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


def judge_news(store: Path, begun: RunStart) -> list[MovedJudge]:
    """Judges that moved of which nobody has told before, noted as told."""
    sync(store)
    news = [*watched(store, begun.run_id).judge_news]
    for moved in news:
        note_told(store, moved, begun)
    return news


def test_a_judge_that_moved_is_told_once_while_no_score_has_dropped(store: Path) -> None:
    """The anchors move and the candidate stays, so that there is nothing else to tell it by."""
    told = [judge_news(store, night(store, BASELINE + 3 + day, judge=-20)) for day in range(4)]
    [moved] = (each for news in told for each in news)
    assert moved.short.startswith("the judge gpt-x has moved since 2026-09-17: the anchors changed by +3")
    assert "`jury baseline restart diagram` begins its baselines anew" in moved.words and moved.falsely in moved.words
    sync(store, rebuild=True)
    newest = night(store, BASELINE + 7, judge=-20)
    assert judge_news(store, newest) == []
    seen = watched(store, newest.run_id)
    assert not seen.alarms and [each.nights for each in seen.judges] == [5] and [*seen.open] == [*seen.judges]
    payload = payload_of(moved, newest)
    assert payload["what"] == "has another judge than before" and payload["flow"] == "diagram"
    html = page(gather(store, [newest.run_id]), {})
    assert "The judge gpt-x has moved since 2026-09-17" in html


def test_the_alarm_of_anchors_ends_when_they_are_back_and_the_next_one_is_told_again(store: Path) -> None:
    moved = [judge_news(store, night(store, BASELINE + 3 + day, judge=-20)) for day in range(3)]
    assert sum(map(len, moved)) == 1
    for day in range(3):
        back = night(store, BASELINE + 6 + day)
    sync(store)
    assert not watched(store, back.run_id).judges and not moved_judges(store)
    again = [judge_news(store, night(store, BASELINE + 9 + day, judge=-20)) for day in range(3)]
    assert sum(map(len, again)) == 1


def test_a_drop_that_is_put_down_to_the_judge_is_one_event(store: Path) -> None:
    for day in range(3):
        newest = night(store, BASELINE + 3 + day, judge=20, candidate=40)
    sync(store)
    seen = watched(store, newest.run_id)
    assert seen.judge_news and [*seen.events] == [*seen.news] and seen.news[0].moved in ("judge moved", "both")
    assert [*seen._replace(news=()).events] == [*seen.judge_news]


def test_status_tells_a_judge_that_moved_until_its_baseline_or_its_anchors_begin_anew(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    for day in range(3):
        night(store, BASELINE + 3 + day, judge=-20)
    sync(store)

    def said(*command: str) -> str:
        main([*command, "--store", str(store)])
        return capsys.readouterr().out

    alarm = "alarm      diagram: the judge gpt-x has moved since 2026-09-17: the anchors changed by +3"
    assert alarm in said("status") and "`jury baseline restart diagram` begins" in said("status")
    [moved] = moved_judges(store)
    frozen = store / "anchors" / "diagram" / f"20260901T030000000000-{moved.anchors_key[:16]}"
    frozen.mkdir(parents=True)
    (frozen / "anchors.jsonl").write_text("{}\n")
    assert alarm in said("status")
    assert "1 open alarm ended: the judge gpt-x" in said("baseline", "restart", "diagram", "--anchors")
    assert alarm not in said("status")
    frozen.parent.rename(store / "elsewhere")
    assert alarm in said("status")
    assert "1 open alarm ended: the judge gpt-x" in said("baseline", "restart", "diagram")
    assert alarm not in said("status")


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
