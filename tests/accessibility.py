"""What axe-core, a program that finds what people with disabilities cannot use, says of a page in a browser.

Owns which version is asked, where it is kept, and that it is the very file that was chosen: it comes from npm, since
its licence (MPL-2.0) is another than this repository's.
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
"""Beside no checkout, so that all of them share it."""
SECONDS = 60.0
"""Longest wait for npm."""
TOLD = """async () => (await axe.run({resultTypes: ["violations"]})).violations.flatMap((rule) => rule.nodes.map(
    (node) => `${rule.impact}: ${rule.id}: ${node.target.join(" ")}: ${node.failureSummary}`))"""


@cache
def script() -> str:
    """axe-core; the test is skipped where it can be had from nowhere."""
    if not KEPT.exists():
        _fetch()
    data = KEPT.read_bytes()
    assert base64.b64encode(hashlib.sha512(data).digest()).decode() == SHA512, f"{KEPT} is not {PACKAGE}: remove it"
    with tarfile.open(KEPT) as package:
        found = package.extractfile("package/axe.min.js")
        assert found
        return found.read().decode()


def _fetch() -> None:
    """Put the package where it is kept."""
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
    """What it finds in a page that answers so, whatever the impact."""
    if not evaluate("typeof axe === 'object'"):
        evaluate(f"() => {{ {script()}\n }}")
    return evaluate(TOLD)
