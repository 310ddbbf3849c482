"""Export of results in the form of a published benchmark, as its own scripts read it."""

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
from tasks.judging.extension import Extension, Opening
from tasks.judging.run import Run
from tasks.records import AspectScore, Outcome, Place, Sample, entries
from tasks.records.parameters import RubricParameters
from tasks.text import listed, natural, number_of


class Judged(NamedTuple):
    """An image that was judged."""

    sample: Sample
    outcome: Outcome

    @property
    def answers(self) -> dict[str, AspectScore]:
        """Check of a checklist -> its score (0-100, None: unscored) and answer."""
        return {each.aspect: each for each in self.outcome.aspects}

    def scores(self) -> list[float | None]:
        """Return the score of each check in the order of the list, 0-1."""
        known = {name: each.score / 100 for name, each in self.answers.items() if each.score is not None}
        return [known.get(check.check_id) for check in self.sample.checks]

    def right(self) -> list[bool | None]:
        """Return whether each check is right, by more than half of the votes."""
        return [None if score is None else score > 0.5 for score in self.scores()]

    @property
    def file(self) -> str:
        """File of the image; empty: there is none."""
        place = self.sample.pictures["image"].place
        return place.path if place else ""


def geneval(judged: Sequence[Judged], opening: Opening) -> Iterator[str]:
    """Yield a line with GenEval's keys for each image that `_correct` can decide.

    Like there, `metadata` and `details` are strings that contain JSON. Summaries group images by the text of the
    metadata, which is the prompt's own row, keys in their order.
    """
    asked: Any = opening.asked
    for each in judged:
        if not (found := _correct(each, opening)):
            continue
        (sample, outcome), (is_correct, rule, why) = each, found
        exclude = {"exclude": entries(sample.excluded)} if sample.excluded else {}
        metadata = {"tag": outcome.tag, "include": entries(sample.required), **exclude, "prompt": outcome.prompt}
        details = {
            "candidate": outcome.candidate,
            "correct_by": rule,
            "aspects": {name: {"score": a.score, "explanation": a.explanation} for name, a in each.answers.items()},
            "score": outcome.score,
            "threshold": asked.threshold,
            "aspect_mean": outcome.aspect_mean,
            "satisfied": outcome.satisfied,
        }
        line = {
            "filename": each.file,
            "tag": outcome.tag,
            "prompt": outcome.prompt,
            "correct": is_correct,
            "reason": (outcome.tier_path if rule == "score" else "") or why,
            "metadata": json.dumps(metadata),
            "details": json.dumps(details),
        }
        yield json.dumps(line) + "\n"


def _correct(judged: Judged, opening: Opening) -> tuple[bool, str, str] | None:
    """Return whether an image is correct, the name of the rule that decides, and the reason if it is not.

    If the tag's prompt asks for the objects in the image, it is correct if it shows the required ones, at any score
    (`satisfied`). Otherwise, or for a sample that lists no required objects, the threshold decides (`score`). None: the
    image has no file or no score, or the judge's answer about the objects is undecided.
    """
    asked: Any = opening.asked
    sample, outcome = judged
    checked = {prompt.dimension for prompt in opening.rubric.prompts if "objects" in prompt.inputs}
    if outcome.score is None or not judged.file:
        return None
    if outcome.tag in checked and sample.required:
        words = "" if outcome.satisfied else "what the judge sees is not what was asked for"
        return None if outcome.satisfied is None else (outcome.satisfied, "satisfied", words)
    is_good = outcome.score >= asked.threshold
    return is_good, "score", "" if is_good else f"score {outcome.score:g} is below {asked.threshold:g}"


def geneval2(judged: Sequence[Judged], _: Opening) -> Iterator[str]:
    """Yield a list of the scores of each prompt, in the order of the set's file; a check without one is null.

    Of several images of a prompt each check has the mean, since the set has one image a prompt.
    """
    from tasks.protocols.checklist.prompts import build_prompt  # no other kind needs this folder
    from tasks.protocols.checklist.published import PUBLISHED

    place = judged[0].sample.record
    scores: dict[str, list[list[float | None]]] = {}
    for each in judged:
        scores.setdefault(each.sample.prompt_id, []).append(each.scores())
    lines: list[list[float | None]] = []
    for rows in PUBLISHED["geneval2"].rows(Path(place.path), place.within, Problems()):
        if prompt := build_prompt(rows, Problems(), PUBLISHED["geneval2"].draw):
            images = scores.get(prompt.prompt_id) or [[None] * len(prompt.checks)]
            lines.append([_mean(column) for column in zip(*images, strict=True)])
    yield json.dumps(lines)


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return fmean(known) if known else None


