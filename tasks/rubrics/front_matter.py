"""What a prompt file declares above its body, in TOML: one form for pairwise prompts, one for text-to-image rubrics.

Owns which keys there are and what is allowed in them. Reading a file is for `prompt_file`, sets of them for
`rubric`.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationInfo, field_validator

from tasks.errors import InputError
from tasks.records import OVERALL_SCORE, SEEN, VERDICTS, Record, Verdict
from tasks.text import listed

Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
AspectKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]


class PairwiseFrontMatter(Record):
    """What a pairwise prompt file declares above its body; each description says what is allowed."""

    tier: Literal[1, 2] = Field(description="1 or 2, the tier of the decision rule")
    verdicts: tuple[Verdict, ...] = Field(description=f"an array of at least one of {', '.join(VERDICTS)}")
    default: str = Field("", description="one of the verdicts of this file, or no such key")
    inputs: dict[Literal["context", "caption", "human", "model"], Label] = Field(
        description="a table of context, caption, human and model, each with a label that is text and not empty"
    )
    """In the order of the request."""

    @field_validator("verdicts")
    @classmethod
    def _some_and_unique(cls, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
        if not verdicts or len(set(verdicts)) < len(verdicts):
            raise InputError(f"at least one of {listed(VERDICTS)}, each once")
        return verdicts

    @field_validator("default")
    @classmethod
    def _among_verdicts(cls, default: str, info: ValidationInfo) -> str:
        # Where the verdicts are at fault themselves, the default is held against all there are.
        allowed = info.data.get("verdicts", VERDICTS)
        if default and default not in allowed:
            raise InputError(f"one of {listed(allowed)}, or no such key")
        return default

    @field_validator("inputs")
    @classmethod
    def _labelled(cls, inputs: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        rules = {"both human and model": {"human", "model"} <= inputs.keys(), **_once_each(inputs)}
        if info.context:
            absent = [label for label in inputs.values() if label not in info.context["body"]]
            rules[f"labels that the body names (it lacks {listed(absent)})"] = not absent
        return _kept(rules, inputs)


class Aspect(Record):
    """One line of a rubric, scored from 0 to 10."""

    zero: Label = Field(description="what a score of 0 means, a text that is not empty")
    ten: Label = Field(description="what a score of 10 means, a text that is not empty")
    not_applicable: str = Field("", description="when the aspect does not apply and its score is null, or no such key")


class RubricFrontMatter(Record):
    """What a text-to-image prompt file declares above its body; each description says what is allowed."""

    aspects: dict[AspectKey, Aspect] = Field(
        description="a table with a key of small letters, digits and _ for each aspect, and in it zero, ten and, "
        "where the aspect may not apply, not_applicable"
    )
    """In the order of the reply."""
    inputs: dict[Literal["prompt", "image", "objects", "relation"], Label] = Field(
        description="a table of prompt and image, and objects and relation for a check, each with a label that is text "
        "and not empty"
    )
    """In the order of the request."""

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
            **_once_each(inputs),
        }
        return _kept(rules, inputs)


def _once_each(inputs: Mapping[str, str]) -> dict[str, bool]:
    return {"a label once only": len(set(inputs.values())) == len(inputs)}


def _kept(rules: Mapping[str, bool], inputs: dict[str, str]) -> dict[str, str]:
    if broken := [rule for rule, kept in rules.items() if not kept]:
        raise InputError(" and ".join(broken))
    return inputs
