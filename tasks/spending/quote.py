"""Quote of a run: its calls, tokens, price and time, estimated from earlier replies."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tasks.errors import InputError
from tasks.ledger.run_files import read_judgments, read_start, run_folders
from tasks.records import UNBILLED, Judgment, PictureNote, Record, RunStart
from tasks.records.judge import Judge
from tasks.spending.budget import VARIABLE
from tasks.spending.prices import BATCH, FREE, GIVEN, Amounts, Tariff, in_currency, place
from tasks.text import duration, money

ENOUGH = 20
"""Replies about a dimension that are enough to estimate from."""
FEW = 3
"""Replies with a known length that the tokens of a question are fitted to."""
MOST = 400
"""Replies about each dimension that are enough, from the newest run on; older runs are not read."""
_SETTINGS = ("temperature", "effort", "extra", "max_output_tokens", "detail")
"""Settings of a judge that its tokens depend on, beside its name and its address."""


class Call(NamedTuple):
    """A call to be made."""

    key: str
    subject: tuple[str, str, str]
    """Sample, candidate and kind of control."""
    dimension: str
    text_sha256: str
    letters: int
    """Characters of the system message and the sample's texts."""
    pictures: int
    megapixels: float
    """Megapixels of the pictures as they are sent."""


class Range(Record):
    """An estimate, and the bounds between which the figure lies in 95 of 100 cases."""

    low: float
    middle: float
    high: float


class Seen(NamedTuple):
    """Amounts and time of an earlier reply."""

    dimension: str
    amounts: Amounts
    seconds: float
    letters: int | None
    """Characters of the question; None if unknown."""
    megapixels: float


Worth = Callable[[Amounts], float]
_of_dimension = attrgetter("dimension")


def past_replies(store: Path, like: RunStart) -> list[Judgment]:
    """Return earlier replies of a run's judge to the same prompts, newest runs first; skip unreadable ledgers."""
    found: defaultdict[str, list[Judgment]] = defaultdict(list)
    for run in reversed(run_folders(store)):
        if all(len(found[dimension]) >= MOST for dimension in like.prompts):
            break
        with suppress(InputError, OSError):
            if run.name != like.run_id and _same_judge(read_start(run), like):
                for row in read_judgments(run):
                    prompt = _prompt_of(row, like.prompts)
                    if like.prompts.get(prompt) == row.prompt_sha256 and not row.reused_from:
                        found[prompt].append(row)
    return [row for rows in found.values() for row in rows]


def _prompt_of(row: Judgment, prompts: Mapping[str, str]) -> str:
    """Return the dimension of the prompt that a reply is to; a prompt may ask several questions about a sample."""
    if row.dimension in prompts:
        return row.dimension
    return next((dimension for dimension, sha256 in prompts.items() if sha256 == row.prompt_sha256), row.dimension)


def seen(rows: Iterable[Judgment], calls: Iterable[Call], prompts: Mapping[str, str]) -> list[Seen]:
    """Return amounts and times of replies, with the length of their questions if these calls have the same texts.

    Args:
        prompts: dimension -> SHA-256 of its prompt.
    """
    letters = {(call.dimension, call.text_sha256): call.letters for call in calls}
    found: list[Seen] = []
    for row in rows:
        if row.status not in UNBILLED:
            prompt = _prompt_of(row, prompts)
            amounts = Amounts(row.tokens_in, row.tokens_cached, row.tokens_written, row.tokens_out)
            length = letters.get((prompt, row.text_sha256))
            found.append(Seen(prompt, amounts, row.seconds, length, megapixels(row.pictures)))
    return found


def newest_model(rows: Iterable[Judgment]) -> str:
    """Return the model of the newest reply, whose prices hold now; empty if no reply names one."""
    return max(((row.judged_at, row.judge_answered) for row in rows if row.judge_answered), default=("", ""))[1]


def tries(rows: Iterable[Judgment]) -> float:
    """Return the mean number of billed replies per call: some are asked again because the reply was unusable."""
    calls = [
        (row.run_id, row.sample_id, row.candidate, row.control, row.dimension, row.order, row.vote)
        for row in rows
        if row.status not in UNBILLED
    ]
    return len(calls) / len(set(calls)) if calls else 1.0


def megapixels(pictures: Mapping[str, PictureNote]) -> float:
    """Return the megapixels of pictures as they are sent."""
    return sum(note.sent_width * note.sent_height for note in pictures.values()) / 1e6


