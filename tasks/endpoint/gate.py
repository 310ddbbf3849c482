"""The gate: the line of calls before one endpoint, and when a call or the run stops waiting.

A call waits here for its turn. A call that the endpoint refuses for being busy (429, 503) waits out a backoff of its
own while others start. A call that gets no reply is tried again, but silent calls never hold more than half of the
places while others wait. So a sample that always fails costs the others little.
"""

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from tasks.endpoint.waits import room
from tasks.endpoint.window import Window
from tasks.errors import JudgeGaveUp
from tasks.records import LimitsFound
from tasks.text import duration

BACKOFF_SECONDS = (0.5, 4.0)
"""First and longest wait of a refused call where the endpoint names none; doubled by each refusal, less up to half."""
LIMITED_IN_A_ROW = 2
"""Turns that refused calls may take one after another while calls wait that were never refused."""
MOST_REFUSALS = 8
"""A call that is refused so often may be the reason itself: from then on it may end."""
IMPROBABLE = 1e-6
"""Likelihood that load alone refused one call so often, below which the call ends."""
AWAY_AFTER = 5
"""Calls without a reply one after another, after which the gate asks whether the endpoint is there."""
KNOCK_SECONDS = (1.0, 15.0)
"""First and longest pause between two such questions; each is twice the one before."""
TRY_SECONDS = 15.0
"""Where calls fail and nothing is answered for so long, a small question finds out whether the calls are the reason."""
REFUSED_GAP = 0.5
"""Longest seconds between two starts once a small question was answered. A refused call holds no place. Spaced by the
time of an answer, the last refused calls were not asked often enough to end within patience."""
LONG_WAITS = 8
"""Samples in a row that the endpoint asks to wait longer than the run's patience, after which the run stops."""

Sign = Literal["answered", "busy", "silent"]
"""Result of a small question: an answer or a refusal of it, a refusal for being busy, or no reply."""
Knock = Callable[[], Awaitable[Sign]]


@dataclass
class _Counts:
    """Requests of one sample, or of the whole run, since it began."""

    answered: int = 0
    refused: int = 0
    tickets: int = 0
    """Calls that have not ended."""


@dataclass(eq=False)
class Ticket:
    """One call on its way: its place in the line, and what it has been through."""

    sample: str
    """Sample of the call; empty: the first question, which is no call of the run."""
    waits: int = 0
    """Times that it waited because the endpoint was busy or away."""
    waited: float = 0.0
    """Seconds of these waits."""
    failures: int = 0
    """Attempts without a reply while the endpoint was there."""
    silences: int = 0
    """Attempts without a reply."""
    timed_out: int = 0
    """Attempts after which no whole reply came in time; they may be billed."""
    refusals: int = 0
    """Times that the endpoint was busy."""
    odds: float = 1.0
    """Likelihood that load alone refused it so often."""
    _others: tuple[int, int] = (0, 0)
    """Requests of other samples, answered and refused, when it was last refused."""
    _refused_at: float = 0.0
    """Time of the first refusal."""
    _waits_since: float | None = None
    not_before: float = 0.0
    """Time of its next turn at the earliest."""
    started: float = 0.0
    """Time at which its last turn began."""

    def wait(self, seconds: float) -> None:
        """Go back in line, for so long at least."""
        self.waits, self._waits_since = self.waits + 1, time.monotonic()
        self.not_before = self._waits_since + seconds

    def start(self, now: float) -> float:
        """Take the turn; return the seconds that the call waited for it since it went back in line."""
        self.started = now
        if self._waits_since is None:
            return 0.0
        waited, self._waits_since = now - self._waits_since, None
        self.waited += waited
        return waited

    def refuse(self, now: float, others: tuple[int, int]) -> None:
        """Note a refusal, and how likely it is beside what others got meanwhile.

        Args:
            others: requests of other samples, answered and refused so far.
        """
        self.refusals += 1
        if self.refusals == 1:
            self._refused_at = now
        else:
            answered, refused = others[0] - self._others[0], others[1] - self._others[1]
            # This very refusal counts, too: a single answer to others proves nothing.
            self.odds *= (refused + 1) / (refused + answered + 1)
        self._others = others

    def may_end(self, now: float, call_seconds: float, answered_at: float, alone: bool) -> bool:
        """Return whether the call itself, not load, is the likely reason of its refusals.

        Args:
            answered_at: when the endpoint last answered anything else.
            alone: no other sample has a call left.
        """
        if self.refusals < MOST_REFUSALS:
            return False
        late = now - self._refused_at >= call_seconds
        return self.odds < IMPROBABLE or (late and (alone or answered_at > self._refused_at))


