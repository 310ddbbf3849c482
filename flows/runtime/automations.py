"""Automations of a server: one notifies people of a drop or a judge that moved, one marks runs that vanished."""

from datetime import timedelta
from uuid import UUID

from prefect import get_client
from prefect.automations import Automation
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, SendNotification
from prefect.events.schemas.automations import EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound

from tasks.comparing.alarms import EVENT
from tasks.comparing.attribution import JUDGE_MOVED
from tasks.errors import InputError

NAME = "jury: regression"
SUBJECT = "Image Jury: {{ event.payload['flow'] }} on {{ event.payload['dataset'] }} {{ event.payload['what'] }}"
BODY = "{{ event.payload['words'] }}\n{{ event.payload['report'] }}\n{{ event.payload['page'] }}"
"""Templates that Prefect's server fills in from the event."""

ZOMBIES = "Image Jury: runs whose process vanished"
HEARTBEAT = "prefect.flow-run.heartbeat"


async def notify_of_regressions(block: str) -> None:
    """Make the automation `jury: regression`, or update it to use this block.

    Args:
        block: type and name of a notification block, such as `slack-webhook/team`.

    Raises:
        InputError: the server has no such block, or it is of a kind that sends no notifications.
    """
    actions = [SendNotification(block_document_id=await _block_id(block), subject=SUBJECT, body=BODY)]
    each = EventTrigger(expect={EVENT, JUDGE_MOVED}, posture=Posture.Reactive, threshold=1, within=timedelta(0))
    if automation := await _known(NAME):
        await automation.model_copy(update={"actions": [*actions], "trigger": each}).aupdate()
    else:
        await Automation(name=NAME, trigger=each, actions=[*actions]).acreate()


async def watch_for_zombies(silent_seconds: float) -> None:
    """Make the automation that marks runs as crashed if their process was silent for so long; one per server."""
    if await _known(ZOMBIES):
        return
    ended = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed", "Skipped")}
    silent = EventTrigger(
        after={HEARTBEAT},
        expect={HEARTBEAT, *ended},
        match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=silent_seconds),
    )
    crashed = ChangeFlowRunState(
        state=StateType.CRASHED, name="Crashed", message="The process of this run has fallen silent.", force=False
    )
    await Automation(name=ZOMBIES, trigger=silent, actions=[crashed]).acreate()


async def _known(name: str) -> Automation | None:
    async with get_client() as client:
        found = await client.read_automations_by_name(name=name)
    return Automation(**found[0].model_dump()) if found else None


async def _block_id(block: str) -> UUID:
    kind, _, name = block.partition("/")
    if not (kind and name):
        raise InputError(f"--notify {block!r}: expected the type and the name of a block, such as slack-webhook/team")
    async with get_client() as client:
        try:
            found = await client.read_block_document_by_name(name, kind, include_secrets=False)
        except ObjectNotFound:
            raise InputError(
                f"--notify {block!r}: the Prefect server has no such block; make it in the UI under Blocks and give "
                "its type and name, such as slack-webhook/team"
            ) from None
    if not (found.block_schema and "notify" in found.block_schema.capabilities):
        raise InputError(f"--notify {block!r}: a block of this type sends no notifications")
    return found.id
