"""Report step: show a run in the Prefect UI and on the store's pages, and announce drops."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prefect import task
from prefect.artifacts import acreate_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.logging import get_logger, get_run_logger
from prefect.utilities.urls import url_for

from tasks.ledger.remote import local_cache
from tasks.pages.artifact import markdown
from tasks.pages.background import renew_behind
from tasks.pages.page_names import LARGE, is_address, page_of, where
from tasks.pages.run_summary import Summary, cost_lines, sentence, summarize
from tasks.presentation.tables import QUOTE, plain_markdown
from tasks.records import RunStart

ANSWER_SECONDS = 20.0
"""Longest wait for the server to store the artifact, including all retries of Prefect's client."""

PAGES_SECONDS = 120.0

if TYPE_CHECKING:
    from tasks.comparing.alarms import Watched

_log = get_logger("image-jury")


@task(name="report", cache_policy=NO_CACHE)
async def report(store: str, run_id: str, warnings: list[str], scheduled: bool, key: str) -> str:
    """Show the run as an artifact and on the pages; return it in a sentence, with more for drops and page failures.

    Args:
        store: store as its user names it.
        run_id: id of a run, or of an evaluation in shards.
        key: key of the run's artifacts.
    """
    folder = local_cache(store)
    summary = await asyncio.to_thread(summarize, folder, run_id)
    if summary.start.run_id != summary.start.evaluation_id:  # a shard alone is no result
        return sentence(summary)
    found = await _watch(folder, summary.start) if scheduled else None
    renewing = asyncio.create_task(make_page(store, run_id, summary.start.samples))
    try:
        await publish(summary, key, warnings, [alarm.words for alarm in found.open] if found else ())
    finally:  # a drop is announced even if it cannot be shown
        dropped = announce(folder, summary.start, found, key) if scheduled else []
        unmade = await _waited_for(renewing) or []
    cost, page = "; ".join(cost_lines(summary)), where(page_of(summary.store, summary.start.run_id))
    # The address ends the line: Prefect's page would make a full stop a part of the link.
    get_run_logger().info(f"{cost}. The report is the artifact {key}. Its page: {page}")
    return " ".join([sentence(summary), *dropped, *unmade])


async def report_or_warn(
    store: str, run_id: str, warnings: list[str], scheduled: bool, key: str
) -> tuple[str, list[str]]:
    """Report a run as `report` does; return its sentence and no warning, or no sentence and why there is no report."""
    try:
        return await report(store, run_id, warnings, scheduled, key), []
    except Exception as error:  # no run fails for lack of a report
        get_run_logger().warning("The report could not be made", exc_info=error)
        return "", [f"The run is complete, but its report could not be made: {error}."]


async def make_page(store: str, run_id: str, samples: int) -> list[str] | None:
    """Make the store's pages show a run; those of a large one behind it. Return messages, if that fails here."""
    return await asyncio.to_thread(renew_behind if samples > LARGE else renewed, store, run_id)


async def _waited_for(renewing: asyncio.Task[list[str] | None]) -> list[str] | None:
    """Wait for the pages; return their warnings. A slow bucket, or one with much new data, must not hold up a run."""
    try:
        async with asyncio.timeout(PAGES_SECONDS):
            return await asyncio.shield(renewing)
    except TimeoutError:
        return [
            f"The store's pages took longer than {PAGES_SECONDS:g} seconds: `jury store sync` makes what is missing."
        ]


def renewed(store: str, run_id: str) -> list[str]:
    """Make the store's pages show a run, here and in its bucket; return a message if that fails."""
    from tasks.pages.site import renew_and_send  # DuckDB, which is not needed before the end of a run

    try:
        renew_and_send(store, [run_id])
    except Exception as error:  # no run fails for lack of a page
        _log.debug("The pages could not be made", exc_info=error)
        return [f"The store's pages do not show it yet: {error}; the next run or `jury store sync` makes them."]
    return []


async def _watch(store: Path, start: RunStart) -> "Watched | None":
    """Return the state of a scheduled run's candidates, once the history has the run; None if it cannot be read."""
    from tasks.comparing.alarms import watched  # DuckDB, which is not needed before the end of a run
    from tasks.history.landing import land

    try:
        await asyncio.to_thread(land, store)  # also runs that the history lacks: one may be a drop
        return await asyncio.to_thread(watched, store, start.run_id)
    except Exception as error:
        get_run_logger().warning("The run could not be compared with earlier ones: %s", error)
        return None


def announce(store: Path, start: RunStart, found: "Watched | None", key: str) -> list[str]:
    """Emit an event for every drop, and for every judge that moved; return a sentence for each open one.

    An alarm is recorded after its event is sent: a run killed in between reports it twice, which is better than never.
    """
    from tasks.comparing.alarms import note_told, payload_of, resource_of

    if found is None:
        return ["Whether its score has dropped could not be told, for the history cannot be read; the next run tells."]
    run = url_for("flow-run", start.prefect_run_id) if start.prefect_run_id else ""
    for alarm in found.events:
        page = where(page_of(store, start.run_id))
        shown = {"artifact": key, "report": run or "", "page": page if is_address(page) else ""}
        emit_event(alarm.event, resource_of(alarm, start), payload={**payload_of(alarm, start), **shown})
    new = [*found.news, *found.judge_news]
    for alarm in new:
        note_told(store, alarm, start)
    return [alarm.words if alarm in new else f"{alarm.short}." for alarm in found.open]


async def publish(summary: Summary, key: str, warnings: Sequence[str], alarms: Sequence[str]) -> None:
    """Create the artifact with this key."""
    text = await asyncio.to_thread(markdown, summary, warnings, alarms)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await acreate_markdown_artifact(text, key, plain_markdown(sentence(summary), 4 * QUOTE))
    except TimeoutError:
        raise TimeoutError(f"the Prefect server did not take it in within {ANSWER_SECONDS:g} seconds") from None
