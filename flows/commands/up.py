"""`jury up` and `jury deploy`: a Prefect server of our own or another one, deployments, and a runner."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.commands.console import Command, Group, command_line, say
from flows.commands.options import judge_option, notify_option, path_option, store_option
from flows.server.pages import serving_pages
from flows.server.server import (
    QUIET,
    SIGN_IN_FILE,
    answered,
    api_at,
    client_settings,
    made_home,
    noted,
    own_server,
    refuse_taken,
    running,
    settle_sign_in,
)
from flows.server.supervision import Supervised, lifeline, start_child
from tasks.endpoint.catalog import addressed, judge_named
from tasks.errors import InputError
from tasks.ledger.remote import is_remote, local_cache
from tasks.pages.page_names import folder_of, served_at
from tasks.records.parameters import FLOWS, PAIRWISE, Probe
from tasks.text import enumerated, printable

if TYPE_CHECKING:
    from flows.server.deployments import Deployed

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
@path_option("--deployments", metavar="FILE", words="Another list than deployments/prefect.yaml.")
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
        ending = f"end it first: Ctrl-C where it runs, or kill {server.up}"
        print(f"Image Jury is up already: {server.ui}{pages}, for {place}.")
        print(f"It goes on as it was started. For other options, or a list that has changed, {ending}")
        return 0
    if other := noted(folder):
        raise InputError(
            f"Image Jury is up on {other.machine} for {place}: end it there first, or nights are judged twice"
        )
    refuse_taken(port)
    text = settle_sign_in(place, auth)
    listed = _listed(folder, api_at(port), deployments, text)
    print("starting a Prefect server (about 10 s) …", file=sys.stderr)
    with (
        lifeline(place),
        own_server(folder, port, text) as server,
        serving_pages(folder, port + 1, text) as pages,
    ):
        where = f" (both ask for the text in {place / SIGN_IN_FILE})" if text else ""
        return _serve(place, listed, f"{server.ui}{where}\n  pages        {pages}", notify, reset, own=True)


def _listed(store: Path, api: str, deployments: str, text: str = "") -> list[Deployed]:
    """Read the list. Prefect, which checks it, reads its settings from the environment while it is imported here."""
    os.environ.update(client_settings(api, text))
    if "PREFECT_HOME" not in os.environ:
        os.environ["PREFECT_HOME"] = str(made_home(store))  # Prefect warns if it is missing
    # Runs send heartbeats; the automation marks runs that fall silent.
    os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", str(HEARTBEAT_SECONDS))
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "WARNING")
    from flows.server.deployments import place_warnings, read_list
    from tasks.history.landing import missing  # DuckDB, which the parts of `jury deploy` do not need

    try:
        missing(store)
    except InputError as error:  # after an upgrade; the runs of the nights themselves are kept
        say(f"warning: {error}; until then no night is compared with others, and no drop is reported")
    listed = read_list(Path(deployments)) if deployments else read_list()
    for words in place_warnings(listed):
        say(f"warning: {words}")
    return listed


def _serve(place: Path, listed: Sequence[Deployed], ui: str, notify: str, reset: bool, own: bool) -> int:
    """Register the list on a server, and start due runs until Ctrl-C.

    Args:
        own: the server has no other runner.
    """
    try:
        with answered():
            served = asyncio.run(register_all(listed, ui, notify, reset, own))
        from flows.server.runner import OWN

        words, log = [*([OWN] if own else []), *served], place / RUNNER_LOG
        runner = Supervised("runner", log, partial(start_child, log, "flows.server.runner", *words))
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


HEARTBEAT_SECONDS = 30
"""Seconds between two heartbeats of a run."""
LIST = "prefect.yaml"
STARTER = Path(__file__).parents[2] / "deployments" / "starter.yaml"
"""List of two deployments with comments, for users to change; an empty line is before the comment of each."""
EMBEDDED_JUDGE = "{model: pixel-baseline, base_url: embedded, concurrency: 16}"
"""Judge of its entries."""


@click.group(cls=Group, invoke_without_command=True)
@notify_option
@path_option("--deployments", metavar="FILE", words="First check a list for workers, as `prefect deploy` does not.")
@click.pass_context
def deploy(context: click.Context, notify: str, deployments: str) -> int:
    """Make the automations of `jury up` on the server of `PREFECT_API_URL`, where runs of work pools need them."""
    if deployments:
        from flows.server.deployments import read_list

        read_list(Path(deployments), for_workers=True)
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
    type=click.Path(),
)
@path_option("--dataset", metavar="DATASET", words="Fill the list for this dataset.")
@path_option("--results", metavar="FILE", words="Result file with the Model figures.")
@path_option("--images", metavar="DIR", words="Folder of the Model figures.")
def write_starter(place: str, judge: str | None, **given: str) -> int:
    """Write the list, unless there is a file of that name; print the commands that use it."""
    target = Path(place).expanduser()
    target = target / LIST if target.is_dir() else target
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent}: make it, or name a file in another")
    named = {name: path for name, path in given.items() if path}
    if named and not given["dataset"]:
        raise InputError("--results and --images go with --dataset, the folder that they belong to")
    text, flows = STARTER.read_text(encoding="utf-8"), list[str]()
    if named:
        text, flows = _filled(text, named)
    if judge:
        text = text.replace(EMBEDDED_JUDGE, _shown(judge))
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InputError(f"{target} exists already, and stays as it is: name another file") from error
    if flows:
        say(f"{target} judges {given['dataset']} nightly from 02:00 UTC on, by {enumerated(flows)}. To serve it:")
    else:
        say(f"{target} holds two deployments of drawn samples: put your dataset, judge and schedule into it, then")
    say(f"  {command_line(f'up --deployments {shlex.quote(str(target))}')}")
    return 0


write_starter.params.append(judge_option())


def _shown(judge: str) -> str:
    """Return the judge of an entry, such as `openai/gpt-6.1-terra`, as JSON, which is YAML, too.

    Raises:
        InputError: the judge is not known.
    """
    asked = judge_named(judge)
    addressed(Probe.model_validate({"judge": asked}))
    return json.dumps({**asked, "concurrency": 16}, ensure_ascii=False)


def _filled(starter: str, given: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the list with a nightly deployment of each flow that a dataset is for, and these flows.

    Args:
        given: dataset, and results or images, as parameters name them.

    Raises:
        InputError: no flow can judge the dataset, with the reasons.
    """
    places = {name: path if "://" in path else str(Path(path).expanduser().absolute()) for name, path in given.items()}
    flows = _flows_for(places)
    head, figures, generated, collect = starter.split("\n\n  # ")
    entries = [_entry(figures if flow in PAIRWISE else generated, flow, at, places) for at, flow in enumerate(flows)]
    return "\n\n  # ".join([head, *entries, collect]), flows


