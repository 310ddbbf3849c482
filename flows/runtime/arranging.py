"""The next look at the batches that runs wait for: a run of the deployment `collect`, ten minutes on.

A schedule would start 144 runs a day where nothing ever waits. So each run that finds or leaves something waiting
arranges the next look, and does so first, lest a kill ends them all; the last look finds nothing, and arranges none.
"""

import asyncio
from datetime import UTC, datetime, timedelta

from prefect import get_client
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_logger
from prefect.states import Scheduled

from flows.runtime.prefect_run import ANSWER_SECONDS

DEPLOYMENT = "collect/collect"
EVERY = timedelta(minutes=10)


async def arranged(store: str) -> bool:
    """Whether there is a look to come: the server has the deployment, and knows of it.

    Args:
        store: absolute, since the run that looks may work in another folder.
    """
    due = datetime.now(UTC) + EVERY
    once = f"{store} {int(due.timestamp() // EVERY.total_seconds())}"
    try:
        async with asyncio.timeout(ANSWER_SECONDS), get_client() as client:
            deployment = await client.read_deployment_by_name(DEPLOYMENT)
            await client.create_flow_run_from_deployment(
                deployment.id,
                parameters={"parameters": {"store": store}},
                state=Scheduled(scheduled_time=due),
                idempotency_key=once,  # several runs that wait are looked after by one
            )
    except ObjectNotFound:
        return False
    except Exception as error:  # that nothing looks by itself is told; the replies are safe where they are
        get_logger("image-jury").warning("No run could be arranged that collects: %s", error)
        return False
    return True
