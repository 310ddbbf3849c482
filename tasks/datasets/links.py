"""Where the links in a dataset lead: inside of its folder, or into folders that a user allows them to lead to.

Hugging Face's caches and git-annex keep files elsewhere and put links in their place, and so do people with `ln -s`;
but a link in a dataset of a stranger may lead to any file. Owns what is inside, and the cure where something is not.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from tasks.errors import InputError
from tasks.text import listed

_ANNEX = (".git", "annex", "objects")


class Links:
    """What paths in a folder lead to. Where its folders lead is looked up once, so one object serves one loading."""

    def __init__(self, root: Path, followed: Sequence[str] = ()) -> None:
        """Args:
            root: the folder, resolved.
            followed: folders that links in it may lead to.

        Raises:
            InputError: one of those is no folder.
        """
        self.root = root
        if absent := [each for each in followed if not Path(each).expanduser().is_dir()]:
            raise InputError(f"follow_links: {listed(absent)} is no folder; allowed are folders that links may lead to")
        self._roots = (root, *(Path(each).expanduser().resolve() for each in followed))
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
