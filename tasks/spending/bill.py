"""Bill of a run, call by call, and of calls without a sample: pilots, exams and first questions."""

import asyncio
import math
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tasks.endpoint.api_keys import Secret
from tasks.endpoint.client import Vlm
from tasks.endpoint.replies import STANDARD, Reply
from tasks.endpoint.requests import Request, probe_request
from tasks.errors import InputError, first_of
from tasks.ledger.side_records import OTHER_CALLS, OtherCall, Purpose
from tasks.records import UNBILLED, Judgment, known_cost, new_id
from tasks.records.judge import EMBEDDED, Judge
from tasks.spending.prices import BATCH, FREE, Amounts, Tariff, check_price_files, tariff
from tasks.text import money

if TYPE_CHECKING:
    from tasks.spending.budget import Budget  # which a run without a budget does without

CHARACTERS_A_TOKEN, PICTURE_TOKENS, REPLY_TOKENS = 4, 1000, 500
"""Assumed size of a call without history: characters a token, tokens of a medium picture, tokens of a short reply."""


class Charge(NamedTuple):
    """Cost of one call, in the fields of a row of the ledger."""

    price: float | None = None
    """Price; None if unknown. This and the other fields are those of a ledger row."""
    price_source: str = ""
    estimated: float | None = 0.0
    saved_by_service_tier: float | None = None
    saved_by_cache: float | None = None


def billed(call: Judgment | Charge) -> float | None:
    """Return the cost of a call, including the estimate for attempts without a reply; None if unknown."""
    return None if call.price is None or call.estimated is None else call.price + call.estimated


class Bill:
    """Bill of one run."""

    def __init__(self, judge: Judge) -> None:
        self._judge, self._is_read = judge, False
        self._tier = STANDARD if judge.service_tier == BATCH else judge.service_tier
        """Tier of a call without a reply; replies of a batch bring their own."""
        self._paid: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0.0])
        """Dimension -> number of its priced replies, and the sum of their prices."""
        self.spent: float | None = 0.0
        """Sum of the prices of all calls so far, without estimates; None if one of them is unknown."""
        self.most, self.most_is = math.inf, ""
        """Most that the run may spend, and what that is, in words."""
        self._besides = 0.0
        """Sum of the known prices of calls about no sample."""

    async def charge(self, request: Request, reply: Reply, dimension: str) -> Charge:
        """Return the cost of a call. A reply without a tier counts as standard, the most expensive tier requested."""
        came = reply.model or reply.usage.tokens_in
        now, tier = datetime.now(UTC), reply.tier or (STANDARD if came else self._tier)
        prices = await self._tariff(reply.model, tier, now)
        standard = prices if tier == STANDARD else await self._tariff(reply.model, STANDARD, now)
        charge = _charge(prices, standard, reply)
        if reply.usage.tokens_in and charge.price is not None:
            paid = self._paid[dimension]
            paid[0], paid[1] = paid[0] + 1, paid[1] + charge.price
        if reply.timed_out:
            charge = charge._replace(estimated=self._estimated(prices, request, reply, dimension))
        self._spend(charge, reply)
        return charge

    async def _tariff(self, model: str, tier: str, at: datetime) -> Tariff | None:
        if not self._is_read:
            # The first look-up imports the table, which takes a quarter of a second.
            await asyncio.to_thread(tariff, self._judge, model, tier, at)
            self._is_read = True
        return tariff(self._judge, model, tier, at)

    def pay(self, charge: Charge, reply: Reply) -> None:
        """Add the cost of a call about no sample, such as the first question."""
        self._besides += charge.price or 0.0
        self._spend(charge, reply)

    def words(self, done: int, calls: int) -> str:
        """Return the cost so far, and the expected one of all calls; empty while the cost is unknown or 0.

        Args:
            done: calls about samples that have ended.
        """
        if not self.spent or not done:
            return money(self.spent) if self.spent else ""
        at_end = max(self.spent, self._besides + (self.spent - self._besides) / done * calls)
        bound = f" ({self.most_is})" if at_end > self.most else ""
        return f"{money(self.spent)} of about {money(max(self.spent, min(at_end, self.most)))}{bound}"

    def _spend(self, charge: Charge, reply: Reply) -> None:
        amount, is_unknown = known_cost(reply.status, charge.price)
        self.spent = None if self.spent is None or is_unknown else self.spent + amount

    def _estimated(self, prices: Tariff | None, request: Request, reply: Reply, dimension: str) -> float | None:
        """Estimate timed-out attempts by the mean reply about this dimension, or else by the size of the question."""
        if prices is None:
            return None
        replies, price = self._paid[dimension]
        return reply.timed_out * (price / replies if replies else prices.price(_by_size(request)))


def _charge(prices: Tariff | None, standard: Tariff | None, reply: Reply) -> Charge:
    if prices is None:
        return Charge()
    price = _price(prices, reply)
    if price is None:
        return Charge(price_source=prices.source)
    paid, uncached = prices.price(reply.usage), Amounts(reply.usage.tokens_in, tokens_out=reply.usage.tokens_out)
    by_tier = standard.price(reply.usage) - paid if standard else None
    return Charge(price, prices.source, 0.0, by_tier, prices.price(uncached) - paid)


def _price(prices: Tariff, reply: Reply) -> float | None:
    """Return the price of a reply; None if it reports no tokens. A call that never reached a model costs nothing."""
    if reply.usage.tokens_in or reply.usage.tokens_out:
        return prices.price(reply.usage)
    came = reply.model or reply.status not in ("refused", *UNBILLED)
    return None if came and prices is not FREE else 0.0


