"""A path of the user's at which there is nothing: what is said of it, with the name that was likely meant."""

from difflib import get_close_matches
from pathlib import Path


def absent_words(path: Path) -> str:
    """That nothing is at an absolute path, as a message says it behind the name of what was looked for there."""
    meant = _with_slashes(path) or _alike(path)
    return f"{path} does not exist{f'; did you mean {meant}?' if meant else ''}"


def _with_slashes(path: Path) -> Path | None:
    plain = Path(str(path).replace("\\", "/"))
    return plain if plain != path and plain.exists() else None


def _alike(path: Path) -> Path | None:
    """The path with its first name that does not exist in the place of one that is like it; None: there is none."""
    for folder in path.parents:
        if folder.is_dir():
            break
    else:
        return None
    wanted, *rest = path.relative_to(folder).parts
    try:
        names = {each.stem.casefold(): each.name for each in sorted(folder.iterdir(), reverse=True)}
    except OSError:
        return None
    alike = get_close_matches(Path(wanted).stem.casefold(), names, n=1, cutoff=0.8)
    meant = folder.joinpath(names[alike[0]], *rest) if alike else None
    return meant if meant and meant.exists() else None
