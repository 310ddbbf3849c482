"""Help in sections: options and commands listed under headings, each with its whole sentence."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

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
