"""Paths that name other files in each run: `{date}` and patterns in the path parameters of recurring runs.

Owns which parameters are paths, what dates and patterns in them stand for, and how they become absolute. What is in the
files is read by `dataset`.
"""

from collections.abc import Iterator
from datetime import datetime
from glob import glob, has_magic
from pathlib import Path
from string import Formatter

from tasks.datasets.absent import check_no_url
from tasks.datasets.roots import FENCED, check_place
from tasks.errors import InputError, Problems
from tasks.parameters import DEFAULT_STORE, Parameters
from tasks.synthetic.samples import DRAWN

READ = ("dataset", "results", "images", "metadata")
"""Path parameters whose file or folder must be there: they take a date and a pattern."""
WRITTEN = ("export",)
"""Path parameters that a run writes to: they take a date and no pattern, which can only find what is there."""
DATE = "%Y-%m-%d"
ALLOWED = "allowed are {date} and {date:FORMAT} as in {date:%Y%m%d}; a brace that belongs to the name is doubled"


def resolved(parameters: Parameters, now: datetime) -> Parameters:
    """The parameters with dates and patterns replaced by what they stand for at this moment; other paths stay.

    `{date}` is the day of `now`, `{date:FORMAT}` any strftime format of it. Give the worker's local time: that is what
    a generator on the same machine names its files by, and a run does not know the timezone of its schedule. A path
    with `*`, `?`, `[` or `**` then stands for the newest file or folder that matches, unless a file of that very
    name exists. The newest is the one modified last, and of several the last by name: names need not sort by time
    (`run_9` comes after `run_10`), while a generator that writes a file does date it.

    Raises:
        InputError: lists each path that holds anything else in braces, matches nothing, or may not be a pattern; and
            each place outside of `JURY_ROOTS`, where that is set. Or names a URL in the place of what is read.
    """
    problems = Problems()
    found: dict[str, str] = {}
    for field, path in _places(parameters):
        if field in READ:
            check_no_url(field, path)
        try:
            dated = _dated(path, now) if field in (*READ, *WRITTEN) else path
            check_place(field, dated)  # before anything is looked for
            if field in READ:
                found[field] = _newest(dated)
                check_place(field, found[field])
            elif field in WRITTEN:
                found[field] = _without_pattern(dated)
        except InputError as error:
            problems.add(field, str(error))
    problems.stop("the choice of files")
    return parameters.model_copy(update={field: path for field, path in found.items() if path})


def _places(parameters: Parameters) -> Iterator[tuple[str, str]]:
    """Each place that is named, with the name of its parameter."""
    for field in FENCED:
        given: str | list[str] = getattr(parameters, field, "")
        yield from ((field, path) for path in ([given] if isinstance(given, str) else given))


def absolute(parameters: Parameters) -> Parameters:
    """The same with the relative paths of this working directory made absolute, for runs that are made elsewhere."""
    named = {field: path for field in (*READ, "store") if (path := getattr(parameters, field, ""))}
    on_disk = {field: path for field, path in named.items() if path not in (DRAWN, DEFAULT_STORE) and "://" not in path}
    followed = [str(Path(path).expanduser().absolute()) for path in parameters.follow_links]
    return parameters.model_copy(
        update={field: str(Path(path).expanduser().absolute()) for field, path in on_disk.items()}
        | {"follow_links": followed}
    )


def _dated(path: str, now: datetime) -> str:
    if "\0" in path:
        raise InputError(f"{path!r} holds a NUL character, which no path can")
    try:
        pieces = list(Formatter().parse(path))
    except ValueError:  # of the library, whatever is wrong with the braces
        raise InputError(f"{path!r} has a brace without its other half; {ALLOWED}") from None
    if any(name not in (None, "date") or kind or "{" in (form or "") for _, name, form, kind in pieces):
        raise InputError(f"{path!r} holds other braces; {ALLOWED}")
    return "".join(text + (now.strftime(form or DATE) if name else "") for text, name, form, _ in pieces)


def _newest(pattern: str) -> str:
    path = _below_home(pattern) if pattern else ""
    if not has_magic(path) or Path(path).exists():
        return pattern
    # Unlike Path.glob, this one leaves out hidden files: what editors and copying tools keep beside the results.
    matches = [match for match in map(Path, glob(path, recursive=True)) if match.exists()]  # noqa: PTH207
    if not matches:
        raise InputError(f"no file or folder matches {pattern!r}, looked for in {Path.cwd()}")
    return str(max(matches, key=lambda match: (match.stat().st_mtime_ns, match.name)))


def _below_home(path: str) -> str:
    try:
        return str(Path(path).expanduser())
    except RuntimeError as error:  # there is no such user
        raise InputError(f"{path!r}: {error}") from error


def _without_pattern(path: str) -> str:
    if "*" in path or "?" in path:
        raise InputError(f"{path!r} is a pattern; allowed is the name of one file to write, which may hold {{date}}")
    return path