class Expected:
    """Estimates by replies of the same judge to the same prompts; `tries` is the number of replies per call."""

    def __init__(self, replies: Sequence[Seen], tries: float = 1.0) -> None:
        self._tries = tries
        self._replies = {name: list(its) for name, its in groupby(sorted(replies, key=_of_dimension), _of_dimension)}
        self._tokens = _fit(replies)

    def replies(self, dimension: str) -> int:
        """Return the number of replies about a dimension."""
        return len(self._replies.get(dimension, ()))

    def amounts(self, call: Call) -> Amounts:
        """Return the expected tokens of one call, by the size of its question."""
        sized = self._tokens(call.letters, call.megapixels)
        return self._scaled(call.dimension, sized)

    def total(self, calls: Sequence[Call], worth: Worth) -> Range:
        """Return the sum over all these calls; each dimension must have replies."""
        middle = self._tries * sum(worth(self.amounts(call)) for call in calls)
        count: defaultdict[str, int] = defaultdict(int)
        for call in calls:
            count[call.dimension] += 1
        # The dimensions of one sample are long or short together, so that their errors are added up.
        off = self._tries * sum(self._off(dimension, n, worth) for dimension, n in count.items())
        return Range(low=max(0.0, middle - off), middle=middle, high=middle + off)

    def seconds(self, calls: Sequence[Call], in_flight: int) -> Range:
        """Return the time of calls with so many at once: by the mean reply, and at most with slow replies only."""
        taken = {name: [each.seconds for each in its] for name, its in self._replies.items()}
        means = sum(float(np.mean(taken[call.dimension])) for call in calls)
        slow = sum(float(np.quantile(taken[call.dimension], 0.95)) for call in calls)
        mostly, at_most = (self._tries * each / in_flight for each in (means, max(means, slow)))
        return Range(low=mostly, middle=mostly, high=at_most)

    def _scaled(self, dimension: str, sized: float | None) -> Amounts:
        replies = self._replies[dimension]
        mean = Amounts(*(sum(kind) / len(replies) for kind in zip(*(each.amounts for each in replies), strict=True)))
        if sized is None or not mean.tokens_in:
            return mean
        known = [each for each in replies if each.letters is not None]
        fitted = sum(self._tokens(each.letters or 0, each.megapixels) or 0.0 for each in known)
        sent = sized * (sum(each.amounts.tokens_in for each in known) / fitted if fitted > 0 else 1.0)
        share = sent / mean.tokens_in
        return Amounts(sent, mean.tokens_cached * share, mean.tokens_written * share, mean.tokens_out)

    def _off(self, dimension: str, calls: int, worth: Worth) -> float:
        """Return the error, either way, of the sum over so many calls of a dimension."""
        from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]  # slow to import

        replies = self._replies[dimension]
        rest = [worth(each.amounts) - worth(self._expected_of(each)) for each in replies]
        n = len(rest)
        if n < 2:
            return calls * worth(replies[0].amounts)
        return float(stdtrit(n - 1, 0.975) * np.std(rest, ddof=1) * math.sqrt(calls**2 / n + calls))

    def _expected_of(self, reply: Seen) -> Amounts:
        sized = None if reply.letters is None else self._tokens(reply.letters, reply.megapixels)
        return self._scaled(reply.dimension, sized)


def _fit(replies: Sequence[Seen]) -> Callable[[int, float], float | None]:
    """Fit input tokens to a question: a constant, tokens per character, and tokens per megapixel, none below 0."""
    from scipy.optimize import nnls  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]  # slow to import

    told = [each for each in replies if each.letters is not None and each.amounts.tokens_in]
    if len(told) < FEW:
        return lambda letters, megapixels: None
    sizes = np.array([[1.0, each.letters or 0, each.megapixels] for each in told])
    tokens = np.array([each.amounts.tokens_in for each in told], float)
    found: Any = nnls(sizes, tokens)  # pyright: ignore[reportUnknownVariableType]
    always, each_letter, each_megapixel = map(float, found[0])
    return lambda letters, megapixels: always + each_letter * letters + each_megapixel * megapixels


def _same_judge(one: RunStart, other: RunStart) -> bool:
    if (one.flow, one.judge, one.endpoint) != (other.flow, other.judge, other.endpoint):
        return False
    if one.protocol.get("layout") != other.protocol.get("layout"):
        return False
    return all(_setting(one, name) == _setting(other, name) for name in _SETTINGS)


def _setting(start: RunStart, name: str) -> object:
    """Return a setting of the judge, or of the flow."""
    return {**start.parameters, **start.judge_settings}.get(name) or None


BATCH_HOURS = 24
"""Hours within which endpoints promise a batch."""


class TierPrice(Record):
    """Price of the calls in one tier."""

    tier: str
    price: Range
    source: str


