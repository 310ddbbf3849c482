"""Gate: the queue of calls to one endpoint, its adaptive window, and the rules by which a call stops waiting."""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Literal

from tasks.endpoint.refusals import room
from tasks.errors import JudgeStopped
from tasks.records import LimitsFound
from tasks.text import duration

FIRST_WINDOW = 16
"""Calls in flight at the start. Until the first refusal each answer adds one, so that they double every round."""
CUT = 0.15
"""Share of the window that a refusal removes, once a round trip."""
GROWTH = 0.008
"""Speed of growth: the window grows by this x its root x the square of the rounds since the last cut, each round.

Growth by the root brings runs that share an endpoint to equal shares, as additive increase does, with fewer refusals
of small windows. Growth that begins at zero after a cut slows down by itself if refusals are frequent."""
LONGEST_CALM = 100.0
"""Most rounds since the last cut that count."""
SHORTEST_ROUND = 1.0
"""Shortest round in seconds: faster answers are no more evidence about a limit than those of one second."""
LEAST_RATE = 0.5
"""Lower bound of the window: calls a second, or one call in flight. Eight runs can share five calls a second."""
YIELD_BELOW = 4.0
YIELD_SHARE = 0.3
"""Longest pause after an answer, as a share of a call, of a window below four calls. Without the pause a run takes the
slot that it has just left, and runs beside it are refused for as long as it runs."""
SPARE_ROOM = 0.95
"""Share of the rate that headers allow, since others may use the same endpoint."""
LONGEST_TOLD_SECONDS = 60.0
"""Longest time between two calls by headers alone. An endpoint that needs a longer one refuses a call."""


class Window:
    """Number of calls that one run may have in flight at one endpoint.

    Below one call, and after the first refusal, starts are spaced: a window of 0.5 with calls of 2 s starts a call
    every 4 s. `tests/simulated_limits.py` tries these rules and constants against limits of calls at once and a second,
    with 1 to 8 runs and with calls that are always refused.
    """

    def __init__(self, most: int) -> None:
        """Begin with a full first window; `most` is the upper limit of calls in flight."""
        self.size = float(min(FIRST_WINDOW, most))
        """Calls in flight; below 1, the share of the time in which one is in flight."""
        self.in_flight = 0
        self.was_refused = False
        """True once the endpoint has refused a call as busy."""
        self._most = most
        self._call_seconds: float | None = None
        """Mean seconds of the last answered calls."""
        self._calm_since = 0.0
        """Time of the last cut; a cut that may be an accident moves it only in part."""
        self._cut_at = self._grown_at = self._next_start = -math.inf
        self._longest_gap = math.inf
        """Upper bound of the seconds between two starts, until a call is answered."""
        self._told_gap = 0.0
        """Seconds between two calls that the endpoint's headers require."""

    def may_start(self, now: float) -> float:
        """Return the earliest time of the next call, at least `now`; infinite until a call in flight ends."""
        if self.in_flight >= max(1, int(self.size)):
            return math.inf
        return max(now, self._next_start)

    def start(self, now: float) -> float:
        """Start a call; return the time."""
        self.in_flight += 1
        self._next_start = now + self._gap
        return now

    def end(self) -> None:
        """End a call that was neither answered nor refused."""
        self.in_flight -= 1

    def answered(self, now: float, started: float) -> None:
        """End a call that the endpoint accepted or rejected."""
        self.in_flight -= 1
        self._longest_gap = math.inf
        took = now - started
        self._call_seconds = took if self._call_seconds is None else 0.9 * self._call_seconds + 0.1 * took
        if not self.was_refused:
            self.size = min(self._most, self.size + 1)
            return
        if self.size < YIELD_BELOW:
            pause = YIELD_SHARE * self._call_seconds * random.random()
            self._next_start = max(self._next_start, now + pause)
        self._grow(now)

    def _grow(self, now: float) -> None:
        """Grow the window by the time since the last answer."""
        length = max(SHORTEST_ROUND, self._call_seconds or 0.0)
        rounds = min(1.0, (now - self._grown_at) / length)
        calm = min(LONGEST_CALM, (now - self._calm_since) / length)
        self._grown_at = now
        self.size = min(self._most, self.size + GROWTH * math.sqrt(self.size) * calm**2 * rounds)

    def refused(self, now: float, started: float, weight: float) -> None:
        """End a call that the endpoint refused as busy, and make the window smaller, once a round trip.

        Args:
            weight: likelihood that load caused the refusal, 0 to 1; the cut is multiplied by it.
        """
        self.in_flight -= 1
        if not weight:
            return
        if not self.was_refused:
            # The calls still in flight were accepted: the endpoint takes so many at once.
            self.was_refused = True
            self.size = max(1.0, min(self.size, self.in_flight))
            self._calm_since = self._cut_at = self._grown_at = now
            self._next_start = max(self._next_start, now + self._gap)
        elif started >= self._cut_at:
            least = min(1.0, LEAST_RATE * (self._call_seconds or 1.0))
            self.size = max(least, self.size * (1 - CUT * weight))
            self._calm_since += (now - self._calm_since) * weight
            self._cut_at = now
            self._next_start = max(self._next_start, now + self._gap * weight)

    def pace(self, now: float, left: float, per_second: float) -> None:
        """Keep to the limits in headers: so many calls at once, then so many a second."""
        if left >= 2 * self.size:
            self._told_gap = 0.0
            return
        self._told_gap = min(LONGEST_TOLD_SECONDS, 1 / (SPARE_ROOM * per_second) if per_second else math.inf)
        if left < 1:
            self._next_start = max(self._next_start, now + self._told_gap)

    def reopen(self, longest_gap: float) -> None:
        """Allow one call at a time again: the endpoint has just answered a small question.

        Args:
            longest_gap: longest time between two starts in seconds, until a call is answered.
        """
        self.size = max(1.0, self.size)
        self._longest_gap = longest_gap

    def restart(self) -> None:
        """Begin with one call again, to spare an endpoint that has just come back."""
        self.size = 1.0
        self.was_refused = False

    @property
    def rate(self) -> float | None:
        """Calls a second that the gap between starts allows; None if there is no gap."""
        return 1 / self._gap if self._gap else None

    @property
    def _gap(self) -> float:
        """Seconds between two starts."""
        paced = self._call_seconds / self.size if self.was_refused and self._call_seconds else 0.0
        return max(min(paced, self._longest_gap), self._told_gap)