def _by_size(request: Request) -> Amounts:
    letters = len(request.system) + sum(len(part) for part in request.content if isinstance(part, str))
    return Amounts(letters / CHARACTERS_A_TOKEN + request.pictures * PICTURE_TOKENS, tokens_out=REPLY_TOKENS)


TOGETHER = 8
MOST_PICTURE_TOKENS = 2_000
"""Most tokens of a picture in a question about no sample: such pictures are drawn small."""


class OtherCalls:
    """Calls for one purpose, of a run's flow or a passport, if any.

    Args:
        asked_by: id of the run, passport or draft that asks them; empty: none.
        budget: budget that those of `ask` must fit into; None: they have no limit.
    """

    def __init__(
        self,
        store: Path,
        judge: Judge,
        purpose: Purpose,
        flow: str = "",
        asked_by: str = "",
        budget: "Budget | None" = None,
    ) -> None:
        self._store, self._judge, self._bill = store, judge, Bill(judge)
        self._purpose: Purpose = purpose
        self._flow, self._asked_by, self._budget = flow, asked_by, budget
        self._due: list[OtherCall] = []

    async def ask(self, vlm: Vlm, question: Request) -> Reply:
        """Ask a question about no sample, and add the call; store those added if they are enough.

        Raises:
            InputError: it does not fit into the budget.
        """
        budget, call = self._budget, object()
        if budget and not await budget.covers(call, budget.expected(self._purpose, _most_tokens(question))):
            from tasks.spending.budget import VARIABLE

            raise InputError(
                f"stopped: {money(budget.spent)} are spent, and a further question, which may cost "
                f"{money(budget.needed)}, does not fit into what is left of the month's budget ({VARIABLE}). The "
                "replies so far are kept, and the same command goes on from there"
            )
        reply = await vlm.ask(question)
        charge = await self.add(question, reply)
        if len(self._due) >= TOGETHER:
            await self.write_down()
        if budget:
            budget.settle(call, self._purpose, billed(charge))
        return reply

    @asynccontextmanager
    async def client(self, secret: Secret) -> AsyncGenerator[Vlm]:
        """Yield a client whose first question is answered; store all calls at the end of the context, however it ends.

        Args:
            secret: place of a key that is not in the environment.

        Raises:
            InputError: a file of prices cannot be used.
            JudgeStopped: no call can succeed. Of several errors in the context the first is raised alone.
        """
        check_price_files()
        async with Vlm(self._judge, secret=secret) as vlm:
            try:
                await vlm.probe(probe_request())
                await self._pay_first_questions(vlm)
                yield vlm
            except ExceptionGroup as errors:
                raise first_of(errors) from None
            finally:
                await self._pay_first_questions(vlm)
                await self.write_down()

    async def _pay_first_questions(self, vlm: Vlm) -> None:
        for request, reply in vlm.take_asides():
            charge = await self.add(request, reply)
            if self._budget:
                self._budget.pay(charge.price)

    async def add(self, request: Request, reply: Reply) -> Charge:
        """Add a call that has ended; return its cost. Calls of the embedded judge are not stored."""
        charge = await self._bill.charge(request, reply, self._purpose)
        if self._judge.base_url != EMBEDDED:
            self._due.append(self._row(reply, charge))
        return charge

    async def write_down(self) -> None:
        """Store the calls added since the last time."""
        due, self._due = self._due, []
        if due:
            calls_id = new_id(self._purpose, datetime.now(UTC))
            rows = [row.model_copy(update={"calls_id": calls_id}) for row in due]
            await asyncio.to_thread(OTHER_CALLS.keep, self._store, rows)

    def _row(self, reply: Reply, charge: Charge) -> OtherCall:
        return OtherCall(
            calls_id="",
            purpose=self._purpose,
            asked_by=self._asked_by,
            flow=self._flow,
            asked_at=datetime.now(UTC).isoformat(),
            status=reply.status,
            judge_asked=self._judge.model,
            judge_answered=reply.model,
            endpoint=self._judge.base_url,
            service_tier=reply.tier,
            **reply.usage._asdict(),
            **charge._asdict(),
            seconds=reply.seconds,
        )


def _most_tokens(question: Request) -> int:
    """Return an upper bound: no text takes more tokens than it has bytes."""
    texts = sum(len(part.encode()) for part in (question.system, *question.content) if isinstance(part, str))
    return texts + question.pictures * MOST_PICTURE_TOKENS


async def note_first_questions(vlm: Vlm, store: Path, flow: str = "", asked_by: str = "") -> list[tuple[Charge, Reply]]:
    """Store the first questions that a client asked since the last call of this; a full disk stops no run.

    Args:
        asked_by: id of the run that asked them; empty: none.

    Returns:
        Their costs and replies.
    """
    calls = OtherCalls(store, vlm.judge, "probe", flow, asked_by)
    noted = [(await calls.add(request, reply), reply) for request, reply in vlm.take_asides()]
    with suppress(InputError, OSError):
        await calls.write_down()
    return noted


@asynccontextmanager
async def first_questions_noted(vlm: Vlm, store: Path, flow: str = "") -> AsyncGenerator[None]:
    """Store the first questions at the end of the context, however it ends."""
    try:
        yield
    finally:
        await note_first_questions(vlm, store, flow)
