"""Comparison of runs across the layouts of a judge's questions."""

from pathlib import Path
from typing import Any

import pytest
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import verdict
from written_datasets import write_figures


@pytest.mark.usefixtures("prefect_server")
def test_shared_layout_run_is_compared_with_published_layout_run(
    tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any
) -> None:
    # In the shared layout the dimension comes last.
    loopback.answer = lambda seen: verdict("Human" if "Judge aesthetics" in seen.texts[-1] else "Model")
    data = (*write_figures(tmp_path / "data", 3), "--reuse-hours", 0, *judged_by(loopback))
    note = "layout shared, not the published one: `jury compare RUN 2"
    for layout in ("shared", "published"):
        code, out, err = jury("run", "diagram", *data, "--layout", layout)
        assert code == 0 and (note in out) == (layout == "shared"), err
    shared, first = (each["run_id"] for each in ask("SELECT run_id FROM runs ORDER BY started_at"))
    assert "layout: none → shared 2" in jury("compare", first, shared)[2]
    code, out, err = jury("compare", first, shared, "--across", "layout")
    assert code == 0 and "Across: layout." in out, err
    lines = {line.split()[0]: line.split()[1:3] for line in out.splitlines() if line.strip()}
    assert (lines["aesthetics"], lines["overall"]) == (["100.0", "0.0"], ["100.0", "100.0"])
    assert jury("report", shared, "-o", tmp_path / "report.html")[0] == 0
    assert "layout shared, not the published one: " in (tmp_path / "report.html").read_text()
