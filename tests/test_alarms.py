"""Alarms of scheduled runs: which nights form a series, that a drop is reported once, and who gets notified."""

import asyncio
import shutil
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from anchored_nights import FIRST
from factories import TIED, WON, end, figures, finished, image, judgment, outcome, page_trend, start, write_run
from loopback_judge import LoopbackJudge
from prefect import flow, get_client
from served import wait_for
from written_history import ask

from flows.cli import main
from flows.server.deployments import NOTICE, notify_of_regressions
from tasks.comparing.alarms import EVENT, Alarm, Place, alarms, note_told, watched
from tasks.extensions.bucket import share_nights
from tasks.history.landing import Landed, land, rebuild
from tasks.ledger.remote import Remote
from tasks.ledger.side_records import ALARMS, restart_baseline, restart_files
from tasks.presentation.wording import signed
from tasks.records import RunStart
from tasks.report import report
from tasks.statistics.cusum import BASELINE

BOTH = ("alpha", "beta")
USUAL, WORSE = [WON, TIED] * 3, [("MMHM", "Human")] * 6
"""Results of six samples, too few for intervals, which take most of a landing's time."""
DROPPED = BASELINE + 1


def night(store: Path, day: int, results: Sequence[tuple[str, str | None]], **changes: Any) -> RunStart:
    at = FIRST + timedelta(days=day - 1)
    rows = [each for name in changes.get("candidates", ["alpha"]) for each in figures(*results, candidate=name)]
    return finished(store, f"{at:%Y%m%dT%H%M%S}000-diagram-{day:06}", rows, **{"scheduled": True, **changes})


def nights(store: Path, *days: int, **changes: Any) -> None:
    for day in days:
        night(store, day, USUAL, **changes)


@pytest.fixture(scope="module")
def incomplete(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose baseline of two candidates lacks its last night, in ledger and history; tests copy it."""
    store = Path(shutil.copytree(empty_store, tmp_path_factory.mktemp("incomplete") / "store"))
    nights(store, *range(1, BASELINE), candidates=BOTH)
    land(store)
    return store


@pytest.fixture(scope="module")
def kept(incomplete: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a complete baseline in ledger and history; tests copy it."""
    store = Path(shutil.copytree(incomplete, tmp_path_factory.mktemp("kept") / "store"))
    nights(store, BASELINE, candidates=BOTH)
    land(store)
    return store


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "store"))


