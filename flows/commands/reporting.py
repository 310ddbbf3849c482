"""`jury report`: evaluations of the history as one HTML file."""

from pathlib import Path

from flows.commands.behind import tell_if_behind
from tasks.errors import InputError
from tasks.pages.report_data import choose, gather
from tasks.pages.report_page import write_page


def write_report(store: Path, run: str, flow: str, last: int, target: Path) -> int:
    """Write the report of one evaluation or of the last ones, and say where it is.

    Raises:
        HistoryLocked: the history stayed in use.
        OSError: the file cannot be written.
        InputError: there is no such evaluation, a run and a flow are both named, or the file is a folder.
    """
    if run and (flow or last > 1):
        raise InputError(f"name either a run ({run}) or the last ones with --flow and --last, not both")
    if target.is_dir():
        raise InputError(f"{target} is a folder: name a file, such as {target / 'report.html'}")
    tell_if_behind(store)
    evaluations = gather(store, choose(store, run, flow, last))
    size = write_page(store, evaluations, target)
    samples = sum(len(one.cards) for one in evaluations)
    ids = ", ".join(one.about["run_id"] for one in evaluations)
    print(f"{target}: {samples:,} samples of {ids}, {size / 1e6:,.1f} MB; it opens in any browser, offline too")
    return 0
