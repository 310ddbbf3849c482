"""`jury deploy`: all that runs need on a Prefect server, and a list of one's own deployments to begin with."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.commands.connection import answered
from flows.commands.messages import command_line, say
from flows.commands.options import files, notify_option
from flows.commands.sections import Command, Group
from flows.runtime.server import QUIET
from tasks.endpoint.models import today
from tasks.errors import InputError
from tasks.text import printable

if TYPE_CHECKING:
    from flows.runtime.deployments import Deployed

HEARTBEAT_SECONDS = 30
"""Seconds between two heartbeats of a run."""
LIST = "prefect.yaml"
STARTER = Path(__file__).parents[2] / "deployments" / "starter.yaml"
"""List of two deployments with comments, for users to change."""


@click.group(cls=Group, invoke_without_command=True)
@notify_option
@click.pass_context
def deploy(context: click.Context, notify: str) -> int:
    """Make the automations of `jury up` on the server of `PREFECT_API_URL`, where runs of work pools need them."""
    if context.invoked_subcommand:
        if notify:
            raise InputError(f"--notify goes with `jury deploy` alone, not with {context.invoked_subcommand}")
        return 0
    api = os.environ.get("PREFECT_API_URL")
    if not api:
        raise InputError("PREFECT_API_URL names no server; `jury up` prepares its own")
    os.environ.update(QUIET)
    with answered():
        asyncio.run(_make_automations(notify))
    print(f"{api} now marks runs as crashed that are silent for {3 * HEARTBEAT_SECONDS} s. Workers need")
    print(f"PREFECT_FLOWS_HEARTBEAT_FREQUENCY={HEARTBEAT_SECONDS} in their environment, to tell that their runs live.")
    return 0


@deploy.command("init", cls=Command, help=f"Write a commented {LIST} for deployments of your own.")
@click.argument(
    "place",
    default=".",
    metavar="[PATH]",
    help=f"Folder or file to write (default: {LIST} in this folder).",
    shell_complete=files,
)
def write_starter(place: str) -> int:
    """Write the list, unless there is a file of that name; print the commands that use it."""
    target = Path(place).expanduser()
    target = target / LIST if target.is_dir() else target
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent}: make it, or name a file in another")
    data = STARTER.read_bytes()
    try:
        with target.open("xb") as file:
            file.write(data)
    except FileExistsError as error:
        raise InputError(f"{target} exists already, and stays as it is: name another file") from error
    say(f"{target} holds two deployments of drawn samples: put your dataset, judge and schedule into it, then")
    say(f"  {command_line(f'up --deployments {shlex.quote(str(target))}')}")
    return 0


async def register_all(listed: Sequence[Deployed], ui: str, notify: str, reset: bool, own: bool) -> list[str]:
    """Prepare a server for a list, print its contents, and return the ids of the deployments to run.

    Args:
        own: the server has no other runner.
    """
    from flows.runtime.at_work import ending_lines
    from flows.runtime.registering import idle_limits, left_over, on_server, register
    from flows.runtime.runner_process import skip_late

    await _make_automations(notify)
    registered = [(deployed.title, await register(deployed, reset)) for deployed in listed]
    there = [served.id for _, served in registered if served.id]
    print(f"Image Jury is up.\n\n  Prefect UI   {ui}\n  store        {os.environ['JURY_STORE']}\n  deployments")
    for title, served in registered:
        due = ", ".join(served.schedules) or ("without a schedule" if served.id else "not there")
        print(f"    {title:<27} {printable(due)}")
        for sentence in served.said:
            print(f"      {printable(sentence)}")
    deployments = await on_server()
    for sentence in left_over(deployments, [title for title, _ in registered]):
        print(f"    {printable(sentence)}")
    if words := await idle_limits():
        print(f"    {printable(words)}")
    for words in ending_lines(deployments, today()):
        print(f"    warning: the judge {printable(words)}")
    if own and (late := await skip_late(there)):
        print(f"  {late}")
    return [*map(str, there)]


async def _make_automations(notify: str) -> None:
    """Make the automations of a server: notification of drops (empty: unchanged), and a mark for silent runs."""
    from flows.runtime.automations import notify_of_regressions, watch_for_zombies

    if notify:
        await notify_of_regressions(notify)
    await watch_for_zombies(3 * HEARTBEAT_SECONDS)
