"""Attribution of changes to the judge or the candidate: the statistics, and alarms from ledgers to their text."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from anchored_nights import night
from loopback_judge import LoopbackJudge
from numpy.typing import NDArray
from simulate_alarm import decline, quiet, raised, simulate, step
from simulate_anchors import AT, BY, Judge, after, false_alarms, judged, told
from test_alarms import nights as usual_nights
from test_alarms import report_nights
from written_history import ask

from flows.cli import main
from tasks.comparing import alarms
from tasks.comparing.alarms import MovedJudge, attributions, moved_judges, note_told, payload_of, watched
from tasks.history.landing import land, rebuild
from tasks.pages.report_data import gather
from tasks.pages.report_page import page
from tasks.records import RunStart
from tasks.statistics.cusum import BACK, BASELINE, LIMIT, Night, anchor_series, limit_of, watch


@pytest.mark.parametrize(
    ("judge", "candidate", "moved"),
    [(-8.0, 0.0, "judge moved"), (8.0, 0.0, "judge moved"), (0.0, -8.0, "candidate moved"), (-8.0, -8.0, "both")],
)
def test_shift_of_8_points_is_attributed_within_four_nights(judge: float, candidate: float, moved: str) -> None:
    random = np.random.default_rng(7)
    found = [told(random, judge, candidate) for _ in range(6)]
    assert all(AT <= each.night <= BY for each in found)
    assert sum(each.said_last == moved for each in found) >= 5


def test_quiet_nights_raise_no_anchor_alarm() -> None:
    random = np.random.default_rng(8)
    assert sum(false_alarms(random, Judge(0.85)) for _ in range(12)) <= 1


def test_changes_after_fewer_than_14_nights_are_not_attributed() -> None:
    random = np.random.default_rng(9)
    found = anchor_series(judged(random, 40, after(0, 13)), judged(random, 60, after(0, 13)), 100.0)
    assert found.attribution(10, 12).moved == "cannot tell" and found.attribution(10, 12).judge is None
    assert found.open_since(12) is None


def test_shift_of_a_judge_without_noise_is_attributed() -> None:
    """Scores without noise make every change certain."""
    anchors, candidate = np.full((20, 40), 50.0), np.full((20, 60), 75.0)
    anchors[16:] -= 8
    candidate[16:] -= 8
    found = anchor_series(anchors, candidate, 100.0)
    assert found.attribution(16, 19).moved == "judge moved"
    assert found.open_since(15) is None and found.open_since(19) == 16


def test_nights_without_anchor_answers_are_skipped() -> None:
    random = np.random.default_rng(10)
    anchors, candidate = judged(random, 40, after(-8, 24)), judged(random, 292, after(-8, 24))
    anchors[20] = np.nan
    found = anchor_series(anchors, candidate, 100.0).attribution(19, 23)
    assert (found.moved, found.nights) == ("judge moved", 4)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Path:
    """A store with sixteen quiet nights, in ledger and history; tests copy it."""
    store = tmp_path_factory.mktemp("kept")
    shutil.copytree(empty_store, store, dirs_exist_ok=True)
    for day in range(1, BASELINE + 3):
        night(store, day)
    land(store)
    return store


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "store"))


def test_alarm_states_what_moved_in_event_page_and_views(store: Path) -> None:
    newest = [night(store, day, candidate=20) for day in (BASELINE + 3, BASELINE + 4)][-1]
    land(store)
    seen = watched(store, newest.run_id)
    [alarm] = seen.alarms
    assert alarm.moved == "candidate moved" and alarm in seen.news
    assert "The candidate moved: the anchors changed by 0.0 [" in alarm.words
    assert "on 2 nights since 2026-09-17, the candidate beside them by −13." in alarm.words
    payload = payload_of(alarm, newest)
    assert payload["moved"] == "candidate moved" and payload["attribution"] in alarm.words
    query = "SELECT DISTINCT moved, moved_since::DATE::VARCHAR FROM anchors WHERE moved IS NOT NULL"
    assert ask(store, query) == [("candidate moved", "2026-09-17")]
    trend = "SELECT count(*) FROM trend WHERE dimension = 'overall' AND moved = 'candidate moved'"
    assert ask(store, trend) == [(2,)]
    html = "".join(page(gather(store, newest.run_id)))
    assert alarm.attribution in html


def test_judge_moving_up_is_attributed_until_the_anchors_are_replaced(store: Path) -> None:
    newest = [night(store, BASELINE + 3 + day, judge=-20, candidate=-40) for day in range(3)][-1]
    land(store)
    assert not watched(store, newest.run_id).alarms
    [found] = attributions(store, newest.run_id)
    assert found.moved == "judge moved" and found.judge_shift and found.judge_shift > 0
    assert found.judge_since and found.words.startswith("The judge moved: the anchors changed by +3")
    other = night(store, BASELINE + 6, anchors="b")
    land(store)
    assert attributions(store, other.run_id) == []
    assert ask(store, "SELECT max(night) FROM anchor_nights WHERE starts_with(anchors_key, 'b')") == [(1,)]


def judge_news(store: Path, begun: RunStart) -> list[MovedJudge]:
    """Return moved judges that no run has reported yet, and mark them as reported."""
    land(store)
    news = [*watched(store, begun.run_id).judge_news]
    for moved in news:
        note_told(store, moved, begun)
    return news


@pytest.fixture(scope="module")
def moved_judge(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[MovedJudge]]:
    """The store after three more nights with a moved judge, and its news; tests copy it.

    Only the anchors move; the candidate's own score gives no hint.
    """
    store = Path(shutil.copytree(kept, tmp_path_factory.mktemp("moved") / "store"))
    new = (night(store, BASELINE + 3 + day, judge=-20) for day in range(3))
    return store, [moved for begun in new for moved in judge_news(store, begun)]


@pytest.fixture
def moved_store(moved_judge: tuple[Path, list[MovedJudge]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(moved_judge[0], tmp_path / "store"))


def test_moved_judge_is_reported_once_without_a_drop(
    moved_store: Path, moved_judge: tuple[Path, list[MovedJudge]]
) -> None:
    store, [moved] = moved_store, moved_judge[1]
    assert moved.short.startswith("the judge gpt-x has moved since 2026-09-17: the anchors changed by +3")
    assert "`jury alarms restart diagram` begins its baselines anew" in moved.words and moved.falsely in moved.words
    newest = night(store, BASELINE + 6, judge=-20)
    rebuild(store)
    seen = watched(store, newest.run_id)
    assert not seen.judge_news and not seen.alarms and [each.nights for each in seen.judges] == [4]
    assert [*seen.open] == [*seen.judges]
    payload = payload_of(moved, newest)
    assert payload["what"] == "has another judge than before" and payload["flow"] == "diagram"
    html = "".join(page(gather(store, newest.run_id)))
    assert "The judge gpt-x has moved since 2026-09-17" in html


@pytest.mark.usefixtures("prefect_server")
def test_moved_judge_is_reported_in_run_artifact_and_notification(store: Path, loopback: LoopbackJudge) -> None:
    nights = (night(store, BASELINE + 3 + day, judge=-20) for day in range(3))
    next(nights)
    (first, again), artifact, _, post = report_nights(store, nights, loopback, alarms.JUDGE_MOVED)
    words = "The judge gpt-x has moved since 2026-09-17: the anchors changed by +3"
    assert words in first and "has dropped" not in first
    assert "the judge gpt-x has moved since 2026-09-17" in again and "simulated" not in again
    assert "\n\n**The judge gpt-x has moved since" in artifact.partition("## ")[0]
    assert post["title"] == "Image Jury: diagram on mini has another judge than before"
    assert post["text"].startswith(words)


def test_anchor_alarm_ends_on_recovery_and_the_next_is_reported(moved_store: Path) -> None:
    store = moved_store
    for day in range(3):
        back = night(store, BASELINE + 6 + day)
    land(store)
    assert not watched(store, back.run_id).judges and not moved_judges(store)
    for day in range(3):
        again = night(store, BASELINE + 9 + day, judge=-20)
    assert len(judge_news(store, again)) == 1 and len(moved_judges(store)) == 1
    usual_nights(store, *range(BASELINE + 12, 2 * BASELINE + 13), dataset_key="e" * 64)
    land(store)
    assert not moved_judges(store)  # the other dataset has a whole baseline


def test_drop_attributed_to_the_judge_is_one_event(store: Path) -> None:
    for day in range(3):
        newest = night(store, BASELINE + 3 + day, judge=20, candidate=40)
    land(store)
    seen = watched(store, newest.run_id)
    assert seen.judge_news and [*seen.events] == [*seen.news] and seen.news[0].moved in ("judge moved", "both")
    assert [*seen._replace(news=()).events] == [*seen.judge_news]


def test_status_prints_a_moved_judge_until_anchors_or_baseline_restart(
    moved_store: Path, moved_judge: tuple[Path, list[MovedJudge]], jury: Any, monkeypatch: Any
) -> None:
    store, [moved] = moved_store, moved_judge[1]
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    alarm = "alarm      diagram: the judge gpt-x has moved since 2026-09-17: the anchors changed by +3"
    status = jury("status")[1]
    assert alarm in status and "`jury alarms restart diagram` begins" in status
    frozen = store / "anchors" / "diagram" / f"20260901T030000000000-{moved.anchors_key[:16]}"
    frozen.mkdir(parents=True)
    (frozen / "anchors.jsonl").write_text("{}\n")
    assert alarm in jury("status")[1]
    assert "1 open alarm ended: the judge gpt-x" in jury("alarms", "restart", "diagram", "--anchors")[1]
    assert alarm not in jury("status")[1]
    frozen.parent.rename(store / "elsewhere")
    assert alarm in jury("status")[1]
    assert "1 open alarm ended: the judge gpt-x" in jury("alarms", "restart", "diagram")[1]
    assert alarm not in jury("status")[1]


def test_alarms_restart_requests_new_anchors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["alarms", "restart", "diagram", "--anchors", "--store", str(tmp_path)]) == 2
    assert "there are no anchors of diagram" in capsys.readouterr().err
    kept = tmp_path / "anchors" / "diagram" / "20260901T030000000000-0000000000000000"
    kept.mkdir(parents=True)
    (kept / "anchors.jsonl").write_text("{}\n")
    given = ["alarms", "restart", "diagram", "--anchors", "--store", str(tmp_path)]
    assert main([*given, "--candidate", "alpha"]) == 2
    assert main(given) == 0
    assert "the next scheduled run of diagram chooses new anchors" in capsys.readouterr().out
    assert main(given) == 2


# CUSUM over nights: when a drop begins and ends, its scale, and its error rates


UNITS, MOST = 100, 100.0
OTHERS = [0, 1, -1] * BASELINE


def nights(*levels: float, units: int = UNITS) -> NDArray[np.float64]:
    """Return nights with these mean scores; units scatter by 20 points, for a standard error of 2."""
    random = np.random.default_rng(7)
    noise = random.normal(0, 20, (len(levels), units))
    return 50 + noise - noise.mean(axis=1, keepdims=True) + np.asarray(levels)[:, None]


def baseline(*after: float) -> list[Night]:
    return watch(nights(*OTHERS[:BASELINE], *after), MOST)


def test_drop_is_raised_at_the_limit_and_dated_from_the_sums_start() -> None:
    found = baseline(0, 2, -7, -7, -7, -7)
    assert [night.phase for night in found] == ["baseline"] * BASELINE + ["watched"] * 6
    assert all(night.change is None and night.alarm is None for night in found[:BASELINE])
    assert [night.alarm for night in found[BASELINE:]] == [None, None, None, None, 18, 18]
    assert {night.since for night in found[18:]} == {16}
    before, now = found[17], found[18]
    assert (
        before.cusum
        <= LIMIT
        < now.cusum
        == pytest.approx(sum(-each.change / each.scale - 0.5 for each in found[16:19]))
    )  # type: ignore[operator]
    assert now.scale == pytest.approx(2.0, rel=0.05) and now.change == pytest.approx(-7.0, abs=0.1)
    assert now.baseline_score == pytest.approx(50.0, abs=0.1)


def test_drop_ends_after_three_nights_in_a_row_near_the_baseline() -> None:
    found = baseline(-20, -20, 0, 0, -20, *[0] * BACK, 0, -20)
    assert [night.alarm for night in found[BASELINE:]] == [14, 14, 14, 14, 14, 14, 14, None, None, 23]


def test_slow_decline_is_one_drop() -> None:
    found = baseline(*-0.5 * np.arange(1, 40))
    assert len(raised(found)) == 1 and found[-1].alarm is not None


def test_rise_raises_no_alarm_and_the_baseline_is_frozen() -> None:
    one, other = baseline(*[20.0] * 30), baseline(*[-1.0] * 30)
    assert raised(one) == [] and one[-1].baseline_score == other[-1].baseline_score


def test_one_outlier_in_the_baseline_hides_no_drop() -> None:
    levels = [float(level) for level in OTHERS[:BASELINE]]
    levels[10] = -40.0
    found = watch(nights(*levels, *[-6.0] * 6), MOST)
    assert found[-1].alarm is not None and found[-1].scale == pytest.approx(2.0, rel=0.3)


def test_scale_includes_scatter_between_nights() -> None:
    found = watch(nights(*[8.0 * level for level in OTHERS[:BASELINE]], -6, -6, -6), MOST)
    assert found[-1].alarm is None and found[-1].scale == pytest.approx(6.7, rel=0.1)


def test_constant_differences_between_units_are_not_noise() -> None:
    """Half of the units always score 0 and the others 100; the scale measures only what changes."""
    apart = nights(*OTHERS[:BASELINE], 0) / 2 + np.repeat([0.0, 50.0], UNITS // 2)
    assert watch(apart, MOST)[-1].scale == pytest.approx(1.0, rel=0.1)


def test_scale_without_noise_is_half_a_unit() -> None:
    same = np.tile(np.repeat([0.0, 100.0], 50), (BASELINE + 6, 1))
    same[-6:, -3:] = 0.0
    found = watch(same, MOST)
    assert (found[-1].scale, found[-1].change) == (0.5, -3.0) and raised(found) == [BASELINE + 1]


def test_missing_scores_widen_the_scale_without_shifting_the_night() -> None:
    scores = nights(*OTHERS[:BASELINE], 0) + np.linspace(-40, 40, UNITS)
    scores[-1, -15:] = np.nan
    night = watch(scores, MOST)[-1]
    assert night.phase == "watched" and night.change == pytest.approx(0.0, abs=1.5)
    assert np.nanmean(scores[-1]) < 45
    assert night.scale == pytest.approx(watch(np.r_[scores[:-1], scores[:1]], MOST)[-1].scale * (100 / 85) ** 0.5)  # type: ignore[operator]


def test_night_with_too_few_scores_is_left_out() -> None:
    scores = nights(*OTHERS[:BASELINE], -20, -20, -20, -20)
    scores[15, :21] = np.nan
    found = watch(scores, MOST)
    assert found[15].phase == "left out" and found[15].alarm == 14
    scores[:BASELINE, :21] = np.nan
    assert {night.phase for night in watch(scores, MOST)[:BASELINE]} == {"left out"}


def test_limit_grows_with_the_nights_of_its_sum() -> None:
    limits = [limit_of(number) for number in (0, 1, 3, 4, 20, 37)]
    assert limits[:3] == [LIMIT] * 3 and limits == sorted(limits) and limits[-1] == pytest.approx(LIMIT * 3**0.5)


def test_too_few_units_or_nights_raise_no_alarm() -> None:
    assert watch(np.empty((0, 5)), MOST) == []
    assert [night.phase for night in watch(np.empty((2, 0)), MOST)] == ["left out"] * 2
    assert watch(np.array([[50.0]]), MOST)[0].phase == "baseline"
    assert raised(watch(np.array([[50.0, 60.0], [0.0, 0.0], [0.0, 0.0]]), MOST)) == []


def test_simulated_false_alarms_are_few_and_drops_are_found() -> None:
    judge = Judge(1.15)
    random = np.random.default_rng(11)
    assert simulate(judge._replace(scatter=1.3), random, 40, quiet()).alarms <= 0.4
    found = simulate(judge, random, 30, step(5.0)).by_night
    assert found[2] >= 0.6 and found[6] >= 0.9
    assert simulate(judge, random, 20, decline(0.2)).by_night[29] >= 0.85
