"""Write the reference pages from the code: `make docs`.

The code has no words about settings and no example queries: `settings.toml` and `queries.sql` beside the pages have.
"""

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import duckdb
from pydantic import BaseModel

from flows import api
from flows.cli import COMMANDS
from tasks.endpoint.catalog import Endpoint, endpoints
from tasks.history import landing
from tasks.records.parameters import CHECKLIST, PAIRWISE, Parameters

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
VARIABLE = re.compile(r"\b_?JURY_[A-Z_]+\b")
NO_VARIABLES = {"_OF_JURY_UP"}
"""Names in the code that contain one, and are none."""
EXAMPLE = re.compile(r"^-- (\w+): (.+)\n((?:(?!-- ).*\n)+)", re.MULTILINE)


def pages() -> dict[str, str]:
    """Return file name -> text of each reference page."""
    made = {"cli": cli_page, "sql": sql_page, "endpoints": endpoints_page, "settings": settings_page}
    return {f"{name}.md": make() for name, make in {**made, "python": python_page}.items()}


def _page(title: str, *parts: str) -> str:
    notice = "<!-- Written by `make docs`; edit the code, or the sources beside this file. -->"
    return "\n\n".join([notice, f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "\\<")


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join([f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *lines]) if lines else ""


def _fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.strip()}\n```"


# The command line


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield the words of each command, as in `jury store sync`, and the command; groups come before theirs."""
    for entries in COMMANDS.values():
        for path, entry in entries.items():
            module, _, name = entry.place.partition(".")
            if not module:
                yield path, click.Group(path, help=entry.help)
                continue
            command: click.Command = getattr(import_module(f"flows.commands.{module}"), name)
            command.help = entry.help
            yield path, command
            if path != "run" and isinstance(command, click.Group):
                yield from ((f"{path} {each}", below) for each, below in command.commands.items())


def cli_page() -> str:
    """Return the page of the command line: a section for each command."""
    sections = (part for path, command in commands() for part in _command(path, command))
    about = (
        "`jury --help` lists the commands, and `jury COMMAND --help` the options of one. `jury run FLOW --help` shows "
        "what most people need, `--help-all` all options. [Settings](settings.md) has variables and exit codes."
    )
    return _page("Command line", about, *sections)


def _command(path: str, command: click.Command) -> list[str]:
    level = "##" if " " not in path else "###"
    parts = [f"{level} `jury {path}`", command.help or ""]
    if path == "run":
        flows = command.commands.items() if isinstance(command, click.Group) else ()
        words = ((f"`jury run {name}`", each.help or "") for name, each in flows)
        return [
            *parts,
            "`jury run FLOW... [OPTIONS]`",
            _table(("flow", "judges"), words),
            *_run_options(command),
        ]
    if type(command) is click.Group:
        return parts
    context = click.Context(command, info_name=f"jury {path}")
    parts.append(f"`{' '.join([f'jury {path}', *command.collect_usage_pieces(context)])}`")
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    named = ((f"`{each.make_metavar(context)}`", getattr(each, "help", "") or "") for each in arguments)
    return [*parts, _table(("argument", "meaning"), named), _options(command.params, context)]


def _options(parameters: Sequence[click.Parameter], context: click.Context) -> str:
    found = (each.get_help_record(context) for each in parameters if isinstance(each, click.Option))
    return _table(("option", "meaning"), ((f"`{name}`", words) for name, words in filter(None, found)))


def _run_options(command: click.Command) -> list[str]:
    """Return the options of all flows by their headings, each with the flows that have it."""
    assert isinstance(command, click.Group)
    topics = dict[str, dict[tuple[str, str], str]]()
    kinds = {PAIRWISE[0]: "figures", "counting": "images", CHECKLIST[0]: "checklists"}
    for flow, whose in kinds.items():
        below = command.commands[flow]
        context = click.Context(below, info_name=f"jury run {flow}")
        below.get_params(context)  # makes the options
        for option in below.params:
            name, words = option.get_help_record(context) or ("", "")
            topic = topics.setdefault(getattr(option, "heading", "Options"), {})
            row = name, re.sub(r"\d+ options", "options", words)
            topic[row] = f"{topic[row]}, {whose}" if row in topic else whose
    made: list[str] = []
    for topic, options in topics.items():
        every = ", ".join(kinds.values())
        rows = [(f"`{name}`", words, "all" if its == every else its) for (name, words), its in options.items()]
        made += [f"### Options of `jury run`: {topic}", _table(("option", "meaning", "flows"), rows)]
    return made


# The history


def examples() -> dict[str, tuple[str, str]]:
    """Return table or view -> a question in words and the query that answers it."""
    found = EXAMPLE.findall((REFERENCE / "queries.sql").read_text(encoding="utf-8"))
    return {name: (words, sql) for name, words, sql in found}


def sql_page() -> str:
    """Return the page of the history: views first, each with its columns and an example query."""
    views = "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal ORDER BY view_name"
    tables = "SELECT table_name, comment FROM duckdb_tables() WHERE NOT internal ORDER BY table_name"
    with duckdb.connect() as db:
        db.execute("ATTACH ':memory:' AS history; USE history")
        landing.lay_out(db)
        named = [("view", *row) for row in db.execute(views).fetchall()]
        named += [("table", *row) for row in db.execute(tables).fetchall()]
        parts = [part for kind, name, comment in named for part in _relation(db, kind, name, comment)]
    about = (
        "`jury query NAME` prints a view or table, `jury query --describe NAME` its columns. "
        "[Ask the history](../howto/query.md) has ten questions with their queries."
    )
    index = _table(
        ("name", "kind", "content"), [(f"[{name}](#{kind}-{name})", kind, _first(words)) for kind, name, words in named]
    )
    return _page("SQL: views and tables of the history", about, index, *parts)


def _relation(db: duckdb.DuckDBPyConnection, kind: str, name: str, comment: str) -> list[str]:
    columns = "SELECT column_name, data_type, comment FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index"
    rows = [
        (f"`{column}`", _kind(data_type), words or "")
        for column, data_type, words in db.execute(columns, [name]).fetchall()
    ]
    words, sql = examples()[name]
    rest = comment.removeprefix(_first(comment)).strip()
    return [f"## {kind} `{name}`", rest, words, _fenced(sql, "sql"), _table(("column", "type", "meaning"), rows)]


def _first(words: str) -> str:
    """Return the first sentence."""
    return words.partition(". ")[0].removesuffix(".") + "."


def _kind(data_type: str) -> str:
    """Return a type without the fields of structs, which their column's comment names."""
    shape, before = data_type, ""
    while shape != before:
        before, shape = shape, re.sub(r"(STRUCT|MAP)\([^()]*\)", r"\1", shape)
    return shape


# Endpoints


def endpoints_page() -> str:
    """Return the page of the known endpoints: a table for each, of what its documentation promises."""
    about = (
        "Facts of `tasks/endpoint/known.toml`, as each endpoint's documentation has them on the day beside its name. "
        "`jury judge endpoints --json` prints the same for programs."
    )
    rows = [
        (f"[`{each.name}`](#{each.name})", each.title, f"`{each.key}`" if each.key else "")
        for each in endpoints().values()
    ]
    sections = (part for each in endpoints().values() for part in (f"## {each.name}", _endpoint(each)))
    return _page("Known endpoints", about, _table(("name", "endpoint", "usual key"), rows), *sections)


def _endpoint(each: Endpoint) -> str:
    facts = {
        "address": f"`{each.address}`",
        "longest reply": f"`{each.token_limit}`",
        "reply format": f"`{each.reply_format}`",
        "pictures in a request": f"{each.pictures:,}" if each.pictures else "",
        "service tiers": ", ".join(("standard", *each.tiers)),
        "too many calls": each.limits,
        "not allowed": each.moderation,
        "cache": ": ".join(filter(None, (each.caches, each.caching))),
        "context": each.on_cut_input,
        "worth knowing": "; ".join(each.worth_knowing),
    }
    about = f"[{each.title}]({each.page}), looked up {each.looked_up}."
    return f"{about}\n\n{_table(('fact', 'documented'), [pair for pair in facts.items() if pair[1]])}"


# Settings


def variables_in_code() -> set[str]:
    """Return the variables that the program and its compose file read."""
    files = [*ROOT.glob("flows/**/*.py"), *ROOT.glob("tasks/**/*.py"), *ROOT.glob("deployments/*.yaml")]
    found = (VARIABLE.findall(file.read_text(encoding="utf-8")) for file in files)
    return {name for names in found for name in names} - NO_VARIABLES


def settings_page() -> str:
    """Return the page of variables, exit codes and files of a store.

    Raises:
        SystemExit: the source lacks a variable of the code, or has one that no code reads.
    """
    told: Mapping[str, dict[str, str]] = tomllib.loads((REFERENCE / "settings.toml").read_text(encoding="utf-8"))
    if odd := variables_in_code() ^ told["variables"].keys():
        sys.exit(f"settings.toml and the code differ in {', '.join(sorted(odd))}")
    completion = (
        "A shell completes commands, options and files after this line; zsh needs `zsh_source`, after "
        "`autoload -U compinit; compinit`; fish needs `_JURY_COMPLETE=fish_source jury | source`."
    )
    keys = (
        "Keys of judges are variables, too: [endpoints](endpoints.md) has their usual names. `AWS_*` variables are "
        "credentials for a bucket."
    )
    return _page(
        "Settings",
        "## Variables",
        _table(("variable", "meaning"), ((f"`{name}`", words) for name, words in told["variables"].items())),
        "These belong to other programs and matter here:",
        _table(("variable", "meaning"), ((f"`{name}`", words) for name, words in told["others"].items())),
        keys,
        "## Exit codes",
        _table(("code", "meaning"), told["exit_codes"].items()),
        "A Prefect server that dies or hangs during a run changes none of these. Judging goes on, and one sentence "
        "reports that the server's record is unfinished. One that hangs from the start is waited for 30 seconds.",
        "## Files of a store",
        _table(("file or folder", "content"), ((f"`{name}`", words) for name, words in told["files"].items())),
        "## Completion",
        completion,
        _fenced('eval "$(_JURY_COMPLETE=bash_source jury)"', "sh"),
    )


# Python


def python_page() -> str:
    """Return the page of `flows.api`: functions with their arguments, classes with their fields."""
    named = {name: getattr(api, name) for name in api.__all__}
    functions = [part for name, each in named.items() if inspect.isfunction(each) for part in _function(name, each)]
    classes = [part for name, each in named.items() if inspect.isclass(each) for part in _class(name, each)]
    about = "`from flows.api import …`; [the notebooks page](../howto/notebooks.md) has examples."
    picture = "A picture is a path, the bytes of a file, or a picture of Pillow."
    return _page("Python", about, "## Functions", *functions, "## Classes", *classes, "### `Picture`", picture)


def _function(name: str, function: Any) -> list[str]:
    signature = re.sub(r"-> '(.*)'$", r"-> \1", re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(inspect.signature(function))))
    return [f"### `{name}`", _fenced(f"{name}{signature}"), *_docstring(function)]


def _docstring(documented: Any) -> list[str]:
    """Return a docstring as paragraphs, and its arguments and errors as lists."""
    kinds, made = {"Args:": "argument", "Raises:": "raises"}, list[str]()
    for block in (inspect.getdoc(documented) or "").split("\n\n"):
        head, _, rest = block.partition("\n")
        if head not in kinds:
            made.append(block)
            continue
        entries = re.split(r"^    (?=\w)", rest, flags=re.MULTILINE)[1:]
        named = (entry.partition(": ") for entry in entries)
        made.append(_table((kinds[head], "meaning"), [(f"`{name}`", words) for name, _, words in named]))
    return made


def _class(name: str, kind: type[Any]) -> list[str]:
    parts = [f"### `{name}`", *_docstring(kind)]
    if issubclass(kind, Parameters):
        return [*parts, "Its fields are the [options of `jury run`](cli.md#jury-run), with `_` in place of `-`."]
    if issubclass(kind, BaseModel):
        told = _told(kind)
        rows = [(f"`{field}`", info.description or told.get(field, "")) for field, info in kind.model_fields.items()]
        parts.append(_table(("field", "meaning"), rows))
    own = [each for name, each in vars(kind).items() if inspect.isfunction(each) and not name.startswith("_")]
    methods = [part for each in own for part in _function(f"{name}.{each.__name__}", each)]
    return [*parts, *(methods if name == "Result" else ())]


def _told(kind: type[Any]) -> dict[str, str]:
    """Return field -> the docstring below it."""
    [body] = [each.body for each in ast.parse(inspect.getsource(kind)).body if isinstance(each, ast.ClassDef)]
    return {
        field.target.id: ast.literal_eval(below.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr)
    }


if __name__ == "__main__":
    for file, text in pages().items():
        (REFERENCE / file).write_text(text, encoding="utf-8")
