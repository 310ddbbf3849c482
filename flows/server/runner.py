"""Runner of `jury up`, a process of its own: it starts runs that are due, and restarts those that vanished.

Its arguments are the ids of its deployments, and "own" first if the server is ours alone: on any other, another
machine's processes may be working on a run.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast
from uuid import UUID

import httpx
from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.sorting import FlowRunSort
from prefect.deployments.runner import RunnerDeployment
from prefect.runner import Runner
from prefect.states import Cancelled, Completed, Crashed, Scheduled

from flows.server.supervision import CALLED_IN, end_process, end_with_parent, has_process

OWN = "own"
RUNS_AT_ONCE = 16
POLL_SECONDS = 3.0
"""Seconds between two requests for runs that are due."""
LOOK_SECONDS = 10.0
"""Seconds between two searches for runs whose process is gone."""
PAGE = 200
"""Most runs that a Prefect server returns at once."""
MOST_STARTS = 3
"""Most starts of a run: one that crashed so often would crash once more."""
BEGINS_WITHIN = timedelta(seconds=10)
"""Delay before a restart: a new process may not have claimed its run yet, and one that ends may report its end."""
ENDS_WITHIN = timedelta(minutes=1)
"""Delay before a process is ended here: a runner ends those of cancelled runs, unless an earlier one started them."""
Question = Callable[[], Awaitable[Any]]


class OutageRunner(Runner):
    """A runner that continues when its server is back, after an outage of any length.

    Bar *Supervision*, outages of 20 s and 120 s: Prefect's runner ends, with all its runs, after three requests in a
    row without an answer, which takes 10 s. It also no longer detects cancelled runs.
    """

    async def serve(self, deployment: UUID) -> None:
        """Start runs of a deployment that is on the server already."""

        async def applied() -> UUID:
            return deployment

        # The runner applies a deployment to get its id; this one is applied, and people may have changed it.
        known = SimpleNamespace(name=None, storage=None, aapply=applied)
        await self.aadd_deployment(cast(RunnerDeployment, known))

    async def __aenter__(self) -> Self:
        """Start the runner; its repeated requests may fail from then on."""
        await super().__aenter__()
        runs, cancelled = self._scheduled_run_poller, self._cancelling_observer
        runs._get_and_submit_flow_runs = _forgiven(runs._get_and_submit_flow_runs)  # pyright: ignore
        cancelled._check_for_cancelled_flow_runs = _forgiven(cancelled._check_for_cancelled_flow_runs)  # pyright: ignore
        return self

    def handle_sigterm(self, *_: object, **__: object) -> None:
        """End as at Ctrl-C, with all runs. Bar *Supervision*, SIGTERM: the runner's own handler leaves them running."""
        raise KeyboardInterrupt


def _forgiven(ask: Question) -> Question:
    """Return a request that only prints a message if the server is away."""

    async def asked() -> None:
        try:
            await ask()
        except Exception as error:
            if not _is_away(error):
                raise
            _print_away(error)

    return asked


def _print_away(error: Exception) -> None:
    print(f"the Prefect server does not answer: {error!r}", file=sys.stderr)


def _is_away(error: Exception) -> bool:
    served_ill = isinstance(error, httpx.HTTPStatusError) and error.response.is_server_error
    return served_ill or isinstance(error, httpx.TransportError)


async def _look_after(deployments: Collection[UUID]) -> None:
    """Restart runs whose process is gone, for as long as the runner runs."""
    since = datetime.now(UTC)
    look = _forgiven(lambda: begin_again(deployments, since))
    while True:
        await look()
        await asyncio.sleep(LOOK_SECONDS)


