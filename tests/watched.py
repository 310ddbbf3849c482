"""Hostile input watched while it is used: what was opened, how long it took, how much memory, what was said.

Owns what counts as harm. An answer or one sentence of `InputError` is none, whatever the input.
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
from tasks.pictures.decoding import check
from tasks.protocols.loading import load_dataset
from tasks.records.parameters import parameters_of

SECRET = "TOP-SECRET-WORDS"
LONGEST_SECONDS = 20
"""Of the processor: what else the machine does is no fault of the input."""
MOST_BYTES = 1_500_000_000
OUTSIDE = "outside"
"""Folder beside the input that is none of its business."""

_watching: list[tuple[str, list[str]]] = []


def _note_opened(event: str, arguments: tuple[object, ...]) -> None:
    if _watching and event in ("open", "os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink"):
        place, opened = _watching[-1]
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_NOFOLLOW:
            return  # a link is refused there
        for name in arguments[:2]:
            if isinstance(name, str | bytes | os.PathLike) and _leads_to(os.fsdecode(name), place):
                opened.append(f"{event} {os.fsdecode(name)}")


def _leads_to(name: str, place: str) -> bool:
    # Asking the file system where a link leads raises events of its own kind, and none of those above.
    return "\0" not in name and os.path.realpath(name).startswith(place)


sys.addaudithook(_note_opened)


@contextmanager
def bounded_memory(more: int) -> Iterator[None]:
    """Let this process take so many more bytes; what does not fit raises MemoryError."""
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
    """Stop what takes too long or too much; afterwards, nothing was opened or made outside of the folder."""
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
    """What is said of a dataset when it is loaded and all that it holds is read; texts and pictures go no further."""
    asked = parameters_of(flow).model_validate({"store": str(folder / "store"), **parameters})
    try:
        dataset = load_dataset(flow, asked)
    except InputError as error:
        return str(error)
    said = [*dataset.warnings]
    for sample in dataset.samples:
        said += _sentences(lambda one=sample: read_texts(one))
        for source in sample.pictures.values():
            said += _sentences(lambda one=source: check(read_picture(one), 64))
    return "\n".join(said)


def ended(*words: object) -> tuple[int, str]:
    """Exit code of a command, and all that it printed."""
    told = StringIO()
    with redirect_stdout(told), redirect_stderr(told):
        code = main([*map(str, words)])
    return code, told.getvalue()


def harmless(said: str) -> None:
    """What is said quotes no secret, shows no traceback and fits a page."""
    assert SECRET not in said and "root:x:0" not in said
    assert "Traceback" not in said and "a fault of Image Jury" not in said
    assert len(said) < 20_000


def commands_nothing(printed: str) -> None:
    """What went to the terminal holds nothing that commands it."""
    assert [char for char in printed if not char.isprintable() and char not in "\n\t"] == []


def _sentences(use: Callable[[], object]) -> list[str]:
    try:
        use()
    except InputError as error:
        return [str(error)]
    return []
