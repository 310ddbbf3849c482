"""Checks that a model drafts for figures, from their texts: the question to the model, its reply, and the files."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from tasks.endpoint.replies import objects, shown, unwrapped
from tasks.endpoint.requests import object_schema
from tasks.errors import InputError
from tasks.files import private_folder, write_whole
from tasks.ledger.run_files import read_outcomes
from tasks.protocols.checklist.datasets import DRAFTED_BY, HUMAN
from tasks.protocols.checklist.prompts import check_faults, read_checks
from tasks.protocols.checklist.reply import RIGHT
from tasks.rubrics.rubric import PROMPTS
from tasks.text import listed, number_of

DRAFT, CHECKS, PICTURES = "draft.jsonl", "checks.jsonl", "pictures"
"""Files of a draft's folder: all drafted checks, those that the Human figures passed, and these figures."""
FEWEST, MOST = 8, 20
"""Checks of a figure, as the instructions say."""
GROUPS = ("components", "relations", "labels", "must-not")
"""Groups of checks that the instructions explain."""
INSTRUCTIONS = (PROMPTS / "draft_checks.md").read_text(encoding="utf-8").rstrip()
_CHECK = object_schema(
    {
        "group": {"type": "string", "enum": [*GROUPS]},
        "question": {"type": "string"},
        "form": {"type": "string", "enum": ["yes_no", "number"]},
        "expected": {"type": "string"},
    }
)
SCHEMA = object_schema({"checks": {"type": "array", "items": _CHECK}})
FORMAT = (
    'Reply with a single JSON object and nothing around it. Its key "checks" holds an array of objects with four keys, '
    'all strings: "group", "question", "form", and "expected": yes, no, or a whole number in digits.'
)


def read_draft(text: str) -> tuple[list[dict[str, object]], str]:
    """Return the checks in a reply as a manifest has them, or the error that makes it invalid."""
    body, _ = unwrapped(text)
    once = {str(each.get("question")).casefold(): each for each in objects(body).in_lists("checks")}
    if not FEWEST <= len(once) <= MOST:
        return [], f"the reply has {len(once)} checks, allowed are {FEWEST} to {MOST}"
    if strange := [shown(each.get("group")) for each in once.values() if str(each.get("group")) not in GROUPS]:
        return [], f"group is {listed(strange)}, allowed are {listed(GROUPS)}"
    checks: list[dict[str, object]] = [
        {"id": str(number), **{key: each.get(key) for key in ("question", "form", "expected", "group")}}
        for number, each in enumerate(once.values(), 1)
    ]
    try:
        faults = [*check_faults([each.check() for each in read_checks(checks)])]
    except ValueError as error:
        faults = [str(error)]
    return checks, listed(faults) if faults else ""


class Draft:
    """Draft in its folder. Rows are appended as replies come, so that a stopped command goes on where it was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        private_folder(folder / PICTURES)
        self.rows = _read(folder / DRAFT)
        """Sample id -> row of the draft."""
        write_whole(folder / DRAFT, b"".join(map(_line, self.rows.values())))  # without a torn last line

    def has(self, sample_id: str, text: str, picture: bytes) -> bool:
        """Return whether there are checks of a figure, drafted from this text for this Human picture."""
        row = self.rows.get(sample_id, {})
        return (row.get("prompt"), row.get("image")) == (text, _image(picture))

    def add(
        self, sample_id: str, text: str, picture: bytes, model: str, checks: Sequence[Mapping[str, object]]
    ) -> None:
        """Add the checks that a model drafted for a figure, and the Human picture that tries them."""
        write_whole(self._folder / _image(picture), picture)
        row = {"id": sample_id, "prompt": text, "image": _image(picture), "candidate": HUMAN, DRAFTED_BY: model}
        self.rows[sample_id] = {**row, "checks": [{**check, "confirmed": False} for check in checks]}
        with (self._folder / DRAFT).open("ab") as file:
            file.write(_line(self.rows[sample_id]))


def keep_right(folder: Path, run: Path) -> str:
    """Write the checks that a run on the draft answered rightly about the Human figures; return how many these are.

    Raises InputError if the run stopped before it asked about all figures, or no check was answered rightly.
    """
    rows, outcomes = _read(folder / DRAFT), [each for each in read_outcomes(run) if not each.control]
    if left := rows.keys() - {each.sample_id for each in outcomes}:
        raise InputError(
            f"the run stopped before it asked about {len(left):,} of {number_of(len(rows), 'Human figure')}: the same "
            "command goes on"
        )
    scores = {(outcome.sample_id, each.aspect): each.score for outcome in outcomes for each in outcome.aspects}
    right = {place for place, score in scores.items() if score == RIGHT}
    kept = {name: [each for each in row["checks"] if (name, each["id"]) in right] for name, row in rows.items()}
    lines = [_line({**row, "checks": kept[name]}) for name, row in rows.items() if kept[name]]
    if not lines:
        raise InputError(f"no check of {folder / DRAFT} was answered rightly about the Human figures")
    write_whole(folder / CHECKS, b"".join(lines))
    passed, drafted = sum(map(len, kept.values())), sum(len(row["checks"]) for row in rows.values())
    unanswered = drafted - sum(score is not None for score in scores.values())
    left_out = f" ({number_of(unanswered, 'check')} without an answer left out)" * bool(unanswered)
    return f"{passed} of {number_of(drafted, 'check')} pass at {number_of(len(lines), 'Human figure')}{left_out}"


def _image(picture: bytes) -> str:
    return f"{PICTURES}/{sha256(picture).hexdigest()}"


def _read(path: Path) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError):  # the last line of a process that was killed
            row = json.loads(line)
            rows[row["id"]] = row
    return rows


def _line(row: Mapping[str, object]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"
