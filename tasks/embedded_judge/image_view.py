"""What the embedded judge's text-to-image rules work on: the areas seen in an image, what is asked for, and findings.

Owns what can be said of areas once they are found. Finding them is for `blobs`, the rules are `image_aspects`.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from tasks.records import Requirement
from tasks.synthetic.shapes import SHAPES

MOST_BLOBS = 12
"""Of more areas the picture is no scene of a few plain objects, and only the largest are looked at."""
UNEVEN = 20
"""A ground that varies by more levels of 255 is none."""

MIDDLING = 5.0
"""Score of an aspect that pixels cannot show."""
CANNOT_TELL = "pixels cannot tell"


@dataclass(frozen=True)
class Blob:
    """One area. Lengths and places are shares of the picture's longest side, areas of the whole picture."""

    area: float
    left: float
    top: float
    right: float
    bottom: float
    hues: dict[str, float]
    """Color name -> share of the area, the most frequent first."""
    contrast: float
    """Difference of its usual color to the ground's, as `naming.difference` gives it."""
    filled: float
    """Share of its bounding box that it fills: 1 for an upright rectangle."""
    shape: str
    """Name of the drawn shape with this outline; empty: none, or it touches another blob."""
    group: int
    """Number shared by the blobs that touch each other."""

    @property
    def color(self) -> str:
        """Its most frequent color."""
        return next(iter(self.hues))

    @property
    def center(self) -> tuple[float, float]:
        """Middle of the bounding box."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    @property
    def length(self) -> float:
        """Longer side of the bounding box."""
        return max(self.right - self.left, self.bottom - self.top)


@dataclass(frozen=True)
class Survey:
    """The blobs of one picture, the largest first."""

    blobs: tuple[Blob, ...]
    found: int
    """How many areas there are, which may be more than blobs."""
    unevenness: float
    """Levels of 255 by which a quarter of the border differs from the ground at least."""

    @property
    def simple(self) -> bool:
        """Whether it is a scene of a few plain areas on an even ground, as hardly any photo is."""
        return self.found <= MOST_BLOBS and self.unevenness <= UNEVEN

    def touching(self) -> list[tuple[Blob, Blob]]:
        """Pairs of blobs that touch each other."""
        return [(one, other) for one, other in combinations(self.blobs, 2) if one.group == other.group]


class Finding(NamedTuple):
    """What was measured for one aspect."""

    score: float | None
    """0-10; None: the aspect does not apply."""
    words: str
    measured: bool = True
    """Whether pixels could show it."""


class View(NamedTuple):
    """What is seen and what was asked for."""

    survey: Survey
    asked: tuple[Requirement, ...]

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """The areas, the largest first."""
        return self.survey.blobs

    @property
    def wanted(self) -> int:
        """How many objects the prompt asks for."""
        return sum(one.count for one in self.asked)

    @property
    def named(self) -> bool:
        """Whether outlines show which object is which."""
        return bool(self.asked) and all(one.name in SHAPES for one in self.asked)

    def largest(self) -> tuple[Blob, ...]:
        """As many areas as objects are asked for, or fewer."""
        return self.blobs[: max(1, self.wanted)]

    def alike(self, name: str) -> list[Blob]:
        """Areas with the outline of this drawn shape."""
        return [blob for blob in self.blobs if blob.shape == name]

    def counted(self) -> str:
        """How many areas there are and how many objects were asked for, in words."""
        found = self.survey.found
        return f"{found} separate area{'s' * (found != 1)}, asked {self.wanted}"


def cannot_tell(why: str) -> Finding:
    """The finding where nothing can be measured."""
    return Finding(MIDDLING, f"{why}: {CANNOT_TELL}", measured=False)
