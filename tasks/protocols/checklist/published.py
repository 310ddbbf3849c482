"""Published checklist sets, read from their own files, none of which is part of this project.

The readers of GenEval 2, UniGenBench, T2I-CoReBench and DSG were tried on the whole sets, at the
commits in `PUBLISHED`. Of TIFA only its sample of questions was at hand; of AIBench its scripts, and its first and
last record.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

from tasks.datasets.rows import LONGEST, Row, find_rows, json_object
from tasks.errors import InputError, Problems
from tasks.files import open_regular, read_regular, real_place
from tasks.protocols.checklist.prompts import NUMBERS, ChecklistPrompt, Draw
from tasks.records import Place
from tasks.text import kind, number_of, quoted

HEAD = 1 << 16
"""Bytes at the beginning of a file that contain its mark."""
_MEMBER = re.compile(r'[\s,]*+"((?:[^"\\]|\\.)*+)"\s*:\s*', re.DOTALL)
INSUFFICIENT = "the image does not contain sufficient information"
"""Beginning of AIBench's option that is right where the figure does not show the answer."""


def _geneval2(rows: Sequence[Row]) -> ChecklistPrompt:
    values: Any = rows[0].values
    checks: list[dict[str, object]] = []
    for number, (asked, skill) in enumerate(_pairs(values, "vqa_list", "skills"), 1):
        match asked:
            case [str(question), str(answer)]:
                word = answer.casefold()
            case _:
                found = quoted(json.dumps(asked))
                raise ValueError(f"item {number} of 'vqa_list' is {found}, must be a question and its answer, as text")
        form = (
            {"form": "number", "expected": [word, str(NUMBERS.index(word))]} if word in NUMBERS else {"expected": word}
        )
        checks.append({"id": str(number), "question": question, "group": skill, **form})
    line = int(rows[0].where.rsplit(" ", 1)[1])  # lines before it may be broken
    return ChecklistPrompt(f"{line - 1:05}", "prompt", checks, f"{values['atom_count']} atoms")


def _pairs(values: Mapping[str, Any], one: str, other: str) -> Iterator[tuple[Any, Any]]:
    """Return the pairs of two lists of a row. Raises ValueError unless both are lists of one length."""
    first, second = values[one], values[other]
    for name, found in ((one, first), (other, second)):
        if not isinstance(found, list):
            raise ValueError(f"{quoted(name)} is {kind(found)}, must be a list")
    if len(first) != len(second):
        numbers = f"{quoted(one)} has {number_of(len(first), 'item')}, and {quoted(other)} {len(second):,}"
        raise ValueError(f"{numbers}: both must have the same number")
    return zip(first, second, strict=True)


def _unigenbench(rows: Sequence[Row]) -> ChecklistPrompt:
    """Return a check for each test point, in our words: the set has no questions."""
    values: Any = rows[0].values
    language = "zh" if "prompt_zh" in values else "en"
    try:
        points: Any = json_object(values[f"sub_dims_{language}"].encode())
    except InputError as error:
        raise ValueError(f"index {values['index']}: sub_dims_{language} {error}") from error
    names, described, category = ("Testpoints", "Testpoint Description", "Primary Categories")
    ask, negation = "Is this right in the image ({}): {}?", "Grammar - Negation"
    if language == "zh":
        names, described, category = ("考点", "考点对应描述", "一级垂类")
        ask, negation = "图像中这一点是否正确（{}）：{}？", "语法-否定"
    checks = [
        _yes(number, ask.format(name, words), name, name == negation)
        for number, (name, words) in enumerate(_pairs(points, names, described), 1)
    ]
    return ChecklistPrompt(values["index"], f"prompt_{language}", checks, points[category])


def _yes(number: int, question: object, group: str, absence: bool) -> dict[str, object]:
    return {"id": str(number), "question": question, "expected": "yes", "group": group, "absence": absence}


def _corebench(rows: Sequence[Row]) -> ChecklistPrompt:
    values: Any = rows[0].values
    prompt_id = rows[0].where.rsplit(" ", 1)[1]
    task = prompt_id.rpartition("-")[0]
    checks = [
        _yes(number, each["question"], ", ".join(each["tags"]), not _ABSENT.isdisjoint(each["tags"]))
        for number, each in enumerate(values["Checklist"], 1)
    ]
    return ChecklistPrompt(prompt_id, "Prompt", checks, task, (f"{task}/{prompt_id}",))


_ABSENT = frozenset(("instance_neg", "attribute_neg"))
"""Tags of questions that an empty image satisfies."""


def _dsg(rows: Sequence[Row]) -> ChecklistPrompt:
    """Return the checks of an item. Where the set's parents cannot be asked first, they are left out, and noted."""
    checks, parents_of, dropped = list[dict[str, object]](), dict[str, list[str]](), False
    found: list[Any] = [row.values for row in rows]
    known = {values["proposition_id"] for values in found}
    for values in found:
        own, named = values["proposition_id"], [each.strip() for each in values["dependency"].split(",")]
        children = {child for child, parents in parents_of.items() if own in parents}
        parents_of[own] = [each for each in dict.fromkeys(named) if each in known - children - {own}]
        dropped |= bool({*named} - {*parents_of[own], "0"})
        question, group = values["question_natural_language"], values["category_broad"]
        checks.append({"id": own, "question": question, "expected": "yes", "group": group, "parents": parents_of[own]})
    item = found[0]["item_id"]
    notes = ("parents left out that are no other check of the prompt, or lead in a circle",) if dropped else ()
    return ChecklistPrompt(item, "text", checks, item.rpartition("_")[0], notes=notes)