@pytest.fixture(scope="module")
def with_drop(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store after the night in which alpha dropped, which has reported it; tests copy it."""
    store = Path(shutil.copytree(kept, tmp_path_factory.mktemp("dropped") / "store"))
    assert len(new_alarms(store, night(store, DROPPED, WORSE))) == 1
    return store


@pytest.fixture
def dropped(with_drop: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(with_drop, tmp_path / "store"))


def new_alarms(store: Path, begun: RunStart) -> list[Alarm]:
    """Return a run's alarms that no run has reported yet, and mark them as reported."""
    land(store)
    news = watched(store, begun.run_id).news
    for alarm in news:
        note_told(store, alarm, begun)
    return [*news]


def series(store: Path) -> list[Any]:
    return ask(store, "SELECT * FROM nights ORDER BY flow, candidate, protocol_key, started_at")


def states(store: Path) -> set[tuple[str, str]]:
    return {*ask(store, "SELECT candidate, state FROM alarms")}


def test_drop_is_reported_only_by_the_night_that_raises_it(dropped: Path) -> None:
    store, [alarm] = dropped, alarms(dropped)
    assert (alarm.state, alarm.nights, alarm.baseline_score, alarm.score, alarm.change) == ("open", 1, 75, 0, -75)
    assert alarm.since_at == alarm.raised_at == (FIRST + timedelta(days=BASELINE)).replace(tzinfo=None)
    later = night(store, DROPPED + 1, WORSE)
    assert new_alarms(store, later) == []
    assert [each.nights for each in watched(store, later.run_id).alarms] == [2]
    assert land(store) == Landed((), ()) and watched(store, alarm.raised_by).news == []
    [note] = (store / ALARMS).iterdir()
    note.write_text("{")
    assert watched(store, alarm.raised_by).news, "a damaged note of a report is ignored"


def test_alarm_sentence_states_date_size_dimension_and_false_alarm_rate(with_drop: Path) -> None:
    [alarm] = alarms(with_drop)
    assert alarm.words == (
        "alpha has dropped since 2026-09-15: −75.0 to 0.0 over 1 night, from 75.0 (14 nights from 2026-09-01 on); "
        "most in readability (−75.0). Without any change such an alarm comes 0.04 times in 60 nights for each flow and "
        "candidate, in any of six in 20%; where nights hang together, up to 0.27 times, in any of six in 81% "
        "(simulated)."
    )
    attributed = alarm._replace(attribution="The judge moved").words
    assert "The judge moved. Without any change" in attributed


def test_open_drop_reports_its_newest_night_and_a_changed_judge(store: Path) -> None:
    def judged(day: int, results: Sequence[tuple[str, str | None]], fingerprint: str) -> RunStart:
        at = FIRST + timedelta(days=day - 1)
        rows = [*figures(*results), judgment("s0", judge_answered="gpt-x-1", system_fingerprint=fingerprint)]
        run_id = f"{at:%Y%m%dT%H%M%S}000-diagram-{day:06}"
        begun = start(run_id, scheduled=True, started_at=at.isoformat(), candidates=("alpha",))
        write_run(store, begun, rows, end(protocol_key="p" * 64))
        return begun

    judged(DROPPED, USUAL, "fp_1")
    assert new_alarms(store, judged(DROPPED + 1, WORSE, "fp_1"))[0].judge_versions == ""
    newest = judged(DROPPED + 2, [*WORSE[:4], *USUAL[4:]], "fp_2")
    land(store)
    [alarm] = watched(store, newest.run_id).alarms
    assert f"over 2 nights, in the newest night {signed(alarm.newest_change, 1)}, from 75.0" in alarm.short
    assert alarm.newest_change > alarm.change and alarm.short.endswith("; the judge now answers as gpt-x-1 fp_2")
    [same] = alarms(store)
    assert (same.judge_versions, same.newest_change) == (alarm.judge_versions, alarm.newest_change)


def test_drop_ends_when_the_score_recovers_and_the_next_is_reported(dropped: Path) -> None:
    nights(dropped, *range(DROPPED + 1, DROPPED + 3))
    last = night(dropped, DROPPED + 3, USUAL)
    land(dropped)
    drops = "SELECT state, nights FROM alarms"
    assert ask(dropped, drops) == [("back", 3)]
    trend = [(point.baseline_score, point.dropped) for point in page_trend(dropped, last.run_id, "overall")]
    assert trend == [(None, False)] * BASELINE + [(75.0, True)] * 3 + [(75.0, False)]
    assert new_alarms(dropped, night(dropped, DROPPED + 4, WORSE))
    assert ask(dropped, drops) == [("open", 1), ("back", 3)]
    nights(dropped, *range(DROPPED + 5, DROPPED + 6 + BASELINE), key="q")  # by another judge
    land(dropped)
    assert ask(dropped, drops) == [("ended", 1), ("back", 3)] and alarms(dropped) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "+25.0 against the baseline of 75.0; nights below it add up to 0.0, the alarm is at 7.5"),
        ({"baseline_nights": 1, "baseline_score": None, "change": None}, "the baseline has 1 of 14 nights"),
        ({"phase": "left out", "scored": 0.5}, "only 50% was scored, too little to compare the night with others"),
    ],
)
def test_candidate_is_placed_against_its_baseline_in_one_sentence(changes: dict[str, Any], words: str) -> None:
    place = Place("alpha", "watched", 15, BASELINE, 1.0, 75.0, 25.0, 0.0, 7.5)
    assert place._replace(**changes).words("diagram") == f"alpha: {words}"