BACKOFF_SECONDS = (0.5, 4.0)
"""First and longest wait of a refused call in seconds, if the endpoint names none. Each refusal doubles the wait, and
chance takes off up to half."""
LIMITED_IN_A_ROW = 2
"""Consecutive turns of refused calls while calls without a refusal wait."""
MOST_REFUSALS = 8
"""Refusals after which a call may end, since the call itself may be the reason."""
IMPROBABLE = 1e-6
"""Likelihood that load alone explains a call's refusals, below which the call ends."""
AWAY_AFTER = 5
"""Consecutive calls without a reply, after which the gate checks whether the endpoint is away."""
KNOCK_SECONDS = (1.0, 15.0)
"""First and longest pause between two such checks, in seconds; each pause is twice the one before."""
TRY_SECONDS = 15.0
"""Seconds of failing calls without an answer, after which a small question tests whether the calls are the reason."""
REFUSED_GAP = 0.5
"""Longest seconds between two starts once a small question was answered. A refused call holds no slot. At the pace of
answers, the last refused calls would be sent too seldom to end within `patience_seconds`."""
LONG_WAITS = 8
"""Samples in a row that the endpoint asks to wait longer than `patience_seconds`, after which the run stops."""

Sign = Literal["answered", "busy", "silent"]
"""Result of a small question: an answer or another refusal, a refusal as busy, or no reply."""
Knock = Callable[[], Awaitable[Sign]]


@dataclass
class _Counts:
    """Request counts of one sample, or of the whole run, since it began."""

    answered: int = 0
    refused: int = 0
    tickets: int = 0
    """Calls that have not ended."""


@dataclass
class Evidence:
    """Likelihood that load alone explains a series of refusals, from the other requests meanwhile."""

    odds: float = 1.0
    _others: tuple[int, int] | None = None
    """Other requests, answered and refused, at the last refusal."""

    def refuse(self, others: tuple[int, int]) -> None:
        """Multiply `odds` by the share of other requests that were refused since the last refusal.

        Args:
            others: other requests, answered and refused so far.
        """
        if self._others:
            answered, refused = others[0] - self._others[0], others[1] - self._others[1]
            # This refusal counts, too: a single answer to others proves nothing.
            self.odds *= (refused + 1) / (refused + answered + 1)
        self._others = others