def _tifa(rows: Sequence[Row]) -> ChecklistPrompt:
    checks: list[Mapping[str, object]] = []
    found: list[Any] = [row.values for row in rows]
    for number, values in enumerate(found, 1):
        choices, answer = values["choices"], values["answer"]
        check = {"id": str(number), "question": values["question"], "expected": answer, "group": values["element_type"]}
        if not {*choices} <= {"yes", "no"}:
            if answer not in choices:
                raise ValueError(f"the answer {quoted(answer)} is none of the choices")
            if len(choices) > len(ascii_uppercase):
                raise ValueError(f"question {number} has {len(choices)} choices, allowed are {len(ascii_uppercase)}")
            options = dict(zip(ascii_uppercase, choices, strict=False))
            letter = ascii_uppercase[choices.index(answer)]
            check |= {"form": "choice", "options": options, "expected": letter, "absence": answer == "no"}
        checks.append(check)
    return ChecklistPrompt(found[0]["id"], "caption", checks, found[0]["id"].rpartition("_")[0])


def _aibench(rows: Sequence[Row]) -> ChecklistPrompt:
    values: Any = rows[0].values
    checks: list[dict[str, object]] = []
    for each in values["checklist"]:
        letter, options = each["correct_option"].strip().upper(), each["options"]
        words = options[letter].casefold()
        absence = words == "no" or words.startswith(INSUFFICIENT)
        check = {"id": each["id"], "question": each["question"], "expected": letter, "form": "choice"}
        checks.append({**check, "options": options, "group": each["level"], "absence": absence})
    return ChecklistPrompt(values["id"], "method_text", checks, values["id"].partition("/")[0])


def _members(path: Path, problems: Problems, within: tuple[str, ...]) -> Iterator[Row]:
    """Yield each member of a JSON object as a row at the place of its value."""
    raw = read_regular(path, LONGEST, within)
    json_object(raw.removeprefix(b"\xef\xbb\xbf"))
    text = raw.decode("latin-1")  # a character for each byte, so that positions are those of the file
    at = text.index("{") + 1
    while found := _MEMBER.match(text, at):
        _, at = json.JSONDecoder().raw_decode(text, found.end())
        name, value = found[1].encode("latin-1").decode(), raw[found.end() : at]
        try:
            place = Place(str(path), found.end(), len(value), within=within)
            yield Row(f"{path.name}, {name}", place, json_object(value))
        except ValueError as error:
            problems.add(f"{path.name}, {name}", str(error))


class Published(NamedTuple):
    """A published set, and how its files are found and read."""

    name: str
    licence: str
    file: str
    """Pattern of its files."""
    mark: bytes
    """Key or column that only its files have."""
    draw: Draw
    key: str = ""
    """Key whose value the rows of one prompt share; empty: a prompt has one row."""
    read: Callable[[Path, Problems, tuple[str, ...]], Iterable[Row]] = find_rows

    def rows(self, path: Path, within: tuple[str, ...], problems: Problems) -> Iterable[Sequence[Row]]:
        """Return the rows of each prompt in a file."""
        found: dict[str, list[Row]] = {}
        for row in self.read(path, problems, within):
            found.setdefault(str(row.values.get(self.key)) if self.key else row.where, []).append(row)
        return found.values()


PUBLISHED = {
    # facebookresearch/GenEval2, a6e82d2
    "geneval2": Published(
        "GenEval 2", "CC BY-NC 4.0 (no commercial use)", "geneval2_data.jsonl", b'"vqa_list"', _geneval2
    ),
    # CodeGoat24/UniGenBench, 49d0bce
    "unigenbench": Published("UniGenBench", "CC BY 4.0", "test_prompts_*.csv", b"sub_dims_", _unigenbench),
    # KlingTeam/T2I-CoReBench, ebf7b7a
    "corebench": Published(
        "T2I-CoReBench", "Apache-2.0", "[CR]-[A-Z][A-Z].json", b'"Checklist"', _corebench, read=_members
    ),
    # j-min/DSG, 7330119
    "dsg": Published("DSG-1k", "Apache-2.0", "dsg-1k-anns.csv", b"proposition_id", _dsg, "item_id"),
    # Yushi-Hu/tifa, 8e37050
    "tifa": Published("TIFA", "Apache-2.0", "*_question_answers.json", b'"element_type"', _tifa, "id"),
    # ali-vilab/AIBench, 90eceff
    "aibench": Published("AIBench", "not stated by its repository", "AIBench.jsonl", b'"method_text"', _aibench),
}
FOLDERS = ("", "data", "dsg/data", "tifa_v1.0")
"""Folders in a checkout of a set's repository that may hold its files."""


def set_of(path: Path) -> str:
    """Return the published set that a file, or the target of a link, is of; empty: none."""
    with open_regular(path, within=(real_place(path),)) as file:
        head = file.readline(HEAD) if path.suffix.lower() == ".csv" else file.read(HEAD)
    return next((name for name, each in PUBLISHED.items() if each.mark in head), "")


def files_in(folder: Path, name: str) -> list[Path]:
    """Return the files of a set, or of our manifest, in a folder or in a checkout of the set's repository."""
    pattern = PUBLISHED[name].file if name in PUBLISHED else "manifest.*"
    found = [sorted((folder / each).glob(pattern)) for each in FOLDERS]
    return next((files for files in found if files), list[Path]())
