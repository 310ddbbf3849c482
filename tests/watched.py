"""Checks of hostile input during its use: opened files, time, memory, messages.

This module defines harm: an answer or one sentence of `InputError` is harmless, whatever the input.
"""

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from flows.cli import main
from tasks.datasets.entries import read_picture, read_texts
from tasks.errors import InputError
from tasks.pictures.decoding import decode
from tasks.protocols import parameters_of
from tasks.protocols.loading import load_dataset

SECRET = "TOP-SECRET-WORDS"
LONGEST_SECONDS = 20
"""Processor time: other load of the machine must not count."""
MOST_BYTES = 1_500_000_000
OUTSIDE = "outside"
"""Folder beside the input that must not be touched."""

_watching: list[tuple[str, list[str]]] = []


def _note_opened(event: str, arguments: tuple[object, ...]) -> None:
    if _watching and event in ("open", "os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink"):
        place, opened = _watching[-1]
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_NOFOLLOW:
            return  # the flag refuses a link
        for name in arguments[:2]:
            if isinstance(name, str | bytes | os.PathLike) and _leads_to(os.fsdecode(name), place):
                opened.append(f"{event} {os.fsdecode(name)}")


def _leads_to(name: str, place: str) -> bool:
    # Resolving a link raises audit events of another kind, none of those above.
    return "\0" not in name and os.path.realpath(name).startswith(place)


sys.addaudithook(_note_opened)


@contextmanager
def bounded_memory(more: int) -> Iterator[None]:
    """Let this process allocate this many more bytes; beyond that, MemoryError is raised."""
    status = Path("/proc/self/status").read_text().splitlines()
    held = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData:"))
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (held + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Stop excessive use of time or memory; afterwards, check that nothing outside the folder was opened or made."""
    place = folder.with_name(OUTSIDE)
    place.mkdir(exist_ok=True)
    (place / "secret.json").write_text(f'["{SECRET}", {SECRET}')
    (place / "secret.png").write_bytes(SECRET.encode())
    opened: list[str] = []
    before = signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_SECONDS)
    _watching.append((str(place.resolve()), opened))
    try:
        with bounded_memory(MOST_BYTES):
            yield
    finally:
        _watching.pop()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert opened == []
    assert sorted(path.name for path in place.iterdir()) == ["secret.json", "secret.png"]
    assert (place / "secret.png").read_bytes() == SECRET.encode()


def _too_long(_signal: int, _frame: object) -> None:
    raise AssertionError(f"it took more than {LONGEST_SECONDS} s of the processor")


def used(flow: str, folder: Path, **parameters: object) -> str:
    """Load a dataset and read everything it contains; return its messages. Texts and pictures are dropped."""
    asked = parameters_of(flow).model_validate({"store": str(folder / "store"), **parameters})
    try:
        dataset = load_dataset(flow, asked)
    except InputError as error:
        return str(error)
    messages = [*dataset.warnings]
    for sample in dataset.samples:
        messages += _sentences(lambda one=sample: read_texts(one))
        for source in sample.pictures.values():
            messages += _sentences(lambda one=source: decode(read_picture(one), 64, unless_plain=True))
    return "\n".join(messages)


def ended(*words: object) -> tuple[int, str]:
    """Return the exit code of a command, and everything it printed."""
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main([*map(str, words)])
    return code, printed.getvalue()


def harmless(message: str) -> None:
    """Check that the message quotes no secret, shows no traceback and fits a page."""
    assert SECRET not in message and "root:x:0" not in message
    assert "Traceback" not in message and "a fault of Image Jury" not in message
    assert len(message) < 20_000


def commands_nothing(printed: str) -> None:
    """Check that the terminal output contains no control characters."""
    assert [char for char in printed if not char.isprintable() and char not in "\n\t"] == []


def _sentences(use: Callable[[], object]) -> list[str]:
    try:
        use()
    except InputError as error:
        return [str(error)]
    return []
