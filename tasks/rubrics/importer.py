"""Import of a published document as a prompt set: each prompt word for word, under the front matter that it declares.

The document is split, each text is matched with the question that it asks, and a folder is written. `rubric` checks the
set like any other.
"""

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

from tasks.errors import SHOWN, InputError, Problems
from tasks.files import read_regular_text, real_place
from tasks.rubrics import rubric
from tasks.rubrics.rubric import DEFAULT_SET, NOTE, PROMPT_MODELS, Prompt, holdings, load_rubric
from tasks.text import bounded, json_fault, listed, number_of, well_formed

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
FORMS = "Markdown with each prompt in a fenced block under its heading, or a JSON object with each prompt under its tag"

LONGEST = 5_000_000
"""Largest document, in bytes."""
_PART = re.compile(
    r"^ {0,3}(?P<fence>`{3,}+|~{3,}+)[^`\n]*\n(?P<text>(?:.*\n)*?) {0,3}(?P=fence)[`~]*[ \t]*$"
    r"|^ {0,3}(?P<signs>#{1,6})[ \t]+(?P<words>.*?)[ \t#]*$"
    r"|^[ \t]*(?P<rule>(?:[-*_][ \t]*){3,})$"
    r"|^(?P<prose>.*\S.*)$",
    re.MULTILINE,
)
_OPEN_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_ESCAPED_FENCE = re.compile(r"^([ \t]*)\\`\\`\\`", re.MULTILINE)


class Quoted(NamedTuple):
    """A text that a document quotes."""

    names: tuple[str, ...]
    """Headings above the text, or the parts of its key, the outermost first."""
    text: str
    where: str
    """Line or key of the text."""


class Imported(NamedTuple):
    """Result of an import."""

    folder: Path
    placed: dict[str, str]
    """`<flow>/<dimension>` -> SHA-256 of the prompt's body as sent."""
    unplaced: list[str]
    """Parts of the document that are not in the set, one line each."""


def import_prompts(source: Path, name: str) -> Imported:
    """Make a prompt set of a published document, whole or not at all.

    Args:
        source: Markdown with each prompt in a fenced block, or a JSON object of prompts.
        name: a plain name, which `--prompt-set` accepts, or the path of a folder.

    Raises:
        InputError: the document cannot be read or has no prompt, prompts declare too little for their front matter (all
            are listed, one line each), or the folder exists.
    """
    folder = _folder(name)
    if folder.exists():
        raise InputError(f"{folder}: already exists; allowed: an unused name")
    quoted, rest = _read(source)
    defaults = _prompts(DEFAULT_SET, holdings())
    problems = Problems()
    texts, unplaced = _placed(quoted, defaults, problems)
    files = {question: _file(text, defaults[question], problems) for question, text in texts.items()}
    problems.stop(str(source))
    unplaced += rest
    if not files:
        raise InputError(f"{source}: found no prompt, but {listed(unplaced, 3)}; allowed: {FORMS}")
    return Imported(folder, _write(folder, files, texts, source), unplaced)


def imported_words(imported: Imported) -> str:
    """Describe the results and omissions of an import, as lines for a terminal."""
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


def _prompts(prompt_set: str, flows: Iterable[str]) -> dict[str, Prompt]:
    """Return `<flow>/<dimension>` -> prompt, for these flows under a prompt set, if its kind has published texts."""
    prompts = (prompt for flow in flows for prompt in load_rubric(flow, prompt_set).prompts)
    published = (prompt for prompt in prompts if type(prompt).of_published is not Prompt.of_published)
    return {f"{prompt.flow}/{prompt.dimension}": prompt for prompt in published}


def _placed(quoted: Iterable[Quoted], known: Iterable[str], problems: Problems) -> tuple[dict[str, Quoted], list[str]]:
    """Return the texts by the question that each asks, and a line for each part of the document without a place."""
    placed, unplaced = dict[str, Quoted](), list[str]()
    for text in quoted:
        question = _question_named(text.names, known)
        if not question:
            unplaced.append(
                f"{text.where}: a text under {' / '.join(text.names)!r}, which names none of the prompts, or several; "
                f"allowed: a flow with its dimension, or a tag alone, of {', '.join(known)}"
            )
        elif question in placed:
            problems.add(text.where, f"found another text for {question} after {placed[question].where}; allowed: one")
        else:
            placed[question] = text
    around = "white space around the text, which is sent without it"
    unplaced += [f"{text.where}: {around}" for text in placed.values() if text.text != text.text.strip()]
    return placed, unplaced


def _file(quoted: Quoted, default: Prompt, problems: Problems) -> str:
    """Return the prompt file of a text; empty, with a problem noted, if it declares too little."""
    try:
        front = "\n".join(_toml(default.of_published(quoted.text))).strip()
        return f"+++\n{front}\n+++\n\n{quoted.text}\n"
    except InputError as error:
        problems.add(quoted.where, str(error))
        return ""


