"""Paths of parameters and pictures: patterns, names in any Unicode form, and the fence around folders."""

import base64
import binascii
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from glob import glob, has_magic
from pathlib import Path, PurePosixPath
from string import Formatter
from urllib.parse import unquote

from tasks.demo.defects import DRAWN
from tasks.errors import Habitual, InputError, Problems
from tasks.files import open_regular, real_place
from tasks.ledger.remote import is_remote
from tasks.pictures.decoding import BadPicture, NoReader, format_of, is_svg
from tasks.pictures.rare_reader import self_contained
from tasks.records import PictureSource, Place
from tasks.records.parameters import DEFAULT_STORE, ROOTS, Parameters, default_store, roots
from tasks.rubrics.rubric import prompt_sets
from tasks.text import listed, one_line, quoted

NO_PICTURE = "no picture: "
"""Prefix of a source's problem if there is no picture."""
ENOUGH = 4096
"""Bytes that identify the format of any picture."""
LONGEST_PATH = 4096
"""Longest path of a picture, in characters."""
LARGEST_DRAWING = 16_000_000
"""Size in bytes below which an SVG is checked whole: references to other files may be anywhere in it."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def plain_name(name: str) -> str:
    """Return a file name for comparison: NFC, without invisible characters (category Cf), which unpacking may lose."""
    return unicodedata.normalize("NFC", "".join(c for c in name if unicodedata.category(c) != "Cf"))


def is_url(text: str) -> bool:
    """Return whether a text is a URL; no picture is ever fetched."""
    return bool(_URL.match(text))


def _folders(name: str, sample_id: str) -> tuple[str, ...]:
    """Return the folder of a path, and for a sample's own folder also the shape that it shares with other samples'."""
    folder = _folder(name)
    return (folder, folder.replace(sample_id, "<id>")) if sample_id and sample_id in folder else (folder,)


def _folder(name: str) -> str:
    """Return the folder of a path without `images`, which is optional."""
    parent = PurePosixPath(name).parent
    return str(parent.relative_to("images")) if parent.parts[:1] == ("images",) else str(parent)


class Folder:
    """Folder whose files are named by records. Contents and links are looked up once; each loading needs a new one."""

    def __init__(self, root: Path, followed: Sequence[str] = (), around: "Folder | None" = None) -> None:
        """Open a folder for one loading.

        Args:
            followed: folders that links in it may lead to.
            around: the dataset's folder, if it contains this one.

        Raises:
            InputError: an entry of `followed` is not a folder.
        """
        self.root = root.resolve()
        # An empty form field means no folder, not the current one.
        named = [Path(each).expanduser() for each in followed if each]
        self.within = around.within if around else (real_place(self.root), *map(real_place, named))
        """Places where its files may be, checked each time one is opened: the folder may have been replaced by then."""
        if absent := [str(each) for each in named if not each.is_dir()]:
            raise InputError(f"follow_links: {listed(absent)} is no folder; allowed are folders that links may lead to")
        self._roots = (self.root, *(each.resolve() for each in named))
        self._inside: dict[Path, bool] = {}
        self._listings: dict[Path, dict[str, list[Path]]] = {}
        self._filled: set[str] = set()
        self._absent: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        """Folders of records' paths that lead to a file, and folders -> those that do not; see `_folders`."""

    def picture(self, name: str, sample_id: str = "") -> PictureSource:
        """Return the picture at a path relative to the folder, or its problem: no such file, or not a picture.

        The path matches with or without `images/`, in any Unicode form.

        Args:
            sample_id: id in the record that names the path.

        Raises:
            InputError: the path is a URL or too long, leaves the folder, misspells the name of a file, or matches
                several files. Or it is a link without a target, or no reader here supports the file.
        """
        if is_url(name):
            raise Habitual(f"{quoted(name)} is a URL, and no URL is fetched: download it, and name the file", "URLs")
        if len(name) > LONGEST_PATH:  # a picture in base64 without `data:` would be an absent file, and so a forfeit
            raise Habitual(
                f"{quoted(name, 40)} is longer than a path may be: name a file, or write a data: URL", "long paths"
            )
        self.check(self.root / name, name)
        found = self._find(name)
        for variant in () if found else _variants(name):
            _check_end(self.root / variant)
        for variant in () if found else _variants(name):
            self._check_notation(name, variant)
        folders = _folders(name, sample_id)
        if found:
            self._filled.update(folders)
            return self.at(found)
        self._absent[folders].append(name)
        return PictureSource(problem=f"{NO_PICTURE}{quoted(name)} is not in {self.root}")

    def at(self, path: Path) -> PictureSource:
        """Return the picture in an existing file, with its problem if it is not a picture.

        Raises InputError if a link leads out or has no target, the file cannot be read, or its format has no reader.
        """
        self.check(path)
        _check_end(path)
        try:
            place = Place(path=str(path), within=self.within)
            return looked_at(PictureSource(place=place), of_file(path, self.within))
        except NoReader as error:
            raise Habitual(f"{path.name} is {error}", str(error)) from error

    def check(self, path: Path, name: str = "") -> None:
        """Raise InputError, with the fix if a link is the cause, if a path leads out of the folder and followed ones.

        A path that leads nowhere counts as inside.

        Args:
            name: the path as a record has it; empty: the name of its file.
        """
        if self._holds(path):
            return
        link = next(filter(self._leads_out, reversed((path, *path.parents))), None)
        advice = ": put the file into it, and name it from there"
        if link and Path(os.path.normpath(path)).is_relative_to(self.root):
            target = link.resolve()
            folder = target if target.is_dir() else target.parent
            advice = f", since a link leads to {target}: give --follow-links {folder} if links may lead there"
        what = f"path {quoted(name or path.name)} leaves the dataset folder {self.root}{advice}"
        raise Habitual(what, "paths that lead out")

    def _holds(self, path: Path) -> bool:
        try:
            if path.name == ".." or path.is_symlink():
                return self._contains(path.resolve())
            if path.parent not in self._inside:
                self._inside[path.parent] = self._contains(path.parent.resolve())
            return self._inside[path.parent] or path == self.root
        except (OSError, RuntimeError, ValueError):  # circular links, or a NUL in the name: not a file
            return True

    def _leads_out(self, path: Path) -> bool:
        return path.is_relative_to(self.root) and path.is_symlink() and not self._contains(path.resolve())

    def _contains(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self._roots)

    def check_named(self, problems: Problems) -> None:
        """Note the folders whose named files are all absent; call this after the last record.

        One absent file beside others is a missing output. If all files of a folder are absent, its name is wrong.
        Folders of one sample each count as one, and the first is named.
        """
        of_shape: defaultdict[str, list[str]] = defaultdict(list)
        for folders, names in self._absent.items():
            if self._filled.isdisjoint(folders):
                of_shape[folders[-1]] += names
        for names in of_shape.values():
            folder = _folder(names[0])
            many = f"none of the {len(names)} files" if len(names) > 1 else "no file"
            there = self._held(PurePosixPath(folder))
            problems.add(
                self.root.name,
                f"{many} named in {quoted(folder)} is there, such as {quoted(names[0])}; {there}. Correct the path, or "
                "leave the field empty where a candidate delivered nothing",
            )

    def _held(self, named: PurePosixPath) -> str:
        """Describe the contents of a folder or, if it does not exist, of the last existing folder on the way to it."""
        near, missing = self.root, False
        for part in named.parts:
            if missing := not _is_folder(near / part):
                break
            near /= part
        return f"{'there is no such folder, and ' if missing else ''}{near} holds {listed(_names(near), 5)}"

    def _find(self, name: str) -> Path | None:
        paths = [self.root / variant for variant in _variants(name)]
        for path in paths:
            if _is_file(path):
                return path
        alike = sorted({match for path in paths for match in self._alike(path) if _same(match, path)})
        if len(alike) > 1:
            raise InputError(f"picture {name!r} may be any of {listed(repr(path.name) for path in alike)}: rename them")
        return alike[0] if alike else None

    def _check_notation(self, name: str, wanted: str) -> None:
        r"""Raise InputError if an absent path has backslashes (`out\1.png`) or differs from a file only in case.

        Args:
            name: the path as it is written.
            wanted: a path that it may mean.
        """
        plain = name.replace("\\", "/")
        if plain != name and os.sep == "/":
            raise Habitual(f"path {quoted(name)} has backslashes: write {quoted(plain)}", "backslashes in paths")
        path = self.root
        for part in PurePosixPath(wanted).parts:
            found = self._alike(path / part)
            path = path / part if path / part in found else next(iter(found), path / part)
        if _is_file(path):
            what = f"path {quoted(name)} exists in another case: write {path.relative_to(self.root).as_posix()!r}"
            raise Habitual(what, "other large and small letters")

    def _alike(self, path: Path) -> list[Path]:
        """Return the paths in the folder of a path whose names differ at most in case or in the Unicode form."""
        folder = path.parent
        if folder not in self._listings:
            self._listings[folder] = defaultdict(list)
            for name in _names(folder):
                self._listings[folder][plain_name(name).casefold()].append(folder / name)
        return self._listings[folder].get(plain_name(path.name).casefold(), [])