def _flows_for(places: Mapping[str, str]) -> list[str]:
    from tasks.protocols.loading import load_given  # datasets, which `jury up` does not need

    flows, refused = list[str](), list[str]()
    for flow in PAIRWISE if len(places) > 1 else FLOWS:
        try:
            load_given(flow, places)
            flows.append(flow)
        except InputError as error:
            refused.append(str(error))
    if not flows:
        raise InputError("\n".join(dict.fromkeys(refused)))
    if len(flows) > 1 and "images" in places:
        raise InputError(f"the figures of --images fit {enumerated(flows)}: name the dataset's folder of one of them")
    return flows


def _entry(text: str, flow: str, at: int, places: Mapping[str, str]) -> str:
    """Return an entry of the list with other values, due 15 minutes after the one before."""
    shown = "diagram" if flow in PAIRWISE else "counting"
    named = [f"{name}: {json.dumps(path, ensure_ascii=False)}" for name, path in places.items()]
    changes = {
        f"my-{shown}": f"my-{flow}",
        f"entrypoint: flows.{shown}.{shown}": f"entrypoint: flows.{flow}.{flow}",
        "0 2 * * *": f"{15 * at % 60} {2 + at // 4} * * *",
        "dataset: samples": "\n        ".join(named),
    }
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


async def register_all(listed: Sequence[Deployed], ui: str, notify: str, reset: bool, own: bool) -> list[str]:
    """Prepare a server for a list, print its contents, and return the ids of the deployments to run.

    Args:
        own: the server has no other runner.
    """
    from flows.server.deployments import left_over, register
    from flows.server.runner import skip_late

    await _make_automations(notify)
    registered = [(deployed.title, await register(deployed, reset)) for deployed in listed]
    there = [served.id for _, served in registered if served.id]
    print(f"Image Jury is up.\n\n  Prefect UI   {ui}\n  store        {os.environ['JURY_STORE']}\n  deployments")
    for title, served in registered:
        due = ", ".join(served.schedules) or ("without a schedule" if served.id else "not there")
        print(f"    {title:<27} {printable(due)}")
        for sentence in served.said:
            print(f"      {printable(sentence)}")
    for sentence in await left_over([title for title, _ in registered]):
        print(f"    {printable(sentence)}")
    if own and (late := await skip_late(there)):
        print(f"  {late}")
    return [*map(str, there)]


async def _make_automations(notify: str) -> None:
    """Make the automations of a server: notification of drops (empty: unchanged), and a mark for silent runs."""
    from flows.server.deployments import notify_of_regressions, watch_for_zombies

    if notify:
        await notify_of_regressions(notify)
    await watch_for_zombies(3 * HEARTBEAT_SECONDS)
