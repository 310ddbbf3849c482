"""Names of files written in another way than the files themselves: backslashes, large and small letters.

Owns telling them from names of files that are not there, and the cure of each.
"""

import os
from pathlib import Path, PurePosixPath

from tasks.errors import Habitual
from tasks.text import quoted


class Notations:
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
            try:
                names = sorted(path.name for path in folder.iterdir())
            except (OSError, ValueError):  # no folder, or a NUL in its name
                names = []
            self._names[folder] = {name.casefold(): name for name in names} | {name: name for name in names}
        return self._names[folder]
