"""`jury compare`: what changed from one run to another, or from one candidate to another."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from flows.commands.behind import tell_if_behind
from tasks.comparing.compare import Comparison, compare
from tasks.comparing.wording import changed_lines, difference_grid, headline, notes, side_words
from tasks.errors import InputError
from tasks.history.evaluations import last_runs, shared_replies
from tasks.presentation.tables import console, grid_table

TWO = 2


def show_compare(
    store: Path,
    runs: Sequence[str],
    candidates: Sequence[str],
    across: Collection[str],
    last: tuple[int | None, str],
    as_json: bool,
) -> int:
    """Print the comparison of two runs, of two candidates of one run, or of the ends of a flow's last runs.

    Args:
        runs: ids or unique beginnings of ids: two, or one with two candidates; none with `last`.
        candidates: none, one for both sides, or one for each.
        last: how many runs of which flow; None: `runs` names them.

    Raises:
        InputError: it is not clear what is to be compared, or it does not compare.
    """
    names = _both(candidates)
    tell_if_behind(store)
    before, after = _meant(store, runs, names, last)
    found = compare(store, before, after, names, across)
    if as_json:
        print(json.dumps(found.model_dump(mode="json"), indent=1, ensure_ascii=False))
    else:
        _print(found)
        if shared := shared_replies(store, found.before.run_id, found.after.run_id):
            print(shared)
    return 0


def _both(candidates: Sequence[str]) -> tuple[str, str]:
    if len(candidates) > TWO:
        raise InputError(f"--candidate is given {len(candidates)} times; allowed are one (for both runs) and two")
    return (candidates[0], candidates[-1]) if candidates else ("", "")


def _meant(store: Path, runs: Sequence[str], names: tuple[str, str], last: tuple[int | None, str]) -> tuple[str, str]:
    number, flow = last
    if number is not None:
        if runs or not flow:
            raise InputError("--last takes --flow FLOW and no runs: jury compare --last 2 --flow diagram")
        return last_runs(store, flow, number, names[1])
    if len(runs) == 1 and names[0] != names[1]:
        return runs[0], runs[0]
    if len(runs) != TWO:
        raise InputError(
            "name two runs (jury compare RUN_A RUN_B), one run with two candidates (jury compare RUN --candidate A "
            "--candidate B), or the last runs of a flow (jury compare --last 2 --flow diagram)"
        )
    return runs[0], runs[1]


def _print(found: Comparison) -> None:
    out = console()
    for name, side in (("before", found.before), ("after ", found.after)):
        out.print(f"{name}  {side_words(side)}", soft_wrap=True)
    out.print(f"\n{headline(found.rows[0].difference, found.before.flow)}\n", soft_wrap=True)
    out.print(grid_table(difference_grid(found.rows, found.before.flow), []))
    for line in [*notes(found), *changed_lines(found)]:
        out.print(line, soft_wrap=True)
