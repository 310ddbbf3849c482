"""Publishing a run in the Prefect UI: its Markdown artifact, and a table of what failed."""

import asyncio
from collections.abc import Sequence

from prefect.artifacts import acreate_markdown_artifact, acreate_table_artifact

from tasks.comparing.past import Past
from tasks.pages.artifact import failure_rows, markdown
from tasks.pages.run_summary import Summary
from tasks.pages.summary_texts import sentence, status_counts
from tasks.presentation.markup import QUOTE, plain


async def publish(summary: Summary, warnings: Sequence[str] = (), past: Past | None = None) -> None:
    """Create the artifact `<flow>-summary` of the flow run or task run that this is called in.

    Where anything failed, `<flow>-failures` is a table of it, with the counts by status. Raises whatever Prefect raises
    when its server cannot be reached.
    """
    flow = summary.start.flow
    text = await asyncio.to_thread(markdown, summary, warnings, past)
    await acreate_markdown_artifact(text, f"{flow}-summary", plain(sentence(summary), 4 * QUOTE))
    if rows := failure_rows(summary):
        await acreate_table_artifact(rows, f"{flow}-failures", status_counts(summary))