def _write(folder: Path, files: Mapping[str, str], texts: Mapping[str, Quoted], source: Path) -> dict[str, str]:
    """Write the whole set, and move it into place once it passes the checks; return question -> SHA-256 of its body."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
            draft = Path(beside) / "draft"
            for question, content in files.items():
                file = draft / f"{question}.md"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(well_formed(content), encoding="utf-8", newline="\n")
            note = {"source": source.name, "source_sha256": sha256(source.read_bytes()).hexdigest()}
            (draft / NOTE).write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
            placed = _checked(draft, texts, source, folder)
            draft.rename(folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    return placed


def _checked(draft: Path, texts: Mapping[str, Quoted], source: Path, folder: Path) -> dict[str, str]:
    """Load the set as a run does, and compare every body with the published text, except for white space around it."""
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


def _read(source: Path) -> tuple[list[Quoted], list[str]]:
    """Return the quoted texts of a document, and its other parts; one that begins with `{` is JSON, else Markdown.

    Line breaks of any kind become `\\n`. The text of a block is everything between its fences. An inner fence that is
    escaped at the beginning of a line is unescaped; nothing else changes. Raises InputError, with the place, if the
    file cannot be read or is broken.
    """
    try:
        text = read_regular_text(source, LONGEST, (real_place(source),))
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: found a byte at {error.start} that is not UTF-8; allowed: UTF-8") from None
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror}") from None
    return _json(source, text) if text.lstrip().startswith("{") else _markdown(source, text)


def _json(source: Path, text: str) -> tuple[list[Quoted], list[str]]:
    try:
        pairs = cast(tuple[tuple[str, object], ...], json.loads(text, object_pairs_hook=tuple))
    except json.JSONDecodeError as error:
        raise InputError(f"{source}, {json_fault(error)}; allowed: {FORMS}") from None
    except RecursionError:
        raise InputError(f"{source}: found JSON nested too deeply; allowed: {FORMS}") from None
    if twice := [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]:
        raise InputError(f"{source}, key {twice[0]!r}: found it more than once; allowed: each key once")
    texts = [Quoted(tuple(key.split("/")), value, f"key {key!r}") for key, value in pairs if isinstance(value, str)]
    return texts, [f"key {key!r}: holds no text" for key, value in pairs if not isinstance(value, str)]


def _markdown(source: Path, text: str) -> tuple[list[Quoted], list[str]]:
    quoted, prose = list[Quoted](), Counter[tuple[str, ...]]()
    headings, line, at = dict[int, str](), 1, 0
    for part in _PART.finditer(text):
        line, at = line + text.count("\n", at, part.start()), part.start()
        names = tuple(headings.values())
        if part["fence"]:
            quoted.append(Quoted(names, _block(source, part, line), f"line {line}"))
        elif level := len(part["signs"] or ""):
            headings = {above: words for above, words in headings.items() if above < level} | {level: part["words"]}
        elif part["prose"]:
            if _OPEN_FENCE.match(part["prose"]):
                words = "found a block without an end; allowed: a fence that closes it"
                raise InputError(f"{source}, line {line}: {words}")
            prose[names] += 1
    return quoted, [_prose_words(names, lines) for names, lines in prose.items()]


def _block(source: Path, part: re.Match[str], line: int) -> str:
    # A bare fence would have ended the block: a fence found here has words behind it, so it opens a block inside.
    body = part["text"].removesuffix("\n")
    if part["fence"].startswith("`") and (inner := re.search(rf"^ {{0,3}}{part['fence']}", body, re.MULTILINE)):
        inside = line + 1 + body.count("\n", 0, inner.start())
        raise InputError(
            f"{source}, line {inside}: found a code fence inside the block of line {line}, whose end is then "
            "unclear; allowed: inner fences escaped (\\`\\`\\`), or an outer fence that is longer"
        )
    return _ESCAPED_FENCE.sub(r"\1```", body)


def _prose_words(names: tuple[str, ...], lines: int) -> str:
    where = f"under the heading {names[-1]!r}" if names else "before the first heading"
    return f"{number_of(lines, 'line')} of text {where}"


def _question_named(names: Sequence[str], known: Iterable[str]) -> str:
    """Return the question, `<flow>/<dimension>`, that headings or key parts name; empty if they name none or several.

    A dimension is named under its flow, in a heading that may contain more words. A tag needs no flow; being a common
    word, it must be the whole heading.
    """
    last = names[-1] if names else ""
    tag = "_".join(re.findall(r"[a-z0-9]+", last.lower()))
    by_flow = [flow for flow, model in PROMPT_MODELS.items() if model.named_by_flow]
    said = ([flow for flow in by_flow if _says(name, flow)] for name in reversed(names))
    flows = next(filter(None, said), list[str]())
    matches = list[str]()
    for question in known:
        flow, _, dimension = question.partition("/")
        if (flow in flows and _says(last, dimension)) if flow in by_flow else (not flows and dimension == tag):
            matches.append(question)
    return matches[0] if len(matches) == 1 else ""


def _says(name: str, word: str) -> bool:
    return re.search(rf"\b{word}s?\b", name, re.IGNORECASE) is not None


def _toml(values: Mapping[str, Any], name: str = "") -> Iterator[str]:
    """Yield the lines of a table, then those of its tables; a table with no other content has no heading."""
    own = {key: value for key, value in values.items() if not isinstance(value, dict)}
    if name and own:
        yield f"\n[{name}]"
    for key, value in own.items():
        # TOML writes texts and arrays like JSON but has no surrogate pairs, so no character may be escaped to one.
        yield f"{key} = {json.dumps(value, ensure_ascii=False)}"
    for key, value in values.items():
        if key not in own:
            yield from _toml(value, f"{name}.{key}" if name else key)
