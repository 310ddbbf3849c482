"""Prompt and parameters of the kind."""

from typing import Literal

from tasks.records.parameters import Parameters
from tasks.rubrics.rubric import Label, Prompt


class PresencePrompt(Prompt):
    """One question about a statement and a picture."""

    named_by_flow = True
    inputs: dict[Literal["caption", "image"], Label]  # pyright: ignore


class PresenceParameters(Parameters):
    """Parameters that all flows have."""
