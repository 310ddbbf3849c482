"""A published prompt document made a prompt set: each prompt word for word, under the front matter that it declares.

Owns the folder that an import writes, and what it may overwrite. The document is taken apart by `published_document`,
and `published_prompt` finds what a text declares; whether a set can be used is decided by `rubric`, as for any other.
"""

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from tasks.errors import SHOWN, InputError, Problems
from tasks.rubrics import rubric
from tasks.rubrics.published_document import FORMS, Quoted, read_published
from tasks.rubrics.published_prompt import front_matter, names_allowed, question_named
from tasks.rubrics.rubric import DEFAULT_SET, NOTE, Prompt, holdings, load_rubric
from tasks.text import bounded, listed, well_formed

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class _Note(BaseModel):
    """What is needed of an import's note."""

    files: dict[str, str]
    """Path in the set -> SHA-256."""


class Imported(NamedTuple):
    """What an import made."""

    folder: Path
    placed: dict[str, str]
    """`<flow>/<dimension>` -> SHA-256 of the prompt's body as it is sent."""
    unplaced: list[str]
    """What the document holds and the set does not, a line each."""


def import_prompts(source: Path, name: str) -> Imported:
    """Make a prompt set of a published document, whole or not at all. An earlier import of that name is replaced.

    Args:
        source: Markdown with each prompt in a fenced block, or a JSON object of prompts.
        name: a plain name, for a set that `--prompt-set` knows by it, or the path of a folder.

    Raises:
        InputError: the document cannot be read or holds no prompt, prompts declare too little for their front matter
            (all of them, a line each), or the folder holds what no import wrote.
    """
    folder = _folder(name)
    _refuse_foreign(folder)
    document = read_published(source)
    defaults = _prompts(DEFAULT_SET, holdings())
    problems = Problems()
    texts, unplaced = _placed(document.quoted, defaults, problems)
    files = {question: _file(quoted, defaults[question], problems) for question, quoted in texts.items()}
    problems.stop(str(source))
    unplaced += document.rest
    if not files:
        raise InputError(f"{source}: found no prompt, but {listed(unplaced, 3)}; allowed: {FORMS}")
    return Imported(folder, _write(folder, files, texts, source), unplaced)


def imported_words(imported: Imported) -> str:
    """What an import made and what it left out, as lines for a terminal."""
    flows = dict.fromkeys(question.partition("/")[0] for question in imported.placed)
    missing = [question for question in _prompts(DEFAULT_SET, flows) if question not in imported.placed]
    name = imported.folder.name if imported.folder.parent == rubric.SETS else str(imported.folder)
    lines = [f"{imported.folder}: {len(imported.placed)} prompts, word for word"]
    lines += [f"  {question:<24}SHA-256 {digest}" for question, digest in imported.placed.items()]
    if missing:
        lines.append(f"Not in the document, so that the default prompts stay: {listed(missing)}")
    if imported.unplaced:
        lines.append("In the document, but not in the set:")
        lines += [f"  {line}" for line in bounded(imported.unplaced[:SHOWN], len(imported.unplaced))]
    return "\n".join([*lines, f"To judge by them: --prompt-set {shlex.quote(name)}"])


def _folder(name: str) -> Path:
    if "/" in name or os.sep in name:
        return Path(name).expanduser().resolve()
    if name == DEFAULT_SET or not _NAME.fullmatch(name):
        raise InputError(
            f"found {name!r} as the name of a prompt set; allowed: letters, digits and ._- (but not {DEFAULT_SET!r}), "
            "or the path of a folder, such as ./prompts"
        )
    return rubric.SETS / name


def _refuse_foreign(folder: Path) -> None:
    """Raise InputError where something else than a folder as an import left it would be overwritten."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        own = _Note.model_validate_json((folder / NOTE).read_bytes()).files
    except (OSError, ValidationError):
        raise InputError(f"{folder}: exists, and no import wrote it; allowed: a name that is free") from None
    held = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
    foreign = [name for name, file in held.items() if name != NOTE and own.get(name) != _sha256(file)]
    if foreign:
        raise InputError(
            f"{folder}: added or changed after the import: {listed(sorted(foreign))}; allowed: a name that is free"
        )


def _prompts(prompt_set: str, flows: Iterable[str]) -> dict[str, Prompt]:
    """`<flow>/<dimension>` -> prompt of these flows under a prompt set."""
    prompts = (prompt for flow in flows for prompt in load_rubric(flow, prompt_set).prompts)
    return {f"{prompt.flow}/{prompt.dimension}": prompt for prompt in prompts}


def _placed(quoted: Iterable[Quoted], known: Iterable[str], problems: Problems) -> tuple[dict[str, Quoted], list[str]]:
    """The texts by the question that each asks, and a line for all that finds no place."""
    placed, unplaced = dict[str, Quoted](), list[str]()
    for text in quoted:
        question = question_named(text.names, known)
        if not question:
            unplaced.append(
                f"{text.where}: a text under {' / '.join(text.names)!r}, which names none of the prompts, or several; "
                f"allowed: {names_allowed(known)}"
            )
        elif question in placed:
            problems.add(text.where, f"found another text for {question} after {placed[question].where}; allowed: one")
        else:
            placed[question] = text
    around = "white space around the text, which is sent without it"
    unplaced += [f"{text.where}: {around}" for text in placed.values() if text.text != text.text.strip()]
    return placed, unplaced


def _file(quoted: Quoted, default: Prompt, problems: Problems) -> str:
    """The prompt file of a text; empty when it declares too little, which is noted."""
    try:
        return f"+++\n{front_matter(quoted.text, default)}+++\n\n{quoted.text}\n"
    except InputError as error:
        problems.add(quoted.where, str(error))
        return ""


def _write(folder: Path, files: Mapping[str, str], texts: Mapping[str, Quoted], source: Path) -> dict[str, str]:
    """Put the whole set in its place, once it is known to be usable. Question -> SHA-256 of its body as sent."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
            draft = Path(beside) / "draft"
            for question, content in files.items():
                file = draft / f"{question}.md"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(well_formed(content), encoding="utf-8", newline="\n")
            (draft / NOTE).write_text(_note(draft, source), encoding="utf-8")
            placed = _checked(draft, texts, source, folder)
            if folder.exists():
                folder.rename(Path(beside) / "before")
            draft.rename(folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    return placed


def _note(draft: Path, source: Path) -> str:
    files = {file.relative_to(draft).as_posix(): _sha256(file) for file in sorted(draft.rglob("*.md"))}
    return json.dumps({"source": source.name, "source_sha256": _sha256(source), "files": files}, indent=1) + "\n"


def _checked(draft: Path, texts: Mapping[str, Quoted], source: Path, folder: Path) -> dict[str, str]:
    """Load the set as a run does, and hold every body against the published text, but for white space around it."""
    try:
        prompts = _prompts(str(draft), dict.fromkeys(question.partition("/")[0] for question in texts))
    except InputError as error:
        raise InputError(f"{source}: {str(error).replace(str(draft), str(folder))}") from None
    problems = Problems()
    for question, quoted in texts.items():
        if prompts[question].body != quoted.text.strip():
            problems.add(
                quoted.where,
                "found a character that no prompt file keeps (a carriage return, half of a surrogate pair); "
                "allowed: any other",
            )
    problems.stop(str(source))
    return {question: prompts[question].sha256 for question in texts}


def _sha256(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()
