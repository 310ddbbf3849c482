"""Prompts that compare two figures: the keys of their files with the allowed values, and the import of published ones.

Only the labels are taken from a published text. `tasks.protocols` combines the tiers and verdicts.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from tasks.errors import InputError
from tasks.records import VERDICTS, Verdict
from tasks.rubrics.prompt import Asked, FrontMatter, Label, kept
from tasks.text import listed

_LABEL = re.compile(r"^\d+\.[ \t]+\*\*(.+?)\*\*: \[", re.MULTILINE)


class PairwiseFrontMatter(FrontMatter):
    """Front matter of a pairwise prompt file; the description of each field lists the allowed values."""

    named_by_flow = True
    tier: Literal[1, 2] = Field(description="1 or 2, the tier of the decision rule")
    verdicts: tuple[Verdict, ...] = Field(description=f"an array of at least one of {', '.join(VERDICTS)}")
    default: str = Field("", description="one of the verdicts of this file, or no such key")
    inputs: dict[Literal["context", "caption", "human", "model"], Label] = Field(
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
        rules = {"both human and model": {"human", "model"} <= inputs.keys()}
        if info.context:
            absent = [label for label in inputs.values() if label not in info.context["body"]]
            rules[f"labels that the body names (it lacks {listed(absent)})"] = not absent
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


class PairwisePrompt(Asked, PairwiseFrontMatter):
    """One pairwise question: the system prompt of a dimension, and the inputs of its request."""

    front_matter = PairwiseFrontMatter
