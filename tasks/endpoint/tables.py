"""TOML files that hold one table for each name, as records; all that is wrong with a file is one message.

Owns the reading. What a table may hold stands with its record, in `known` and `models`.
"""

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tasks.errors import InputError, Problems
from tasks.records import Record

R = TypeVar("R", bound=Record)


def read_tables(file: Path, record: type[R]) -> dict[str, R]:
    """Name -> its table as a record, whose field `name` is that name; in the order of the file.

    Raises:
        InputError: the file is no TOML, or tables cannot be used, with every problem and its place.
    """
    try:
        tables: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{file} is not TOML: {error}") from error
    problems, found = Problems(), dict[str, R]()
    for name, table in tables.items():
        if not isinstance(table, dict):
            problems.add(name, f"found {table!r}; allowed is a table")
            continue
        try:
            found[name] = record.model_validate({**table, "name": name})
        except ValidationError as error:
            for detail in error.errors():
                problems.add(f"{name}{''.join(f', {key}' for key in detail['loc'])}", _sentence(detail))
    problems.stop(str(file))
    return found


def _sentence(detail: ErrorDetails) -> str:
    """What was found and what is allowed; what is said of a whole table does not show it once more."""
    found = f", found {detail['input']!r}" if detail["loc"] and detail["type"] != "missing" else ""
    return detail["msg"].removeprefix("Value error, ") + found
