"""`jury up`: a Prefect server of our own, the deployments of the list, and a runner.

Server and runner are children of this process. It restarts them when they end, and they end with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.commands.connection import answered
from flows.commands.deploy import HEARTBEAT_SECONDS, register_all
from flows.commands.options import files, notify_option, store_option
from flows.commands.sections import Command
from flows.runtime import sign_in
from flows.runtime.lifeline import lifeline
from flows.runtime.pages_server import serving_pages
from flows.runtime.server import api_at, client_settings, made_home, own_server, refuse_taken, running
from flows.runtime.supervision import Supervised, start_child
from tasks.errors import InputError
from tasks.ledger.remote import is_remote, local_cache
from tasks.pages.page_names import folder_of, served_at

if TYPE_CHECKING:
    from flows.runtime.deployments import Deployed

RUNNER_LOG = "runner.log"
"""File in Prefect's home: output of the runner and of runs."""


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
def up(port: int, deployments: str, auth: bool, reset: bool, notify: str, store: str) -> int:
    """Serve every deployment of a list until Ctrl-C, on a server of our own or on that of `PREFECT_API_URL`.

    Changes that people made in the UI are kept.

    Returns:
        0 when it was stopped, or when it is up already.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = local_cache(store).absolute()
    os.environ["JURY_STORE"] = store if is_remote(store) else str(folder)
    place, api = made_home(folder), os.environ.get("PREFECT_API_URL")
    if api:
        if auth:
            raise InputError("--auth is for a server of our own; that of PREFECT_API_URL takes PREFECT_API_AUTH_STRING")
        pages = f"{folder_of(folder)}; they are served beside a server of our own only"
        ui, listed = f"{api.removesuffix('/api')}\n  pages        {pages}", _listed(folder, api, deployments)
        with lifeline(place):
            return _serve(place, listed, ui, notify, reset, own=False)
    if server := running(folder):
        pages = f", pages {served}" if (served := served_at(folder_of(folder))) else ""
        print(f"Image Jury is up already: {server.ui}{pages} (process {server.pid} serves {place})")
        return 0
    refuse_taken(port)
    text = sign_in.settle(place, auth)
    listed = _listed(folder, api_at(port), deployments, text)
    print("starting a Prefect server (about 10 s) …", file=sys.stderr)
    with (
        lifeline(place),
        own_server(folder, port, text) as server,
        serving_pages(folder, port + 1, text) as pages,
    ):
        where = f" (both ask for the text in {place / sign_in.FILE})" if text else ""
        return _serve(place, listed, f"{server.ui}{where}\n  pages        {pages}", notify, reset, own=True)


def _listed(store: Path, api: str, deployments: str, text: str = "") -> list[Deployed]:
    """Read the list. Prefect, which checks it, reads its settings from the environment while it is imported here."""
    os.environ.update(client_settings(api, text))
    if "PREFECT_HOME" not in os.environ:
        os.environ["PREFECT_HOME"] = str(made_home(store))  # Prefect warns if it is missing
    # Runs send heartbeats; the automation marks runs that fall silent.
    os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", str(HEARTBEAT_SECONDS))
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "WARNING")
    from flows.runtime.deployments import read_list

    return read_list(Path(deployments)) if deployments else read_list()


def _serve(place: Path, listed: Sequence[Deployed], ui: str, notify: str, reset: bool, own: bool) -> int:
    """Register the list on a server, and start due runs until Ctrl-C.

    Args:
        own: the server has no other runner.
    """
    try:
        with answered():
            served = asyncio.run(register_all(listed, ui, notify, reset, own))
        from flows.runtime.runner_process import OWN

        words, log = [*([OWN] if own else []), *served], place / RUNNER_LOG
        runner = Supervised("runner", log, partial(start_child, log, "flows.runtime.runner_process", *words))
        runner.keep()
        try:
            print(
                "\nPress Run on a deployment in the UI, or wait for its schedule. Ctrl-C stops all of it.", flush=True
            )
            while True:
                time.sleep(3600)
        finally:
            runner.end()
    except KeyboardInterrupt:
        print("stopped; schedules stay as they are and go on with the next `jury up`", file=sys.stderr)
    return 0
