"""What may be wrong with a judge, by the lines of its card that failed: `causes.toml`, the passport's specification."""

import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Cause(NamedTuple):
    """Something that is wrong with a judge."""

    name: str
    words: str
    """What such a judge does."""
    fails: frozenset[str]
    """Exactly the lines that it does not pass."""


@cache
def causes() -> tuple[Cause, ...]:
    """All that are known."""
    found = tomllib.loads(Path(__file__).with_name("causes.toml").read_text(encoding="utf-8"))
    return tuple(Cause(name, each["words"], frozenset(each["fails"])) for name, each in found.items())


def causes_of(failed: Iterable[str]) -> list[Cause]:
    """Those that make a judge fail exactly these lines; often none, for a judge may have several faults."""
    lines = frozenset(failed)
    return [cause for cause in causes() if cause.fails == lines]
