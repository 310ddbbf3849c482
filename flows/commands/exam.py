"""`jury judge exam`: test of a judge's vision and compliance, on drawn pictures with known answers."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from flows.commands.console import Command, left_to_sync, printable_json, warn
from flows.commands.options import json_option, model_options, parse_options, store_option
from flows.server.server import find_prefect, secret_block
from tasks.ledger.passports import PASSPORTS, Card
from tasks.ledger.remote import Remote, local_cache, remote_of
from tasks.ledger.side_records import OTHER_CALLS
from tasks.passport.exam import calls_of, check_examinable, take_exam
from tasks.passport.lines import card_grid, format_lines, meaning_lines, summary_line
from tasks.presentation.tables import console, grid_table
from tasks.records import new_id
from tasks.records.judge import Judge
from tasks.records.parameters import Probe
from tasks.text import number_of, printable


@click.command(cls=Command)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the drawn pictures.")
@json_option("Print the card as JSON.")
@store_option
def exam(seed: int, as_json: bool, store: str, **given: Any) -> int:
    """Ask all questions, store and print the card; return 3 if a line was not passed."""
    judge = parse_options(given, Probe).judge
    check_examinable(judge)
    folder = local_cache(store)
    find_prefect(folder)  # a key may be kept there, as a Secret block
    remote = remote_of(store)
    try:
        card = asyncio.run(_made(folder, remote, judge, seed))
    finally:
        if remote:  # what a stopped exam cost counts for other machines, too
            with left_to_sync("`jury store sync` sends what it cost"):
                remote.send_folder(OTHER_CALLS.folder)
    from tasks.history.landing import land  # DuckDB, not needed before the end

    with left_to_sync("`jury store sync` loads the card into the history"):
        land(folder)
    if remote:
        with left_to_sync("`jury store sync` sends the card to the other machines"):
            remote.share_folder(PASSPORTS)
    if as_json:
        print(printable_json(card.model_dump(mode="json", exclude={"replies"})))
    else:
        out = console()
        out.print(grid_table(card_grid(card), []), soft_wrap=True)
        for line in (*format_lines(card), *meaning_lines(card), summary_line(card)):
            out.print(printable(line))
    return 3 if card.failed() else 0


exam.params[:0] = model_options(Probe)


async def _made(folder: Path, remote: Remote | None, judge: Judge, seed: int) -> Card:
    from tasks.extensions.budget import budget_of_calls  # Prefect, which `--help` does not need

    questions, passport_id = calls_of(seed), new_id("passport", datetime.now(UTC))
    budget = await budget_of_calls(judge, folder, remote, passport_id)
    asked = number_of(questions, "small question")
    warn(f"{judge.model} is asked {asked} about drawn pictures; a stop keeps the replies")
    with click.progressbar(
        length=questions, label="questions", show_pos=True, file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        return await take_exam(folder, judge, seed, passport_id, secret_block, budget, lambda: bar.update(1))
