"""Fields that prompts of every kind of judging share."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, StringConstraints

from tasks.errors import InputError
from tasks.ledger.protocol_keys import digest
from tasks.records import Record

Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class FrontMatter(Record):
    """TOML front matter of a prompt file; the description of each field lists the allowed values."""

    named_by_flow: ClassVar[bool]
    """True if a published document names a prompt under its flow, in a heading that may contain more words than the
    dimension. False if the dimension alone names it; being a common word, it must then be the whole heading."""
    position: int = Field(0, ge=1, strict=True, description="a whole number from 1 on, the place in tables")
    """Place among the prompts of the flow. A file that replaces a default prompt takes over its place, or names one."""

    @classmethod
    def problems_together(cls, fronts: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Return the problems between the prompts of one flow, one line each: places that several prompts name.

        Args:
            fronts: dimension -> its front matter, unchecked: faults of a single file are reported with that file.
        """
        places = defaultdict[int, list[str]](list)
        for dimension, front in fronts.items():
            if isinstance(place := front.get("position"), int):
                places[place].append(dimension)
        return [
            f"key `position`: found {place} in {', '.join(names)}; allowed: a number of its own for each prompt"
            for place, names in places.items()
            if len(names) > 1
        ]


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

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over all that makes verdicts comparable; the file and the place in tables do not."""
        return digest(self.model_dump(mode="json", exclude={"file", "position"}))


def kept(rules: Mapping[str, bool], inputs: dict[str, str]) -> dict[str, str]:
    """Return the inputs if their labels differ and they keep the rules. Raises InputError with the broken rules."""
    different = {"a label once only": len(set(inputs.values())) == len(inputs)}
    if broken := [rule for rule, is_kept in {**different, **rules}.items() if not is_kept]:
        raise InputError(" and ".join(broken))
    return inputs
