"""Rows taken out of the ledgers of runs that stay, and ledgers that go as a whole.

Owns what a ledger says afterwards: its end counts the rows that it has, `forgotten.jsonl` those that it lost, and a
reply that a forgotten run had asked for names a token in the place of that run. In a bucket part after part is
rewritten under its own number, so that whoever sends more of the run meanwhile goes on as before.
"""

import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, cast

from tasks.files import alone_at_once, drafted, keep_private
from tasks.forgetting.found import FILES, Found, Part, row_of
from tasks.forgetting.place import Place
from tasks.ledger.bucket_parts import Sent, read_notes, write_notes
from tasks.ledger.checksums import changed, sealed
from tasks.ledger.forgotten import Gone, token_of, with_gone
from tasks.ledger.reading import END, FORGOTTEN, JUDGMENTS, OUTCOMES, RUN, is_waiting, read_end, rows_told, whole_lines
from tasks.records import RunEnd, RunStart

UNNAMED = "forgotten"
"""What stands in the place of a name in what a run was started with."""
UNTOLD = "A warning is left out, for it may name what was forgotten."


def is_written(run: Path) -> bool:
    """Whether a process is writing a run now."""
    rows = run / JUDGMENTS
    if not rows.is_file() or rows.is_symlink() or (run / END).exists():
        return False
    try:
        with alone_at_once(rows) as is_alone:
            return not is_alone
    except ImportError:  # Windows has no such locks
        return False


def is_busy(run: Path) -> bool:
    """Whether a run must be left alone for now: it is being written, or waits for its batches."""
    return is_waiting(run) or is_written(run)


def ledgers(place: Place, found: Found) -> Iterator[str]:
    """Take out what is meant; a sentence for each run that loses anything."""
    for name, part in found.parts.items():
        yield f"run {name}: rows of judgments {part.judgments:,}, of outcomes {part.outcomes:,}; the others stay"
    for name in sorted({*found.parts, *found.renamed}):
        run = place.store / "ledger" / name
        if not place.is_dry:
            _sift(place, found, run)
    for name, (start, _) in found.whole.items():
        yield f"run {name}{f', {start.flow}' if start else ''}: all of it"
        place.remove_folder(f"batches/{name}")
        place.remove_folder(f"ledger/{name}", last=RUN)


def _sift(place: Place, found: Found, run: Path) -> None:
    part, name = found.parts.get(run.name), f"ledger/{run.name}"
    if part:
        gone = Gone(
            mark_id=part.mark.mark_id,
            kind=part.mark.kind,
            forgotten_at=part.mark.forgotten_at,
            samples=len(part.samples),
            judgments=part.judgments,
            outcomes=part.outcomes,
        )
        in_bucket = f"{name}/{RUN}" in place.in_bucket
        place.write(f"{name}/{FORGOTTEN}", with_gone(run, gone), always=in_bucket)
        # Before the rows: a ledger that has more of them than its end tells of is not damaged.
        if end := read_end(run):
            place.write(f"{name}/{END}", _record(_ended(found, run, part, end)))
        place.write(f"{name}/{RUN}", _record(_begun(part)))
    start = part.start if part else None
    for file in FILES:
        _sift_bucket(place, found, run, file, start)
    for file in FILES:
        _sift_file(found, run, file, start)


def _sift_bucket(place: Place, found: Found, run: Path, file: str, start: RunStart | None) -> None:
    pattern = f"ledger/{run.name}/{PurePosixPath(file).stem}-*{PurePosixPath(file).suffix}"
    for name in [each for each in place.in_bucket if fnmatch(each, pattern)]:
        data = place.bucket.get([name])[name] if place.bucket else b""
        sifted = b"".join(_sifted(found, data.splitlines(keepends=True), start))
        if sifted != data:
            place.rewrite_in_bucket(name, sifted)


