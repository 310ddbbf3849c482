"""Anchors through the whole chain: judged afresh in each scheduled run, and in no figure but the cost."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, Request, error, text, verdict
from prefect import tags
from written_datasets import record, result, write_benchmark, write_json

SAMPLES, ANCHORS = 8, 4

pytestmark = pytest.mark.usefixtures("prefect_server", "drawn_here", "laid_out")

Jury = Callable[..., tuple[int, str, str]]


def nightly(jury: Jury, *given: object) -> None:
    """A run that a schedule started."""
    with tags("scheduled"):
        code, _, err = jury("run", *given, "--anchors", ANCHORS)
    assert code == 0, err


@pytest.fixture
def figures(tmp_path: Path) -> list[str]:
    """Eight pairs, as options of `jury run`."""
    root = write_benchmark(tmp_path / "bench", [record(n) for n in range(SAMPLES)])
    results = write_json(tmp_path / "results.json", [result(n) for n in range(SAMPLES)])
    return ["diagram", "--dataset", str(root), "--results", str(results), "--candidate-name", "alpha"]


def test_added_calls_are_one_for_each_anchor_and_dimension_and_nothing_is_lent_or_taken_over(
    figures: list[str], loopback: LoopbackJudge, jury: Jury, ask: Any
) -> None:
    def asked() -> int:
        found = sum(each.schema_name != "probe" for each in loopback.requests)
        loopback.requests.clear()
        return found

    given = [*figures, *judged_by(loopback), "--orders", "both", "--votes", "3"]
    assert jury("run", *given, "--anchors", ANCHORS)[0] == 0  # by hand: none
    assert asked() == 4 * 6 * SAMPLES
    nightly(jury, *given)  # all but the anchors is taken over
    assert asked() == 4 * ANCHORS
    nightly(jury, *given)
    assert asked() == 4 * ANCHORS
    counts = ask("""SELECT count(*) AS n, count(DISTINCT sample_id) AS anchors, count(DISTINCT "key") AS calls,
        bool_and("order" = 'human_first' AND vote = 1 AND reused_from = '') AS once
        FROM judgments WHERE control = 'anchor' GROUP BY run_id""")
    assert counts == [{"n": 4 * ANCHORS, "anchors": ANCHORS, "calls": 4 * ANCHORS, "once": True}] * 2
    assert ask("SELECT measured FROM evaluations ORDER BY run_id") == [
        {"measured": measured} for measured in (True, False, False)
    ]
    assert jury("run", *given, "--votes", "1", "--limit", "2")[0] == 0
    assert not asked()  # what anchors were told is lent to none, and what samples were is


def test_anchors_are_in_no_figure_but_the_cost(
    figures: list[str], loopback: LoopbackJudge, jury: Jury, ask: Any
) -> None:
    def answer(seen: Request) -> Reply:
        if seen.schema_name == "probe":
            return text('{"ready": true}')
        nth = Counter(each.raw for each in loopback.requests)[seen.raw]
        return verdict("Model") if nth == 1 else error(400, "no")

    loopback.answer = answer
    given = [*figures, *judged_by(loopback, **{"judge.concurrency": 1}), "--reuse-hours", "0"]
    assert jury("run", *given)[0] == 0
    loopback.requests.clear()
    nightly(jury, *given)  # what is asked a second time, and that is about anchors, is refused
    without, having = ask("SELECT * FROM runs ORDER BY run_id")
    assert (without["calls"], having["calls"], having["sham_calls"]) == (32, 48, 16)
    for same in ("judgments", "outcomes", "protocol_key", "resume_key", "samples"):
        assert without[same] == having[same], same
    for table in ("scores", "rates", "coverage", "leaderboard", "outcomes", "picture_contract"):
        counts = ask(f"SELECT run_id, count(*) AS n FROM {table} GROUP BY 1 ORDER BY 1")
        assert len(counts) == 2 and counts[0]["n"] == counts[1]["n"], table
    assert ask("FROM controls") == ask("FROM control_rates") == []
    assert ask("SELECT kind, count(*) AS n FROM failures GROUP BY 1") == [{"kind": "anchor", "n": 16}]
    assert ask("SELECT sum(calls)::INTEGER AS calls FROM cost GROUP BY run_id ORDER BY 1") == [
        {"calls": calls} for calls in (32, 48)
    ]
    told = "SELECT anchors, judged, anchor_score, candidate_score FROM anchors"
    assert ask(told) == [{"anchors": ANCHORS, "judged": 0, "anchor_score": None, "candidate_score": 100.0}]
