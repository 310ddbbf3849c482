"""Export of results as GenEval's own result files have them: one JSON line an image."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from tasks.errors import InputError
from tasks.parameters import Parameters, RubricParameters
from tasks.records import Outcome, Requirement, Sample
from tasks.rubrics.rubric import Rubric

ENDINGS = (".jsonl", ".ndjson", ".json")
"""Of a file to write: whoever fills in a form must not be able to make a program's settings of it."""
_BEGIN = b'{"filename"'
"""How every export begins, GenEval's own too."""


class Exported(NamedTuple):
    """How many images a file came to hold."""

    written: int
    left_out: int
    """Images without a score, or of which it is not known whether they are as asked: `correct` is only yes or no."""


class _Judged(NamedTuple):
    """Whether an image is correct."""

    correct: bool
    by: str
    """What says so: `satisfied` (what was asked for is what is seen), or the `score` against the threshold."""
    words: str
    """Why it is not; empty when it is."""


def open_export(parameters: Parameters, candidates: Sequence[str], rubric: Rubric) -> "Export | None":
    """The file that a run was asked to write besides; None when it was not.

    Raises:
        InputError: nothing can be written there, another file would be lost, or the images of several candidates would
            fall together.
    """
    if not isinstance(parameters, RubricParameters) or not parameters.export:
        return None
    if len(candidates) > 1:
        named = ", ".join(candidates)
        raise InputError(f"export takes the images of one candidate, found {named}: set `candidate` to one of them")
    path = Path(parameters.export).expanduser().absolute()
    if path.is_file() and not _may_be_replaced(path):
        raise InputError(f"export {path}: found a file that is no export; allowed: a new name, or an earlier export's")
    checked = {prompt.dimension for prompt in rubric.prompts if "objects" in prompt.inputs}
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"export {path}: found another ending; allowed: {', '.join(ENDINGS)}")
    return Export(path, parameters.threshold, checked)


def _may_be_replaced(path: Path) -> bool:
    """Whether a file is empty or an earlier export: a slip in the form must not cost a dataset."""
    with path.open("rb") as file:
        return file.read(len(_BEGIN)) in (b"", _BEGIN)


class Export:
    """A result file in the making: written beside its place and put there whole by `close`."""

    def __init__(self, path: Path, threshold: float, checked: Collection[str] = ()) -> None:
        """Begin the file; an older one stays until `close`.

        Args:
            threshold: score (0-10) from which an image is correct.
            checked: tags whose prompt asks what is in the image. Theirs is correct where that is what was asked for,
                whatever its score; but for prompts of which it is not known what they ask for.

        Raises:
            InputError: nothing can be written there, which is better known before the first call than after the last.
        """
        self._path, self._threshold, self._checked = path, threshold, checked
        self._draft = path.with_name(f".{path.name}.{token_hex(4)}.tmp")
        self._written = self._left_out = 0
        if path.is_dir():
            raise InputError(f"export {path}: found a folder; allowed: the name of a file")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._draft.open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise InputError(f"export {path}: cannot be written: {error.strerror}") from error

    def add(self, outcome: Outcome, sample: Sample) -> None:
        """Write the line of one image, or count it as left out when it has no score or `correct` is not known."""
        place = sample.pictures["image"].place
        judged = self._judged(outcome, sample)
        if judged is None or place is None:
            self._left_out += 1
            return
        self._written += 1
        self._file.write(json.dumps(_line(outcome, judged, sample, place.path, self._threshold)) + "\n")

    def _judged(self, outcome: Outcome, sample: Sample) -> _Judged | None:
        if outcome.score is None:
            return None
        if outcome.tag in self._checked and sample.required:
            words = "" if outcome.satisfied else "what the judge sees is not what was asked for"
            return None if outcome.satisfied is None else _Judged(outcome.satisfied, "satisfied", words)
        correct = outcome.score >= self._threshold
        words = "" if correct else f"score {outcome.score:g} is below {self._threshold:g}"
        return _Judged(correct, "score", words)

    def close(self) -> Exported:
        """Put the file in its place and say what it holds."""
        self._file.close()
        self._draft.replace(self._path)
        return Exported(self._written, self._left_out)

    def discard(self) -> None:
        """Give the file up, for a run that stopped; an older one stays. After `close` there is nothing to give up."""
        self._file.close()
        self._draft.unlink(missing_ok=True)


def _line(outcome: Outcome, judged: _Judged, sample: Sample, filename: str, threshold: float) -> dict[str, Any]:
    """One image in GenEval's keys; `metadata` and `details` are strings that hold JSON, as they are there."""
    path = outcome.tier_path if judged.by == "score" else ""
    return {
        "filename": filename,
        "tag": outcome.tag,
        "prompt": outcome.prompt,
        "correct": judged.correct,
        "reason": path or judged.words,
        "metadata": json.dumps(_metadata(outcome, sample)),
        "details": json.dumps(_details(outcome, judged, threshold)),
    }


def _metadata(outcome: Outcome, sample: Sample) -> dict[str, Any]:
    """The prompt's row of GenEval's metadata, with its keys in their order: summaries group images by this text."""
    exclude = {"exclude": entries(sample.excluded)} if sample.excluded else {}
    return {"tag": outcome.tag, "include": entries(sample.required), **exclude, "prompt": outcome.prompt}


def entries(requirements: Sequence[Requirement]) -> list[dict[str, Any]]:
    """Requirements as entries of GenEval's `include` or `exclude`."""
    return [
        {"class": each.name, "count": each.count}
        | ({"color": each.color} if each.color else {})
        | ({"position": [each.relation, each.target]} if each.relation else {})
        for each in requirements
    ]


def _details(outcome: Outcome, judged: _Judged, threshold: float) -> dict[str, Any]:
    return {
        "candidate": outcome.candidate,
        "correct_by": judged.by,
        "aspects": {each.aspect: {"score": each.score, "explanation": each.explanation} for each in outcome.aspects},
        "score": outcome.score,
        "threshold": threshold,
        "aspect_mean": outcome.aspect_mean,
        "satisfied": outcome.satisfied,
    }
