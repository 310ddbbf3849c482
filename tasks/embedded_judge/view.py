"""What the embedded judge's text-to-image rules are given, and what they give back."""

from typing import NamedTuple

from tasks.embedded_judge.blobs import Blob, Survey
from tasks.records import Requirement
from tasks.synthetic.shapes import SHAPES

MIDDLING = 5.0
"""Score of what pixels cannot tell."""
CANNOT_TELL = "pixels cannot tell"


class Finding(NamedTuple):
    """What was measured for one aspect."""

    score: float | None
    """0-10; None: the aspect does not apply."""
    words: str
    measured: bool = True
    """Whether pixels could tell."""


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
        """Whether outlines can tell which object is which."""
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