@dataclass(eq=False)
class Ticket:
    """One call until it ends: its place in the queue, and the results of its attempts."""

    sample: str
    """Sample of the call; empty for the first question, which is not a call of the run."""
    place: int = 0
    """Place of its sample in the run: of the calls that wait for their first turn, the lowest starts."""
    waits: int = 0
    """Number of its waits because the endpoint was busy or away."""
    waited: float = 0.0
    """Seconds of these waits."""
    failures: int = 0
    """Attempts without a reply while the endpoint was reachable."""
    silences: int = 0
    """Attempts without a reply."""
    timed_out: int = 0
    """Attempts without a whole reply in time; they may be billed."""
    refusals: int = 0
    """Refusals because the endpoint was busy."""
    evidence: Evidence = field(default_factory=Evidence)
    """Evidence of its refusals beside the requests of other samples."""
    _refused_at: float = 0.0
    """Time of the first refusal."""
    _waits_since: float | None = None
    not_before: float = 0.0
    """Earliest time of its next turn."""
    started: float = 0.0
    """Time at which its last turn began."""

    def wait(self, seconds: float) -> None:
        """Return to the queue, for at least so many seconds."""
        self.waits, self._waits_since = self.waits + 1, time.monotonic()
        self.not_before = self._waits_since + seconds

    def start(self, now: float) -> float:
        """Take the turn; return the seconds that the call has waited since it returned to the queue."""
        self.started = now
        if self._waits_since is None:
            return 0.0
        waited, self._waits_since = now - self._waits_since, None
        self.waited += waited
        return waited

    def refuse(self, now: float, others: tuple[int, int]) -> None:
        """Count a refusal.

        Args:
            others: requests of other samples, answered and refused so far.
        """
        self.refusals += 1
        if self.refusals == 1:
            self._refused_at = now
        self.evidence.refuse(others)

    def may_end(self, now: float, call_seconds: float, answered_at: float, alone: bool) -> bool:
        """Return whether the call itself, rather than load, is the likely reason of its refusals.

        Args:
            answered_at: time of the endpoint's last answer to anything else.
            alone: no other sample has an open call.
        """
        if self.refusals < MOST_REFUSALS:
            return False
        late = now - self._refused_at >= call_seconds
        return self.evidence.odds < IMPROBABLE or (late and (alone or answered_at > self._refused_at))


class Repeats:
    """Calls sent again after a refusal, beside first requests: under load alone, both are answered equally often.

    If first requests are answered and no repeated one is, the refused calls are the reason. A window that shrinks with
    them would slow down all others.
    """

    def __init__(self) -> None:
        self._answered = self._refused = 0
        """First requests, by their result."""
        self._evidence = Evidence()
        """Evidence of all refusals of repeated calls since one of them was answered."""

    def answered(self, ticket: Ticket) -> None:
        """Count an answer."""
        if ticket.refusals:
            self._evidence = Evidence()
        else:
            self._answered += 1

    def weigh(self, ticket: Ticket) -> float:
        """Count the refusal that a ticket has just counted; return the likelihood that load caused it, 0 to 1."""
        if ticket.refusals > 1:
            self._evidence.refuse((self._answered, self._refused))
        else:
            self._refused += 1
        # After so many refusals, a call is no evidence of load any more.
        if ticket.refusals > MOST_REFUSALS or self._evidence.odds < IMPROBABLE:
            return 0.0
        return ticket.evidence.odds


_Line = list[tuple[int, int, Ticket, "asyncio.Future[None]"]]
"""Heap of waiting calls, by the place of their sample and then by arrival."""


