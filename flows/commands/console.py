"""Terminal of a command: help in sections, answers, warnings, faults, and commands to type next."""

import errno
import json
import os
import re
import shutil
import stat
import sys
import traceback
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tasks.errors import InputError
from tasks.text import cut, printable

GIVEN = "given"
"""Key of the values that the running command was given, in its context and the contexts above."""
LONGEST = 34
"""Columns of the longest option with its sentence beside it; a longer option has the sentence below."""


class Option(click.Option):
    """An option, and the heading under which `--help` lists it."""

    heading = "Options"


class Command(click.Command):
    """A command whose options are listed under their headings, and which has a heading of its own in a list."""

    heading = "Commands"

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, a section for each heading, in the order in which they were made."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and not isinstance(parameter, click.Argument):
                sections.setdefault(getattr(parameter, "heading", Option.heading), []).append(record)
        _write(formatter, sections)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; store its values before that, for the report of a failure."""
        ctx.meta[GIVEN] = ctx.params
        return super().invoke(ctx)


class Group(click.Group):
    """Commands listed under their headings, with whole sentences; click would cut them to one line."""

    heading = Command.heading

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, a section for each heading, in the order in which they were added."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            sections.setdefault(getattr(command, "heading", Command.heading), []).append((name, command.help or ""))
        _write(formatter, sections)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which the commands were added, for completion, too."""
        return [*self.commands]


def _write(formatter: click.HelpFormatter, sections: Mapping[str, Iterable[tuple[str, str]]]) -> None:
    for heading, records in sections.items():
        with formatter.section(heading):
            formatter.write_dl([*records], col_max=LONGEST)


LONGEST_LINE = 4000
"""Most characters of one line of a message."""
GAP = "  "
"""Space between two columns of a table."""
LOG = "jury.log"
"""File in the store with tracebacks of faults, each with its time, the newest last."""
DEBUG = "JURY_DEBUG"
"""Environment variable that prints tracebacks on standard error if it has any value."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a disk that only the user can fix, for any file."""

_COMMANDING = re.compile(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters that JSON leaves as they are, but that command a terminal, reverse writing, or cannot be seen or sent."""


def warn(sentence: str) -> None:
    """Print a sentence on standard error.

    It may quote strangers, so each character that could command a terminal becomes a space.
    """
    lines = (cut(line, LONGEST_LINE) for line in printable(sentence).split("\n"))
    print("jury: " + "\n".join(lines), file=sys.stderr)


@contextmanager
def left_to_sync(words: str = "`jury store sync` does the rest") -> Generator[None]:
    """Warn if the history cannot be written or the remote store cannot be reached, and leave that work for later."""
    from tasks.ledger.bucket import RemoteUnavailable

    try:
        yield
    except (InputError, RemoteUnavailable) as error:
        warn(f"{error}; {words}")


def say(text: str) -> None:
    """Print an answer that may quote strangers, without characters that could command a terminal."""
    print(printable(text))


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column in cells of a terminal; a character of a wide script takes two."""
    from rich.cells import cell_len

    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def aligned(rows: Sequence[Sequence[str]], widths: Sequence[int] = ()) -> Iterator[str]:
    """Yield a line for each row, with columns of these widths; without widths each is as wide as its longest cell."""
    from rich.cells import set_cell_size

    widths = widths or column_widths(rows)
    for row in rows:
        yield GAP.join(set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()


def command_line(words: str) -> str:
    """Return a command to type next, with the program as it was called: by its path, or as `jury` if on the PATH."""
    called = Path(sys.argv[0])
    found = shutil.which("jury")
    by_path = called.name == "jury" and not (found and called.exists() and called.samefile(found))
    return f"{sys.argv[0] if by_path else 'jury'} {words}"


def printable_json(value: object) -> str:
    """Return a value as JSON, with an escape such as `\\u009b` for each character that could command a terminal."""
    told = json.dumps(value, indent=1, ensure_ascii=False)
    return _COMMANDING.sub(lambda found: json.dumps(found[0])[1:-1], told)


def is_users(error: OSError, given: Mapping[str, Any]) -> bool:
    """Return whether an error concerns the remote store, a full disk, or a path that the user named, in or above it."""
    from tasks.ledger.bucket import RemoteUnavailable

    if isinstance(error, RemoteUnavailable) or error.errno in FULL:
        return True
    store = _store(given)
    named = [Path(value) for value in given.values() if isinstance(value, str) and value] + ([store] if store else [])
    places = [place.expanduser().absolute() for place in named]
    names = [name for name in (error.filename, error.filename2) if isinstance(name, str | bytes | Path)]
    failed = [Path(os.fsdecode(name)).absolute() for name in names]
    return any(place.is_relative_to(file) or file.is_relative_to(place) for file in failed for place in places)


def tell_fault(error: BaseException, given: Mapping[str, Any]) -> None:
    """Report a fault of the program: the exception, and the place of its traceback."""
    told = "".join(traceback.format_exception(error))
    if os.environ.get(DEBUG):
        print(printable(told), file=sys.stderr)
    where = _kept(told, given) or f"{DEBUG}=1 in the environment shows the traceback"
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    warn(f"a fault of Image Jury, not of what you gave it: {what} ({where})")


def _kept(told: str, given: Mapping[str, Any]) -> str:
    """Append a traceback to the log of the store; return its place, or an empty text if it could not be written."""
    folder = _store(given)
    if not folder or not folder.is_dir():
        return ""
    try:
        with os.fdopen(_opened(folder / LOG), "a", encoding="utf-8", errors="replace") as log:
            log.write(f"{datetime.now().astimezone().isoformat(timespec='seconds')}\n{told}\n")
    except OSError:
        return ""
    return f"its traceback is in {folder / LOG}"


def _opened(log: Path) -> int:
    """Open the log for this user alone; a stranger's store may have a link or a pipe in its place."""
    strange = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | strange, stat.S_IRUSR | stat.S_IWUSR)


def _store(given: Mapping[str, Any]) -> Path | None:
    from tasks.ledger.remote import local_cache
    from tasks.records.parameters import default_store

    return local_cache(given["store"] or default_store()) if "store" in given else None
