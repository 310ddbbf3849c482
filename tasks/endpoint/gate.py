"""The gate: where calls to one endpoint wait for their turn.

One gate stands before the model of a run, under the slots that runs share. It lets in as many calls as the endpoint has
been found to take (`adaptive_limit`), the oldest first, and none while the endpoint is away: then one small question
after another asks whether it is back. Waiting is nobody's attempt. It ends with the patience of the run: then all who
wait are told why.

Owns the line and its end. What an answer means, and when a call gives up by itself, is for `client`.
"""

import asyncio
import heapq
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import NoReturn

from tasks.endpoint.adaptive_limit import AdaptiveLimit, Figures, Turn
from tasks.endpoint.limit_headers import room
from tasks.errors import JudgeGaveUp
from tasks.records import LimitChange, LimitsFound
from tasks.text import duration

AWAY_AFTER = 5
"""Calls that fail one after another, with none answered between them, before the endpoint is taken to be away."""
KNOCK_SECONDS = (1.0, 15.0)
"""First and longest pause between two questions whether it is back; each is twice the one before."""
MOST_CHANGES = 100
"""Changes of the limits that are recorded, the first ones."""

Knock = Callable[[], Awaitable[bool]]
"""Asks one small question; whether the endpoint answered it."""


class Gate:
    """The line before one endpoint, from opening to closing."""

    def __init__(self, name: str, most: int, patience: float, slots: asyncio.Semaphore, knock: Knock) -> None:
        """A gate that nobody waits at.

        Args:
            name: of the endpoint, for sentences about it.
            most: calls in flight that are never exceeded.
            patience: seconds without an answer, after which calls give up.
            slots: those that this gate's calls share with others'.
            knock: asked while the endpoint is away.
        """
        self._name, self._patience, self._slots, self._knock = name, patience, slots, knock
        self._limit = AdaptiveLimit(most)
        self._numbers = count()
        self._line: list[tuple[int, asyncio.Future[Turn]]] = []
        """Those who wait, by the number that a call keeps for all its turns: a heap."""
        self._changed = asyncio.Event()
        self._failures = 0
        """Calls that failed since the last answer."""
        self._away: asyncio.Task[None] | None = None
        self._unanswered_since: float | None = None
        self._why: Exception | None = None
        """Why nobody is let in any more."""
        self._tokens_per_call = 0.0
        self._left = time.monotonic()
        """When a call last ended."""
        self._began = time.monotonic()
        self._waits, self._waited, self._away_seconds = 0, 0.0, 0.0
        self._changes: list[LimitChange] = []

    def open(self) -> None:
        """Begin to let calls in."""
        self._usher = asyncio.create_task(self._let_in())

    async def close(self) -> None:
        """Let nobody in any more; those who wait are cancelled by whoever has sent them."""
        tasks = [task for task in (self._usher, self._away) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def number(self) -> int:
        """A place in the line."""
        return next(self._numbers)

    async def enter(self, number: int) -> Turn:
        """Wait for a turn, which is then to be ended by `answered`, `refused` or `failed`.

        Raises:
            JudgeGaveUp: patience has ended; and whatever the slots raise.
        """
        if self._why:
            raise self._why
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._line, (number, turn))
        self._changed.set()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and not turn.exception():
                self.cancelled()  # it was let in at that moment
            raise

    def answered(self, turn: Turn, headers: Mapping[str, str], tokens: int) -> None:
        """The endpoint took the call, whatever it said; `tokens`: in and out, 0 where it did not count them."""
        now = time.monotonic()
        self._failures, self._unanswered_since = 0, None
        if self._away:
            self._away.cancel()
        self._limit.answered(now, turn)
        if tokens:
            self._tokens_per_call = 0.9 * (self._tokens_per_call or tokens) + 0.1 * tokens
        if told := room(headers, self._tokens_per_call):
            self._limit.told(now, told.left, told.per_second)
        self._leave()

    def refused(self, turn: Turn, wait: float | None, words: str) -> None:
        """The endpoint is busy; `wait`: the seconds that it asks to wait, None where it does not say.

        Raises:
            JudgeGaveUp: it asks for more than there is patience for, or patience has ended.
        """
        now, window = time.monotonic(), int(self._limit.window)
        self._waits += 1
        self._limit.refused(now, turn, wait)
        if int(self._limit.window) != window and len(self._changes) < MOST_CHANGES:
            self._changes.append(self._change(now, words))
        self._leave()
        if wait is not None and wait > self._patience:
            asked = f"asks to wait {duration(wait)}, and judge.patience_seconds allows {duration(self._patience)}"
            self._give_up(f"{self._name} {asked}: {words}")
        self._check_patience(now, f"{self._name} has refused all calls for {duration(self._patience)}: {words}")

    def cancelled(self) -> None:
        """The call is not to be made any more."""
        self._limit.failed()
        self._leave()

    def failed(self, turn: Turn, unreachable: bool, words: str) -> bool:
        """The call failed; whether the endpoint is taken to be away, so that the call's failure is not its own.

        Args:
            unreachable: there was no connection: no other call would have fared better.

        Raises:
            JudgeGaveUp: patience has ended.
        """
        now = time.monotonic()
        self._failures += 1
        self._limit.failed()
        self._unanswered_since = self._unanswered_since or turn.started
        self._check_patience(now, self._silent(words))
        away = unreachable or self._failures >= AWAY_AFTER
        if away and not self._away:
            self._away = asyncio.create_task(self._wait_until_back(words, unreachable))
        self._leave()
        return away

    def waited(self, seconds: float) -> None:
        """A refused call has waited so long for its next turn."""
        self._waited += seconds

    @property
    def idle_seconds(self) -> float:
        """Since when no call waits nor is in flight."""
        busy = self._limit.in_flight or any(not turn.done() for _, turn in self._line)
        return 0.0 if busy else time.monotonic() - self._left

    def figures(self) -> Figures | None:
        """What this run has of the endpoint's limits; None where they are not known, or do not hold it up."""
        return self._limit.figures()

    def share(self, runs: int, others: Sequence[Figures]) -> None:
        """So many runs ask the endpoint, this one included; `others`: what those of them have whom it holds up."""
        self._limit.share(time.monotonic(), runs, others)
        self._changed.set()

    def words(self) -> str:
        """What holds the run up, for people; "" where nothing does."""
        if self._away:
            return "waiting for the judge, which does not answer"
        found = self.found()
        return found.in_words() if found else ""

    def found(self) -> LimitsFound | None:
        """What was found out; None where the endpoint never was busy nor away."""
        if not (self._waits or self._away_seconds):
            return None
        window, rate = self._figures()
        return LimitsFound(
            calls_in_flight=window,
            calls_per_second=rate,
            waits=self._waits,
            waited_seconds=round(self._waited, 1),
            away_seconds=round(self._away_seconds, 1),
            changes=tuple(self._changes),
        )

    def _figures(self) -> tuple[int, float | None]:
        rate = self._limit.effective_rate
        return int(self._limit.window), round(rate, 2) if rate < self._limit.full_rate else None

    def _change(self, now: float, words: str) -> LimitChange:
        window, rate = self._figures()
        seconds = round(now - self._began, 1)
        return LimitChange(seconds=seconds, calls_in_flight=window, calls_per_second=rate, reason=words[:200])

    def _leave(self) -> None:
        self._left = time.monotonic()
        self._slots.release()
        self._changed.set()

    def _silent(self, words: str) -> str:
        return f"{self._name} has not answered for {duration(self._patience)}: {words}"

    def _check_patience(self, now: float, words: str) -> None:
        self._unanswered_since = self._unanswered_since or now
        if now - self._unanswered_since >= self._patience:
            self._give_up(words)

    def _give_up(self, words: str) -> NoReturn:
        self._close(JudgeGaveUp(words))
        raise JudgeGaveUp(words)

    def _close(self, why: Exception) -> None:
        """Let nobody in any more, and tell all who wait."""
        self._why = why
        for _, turn in self._line:
            if not turn.done():
                turn.set_exception(why)
        self._line.clear()

    async def _let_in(self) -> None:
        """One after another, for ever: wait for room, then for a slot, and let the oldest in."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._changed.clear()
                now = time.monotonic()
                if (at := self._next_start(now)) > now:
                    timer = loop.call_later(at - now, self._changed.set) if at < math.inf else None
                    await self._changed.wait()
                    if timer:
                        timer.cancel()
                    continue
                await self._slots.acquire()
                self._start_oldest()
        except Exception as error:  # from the slots: the limit that runs share refuses this one
            self._close(error)

    def _next_start(self, now: float) -> float:
        while self._line and self._line[0][1].done():
            heapq.heappop(self._line)
        return self._limit.may_start(now) if self._line and not self._away else math.inf

    def _start_oldest(self) -> None:
        """With a slot in hand, which is put back where things have changed while it was waited for."""
        now = time.monotonic()
        if self._next_start(now) > now:
            self._slots.release()
            return
        _, turn = heapq.heappop(self._line)
        turn.set_result(self._limit.start(now))

    async def _wait_until_back(self, words: str, is_gone: bool) -> None:
        began, pause = time.monotonic(), KNOCK_SECONDS[0]
        try:
            async with asyncio.timeout(self._patience - (began - (self._unanswered_since or began))):
                while True:
                    await asyncio.sleep(pause)
                    if await self._knock():
                        break
                    is_gone = True
                    pause = min(2 * pause, KNOCK_SECONDS[1])
        except TimeoutError:
            self._close(JudgeGaveUp(self._silent(words)))
        finally:
            self._away_seconds += time.monotonic() - began
            self._away, self._failures = None, 0
            self._limit.restart(is_gone)
            self._changed.set()
