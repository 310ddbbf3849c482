"""Whether a run judged the very pictures of an earlier one: a generator that did not run leaves last night's files.

Owns which earlier evaluation is compared, and the sentence about it. Which replies are asked for anew is decided by the
reuse of replies from ledgers, not here.
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from tasks.errors import InputError
from tasks.ledger.evaluations import Evaluation, finished_before, read_evaluation
from tasks.ledger.protocol_keys import differences
from tasks.records import Outcome


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


def pictures_key(outcomes: Iterable[Outcome]) -> str:
    """SHA-256 (hex) over the candidates' pictures as they were in the files, those that are missing included."""
    parts = sorted(
        (one.candidate, one.sample_id, [note.source_sha256 for role, note in one.pictures.items() if role != "human"])
        for one in outcomes
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _same_pictures(one: Evaluation, other: Evaluation) -> bool:
    # A ledger that cannot be read is reported by `sync`; here it only cannot be compared.
    with suppress(InputError):
        return pictures_key(one.outcomes()) == pictures_key(other.outcomes())
    return False
