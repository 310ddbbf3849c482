"""Whether a scheduled run should stand back for the one before it.

A concurrency limit on the deployment would do that too, and cancel runs that people start. So a run that a schedule
started looks for itself; runs that people start never stand back, and nobody stands back for them.
"""

from datetime import UTC, datetime, timedelta

from prefect import get_client
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun

from flows.runtime.prefect_run import own_run

BEGIN_WITHIN = timedelta(minutes=15)
"""How long a run may be about to begin: time for a container's image to be fetched. What was to begin it has ended
after that. Such a run tells nothing, so nothing marks it as crashed, and it would stop its schedule for good."""
_UNFINISHED = {"state": {"type": {"any_": ["PENDING", "RUNNING", "PAUSED", "CANCELLING"]}}}


async def unfinished_before() -> str:
    """Why this run should end itself: an earlier scheduled run of its deployment is unfinished; else empty."""
    own = own_run()
    if not own or not own.auto_scheduled or not own.deployment_id:
        return ""
    async with get_client() as client:
        others = await client.read_flow_runs(
            flow_run_filter=FlowRunFilter.model_validate(_UNFINISHED),
            deployment_filter=DeploymentFilter.model_validate({"id": {"any_": [own.deployment_id]}}),
        )
    # Of two that start together the one that was due first goes on.
    earlier = [other for other in others if other.auto_scheduled and _due(other) < _due(own) and not _given_up(other)]
    if not earlier:
        return ""
    first = min(earlier, key=_due)
    due = f"{first.expected_start_time:%Y-%m-%d %H:%M} UTC"
    return f"Skipped: the scheduled run before this one ({first.name}, due {due}) is unfinished."


def _given_up(run: FlowRun) -> bool:
    state = run.state
    return bool(state and state.is_pending() and datetime.now(UTC) - state.timestamp > BEGIN_WITHIN)


def _due(run: FlowRun) -> tuple[str, str]:
    return str(run.expected_start_time), str(run.id)
