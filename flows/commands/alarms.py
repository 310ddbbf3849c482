"""`jury alarms restart`: a new baseline from the next scheduled run on; and the lines of `jury status` about alarms."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from flows.commands.console import Command, left_to_sync, say
from flows.commands.options import store_option
from tasks.comparing.alarms import Alarm, MovedJudge, alarms, candidates_watched, moved_judges, newest_places
from tasks.errors import InputError
from tasks.history.landing import land
from tasks.history.queries import held_together
from tasks.ledger.remote import local_cache, remote_of
from tasks.ledger.side_records import ALARMS, restart_baseline
from tasks.records.parameters import FLOWS
from tasks.text import listed, number_of, one_line


@click.command(cls=Command)
@click.argument("flow", type=click.Choice(FLOWS), metavar="FLOW")
@click.option(
    "--anchors",
    is_flag=True,
    help="Let the next scheduled run of the flow choose new anchors. The baselines of its scores stay; an alarm of the "
    "present anchors ends.",
)
@click.option("--candidate", default="", help="Only of this candidate (default: of all that the flow judges).")
@store_option
def restart(flow: str, anchors: bool, candidate: str, store: str) -> int:
    """Store the restart of the baselines, or retire the anchors if `anchors` is set.

    A restart only warns if the history or the remote store cannot be reached now.
    """
    folder = local_cache(store)
    if anchors:
        return _retire_anchors(flow, candidate, store, folder)
    known = candidates_watched(folder, flow)
    if not known:
        raise InputError(f"{store}: no scheduled run of {flow} has measured anything yet: there is no baseline")
    if candidate and candidate not in known:
        raise InputError(f"--candidate {candidate!r} has no baseline in {flow}; those that have: {listed(known)}")
    whose = [candidate] if candidate else known
    dropped = [each for each in alarms(folder) if each.flow == flow and each.candidate in whose]
    ended = [*dropped, *([] if candidate else _moved(folder, flow))]
    moment = restart_baseline(folder, flow, candidate).restarted_at
    print(f"scheduled runs of {flow} after {moment:.16} UTC make a new baseline of {listed(whose)}")
    _tell_ended(ended)
    with left_to_sync():
        land(folder)
        if remote := remote_of(store):
            remote.share_folder(ALARMS)
    return 0


def _retire_anchors(flow: str, candidate: str, store: str, folder: Path) -> int:
    if candidate:
        raise InputError("--anchors and --candidate do not go together: the anchors are those of the whole flow")
    from tasks.extensions import anchors  # the judge's client, which `jury status` does not need

    sets = anchors.folder(folder, flow).relative_to(folder).as_posix()
    remote = remote_of(store)
    if remote:
        remote.fetch_folder(sets)
    ended = _moved(folder, flow)
    if not anchors.retire(folder, flow):
        raise InputError(f"{store}: there are no anchors of {flow}; its next scheduled run with anchors chooses some")
    if remote:
        remote.send_folder(sets)
    print(f"the next scheduled run of {flow} chooses new anchors; the results of the present ones stay in the history")
    _tell_ended(ended)
    return 0


def _moved(folder: Path, flow: str) -> list[MovedJudge]:
    with suppress(InputError):
        return [each for each in moved_judges(folder) if each.flow == flow]
    return []


def _tell_ended(ended: Sequence[Alarm | MovedJudge]) -> None:
    if ended:
        say(f"{number_of(len(ended), 'open alarm')} ended: {'; '.join(each.short for each in ended)}")


def alarm_lines(store: Path) -> list[str]:
    """Return lines about open alarms and the baselines of scheduled runs, as far as the history can be read."""
    lines: list[str] = []
    with suppress(InputError), held_together(store):
        for alarm in alarms(store):
            last = f"last measured {alarm.last_at:%Y-%m-%d}"
            lines.append(f"alarm      {alarm.flow} on {one_line(alarm.dataset)}: {alarm.short}; {last}")
        for moved in moved_judges(store):
            last = f"last measured {moved.last_at:%Y-%m-%d}"
            lines.append(f"alarm      {moved.flow}: {moved.short}; {last}; {moved.cure}")
        for flow, dataset, place in newest_places(store):
            lines.append(f"baseline   {flow} on {one_line(dataset)}, {place.words(flow)}")
    return lines
