"""Prefect events of our own: what the server, and through it people, are told of a drop.

What a drop is stands in `tasks/comparing/regression`; who is notified of the event, in `automations`.
"""

from prefect.events import emit_event
from prefect.utilities.urls import url_for

from tasks.comparing.regression import EVENT, Since, drops


def announce(since: Since) -> list[str]:
    """Emit the event `jury.regression` for every candidate that dropped; returns a sentence for each.

    It carries the flow run that this is called in, by Prefect's own means.
    """
    start = since.start
    report = url_for("flow-run", start.prefect_run_id) if start.prefect_run_id else None
    found = drops(since)
    for drop in found:
        emit_event(EVENT, drop.resource, payload={**drop.payload, "report": report or ""})
    return [drop.words for drop in found]
