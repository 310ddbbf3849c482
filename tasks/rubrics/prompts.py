"""Prompt files: the keys that all have, those of each kind of judging, and the reading of published texts."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints, ValidationInfo, field_validator

from tasks.errors import InputError
from tasks.ledger.evaluations import digest
from tasks.records import OVERALL_SCORE, SEEN, VERDICTS, Record, Verdict
from tasks.text import listed

Label = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Prompt(Record):
    """One prompt file: its source, then its TOML front matter, whose fields list the allowed values as descriptions."""

    named_by_flow: ClassVar[bool]
    """True if a published document names a prompt under its flow, in a heading that may contain more words than the
    dimension. False if the dimension alone names it; being a common word, it must then be the whole heading."""
    flow: str
    dimension: str
    """Name of the file: dimension, or tag of a text-to-image prompt."""
    body: str
    """System message, sent unchanged."""
    sha256: str
    """SHA-256 of the body as sent (UTF-8), in hex."""
    file: str
    position: int = Field(0, ge=1, strict=True, description="a whole number from 1 on, the place in tables")
    """Place among the prompts of the flow. A file that replaces a default prompt takes over its place, or names one."""

    inputs: Mapping[Any, Label]
    """Name of each text or picture -> its label, in the order of the request; each kind has names of its own."""

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

    @property
    def about(self) -> str:
        """Facts of the prompt, in words, for a list of prompts."""
        return ""

    def of_published(self, text: str) -> dict[str, Any]:
        """Return the front matter for a published text in place of this prompt.

        Raises:
            InputError: the text lacks what the front matter needs, or the kind has no published texts.
        """
        raise InputError(f"{self.flow} has no published prompts")

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over all that makes verdicts comparable; the file and the place in tables do not."""
        return digest(self.model_dump(mode="json", exclude={"file", "position"}))


SOURCE = ("flow", "dimension", "body", "sha256", "file")
"""Fields of a prompt that its front matter does not have."""


def kept(rules: Mapping[str, bool], inputs: dict[str, str]) -> dict[str, str]:
    """Return the inputs if their labels differ and they keep the rules. Raises InputError with the broken rules."""
    different = {"a label once only": len(set(inputs.values())) == len(inputs)}
    if broken := [rule for rule, is_kept in {**different, **rules}.items() if not is_kept]:
        raise InputError(" and ".join(broken))
    return inputs


_LABEL = re.compile(r"^\d+\.[ \t]+\*\*(.+?)\*\*: \[", re.MULTILINE)


class PairwisePrompt(Prompt):
    """One pairwise question: the system prompt of a dimension, and the inputs of its request."""

    named_by_flow = True
    tier: Literal[1, 2] = Field(description="1 or 2, the tier of the decision rule")
    verdicts: tuple[Verdict, ...] = Field(description=f"an array of at least one of {', '.join(VERDICTS)}")
    default: str = Field("", description="one of the verdicts of this file, or no such key")
    inputs: dict[Literal["context", "caption", "human", "model"], Label] = Field(  # pyright: ignore
        description="a table of context, caption, human and model, each with a label that is non-empty text"
    )
    """Inputs in the order of the request."""

    @field_validator("verdicts")
    @classmethod
    def _some_and_unique(cls, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
        if not verdicts or len(set(verdicts)) < len(verdicts):
            raise InputError(f"at least one of {listed(VERDICTS)}, each once")
        return verdicts

    @field_validator("default")
    @classmethod
    def _among_verdicts(cls, default: str, info: ValidationInfo) -> str:
        # If the verdicts are at fault themselves, the default is checked against all verdicts.
        allowed = info.data.get("verdicts", VERDICTS)
        if default and default not in allowed:
            raise InputError(f"one of {listed(allowed)}, or no such key")
        return default

    @field_validator("inputs")
    @classmethod
    def _labelled(cls, inputs: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        absent = [label for label in inputs.values() if label not in info.data["body"]]
        rules = {
            "both human and model": {"human", "model"} <= inputs.keys(),
            f"labels that the body names (it lacks {listed(absent)})": not absent,
        }
        return kept(rules, inputs)

    @property
    def about(self) -> str:
        """Tier of the prompt, in words."""
        return f"tier {self.tier}"

    @classmethod
    def problems_together(cls, fronts: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Check also that each tier has a dimension; invalid tiers are reported with their file."""
        problems = super().problems_together(fronts)
        tiers = [front.get("tier") for front in fronts.values()]
        if any(tier not in (1, 2) for tier in tiers):
            return problems
        empty = [number for number in (1, 2) if number not in tiers]
        return problems + [
            f"key `tier`: found {number} in no prompt; allowed: 1 and 2 at least once" for number in empty
        ]

    def of_published(self, text: str) -> dict[str, Any]:
        """Read the labels in a published prompt's input list, `1.  **Diagram Caption**: [content]`; copy the rest."""
        labels: list[str] = _LABEL.findall(text)
        inputs = dict(zip(self.inputs, labels, strict=False))
        figures = all(role in inputs.get(role, "").lower() for role in ("human", "model"))
        if len(labels) != len(self.inputs) or not figures:
            raise InputError(
                f"found the inputs {listed(labels)}; allowed: a numbered list with a line `1. **Label**: [...]` "
                f"for each of {listed(self.inputs)}, in this order"
            )
        default = {"default": self.default} if self.default else {}
        return {"tier": self.tier, "verdicts": self.verdicts, **default, "inputs": inputs}


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


class RubricPrompt(Prompt):
    """Rubric of one tag: the system prompt, the inputs of its request, and the aspects to score."""

    named_by_flow = False
    aspects: dict[AspectKey, Aspect] = Field(
        description="a table with a key of small letters, digits and _ for each aspect, and in it zero, ten and, "
        "where the aspect may not apply, not_applicable"
    )
    """Aspects in the order of the reply."""
    inputs: dict[Literal["prompt", "image", "objects", "relation"], Label] = Field(  # pyright: ignore
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


class InstrumentPrompt(Prompt):
    """Prompt of one way to ask the checks of a list: the system prompt, and the inputs of its request."""

    named_by_flow = False
    inputs: dict[Literal["image", "prompt", "checks"], Label] = Field(  # pyright: ignore
        description="a table of image and checks, and perhaps prompt, each with a label that is non-empty text"
    )
    """Inputs in the order of the request."""

    @field_validator("inputs")
    @classmethod
    def _labelled(cls, inputs: dict[str, str]) -> dict[str, str]:
        return kept({"both image and checks": {"image", "checks"} <= inputs.keys()}, inputs)
