"""What a text-to-image prompt asks for, read from one row: its tag, its text, GenEval's `include` and `exclude`.

Owns the keys of such a row and what they may hold. Which rows there are is found by `geneval` and `image_manifest`,
which images they have by `coverage`.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeVar

from pydantic import BaseModel, Field, StrictInt, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from tasks.datasets.entries import clean_text
from tasks.datasets.rows import Row
from tasks.errors import Problems
from tasks.records import Place, Requirement
from tasks.text import kind, listed, one_line, well_formed

_POSITION = (
    "[relation, index of another entry of include from 0], the relation one of left of, right of, above and below"
)


class Asked(NamedTuple):
    """A prompt, where it stands, and what it asks for."""

    where: str
    """File and row as people count."""
    place: Place
    tag: str
    prompt: str
    """As the judge reads it."""
    required: tuple[Requirement, ...]
    excluded: tuple[Requirement, ...]
    notes: tuple[str, ...]


class _Excluded(BaseModel, extra="forbid"):
    """An entry of `exclude`; GenEval looks at nothing else there."""

    name: str = Field(alias="class", min_length=1, description="the name of an object")
    count: StrictInt = Field(ge=1, description="a whole number from 1")


class _Included(_Excluded):
    """An entry of `include`. Null stands for an absent key, as Parquet has no other way to leave one out."""

    color: str | None = Field(default=None, description="the name of a color")
    position: tuple[Literal["left of", "right of", "above", "below"], StrictInt] | None = Field(
        default=None, description=_POSITION
    )

    def requirement(self) -> Requirement:
        relation, target = self.position or ("", None)
        return Requirement(name=self.name, count=self.count, color=self.color or "", relation=relation, target=target)


_Entry = TypeVar("_Entry", bound=_Excluded)
_INCLUDE = TypeAdapter(list[_Included])
_EXCLUDE = TypeAdapter(list[_Excluded])


def read_asked(row: Row, problems: Problems) -> Asked | None:
    """The prompt in a row with `tag`, `prompt` and perhaps `include` and `exclude`; None when it has problems.

    `include` and `exclude` are lists, or the JSON text of one. Each problem is noted with what was found and what is
    allowed.
    """
    faults = list(_text_faults(row.values))
    included = _entries(row.values, "include", _INCLUDE, faults)
    excluded = _entries(row.values, "exclude", _EXCLUDE, faults)
    faults += _target_faults(included)
    for fault in faults:
        problems.add(row.where, fault)
    if faults:
        return None
    prompt, links = clean_text(row.values["prompt"])
    return Asked(
        where=row.where,
        place=row.place,
        tag=well_formed(str(row.values["tag"])),
        prompt=prompt,
        required=tuple(entry.requirement() for entry in included),
        excluded=tuple(Requirement(name=entry.name, count=entry.count) for entry in excluded),
        notes=(f"{links} image link{'s' * (links > 1)} dropped from the prompt",) if links else (),
    )


def _text_faults(values: Mapping[str, object]) -> Iterator[str]:
    for key in ("tag", "prompt"):
        if key not in values:
            yield f"key {key!r} is missing"
        elif not isinstance(values[key], str):
            yield f"{key!r} is {kind(values[key])}, must be text"
        elif not clean_text(values[key])[0].strip():
            yield f"{key!r} is empty, must be text"


def _entries(
    values: Mapping[str, object], key: str, adapter: TypeAdapter[list[_Entry]], faults: list[str]
) -> list[_Entry]:
    """The entries of one of the two lists; none, with the reason in `faults`, when it is malformed."""
    value = values.get(key)
    if value in (None, ""):
        return []
    try:
        return adapter.validate_json(value) if isinstance(value, str) else adapter.validate_python(value)
    except ValidationError as error:
        faults.extend(_sentence(key, detail) for detail in error.errors(include_url=False))
    return []


def _sentence(key: str, detail: ErrorDetails) -> str:
    """One malformed entry: what was found and what is allowed."""
    found = one_line(repr(detail["input"]), 80)
    model = _Included if key == "include" else _Excluded
    allowed = {field.alias or name: field.description for name, field in model.model_fields.items()}
    if not (loc := detail["loc"]):
        return f"{key!r} is {found}, must be a list of objects with {listed(allowed)}"
    where = f"{key}[{loc[0]}]"
    if len(loc) == 1:
        return f"{where} is {found}, must be an object with {listed(allowed)}"
    name = str(loc[1])
    if detail["type"] == "extra_forbidden":
        return f"{where} has a key {name!r}, allowed are {listed(allowed)}"
    state = "is missing" if detail["type"] == "missing" and len(loc) == 2 else f"is {found}"
    return f"{where}: {name!r} {state}, must be {allowed[name]}"


def _target_faults(included: list[_Included]) -> Iterator[str]:
    for number, entry in enumerate(included):
        target = entry.position[1] if entry.position else None
        if target is not None and (target == number or target not in range(len(included))):
            yield f"include[{number}]: 'position' points to entry {target} of {len(included)}, must be {_POSITION}"
