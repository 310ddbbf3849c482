"""The judge behind its endpoint: the only module that calls the OpenAI client.

Owns the client, its key, and what becomes of one call: it goes back in line, is sent again, ends in a Reply or, where
no other call could fare better, in a JudgeStopped. Who waits and how long stands in `gate`, what a call sends in
`arguments`, what a refusal means in `refusals`; what a reply says is for `kinds` to read.
"""

import asyncio
import json
import random
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, NamedTuple, Self

import httpx2
from openai import APIConnectionError, APIStatusError, APITimeoutError
from openai.types.chat import ChatCompletion

from tasks.endpoint import arguments
from tasks.endpoint.adaptive_limit import Turn
from tasks.endpoint.api_keys import Secret, find_headers, find_key, no_secret
from tasks.endpoint.body import problem
from tasks.endpoint.completion import Reply, busy_within, read
from tasks.endpoint.connections import connected
from tasks.endpoint.gate import Gate
from tasks.endpoint.known import known_at
from tasks.endpoint.refusals import Refusal, read_refusal
from tasks.endpoint.requests import Request, advice, probe_request
from tasks.errors import JudgeStopped
from tasks.parameters import Judge
from tasks.text import well_formed

RAW = {"X-Stainless-Raw-Response": "raw"}
"""Asks the client for the response beside its content, as its `with_raw_response` does."""
SHORTEST_SECRET = 16
"""Characters of a key from which on it is cut out of what is kept, and not only out of the words of an error."""
MOST_WORDS = 2000
"""Most characters kept of an error message; the body stays whole in `text`."""
MOST_FAILURES = 3
"""A call is sent so often where no reply comes and the endpoint is there."""
RETRY_SECONDS = 0.5
"""Before a call is sent again, with half as much or as little by chance; twice as long before the third time."""
MOST_REFUSED = 5
"""Calls refused by 403 or 404 one after another: the key or the model is refused, not the single call."""
FIRST_REFUSED = 20
"""Calls refused from the beginning, whatever for, before the run is stopped."""
_KEPT_AS: dict[str, Literal["refused", "rejected"]] = {"moderated": "refused", "rejected": "rejected"}
"""Kind of refusal -> what the call ends in where it is its own."""


class Aside(NamedTuple):
    """A question that is about no sample, and what came back."""

    request: Request
    reply: Reply


@dataclass
class Course:
    """What one call has been through."""

    number: int
    """Its place in the line."""
    failures: int = 0
    timed_out: int = 0
    waits: int = 0
    waited: float = 0.0
    """Seconds between its refusals and its next turns."""
    refused_at: float | None = None
    """When it was last told to wait; None: it does not wait."""
    not_before: float = 0.0

    def waits_for(self, seconds: float) -> None:
        """It goes back in line, for so long at least."""
        self.waits, self.refused_at = self.waits + 1, time.monotonic()
        self.not_before = self.refused_at + seconds

    def starts(self, now: float) -> float:
        """It has its turn; returns the seconds that it waited for it since it was refused."""
        if self.refused_at is None:
            return 0.0
        waited, self.refused_at = now - self.refused_at, None
        self.waited += waited
        return waited


