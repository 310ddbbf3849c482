"""The automation that tells people of a drop: made on request, with a notification block of theirs.

Owns what is sent and when. What a drop is, and what its event holds, is for `tasks/comparing/regression`.
"""

from datetime import timedelta
from uuid import UUID

from tasks.comparing.regression import EVENT
from tasks.errors import InputError

NAME = "jury: regression"
SUBJECT = "Image Jury: {{ event.payload['flow'] }} on {{ event.payload['dataset'] }} is worse than the last run"
BODY = "{{ event.payload['words'] }}\n{{ event.payload['report'] }}"
"""Templates that Prefect's server fills in from the event."""


async def notify_of_regressions(block: str) -> None:
    """Make the automation `jury: regression`, or make it use this block from now on.

    Args:
        block: type and name of a notification block, such as `slack-webhook/team`.

    Raises:
        InputError: the server has no such block, or it is of a kind that sends no notifications.
    """
    from prefect.automations import Automation
    from prefect.events.actions import SendNotification
    from prefect.events.schemas.automations import EventTrigger, Posture

    actions = [SendNotification(block_document_id=await _block_id(block), subject=SUBJECT, body=BODY)]
    try:
        automation = await Automation.aread(name=NAME)
    except ValueError:
        each = EventTrigger(expect={EVENT}, posture=Posture.Reactive, threshold=1, within=timedelta(0))
        await Automation(name=NAME, trigger=each, actions=[*actions]).acreate()
    else:
        automation.actions = [*actions]
        await automation.aupdate()


async def _block_id(block: str) -> UUID:
    from prefect import get_client
    from prefect.exceptions import ObjectNotFound

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
