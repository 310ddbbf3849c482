"""Accessibility faults that axe-core finds in a page, in a browser.

axe-core comes from npm, pinned by version and checksum; its licence (MPL-2.0) differs from this repository's. One copy
is kept in the user's cache folder.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tasks.files import write_whole

PACKAGE = "axe-core@4.14.1"
SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "image-jury" / f"{PACKAGE}.tgz"
"""Outside of any checkout, so that all checkouts share it."""
SECONDS = 60.0
"""Longest wait for npm."""
TOLD = """async () => (await axe.run({resultTypes: ["violations"]})).violations.flatMap((rule) => rule.nodes.map(
    (node) => `${rule.impact}: ${rule.id}: ${node.target.join(" ")}: ${node.failureSummary}`))"""


@cache
def script() -> str:
    """Return the text of axe-core; skip the test if it is neither cached nor available."""
    if not KEPT.exists():
        _fetch()
    data = KEPT.read_bytes()
    assert base64.b64encode(hashlib.sha512(data).digest()).decode() == SHA512, f"{KEPT} is not {PACKAGE}: remove it"
    with tarfile.open(KEPT) as package:
        found = package.extractfile("package/axe.min.js")
        assert found
        return found.read().decode()


def _fetch() -> None:
    """Download the package into the cache."""
    npm = shutil.which("npm")
    if not npm:
        pytest.skip(f"needs {PACKAGE}, and npm to get it (`apt-get install npm`)")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", PACKAGE, "--silent", "--fetch-retries=0", f"--fetch-timeout={SECONDS * 1000:.0f}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        packages = [*Path(folder).glob("*.tgz")]
        if done.returncode or not packages:
            pytest.skip(f"needs {PACKAGE}, and npm did not get it: {done.stderr.strip()[:200]}")
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        write_whole(KEPT, packages[0].read_bytes())


def faults(evaluate: Callable[[str], Any]) -> list[str]:
    """Return every fault in the page that `evaluate` runs scripts in, whatever its impact."""
    if not evaluate("typeof axe === 'object'"):
        evaluate(f"() => {{ {script()}\n }}")
    return evaluate(TOLD)
