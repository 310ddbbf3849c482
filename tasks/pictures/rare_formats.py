"""Formats that a separate process reads: PDF and SVG, which are drawn, and TIFF and BMP.

Files that make their readers take hours or all memory are too rare to deserve a defense each, so the process has a
limit on both. Limits, required packages and the call are here; `rare_reader` is the process.
"""

import json
import signal
import subprocess
import sys
from functools import cache
from importlib.util import find_spec

from tasks.pictures.bad_picture import BadPicture, NoReader
from tasks.text import one_line

PACKAGES = {"PDF": "pypdfium2", "SVG": "resvg_py"}
"""Format -> package that draws it; both come with the extra `vector`."""
CONVERSIONS = {
    "PDF": "pdftoppm -png -singlefile -r 200 FILE.pdf FILE",
    "SVG": "rsvg-convert --width 2048 FILE.svg -o FILE.png",
}
SECONDS = 20
"""Seconds of processor time for one picture."""
LONGEST_WAIT = 600
"""Seconds in which even a busy machine provides that processor time."""
MEMORY = 2 << 30
"""Bytes of address space, including the libraries."""

BAD, UNSHOWABLE, FAILED = 3, 4, 5
"""Exit codes of the process: its output is the message of a `BadPicture` or of a `NoReader`, or the reader failed."""
_BY_ITSELF = {getattr(signal, name, 0) for name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP")}
"""Signals that end a reader because of its input or of the memory limit."""


def require_reader(name: str) -> None:
    """Raise NoReader, with the fix, if the package that reads a format is not installed or cannot be used."""
    if not (package := PACKAGES.get(name)):
        return
    if not find_spec(package):
        raise NoReader(
            f"{name}, which is drawn by the package {package}, and that is not installed: install the extra "
            f"`vector` (pip install -e '.[vector]'), or convert the file ({CONVERSIONS[name]})"
        )
    if fault := import_fault(package):
        raise NoReader(
            f"{name}, which is drawn by the package {package}, and that is installed but broken ({fault}): "
            f"reinstall it (pip install --force-reinstall {package}), or convert the file ({CONVERSIONS[name]})"
        )


@cache
def import_fault(package: str) -> str:
    """Return the error of importing an installed package; empty if the import succeeds.

    The import runs in another process, since native libraries may end the process that loads them.
    """
    ran = subprocess.run(
        [sys.executable, "-c", f"import {package}"], capture_output=True, timeout=LONGEST_WAIT, check=False
    )
    if not ran.returncode:
        return ""
    words = ran.stderr.decode(errors="replace").strip().splitlines()
    return one_line(words[-1]) if words else f"its import ends with code {ran.returncode}"


def decoded_apart(name: str, data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return the first frame or page of such a file as a PNG that looks the same, and the changes made to it.

    Raises:
        BadPicture: the file is damaged, too large, or takes too much time or memory.
        NoReader: the format has no reader here, or the file needs more than its own bytes to be shown.
        RuntimeError: something else ended the process, which does not make the file bad.
    """
    command = [sys.executable, "-m", "tasks.pictures.rare_reader", name, str(SECONDS)]
    # A separate session, so that Ctrl-C in the terminal is not taken for a fault of the picture.
    ran = subprocess.run(
        command, input=data, capture_output=True, timeout=LONGEST_WAIT, start_new_session=True, check=False
    )
    if ran.returncode == 0:
        notes, _, png = ran.stdout.partition(b"\n")
        return png, tuple(json.loads(notes))
    raise _error(name, ran.returncode, ran.stderr.decode(errors="replace").strip())


def _error(name: str, code: int, words: str) -> Exception:
    if code in (BAD, UNSHOWABLE):
        return (NoReader if code == UNSHOWABLE else BadPicture)(words)
    if code == -getattr(signal, "SIGXCPU", 0):
        return BadPicture(f"{name} that takes more than {SECONDS} s to be shown, the most allowed")
    if code == FAILED or -code in _BY_ITSELF:
        return BadPicture(f"{name} that its reader fails on, or that takes more than {MEMORY >> 30} GB of memory")
    return RuntimeError(f"the process that reads {name} was ended from outside (exit code {code}): {words}")
