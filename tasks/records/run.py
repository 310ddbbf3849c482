"""Runs: their beginning and their end as recorded, and the offset between two judges."""

import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from pydantic import Field

from tasks.records.terms import Decision, HistoryRecord, Int32, LedgerRecord, MadeFor, Record
from tasks.text import money


def new_id(kind: str, now: datetime) -> str:
    """Return a unique name for a run, or for something else of the ledger; names sort by time."""
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03}-{kind}-{secrets.token_hex(3)}"


class RunStart(LedgerRecord):
    """Plan of a run: `run.json`, written before the first call."""

    run_id: str
    """Name of the run and of its ledger folder; ids sort by time."""
    evaluation_id: str
    """Id that the shards of one evaluation share; of a run on its own, its `run_id`."""
    shard: Int32 = 1
    """Number of the evaluation's shard that this run judges, from 1."""
    shards: Int32 = 1
    """Number of shards of the evaluation; 1: this run is all of it."""
    flow: str
    """Flow of the run: diagram, plot; object, counting, colors, position; facts."""
    started_at: str
    """Time before the first call, UTC."""
    version: str
    """Version of Image Jury."""
    prefect_run_id: str
    """Id of the Prefect flow run; empty outside of Prefect."""
    scheduled: bool
    """True if a schedule started the run, not a person."""
    made_for: MadeFor = ""
    """Purpose for which a command made the run: bridge, before `jury judge bridge` only compared; empty: none."""
    dataset: str
    """Name of the dataset: its folder or file."""
    dataset_key: str
    """Hash of ids, texts and reference pictures, or of the text-to-image prompts. Runs with equal keys judged the same
    dataset."""
    series_key: str = ""
    """Hash of the dataset without questions that may be edited one by one: equal in all runs of a series. Empty: it is
    `dataset_key`."""
    candidates: tuple[str, ...]
    """Systems whose figures or images were judged."""
    samples: int
    """Number of samples of the run, all candidates together."""
    prompt_set: str
    """Name of the prompt set, or its folder."""
    prompts: dict[str, str]
    """Dimension or tag -> SHA-256 of its prompt body."""
    dimensions: tuple[str, ...]
    """Dimensions or tags of the flow."""
    judge: str
    """Requested judge. The protocol and the judgments have the name of the model that answered."""
    endpoint: str
    """Address of the judge."""
    anchors_key: str = ""
    """Hash of the frozen set of anchors; empty: the run judged none."""
    resume_key: str
    """Hash that is equal for runs with the same questions about the same candidates, so that one resumes the other."""
    protocol: dict[str, str]
    """Settings that make two runs comparable, by name, as of before the first reply."""
    parameters: dict[str, object]
    """Parameters that the run was started with."""
    spending_limit: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Most that the run may spend of the month's budget; None: there is no such budget."""
    revision: Int32 = 0
    """Number of times rows were removed from the run on request; a copy with a lower number is out of date."""
    removed_cost: dict[str, float] = Field(default_factory=dict[str, float])
    """Month (UTC, `2026-11`) -> cost of the calls of removed rows, which remains spent."""

    @property
    def judge_settings(self) -> Mapping[str, Any]:
        """Return the parameters of the judge; none if another program wrote something else in their place."""
        judge = self.parameters.get("judge")
        return cast("Mapping[str, Any]", judge) if isinstance(judge, dict) else {}


class LimitsFound(Record, extra="ignore"):
    """Limits of its judge that a run detected."""

    calls_in_flight: Int32
    """Calls that were let in at once when the run ended."""
    calls_per_second: float | None
    """Calls that were let in a second when the run ended; None: this rate did not hold the calls up."""
    waits: Int32
    """Number of times the judge refused a call because it was busy."""
    waited_seconds: float
    """Seconds that calls waited after refusals, added up over all calls."""
    away_seconds: float
    """Seconds in which the judge was away, and no call was made."""

    def in_words(self) -> str:
        """Return the limit, such as `limited by the judge to 8 calls at once`; "" if the judge refused none."""
        if not self.waits:
            return ""
        if self.calls_per_second:
            return f"limited by the judge to {self.calls_per_second:.3g} calls a second"
        return f"limited by the judge to {self.calls_in_flight:,} call{'s' * (self.calls_in_flight > 1)} at once"


