"""One prompt file taken apart and checked: TOML front matter between `+++` lines, then the body.

Owns this form, and the sentence for each thing that is wrong in a file. Which keys there are and what they may hold is
in `pairwise_prompt` and `rubric_prompt`; which files make a rubric is decided by `rubric`.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tasks.errors import InputError
from tasks.records import Record
from tasks.rubrics.rubric_prompt import Aspect
from tasks.text import listed

_FILE = re.compile(r"\+\+\+[ \t]*\n(?P<front>.*?)^\+\+\+[ \t]*$(?P<body>.*)", re.DOTALL | re.MULTILINE)
LONGEST = 1_000_000
"""Bytes of a prompt file."""


class PromptFile(NamedTuple):
    """A prompt file taken apart; nothing in its front matter is checked yet."""

    file: Path
    front: dict[str, Any]
    body: str = ""
    problem: str = ""
    """Why it could not be taken apart; empty when it could."""


def read_prompt_file(file: Path) -> PromptFile:
    """Take a prompt file apart. What is wrong with it becomes its `problem`, so that all files are looked at."""
    if not file.is_file():
        return PromptFile(file, {}, problem="found no file; allowed: a file of text, and no pipe, device or folder")
    if (size := file.stat().st_size) > LONGEST:
        return PromptFile(file, {}, problem=f"found {size:,} bytes; allowed: {LONGEST:,}")
    try:
        parts = _FILE.fullmatch(file.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        return PromptFile(file, {}, problem=f"found a byte at {error.start} that is not UTF-8; allowed: UTF-8")
    if not parts:
        return PromptFile(file, {}, problem="found no front matter; allowed: TOML between two `+++` lines, at the top")
    try:
        # An empty line stands in for the opening `+++`, so that a TOML error counts lines as the file does.
        front = tomllib.loads("\n" + parts["front"])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return PromptFile(file, {}, problem=f"front matter is not TOML: {error}")
    return PromptFile(file, front, parts["body"].strip())


def file_problems(source: PromptFile, front_matter: type[Record]) -> list[str]:
    """All that is wrong with one file, a line each; `front_matter` is what may stand above its body."""
    if source.problem:
        return [f"{source.file}: {source.problem}"]
    problems = [] if source.body else [f"{source.file}: found an empty body; allowed: the text of the prompt"]
    try:
        front_matter.model_validate(source.front, context={"body": source.body})
    except ValidationError as error:
        problems += [f"{source.file}: {_sentence(detail, front_matter)}" for detail in error.errors()]
    return problems


def _sentence(detail: ErrorDetails, front_matter: type[Record]) -> str:
    """One problem of one key: what was found and what is allowed."""
    key = ".".join(str(part) for part in detail["loc"] if part != "[key]")
    if detail["type"] == "extra_forbidden":
        known = Aspect.model_fields if len(detail["loc"]) > 1 else front_matter.model_fields
        return f"unknown key `{key}`; allowed: {listed(known)}"
    allowed = front_matter.model_fields[str(detail["loc"][0])].description
    if detail["type"] == "value_error":
        allowed = str(_found_by_rule(detail))
    found = "nothing" if detail["type"] == "missing" else repr(detail["input"])
    return f"key `{key}`: found {found}; allowed: {allowed}"


def _found_by_rule(detail: ErrorDetails) -> InputError:
    """What a rule of the front matter found. Any other ValueError in a rule, which pydantic collects too, is raised."""
    error: Exception = detail.get("ctx", {})["error"]
    if not isinstance(error, InputError):
        raise error
    return error
