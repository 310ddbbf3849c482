"""Pictures in a folder: found by names that differ in Unicode form, and never outside of it.

Owns matching of file names and the two ways in which a named picture can be out of reach (`NO_PICTURE`, `REFUSED`).
What decodes a picture is in `tasks.pictures`.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tasks.errors import InputError
from tasks.records import PictureSource, Place
from tasks.text import listed

NO_PICTURE = "no picture: "
"""How the problem of a source begins when there is no picture."""
REFUSED = "refused: "
"""How it begins when a picture is named that must not be read: outside of the folder, or at a URL."""

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

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._listings: dict[Path, dict[str, list[Path]]] = {}
        self._inside: dict[Path, bool] = {}

    def picture(self, name: str) -> PictureSource:
        """The picture at a path relative to the folder, or its problem: no such file, outside of the folder, a URL.

        The path holds with or without `images/`, in any Unicode form. Raises InputError, naming them, when no file
        has exactly this name and several fall together.
        """
        if is_url(name):
            return PictureSource(problem=f"{REFUSED}{name!r} is a URL, and no URL is fetched")
        if not self._holds(self.root / name):
            return self._refusal(name)
        found = self._find(name)
        return self.at(found) if found else PictureSource(problem=f"{NO_PICTURE}{name!r} is not in {self.root}")

    def at(self, path: Path) -> PictureSource:
        """The picture in a file that was found; refused when a link leads out of the folder."""
        return PictureSource(place=Place(path=str(path))) if self._holds(path) else self._refusal(path.name)

    def _refusal(self, name: str) -> PictureSource:
        return PictureSource(problem=f"{REFUSED}path {name!r} leaves the dataset folder {self.root}")

    def _holds(self, path: Path) -> bool:
        try:
            if path.name == ".." or path.is_symlink():
                return path.resolve().is_relative_to(self.root)
            return self._is_inside(path.parent) or path == self.root
        except (OSError, RuntimeError, ValueError):  # circular links, or a NUL in the name: no file at all
            return True

    def _is_inside(self, folder: Path) -> bool:
        if folder not in self._inside:
            self._inside[folder] = folder.resolve().is_relative_to(self.root)
        return self._inside[folder]

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


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long, or a folder that must not be entered
        return False
