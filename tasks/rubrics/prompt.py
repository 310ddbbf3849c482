"""What every prompt has, whichever way it judges."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import StringConstraints

from tasks.errors import InputError
from tasks.records import Record

Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class FrontMatter(Record):
    """What a prompt file declares above its body, in TOML; the description of each field says what is allowed."""

    named_by_flow: ClassVar[bool]
    """How a published document names a prompt: under its flow, in a heading that may say more than the dimension; or by
    the dimension alone, which, being a common word, must be all of its heading."""

    @classmethod
    def problems_together(cls, fronts: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """What is wrong with the prompts of one flow beside each other, a line each.

        Args:
            fronts: dimension -> its front matter, unchecked: what is at fault in itself is reported with its file.
        """
        return []


class Asked(Record):
    """What every prompt has: where it comes from, and what is sent."""

    front_matter: ClassVar[type[FrontMatter]]
    """The part of it that stands above the body."""
    flow: str
    dimension: str
    """Dimension, or tag of a text-to-image prompt: the name of the file."""
    body: str
    """The system message, sent as it is."""
    sha256: str
    """SHA-256 of the body as sent (UTF-8), in hex."""
    file: str


def kept(rules: Mapping[str, bool], inputs: dict[str, str]) -> dict[str, str]:
    """The inputs, if they have different labels and keep the rules; InputError names what is broken."""
    different = {"a label once only": len(set(inputs.values())) == len(inputs)}
    if broken := [rule for rule, is_kept in {**different, **rules}.items() if not is_kept]:
        raise InputError(" and ".join(broken))
    return inputs
