"""Export of checklist results in the form of the published set, as the set's own scripts read it."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from tasks.datasets.dataset import Dataset
from tasks.datasets.entries import read_texts
from tasks.datasets.rows import json_object
from tasks.errors import InputError, Problems
from tasks.files import open_regular, write_whole
from tasks.judging.extension import Extension
from tasks.judging.run import Run
from tasks.protocols.checklist.prompts import build_prompt
from tasks.protocols.checklist.published import PUBLISHED, set_of
from tasks.records import AspectScore, Outcome, Place, Sample
from tasks.text import listed, natural, number_of


class Judged(NamedTuple):
    """An image, and the score (0-100, None: unscored) and answer for each check."""

    sample: Sample
    answers: dict[str, AspectScore]

    def scores(self) -> Iterator[float | None]:
        """Yield the score of each check in the order of the list, 0-1."""
        for check in self.sample.checks:
            score = self.answers[check.check_id].score if check.check_id in self.answers else None
            yield None if score is None else score / 100

    def right(self) -> Iterator[bool | None]:
        """Yield whether each check is right, by more than half of the votes."""
        return (None if score is None else score > 0.5 for score in self.scores())


def geneval2(judged: Sequence[Judged]) -> str:
    """Return a list of the scores of each prompt, in the order of the set's file; a check without one is null.

    Of several images of a prompt each check has the mean, since the set has one image a prompt.
    """
    place = judged[0].sample.record
    scores: dict[str, list[list[float | None]]] = {}
    for each in judged:
        scores.setdefault(each.sample.prompt_id, []).append(list(each.scores()))
    lines: list[list[float | None]] = []
    for rows in PUBLISHED["geneval2"].rows(Path(place.path), place.within, Problems()):
        if prompt := build_prompt(rows, Problems(), PUBLISHED["geneval2"].draw):
            images = scores.get(prompt.prompt_id) or [[None] * len(prompt.checks)]
            lines.append([_mean(column) for column in zip(*images, strict=True)])
    return json.dumps(lines)


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return fmean(known) if known else None


def unigenbench(judged: Sequence[Judged]) -> str:
    """Return a CSV row for each image, with its test points that have a score."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(("index", "prompt", "testpoint", "output", "result_json", "img_path"))
    for each in judged:
        scored = [(c, s) for c, s in zip(each.sample.checks, each.right(), strict=True) if s is not None]
        points, scores = [check.group for check, _ in scored], [int(score) for _, score in scored]
        analysis = [each.answers[check.check_id].explanation for check, _ in scored]
        found = {"index": each.sample.prompt_id, "testpoint": points, "analysis": analysis, "score": scores}
        text, place = read_texts(each.sample)["prompt"], each.sample.pictures["image"].place
        result = json.dumps(found, ensure_ascii=False) if scored else ""
        writer.writerow((each.sample.prompt_id, text, str(points), "", result, place.path if place else ""))
    return file.getvalue()


def corebench(judged: Sequence[Judged]) -> str:
    """Return each image's record of the set with the score of each question; a question without one has ""."""
    images: dict[str, Any] = {}
    for each in judged:
        record: Any = _record(each.sample.record)
        scores = list(each.right())
        known = [score for score in scores if score is not None]
        for asked, score in zip(record["Checklist"], scores, strict=True):
            asked["score"] = "" if score is None else int(score)
        prompt_id, name = each.sample.prompt_id, each.sample.sample_id.rpartition("/")[2]
        name = name if name.startswith(f"{prompt_id}-") else f"{prompt_id}-{name}"
        images[name] = record | {"image_score": fmean(known) if known else ""}
    means = [image["image_score"] for image in images.values() if image["image_score"] != ""]
    return json.dumps({"mean_score": fmean(means) if means else ""} | images, ensure_ascii=False, indent=2)


def _record(place: Place) -> dict[str, object]:
    with open_regular(Path(place.path), within=place.within) as file:
        file.seek(place.start)
        return json_object(file.read(place.length))


