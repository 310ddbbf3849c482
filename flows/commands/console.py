"""Terminal of a command: help in sections, answers, warnings, faults, and commands to type next."""

import json
import re
import shlex
import shutil
import sys
import traceback
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from tasks.errors import InputError
from tasks.text import cut, print_aside, printable

ALL = "jury.help-all"
"""Key in the context of a command whose help lists every option."""
LONGEST = 34
"""Columns of the longest option with its sentence beside it; a longer option has the sentence below."""


class Option(click.Option):
    """An option, the heading under which `--help` lists it, and whether only `--help-all` does."""

    heading = "Options"
    is_rare = False


class Command(click.Command):
    """A command whose options are listed under their headings, and which has a heading of its own in a list."""

    heading = "Commands"

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, a section for each heading, in the order in which they were made."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if getattr(parameter, "is_rare", False) and not ctx.meta.get(ALL):
                continue
            if record and not isinstance(parameter, click.Argument):
                sections.setdefault(getattr(parameter, "heading", Option.heading), []).append(record)
        _write(formatter, sections)


class Group(click.Group):
    """Commands listed under their headings, with whole sentences; click would cut them to one line."""

    heading = Command.heading

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, a section for each heading, in the order in which they were added."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            sections.setdefault(getattr(command, "heading", Command.heading), []).append((name, command.help or ""))
        _write(formatter, sections)


def _write(formatter: click.HelpFormatter, sections: Mapping[str, Iterable[tuple[str, str]]]) -> None:
    for heading, records in sections.items():
        with formatter.section(heading):
            formatter.write_dl([*records], col_max=LONGEST)


LONGEST_LINE = 4000
"""Most characters of one line of a message."""
GAP = "  "
"""Space between two columns of a table."""

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
    print_aside("jury: " + "\n".join(lines))


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


def command_line(words: str, store: str = "") -> str:
    """Return a command to type next, with the program as it was called: by its path, or as `jury` if on the PATH.

    Args:
        store: store that it works on, named where it is not the default one; empty: it needs none.
    """
    from tasks.records.parameters import at_home, default_store  # Pydantic, which `--help` does without

    called = Path(sys.argv[0])
    found = shutil.which("jury")
    by_path = called.name == "jury" and not (found and called.exists() and called.samefile(found))
    where = f" --store {shlex.quote(store)}" if store and at_home(store) != default_store() else ""
    return f"{sys.argv[0] if by_path else 'jury'} {words}{where}"


def printable_json(value: object) -> str:
    """Return a value as JSON, with an escape such as `\\u009b` for each character that could command a terminal."""
    told = json.dumps(value, indent=1, ensure_ascii=False)
    return _COMMANDING.sub(lambda found: json.dumps(found[0])[1:-1], told)


def tell_fault(error: BaseException) -> None:
    """Report a fault of the program: its traceback, and a sentence at the end, where a terminal shows it first."""
    print(printable("".join(traceback.format_exception(error))), file=sys.stderr)
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    warn(f"a fault of Image Jury, not of what you gave it: {what}")
