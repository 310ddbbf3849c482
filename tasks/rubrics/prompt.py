"""Fields that prompts of every kind of judging share."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import StringConstraints

from tasks.errors import InputError
from tasks.records import Record

Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class FrontMatter(Record):
    """TOML front matter of a prompt file; the description of each field lists the allowed values."""

    named_by_flow: ClassVar[bool]
    """True if a published document names a prompt under its flow, in a heading that may contain more words than the
    dimension. False if the dimension alone names it; being a common word, it must then be the whole heading."""

    @classmethod
    def problems_together(cls, fronts: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Return the problems between the prompts of one flow, one line each.

        Args:
            fronts: dimension -> its front matter, unchecked: faults of a single file are reported with that file.
        """
        return []


class Asked(Record):
    """Source of a prompt, and the text to send."""

    front_matter: ClassVar[type[FrontMatter]]
    """Model of the part above the body."""
    flow: str
    dimension: str
    """Name of the file: dimension, or tag of a text-to-image prompt."""
    body: str
    """System message, sent unchanged."""
    sha256: str
    """SHA-256 of the body as sent (UTF-8), in hex."""
    file: str


def kept(rules: Mapping[str, bool], inputs: dict[str, str]) -> dict[str, str]:
    """Return the inputs if their labels differ and they keep the rules. Raises InputError with the broken rules."""
    different = {"a label once only": len(set(inputs.values())) == len(inputs)}
    if broken := [rule for rule, is_kept in {**different, **rules}.items() if not is_kept]:
        raise InputError(" and ".join(broken))
    return inputs
