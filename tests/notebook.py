"""Run the notebook of the documentation as Jupyter does, and keep what its cells answer.

    python tests/notebook.py [FILE]

Written is the notebook itself (`make notebook`), or FILE. What differs with each machine and version stays out: times,
and what an answer looks like in HTML; `test_notebook.py` holds the rest to what it was.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[1] / "flows" / "api.ipynb"
SECONDS = 500


def executed(notebook: Path, folder: Path) -> Any:
    """The notebook with its answers, run by a kernel that works in a folder."""
    os.environ |= {"JUPYTER_RUNTIME_DIR": str(folder / "runtime"), "IPYTHONDIR": str(folder / "ipython")}
    os.environ |= {"JUPYTER_PLATFORM_DIRS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    import nbformat
    from nbclient import NotebookClient

    nodes = nbformat.read(notebook, as_version=4)
    place = folder / "work"
    place.mkdir()
    NotebookClient(nodes, timeout=SECONDS, record_timing=False, resources={"metadata": {"path": place}}).execute()
    for cell in nodes.cells:
        for answer in cell.get("outputs", ()):
            for form in ("text/html", "image/jpeg"):
                answer.get("data", {}).pop(form, None)
    nodes.metadata = {"kernelspec": nodes.metadata.kernelspec, "language_info": {"name": "python"}}
    return nodes


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        found = executed(NOTEBOOK, Path(scratch))
    import nbformat

    nbformat.write(found, sys.argv[1] if sys.argv[1:] else NOTEBOOK)
