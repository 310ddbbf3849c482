"""Parameters of the flow of checklists, and the instruments that they choose from."""

from typing import Literal

from pydantic import Field

from tasks.records.parameters import Parameters

SINGLE = "single"
"""Instrument that asks each check of a list in a call of its own."""
SOFT = "soft"
"""Instrument that asks as `SINGLE` does, and scores the probability of the right answer."""
ONE_BY_ONE = (SINGLE, SOFT)
INSTRUMENT = "instrument"
"""Protocol item with the instrument of a run, which selects its prompt."""


class ChecklistParameters(Parameters):
    """Parameters of the flow of checklists. A field that may not be empty is, emptied, as the deployment has it."""

    images: str = ""
    """Folder of images, or a JSON file that maps a prompt (or its id) to one file or a list of files."""
    format: Literal["", "manifest", "geneval2", "unigenbench", "corebench", "dsg", "tifa", "aibench"] = ""
    """Form of the dataset's files; empty: detected."""
    instrument: Literal["together", "single", "soft"] = "together"
    """Ask the checks of an image together, each in a single call, or so by probability (soft)."""
    skip_broken: bool = False
    """Leave out prompts whose rows cannot be read, with a warning, instead of refusing the dataset."""
    category: list[str] = Field(default=[])
    """Judge only these categories; empty: all."""
    export: str = ""
    """File to write besides: the results in the form of the published set."""
    chunk_size: int = Field(default=64, ge=1, le=512)
    """Most images together in a Prefect task."""

    def prompts_asked(self) -> tuple[str, ...]:
        """Return the dimensions whose prompts are asked: the instrument."""
        return (self.instrument,)

    def protocol_items(self) -> dict[str, str]:
        """Return the instrument."""
        return {INSTRUMENT: self.instrument}

    @property
    def needs_probabilities(self) -> str:
        """Return why replies must be words with probabilities, and what to do without; empty: they need not."""
        soft = "the instrument soft needs them (logprobs): use `--instrument together`, or another judge"
        return soft if self.instrument == SOFT else ""
