"""A whole run on a store in a bucket, and the history that another machine builds from it."""

import json
from pathlib import Path

import pytest
from loopback_judge import LoopbackJudge
from prefect import tags
from test_remote import S3Server, server, url  # noqa: F401
from written_images import prompt_row, write_geneval

from flows.cli import main

pytestmark = pytest.mark.usefixtures("prefect_server", "drawn_here", "laid_out", "without_pages")


def judge(root: Path, store: str, loopback: LoopbackJudge) -> int:
    given = ["run", "counting", "--dataset", str(root), "--store", store, "--judge.model", "m", "--chunk-size", "4"]
    return main([*given, "--judge.base-url", loopback.base_url])


def test_another_machine_builds_the_history_and_reuses_the_replies(
    tmp_path: Path,
    url: str,  # noqa: F811
    loopback: LoopbackJudge,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = write_geneval(tmp_path / "images", [prompt_row(f"clock {n}", "counting") for n in range(6)], 2)
    monkeypatch.setenv("JURY_CACHE", str(tmp_path / "one"))
    assert judge(root, url, loopback) == 0
    calls = loopback.count
    monkeypatch.setenv("JURY_CACHE", str(tmp_path / "two"))
    assert main(["sync", "--store", url]) == 0
    capsys.readouterr()
    assert (
        main(["query", "SELECT scored, n FROM t2i_leaderboard WHERE tag = 'counting'", "--json", "--store", url]) == 0
    )
    assert json.loads(capsys.readouterr().out) == [{"scored": 12, "n": 12}]
    assert judge(root, url, loopback) == 0
    assert loopback.count == calls


def test_a_bucket_that_is_away_costs_a_warning_and_the_next_sync_sends_the_run(
    tmp_path: Path,
    server: S3Server,  # noqa: F811
    url: str,  # noqa: F811
    loopback: LoopbackJudge,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = write_geneval(tmp_path / "images", [prompt_row("clock", "counting")], 2)
    monkeypatch.setenv("JURY_CACHE", str(tmp_path / "one"))
    server.refuses = lambda _: True
    try:
        assert judge(root, url, loopback) == 0
    finally:
        server.refuses = lambda _: False
    assert "`jury sync` sends the rest" in capsys.readouterr().err
    assert main(["sync", "--store", url]) == 0
    assert "1 run sent" in capsys.readouterr().out


def test_scheduled_runs_of_two_machines_are_nights_of_one_series_with_the_same_anchors_and_a_bridge_reaches_both(
    tmp_path: Path,
    url: str,  # noqa: F811
    loopback: LoopbackJudge,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = write_geneval(tmp_path / "images", [prompt_row(f"clock {n}", "counting") for n in range(30)], 1)

    def jury(machine: str, *given: str, code: int = 0) -> str:
        monkeypatch.setenv("JURY_CACHE", str(tmp_path / machine))
        capsys.readouterr()
        assert main([*given, "--store", url]) == code
        return capsys.readouterr().out

    def night(machine: str, model: str = "m") -> None:
        judge = ["--judge.model", model, "--judge.base-url", loopback.base_url]
        with tags("scheduled"):
            jury(machine, "run", "counting", "--dataset", str(root), *judge, "--anchors", "4", "--reuse-hours", "0")

    night("one")
    night("two")
    [nights] = json.loads(jury("two", "query", "SELECT max(night) AS nights FROM nights", "--json"))
    sets = "SELECT count(*) AS n, count(DISTINCT anchors_key) AS sets FROM anchor_nights"
    assert (nights, json.loads(jury("two", "query", sets, "--json"))) == ({"nights": 2}, [{"n": 2, "sets": 1}])
    night("two", "n")
    # 30 equal scores are too few to tell anything by.
    jury("two", "bridge", "--old", "m", "--new", "n", "--flow", "counting", code=3)
    jury("one", "sync")
    kept = "SELECT DISTINCT old_model, new_model, n FROM bridges"
    assert json.loads(jury("one", "query", kept, "--json")) == [{"old_model": "m", "new_model": "n", "n": 30}]
