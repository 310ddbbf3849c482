"""Export of results in the format of GenEval's own result files: one JSON line for each image."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from tasks.errors import InputError
from tasks.judging.extension import Extension
from tasks.judging.run import Run
from tasks.protocols.images.requirements import entries
from tasks.records import Outcome, Sample
from tasks.records.parameters import Parameters, RubricParameters
from tasks.rubrics.rubric import Rubric

ENDINGS = (".jsonl", ".ndjson", ".json")
"""Endings of an export: a person who fills in a form must not be able to create settings of a program."""
_BEGIN = b'{"filename"'
"""First bytes of every export, including GenEval's own."""


class _Judged(NamedTuple):
    """Correctness of an image, with the reason."""

    correct: bool
    by: str
    """Basis of `correct`: `satisfied` (the judge sees the required objects), or the `score` against the threshold."""
    words: str
    """Reason why it is not correct; empty if it is."""


def open_export(parameters: Parameters, candidates: Sequence[str], rubric: Rubric) -> "Export | None":
    """Open the file that a run was asked to export to; return None if none was asked for.

    Raises:
        InputError: the file cannot be written, another file would be lost, or the images of several candidates would be
            mixed.
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
    """Return whether a file is empty or an earlier export: a slip in the form must not cost a dataset."""
    with path.open("rb") as file:
        return file.read(len(_BEGIN)) in (b"", _BEGIN)


class Export:
    """Result file in the making: written beside its place, and moved there whole by `close`."""

    def __init__(self, path: Path, threshold: float, checked: Collection[str] = ()) -> None:
        """Begin the file; an older one remains until `close`.

        Args:
            threshold: score (0-10) from which an image is correct.
            checked: tags whose prompt asks for the objects in the image. There an image is correct if it shows the
                required objects, whatever its score. The score decides for samples that list no required objects.

        Raises:
            InputError: the file cannot be written; this is reported before the first call, not after the last.
        """
        self._path, self._threshold, self._checked = path, threshold, checked
        self._draft = path.with_name(f".{path.name}.{token_hex(4)}.tmp")
        self._left_out = 0
        if path.is_dir():
            raise InputError(f"export {path}: found a folder; allowed: the name of a file")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._draft.open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise InputError(f"export {path}: cannot be written: {error.strerror}") from error

    def add(self, outcome: Outcome, sample: Sample) -> None:
        """Write the line of one image, or count it as left out if its score, its file or `correct` is unknown."""
        place = sample.pictures["image"].place
        judged = self._judged(outcome, sample)
        if judged is None or place is None:
            self._left_out += 1
            return
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

    def close(self) -> int:
        """Move the file to its place; return how many images it leaves out, because `correct` is only yes or no."""
        self._file.close()
        self._draft.replace(self._path)
        return self._left_out

    def discard(self) -> None:
        """Delete the draft of a run that stopped; an older file remains. After `close` there is no draft."""
        self._file.close()
        self._draft.unlink(missing_ok=True)


def _line(outcome: Outcome, judged: _Judged, sample: Sample, filename: str, threshold: float) -> dict[str, Any]:
    """Return one image with GenEval's keys; like there, `metadata` and `details` are strings that contain JSON.

    Summaries group images by the text of the metadata, which is the prompt's own row, keys in their order.
    """
    exclude = {"exclude": entries(sample.excluded)} if sample.excluded else {}
    metadata = {"tag": outcome.tag, "include": entries(sample.required), **exclude, "prompt": outcome.prompt}
    aspects = {each.aspect: {"score": each.score, "explanation": each.explanation} for each in outcome.aspects}
    details = {
        "candidate": outcome.candidate,
        "correct_by": judged.by,
        "aspects": aspects,
        "score": outcome.score,
        "threshold": threshold,
        "aspect_mean": outcome.aspect_mean,
        "satisfied": outcome.satisfied,
    }
    return {
        "filename": filename,
        "tag": outcome.tag,
        "prompt": outcome.prompt,
        "correct": judged.correct,
        "reason": (outcome.tier_path if judged.by == "score" else "") or judged.words,
        "metadata": json.dumps(metadata),
        "details": json.dumps(details),
    }


class GenevalExport(Extension):
    """Extension for a run that exports its results."""

    _export: Export | None = None

    async def begin(self, run: Run) -> None:
        """See `Extension.begin`."""
        self._export = open_export(run.parameters, run.start.candidates, run.rubric)

    def after_outcome(self, sample: Sample, outcome: Outcome) -> None:
        """See `Extension.after_outcome`: controls and anchors are no results."""
        if self._export and not outcome.control:
            self._export.add(outcome, sample)

    async def finish(self) -> Sequence[str]:
        """See `Extension.finish`."""
        left_out = self._export.close() if self._export else 0
        if not left_out:
            return ()
        unclear = f"{left_out} images without a score, or of which it is not clear whether they are as asked"
        return [f"{unclear}, are not in the export"]

    async def close(self) -> None:
        """See `Extension.close`: an export that is not finished leaves no file."""
        if self._export:
            self._export.discard()
