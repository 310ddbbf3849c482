"""Pictures in a folder: found by names that differ in Unicode form, and never outside of it.

Owns matching of file names, and which names are a user's mistake: a URL, a way out of the folder, another notation of a
file that is there, and those of a folder of which nothing is there. Any other file that is absent was not delivered.
What decodes a picture is in `tasks.pictures`.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from tasks.datasets.first_bytes import looked_at, of_file
from tasks.datasets.links import Links
from tasks.datasets.named_folders import NamedFolders
from tasks.datasets.notations import Notations
from tasks.errors import Habitual, InputError, Problems
from tasks.pictures.bad_picture import NoReader
from tasks.records import PictureSource, Place
from tasks.text import listed, quoted

NO_PICTURE = "no picture: "
"""How the problem of a source begins when there is no picture."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def plain_name(name: str) -> str:
    """A file name as it is compared: NFC, without the invisible characters (category Cf) that unpacking may lose."""
    return unicodedata.normalize("NFC", "".join(c for c in name if unicodedata.category(c) != "Cf"))


def is_url(text: str) -> bool:
    """Whether text names something by URL: no picture is ever fetched."""
    return bool(_URL.match(text))


class Folder:
    """A folder whose files are named by records. What is in folders, and where links in their paths lead, is looked up
    once, so one object serves one loading."""

    def __init__(self, root: Path, followed: Sequence[str] = ()) -> None:
        """Raises InputError where one of the folders that links in this one may lead to is none."""
        self.root = root.resolve()
        self._links = Links(self.root, followed)
        self._listings: dict[Path, dict[str, list[Path]]] = {}
        self._notations = Notations(self.root)
        self._named = NamedFolders()

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
        if not self._links.hold(path):
            raise self._refusal(path.name, path)
        self._links.check_end(path)
        try:
            return looked_at(PictureSource(place=Place(path=str(path))), of_file(path))
        except NoReader as error:
            raise Habitual(f"{path.name} is {error}", str(error)) from error

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
        try:
            names = sorted(path.name for path in near.iterdir())
        except OSError:
            names = []
        return f"{'there is no such folder, and ' if missing else ''}{near} holds {listed(names, 5)}"

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
            for path in _files(folder):
                names[plain_name(path.name)].append(path)
            self._listings[folder] = names
        return self._listings[folder]


def _variants(name: str) -> Iterator[str]:
    yield name
    path = PurePosixPath(name)
    yield str(path.relative_to("images")) if path.parts[:1] == ("images",) else f"images/{name}"


def _files(folder: Path) -> list[Path]:
    try:
        paths = list(folder.iterdir())
    except (OSError, ValueError):  # no folder, or a NUL in its name
        return []
    return [path for path in paths if _is_file(path)]


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