class Vlm:
    """One judge and one client. Made for one run and closed with it."""

    def __init__(self, judge: Judge, slots: asyncio.Semaphore | None = None, secret: Secret = no_secret) -> None:
        """A client of the judge.

        Args:
            slots: those that its calls share with others'; its own when there are none.
            secret: where a key may be that is not in the environment.
        """
        self.judge = judge
        self._secret = secret
        self._slots = slots or asyncio.Semaphore(judge.concurrency)
        self._manner = arguments.first_manner(known_at(judge.base_url))
        self._probing: asyncio.Task[Reply] | None = None
        self._ready: Request | None = None
        """The question that was asked first, and is asked again where the endpoint is away."""
        self._there = False
        """The endpoint has answered anything, the question that comes first included."""
        self._replied = False
        """It has replied to a question about a sample."""
        self._refused_in_a_row = 0
        self._asides: list[Aside] = []

    async def __aenter__(self) -> Self:
        self._key = await find_key(self.judge, self._secret)
        self._headers = await find_headers(self.judge, self._secret)
        self._client = connected(self.judge, self._key, self._headers)
        patience = self.judge.patience_seconds
        self._gate = Gate(self._who(), self.judge.concurrency, patience, self._slots, self._knock)
        self._gate.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections, and give up a probe that nobody waits for."""
        if self._probing:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        await self._gate.close()
        await self._client.close()

    @property
    def gate(self) -> Gate:
        """Where its calls wait; for what it has found out."""
        return self._gate

    async def ask(self, request: Request) -> Reply:
        """Send one question and wait for its reply.

        Raises:
            JudgeStopped: the key, the model, the quota or the address is refused.
            JudgeGaveUp: the judge was busy or away for longer than there is patience for.
        """
        reply = await self._asked(request)
        self._replied = self._replied or reply.status == "ok"
        return reply

    async def _asked(self, request: Request) -> Reply:
        course = Course(self._gate.number())
        while True:
            await asyncio.sleep(max(0.0, course.not_before - time.monotonic()))
            turn = await self._gate.enter(course.number)
            self._gate.waited(course.starts(turn.started))
            manner = self._manner
            reply = await self._one_turn(request, manner, turn, course)
            if reply:
                break
        return reply._replace(
            text=well_formed(reply.text),
            error=well_formed(self._told(reply.error)),
            rung=arguments.RUNGS[manner.rung],
            not_sent=tuple(sorted(manner.left_out)),
            seconds=round(time.monotonic() - turn.started, 3),
            http_retries=min(course.failures, MOST_FAILURES - 1),
            timed_out=course.timed_out,
            waits=course.waits,
            waited_seconds=round(course.waited, 3),
        )

    async def _one_turn(self, request: Request, manner: arguments.Manner, turn: Turn, course: Course) -> Reply | None:
        """Send the question once; None: it is to be sent again with the call's next turn."""
        try:
            async with asyncio.timeout(self.judge.call_seconds):
                reply, response = await self._send(request, manner)
        except APIStatusError as error:
            return self._refused(_refusal(error), error.response, manner, turn, course)
        except (APIConnectionError, TimeoutError) as error:
            words, unreachable = _no_reply(error, self.judge)
            course.timed_out += _timed_out(error)
            return self._failed(turn, course, Reply("unavailable", error=words), unreachable)
        except asyncio.CancelledError:
            self._gate.cancelled()
            raise
        if reply.status == "unavailable" and (refusal := busy_within(response.content, response.headers)):
            return self._refused(refusal, response, manner, turn, course)
        self._gate.answered(turn, response.headers, reply.tokens_in + reply.tokens_out)
        self._there, self._refused_in_a_row = True, 0
        return reply

    async def _send(self, request: Request, manner: arguments.Manner) -> tuple[Reply, httpx2.Response]:
        body = arguments.body(self.judge, request, manner)
        headers = {**RAW, "Content-Length": str(len(body))}  # known: no endpoint has to read it in chunks
        raw: Any = await self._client.post(
            "/chat/completions", cast_to=ChatCompletion, content=body, options={"headers": headers}
        )
        response: httpx2.Response = raw.http_response
        return read(response.content, self._redacted, problem(response)), response

    def _refused(
        self, refusal: Refusal, response: httpx2.Response, manner: arguments.Manner, turn: Turn, course: Course
    ) -> Reply | None:
        self._there, words = True, f"{response.status_code}: {refusal.words}"
        if refusal.kind == "busy":
            course.waits_for(refusal.wait or 0.0)
            return self._gate.refused(turn, refusal.wait, self._told(words))
        if refusal.kind == "unavailable":
            return self._failed(turn, course, Reply("unavailable", text=response.text, error=words))
        self._gate.answered(turn, response.headers, 0)
        if refusal.kind == "rejected" and self._gives_way(manner, refusal):
            return None
        self._check_refused(refusal, words)
        return Reply(_KEPT_AS.get(refusal.kind, "rejected"), text=response.text, error=words)

    def _gives_way(self, manner: arguments.Manner, refusal: Refusal) -> bool:
        """Whether the endpoint is asked otherwise from now on."""
        # Calls in flight together are refused together; the first of them has changed the manner for all.
        if self._manner == manner:
            self._manner = arguments.give_way(manner, refusal.words, refusal.param) or manner
        return self._manner != manner

    def _check_refused(self, refusal: Refusal, words: str) -> None:
        """Stop where the refusal of this call is one of all calls."""
        all_calls = refusal.kind in ("denied", "absent", "quota", "redirected")
        self._refused_in_a_row += 1
        final = refusal.kind in ("quota", "redirected") or words.startswith("401")
        several = all_calls and self._refused_in_a_row >= MOST_REFUSED
        if final or several or (not self._replied and self._refused_in_a_row >= FIRST_REFUSED):
            # Not from the error: a traceback in a log would show its words, and they may quote the key.
            raise JudgeStopped(self._told(f"{self._who()} refuses all calls ({words})")) from None

    def _failed(self, turn: Turn, course: Course, reply: Reply, unreachable: bool = False) -> Reply | None:
        """No reply came: where the endpoint is there, that is the call's own failure, of which it has a few."""
        if unreachable and not self._there:
            raise JudgeStopped(f"{self._who()} cannot be reached: {self._told(reply.error)}") from None
        if self._gate.failed(turn, unreachable, self._told(reply.error)):
            course.waits_for(0.0)
            return None
        course.failures += 1
        if course.failures == MOST_FAILURES:
            return reply
        pause = RETRY_SECONDS * 2 ** (course.failures - 1)
        course.not_before = time.monotonic() + pause * random.uniform(0.5, 1.5)
        return None

    async def probe(self, request: Request) -> Reply:
        """Find out with one cheap question what would fail every call; asked once, however often this is called.

        Raises:
            JudgeStopped: what `ask` raises, and also a refusal of the question itself or an address where nobody is.
        """
        if self._probing is None:
            self._ready = request
            self._probing = asyncio.create_task(self._probe(request))
        return await asyncio.shield(self._probing)

    async def _probe(self, request: Request) -> Reply:
        reply = await self._asked(request)
        self._asides.append(Aside(request, reply))
        if reply.status == "rejected":
            mend = advice(request, reply.error)
            raise JudgeStopped(f"{self._who()} refuses the first question: {reply.error}{mend}")
        return reply._replace(text=self.without_key(reply.text))

    def take_asides(self) -> list[Aside]:
        """What it asked by itself since this was last called: whether the judge is there. It may have been billed."""
        taken, self._asides = self._asides, []
        return taken

    async def _knock(self) -> bool:
        """Whether the endpoint answers the first question, be it with a refusal."""
        question, began = self._ready or probe_request(), time.monotonic()
        try:
            async with asyncio.timeout(self.judge.call_seconds):
                reply, _ = await self._send(question, self._manner)
        except APIStatusError as error:
            return _refusal(error).kind != "unavailable"
        except (APIConnectionError, TimeoutError) as error:
            if _timed_out(error):
                self._asides.append(Aside(question, Reply("unavailable", timed_out=1)))
            return False
        self._asides.append(Aside(question, reply._replace(seconds=round(time.monotonic() - began, 3))))
        return True

    def body(self, request: Request) -> arguments.Body:
        """What a call with this question sends, as far as the endpoint has shown what it takes."""
        return arguments.body(self.judge, request, self._manner)

    @property
    def manner(self) -> tuple[str, tuple[str, ...]]:
        """Reply format asked for, and the parameters that are left out, as a reply has them."""
        return arguments.RUNGS[self._manner.rung], tuple(sorted(self._manner.left_out))

    def read(self, status: int, body: bytes) -> Reply:
        """The reply to a question that was not asked by a call of its own: status and body are those of one."""
        if status == HTTPStatus.OK:
            reply = read(body, self._redacted)
        else:
            refusal = read_refusal(status, {}, body)
            words = f"{status}: {refusal.words}"
            reply = Reply(_KEPT_AS.get(refusal.kind, "unavailable"), body.decode("utf-8", "replace"), words)
        return reply._replace(text=well_formed(reply.text), error=well_formed(self._told(reply.error)))

    def without_key(self, text: str) -> str:
        """A text to keep, plain or JSON, without keys. One as short as a word is no secret, and may be one."""
        for form in (value for value in self._secrets() if len(value) >= SHORTEST_SECRET):
            for _ in range(3):  # as it is, in JSON, and in JSON within JSON
                text, form = text.replace(form, "[key]"), json.dumps(form)[1:-1]
        return text

    def _redacted(self, words: str) -> str:
        """Words of an error without the key; to be applied before they are cut, which might leave a part of it."""
        for value in self._secrets():
            words = words.replace(value, "[key]")
        return words

    def _told(self, words: str) -> str:
        """Words of an error as they are told, without the key and not too many."""
        return self._redacted(words)[:MOST_WORDS]

    def _secrets(self) -> list[str]:
        return [value for value in (self._key, *self._headers.values()) if value]

    def _who(self) -> str:
        return f"The judge {self.judge.model} at {self.judge.base_url}"


def _refusal(error: APIStatusError) -> Refusal:
    return read_refusal(error.status_code, error.response.headers, error.response.content)


def _no_reply(error: APIConnectionError | TimeoutError, judge: Judge) -> tuple[str, bool]:
    """Why no reply came, and whether there was no connection at all."""
    if isinstance(error, TimeoutError):
        return f"no whole reply within {judge.call_seconds:g} s", False
    cause = error.__cause__
    if _timed_out(error):
        return f"no reply within {judge.timeout_seconds:g} s", False
    absent = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
    kind = "no connection" if absent else "the connection was lost"
    return f"{kind}: {cause or error}", absent


def _timed_out(error: APIConnectionError | TimeoutError) -> bool:
    """Whether the question arrived, as far as is known, and only the reply did not."""
    if isinstance(error, APITimeoutError):
        return not isinstance(error.__cause__, httpx2.ConnectTimeout)
    return isinstance(error, TimeoutError)