_Line = deque[tuple[Ticket, "asyncio.Future[None]"]]


@dataclass
class _Lines:
    """Calls that wait for a turn, by what they have been through."""

    fresh: _Line = field(default_factory=_Line)
    limited: _Line = field(default_factory=_Line)
    silent: _Line = field(default_factory=_Line)
    _in_a_row: int = 0
    """Limited calls that started one after another."""

    def add(self, ticket: Ticket, turn: asyncio.Future[None]) -> None:
        """Put a call at the end of its line."""
        line = self.silent if ticket.silences else self.limited if ticket.refusals else self.fresh
        line.append((ticket, turn))

    def choose(self, silent_in_flight: int, places: int) -> _Line | None:
        """Return the line whose first call is next; None where nobody waits."""
        for line in (self.fresh, self.limited, self.silent):
            while line and line[0][1].done():
                line.popleft()
        if self.silent and (silent_in_flight < places // 2 or not (self.fresh or self.limited)):
            return self.silent
        if self.limited and (self._in_a_row < LIMITED_IN_A_ROW or not self.fresh):
            return self.limited
        return self.fresh or None

    def pop(self, line: _Line) -> tuple[Ticket, asyncio.Future[None]]:
        """Take the first call out of its line."""
        self._in_a_row = self._in_a_row + 1 if line is self.limited else 0
        return line.popleft()

    def close(self, why: Exception) -> None:
        """Raise this for all who wait."""
        for line in (self.fresh, self.limited, self.silent):
            for _, turn in line:
                if not turn.done():
                    turn.set_exception(why)
            line.clear()


class Gate:
    """The line before one endpoint, from opening to closing."""

    def __init__(self, name: str, most: int, patience: float, call_seconds: float, knock: Knock) -> None:
        """Make a gate that nobody waits at.

        Args:
            name: of the endpoint, for sentences about it.
            most: calls in flight that are never exceeded.
            patience: seconds in which no call is answered, after which the run stops.
            call_seconds: seconds after which a call ends that the endpoint is always too busy for.
            knock: asks one small question.
        """
        self._name, self._patience, self._call_seconds, self._knock = name, patience, call_seconds, knock
        # Within a short patience, too, calls that are always refused must come to eight refusals.
        self._try_seconds = min(TRY_SECONDS, patience / 6)
        self._longest_backoff = min(BACKOFF_SECONDS[1], patience / 10)
        self._refused_gap = min(REFUSED_GAP, patience / 600)
        self._window = Window(most)
        self._lines = _Lines()
        self._in_flight: set[Ticket] = set()
        self._changed = asyncio.Event()
        self._run = _Counts()
        self._samples: dict[str, _Counts] = {}
        self._silences = 0
        """Calls without a reply since the last answer."""
        self._away = False
        self._asking: asyncio.Task[None] | None = None
        """Asks whether the endpoint is there."""
        self._asking_since = 0.0
        self._trying: asyncio.Task[None] | None = None
        """Asks whether the endpoint is busy for a small question, too."""
        self._verdict: asyncio.Future[bool] | None = None
        """Whether the endpoint is there, while that is being asked."""
        self._long_waits: set[str] = set()
        """Samples since the last answer that were asked to wait beyond patience."""
        self._answered_at = -math.inf
        """When the endpoint last answered a call, or a small question."""
        self._tried_at = -math.inf
        """When it was last asked a small question because all calls were refused."""
        self._quiet_since: float | None = None
        """Since when calls are asked and none is answered."""
        self._why: Exception | None = None
        """Why nobody is let in any more."""
        self._tokens_per_call = 0.0
        self._waits, self._waited, self._away_seconds = 0, 0.0, 0.0

    def open(self) -> None:
        """Begin to let calls in."""
        self._usher = asyncio.create_task(self._let_in())

    async def close(self) -> None:
        """Let nobody in any more; those who wait are cancelled by whoever sent them."""
        tasks = [task for task in (self._usher, self._asking, self._trying) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def join(self, sample: str) -> Ticket:
        """Return the ticket of a call about this sample; `leave` takes it back."""
        self._samples.setdefault(sample, _Counts()).tickets += 1
        return Ticket(sample)

    def leave(self, ticket: Ticket) -> None:
        """Note that the call has ended."""
        counts = self._samples[ticket.sample]
        counts.tickets -= 1
        if not counts.tickets:
            del self._samples[ticket.sample]
        if not self._samples:
            self._quiet_since = None

    async def enter(self, ticket: Ticket) -> None:
        """Wait for a turn, which `answered`, `refused`, `failed` or `cancel` ends.

        Raises:
            JudgeGaveUp: patience has ended.
        """
        await asyncio.sleep(max(0.0, ticket.not_before - time.monotonic()))
        if self._why:
            raise self._why
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.add(ticket, turn)
        self._changed.set()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and not turn.exception():
                self.cancel(ticket)  # it was let in at that moment
            raise

    def answered(self, ticket: Ticket, headers: Mapping[str, str], tokens: int) -> None:
        """End a turn: the endpoint took the call, and accepted or rejected it.

        Args:
            tokens: in and out; 0 where the endpoint did not count them.
        """
        now = time.monotonic()
        self._silences, self._quiet_since, self._answered_at = 0, None, now
        self._long_waits.clear()
        self._samples[ticket.sample].answered += 1
        self._run.answered += bool(ticket.sample)
        if self._asking:
            self._asking.cancel()
        self._window.answered(now, ticket.started)
        if tokens:
            self._tokens_per_call = 0.9 * (self._tokens_per_call or tokens) + 0.1 * tokens
        if left := room(headers, self._tokens_per_call):
            self._window.pace(now, left.left, left.per_second)
        self._end_turn(ticket)

    def refused(self, ticket: Ticket, wait: float | None, words: str) -> bool:
        """End a turn: the endpoint is busy. Return whether the call ends, too; else it waits for its next turn.

        Args:
            wait: seconds that the endpoint asks to wait; None where it does not say.

        Raises:
            JudgeGaveUp: patience has ended, or the endpoint asks several samples to wait for longer than that.
        """
        now = time.monotonic()
        self._waits += 1
        self._count_refusal(ticket, now)
        # A call that was refused so often, while others were answered, says nothing about load any more.
        self._window.refused(now, ticket.started, ticket.odds if ticket.refusals <= MOST_REFUSALS else 0.0)
        self._end_turn(ticket)
        if wait is not None and wait > self._patience:
            ticket.waits += 1  # without a wait, the call would be asked again by the retries of its chunk
            self._note_long_wait(ticket, wait, words)
            return True
        quiet_since = self._quiet_since or now
        if self._run.answered and not self._trying and now - max(quiet_since, self._tried_at) >= self._try_seconds:
            self._tried_at = now
            self._trying = asyncio.create_task(self._try_small_question())
        if ticket.may_end(now, self._call_seconds, self._answered_at, alone=len(self._samples) == 1):
            return True
        if now - quiet_since >= self._patience:
            self._give_up(f"{self._name} has refused all calls for {duration(self._patience)}: {words}")
        ticket.wait(backoff(ticket.refusals, self._longest_backoff) if wait is None else wait)
        return False

    def _count_refusal(self, ticket: Ticket, now: float) -> None:
        own, run = self._samples[ticket.sample], self._run
        ticket.refuse(now, (run.answered - own.answered, run.refused - own.refused))
        own.refused += 1
        run.refused += 1

    def _note_long_wait(self, ticket: Ticket, wait: float, words: str) -> None:
        """Give up where the endpoint asks several samples to wait for too long, or the first call of all."""
        self._long_waits.add(ticket.sample)
        if len(self._long_waits) >= LONG_WAITS or self._answered_at == -math.inf:
            asked = f"asks to wait {duration(wait)}, and judge.patience_seconds allows {duration(self._patience)}"
            self._give_up(f"{self._name} {asked}: {words}")

    async def _try_small_question(self) -> None:
        """Find out whether the endpoint is busy for all, or only for the calls that are left.

        Where no call was ever answered it is not asked: there is nothing that those calls could be compared to.
        """
        try:
            if await self._knock() == "answered":
                self._answered_at = time.monotonic()
                self._window.reopen(self._refused_gap)
        finally:
            self._trying = None
            self._changed.set()

    def cancel(self, ticket: Ticket) -> None:
        """End a turn: the call is not to be made any more."""
        self._window.end()
        self._end_turn(ticket)

    async def failed(self, ticket: Ticket, words: str) -> bool:
        """End a turn without a reply; return whether it counts as an attempt, since the endpoint is there."""
        ticket.silences += 1
        self._silences += 1
        self._window.end()
        self._end_turn(ticket)
        if self._away or self._why:
            return False
        # A call whose failure has counted before says nothing new for a while: the endpoint was there then.
        news = not ticket.failures or time.monotonic() - self._answered_at >= TRY_SECONDS
        if not self._asking and (self._silences >= AWAY_AFTER or (news and self._are_all_silent())):
            self._verdict = asyncio.get_running_loop().create_future()
            self._asking_since = time.monotonic()
            self._asking = asyncio.create_task(self._ask_whether_there(words))
            # A callback, since a task that is cancelled before its first step runs no `finally`.
            self._asking.add_done_callback(self._end_question)
        return await asyncio.shield(self._verdict) if self._verdict else True

    async def _ask_whether_there(self, words: str) -> None:
        """Ask one small question after another until the endpoint answers one, or a call. Meanwhile no call starts."""
        sign, pause, now = await self._knock(), KNOCK_SECONDS[0], time.monotonic()
        try:
            async with asyncio.timeout(self._patience - (now - (self._quiet_since or now))):
                while sign == "silent":
                    if self._are_all_silent():
                        self._away = True
                        self._settle(False)
                    await asyncio.sleep(pause)
                    sign, pause = await self._knock(), min(2 * pause, KNOCK_SECONDS[1])
        except TimeoutError:
            words = f"{self._name} has not answered for {duration(self._patience)}: {words}"
            self._close(JudgeGaveUp(words))
            return
        self._quiet_since = None
        if sign == "answered":
            self._answered_at = time.monotonic()

    def _are_all_silent(self) -> bool:
        """Return whether each call in flight has gone without a reply before; a first attempt may still be answered."""
        return all(each.silences for each in self._in_flight)

    def _end_question(self, _: object) -> None:
        """Let calls in again: the endpoint is there, or the run gives up."""
        if self._away:
            self._away_seconds += time.monotonic() - self._asking_since
            self._window.restart()
        self._settle(True)
        self._silences, self._away, self._asking, self._verdict = 0, False, None, None
        self._changed.set()

    def _settle(self, there: bool) -> None:
        if self._verdict and not self._verdict.done():
            self._verdict.set_result(there)

    def words(self) -> str:
        """Return what holds the run up, for people; "" where nothing does."""
        if self._away:
            return "waiting for the judge, which does not answer"
        found = self.found()
        return found.in_words() if found else ""

    def found(self) -> LimitsFound | None:
        """Return the limits that were found; None where the endpoint never was busy nor away."""
        if not (self._waits or self._away_seconds):
            return None
        size, rate = self._window.size, self._window.rate
        return LimitsFound(
            calls_in_flight=max(1, int(size)),
            calls_per_second=round(rate, 2) if rate and size < 2 else None,
            waits=self._waits,
            waited_seconds=round(self._waited, 1),
            away_seconds=round(self._away_seconds, 1),
        )

    def _end_turn(self, ticket: Ticket) -> None:
        self._in_flight.discard(ticket)
        self._changed.set()

    def _give_up(self, words: str) -> NoReturn:
        self._close(JudgeGaveUp(words))
        raise JudgeGaveUp(words)

    def _close(self, why: Exception) -> None:
        """Let nobody in any more, and raise this for all who wait."""
        self._why = why
        self._lines.close(why)

    async def _let_in(self) -> None:
        """Let calls in, one after another, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            now = time.monotonic()
            if (at := self._next_start(now)) <= now:
                self._start(now)
                continue
            timer = loop.call_later(at - now, self._changed.set) if at < math.inf else None
            await self._changed.wait()
            if timer:
                timer.cancel()

    def _next_start(self, now: float) -> float:
        if self._asking or self._choose() is None:
            return math.inf
        return self._window.may_start(now)

    def _choose(self) -> _Line | None:
        silent = sum(1 for each in self._in_flight if each.silences)
        return self._lines.choose(silent, int(self._window.size))

    def _start(self, now: float) -> None:
        if line := self._choose():
            ticket, turn = self._lines.pop(line)
            self._in_flight.add(ticket)
            self._quiet_since = self._quiet_since or now
            self._waited += ticket.start(now)
            self._window.start(now)
            turn.set_result(None)


def backoff(refusals: int, longest: float = BACKOFF_SECONDS[1]) -> float:
    """Return the seconds that a call waits after so many refusals, where the endpoint names none."""
    return min(longest, BACKOFF_SECONDS[0] * 2 ** min(refusals - 1, 10)) * random.uniform(0.5, 1.0)