def _same(path: Path, named: Path) -> bool:
    """Return whether a path is a file of this name, in any Unicode form."""
    return plain_name(path.name) == plain_name(named.name) and _is_file(path)


def _variants(name: str) -> Iterator[str]:
    yield name
    path = PurePosixPath(name)
    yield str(path.relative_to("images")) if path.parts[:1] == ("images",) else f"images/{name}"


def _names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none if it does not exist."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except (OSError, ValueError):  # not a folder, or a NUL in its name
        return []


_is_file, _is_folder = os.path.isfile, os.path.isdir
"""Unlike the methods of Path, they return False for a name that is too long, and in a folder without permission."""


def _check_end(path: Path) -> None:
    """Raise InputError, with the fix, for a link without a target: the file was removed, or has not arrived yet."""
    try:
        if not path.is_symlink() or path.exists():
            return
        target = path.readlink()
    except (OSError, ValueError):  # not a file
        return
    raise InputError(f"{path.name} is a link to {target}, which is not there: put it there, or remove the link")


def looked_at(source: PictureSource, head: bytes) -> PictureSource:
    """Return the source of a picture that begins with these bytes, with its problem if it is not a picture.

    The place is kept even then: a Human picture is part of the dataset's key. Raises NoReader if a known format has no
    reader here, which is not the fault of the picture's author.
    """
    try:
        if format_of(head) == "SVG" and len(head) < LARGEST_DRAWING:
            self_contained(head)
    except NoReader:
        raise
    except BadPicture as error:
        return replace(source, problem=str(error))
    return source


