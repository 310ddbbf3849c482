"""Pictures in a folder: found by names that differ in Unicode form, and never outside of it.

A URL, a way out of the folder, another notation of a file that is there, and a folder of which nothing is there are a
user's mistakes. Any other file that is absent was not delivered. Hugging Face's caches and git-annex put links in the
place of files; but a link in a dataset of a stranger may lead to any file, so users name the folders for links. The
first bytes of a picture tell before any call whether it is one, and whether anything here reads it.
"""

import base64
import binascii
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from tasks.errors import Habitual, InputError, Problems
from tasks.files import open_regular, real_place
from tasks.pictures.bad_picture import BadPicture, NoReader
from tasks.pictures.decoding import format_of, is_svg
from tasks.pictures.rare_reader import self_contained
from tasks.records import PictureSource, Place
from tasks.text import listed, quoted

NO_PICTURE = "no picture: "
"""How the problem of a source begins when there is no picture."""
ENOUGH = 4096
"""Bytes that tell the format of any picture."""
LARGEST_DRAWING = 16_000_000
"""Bytes of an SVG that is looked at whole: what it shows beside itself may stand anywhere in it."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_ANNEX = (".git", "annex", "objects")


def plain_name(name: str) -> str:
    """A file name as it is compared: NFC, without the invisible characters (category Cf) that unpacking may lose."""
    return unicodedata.normalize("NFC", "".join(c for c in name if unicodedata.category(c) != "Cf"))


def is_url(text: str) -> bool:
    """Whether text names something by URL: no picture is ever fetched."""
    return bool(_URL.match(text))


class _NamedFolders:
    """Folders in which records name files. A folder for each sample counts as one with those of the other samples.

    One file that is absent beside others was not delivered. Of a folder of which nothing is there, the name is wrong.
    """

    def __init__(self) -> None:
        self._filled: set[str] = set()
        self._absent: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)

    def meet(self, name: str, sample_id: str, found: bool) -> None:
        """Take in a path that a record names, and whether its file is there."""
        folders = _folders(name, sample_id)
        if found:
            self._filled.update(folders)
        else:
            self._absent[folders].append(name)

    def absent(self) -> list[tuple[str, list[str]]]:
        """Each folder of which nothing is there, with the paths that name it; of samples' own folders the first."""
        empty = {folders: names for folders, names in self._absent.items() if self._filled.isdisjoint(folders)}
        of_shape: dict[str, list[str]] = {}
        for folders, names in empty.items():
            of_shape.setdefault(folders[-1], []).extend(names)
        return [(_folder(names[0]), names) for names in of_shape.values()]


def _folders(name: str, sample_id: str) -> tuple[str, ...]:
    """The folder of a path, and the shape that it shares with those of other samples where it names its own."""
    folder = _folder(name)
    return (folder, folder.replace(sample_id, "<id>")) if sample_id and sample_id in folder else (folder,)


def _folder(name: str) -> str:
    """Without `images`, which may be left out."""
    parent = PurePosixPath(name).parent
    return str(parent.relative_to("images")) if parent.parts[:1] == ("images",) else str(parent)


