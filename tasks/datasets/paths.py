"""Paths in run parameters: `{date}` and patterns, which name other files in each run, and the fence around all.

Anyone who can start a run fills in paths, and the worker opens them. `JURY_ROOTS`, if set, lists the folders and
buckets that they may lead to. The worker's own places, its default store and its copies of buckets, need no permission.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from glob import glob, has_magic
from pathlib import Path
from string import Formatter
from urllib.parse import unquote

from tasks.datasets.folders import is_url
from tasks.demo.labels import DRAWN
from tasks.errors import InputError, Problems
from tasks.ledger.remote import is_remote
from tasks.parameters import DEFAULT_STORE, ROOTS, Parameters, default_store, roots
from tasks.rubrics.rubric import prompt_sets
from tasks.text import one_line, quoted

FENCED = ("dataset", "results", "images", "metadata", "export", "store", "prompt_set", "follow_links")
"""Parameters that name one place or several."""
READ = ("dataset", "results", "images", "metadata")
"""Path parameters whose file or folder must exist: they accept a date and a pattern."""
WRITTEN = ("export",)
"""Path parameters that a run writes to: they accept a date but no pattern, which matches existing files only."""
DATE = "%Y-%m-%d"
ALLOWED = "allowed are {date} and {date:FORMAT} as in {date:%Y%m%d}; a brace that belongs to the name is doubled"
_DOWNLOADS = {
    r"https://huggingface\.co/datasets/([\w.-]+/)([\w.-]+)/?": r"hf download \1\2 --repo-type dataset --local-dir \2",
    r"https://github\.com/[\w.-]+/[\w.-]+/?": r"git clone \g<0>",
    r"s3://\S+": r"aws s3 cp --recursive \g<0> DIR",
    r"https?://\S+": r"curl -fLO '\g<0>'",
}
"""URL -> command that downloads it."""


def resolved(parameters: Parameters, now: datetime) -> Parameters:
    """Replace dates and patterns in path parameters with their values at this moment; other paths stay unchanged.

    `{date}` is the day of `now`, `{date:FORMAT}` any strftime format of it. Pass the worker's local time: a generator
    on the same machine names its files by it, and a run does not have the timezone of its schedule. A path with `*`,
    `?`, `[` or `**` then becomes the newest file or folder that matches, unless a file of that exact name exists. The
    newest is the one modified last and, in a tie, the last by name. Names need not sort by time (`run_9` comes after
    `run_10`), but a generator that writes a file updates its time.

    Raises:
        InputError: lists each path that has anything else in braces, matches nothing, or may not be a pattern, and each
            place outside of `JURY_ROOTS`, if that is set. A URL in place of a path to read is reported alone.
    """
    problems = Problems()
    found: dict[str, str] = {}
    for field, path in _places(parameters):
        if field in READ:
            check_no_url(field, path)
        try:
            dated = _dated(path, now) if field in (*READ, *WRITTEN) else path
            check_place(field, dated)  # before any lookup
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
    """Yield each named place with the name of its parameter."""
    for field in FENCED:
        given: str | list[str] = getattr(parameters, field, "")
        yield from ((field, path) for path in ([given] if isinstance(given, str) else given))


def absolute(parameters: Parameters) -> Parameters:
    """Make relative paths of inputs, store and followed links absolute, for runs in another working directory."""
    named = {field: path for field in (*READ, "store") if (path := getattr(parameters, field, ""))}
    on_disk = {field: path for field, path in named.items() if path not in (DRAWN, DEFAULT_STORE) and "://" not in path}
    followed = [str(Path(path).expanduser().absolute()) for path in parameters.follow_links if path]
    return parameters.model_copy(
        update={field: str(Path(path).expanduser().absolute()) for field, path in on_disk.items()}
        | {"follow_links": followed}
    )


def check_no_url(field: str, path: str) -> None:
    """Raise InputError, with a download command, if a path to read is a URL."""
    if is_url(path):
        ways = (found.expand(command) for url, command in _DOWNLOADS.items() if (found := re.fullmatch(url, path)))
        way = next((f", for example with `{command}`" for command in ways), "")
        raise InputError(
            f"{field} {quoted(path)} is a URL, and no URL is fetched: download it{way}, and name the file or "
            "folder here"
        )


def _dated(path: str, now: datetime) -> str:
    if "\0" in path:
        raise InputError(f"{path!r} contains a NUL character, which no path may")
    try:
        pieces = list(Formatter().parse(path))
    except ValueError:  # from the library, for any fault in the braces
        raise InputError(f"{path!r} has an unmatched brace; {ALLOWED}") from None
    if any(name not in (None, "date") or kind or "{" in (form or "") for _, name, form, kind in pieces):
        raise InputError(f"{path!r} holds other braces; {ALLOWED}")
    return "".join(text + (now.strftime(form or DATE) if name else "") for text, name, form, _ in pieces)


def _newest(pattern: str) -> str:
    path = _below_home(pattern) if pattern else ""
    if not has_magic(path) or Path(path).exists():
        return pattern
    # Unlike Path.glob, this one leaves out hidden files, which editors and copying tools keep beside the results.
    matches = [match for match in map(Path, glob(path, recursive=True)) if match.exists()]  # noqa: PTH207
    if not matches:
        raise InputError(f"no file or folder matches {pattern!r}, looked for in {Path.cwd()}")
    return str(max(matches, key=lambda match: (match.stat().st_mtime_ns, match.name)))


def _below_home(path: str) -> str:
    try:
        return str(Path(path).expanduser())
    except RuntimeError as error:  # no such user
        raise InputError(f"{path!r}: {error}") from error


def _without_pattern(path: str) -> str:
    if "*" in path or "?" in path:
        raise InputError(f"{path!r} is a pattern; allowed is the name of one file to write, which may hold {{date}}")
    return path


def check_place(field: str, place: str) -> None:
    """Check that a parameter may name this place, both as written and behind its links.

    Raises:
        InputError: the place is outside of `JURY_ROOTS`.
    """
    if place and place not in _own(field) and not is_allowed(place):
        allowed = ",".join(roots())
        raise InputError(f"{one_line(place)!r} leads outside of {allowed}, the places that {ROOTS} allows here")


def is_allowed(place: str) -> bool:
    """Return whether a place is inside of `JURY_ROOTS`; True if that is not set."""
    allowed = roots()
    return not allowed or any(_is_inside(place, root) for root in allowed)


def _own(field: str) -> list[str]:
    """Return the values that name places of the worker or of the program itself."""
    return {"dataset": [DRAWN], "prompt_set": prompt_sets(), "store": [DEFAULT_STORE, default_store()]}.get(field, [])


def _is_inside(place: str, root: str) -> bool:
    if is_remote(place) or is_remote(root):
        return ".." not in unquote(place).split("/") and f"{place.rstrip('/')}/".startswith(f"{root.rstrip('/')}/")
    if has_magic(place) and ".." in Path(place).parts:  # its target is unknown before the lookup
        return False
    try:
        return Path(place).expanduser().resolve().is_relative_to(Path(root).expanduser().resolve())
    except (OSError, RuntimeError, ValueError):  # circular links, no such user, or NUL
        return False
