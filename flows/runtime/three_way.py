"""What becomes of a field that stands in a list and on a server where people may change it: the rule, and no meaning.

A change of the list takes effect, one of people stays, and where both changed it, people's stays and is told. Which of
them changed it is seen from what the list said when it was registered last; of that a digest is enough.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

MISSING: Final = "(none)"
"""Stands for the value of a field that is not there."""
Fields = Mapping[str, Any]
"""Name of a field -> its value, as JSON has it."""


class Merged(NamedTuple):
    """Three versions of some fields made one."""

    values: dict[str, Any]
    kept: list[str]
    """Names of the fields that people changed."""
    conflicts: list[str]
    """Names of the fields that the list and people changed, each to something else; they have people's value."""


def digest(value: Any) -> str:
    """The same for equal values, and short: what is registered may be long, and is nobody else's to read."""
    text = json.dumps(_same_numbers(value), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def digests(fields: Fields) -> dict[str, str]:
    """What is to be remembered of the fields of a list."""
    return {name: digest(value) for name, value in fields.items()}


def merge(last: Mapping[str, str], listed: Fields, found: Fields, defaults: Fields) -> Merged:
    """Merge the fields of a list into those on a server.

    Args:
        last: digests of the list as it was registered last; empty: unknown.
        defaults: what a field is where it is not given; not named here: nothing.
    """
    merged = Merged({}, [], [])
    for name in dict.fromkeys((*listed, *found)):
        default = defaults.get(name, MISSING)
        wanted, there = listed.get(name, default), found.get(name, default)
        before = last.get(name, digest(default))
        takes_list = wanted != there and before == digest(there)
        source = listed if takes_list or name not in found else found
        if wanted != there and not takes_list:
            source = found
            (merged.kept if before == digest(wanted) else merged.conflicts).append(name)
        if name in source:
            merged.values[name] = source[name]
    return merged


def _same_numbers(value: Any) -> Any:
    """One way to write a number: a server may give 20 back where 20.0 was registered."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _same_numbers(each) for name, each in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_same_numbers(each) for each in cast(list[Any], value)]
    return value