class _Notations:
    """The names in a folder and below it, each folder listed once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: dict[Path, dict[str, str]] = {}

    def check(self, name: str, wanted: str) -> None:
        r"""Raise InputError where a path that finds no file is another notation of one: `Out\1.PNG` for `out/1.png`.

        Args:
            name: the path as it is written.
            wanted: a path that it may stand for.
        """
        plain = name.replace("\\", "/")
        if plain != name and os.sep == "/":
            raise Habitual(f"path {quoted(name)} has backslashes: write {quoted(plain)}", "backslashes in paths")
        if other := self._in_other_case(wanted):
            what = f"path {quoted(name)} is there with other large and small letters: write {other!r}"
            raise Habitual(what, "other large and small letters")

    def _in_other_case(self, wanted: str) -> str:
        """The path of a file that differs in the case of its letters alone; empty: there is none."""
        path = self._root
        for part in PurePosixPath(wanted).parts:
            names = self._in(path)
            if not (name := names.get(part) or names.get(part.casefold())):
                return ""
            path /= name
        return path.relative_to(self._root).as_posix() if path.is_file() else ""

    def _in(self, folder: Path) -> dict[str, str]:
        """The names in a folder, by themselves and by themselves in small letters."""
        if folder not in self._names:
            names = _names(folder)
            self._names[folder] = {name.casefold(): name for name in names} | {name: name for name in names}
        return self._names[folder]


class Links:
    """What paths in a folder lead to. Where its folders lead is looked up once, so one object serves one loading."""

    def __init__(self, root: Path, followed: Sequence[str] = (), within: tuple[str, ...] = ()) -> None:
        """Args:
            root: the folder, resolved.
            followed: folders that links in it may lead to.
            within: of the folder around it, whose files these are, too.

        Raises:
            InputError: one of those is no folder.
        """
        self.root = root
        named = [each for each in followed if each]  # an empty field of a form is none, and not this folder
        self.within = within or (real_place(root), *(real_place(Path(each).expanduser()) for each in named))
        """Where its files must be each time one is opened, whatever stands in the place of the folder by then."""
        if absent := [each for each in named if not Path(each).expanduser().is_dir()]:
            raise InputError(f"follow_links: {listed(absent)} is no folder; allowed are folders that links may lead to")
        self._roots = (root, *(Path(each).expanduser().resolve() for each in named))
        self._inside: dict[Path, bool] = {}

    def hold(self, path: Path) -> bool:
        """Whether a path leads into the folder, or into one that is followed; one that leads nowhere stays inside."""
        try:
            if path.name == ".." or path.is_symlink():
                return self._holds(path.resolve())
            if path.parent not in self._inside:
                self._inside[path.parent] = self._holds(path.parent.resolve())
            return self._inside[path.parent] or path == self.root
        except (OSError, RuntimeError, ValueError):  # circular links, or a NUL in the name: no file at all
            return True

    def refusal(self, name: str, path: Path) -> str:
        """Why a path that is not held is not read, in words, with the cure where a link leads out."""
        words = f"path {name} leaves the dataset folder {self.root}"
        link = next(filter(self._leads_out, reversed((path, *path.parents))), None)
        if not link or not Path(os.path.normpath(path)).is_relative_to(self.root):
            return f"{words}: put the file into it, and name it from there"
        target = link.resolve()
        return f"{words}, for a link leads to {target}: give --follow-links {_place(target)} if links may lead there"

    def check_end(self, path: Path) -> None:
        """Raise InputError, with the cure, for a link that leads to nothing: a file has been there, or was to come."""
        try:
            if not path.is_symlink() or path.exists():
                return
            target = path.readlink()
        except (OSError, ValueError):  # no file at all
            return
        annexed = all(part in target.parts for part in _ANNEX)
        cure = f"fetch it (git annex get {path.name})" if annexed else "put it there, or remove the link"
        raise InputError(f"{path.name} is a link to {target}, which is not there: {cure}")

    def _leads_out(self, path: Path) -> bool:
        return path.is_relative_to(self.root) and path.is_symlink() and not self._holds(path.resolve())

    def _holds(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self._roots)


def _place(target: Path) -> Path:
    """The folder to name for all files like this one: git-annex has a folder for each of them."""
    if all(part in target.parts for part in _ANNEX):
        return next(parent for parent in target.parents if parent.name == "objects")
    return target if target.is_dir() else target.parent


class Folder:
    """A folder whose files are named by records. What is in folders, and where links in their paths lead, is looked up
    once, so one object serves one loading."""

    def __init__(self, root: Path, followed: Sequence[str] = (), around: "Folder | None" = None) -> None:
        """Raises InputError where one of the folders that links in this one may lead to is none.

        Args:
            around: the dataset's folder, where this one is in it.
        """
        self.root = root.resolve()
        self._links = Links(self.root, followed, around.within if around else ())
        self.within = self._links.within
        """Where its files must be each time one is opened: see `open_regular`."""
        self._listings: dict[Path, dict[str, list[Path]]] = {}
        self._notations = _Notations(self.root)
        self._named = _NamedFolders()

    def picture(self, name: str, sample_id: str = "") -> PictureSource:
        """The picture at a path relative to the folder, or its problem: there is no such file, or it is no picture.

        The path holds with or without `images/`, in any Unicode form.

        Args:
            sample_id: of the record that names it.

        Raises:
            InputError: the path is a URL, leaves the folder, is in another notation than that of a file that is there,
                or may be any of several files; or nothing here reads the file.
        """
        if is_url(name):
            raise Habitual(f"{quoted(name)} is a URL, and no URL is fetched: download it, and name the file", "URLs")
        if not self._links.hold(self.root / name):
            raise self._refusal(name, self.root / name)
        found = self._find(name)
        for variant in () if found else _variants(name):
            self._links.check_end(self.root / variant)
        for variant in () if found else _variants(name):
            self._notations.check(name, variant)
        self._named.meet(name, sample_id, found is not None)
        if found:
            return self.at(found)
        return PictureSource(problem=f"{NO_PICTURE}{quoted(name)} is not in {self.root}")

    def at(self, path: Path) -> PictureSource:
        """The picture in a file that was found, or why it is none.

        Raises:
            InputError: a link leads out or to nothing, the file cannot be read, or nothing here reads its format.
        """
        self.check(path)
        self._links.check_end(path)
        try:
            place = Place(path=str(path), within=self.within)
            return looked_at(PictureSource(place=place), of_file(path, self.within))
        except NoReader as error:
            raise Habitual(f"{path.name} is {error}", str(error)) from error

    def check(self, path: Path) -> None:
        """Raise InputError, with the cure, where a link on the way to a file leads out."""
        if not self._links.hold(path):
            raise self._refusal(path.name, path)

    def check_named(self, problems: Problems) -> None:
        """Note the folders of which records name files and nothing is there, once all records were read."""
        for folder, names in self._named.absent():
            many = f"none of the {len(names)} files" if len(names) > 1 else "no file"
            there = self._held(PurePosixPath(folder))
            problems.add(
                self.root.name,
                f"{many} named in {quoted(folder)} is there, such as {quoted(names[0])}; {there}. Correct the path, or "
                "leave the field empty where a candidate delivered nothing",
            )

    def _held(self, named: PurePosixPath) -> str:
        """What a folder holds, in words; of one that does not exist the last that does on the way to it."""
        near, missing = self.root, False
        for part in named.parts:
            if missing := not _is_folder(near / part):
                break
            near /= part
        return f"{'there is no such folder, and ' if missing else ''}{near} holds {listed(_names(near), 5)}"

    def _refusal(self, name: str, path: Path) -> InputError:
        return Habitual(self._links.refusal(quoted(name), path), "paths that lead out")

    def _find(self, name: str) -> Path | None:
        paths = [self.root / variant for variant in _variants(name)]
        for path in paths:
            if _is_file(path):
                return path
        alike = sorted({match for path in paths for match in self._listing(path.parent).get(plain_name(path.name), [])})
        if len(alike) > 1:
            raise InputError(f"picture {name!r} may be any of {listed(repr(path.name) for path in alike)}: rename them")
        return alike[0] if alike else None

    def _listing(self, folder: Path) -> dict[str, list[Path]]:
        if folder not in self._listings:
            names: dict[str, list[Path]] = defaultdict(list)
            for path in (folder / name for name in _names(folder)):
                if _is_file(path):
                    names[plain_name(path.name)].append(path)
            self._listings[folder] = names
        return self._listings[folder]


def _variants(name: str) -> Iterator[str]:
    yield name
    path = PurePosixPath(name)
    yield str(path.relative_to("images")) if path.parts[:1] == ("images",) else f"images/{name}"


def _names(folder: Path) -> list[str]:
    """What a folder holds, by name; nothing where there is none."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except (OSError, ValueError):  # no folder, or a NUL in its name
        return []


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long, or a NUL in it
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long, or a folder that must not be entered
        return False


def looked_at(source: PictureSource, head: bytes) -> PictureSource:
    """The source of a picture that begins like this, with its problem where it is no picture.

    It keeps its place: a Human picture is part of the dataset's key, whatever its bytes.

    Raises:
        NoReader: a format that is known and that nothing here reads, which says nothing of whoever made the picture.
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
    """The first bytes of a file. Raises InputError where it may not be read, or cannot be."""
    try:
        with open_regular(path, within=within) as file:
            head = file.read(ENOUGH)
            return head + file.read(LARGEST_DRAWING) if is_svg(head) else head
    except OSError as error:
        raise InputError(f"picture {path} cannot be read: {error.strerror}") from error


def of_value(value: bytes | str) -> bytes:
    """The first bytes of a picture in a record, as bytes or as text in base64; of other text its own."""
    if isinstance(value, bytes):
        return value[: LARGEST_DRAWING if is_svg(value[:ENOUGH]) else ENOUGH]
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


def is_bare_base64(text: str) -> bool:
    """Whether a text that should be a path is a picture itself, without the words that say so."""
    try:
        return len(text) > 40 and bool(format_of(of_value(text)))
    except NoReader:
        return True
    except BadPicture:
        return False
