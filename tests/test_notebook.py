"""The notebook of the documentation: run as Jupyter runs it, its answers are those that are kept in it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from notebook import NOTEBOOK
from served import environment


def answers(notebook: Path) -> dict[str, Any]:
    """Name of a code cell -> what it printed and answered; of pictures that there is one."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return {
        cell["id"]: [
            (output["output_type"], output.get("text"), output.get("data", {}).get("text/plain"))
            for output in cell["outputs"]
        ]
        for cell in cells
        if cell["cell_type"] == "code"
    }


@pytest.mark.timeout(600)
def test_the_notebook_runs_and_the_answers_in_it_are_current(tmp_path: Path, prefect_server: str) -> None:
    pytest.importorskip("nbclient", reason="an environment made before the notebook: `make .venv/.ready` completes it")
    command = [sys.executable, NOTEBOOK.parents[1] / "tests" / "notebook.py", tmp_path / "run.ipynb"]
    done = subprocess.run(
        command, env=environment() | {"PREFECT_API_URL": prefect_server}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert answers(tmp_path / "run.ipynb") == answers(NOTEBOOK)


def test_the_notebook_tells_nothing_of_the_machine_that_ran_it() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not any(word in text for word in ("/tmp", "/home", "/root", "Traceback", "stderr"))
    assert all(answers(NOTEBOOK)[cell] for cell in ("judge", "score", "again", "table", "mistake"))