def unigenbench(judged: Sequence[Judged], _: Opening) -> Iterator[str]:
    """Yield a CSV row for each image, with its test points that have a score."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(("index", "prompt", "testpoint", "output", "result_json", "img_path"))
    for each in judged:
        scored = [(c, s) for c, s in zip(each.sample.checks, each.right(), strict=True) if s is not None]
        points, scores = [check.group for check, _ in scored], [int(score) for _, score in scored]
        analysis = [each.answers[check.check_id].explanation for check, _ in scored]
        found = {"index": each.sample.prompt_id, "testpoint": points, "analysis": analysis, "score": scores}
        result = json.dumps(found, ensure_ascii=False) if scored else ""
        text = read_texts(each.sample)["prompt"]
        writer.writerow((each.sample.prompt_id, text, str(points), "", result, each.file))
    yield file.getvalue()


def corebench(judged: Sequence[Judged], _: Opening) -> Iterator[str]:
    """Yield each image's record of the set with the score of each question; a question without one has ""."""
    images: dict[str, Any] = {}
    for each in judged:
        record: Any = _record(each.sample.record)
        scores = each.right()
        known = [score for score in scores if score is not None]
        for asked, score in zip(record["Checklist"], scores, strict=True):
            asked["score"] = "" if score is None else int(score)
        prompt_id, name = each.sample.prompt_id, each.sample.sample_id.rpartition("/")[2]
        name = name if name.startswith(f"{prompt_id}-") else f"{prompt_id}-{name}"
        images[name] = record | {"image_score": fmean(known) if known else ""}
    means = [image["image_score"] for image in images.values() if image["image_score"] != ""]
    yield json.dumps({"mean_score": fmean(means) if means else ""} | images, ensure_ascii=False, indent=2)


def _record(place: Place) -> dict[str, object]:
    with open_regular(Path(place.path), within=place.within) as file:
        file.seek(place.start)
        return json_object(file.read(place.length))


def aibench(judged: Sequence[Judged], _: Opening) -> Iterator[str]:
    """Yield a record for the first image of each paper; a check without a score is wrong, as in the set's script."""
    first: dict[str, Judged] = {}
    for each in judged:
        first.setdefault(each.sample.prompt_id, each)
    for prompt_id, each in first.items():
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
        yield json.dumps({"stage": "success", "prompt_id": prompt_id, "steps": steps}, ensure_ascii=False) + "\n"


class Form(NamedTuple):
    """Form of an export."""

    endings: tuple[str, ...]
    """Endings of its file: a person who fills in a form must not be able to create settings of a program."""
    begin: str
    """Beginning of every export in this form: a slip in a form must not cost another file."""
    write: Callable[[Sequence[Judged], Opening], Iterator[str]]


GENEVAL = Form((".jsonl", ".ndjson", ".json"), '{"filename"', geneval)
CHECKLISTS = {
    "geneval2": Form((".json",), "[[", geneval2),
    "unigenbench": Form((".csv",), "index,prompt,testpoint,", unigenbench),
    "corebench": Form((".json",), '{\n  "mean_score"', corebench),
    "aibench": Form((".jsonl",), '{"stage"', aibench),
}
"""Published set of checklists -> its form."""


class Export(Extension):
    """Extension for a run that exports its results: the file is written whole, or not at all."""

    async def prepare(self, dataset: Dataset) -> Dataset:
        """See `Extension.prepare`: an impossible export is refused before the first call."""
        form = self._form(dataset.samples[0])
        if len(dataset.candidates) > 1:
            named = listed(dataset.candidates)
            raise InputError(f"export takes the images of one candidate, found {named}: set `candidate` to one of them")
        if form is CHECKLISTS["geneval2"] and self._asked.skip_broken:
            raise InputError("export: GenEval 2 counts results by the rows of its file: leave out skip_broken")
        _check(self._path, form)
        return dataset

    @property
    def _asked(self) -> Any:
        return self.opening.asked

    @property
    def _path(self) -> Path:
        return Path(self._asked.export).expanduser().absolute()

    def _form(self, sample: Sample) -> Form:
        if isinstance(self._asked, RubricParameters):
            return GENEVAL
        from tasks.protocols.checklist.published import set_of  # no other kind needs this folder

        form = CHECKLISTS.get(self._asked.format or set_of(Path(sample.record.path)))
        if form is None:
            raise InputError(f"export: this dataset has no form of its own; allowed are {listed(CHECKLISTS)}")
        return form

    async def begin(self, run: Run) -> None:
        """See `Extension.begin`."""
        self._judged: list[Judged] = []

    def after_outcome(self, sample: Sample, outcome: Outcome) -> None:
        """See `Extension.after_outcome`: controls and anchors are no results, nor are checks of a missing image."""
        if not outcome.control and not (sample.checks and outcome.status == "bad_picture"):
            self._judged.append(Judged(sample, outcome))

    async def finish(self) -> Sequence[str]:
        """See `Extension.finish`."""
        if not self._judged:
            return ["nothing was judged, so there is no export"]
        form, order = self._form(self._judged[0].sample), sorted(self._judged, key=_place)
        try:
            lines = list(form.write(order, self.opening))
            write_whole(self._path, "".join(lines).encode())
        except OSError as error:
            return [f"export {self._path}: cannot be written: {error.strerror or error}"]
        if form is GENEVAL:
            lacking = len(order) - len(lines)
            words = "left out of the export: no file, no score, or unclear if as asked"
            return [f"{number_of(lacking, 'image')} {words}"] if lacking else []
        unscored = sum(score is None for each in order for score in each.scores())
        return [f"{number_of(unscored, 'check')} of the export without a score"] if unscored else []


def _place(each: Judged) -> tuple[object, ...]:
    return each.sample.record.path, each.sample.record.start, natural(each.sample.sample_id)


def _check(path: Path, form: Form) -> None:
    """Raise InputError if an export cannot be written to a path, or another file would be lost."""
    if path.suffix.lower() not in form.endings:
        raise InputError(f"export {path}: found another ending; allowed: {listed(form.endings)}")
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
