"""Judges of deployments that their providers switch off soon, or have: told while there is time to choose another.

Owns which deployments and schedules such a judge concerns. Which models end when, `endpoint.models` knows.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from prefect import get_client
from prefect.client.schemas.responses import DeploymentResponse
from prefect.logging import get_run_logger

from flows.runtime.prefect_run import ANSWER_SECONDS, own_run
from tasks.endpoint.models import Ending, ending, today
from tasks.parameters import Judge
from tasks.text import listed, one_line

LONGEST = 80
"""Characters of a deployment's name."""


def ending_lines(deployments: Iterable[DeploymentResponse], day: date) -> list[str]:
    """A line for each judge of deployments that ends within 60 days, or has ended, with those that it judges for."""
    concerned: dict[Ending, list[str]] = {}
    for deployment in sorted(deployments, key=lambda each: each.name):
        for name, judge in _judges(deployment):
            if found := ending(judge.get("model", ""), judge.get("base_url", ""), day):
                concerned.setdefault(found, []).append(one_line(name, LONGEST))
    return [f"{each.words(day)}: {', '.join(names)} ({each.source})" for each, names in concerned.items()]


async def ending_sentences(judge: Judge) -> list[str]:
    """What the reader of a run should know of the end of its judge, with the deployments concerned; mostly nothing."""
    day = today()
    found = ending(judge.model, judge.base_url, day)
    if not found:
        return []
    names = await _concerned(found, day)
    whose = f"; it is the judge of {listed(names)}" if names else ""
    cure = "`jury bridge` tells whether its history may be continued with another"
    return [f"The judge {found.words(day)}{whose}. {cure}. ({found.source})"]


async def _concerned(wanted: Ending, day: date) -> list[str]:
    """Deployments on this run's server whose judge it is; none where the server does not say."""
    if not own_run():
        return []
    try:
        async with asyncio.timeout(ANSWER_SECONDS), get_client() as client:
            deployments = await client.read_deployments()
    except Exception as error:  # The warning stands without them.
        get_run_logger().debug("The deployments could not be asked for", exc_info=error)
        return []
    return [
        one_line(name, LONGEST)
        for deployment in sorted(deployments, key=lambda each: each.name)
        for name, judge in _judges(deployment)
        if ending(judge.get("model", ""), judge.get("base_url", ""), day) == wanted
    ]


def _judges(deployment: DeploymentResponse) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The judge of a deployment, and those of its schedules that have another."""
    own = _judge(deployment.parameters)
    yield deployment.name, own
    for schedule in deployment.schedules:
        if (other := {**own, **_judge(schedule.parameters)}) != own:
            yield f"{deployment.name}, its schedule {schedule.slug or 'without a name'}", other


def _judge(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Model and address as far as raw parameters name them."""
    form: Any = parameters.get("parameters") or {}
    judge: dict[str, Any] = form.get("judge") or {}
    return {name: judge[name] for name in ("model", "base_url") if isinstance(judge.get(name), str)}
