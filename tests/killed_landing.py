"""Landings in other processes, some of which are killed at each point that leaves another state behind.

This module owns these points. Each process is forked from one with everything imported, which takes seconds.
"""

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tasks.history import database, landing, rows
from tasks.pages.site import renew_and_send

Patch = Callable[[], None]
SECONDS = 60
IMPORTED = [
    "killed_landing",
    "tasks.history.derived_tables",
    "tasks.protocols.figures.protocol",
    "tasks.protocols.figures.labels",
    "tasks.pages.site",
]


def _die(*_given: Any, **_named: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _instead(module: Any, name: str) -> None:
    setattr(module, name, _die)


def _after(module: Any, name: str, times: int = 1) -> None:
    real, called = getattr(module, name), 0

    def call_and_count(*given: Any, **named: Any) -> Any:
        nonlocal called
        found = real(*given, **named)
        called += 1
        return _die() if called == times else found

    setattr(module, name, call_and_count)


def _within_copy() -> None:
    def torn(source: Path, target: Path) -> None:
        data = Path(source).read_bytes()
        Path(target).write_bytes(data[: len(data) // 2])
        _die()

    shutil.copyfile = torn  # pyright: ignore[reportAttributeAccessIssue]


def _within_checkpoint() -> None:
    """Kill within DuckDB, after it has written rows of a table and before anything points to them."""
    real = landing._compute

    def compute(master: database.Master, *given: Any) -> Any:
        found = real(master, *given)
        master.db.execute("SET debug_checkpoint_scan_sleep_ms = 60000")
        signal.setitimer(signal.ITIMER_REAL, 0.5)  # no handler, so it kills
        return found

    landing._compute = compute


PLACES: dict[str, Patch] = {
    "an append, all its rows written": partial(_after, rows, "_insert_run"),
    "between two appends": partial(_after, rows, "put_run"),
    "what is computed of them": partial(_after, landing, "_compute"),
    "the checkpoint": _within_checkpoint,
    "the copy": _within_copy,
    "before the renaming": partial(_instead, database, "put_log_aside"),
    "after the renaming": partial(_after, landing, "publish"),
}
"""How to kill a landing, by the point."""
REBUILT: dict[str, Patch] = {
    "a rebuild, before it takes the master's place": partial(_instead, landing, "replace_master"),
    "a rebuild, after that": partial(_after, landing, "replace_master"),
}


def dies(store: Path, place: str) -> None:
    """Run a landing in a store, or a rebuild of its history, until it is killed at a point, and wait for its end."""
    process = started(_work, store, place)
    process.join(SECONDS)
    assert process.exitcode in (-signal.SIGKILL, -signal.SIGALRM), process.exitcode


def started(work: Callable[..., object], *arguments: object) -> BaseProcess:
    """Start a process that calls a function of this module."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=work, args=arguments)
    process.start()
    return process


def land_and_show(store: Path, run_id: str) -> None:
    """Land the runs of a store, then make the page of one."""
    landing.land(store)
    renew_and_send(str(store), [run_id])


def _work(store: Path, place: str) -> None:
    {**PLACES, **REBUILT}[place]()
    (landing.rebuild if place in REBUILT else landing.land)(store)
