"""Run in memory: its equipment, which no call changes, its samples in memory, and its counts."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tasks.datasets.dataset import in_samples
from tasks.endpoint.client import Vlm
from tasks.endpoint.replies import InputTokens
from tasks.endpoint.requests import Request
from tasks.judging.case import PUBLISHED, Case, FirstCalls, load_case
from tasks.judging.extension import Extension, Limit
from tasks.judging.questions import Layout
from tasks.judging.results import Results
from tasks.ledger.reuse import Replies
from tasks.ledger.run_files import Ledger
from tasks.parameters import Parameters
from tasks.pictures.preparation import Comparability, Policy
from tasks.pictures.thumbnails import Thumbnails
from tasks.protocols import protocol_of
from tasks.protocols.protocol import Protocol
from tasks.records import Judgment, Order, Outcome, RunStart, Sample
from tasks.rubrics.rubric import Prompt, Rubric
from tasks.spending.bill import Bill
from tasks.spending.prices import BATCH
from tasks.text import counted, cut, well_formed

MOST_PICTURE_BYTES = 96_000_000
"""Bytes of pictures in memory, as they are sent, above which no further samples are read. 64 photographs have more, and
keep a judge busy that takes 64 calls at once."""


@dataclass
class Unread:
    """Samples decided by a picture that was present when the dataset was loaded, but could not be read later."""

    about: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict[str, dict[str, str]](dict))
    """Kind of problem -> sample -> the sample with its file and its problem."""

    def add(self, case: Case, outcome: Outcome) -> None:
        """Count a decided sample, if a picture of it turned out to be unreadable."""
        sample, problem = case.sample, outcome.problem
        role = next((role for role in sample.pictures if role not in case.pictures), "")
        if not problem or not role or sample.pictures[role].problem:
            return
        of_candidate = f"of candidate {sample.candidate}"
        whose = {"human": "Human picture", "model": f"Model picture {of_candidate}"}.get(role, f"image {of_candidate}")
        came = "a forfeit" if outcome.status == "forfeit" else "not scored"
        place = sample.pictures[role].place
        file = Path(place.path).name if place else ""
        words = problem if file in problem else f"{file}: {problem}"
        self.about[f"unreadable {whose}: {came}"][sample.sample_id] = f"{sample.sample_id} ({words})"

    def warnings(self) -> list[str]:
        """Return a sentence for each kind of problem, with the number of samples and the first of them."""
        return [cut(well_formed(in_samples(what, where))) for what, where in self.about.items()]


@dataclass
class RunCounts:
    """Counts of the run so far; their size does not grow with the number of samples."""

    calls: int = 0
    control_calls: int = 0
    reused: int = 0
    judgments: Counter[str] = field(default_factory=Counter[str])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    models: set[str] = field(default_factory=set[str])
    rungs: set[str] = field(default_factory=set[str])
    not_sent: set[str] = field(default_factory=set[str])
    tiers: Counter[str] = field(default_factory=Counter[str])
    """Tier as billed, empty if not reported -> calls of this run that a model answered."""
    comparability: Comparability = field(default_factory=Comparability)
    unread: Unread = field(default_factory=Unread)

    def add(self, case: Case, counting: Iterable[Judgment], outcome: Outcome) -> None:
        """Count a decided sample; of a control only its calls, because it is no result of a candidate."""
        for row in case.judgments:
            self.calls += not row.reused_from
            self.control_calls += bool(row.control and not row.reused_from)
            self.reused += bool(row.reused_from)
            if row.judge_answered and not row.reused_from:
                self.tiers[row.service_tier] += 1
        if outcome.control:
            return
        for row in counting:
            self.judgments[row.status] += 1
            if row.judge_answered:
                self.models.add(row.judge_answered)
                self.rungs.add(row.rung)
                self.not_sent.update(row.not_sent)
        self.outcomes[outcome.status] += 1
        self.comparability.add(outcome)
        self.unread.add(case, outcome)

    def billed_otherwise(self, tier: str) -> list[str]:
        """Return warnings about replies billed in another tier than asked for, or without a tier."""
        others = {name: n for name, n in self.tiers.items() if name not in ("", tier)}
        untold = self.tiers[""] if tier != "standard" else 0
        bill = "only the provider's bill says whether they were, and they are priced here as standard"
        found = {
            f"were billed otherwise ({counted(others)})": sum(others.values()),
            f"do not say what they were bought as, {bill}": untold,
        }
        total = self.tiers.total()
        return [f"{n:,} of {total:,} replies {words}: judge.service_tier is {tier}" for words, n in found.items() if n]


class InHand:
    """Account of the pictures in memory, in bytes."""

    def __init__(self) -> None:
        self._bytes = 0
        self._fewer = asyncio.Event()

    async def few_bytes(self) -> None:
        """Wait until there is room for the pictures of a few more samples."""
        while self._bytes > MOST_PICTURE_BYTES:
            self._fewer.clear()
            await self._fewer.wait()

    def add(self, cases: Iterable[Case]) -> None:
        """Add samples that have been read."""
        self._bytes += sum(case.picture_bytes for case in cases)

    def free(self, case: Case) -> None:
        """Release the pictures of a sample that needs no further call, or gets none."""
        self._bytes -= case.picture_bytes
        case.free_pictures()
        self._fewer.set()


@dataclass(frozen=True)
class Run:
    """Equipment of one run, its samples in memory, and the tally that every decided sample is added to."""

    start: RunStart
    rubric: Rubric
    parameters: Parameters
    policy: Policy
    vlm: Vlm
    ledger: Ledger
    replies: Replies
    results: Results
    thumbnails: Thumbnails | None = None
    """Store of thumbnails; None: none are kept."""
    extensions: tuple[Extension, ...] = ()
    tally: RunCounts = field(default_factory=RunCounts)
    input_tokens: InputTokens = field(default_factory=InputTokens)
    in_hand: InHand = field(default_factory=InHand)
    first_calls: FirstCalls = field(default_factory=FirstCalls)

    @cached_property
    def layout(self) -> Layout:
        """Return the layout of the run's questions."""
        return next((own for each in self.extensions if (own := each.layout(self.start))), PUBLISHED)

    @property
    def limit(self) -> Limit | None:
        """Return the limit on what the run may ask; None: it may ask everything."""
        return next((own for each in self.extensions if (own := each.limit())), None)

    def read(self, sample: Sample, thumbnails: Thumbnails | None) -> Case:
        """Read texts and pictures of a sample, make thumbnails of these if there is a store, and plan its calls."""
        how = self.rubric, self.parameters, self.policy, thumbnails, self.layout, self._shown
        return load_case(sample, *how)

    def _shown(self, sample: Sample, role: str, data: bytes) -> bytes:
        for each in self.extensions:
            data = each.picture(sample, role, data)
        return data

    def question(self, case: Case, prompt: Prompt, order: Order) -> Request:
        """Return a question as it is sent."""
        return self.layout.request(prompt, case.sample, case.texts, case.pictures, order)._replace(
            key=self.layout.key(case.number)
        )

    @property
    def protocol(self) -> Protocol:
        """Return the protocol of the run's flow."""
        return protocol_of(self.start.flow)

    @cached_property
    def bill(self) -> Bill:
        """Return the bill of the run's calls."""
        return Bill(self.parameters.judge)

    def warnings(self) -> list[str]:
        """Return sentences for the reader about the replies of the run."""
        replies, judge = self.replies, self.parameters.judge
        unused = f"{replies.unreadable:,} rows of earlier ledgers cannot be read: their replies were not reused"
        return [
            *([f"{unused}. The first: {replies.first_unreadable}"] if replies.unreadable else []),
            *self.input_tokens.warnings(judge.base_url),
            *self.tally.billed_otherwise(judge.service_tier),
            *self._left_by_batch(),
            *self.tally.unread.warnings(),
            *self.tally.comparability.warnings(),
        ]

    def _left_by_batch(self) -> list[str]:
        left = sum(self.tally.judgments[status] for status in ("unavailable", "invalid"))
        if self.parameters.judge.service_tier != BATCH or not left:
            return []
        return [f"The batch left {left:,} calls without a reply that can be used: the same command asks for them"]

    def close(self) -> None:
        """Close the files; a run without an end remains unfinished."""
        self.ledger.close()
        self.replies.close()
