"""The GenEval export, read as GenEval's summary reads its results: grouped by tag and by the metadata text."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import factories
import polars as pl
import pytest
from geneval_rows import sample
from own_data import each_list

from tasks.datasets.dataset import Dataset
from tasks.errors import InputError
from tasks.extensions.export import Export
from tasks.judging.extension import Opening
from tasks.records import AspectScore, Outcome, PictureSource, Place, Sample
from tasks.records.parameters import RubricParameters
from tasks.rubrics.rubric import load_rubric

CLOCKS = (
    '{"tag": "counting", "include": [{"class": "clock", "count": 2}], "exclude": [{"class": "clock", "count": 3}], '
    '"prompt": "a photo of two clocks"}'
)
DOG = (
    '{"tag": "position", "include": [{"class": "teddy bear", "count": 1}, '
    '{"class": "dog", "count": 1, "position": ["right of", 0]}], "prompt": "a photo of a dog right of a teddy bear"}'
)


def image(row: str, name: str = "00000/0000") -> Sample:
    picture = PictureSource(place=Place(path=f"/images/{name}.png"))
    return sample(row, sample_id=name, pictures={"image": picture})


def outcome(row: str, score: float | None, **changes: Any) -> Outcome:
    values = json.loads(row)
    aspects = (AspectScore(aspect="count_accuracy", score=score, explanation="Two clocks."),)
    return factories.outcome(
        score=score, tag=values["tag"], prompt=values["prompt"], aspects=aspects, tier_path="overall: fine", **changes
    )


def opened(path: Path, prompt_set: str = "default", **asked: Any) -> Export:
    """Return the export of a run before its first call."""
    parameters, unused = RubricParameters(export=str(path), **asked), cast(Any, None)
    export = Export(Opening("counting", parameters, parameters, load_rubric("counting", prompt_set), None, False))
    dataset = Dataset(name="", key="", samples=(image(CLOCKS),), candidates=("steady",), warnings=())
    asyncio.run(export.prepare(dataset))
    asyncio.run(export.begin(unused))
    return export


def export(path: Path, images: list[tuple[Outcome, Sample]], prompt_set: str = "default", **asked: Any) -> list[str]:
    """Write a file of images; return the warnings."""
    written = opened(path, prompt_set, **asked)
    for decided, judged in images:
        written.after_outcome(judged, decided)
    return [*asyncio.run(written.finish())]


def scored(images: list[tuple[str, float | None]]) -> list[tuple[Outcome, Sample]]:
    """Return images, given as GenEval rows with scores."""
    return [(outcome(row, score), image(row, f"00000/{number:04}")) for number, (row, score) in enumerate(images)]


LEFT_OUT = "left out of the export: no file, no score, or unclear if as asked"


def test_export_can_be_summarized_by_tag_and_prompt(tmp_path: Path):
    file = tmp_path / "new" / "results.jsonl"
    images = [(CLOCKS, 9.0), (CLOCKS, 2.0), (CLOCKS, 6.5), (DOG, 3.0), (CLOCKS, 7.0), (DOG, 6.9)]
    assert export(file, scored(images)) == []
    frame = pl.read_ndjson(file)
    assert frame.height == 6
    assert frame.columns == ["filename", "tag", "prompt", "correct", "reason", "metadata", "details"]
    assert dict(frame.group_by("tag").agg(pl.col("correct").mean()).iter_rows()) == {"counting": 0.5, "position": 0.0}
    prompts = frame.group_by("metadata").agg(pl.col("correct").any())
    assert (prompts.height, prompts["correct"].mean()) == (2, 0.5)
    assert frame["filename"][3] == "/images/00000/0003.png"


@each_list
def test_metadata_equal_geneval_rows_exactly(tmp_path: Path, geneval_list: Path):
    rows = geneval_list.read_text(encoding="utf-8").splitlines()
    export(tmp_path / "results.jsonl", scored([(row, 5.0) for row in rows]))
    assert pl.read_ndjson(tmp_path / "results.jsonl")["metadata"].to_list() == rows


def test_details_explain_scores_and_unscored_images_are_counted(tmp_path: Path):
    file, nowhere = tmp_path / "results.jsonl", {"image": PictureSource(problem="no picture: alpha has none")}
    images = [*scored([(CLOCKS, None), (DOG, None)]), (outcome(CLOCKS, 8.0), replace(image(CLOCKS), pictures=nowhere))]
    kept = outcome(CLOCKS, 6.5, aspect_mean=6.0, satisfied=False)
    control = outcome(CLOCKS, 1.0, control="blank")
    warnings = export(file, [*images, (kept, image(CLOCKS)), (control, image(CLOCKS))], threshold=6.5)
    assert warnings == [f"3 images {LEFT_OUT}"]
    (row,) = pl.read_ndjson(file).to_dicts()
    assert row["correct"] is True
    assert json.loads(row["details"]) == {
        "candidate": "alpha",
        "correct_by": "score",
        "aspects": {"count_accuracy": {"score": 6.5, "explanation": "Two clocks."}},
        "score": 6.5,
        "threshold": 6.5,
        "aspect_mean": 6.0,
        "satisfied": False,
    }


@pytest.mark.parametrize(
    ("score", "path", "reason"),
    [
        (2.0, "overall 2: blurred", "overall 2: blurred"),
        (2.0, "", "score 2 is below 7"),
        (7.0, "overall 7: two clocks\nside by side", "overall 7: two clocks\nside by side"),
        (7.0, "", ""),
    ],
)
def test_reason_is_the_judges_or_the_threshold(tmp_path: Path, score: float, path: str, reason: str):
    decided = outcome(CLOCKS, score).model_copy(update={"tier_path": path})
    export(tmp_path / "results.jsonl", [(decided, image(CLOCKS))])
    assert pl.read_ndjson(tmp_path / "results.jsonl")["reason"].to_list() == [reason]


def test_older_export_is_kept_until_the_new_one_is_complete(tmp_path: Path):
    file = tmp_path / "results.jsonl"
    export(file, scored([(CLOCKS, 9.0)]))
    older = file.read_text(encoding="utf-8")
    stopped = opened(file)
    stopped.after_outcome(image(DOG), outcome(DOG, 9.0))
    asyncio.run(stopped.close())
    assert (list(tmp_path.iterdir()), file.read_text(encoding="utf-8")) == ([file], older)
    assert export(file, []) == ["nothing was judged, so there is no export"]
    assert file.read_text(encoding="utf-8") == older
    assert export(file, scored([(DOG, 9.0)])) == []
    assert (list(tmp_path.iterdir()), "position" in file.read_text(encoding="utf-8")) == ([file], True)


def test_only_an_export_is_overwritten(tmp_path: Path):
    dataset, earlier = tmp_path / "dataset.jsonl", tmp_path / "results.JSONL"
    dataset.write_text('{"id": "0"}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"dataset.jsonl: found a file that is no export; allowed: a new name"):
        opened(dataset)
    assert dataset.read_text(encoding="utf-8") == '{"id": "0"}\n'
    with pytest.raises(InputError, match=r"results.csv: found another ending; allowed: .jsonl, .ndjson, .json"):
        opened(tmp_path / "results.csv")
    earlier.touch()
    for _ in range(2):  # the first time over an empty file
        assert export(earlier, scored([(CLOCKS, 9.0)])) == []


@pytest.mark.parametrize(
    ("prompt_set", "score", "satisfied", "expected"),
    [
        ("checked", 9.0, False, [(False, "satisfied", "what the judge sees is not what was asked for")]),
        ("checked", 2.0, True, [(True, "satisfied", "")]),
        ("checked", 9.0, None, []),
        ("default", 9.0, None, [(True, "score", "overall: fine")]),
        ("default", 2.0, None, [(False, "score", "overall: fine")]),
    ],
)
def test_correct_follows_the_requirements_if_the_prompt_set_checks_them(
    tmp_path: Path, prompt_set: str, score: float, satisfied: bool | None, expected: list[tuple[bool, str, str]]
):
    file = tmp_path / "results.jsonl"
    warnings = export(file, [(outcome(CLOCKS, score, satisfied=satisfied), image(CLOCKS))], prompt_set)
    assert warnings == [f"1 image {LEFT_OUT}"] * (not expected)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [(row["correct"], json.loads(row["details"])["correct_by"], row["reason"]) for row in rows] == expected


def test_correct_of_an_unparsed_prompt_follows_the_score(tmp_path: Path):
    file = tmp_path / "results.jsonl"
    unparsed = replace(image(CLOCKS), required=(), excluded=())
    assert export(file, [(outcome(CLOCKS, 9.0), unparsed)], "checked") == []
    assert json.loads(json.loads(file.read_text(encoding="utf-8"))["details"])["correct_by"] == "score"
