"""Samples made from rows of GenEval's metadata; a test gives only the row."""

import json
from dataclasses import replace
from typing import Any

from tasks.records import Place, Requirement, Sample


def sample(row: str, **changes: Any) -> Sample:
    """Return the sample that a row describes."""
    values = json.loads(row)
    made = Sample(
        sample_id="00000/0000",
        candidate="alpha",
        tag=values.get("tag", ""),
        record=Place(path="/data/metadata.jsonl"),
        required=tuple(requirement(entry) for entry in values["include"]),
        excluded=tuple(requirement(entry) for entry in values.get("exclude", [])),
    )
    return replace(made, **changes)


def requirement(entry: dict[str, Any]) -> Requirement:
    relation, target = entry.get("position", ["", None])
    return Requirement(
        name=entry["class"], count=entry["count"], color=entry.get("color", ""), relation=relation, target=target
    )
