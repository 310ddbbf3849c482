"""`jury up`: a Prefect server of our own, the deployments of the list, and a runner that starts what is due.

Everything lives in this process and its children, and ends with it. Which server is ours is for `runtime.server` to
say, what is deployed for `runtime.deployments`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.commands.connection import answered
from flows.commands.options import files, notify_option, store_option
from flows.commands.prepare import HEARTBEAT_SECONDS, make_automations
from flows.commands.sections import Command
from flows.runtime import sign_in
from flows.runtime.pages_server import serving_pages
from flows.runtime.process import hush_observers
from flows.runtime.server import api_at, client_settings, home, made_home, own_server, refuse_taken, running
from tasks.endpoint.models import today
from tasks.errors import InputError
from tasks.ledger.remote import is_remote, local_cache
from tasks.pages.page_names import folder_of, served_at
from tasks.text import printable

if TYPE_CHECKING:
    from flows.runtime.deployments import Deployed

RUNS_AT_ONCE = 16
POLL_SECONDS = 3.0
"""How often the runner asks for runs that are due."""


@click.command(cls=Command)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=4200,
    show_default=True,
    metavar="PORT",
    help="Port of the UI on this machine.",
)
@click.option(
    "--deployments",
    default="",
    metavar="FILE",
    help="Another list than deployments/prefect.yaml.",
    shell_complete=files,
)
@click.option(
    "--auth",
    is_flag=True,
    help="Keep other users of this machine out: UI and API ask for a text that a file in the store holds.",
)
@click.option("--reset", is_flag=True, help="Put the list back where people have changed what came of it.")
@notify_option
@store_option
def command(port: int, deployments: str, auth: bool, reset: bool, notify: str, store: str) -> int:
    """Serve every deployment of a list until Ctrl-C, on a server of our own or on that of `PREFECT_API_URL`.

    What people changed in the UI stays.

    Returns:
        0 when it was stopped, or when it is up already.

    Raises:
        InputError: the port is taken, the server does not start, the list or the block cannot be used, or the server
            is somebody else's, whose sign-in is not ours to make.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the runner is there
    folder = local_cache(store).absolute()
    os.environ["JURY_STORE"] = store if is_remote(store) else str(folder)
    api = os.environ.get("PREFECT_API_URL")
    if api:
        if auth:
            raise InputError("--auth is for a server of our own; that of PREFECT_API_URL takes PREFECT_API_AUTH_STRING")
        with answered():
            pages = f"{folder_of(folder)}; they are served beside a server of our own only"
            ui = f"{api.removesuffix('/api')}\n  pages        {pages}"
            return _serve(_listed(folder, api, deployments), ui, partial(make_automations, notify), reset)
    if server := running(folder):
        pages = f", pages {served}" if (served := served_at(folder_of(folder))) else ""
        print(f"Image Jury is up already: {server.ui}{pages} (process {server.pid} serves {home(folder)})")
        return 0
    refuse_taken(port)
    text = sign_in.settle(made_home(folder), auth)
    listed = _listed(folder, api_at(port), deployments, text)
    print("starting a Prefect server (about 10 s) …", file=sys.stderr)
    with own_server(folder, port, text) as server, serving_pages(folder, port + 1, text) as pages:
        where = f" (both ask for the text in {home(folder) / sign_in.FILE})" if text else ""
        return _serve(listed, f"{server.ui}{where}\n  pages        {pages}", partial(_prepare_own, notify), reset)


def _listed(store: Path, api: str, deployments: str, text: str = "") -> list[Deployed]:
    """The list. Prefect, which checks it, takes its settings from the environment while it is imported here."""
    os.environ.update(client_settings(api, text))
    if "PREFECT_HOME" not in os.environ:
        os.environ["PREFECT_HOME"] = str(made_home(store))  # Prefect warns where it is missing
    # A run tells that it lives; the automation marks those that fall silent.
    os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", str(HEARTBEAT_SECONDS))
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "WARNING")
    from flows.runtime.deployments import read_list

    return read_list(Path(deployments)) if deployments else read_list()


async def _prepare_own(notify: str) -> None:
    """What a server of our own is asked for first; it has answered before, and begins again where it ends."""
    from flows.runtime.asked_again import asked_again
    from flows.runtime.left_behind import begin_again

    await asked_again(begin_again)
    await asked_again(partial(make_automations, notify))


def _serve(listed: Sequence[Deployed], ui: str, prepare: Callable[[], Awaitable[None]], reset: bool) -> int:
    try:
        asyncio.run(_serve_list(listed, ui, prepare, reset))
    except KeyboardInterrupt:
        print("stopped; schedules stay as they are and go on with the next `jury up`", file=sys.stderr)
    return 0


async def _serve_list(listed: Sequence[Deployed], ui: str, prepare: Callable[[], Awaitable[None]], reset: bool) -> None:
    from flows.runtime.asked_again import asked_again
    from flows.runtime.endings import ending_lines
    from flows.runtime.patient_runner import PatientRunner
    from flows.runtime.registering import left_over, on_server, register

    hush_observers()
    await prepare()
    runner = PatientRunner("image-jury", query_seconds=POLL_SECONDS, limit=RUNS_AT_ONCE, pause_on_shutdown=False)
    registered = [await asked_again(partial(register, runner, deployed, reset)) for deployed in listed]
    print(f"Image Jury is up.\n\n  Prefect UI   {ui}\n  store        {os.environ['JURY_STORE']}\n  deployments")
    for served in registered:
        print(f"    {served.title:<27} {printable(', '.join(served.schedules) or 'without a schedule')}")
        for sentence in served.said:
            print(f"      {printable(sentence)}")
    for sentence in await asked_again(partial(left_over, [served.title for served in registered])):
        print(f"    {printable(sentence)}")
    for words in ending_lines(await asked_again(on_server), today()):
        print(f"    warning: the judge {printable(words)}")
    print("\nPress Run on a deployment in the UI, or wait for its schedule. Ctrl-C stops all of it.", flush=True)
    await asked_again(runner.start)
