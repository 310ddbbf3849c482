"""The documentation's notebook: running it gives the answers stored in it.

As a program, run the notebook and store the answers of its cells in the notebook itself (`make notebook`) or in the
given file, without times and HTML, which differ by machine and version. A second argument is the `python` with which
the notebook starts processes.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from served import environment

NOTEBOOK = Path(__file__).parents[1] / "flows" / "api.ipynb"
SECONDS = 500


def execute_notebook(notebook: Path, folder: Path, python: str = sys.executable) -> Any:
    os.environ |= {"JUPYTER_RUNTIME_DIR": str(folder / "runtime"), "IPYTHONDIR": str(folder / "ipython")}
    os.environ |= {"JUPYTER_PLATFORM_DIRS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    (startup := folder / "ipython" / "profile_default" / "startup").mkdir(parents=True)
    (startup / "executable.py").write_text(f"import sys\nsys.executable = {python!r}\n")
    import nbformat
    from nbclient import NotebookClient

    nodes = nbformat.read(notebook, as_version=4)
    place = folder / "work"
    place.mkdir()
    NotebookClient(nodes, timeout=SECONDS, record_timing=False, resources={"metadata": {"path": place}}).execute()
    for cell in nodes.cells:
        for answer in cell.get("outputs", ()):
            if cell.id == "shown":
                lowest = answer["data"]["text/html"]
                assert (lowest.count("<figure"), lowest.count("data:image/jpeg;base64,")) == (6, 12)
                answer["data"]["text/plain"] = re.sub(r"Run \S+\)", "Run …)", answer["data"]["text/plain"])
            for form in ("text/html", "image/jpeg"):
                answer.get("data", {}).pop(form, None)
    nodes.metadata = {"kernelspec": nodes.metadata.kernelspec, "language_info": {"name": "python"}}
    return nodes


def answers(notebook: Path) -> dict[str, Any]:
    """Return the printed and displayed answers by cell name; pictures only by their presence."""
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
def test_notebook_runs_and_its_answers_are_current(tmp_path: Path, prefect_server: str, commands: Path) -> None:
    pytest.importorskip("nbclient", reason="an environment made before the notebook: `make .venv/.ready` completes it")
    command = [sys.executable, __file__, tmp_path / "run.ipynb", commands / "python"]
    env = environment() | {"PREFECT_API_URL": prefect_server}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert answers(tmp_path / "run.ipynb") == answers(NOTEBOOK)


def test_notebook_reveals_nothing_of_the_machine_that_ran_it() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not any(word in text for word in ("/tmp", "/home", "/root", "Traceback", "stderr"))
    assert all(answers(NOTEBOOK)[cell] for cell in ("judge", "score", "shown", "frame", "again", "table", "mistake"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        found = execute_notebook(NOTEBOOK, Path(scratch), *sys.argv[2:])
    import nbformat

    nbformat.write(found, sys.argv[1] if sys.argv[1:] else NOTEBOOK)