def _sift_file(found: Found, run: Path, file: str, start: RunStart | None) -> None:
    path, notes = run / file, read_notes(run)
    if not path.exists():
        return
    ends = [*notes.ends.get(file, ())] if notes else []
    moved: list[int] = []
    at = written = 0
    with drafted(path) as draft:
        with draft.open("wb") as target:
            for offset, line in whole_lines(path):
                at = offset + len(line)
                written += target.write(b"".join(_sifted(found, [line], start)))
                if len(moved) < len(ends) and at == ends[len(moved)]:
                    moved.append(written)
        keep_private(draft)
    if notes:
        write_notes(run, Sent(ends={**notes.ends, file: tuple(moved)}, objects=notes.objects))


def _sifted(found: Found, lines: list[bytes], start: RunStart | None) -> Iterator[bytes]:
    for line in lines:
        row = row_of(line)
        if row and start and found.goes(row, start):
            continue
        yield _renamed(found, line, str(row.get("reused_from", "")) if row else "")


def _renamed(found: Found, line: bytes, origin: str) -> bytes:
    if origin not in found.whole:
        return line
    old, new = (f'"reused_from":"{name}"'.encode() for name in (origin, token_of(found.whole[origin][1].mark_id)))
    return changed(line, old, new)


# What stays of the run's own records


def _record(record: RunStart | RunEnd) -> bytes:
    return sealed(record.model_dump_json(indent=1))


def _begun(part: Part) -> RunStart:
    start, names = part.start, part.names
    parameters = cast("dict[str, object]", _unnamed(start.parameters, names))
    candidates = tuple(each for each in start.candidates if each not in names)
    dataset = cast(str, _unnamed(start.dataset, names))
    return start.model_copy(update={"parameters": parameters, "candidates": candidates, "dataset": dataset})


def _ended(found: Found, run: Path, part: Part, end: RunEnd) -> RunEnd:
    kept = {file: _kept(found, run, file, part.start) for file in FILES}
    judged, decided = kept[JUDGMENTS], kept[OUTCOMES]
    asked = [row for row in judged if not row.get("reused_from")]
    last = {_call(row): str(row.get("status")) for row in judged if not row.get("control")}
    whole = {name: tags for name, tags in end.stopped.whole.items() if name not in part.names} if end.stopped else {}
    return end.model_copy(
        update={
            "ledger_rows": {file: len(rows) + _missing(run, file, end) for file, rows in kept.items()},
            "calls": len(asked),
            "control_calls": sum(bool(row.get("control")) for row in asked),
            "reused": len(judged) - len(asked),
            "judgments": dict(Counter(last.values())),
            "outcomes": dict(Counter(str(row.get("status")) for row in decided if not row.get("control"))),
            "stopped": end.stopped.model_copy(update={"whole": whole}) if end.stopped else None,
            "warnings": tuple(dict.fromkeys(_untold(words, part.names) for words in end.warnings)),
        }
    )


def _kept(found: Found, run: Path, file: str, start: RunStart) -> list[dict[str, Any]]:
    """Rows that stay, without their long texts."""
    wanted = ("sample_id", "candidate", "control", "dimension", "order", "vote", "status", "reused_from")
    rows = (row_of(line) for _, line in whole_lines(run / file))
    return [{name: row.get(name) for name in wanted} for row in rows if row and not found.goes(row, start)]


def _missing(run: Path, file: str, end: RunEnd) -> int:
    """Rows that were missing before: that stays to be seen."""
    return max(0, rows_told(end, file) - sum(1 for _ in whole_lines(run / file)))


def _call(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("sample_id", "candidate", "dimension", "order", "vote"))


def _untold(words: str, names: set[str]) -> str:
    named = any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words) for name in names)
    return UNTOLD if named else words


def _unnamed(value: object, names: set[str]) -> object:
    """What a run was started with, without these names, alone or as parts of a path; from lists they are dropped."""
    match value:
        case str():
            parts = [
                UNNAMED if part in names or PurePosixPath(part).stem in names else part for part in value.split("/")
            ]
            return UNNAMED if value in names else "/".join(parts)
        case list():
            found = cast("list[object]", value)
            return [_unnamed(each, names) for each in found if not (isinstance(each, str) and each in names)]
        case dict():
            return {key: _unnamed(each, names) for key, each in cast("dict[str, object]", value).items()}
        case _:
            return value