def test_only_scheduled_measurements_of_a_protocol_dataset_candidate_and_flow_form_a_series(store: Path) -> None:
    no_nights = ({"scheduled": False}, {"calls": 0})
    others = ({"key": "q"}, {"dataset_key": "e" * 64}, {"candidates": ("gamma",)}, {"flow": "plot"})
    for day, changes in enumerate((*no_nights, *others), DROPPED):
        night(store, day, WORSE, **changes)
    last = night(store, DROPPED + 9, WORSE)
    land(store)
    assert [each.raised_by for each in alarms(store)] == [last.run_id]
    assert len(series(store)) == len(BOTH) * BASELINE + len(others) + 1


def test_late_ledger_is_sorted_into_the_nights_without_a_second_report(incomplete: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(incomplete, tmp_path / "store"))
    assert new_alarms(store, night(store, DROPPED, WORSE)) == []  # 13 nights: the baseline is not complete
    nights(store, BASELINE)
    assert [alarm.nights for alarm in new_alarms(store, night(store, DROPPED + 1, WORSE))] == [2]
    night(store, 0, WORSE)  # a low night of the baseline, which moves the drop to another night of its series
    assert new_alarms(store, night(store, DROPPED + 2, WORSE)) == []
    [alarm] = alarms(store)
    assert alarm.raised_by.startswith("20260915") and f"{alarm.baseline_from:%Y-%m-%d}" == "2026-08-31"


