"""Both layouts of a judge: how far they agree, and the published one with itself, beside a comparison across them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from factories import DIMENSIONS, end, judgment, outcome, start, write_run
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, Request, verdict
from own_data import RESULTS, write_own_benchmark

from tasks.comparing.comparison import Comparison, compare
from tasks.comparing.wording import agreement_notes, layout_lines, layouts_grid
from tasks.history.landing import land
from tasks.labels.agreement import Agreement
from tasks.ledger.evaluations import protocol_differences, protocol_key
from tasks.records import Judgment, Outcome

pytestmark = pytest.mark.usefixtures("laid_out")

PUBLISHED, SHARED, AGAIN = (f"202611{day}T120000-diagram-0000aa" for day in (18, 19, 20))
PROTOCOL = {"orders": "human_first", "model answered": "gpt-x-1"}
OVERALLS = {"M": "Model", "H": "Human", "G": "Tie"}


def keep(store: Path, run_id: str, verdicts: Sequence[str], layout: str = "", **changes: Any) -> None:
    """A finished run; of each sample the letters of its four verdicts, of which the first is the outcome's, too.

    Args:
        changes: of the protocol; the candidate; the day on which the judge said so, where that was in another run.
    """
    protocol = PROTOCOL | ({"layout": layout} if layout else {}) | changes.get("protocol", {})
    candidate, day = changes.get("candidate", "alpha"), changes.get("day", run_id[6:8])
    rows: list[Judgment | Outcome] = []
    for number, letters in enumerate(verdicts):
        said = {"candidate": candidate, "judged_at": f"2026-11-{day}T12:00:30+00:00"}
        rows.append(judgment(f"s{number}", **said))
        rows.append(outcome(f"s{number}", letters, OVERALLS[letters[0]], candidate=candidate))
    begun = start(run_id, protocol=protocol, samples=len(verdicts), candidates=(candidate,))
    write_run(store, begun, rows, end(protocol=protocol, protocol_key=protocol_key(protocol)))


def across(store: Path) -> Comparison:
    land(store)
    return compare(store, PUBLISHED, SHARED, across=["layout"])


def overall(found: Agreement) -> tuple[int, float | None]:
    [row] = [each for each in found.questions if each.question == "overall"]
    return row.n, row.agreement.value


def test_verdicts_and_outcomes_of_both_layouts_are_compared_sample_by_sample(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 30 + ["HHHG"] * 30)
    keep(tmp_path, SHARED, ["MMMG"] * 24 + ["HMMG"] * 6 + ["HHHG"] * 30, "shared 2")
    found = across(tmp_path)
    [both] = found.agreements
    assert [each.question for each in both.questions] == [*DIMENSIONS, "overall"]
    assert overall(both) == (60, 0.9)
    grid = layouts_grid(found.agreements)
    assert grid.header == ["", "n", "equal", "kappa"]
    assert grid.lines[-1][2].startswith("90% [") and grid.lines[-1][3].startswith("0.80 [")
    assert grid.lines[3] == ["aesthetics", "60", "100% [94, 100]", "–"], "one answer for everything agrees by habit"
    assert "--reuse-hours 0" in agreement_notes(found.agreements)[1]


def test_another_run_tells_how_far_the_published_layout_agrees_with_itself(tmp_path: Path, jury: Any) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 10 + ["HHHG"] * 10)
    keep(tmp_path, SHARED, ["MMMG"] * 20, "shared 2")
    keep(tmp_path, AGAIN, ["MMMG"] * 10 + ["HHHG"] * 8 + ["MHHG"] * 2)
    found = across(tmp_path)
    assert [overall(each) for each in found.agreements] == [(20, 0.5), (20, 0.9)]
    assert [layouts_grid(found.agreements).lines[-1][place] for place in (2, 5, 6)] == ["10 of 20", "18 of 20", "0.80"]
    code, out, err = jury("compare", SHARED, PUBLISHED, "--across", "layout", "--page", "--store", tmp_path)
    assert code == 0, err
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "overall 20 10 of 20 – 20 18 of 20 0.80" in lines
    assert f"Published twice: {PUBLISHED} and {AGAIN}." in lines
    [page] = (tmp_path / "pages").glob("compare-*.html")
    assert "How far both layouts agree" in page.read_text() and "18 of 20" in page.read_text()


@pytest.mark.parametrize(
    "changes", [{"day": "18"}, {"candidate": "beta"}, {"protocol": {"orders": "both"}}, {"layout": "shared 2"}], ids=str
)
def test_a_run_that_says_nothing_of_the_published_layout_is_left_out(tmp_path: Path, changes: dict[str, Any]) -> None:
    """One that took its replies over, is of another candidate, or was asked otherwise."""
    keep(tmp_path, PUBLISHED, ["MMMG"] * 20)
    keep(tmp_path, SHARED, ["MMMG"] * 20, "shared 2")
    keep(tmp_path, AGAIN, ["MMMG"] * 20, **changes)
    assert len(across(tmp_path).agreements) == 1


def test_two_versions_of_the_shared_layout_differ_and_have_no_published_one_beside_them(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 20, "shared 1")
    keep(tmp_path, SHARED, ["MMMG"] * 20, "shared 2")
    keep(tmp_path, AGAIN, ["MMMG"] * 20, "shared 1")
    protocols = [PROTOCOL | {"layout": layout} for layout in ("shared 1", "shared 2")]
    assert protocol_differences(*protocols) == ["layout"]
    assert [overall(each) for each in across(tmp_path).agreements] == [(20, 1.0)]


def test_layouts_without_a_sample_in_common_are_compared_without_their_agreement(tmp_path: Path) -> None:
    keep(tmp_path, PUBLISHED, ["MMMG"] * 3)
    protocol = {**PROTOCOL, "layout": "shared 2"}
    other = [outcome(f"t{number}") for number in range(3)]
    ended = end(protocol=protocol, protocol_key=protocol_key(protocol))
    write_run(tmp_path, start(SHARED, protocol=protocol), [*other], ended)
    found = across(tmp_path)
    assert found.agreements == () and agreement_notes(found.agreements) == []


def test_what_stands_beside_scores_of_the_shared_layout_and_not_of_the_published_one() -> None:
    assert layout_lines(PROTOCOL, PUBLISHED, 1000, 0) == []
    shared = {**PROTOCOL, "layout": "shared 2"}
    compared = (
        f"layout shared: `jury compare RUN {SHARED} --across layout`, RUN in the published layout, shows how far both "
        "layouts agree"
    )
    silent = "layout shared: the judge reported none of 12,000 input tokens as read from a cache"
    assert layout_lines(shared, SHARED, 12_000, 0) == [silent, compared]
    at_home = {**shared, "endpoint": "http://localhost:8000/v1"}
    assert "(vLLM: by itself, in blocks of 16 tokens" in layout_lines(at_home, SHARED, 12_000, 0)[0]
    half = "layout shared: 50% of 12,000 input tokens were read from the judge's cache"
    assert layout_lines(shared, SHARED, 12_000, 6_000) == [half, compared]


def leaning(request: Request) -> Reply:
    """Finds the Model better, but where aesthetics are asked for at the end, as in the shared layout alone."""
    return verdict("Human" if "Judge aesthetics" in request.texts[-1] else "Model")


@pytest.mark.usefixtures("prefect_server")
def test_a_run_in_the_shared_layout_is_compared_with_two_in_the_published_one(
    tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any
) -> None:
    loopback.answer = leaning
    root = write_own_benchmark(tmp_path / "bench")
    data = ("--dataset", root, "--results", root / RESULTS, "--limit", 3, "--reuse-hours", 0, *judged_by(loopback))
    for layout in ("shared", "published", "published"):
        code, out, err = jury("run", "diagram", *data, "--layout", layout)
        assert code == 0 and ("layout shared: `jury compare RUN 2" in out) == (layout == "shared"), err
    shared, first, second = (each["run_id"] for each in ask("SELECT run_id FROM runs ORDER BY started_at"))
    assert "layout: none → shared 2" in jury("compare", first, shared)[2]
    code, out, err = jury("compare", first, shared, "--across", "layout")
    assert code == 0 and "Across: layout." in out and f"Published twice: {first} and {second}." in out, err
    lines = [line.split() for line in out.splitlines() if line.strip().startswith(("overall", "aesthetics"))]
    assert [line[0] for line in lines[-2:]] == ["aesthetics", "overall"]
    assert [line[1:5] for line in lines[-2:]] == [["3", "0", "of", "3"], ["3", "3", "of", "3"]]
    assert [line[-5:-1] for line in lines[-2:]] == [["3", "3", "of", "3"]] * 2
    assert jury("report", shared, "-o", tmp_path / "report.html")[0] == 0
    assert "layout shared: " in (tmp_path / "report.html").read_text()
