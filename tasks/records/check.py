"""Checks: questions about a picture with known answers."""

from dataclasses import dataclass
from typing import Literal

NOT_ASKED = "not asked: "
"""Beginning of the explanation of a check that was not asked, since one that it depends on is wrong."""
Form = Literal["yes_no", "number", "choice", "ordinal"]


@dataclass(frozen=True, slots=True)
class Check:
    """Question about a picture, and the answers that are right."""

    check_id: str
    question: str
    expected: tuple[str, ...]
    """Spellings of the right answer: yes or no, a number, the letters of options, or 0, 1 or 2."""
    form: Form = "yes_no"
    options: tuple[tuple[str, str], ...] = ()
    """Letter and words of each option; only of the form `choice`."""
    group: str = ""
    parents: tuple[str, ...] = ()
    weight: float = 1.0
    absence: bool = False
    """True if an empty picture gives the right answer."""
