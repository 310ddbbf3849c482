"""What runs that ask one judge tell each other of its limits, so that they need not find their shares by refusals.

A Prefect variable for each endpoint holds what every run there has of the limits, renewed every so often by that run:
whoever joins knows at once what there is to share, and nobody keeps the part of a run that has gone. What is made of
it, `tasks.endpoint.adaptive_limit` decides. How many calls in flight people allow stands in `shared_limit`.
"""

import asyncio
import math
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import chain, repeat
from typing import Any, cast
from uuid import uuid4

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import VariableCreate, VariableUpdate
from prefect.exceptions import ObjectAlreadyExists
from prefect.logging import get_logger
from pydantic import Field, ValidationError

from flows.runtime.asked_again import asked_soon
from flows.runtime.shared_limit import is_unshared, limit_name
from tasks.endpoint.adaptive_limit import Figures
from tasks.endpoint.gate import Gate
from tasks.parameters import Judge
from tasks.records import Record

EXCHANGE_SECONDS = 2.0
"""Between two exchanges of a run: two small requests, and for so long others may not yet have made room for it."""
FIRST_PAUSES = (0.25, 0.75)
"""Seconds before the exchanges that follow the first one: of runs that start together, as schedules let them, neither
has found the other there, and the calls of both begin soon."""
ANSWER_SECONDS = 2.0
"""For each exchange; without one a run goes on with what it has."""
FIRST_ANSWER_SECONDS = 0.5
"""For the first one, which the run waits for."""
RENEW_SECONDS = 20.0
"""A run that is alone shows so often that it is still there."""
GONE_AFTER = 4
"""Exchanges in which another run has told nothing new: it has ended without taking its words back."""
IDLE_SECONDS = 5.0
"""A run that makes no calls for so long, since it is still loading or already storing, leaves its part to others."""
TRUSTED_SECONDS = 60.0
"""Age of what is read from a run that was not known before: it may have been killed long ago, and clocks differ."""

_log = get_logger("image-jury")


class Told(Record):
    """What one run tells."""

    model: str
    api_key_env: str
    calls_in_flight: float | None = Field(ge=1, allow_inf_nan=False)
    """None: the judge does not hold it up, as far as is known."""
    calls_per_second: float | None = Field(gt=0, allow_inf_nan=False)
    at: float
    """By its clock, in seconds since 1970: another one with each exchange."""

    def figures(self) -> Figures | None:
        """What it has of the limits."""
        return Figures(self.calls_in_flight, self.calls_per_second or math.inf) if self.calls_in_flight else None


def variable_name(base_url: str) -> str:
    """Name of the variable of an endpoint: `jury_api_openai_com`."""
    return re.sub(r"[^a-z0-9]+", "_", limit_name(base_url).lower())


@asynccontextmanager
async def sharing_findings(client: PrefectClient, judge: Judge) -> AsyncGenerator[Callable[[Gate], None]]:
    """Tell others what is found at a gate, and the gate what they have, as long as the context lasts; yields what the
    gate is to be given to.

    It is entered before anything else is asked of the server, and left after: two writers at once are too many for
    SQLite, and the one that it turns away has to ask again. Of a judge that no other run may ask nothing is told.

    Args:
        client: a prompt one.
    """
    if is_unshared(client, judge):
        yield lambda _: None
        return
    findings = _Findings(client, judge)
    await findings.exchange(FIRST_ANSWER_SECONDS)
    keeping = asyncio.create_task(findings.keep_up())
    try:
        yield findings.serve
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await findings.exchange(ANSWER_SECONDS, leaving=True)