class Taken(Record):
    """Expected tokens, prices and time of calls."""

    tokens_in: Range
    tokens_out: Range
    prices: tuple[TierPrice, ...]
    seconds: Range
    replies: int


class Quote(Record):
    """Expected calls, tokens, prices and time of a run."""

    flow: str
    model: str
    endpoint: str
    samples: int
    """Samples with calls to be made, including controls."""
    calls: int
    reused: int = 0
    """Earlier replies that are reused and cost nothing."""
    pictures: int
    """Pictures in the calls, each counted as often as it is sent."""
    in_flight: int
    """Calls in flight, on which the time is based."""
    taken: Taken | None = None
    """Estimate; None if there are no replies to estimate from, or no calls to be made."""
    pilot_samples: int = 0
    """Samples judged just now for the quote; 0 if it uses the judge's history alone."""
    pilot_price: float | None = 0.0
    left_of_month: float | None = None
    """Amount that the month's budget has left; None: there is no such budget."""

    @property
    def sentence(self) -> str:
        """Return the whole quote as one sentence."""
        return f"{'; '.join(self.lines())}."

    def lines(self) -> list[str]:
        """Return the quote as lines for people to read."""
        there = f"{self.reused:,} replies are there already and cost nothing"
        if not self.calls:
            return [f"no calls to be made: {there}", *self._pilot()]
        counts = f"{self.calls:,} calls to be made about {self.samples:,} samples, with {self.pictures:,} pictures"
        return [f"{counts}; {there}" if self.reused else counts, *self._taken(), *self._pilot()]

    def _taken(self) -> list[str]:
        if self.taken is None:
            return ["tokens, price and time: unknown, for this judge has not replied to these prompts in this store"]
        tokens = f"{_counted(self.taken.tokens_in)} tokens in, {_counted(self.taken.tokens_out)} out"
        prices = [_priced(each) for each in self.taken.prices]
        left = [] if self.left_of_month is None else [f"{VARIABLE} has {money(self.left_of_month)} left"]
        return [tokens, *(prices or ["price: unknown"]), *left, self._time(self.taken)]

    def _time(self, taken: Taken) -> str:
        spans = dict.fromkeys((duration(taken.seconds.low), duration(taken.seconds.high)))
        batch = f"; as a batch up to {BATCH_HOURS} hours" if any(each.tier == BATCH for each in taken.prices) else ""
        return f"time: {' to '.join(spans)} with {self.in_flight:,} calls at once{batch}"

    def _pilot(self) -> list[str]:
        if not self.pilot_samples:
            return [f"by {self.taken.replies:,} earlier replies of this judge"] if self.taken else []
        cost = "for an unknown price" if self.pilot_price is None else f"for {money(self.pilot_price)}"
        samples = f"{self.pilot_samples} sample{'s' * (self.pilot_samples != 1)}"
        return [f"by the replies about {samples}, asked just now {cost}{'; the run reuses them' * bool(self.reused)}"]


def quote_of(
    flow: str, judge: Judge, calls: Sequence[Call], expected: Expected, tariffs: Mapping[str, Tariff]
) -> Quote:
    """Return the quote of calls to be made; `tariffs` has the prices of each tier, as far as they are available."""
    counted = Quote(
        flow=flow,
        model=judge.model,
        endpoint=judge.base_url,
        samples=len({call.subject for call in calls}),
        calls=len(calls),
        pictures=sum(call.pictures for call in calls),
        in_flight=judge.concurrency,
    )
    if not calls or not all(expected.replies(call.dimension) for call in calls):
        return counted
    taken = Taken(
        tokens_in=expected.total(calls, lambda each: each.tokens_in),
        tokens_out=expected.total(calls, lambda each: each.tokens_out),
        prices=tuple(
            TierPrice(tier=tier, price=expected.total(calls, found.price), source=found.source)
            for tier, found in tariffs.items()
        ),
        seconds=expected.seconds(calls, judge.concurrency),
        replies=sum(expected.replies(dimension) for dimension in {call.dimension for call in calls}),
    )
    return counted.model_copy(update={"taken": taken})


def _counted(span: Range) -> str:
    return f"{span.middle:,.0f} ({span.low:,.0f} to {span.high:,.0f})"


def _priced(each: TierPrice) -> str:
    if each.source == FREE.source:
        return f"price: 0, {each.source}"
    amount = in_currency(each.price.middle, {place(each.source)})
    tiers = "any tier" if each.source == GIVEN else f"the tier {each.tier}"
    return f"price in {tiers}: {amount} ({money(each.price.low)} to {money(each.price.high)})"
