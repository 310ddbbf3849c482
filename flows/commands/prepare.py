"""`jury prepare`: what runs need on a Prefect server, made once: runs of work pools live on servers that are not ours.

`jury up` makes the same on its own server.
"""

import asyncio
import os

import click

from flows.commands.connection import answered
from flows.commands.options import notify_option
from flows.commands.sections import Command
from flows.runtime.server import QUIET
from tasks.errors import InputError

HEARTBEAT_SECONDS = 30
"""How often a run tells that it lives."""


@click.command(cls=Command)
@notify_option
def command(notify: str) -> int:
    """Make on the server of `PREFECT_API_URL` what `jury up` makes on its own.

    Raises:
        InputError: no server is named, or the block cannot be used.
    """
    api = os.environ.get("PREFECT_API_URL")
    if not api:
        raise InputError("PREFECT_API_URL names no server; `jury up` prepares its own")
    os.environ.update(QUIET)
    with answered():
        asyncio.run(make_automations(notify))
    print(f"{api} now marks runs as crashed that are silent for {3 * HEARTBEAT_SECONDS} s. Workers need")
    print(f"PREFECT_FLOWS_HEARTBEAT_FREQUENCY={HEARTBEAT_SECONDS} in their environment, to tell that their runs live.")
    return 0


async def make_automations(notify: str) -> None:
    """Make the automations of a server: who is told of drops (empty: as before), and what becomes of silent runs."""
    from flows.runtime.automations import notify_of_regressions, watch_for_zombies

    if notify:
        await notify_of_regressions(notify)
    await watch_for_zombies(3 * HEARTBEAT_SECONDS)
