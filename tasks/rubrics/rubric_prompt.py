"""Prompts that score a generated image: the keys of their files, and the values read from a published text."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator

from tasks.errors import InputError
from tasks.records import OVERALL_SCORE, SEEN, Record
from tasks.rubrics.prompt import Asked, FrontMatter, Label, kept
from tasks.text import listed

_KEYS = re.compile(r"\bkeys\b[^`.\n]*(`[^.\n]*)")
_KEY = re.compile(r"`([A-Za-z0-9_]+)`")
_NOT_APPLICABLE = re.compile(r"^.*\b(?:null|not applicable|n/a)\b.*$", re.MULTILINE | re.IGNORECASE)
_SCALE = re.compile(r"^Score: 0 \((.+)\) to 10 \((.+)\)\.?[ \t\r]*$", re.MULTILINE)

AspectKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]


class Aspect(Record):
    """One line of a rubric, scored from 0 to 10."""

    zero: Label = Field(description="non-empty text with the meaning of a score of 0")
    ten: Label = Field(description="non-empty text with the meaning of a score of 10")
    not_applicable: str = Field("", description="when the aspect does not apply and its score is null, or no such key")


class RubricFrontMatter(FrontMatter):
    """Front matter of a text-to-image prompt file; the description of each field lists the allowed values."""

    named_by_flow = False
    aspects: dict[AspectKey, Aspect] = Field(
        description="a table with a key of small letters, digits and _ for each aspect, and in it zero, ten and, "
        "where the aspect may not apply, not_applicable"
    )
    """Aspects in the order of the reply."""
    inputs: dict[Literal["prompt", "image", "objects", "relation"], Label] = Field(
        description="a table of prompt and image, and objects and relation for a check, each with a label that is "
        "non-empty text"
    )
    """Inputs in the order of the request."""

    @field_validator("aspects")
    @classmethod
    def _some_and_free(cls, aspects: dict[str, Aspect]) -> dict[str, Aspect]:
        if not aspects or {OVERALL_SCORE, SEEN} & aspects.keys():
            raise InputError(f"at least one aspect, none of them named {OVERALL_SCORE} or {SEEN}")
        return aspects

    @field_validator("inputs")
    @classmethod
    def _labelled(cls, inputs: dict[str, str]) -> dict[str, str]:
        rules = {
            "both prompt and image": {"prompt", "image"} <= inputs.keys(),
            "relation only with objects": "relation" not in inputs or "objects" in inputs,
        }
        return kept(rules, inputs)

    @property
    def about(self) -> str:
        """Names of the aspects, in words."""
        return f"aspects {', '.join(self.aspects)}"

    def of_published(self, text: str) -> dict[str, Any]:
        """Read the aspects as the published rubrics name and anchor them: keys in backticks, then a `Score:` line each.

        An aspect may be null only if a line of the text names it and calls it null or not applicable.
        """
        sentence = _KEYS.search(text)
        keys = [key for key in _KEY.findall(sentence[1] if sentence else "") if key != OVERALL_SCORE]
        scales: list[tuple[str, str]] = _SCALE.findall(text)
        if not keys or len(keys) != len(scales):
            raise InputError(
                f"found the keys {listed(keys)} and lines `Score: 0 (...) to 10 (...)`: {len(scales)}; allowed: a "
                "sentence that names the keys in backticks, and one such line for each, in this order"
            )
        exceptions = {key: line.strip() for line in _NOT_APPLICABLE.findall(text) for key in _KEY.findall(line)}
        aspects = {
            key: {"zero": zero, "ten": ten} | ({"not_applicable": exceptions[key]} if key in exceptions else {})
            for key, (zero, ten) in zip(keys, scales, strict=True)
        }
        return {"inputs": self.inputs, "aspects": aspects}


class RubricPrompt(Asked, RubricFrontMatter):
    """Rubric of one tag: the system prompt, the inputs of its request, and the aspects to score."""

    front_matter = RubricFrontMatter