def aibench(judged: Sequence[Judged]) -> str:
    """Return a record for the first image of each paper; a check without a score is wrong, as in the set's script."""
    lines: dict[str, str] = {}
    for each in judged:
        details = [
            {
                "qid": check.check_id,
                "level": check.group,
                "question": check.question,
                "options": dict(check.options),
                "gt": check.expected[0],
                "pred": "" if right is None else each.answers[check.check_id].explanation[0],
                "is_correct": bool(right),
            }
            for check, right in zip(each.sample.checks, each.right(), strict=True)
        ]
        share = fmean(bool(right) for right in each.right())
        steps = [{"task": "visual_qa", "score": share, "details": details}]
        line = {"stage": "success", "prompt_id": each.sample.prompt_id, "steps": steps}
        lines.setdefault(each.sample.prompt_id, json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(lines.values())


class Form(NamedTuple):
    """Form of an export."""

    ending: str
    """Only ending of its file: a person who fills in a form must not be able to create settings of a program."""
    begin: str
    """Beginning of every export in this form, which the set's own files do not have."""
    write: Callable[[Sequence[Judged]], str]


FORMS = {
    "geneval2": Form(".json", "[[", geneval2),
    "unigenbench": Form(".csv", "index,prompt,testpoint,", unigenbench),
    "corebench": Form(".json", '{\n  "mean_score"', corebench),
    "aibench": Form(".jsonl", '{"stage"', aibench),
}


class ChecklistExport(Extension):
    """Extension for a run of a published set that exports its results."""

    async def prepare(self, dataset: Dataset) -> Dataset:
        """See `Extension.prepare`: an impossible export is refused before the first call."""
        asked: Any = self.opening.asked
        form = FORMS.get(asked.format or set_of(Path(dataset.samples[0].record.path)))
        if form is None:
            raise InputError(f"export: this dataset has no form of its own; allowed are {listed(FORMS)}")
        if len(dataset.candidates) > 1:
            named = listed(dataset.candidates)
            raise InputError(f"export takes the images of one candidate, found {named}: set `candidate` to one of them")
        _check(self._path, form)
        return dataset

    @property
    def _path(self) -> Path:
        asked: Any = self.opening.asked
        return Path(asked.export).expanduser().absolute()

    async def begin(self, run: Run) -> None:
        """See `Extension.begin`."""
        self._judged: list[Judged] = []

    def after_outcome(self, sample: Sample, outcome: Outcome) -> None:
        """See `Extension.after_outcome`: controls and anchors are no results, nor is an image that does not exist."""
        if not outcome.control and outcome.status != "bad_picture":
            self._judged.append(Judged(sample, {each.aspect: each for each in outcome.aspects}))

    async def finish(self) -> Sequence[str]:
        """See `Extension.finish`: the file is written whole, or not at all."""
        if not self._judged:
            return ["nothing was judged, so there is no export"]
        asked: Any = self.opening.asked
        form = FORMS[asked.format or set_of(Path(self._judged[0].sample.record.path))]
        order = sorted(self._judged, key=_place)
        try:
            write_whole(self._path, form.write(order).encode())
        except OSError as error:
            return [f"export {self._path}: cannot be written: {error.strerror or error}"]
        unscored = sum(score is None for each in order for score in each.scores())
        return [f"{number_of(unscored, 'check')} of the export without a score"] if unscored else []


def _place(each: Judged) -> tuple[object, ...]:
    return each.sample.record.path, each.sample.record.start, natural(each.sample.sample_id)


def _check(path: Path, form: Form) -> None:
    """Raise InputError if an export cannot be written to a path, or another file would be lost."""
    if path.suffix.lower() != form.ending:
        raise InputError(f"export {path}: found another ending; allowed: {form.ending}")
    if path.is_dir():
        raise InputError(f"export {path}: found a folder; allowed: the name of a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):  # the folder can be written
            found = path.read_bytes()[: len(form.begin)] if path.is_file() else b""
    except OSError as error:
        raise InputError(f"export {path}: cannot be written: {error.strerror}") from error
    if found not in (b"", form.begin.encode()):
        raise InputError(f"export {path}: found a file that is no export; allowed: a new name, or an earlier export's")
