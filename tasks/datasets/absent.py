"""A path of the user's at which there is nothing, or that is none: what is said of it, with what was likely meant."""

import re
from difflib import get_close_matches
from pathlib import Path

from tasks.datasets.folders import is_url
from tasks.errors import InputError
from tasks.text import quoted

_DOWNLOADS = {
    r"https://huggingface\.co/datasets/([\w.-]+/)([\w.-]+)/?": r"hf download \1\2 --repo-type dataset --local-dir \2",
    r"https://github\.com/[\w.-]+/[\w.-]+/?": r"git clone \g<0>",
    r"s3://\S+": r"aws s3 cp --recursive \g<0> DIR",
    r"https?://\S+": r"curl -fLO '\g<0>'",
}
"""URLs -> the command that downloads what is there."""


def check_no_url(field: str, path: str) -> None:
    """Raise InputError, with how to download it, where a path that is read is a URL."""
    if is_url(path):
        ways = (found.expand(command) for url, command in _DOWNLOADS.items() if (found := re.fullmatch(url, path)))
        way = next((f", for example with `{command}`" for command in ways), "")
        raise InputError(
            f"{field} {quoted(path)} is a URL, and no URL is fetched: download it{way}, and name the file or "
            "folder here"
        )


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
