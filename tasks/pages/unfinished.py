"""Runs without an end in a store: at work, waiting for batches, stopped by an error, or killed."""

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from tasks.ledger import run_files as ledger
from tasks.ledger.remote import FETCHED
from tasks.pages.page_names import page_name
from tasks.records import RunStart
from tasks.text import number_of, one_line

RECENT = timedelta(days=7)
"""Age up to which such a run is shown."""
LONGEST_NAME = 60
"""Longest name on the index, in characters; the evaluation's page has a longer one whole."""
KEPT = "All replies so far are kept: the same command asks for the rest"
_TIME_LEFT = re.compile(" · [^·]* left$")


class Unfinished(NamedTuple):
    """Run without an end."""

    start: RunStart
    words: str
    """Sentence on its state."""
    goes_on: bool
    """Whether it is at work or waits; otherwise it was stopped or killed."""


def unfinished(store: Path) -> list[Unfinished]:
    """Return the recent runs without an end, newest first, except quotes and runs that a later one went on with."""
    since = f"{datetime.now(UTC) - RECENT:%Y%m%dT%H%M%S}"
    runs = [run for run in ledger.run_folders(store) if run.name >= since]
    first = next((at for at, run in enumerate(runs) if not (run / ledger.END).exists()), len(runs))
    starts = (ledger.start_of(run) for run in runs[first:])
    newest = {start.resume_key: start for start in starts if start and not start.parameters.get("quote")}
    last = sorted(newest.values(), key=lambda start: start.run_id, reverse=True)
    return [of_run(store, start) for start in last if not (ledger.folder(store, start.run_id) / ledger.END).exists()]


def of_run(store: Path, start: RunStart) -> Unfinished:
    """Return the state of a run without an end."""
    run = ledger.folder(store, start.run_id)
    told = ledger.read_progress(run)
    if ledger.is_waiting(run):
        asked = f": {told}" if told else ""
        return Unfinished(start, f"Waits for its batches{asked}; `jury batch collect` asks again.", goes_on=True)
    if told.startswith(ledger.STOPPED_BY):
        return Unfinished(start, told, goes_on=False)
    if ledger.is_written(run):
        return Unfinished(start, f"At work: {told}" if told else "At work.", goes_on=True)
    if (run / FETCHED).exists():
        return Unfinished(start, "Another machine runs it, or ran it and was stopped.", goes_on=True)
    if start.parameters.get("quote"):
        return Unfinished(start, "A quote.", goes_on=False)
    concurrency = start.judge_settings.get("concurrency")
    calls = number_of(concurrency if isinstance(concurrency, int) else 0, "call")
    reached = f" ({_TIME_LEFT.sub('', told)})" if told else ""
    billed = f"up to {calls} in flight at its end may be billed as well"
    return Unfinished(start, f"Killed or interrupted{reached}. {KEPT}; {billed}.", goes_on=False)


def unfinished_part(found: Iterable[Unfinished], pages: Collection[str]) -> Markup:
    """Return the part of the index about these runs, with links to pages of these names."""
    return Markup('<div id="unfinished">{}</div>').format(Markup().join(_line(one, pages) for one in found))


def _line(one: Unfinished, pages: Collection[str]) -> Markup:
    start, page = one.start, page_name(one.start.run_id)
    begun = f"{datetime.fromisoformat(start.started_at):%Y-%m-%d %H:%M} UTC"
    what = f"{start.flow} of {one_line(' + '.join(start.candidates), LONGEST_NAME)}, begun {begun}"
    name = Markup('<a href="{}">{}</a>').format(quote(page), what) if page in pages else what
    return Markup('<p class="{}">{}: {}</p>').format("quiet" if one.goes_on else "red", name, one.words)
