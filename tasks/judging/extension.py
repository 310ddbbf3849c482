"""Interface of extensions: optional parts of a run that the core calls at fixed places and does not know."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.datasets.dataset import Dataset
from tasks.judging.case import Call, Case
from tasks.judging.questions import Layout
from tasks.ledger.remote import Remote
from tasks.ledger.run_files import Ledger
from tasks.records import BudgetStop, Judgment, Outcome, RunStart, Sample
from tasks.records.parameters import Parameters
from tasks.rubrics.rubric import Rubric

if TYPE_CHECKING:
    from tasks.judging.run import Run
    from tasks.spending.bill import Charge


@dataclass
class Opening:
    """Run before its first record: its parameters, and from `said` on the fields that extensions may change."""

    flow: str
    asked: Parameters
    """Parameters with the store as its user names it."""
    parameters: Parameters
    """Parameters with the folder of the store, which is the local cache of a remote one."""
    rubric: Rubric
    remote: Remote | None
    """Remote store; None: the store is a folder."""
    scheduled: bool
    said: list[str] = field(default_factory=list[str])
    """Warnings from before the first call."""
    reuse_hours: float = 0.0
    """Age up to which earlier replies are reused."""
    anchors: str = ""
    """Hash of the frozen anchors that the run judges; empty: none."""
    ledger: type[Ledger] = Ledger
    """Type of its ledger."""
    may_stop: bool = False
    """True if the run may end before its last sample, which then are in random order."""

    @property
    def store(self) -> Path:
        """Folder of the store."""
        return Path(self.parameters.store)


class Extension:
    """Optional part of one run. Each hook does nothing by default.

    A run calls `check` (a command once more, on an object of its own), `prepare`, `begin` and `samples`, then `picture`
    and `after_outcome` for each sample. It calls `layout` and `limit` when it first needs them. At its end it calls
    `finish`, `after_judging`, `before_report`, `after_report` and `close`. From `after_judging` on, no hook may raise.

    A quote skips `finish`, unless a budget stopped its pilot, and both hooks around the report. A run that fails gets
    `after_judging` and `close` alone. Each shard is a run; their evaluation calls no hook. A batch is taken in by
    another process: a new object gets `check`, `begin` and all from `after_outcome` on, and finds `opening.said`, but
    nothing that `prepare` or `samples` kept.

    `prepare` may leave out or reorder samples: the run's record counts those that it returns, and the dataset key stays
    that of all. `samples` adds controls and anchors, or changes the order. A filter that changes what two runs compare
    belongs in `tasks.datasets.dataset.select`, which comes before the key.
    """

    def __init__(self, opening: Opening) -> None:
        self.opening = opening

    def check(self) -> Sequence[str]:
        """Check the parameters before the dataset is read; return warnings.

        Raises:
            InputError: the run cannot be made as asked.
        """
        return ()

    async def prepare(self, dataset: Dataset) -> Dataset:
        """Prepare the run before its first record; return the dataset as it is judged. It may change the opening.

        Raises:
            InputError, OSError: the run cannot be made as asked.
        """
        return dataset

    def layout(self, start: RunStart) -> Layout | None:
        """Return another layout for the questions; None: the published one."""
        return None

    async def begin(self, run: "Run") -> None:
        """Begin the work on a run, before its first call.

        Raises:
            InputError, OSError: the run cannot be made as asked.
        """

    def samples(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """Return all samples that are judged, in their order."""
        return samples

    def picture(self, sample: Sample, role: str, data: bytes) -> bytes:
        """Return the file that is shown for a picture of a sample.

        Raises:
            InputError: the sample is then judged as if its file could not be read: the Model's picture is a forfeit.
        """
        return data

    def limit(self) -> "Limit | None":
        """Return the limit on what the run may ask; None: it may ask everything."""
        return None

    def after_outcome(self, sample: Sample, outcome: Outcome) -> None:
        """Note that a sample was decided."""

    def after_chunk(self) -> None:
        """Note that a chunk was decided and is in the ledger."""

    async def finish(self) -> Sequence[str]:
        """Finish the work on a run whose samples are decided, before its end is recorded; return warnings."""
        return ()

    async def after_judging(self) -> Sequence[str]:
        """Work while a run is stored and reported; return warnings.

        A run that failed has no end record, nor has a quote.
        """
        return ()

    async def before_report(self) -> Sequence[str]:
        """Work between the store step and the report step; return warnings."""
        return ()

    async def after_report(self) -> Sequence[str]:
        """Work after the report step; return warnings."""
        return ()

    async def close(self) -> None:
        """Release what the extension holds, however the run ended."""


class Limit:
    """Limit on what a run may ask. Samples under a limit keep their order, and the units of them stay together."""

    @property
    def over(self) -> bool:
        """Return whether a unit of samples did not fit: then no further unit starts."""
        return False

    async def admit(self, cases: list[Case]) -> AsyncGenerator[list[Case]]:
        """Yield the samples that may start, in their order and as soon as they may; release the others."""
        yield cases

    async def before_call(self, case: Case, call: Call) -> bool:
        """Return whether a call about an admitted sample may be made."""
        return True

    def after_call(self, case: Case, call: Call, row: Judgment) -> None:
        """Note the reply to a call."""

    def after_answers(self, case: Case) -> None:
        """Note that a sample has new answers, which may make other calls about it needless."""

    def after_first_question(self, charge: "Charge") -> None:
        """Note the cost of a question about no sample."""

    def stopped(self, samples: Sequence[Sample], judged: int) -> BudgetStop | None:
        """Return the place at which the run stopped; None if it did not.

        Args:
            judged: number of samples that the run judged or submitted.
        """
        return None

    async def wait(self) -> None:
        """Keep what is reserved: the run goes on in another process."""