@dataclass
class _Lines:
    """Waiting calls in three queues: never refused, refused (limited), and silent.

    The first is in the order of the samples, over all dimensions, so that a run that stops leaves whole samples. The
    others are in the order of arrival: a call that fails again and again keeps no other one waiting.
    """

    fresh: _Line = field(default_factory=_Line)
    limited: _Line = field(default_factory=_Line)
    silent: _Line = field(default_factory=_Line)
    _arrivals: Iterator[int] = field(default_factory=count)
    _in_a_row: int = 0
    """Consecutive starts of limited calls."""

    def add(self, ticket: Ticket, turn: asyncio.Future[None]) -> None:
        """Put a call into its queue."""
        line = self.silent if ticket.silences else self.limited if ticket.refusals else self.fresh
        heappush(line, (ticket.place if line is self.fresh else 0, next(self._arrivals), ticket, turn))

    def choose(self, silent_in_flight: int, places: int) -> _Line | None:
        """Return the queue whose first call is next; None if no call waits."""
        for line in (self.fresh, self.limited, self.silent):
            while line and line[0][3].done():
                heappop(line)
        if self.silent and (silent_in_flight < places // 2 or not (self.fresh or self.limited)):
            return self.silent
        if self.limited and (self._in_a_row < LIMITED_IN_A_ROW or not self.fresh):
            return self.limited
        return self.fresh or None

    def pop(self, line: _Line) -> tuple[Ticket, asyncio.Future[None]]:
        """Remove the first call of a queue and return it."""
        self._in_a_row = self._in_a_row + 1 if line is self.limited else 0
        return heappop(line)[2:]

    def close(self, why: Exception) -> None:
        """Raise this error for all waiting calls."""
        for line in (self.fresh, self.limited, self.silent):
            for *_, turn in line:
                if not turn.done():
                    turn.set_exception(why)
            line.clear()


class Gate:
    """Queue of calls to one endpoint, from opening to closing.

    A call refused by a busy endpoint (429, 503) waits out a backoff of its own while others start. A call without a
    reply is sent again.
    """

    def __init__(self, name: str, most: int, patience: float, call_seconds: float, knock: Knock) -> None:
        """Create an empty queue.

        Args:
            name: name of the endpoint in messages.
            most: upper limit of calls in flight.
            patience: seconds without an answered call, after which the run stops.
            call_seconds: seconds after which a call ends that the endpoint has always refused as busy.
            knock: function that asks one small question.
        """
        self._name, self._patience, self._call_seconds, self._knock = name, patience, call_seconds, knock
        # Calls that are always refused must reach eight refusals within a short patience, too.
        self._try_seconds = min(TRY_SECONDS, patience / 6)
        self._longest_backoff = min(BACKOFF_SECONDS[1], patience / 10)
        self._window = Window(most)
        self._lines = _Lines()
        self._in_flight: set[Ticket] = set()
        self._changed = asyncio.Event()
        self._run = _Counts()
        self._repeats = Repeats()
        self._samples: dict[str, _Counts] = {}
        self._silences = 0
        """Calls without a reply since the last answer."""
        self._away = False
        self._asking: asyncio.Task[None] | None = None
        """Task that checks whether the endpoint is reachable."""
        self._asking_since = 0.0
        self._trying: asyncio.Task[None] | None = None
        """Task that checks whether the endpoint refuses a small question, too."""
        self._verdict: asyncio.Future[bool] | None = None
        """Result of the check for a reachable endpoint, while the check runs."""
        self._long_waits: set[str] = set()
        """Samples asked to wait beyond patience since the last answer."""
        self._answered_at = -math.inf
        """Time of the endpoint's last answer to a call or a small question."""
        self._tried_at = -math.inf
        """Time of the last small question about calls that are all refused."""
        self._quiet_since: float | None = None
        """Time since which calls are sent and none is answered."""
        self._why: JudgeStopped | None = None
        """Reason why no further call starts."""
        self._tokens_per_call = 0.0
        self._waits, self._waited, self._away_seconds = 0, 0.0, 0.0

    def open(self) -> None:
        """Begin to start calls."""
        self._usher = asyncio.create_task(self._let_in())

    async def close(self) -> None:
        """Stop starting calls; the senders of waiting calls cancel them."""
        tasks = [task for task in (self._usher, self._asking, self._trying) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def join(self, sample: str, place: int = 0) -> Ticket:
        """Return a ticket for a call about the sample at this place of the run; `leave` takes it back."""
        self._samples.setdefault(sample, _Counts()).tickets += 1
        return Ticket(sample, place)

    def leave(self, ticket: Ticket) -> None:
        """Remove a call that has ended."""
        counts = self._samples[ticket.sample]
        counts.tickets -= 1
        if not counts.tickets:
            del self._samples[ticket.sample]
        if not self._samples:
            self._quiet_since = None

    async def enter(self, ticket: Ticket) -> None:
        """Wait for a turn, which `answered`, `refused`, `failed` or `cancel` ends.

        Raises:
            JudgeStopped: patience has ended.
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
                self.cancel(ticket)  # its turn began at that moment
            raise

    def answered(self, ticket: Ticket, headers: Mapping[str, str], tokens: int) -> None:
        """End a turn: the endpoint accepted or rejected the call.

        Args:
            tokens: input and output tokens; 0 if the endpoint did not count them.
        """
        now = time.monotonic()
        self._silences, self._quiet_since, self._answered_at = 0, None, now
        self._long_waits.clear()
        self._samples[ticket.sample].answered += 1
        self._run.answered += bool(ticket.sample)
        self._repeats.answered(ticket)
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
            wait: seconds that the endpoint asks to wait; None or 0 if it names none.

        Raises:
            JudgeStopped: patience has ended, or the endpoint asks several samples to wait for longer than that.
        """
        now = time.monotonic()
        self._waits += 1
        own, run = self._samples[ticket.sample], self._run
        ticket.refuse(now, (run.answered - own.answered, run.refused - own.refused))
        own.refused, run.refused = own.refused + 1, run.refused + 1
        self._window.refused(now, ticket.started, self._repeats.weigh(ticket))
        self._end_turn(ticket)
        if wait is not None and wait > self._patience:
            ticket.waits += 1  # counted as a wait, or the retries of its chunk would send the call again
            self._long_waits.add(ticket.sample)
            # Several samples, or the first call of the run.
            if len(self._long_waits) >= LONG_WAITS or self._answered_at == -math.inf:
                asked = f"asks to wait {duration(wait)}, and judge.patience_seconds allows {duration(self._patience)}"
                raise self._give_up(f"{self._name} {asked}: {words}")
            return True
        quiet_since = self._quiet_since or now
        if self._run.answered and not self._trying and now - max(quiet_since, self._tried_at) >= self._try_seconds:
            self._tried_at = now
            self._trying = asyncio.create_task(self._try_small_question())
        if ticket.may_end(now, self._call_seconds, self._answered_at, alone=len(self._samples) == 1):
            return True
        if now - quiet_since >= self._patience:
            raise self._give_up(f"{self._name} has refused all calls for {duration(self._patience)}: {words}")
        ticket.wait(wait or backoff(ticket.refusals, self._longest_backoff))
        return False

    async def _try_small_question(self) -> None:
        """Ask a small question to find out whether the endpoint is busy for all calls or only for the rest of them.

        The caller skips it before the first answer of a run, since there is nothing to compare those calls with.
        """
        try:
            if await self._knock() == "answered":
                self._answered_at = time.monotonic()
                # All open calls come to their refusals in half of patience.
                requests = MOST_REFUSALS * sum(each.tickets for each in self._samples.values())
                self._window.reopen(min(REFUSED_GAP, self._patience / 600, self._patience / 2 / max(1, requests)))
        finally:
            self._trying = None
            self._changed.set()

    def cancel(self, ticket: Ticket) -> None:
        """End a turn whose call was cancelled."""
        self._window.end()
        self._end_turn(ticket)

    async def failed(self, ticket: Ticket, words: str) -> bool:
        """End a turn without a reply; return whether it counts as an attempt, because the endpoint is reachable."""
        ticket.silences += 1
        self._silences += 1
        self._window.end()
        self._end_turn(ticket)
        if self._away or self._why:
            return False
        # A repeated failure of a call is no news for a while: the endpoint was reachable at the first one.
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
            self._give_up(f"{self._name} has not answered for {duration(self._patience)}: {words}")
            return
        self._quiet_since = None
        if sign == "answered":
            self._answered_at = time.monotonic()

    def _are_all_silent(self) -> bool:
        """Return whether each call in flight has gone without a reply before; a first attempt may still be answered."""
        return all(each.silences for each in self._in_flight)

    def _end_question(self, _: object) -> None:
        """Start calls again: the endpoint is reachable, or the run gives up."""
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
        """Return a message for people about the cause of a delay; "" if there is none."""
        if self._away:
            return "waiting for the judge, which does not answer"
        found = self.found()
        return found.in_words() if found else ""

    def found(self) -> LimitsFound | None:
        """Return the limits that were found; None if the endpoint was never busy or away."""
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

    def _give_up(self, words: str) -> JudgeStopped:
        """Start no further call, and raise an error with these words for all waiting ones; return it."""
        self._why = JudgeStopped(words)
        self._lines.close(self._why)
        return self._why

    async def _let_in(self) -> None:
        """Start calls, one after another, forever."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            now, silent = time.monotonic(), sum(1 for each in self._in_flight if each.silences)
            line = None if self._asking else self._lines.choose(silent, int(self._window.size))
            at = self._window.may_start(now) if line else math.inf
            if line and at <= now:
                ticket, turn = self._lines.pop(line)
                self._in_flight.add(ticket)
                self._quiet_since = self._quiet_since or now
                self._waited += ticket.start(now)
                self._window.start(now)
                turn.set_result(None)
                continue
            timer = loop.call_later(at - now, self._changed.set) if at < math.inf else None
            await self._changed.wait()
            if timer:
                timer.cancel()


def backoff(refusals: int, longest: float = BACKOFF_SECONDS[1]) -> float:
    """Return the seconds that a call waits after so many refusals, if the endpoint names none."""
    return min(longest, BACKOFF_SECONDS[0] * 2 ** min(refusals - 1, 10)) * random.uniform(0.5, 1.0)
