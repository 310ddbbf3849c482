"""Whether a run judged the very pictures of an earlier one: a generator that did not run leaves last night's files.

Owns which earlier evaluation is compared, and the sentence about it. Which replies are asked for anew is decided by the
reuse of replies from ledgers, not here.
"""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from tasks.errors import InputError
from tasks.judging.results import results_of
from tasks.ledger.evaluations import Evaluation, finished_before, read_evaluation
from tasks.ledger.protocol_keys import differences


def unchanged_words(store: Path, run_id: str) -> str:
    """A sentence for an evaluation that judged the very pictures of an earlier one on the same dataset; else nothing.

    Compared is the newest finished one before it of the same flow, dataset key and candidates.

    Args:
        run_id: of a run with all its outcomes in the ledger, finished or not, or of an evaluation in shards.
    """
    now = read_evaluation(store, run_id)
    before_it = finished_before(store, now.start)
    earlier = next((each for each in before_it if each.start.candidates == now.start.candidates), None)
    if earlier is None or not _same_pictures(earlier, now):
        return ""
    start, before = now.start, earlier.start
    when = datetime.fromisoformat(before.started_at).astimezone(UTC)
    otherwise = differences(before.protocol, start.protocol)
    causes = f"the judge's or come of what was asked otherwise: {', '.join(otherwise)}" if otherwise else "the judge's"
    return (
        f"Nothing changed since run {before.run_id} of {when:%Y-%m-%d %H:%M} UTC: same dataset, same pictures; "
        f"differences between the two are {causes}."
    )


def _same_pictures(one: Evaluation, other: Evaluation) -> bool:
    # A ledger that cannot be read is reported by `sync`; here it only cannot be compared.
    with suppress(InputError):
        return _pictures_key(one) == _pictures_key(other)
    return False


def _pictures_key(evaluation: Evaluation) -> str:
    return results_of(evaluation.start, evaluation.folders).pictures_key