def test_machines_sharing_a_bucket_see_all_nights_and_report_once(dropped: Path, kept: Path, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/bucket"
    one, other = Remote(url, dropped), Remote(url, Path(shutil.copytree(kept, tmp_path / "other")))
    one.send_all()
    assert asyncio.run(share_nights(one)) == ()
    later = night(other.folder, DROPPED + 1, WORSE)
    assert asyncio.run(share_nights(other)) == ()
    assert new_alarms(other.folder, later) == []
    assert [alarm.nights for alarm in watched(other.folder, later.run_id).alarms] == [2]


def test_shards_of_an_evaluation_count_as_one_night(store: Path) -> None:
    at = FIRST + timedelta(days=BASELINE)
    for number, results in ((1, WORSE[:3]), (2, WORSE[3:])):
        run_id = f"{at:%Y%m%dT%H%M%S}00{number}-diagram-0000aa"
        begun = start(run_id, evaluation_id="e", shard=number, shards=2, scheduled=True, started_at=at.isoformat())
        rows = [outcome(f"s{3 * number + n - 3:02}", *each) for n, each in enumerate(results)]
        write_run(store, begun, [*rows], end(protocol_key="p" * 64))
    [alarm] = new_alarms(store, begun.model_copy(update={"run_id": "e"}))
    assert (alarm.raised_by, alarm.change) == ("e", -75)


def test_image_alarms_watch_the_mean_over_prompts(tmp_path: Path) -> None:
    """One tag falls by as much as the other rises; then both fall; then half of the images have no score."""
    for day in range(1, BASELINE + 4):
        falls, rises = (4.0 * (day > BASELINE), 4.0 * (day == DROPPED) - 4.0 * (day > DROPPED))
        scores = {"colors": 7 - falls, "color_attr": 6 + rises}
        places = [(tag, score, f"{tag}{n}/{i}") for tag, score in scores.items() for n in range(6) for i in (0, 1)]
        rows = [image(at, score if day < BASELINE + 3 or "/0" in at else None, tag=tag) for tag, score, at in places]
        at = FIRST + timedelta(days=day)
        begun = start(
            f"{at:%Y%m%dT%H%M%S}-colors-{day:06}", flow="colors", scheduled=True, started_at=at.isoformat(),
            dimensions=("colors", "color_attr"), parameters={"threshold": 7.0},
        )  # fmt: skip
        write_run(tmp_path, begun, [*rows], end())
    [alarm] = new_alarms(tmp_path, begun)
    assert (alarm.nights, alarm.baseline_score, alarm.change) == (1, 6.5, -4.0)
    assert [(place.phase, place.scored) for place in watched(tmp_path, begun.run_id).places] == [("left out", 0.5)]


# Restarted baselines


def test_restarted_baseline_ends_the_drop_and_begins_with_the_next_night(
    dropped: Path, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    _, out, _ = jury("status")
    assert "alarm      diagram on mini: alpha has dropped since 2026-09-15: −75.0 to 0.0 over 1 night" in out
    assert "last measured 2026-09-15" in out
    code, out, _ = jury("alarms", "restart", "diagram")
    assert code == 0 and "1 open alarm ended: alpha has dropped since 2026-09-15" in out
    assert states(dropped) == {("alpha", "restarted")}
    begun = night(dropped, (datetime.now(UTC) - FIRST).days + 3, WORSE)
    assert new_alarms(dropped, begun) == []
    assert [place.baseline_nights for place in watched(dropped, begun.run_id).places] == [1]


def test_each_candidate_has_its_own_series_and_restart_also_after_a_rebuild(dropped: Path, jury: Any) -> None:
    begun = night(dropped, DROPPED + 1, WORSE, candidates=BOTH)
    assert [alarm.candidate for alarm in new_alarms(dropped, begun)] == ["beta"]
    assert jury("alarms", "restart", "diagram", "--candidate", "beta")[0] == 0
    known, expected = series(dropped), {("alpha", "open"), ("beta", "restarted")}
    assert states(dropped) == expected
    rebuild(dropped)
    assert series(dropped) == known and states(dropped) == expected and len(restart_files(dropped)) == 1
    assert watched(dropped, alarms(dropped)[0].raised_by).news == watched(dropped, begun.run_id).news == []


def test_restart_of_unknown_candidate_lists_those_with_a_baseline(
    tmp_path: Path, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights(tmp_path / "store", 1, 2)
    nights(tmp_path / "store", 3, dataset="other", dataset_key="e" * 64)
    land(tmp_path / "store")
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    _, out, _ = jury("status")
    for words in ("mini, alpha: the baseline has 2", "other, alpha: the baseline has 1"):
        assert f"baseline   diagram on {words} of 14 nights\n" in out and "\nalarm " not in out
    code, _, err = jury("alarms", "restart", "diagram", "--candidate", "gamma")
    assert code == 2 and "'gamma' has no baseline in diagram; those that have: alpha" in err
    code, _, err = jury("alarms", "restart", "plot")
    assert code == 2 and "no scheduled run of plot has measured anything yet" in err
    assert restart_files(tmp_path / "store") == []


def test_damaged_restart_is_skipped_and_reported(tmp_path: Path) -> None:
    nights(tmp_path, 1)
    restart = restart_baseline(tmp_path, "diagram")
    file = tmp_path / ALARMS / f"{restart.restart_id}.json"
    file.write_text(file.read_text().replace("diagram", "diagrams"))
    [message] = land(tmp_path).left_out
    assert "restarted baseline was left out" in message and "it holds the restart" in message


# Through the real flow, server, automation and webhook


async def make_block(loopback: LoopbackJudge) -> None:
    """Save a notification block that posts to the loopback judge, which keeps the requests."""
    from prefect.blocks.notifications import CustomWebhookNotificationBlock

    url = f"{loopback.base_url}/chat/completions"
    block = CustomWebhookNotificationBlock(name="team", url=url, json_data={"title": "{{subject}}", "text": "{{body}}"})
    await block.asave("team", overwrite=True)


async def ask_server(path: str, body: dict[str, Any]) -> Any:
    async with get_client() as client:
        return (await client.request("POST", path, json=body)).json()


def events(name: str, runs: Collection[str]) -> list[dict[str, Any]]:
    """Return the alarms of these runs that the server has stored, some seconds after it has acted on them."""
    found = asyncio.run(ask_server("/events/filter", {"filter": {"event": {"name": [name]}}}))["events"]
    return [each for each in found if each["payload"]["run_id"] in runs]


@flow
async def reporting(store: str, run_id: str) -> str:
    return await report(store, run_id, [], True, "diagram-nightly")


def report_nights(
    store: Path, nights: Iterator[RunStart], loopback: LoopbackJudge, event: str
) -> tuple[list[Any], str, dict[str, Any], dict[str, Any]]:
    """Return the reports of the nights, the first one's artifact, and the only event payload and post of all nights."""
    asyncio.run(make_block(loopback))
    asyncio.run(notify_of_regressions("custom-webhook/team"))
    ended = [(begun, asyncio.run(reporting(str(store), begun.run_id, return_state=True))) for begun in nights]
    first, state = ended[0]
    flow_run = str(state.state_details.flow_run_id)
    of_this_run = {"flow_run_id": {"any_": [flow_run]}, "key": {"any_": ["diagram-nightly"]}}
    [artifact] = asyncio.run(ask_server("/artifacts/filter", {"artifacts": of_this_run}))
    runs = [begun.run_id for begun, _ in ended]
    wait_for(lambda: loopback.requests and events(event, runs))
    [emitted] = events(event, runs)
    what, _, _ = emitted["payload"]["words"].partition(":")  # as in posts of the later nights, if there were any
    [post] = [each.body for each in loopback.requests if each.body["text"].startswith(what)]
    assert (emitted["payload"]["run_id"], emitted["payload"]["artifact"]) == (first.run_id, "diagram-nightly")
    assert f"prefect.flow-run.{flow_run}" in [each["prefect.resource.id"] for each in emitted["related"]]
    return [state.result() for _, state in ended], artifact["data"], emitted["payload"], post


@pytest.mark.usefixtures("prefect_server")
def test_drop_is_reported_in_run_artifact_event_and_notification(store: Path, loopback: LoopbackJudge) -> None:
    both = (night(store, DROPPED + day, WORSE) for day in range(2))
    (first, again), artifact, payload, post = report_nights(store, both, loopback, EVENT)
    words = "alpha has dropped since 2026-09-15: −75.0 to 0.0 over 1 night"
    assert words in first and "alpha has dropped since 2026-09-15: −75.0 to 0.0 over 2 nights" in again
    assert f"\n\n**{words}" in artifact.partition("## ")[0]
    assert (payload["candidate"], payload["change"]) == ("alpha", -75.0)
    assert "0.04 times in 60 nights" in payload["falsely"] and payload["since_at"] == "2026-09-15T03:00:00"
    assert post["title"] == "Image Jury: diagram on mini has dropped" and post["text"].startswith(words)


@pytest.mark.usefixtures("prefect_server")
def test_deploy_notify_creates_one_automation_for_a_notification_block(loopback: LoopbackJudge, capsys: Any) -> None:
    async def automations() -> list[Any]:
        async with get_client() as client:
            return [each for each in await client.read_automations() if each.name == NOTICE]

    from prefect.blocks.system import Secret

    asyncio.run(make_block(loopback))
    asyncio.run(Secret(value="x").asave("quiet", overwrite=True))
    for given, words in (
        ("custom-webhook/nobody", "has no such block"),
        ("team", "expected the type and the name"),
        ("secret/quiet", "sends no notifications"),
    ):
        assert main(["deploy", "--notify", given]) == 2
        err = capsys.readouterr().err
        assert f"--notify '{given}': " in err and words in err
    for _ in range(2):
        asyncio.run(notify_of_regressions("custom-webhook/team"))
    [made] = asyncio.run(automations())
    assert made.enabled and made.actions[0].type == "send-notification"
