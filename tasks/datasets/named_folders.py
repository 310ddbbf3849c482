"""The folders in which records name files: whether anything that is named there is there.

One file that is absent beside others was not delivered. Of a folder of which nothing is there, the name is wrong.
"""

from collections import defaultdict
from pathlib import PurePosixPath


class NamedFolders:
    """What records name, by folder. A folder for each sample counts as one with those of the other samples."""

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
