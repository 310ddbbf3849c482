"""Datasets that change from run to run: where tonight's files are, and whether they are last night's.

Owns what `{date}` and patterns in path parameters stand for, and the sentence about a run that judged what an earlier
one did. What is in the files is for `load`; which replies are asked for anew is for `ledger`.
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from glob import glob, has_magic
from pathlib import Path
from string import Formatter

from tasks.errors import InputError, Problems
from tasks.ledger.evaluations import Evaluation, finished_before, read_evaluation
from tasks.ledger.protocol_keys import differences
from tasks.parameters import DEFAULT_STORE, Parameters
from tasks.records import Outcome
from tasks.synthetic.samples import DRAWN

READ = ("dataset", "results", "images", "metadata")
"""Path parameters whose file or folder must be there: they take a date and a pattern."""
WRITTEN = ("export",)
"""Path parameters that a run writes to: a date, and no pattern, which only finds what is there."""
DATE = "%Y-%m-%d"
ALLOWED = "allowed are {date} and {date:FORMAT} as in {date:%Y%m%d}; a brace that is meant is doubled"


def resolved(parameters: Parameters, now: datetime) -> Parameters:
    """The parameters with the paths that they mean at this moment; those without a date or pattern stay as they are.

    `{date}` is the day of `now`, `{date:FORMAT}` any strftime format of it. Give the worker's local time: that is what
    a generator on the same machine names its files by, and the timezone of a schedule is not told to its runs. A path
    with `*`, `?`, `[` or `**` then stands for the newest file or folder that matches, unless a file of that very
    name exists. The newest is the one modified last, and of several the last by name: names need not sort by time
    (`run_9` comes after `run_10`), while a generator that writes a file does date it.

    Raises:
        InputError: lists each path that holds anything else in braces, matches nothing, or may not be a pattern.
    """
    problems = Problems()
    found: dict[str, str] = {}
    for field in (*READ, *WRITTEN):
        path = getattr(parameters, field, "")
        try:
            dated = _dated(path, now)
            found[field] = _newest(dated) if field in READ else _without_pattern(dated)
        except ValueError as error:
            problems.add(field, str(error))
    problems.stop("the choice of files")
    return parameters.model_copy(update={field: path for field, path in found.items() if path})


def absolute(parameters: Parameters) -> Parameters:
    """The same with the relative paths of this working directory made absolute, for runs that are made elsewhere."""
    named = {field: path for field in (*READ, "store") if (path := getattr(parameters, field, ""))}
    meant = {field: path for field, path in named.items() if path not in (DRAWN, DEFAULT_STORE) and "://" not in path}
    return parameters.model_copy(
        update={field: str(Path(path).expanduser().absolute()) for field, path in meant.items()}
    )


def _dated(path: str, now: datetime) -> str:
    try:
        pieces = list(Formatter().parse(path))
    except ValueError:
        raise InputError(f"{path!r} has a brace without its other half; {ALLOWED}") from None
    if any(name not in (None, "date") or kind or "{" in (form or "") for _, name, form, kind in pieces):
        raise InputError(f"{path!r} holds other braces; {ALLOWED}")
    return "".join(text + (now.strftime(form or DATE) if name else "") for text, name, form, _ in pieces)


def _newest(pattern: str) -> str:
    path = str(Path(pattern).expanduser()) if pattern else ""
    if not has_magic(path) or Path(path).exists():
        return pattern
    # Unlike Path.glob, this one leaves out hidden files: what editors and copying tools keep beside the results.
    matches = [match for match in map(Path, glob(path, recursive=True)) if match.exists()]  # noqa: PTH207
    if not matches:
        raise InputError(f"no file or folder matches {pattern!r}, looked for in {Path.cwd()}")
    return str(max(matches, key=lambda match: (match.stat().st_mtime_ns, match.name)))


def _without_pattern(path: str) -> str:
    if "*" in path or "?" in path:
        raise InputError(f"{path!r} is a pattern; allowed is the name of one file to write, which may hold {{date}}")
    return path


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