def of_file(path: Path, within: Collection[str] = ()) -> bytes:
    """Return the first bytes of a file. Raises InputError if it must not or cannot be read."""
    try:
        with open_regular(path, within=within) as file:
            head = file.read(ENOUGH)
            return head + file.read(LARGEST_DRAWING) if is_svg(head) else head
    except OSError as error:
        raise InputError(f"picture {path} cannot be read: {error.strerror}") from error


def of_value(value: str) -> bytes:
    """Return the first bytes of a picture in a record, from base64 text; other text is encoded as it is."""
    text = value.partition(",")[2] if value.startswith("data:") else value
    found = _decoded(text[: 2 * ENOUGH])[:ENOUGH]
    if is_svg(found):
        return _decoded(text[: 2 * LARGEST_DRAWING])
    return found or value[:ENOUGH].encode("utf-8", "replace")


def _decoded(text: str) -> bytes:
    kept = "".join(text.split()).encode("ascii", "replace")
    try:
        return base64.b64decode(kept[: len(kept) // 4 * 4], validate=True)
    except binascii.Error:
        return b""


FENCED = ("dataset", "results", "images", "metadata", "export", "store", "prompt_set", "follow_links")
"""Parameters that name one place or several."""
READ = ("dataset", "results", "images", "metadata")
"""Path parameters whose file or folder must exist: they accept a date and a pattern."""
EXPORT = "export"
"""Path parameter of a file to write: it accepts a date but no pattern, which matches existing files only."""
DATE = "%Y-%m-%d"
ALLOWED = "allowed are {date} and {date:FORMAT} as in {date:%Y%m%d}; a brace that belongs to the name is doubled"


def resolved(parameters: Parameters, now: datetime) -> Parameters:
    """Replace dates and patterns in path parameters with their values at this moment; other paths stay unchanged.

    `{date}` is the day of `now`, `{date:FORMAT}` any strftime format of it. Pass the worker's local time: a generator
    on the same machine names its files by it, and a run does not have the timezone of its schedule. A path with `*`,
    `?`, `[` or `**` then becomes the newest file or folder that matches, unless a file of that exact name exists. The
    newest is the one modified last and, in a tie, the last by name. Names need not sort by time (`run_9` comes after
    `run_10`), but a generator that writes a file updates its time. The folder of a prompt set loses a slash at its end,
    because a series has it as it is written.

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
            filled = dated(path, now) if field in (*READ, EXPORT) else path
            check_place(field, filled)  # before any lookup
            if field in READ:
                found[field] = newest(filled)
                check_place(field, found[field])
            elif field == EXPORT:
                found[field] = _without_pattern(filled)
            elif field == "prompt_set" and path.rstrip("/") not in prompt_sets():  # `paper/` is a folder, `paper` a set
                found[field] = path.rstrip("/")
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


def dataset_root(source: Path, flow: str) -> Path:
    """Return the dataset's folder, also if the user named the task folder inside it."""
    return source.parent if source.name == flow else source


def check_no_url(field: str, path: str) -> None:
    """Raise InputError if a path to read is a URL."""
    if is_url(path):
        raise InputError(
            f"{field} {quoted(path)} is a URL, and no URL is fetched: download it, and name the file or folder here"
        )


def dated(path: str, now: datetime) -> str:
    """Return a path with its dates filled in. Raises InputError if it has other braces, or a NUL; see `resolved`."""
    if "\0" in path:
        raise InputError(f"{path!r} contains a NUL character, which no path may")
    try:
        pieces = list(Formatter().parse(path))
    except ValueError:  # from the library, for any fault in the braces
        raise InputError(f"{path!r} has an unmatched brace; {ALLOWED}") from None
    if any(name not in (None, "date") or kind or "{" in (form or "") for _, name, form, kind in pieces):
        raise InputError(f"{path!r} holds other braces; {ALLOWED}")
    return "".join(text + (now.strftime(form or DATE) if name else "") for text, name, form, _ in pieces)


def newest(pattern: str) -> str:
    """Return the newest file or folder that matches a path. Raises InputError if nothing matches; see `resolved`."""
    try:
        path = str(Path(pattern).expanduser()) if pattern else ""
    except RuntimeError as error:  # no such user
        raise InputError(f"{pattern!r}: {error}") from error
    if not has_magic(path) or Path(path).exists():
        return pattern
    # Unlike Path.glob, this one leaves out hidden files, which editors and copying tools keep beside the results.
    matches = [match for match in map(Path, glob(path, recursive=True)) if match.exists()]  # noqa: PTH207
    if not matches:
        raise InputError(f"no file or folder matches {pattern!r}, looked for in {Path.cwd()}")
    return str(max(matches, key=lambda match: (match.stat().st_mtime_ns, match.name)))


def _without_pattern(path: str) -> str:
    if "*" in path or "?" in path:
        raise InputError(f"{path!r} is a pattern; allowed is the name of one file to write, which may hold {{date}}")
    return path


def check_place(field: str, place: str) -> None:
    """Raise InputError if a parameter names a place outside of `JURY_ROOTS`, as written or behind its links."""
    if place and place not in own_places(field) and not is_allowed(place):
        allowed = ",".join(roots())
        raise InputError(f"{one_line(place)!r} leads outside of {allowed}, the places that {ROOTS} allows here")


def is_allowed(place: str) -> bool:
    """Return whether a place is inside of `JURY_ROOTS`; True if that is not set."""
    allowed = roots()
    return not allowed or any(_is_inside(place, root) for root in allowed)


def own_places(field: str) -> list[str]:
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