class BudgetStop(Record, extra="ignore"):
    """Place at which a run stopped, because the next sample might have cost more than the rest of its budget."""

    budget: float
    """Budget at which the run stopped, in the currency of the prices: its own, or the month's."""
    month: str = ""
    """Month (2026-11, UTC) whose budget it was, `JURY_BUDGET_MONTH`; empty: the run's own."""
    spent: float
    """Amount spent in this run."""
    needed: float = 0.0
    """Possible cost of the next sample, which did not fit into the rest."""
    judged: int
    """Number of samples up to that place, each with its outcome; in a random order, and none was skipped."""
    samples: int
    """Number of samples of the run."""
    is_random: bool = False
    """Whether the judged samples are a random part of all; shards of an evaluation each stop at an own place."""

    @property
    def sentence(self) -> str:
        """Return a sentence about the stop, for the reader of the run."""
        amount = money(self.budget)
        which = f"the budget of {self.month}, {amount}" if self.month else f"its budget of {amount}"
        more = "The same command with more goes on."
        if not self.spent and not self.judged:
            beyond = f"is left of {which}" if self.month else which
            first = "the first sample and those judged with it"
            return f"Nothing was asked: {first} may cost {money(self.needed)}, more than {beyond}. {more}"
        drawn = ", a random part of them" if self.is_random else ""
        judged = f"{self.judged:,} of {self.samples:,} samples judged{drawn}"
        then = f"the next may cost {money(self.needed)}, more than is left. {more}"
        return f"Stopped at {which}: {money(self.spent)} spent, {judged}; {then}"


INCOMPLETE = "Incomplete"
"""State name in Prefect of a run of which not everything could be judged: its command exits with 3."""


def is_all_ok(judgments: Iterable[str], outcomes: Iterable[str], stopped: BudgetStop | None) -> bool:
    """Return whether all samples were judged, every judgment is ok, every picture can be read, and every image exists.

    Args:
        judgments: statuses of the judgments that count.
        outcomes: statuses of the outcomes.
        stopped: place at which the run stopped at its budget; None: it did not stop.
    """
    return not (stopped or {*judgments} - {"ok"} or {*outcomes} & {"bad_picture", "incomplete"})


class RunEnd(LedgerRecord):
    """Totals of a finished run: `end.json`, written once; a run without it is unfinished."""

    run_id: str
    """Name of the run and of its ledger folder; ids sort by time."""
    finished_at: str
    """Time after the last call, UTC."""
    seconds: float
    """Wall time of the run, in seconds."""
    protocol_key: str
    """SHA-256 of the settings that make two runs comparable: compare only runs with equal keys."""
    protocol: dict[str, str]
    """For a finished run, they include the name of the model that answered, and the reply formats used. `protocol_key`
    is the hash of all but the name of the requested model."""
    calls: int
    """Number of calls made in this run, attempts included."""
    control_calls: int = 0
    """Number of calls about control samples or anchors; `calls` includes them."""
    reused: int
    """Number of replies reused from earlier runs."""
    judgments: dict[str, int]
    """Status -> number of judgments that count."""
    outcomes: dict[str, int]
    """Status -> number of outcomes."""
    ledger_rows: dict[str, int] = Field(default_factory=dict[str, int])
    """File of the ledger -> number of its rows."""
    cost: dict[str, float] = Field(default_factory=dict[str, float])
    """Month (2026-11, UTC) -> cost of its calls, including the estimate for sends without a reply."""
    unpriced: dict[str, int] = Field(default_factory=dict[str, int])
    """Month -> number of calls with an unknown price."""
    limits: LimitsFound | None = None
    """Limits of the judge that the run detected; None: the judge was never busy or away."""
    stopped: BudgetStop | None = None
    """Place at which the run stopped at its budget; None: it judged all of its samples."""
    warnings: tuple[str, ...] = ()
    """Warnings of the run."""

    @property
    def all_ok(self) -> bool:
        """Return whether everything was judged; see `is_all_ok`."""
        return is_all_ok(self.judgments, self.outcomes, self.stopped)


class Offset(HistoryRecord):
    """One judge's scores against another's on the same samples; see `statistics.intervals`."""

    n: int
    """Number of samples (of generated images: prompts) with a score by both judges."""
    old_score: float | None
    """Mean of the old judge's scores of these samples; None if there are none."""
    new_score: float | None
    """Mean of the new judge's scores of these samples; None if there are none."""
    shift: float | None
    """Difference new_score - old_score, which converts an old score to the new judge's scale."""
    ci_low: float | None
    """Lower end of the shift's 95% interval, over paired differences, or of its bounds, where more than 3% of the
    scores are missing; None below 8 pairs."""
    ci_high: float | None
    """Upper end of this interval."""
    margin: float
    """Tolerable error of the history, in points on the scale of the scores."""
    decision: Decision
    """Decision on the history. `may be continued`: the interval lies within the margin on either side of 0.
    `with an offset`: it is no wider than the margin on either side of the shift. `cannot tell`: neither."""
    enough: int | None
    """Approximate number of samples for a sure offset; None if these samples suffice, or scores are missing, or there
    is no interval."""
    of: int | None = None
    """Number of samples (of generated images: prompts) that both judges were asked about."""
