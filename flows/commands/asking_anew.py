"""What `jury bridge` and `jury layout check` share: a run that they lack is made, and what they found is kept."""

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

from flows.commands.messages import number_of, say, warn
from tasks.comparing.bridge import Answers, answers_of
from tasks.comparing.judges_to_bridge import Basis
from tasks.errors import HistoryLocked, InputError
from tasks.kinds import kind_of
from tasks.ledger.bucket import RemoteUnavailable
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.kept_rows import Kept, R
from tasks.ledger.reading import read_start, run_folders
from tasks.ledger.remote import Remote, is_remote, local_cache
from tasks.parameters import Parameters
from tasks.records import MadeFor

OK, STOPPED = 0, 2
_COMPARED: dict[MadeFor, str] = {"bridge": "the judges", "layout check": "the layouts"}


def asked_anew(basis: Basis, wanted: Parameters, how: str, made_for: MadeFor, as_json: bool) -> Answers | None:
    """What a judge says of the samples of a basis, in a run that is made now and kept as any other.

    Args:
        wanted: that run.
        how: what is said of the judging that there is not yet, behind the samples: ` in the layout shared`.
        made_for: what the run is made for, which its ledger and the bill tell.
        as_json: what the run prints goes to standard error.

    Returns:
        None where the run came to no end, which was told.
    """
    from flows.commands.run import run_flow
    from flows.runtime.purpose import runs_made_for

    flow, folder = basis.answers.evaluation.start.flow, local_cache(wanted.store)
    what = number_of(len(basis.units), kind_of(flow).unit.removesuffix("s"))
    before = {*run_folders(folder)}
    with redirect_stdout(sys.stderr if as_json else sys.stdout), runs_made_for(made_for):
        say(f"{wanted.judge.model} has not judged these {what}{how}: it is asked")
        code = run_flow(flow, wanted)
    made = [run for run in run_folders(folder) if run not in before and read_start(run).model == wanted.judge.model]
    if code == STOPPED or not made:
        return None
    evaluation = read_evaluation(folder, made[-1].name)
    if evaluation.end is None:  # it waits for a batch
        warn(f"{_COMPARED[made_for]} are compared once that run has ended: say the same again then")
        return None
    return answers_of(evaluation)


def keep(kept: Kept[R], rows: Sequence[R], load: Callable[[Path, str], None], store: str) -> bool:
    """Keep what was found; that the history or the remote store cannot be reached now costs a warning.

    Args:
        load: brings a folder of these rows into the history of a store.

    Returns:
        Whether both could be reached.
    """
    folder = local_cache(store)
    place = kept.keep(folder, rows)
    steps: list[Callable[[], object]] = [partial(load, folder, place.name)]
    if is_remote(store):
        steps.append(lambda: Remote(store, folder).send_folder(kept.folder))
    return all([_reached(step) for step in steps])


def _reached(step: Callable[[], object]) -> bool:
    try:
        step()
    except (HistoryLocked, RemoteUnavailable, InputError) as error:
        warn(f"{error}; `jury sync` does the rest")
        return False
    return True