class _Findings:
    """What one run tells and hears. A server that does not answer costs the exchange and never the run."""

    def __init__(self, client: PrefectClient, judge: Judge) -> None:
        self._client, self._judge = client, judge
        self._gate: Gate | None = None
        self._name, self._run = variable_name(judge.base_url), uuid4().hex[:12]
        self._heard: dict[str, tuple[float, int]] = {}
        """Of each other run when it last told, by its clock, and in how many exchanges it has told nothing new."""
        self._others: dict[str, Told] = {}
        self._told: Told | None = None

    def serve(self, gate: Gate) -> None:
        """This is the run's gate."""
        self._gate = gate
        self._hear()

    async def keep_up(self) -> None:
        for pause in chain(FIRST_PAUSES, repeat(EXCHANGE_SECONDS)):
            await asyncio.sleep(pause)
            await self.exchange(ANSWER_SECONDS)

    async def exchange(self, patience: float, leaving: bool = False) -> None:
        """Hear and tell once."""
        try:
            async with asyncio.timeout(patience):
                while not await asked_soon(partial(self._exchanged, leaving)):
                    pass
        except Exception as error:  # whatever may be wrong with a server, or the way to it
            _log.debug("What is found of the limits of %s could not be exchanged: %s", self._name, error)

    async def _exchanged(self, leaving: bool) -> bool:
        """Hear and tell; False where another run was the first to make the variable, so that there is more to hear."""
        variable = await self._client.read_variable_by_name(self._name)
        told = read_told(variable.value if variable else None)
        self._others = self._present(told)
        if not leaving:
            self._hear()
        own = None if leaving or self._idle() else self._own()
        if self._is_due(own, self._run in told):
            try:
                await self._tell(self._others | ({self._run: own} if own else {}), variable)
            except ObjectAlreadyExists:
                return False
            self._told = own
        return True

    def _idle(self) -> bool:
        return self._gate is not None and self._gate.idle_seconds > IDLE_SECONDS

    def _is_due(self, own: Told | None, told: bool) -> bool:
        """Whether others must be told; `told`: what this run told is there, and not lost to one who told just then.

        A run that has found nothing new need not write every time, and one that is alone only now and then.
        """
        if own is None or self._told is None:
            return own is not self._told
        renew = EXCHANGE_SECONDS / 2 if self._others else RENEW_SECONDS
        return not told or own.figures() != self._told.figures() or own.at - self._told.at > renew

    def _present(self, told: Mapping[str, Told]) -> dict[str, Told]:
        """What others tell who have not gone."""
        heard = self._heard
        self._heard = {run: (each.at, self._silent(heard.get(run), each)) for run, each in told.items()}
        return {run: each for run, each in told.items() if run != self._run and self._heard[run][1] < GONE_AFTER}

    def _silent(self, before: tuple[float, int] | None, now: Told) -> int:
        if before is None:
            return 0 if abs(now.at - time.time()) < TRUSTED_SECONDS else GONE_AFTER
        return before[1] + 1 if before[0] == now.at else 0

    def _hear(self) -> None:
        """Of another model, or under another key, there are other limits."""
        if not self._gate:
            return
        own = self._judge.model, self._judge.api_key_env
        beside = [each for each in self._others.values() if (each.model, each.api_key_env) == own]
        self._gate.share(1 + len(beside), [found for each in beside if (found := each.figures())])

    def _own(self) -> Told:
        found = self._gate.figures() if self._gate else None
        return Told(
            model=self._judge.model,
            api_key_env=self._judge.api_key_env,
            calls_in_flight=found and found.window,
            calls_per_second=found.rate if found and found.rate < math.inf else None,
            at=time.time(),
        )

    async def _tell(self, told: Mapping[str, Told], variable: object) -> None:
        value = {run: each.model_dump(mode="json") for run, each in told.items()}
        if value and variable:
            await self._client.update_variable(VariableUpdate(name=self._name, value=value))
        elif value:
            await self._client.create_variable(VariableCreate(name=self._name, value=value))
        elif variable:
            await self._client.delete_variable_by_name(self._name)


def read_told(value: Any) -> dict[str, Told]:
    """What runs tell, by run; what people or later versions may have written there is left out."""
    told: dict[str, Told] = {}
    for run, each in cast("dict[str, Any]", value).items() if isinstance(value, dict) else ():
        with suppress(ValidationError):
            told[run] = Told.model_validate(each)
    return told