async def skip_late(deployments: Collection[UUID]) -> str:
    """Skip scheduled runs that came due while nothing was running, except the newest of each deployment.

    Each would need a process just to be skipped. Return a message for the user; empty: none is late.
    """
    before = {"before_": datetime.now(UTC)}
    async with get_client() as client:
        due = await _runs(
            client, deployments, state={"type": {"any_": ["SCHEDULED"]}}, next_scheduled_start_time=before
        )
        late = [run for run in due if run.auto_scheduled]
        newest = {run.deployment_id: run for run in late}
        for run in late:
            last = newest[run.deployment_id]
            if run is not last:
                words = f"Skipped: {last.name}, due {last.next_scheduled_start_time:%Y-%m-%d %H:%M} UTC, is late, too."
                await client.set_flow_run_state(run.id, Completed(name="Skipped", message=words), force=True)
    if not late:
        return ""
    skipped = len(late) - len(newest)
    return f"late: {len(late)} runs came due while it was down; {len(newest)} begin now, {skipped} are skipped"


async def begin_again(deployments: Collection[UUID], since: datetime) -> None:
    """Mark runs whose process is gone as crashed, and restart them; end those that people cancelled.

    Args:
        since: start of this runner: runs that it takes itself are about to begin, and earlier crashes stay crashes.
    """
    open_states = {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}
    async with get_client() as client:
        for run in await _runs(client, deployments, state=open_states):
            state = run.state
            if not state or (state.is_pending() and state.timestamp > since):
                continue
            silent = datetime.now(UTC) - state.timestamp
            if has_process(str(run.id)):
                if state.is_cancelling() and silent > ENDS_WITHIN:
                    end_process(str(run.id))
            elif silent > BEGINS_WITHIN:
                await _end_or_begin(client, run, state)
        crashed = {"type": {"any_": ["CRASHED"]}}
        for run in await _runs(client, deployments, state=crashed, end_time={"after_": since}):
            # Prefect counts only starts that came as far as Running.
            crashes = sum(each.is_crashed() for each in await client.read_flow_run_states(run.id))
            if crashes < MOST_STARTS and not has_process(str(run.id)):
                await client.set_flow_run_state(run.id, Scheduled(), force=True)


async def _end_or_begin(client: PrefectClient, run: FlowRun, state: State[Any]) -> None:
    if state.is_cancelling():
        await client.set_flow_run_state(run.id, Cancelled(), force=True)
    elif state.is_pending():
        await client.set_flow_run_state(run.id, Scheduled(), force=True)
    else:  # restarted as any that has crashed
        await client.set_flow_run_state(run.id, Crashed(message="Its process is gone."), force=True)


async def _runs(client: PrefectClient, deployments: Collection[UUID], **wanted: Any) -> list[FlowRun]:
    """Return all runs of deployments that fit, the first due first."""
    sought = FlowRunFilter.model_validate({"deployment_id": {"any_": [*deployments]}, **wanted})
    found: list[FlowRun] = []
    while True:
        page = await client.read_flow_runs(
            flow_run_filter=sought, sort=FlowRunSort.NEXT_SCHEDULED_START_TIME_ASC, limit=PAGE, offset=len(found)
        )
        found += page
        if len(page) < PAGE:
            return found


async def _run(deployments: Collection[UUID], own: bool) -> None:
    runner = OutageRunner("image-jury", query_seconds=POLL_SECONDS, limit=RUNS_AT_ONCE, pause_on_shutdown=False)
    for each in deployments:
        await runner.serve(each)
    async with get_client() as client:
        # Bar *Supervision*, cancel in the UI: a runner that starts without a server never detects it.
        while error := await client.api_healthcheck():
            _print_away(error)
            await asyncio.sleep(POLL_SECONDS)
    async with asyncio.TaskGroup() as group:
        group.create_task(runner.start())
        if own:
            group.create_task(_look_after(deployments))


def main() -> None:
    """Run until SIGTERM or Ctrl-C, or until its `jury up` has ended."""
    end_with_parent()
    # Prefect imports a flow from the working folder first, which may hold other programs named `tasks` or `flows`.
    os.environ[CALLED_IN] = str(Path.cwd())
    os.chdir(Path(__file__).parents[2])
    given = sys.argv[1:]
    try:
        asyncio.run(_run([UUID(each) for each in given if each != OWN], OWN in given))
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
