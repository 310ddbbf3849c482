"""The GenEval export, read as GenEval's summary reads its results: grouped by tag and by the metadata text."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import factories
import polars as pl
import pytest
from geneval_rows import sample
from own_data import each_list

from tasks.extensions.geneval_export import Export, open_export
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


def export(path: Path, images: list[tuple[str, float | None]], threshold: float = 7.0) -> int:
    """Write a file of images, given as GenEval rows with scores; return how many were left out."""
    writer = Export(path, threshold)
    for number, (row, score) in enumerate(images):
        writer.add(outcome(row, score), image(row, f"00000/{number:04}"))
    return writer.close()


def test_export_can_be_summarized_by_tag_and_prompt(tmp_path: Path):
    file = tmp_path / "new" / "results.jsonl"
    images = [(CLOCKS, 9.0), (CLOCKS, 2.0), (CLOCKS, 6.5), (DOG, 3.0), (CLOCKS, 7.0), (DOG, 6.9)]
    assert export(file, images) == 0
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
    export(tmp_path / "results.jsonl", [(row, 5.0) for row in rows])
    assert pl.read_ndjson(tmp_path / "results.jsonl")["metadata"].to_list() == rows


def test_details_explain_scores_and_unscored_images_are_counted(tmp_path: Path):
    assert export(tmp_path / "results.jsonl", [(CLOCKS, 0.0), (CLOCKS, None), (DOG, None)]) == 2
    assert len((tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()) == 1
    writer = Export(tmp_path / "results.jsonl", 6.5)
    writer.add(outcome(CLOCKS, 6.5, aspect_mean=6.0, satisfied=False), image(CLOCKS))
    writer.close()
    (row,) = pl.read_ndjson(tmp_path / "results.jsonl").to_dicts()
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
    writer = Export(tmp_path / "results.jsonl", 7.0)
    writer.add(outcome(CLOCKS, score).model_copy(update={"tier_path": path}), image(CLOCKS))
    writer.close()
    assert pl.read_ndjson(tmp_path / "results.jsonl")["reason"].to_list() == [reason]


def test_older_export_is_kept_until_the_new_one_is_complete(tmp_path: Path):
    file = tmp_path / "results.jsonl"
    file.write_text("older\n", encoding="utf-8")
    stopped = Export(file, 7.0)
    stopped.add(outcome(CLOCKS, 9.0), image(CLOCKS))
    assert file.read_text(encoding="utf-8") == "older\n"
    stopped.discard()
    assert (list(tmp_path.iterdir()), file.read_text(encoding="utf-8")) == ([file], "older\n")
    assert export(file, []) == 0
    assert (list(tmp_path.iterdir()), file.read_text(encoding="utf-8")) == ([file], "")
    writer = Export(file, 7.0)
    writer.close()
    writer.discard()  # has no effect after close
    assert list(tmp_path.iterdir()) == [file]


def test_unwritable_path_and_several_candidates_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="found careless, steady: set `candidate` to one of them"):
        open_export(RubricParameters(export=str(tmp_path / "x.jsonl")), ["careless", "steady"], load_rubric("counting"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match=r"export .*: found a folder; allowed: the name of a file"):
        Export(tmp_path, 7.0)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"export .*results.jsonl: cannot be written: "):
        Export(tmp_path / "file" / "results.jsonl", 7.0)


def test_only_an_export_is_overwritten(tmp_path: Path):
    dataset, earlier = tmp_path / "dataset.csv", tmp_path / "results.jsonl"
    dataset.write_text("id,tag,prompt,image\n", encoding="utf-8")
    export(earlier, [(CLOCKS, 9.0)])
    with pytest.raises(ValueError, match=r"dataset.csv: found a file that is no export; allowed: a new name"):
        open_export(RubricParameters(export=str(dataset)), ["steady"], load_rubric("counting"))
    assert dataset.read_text(encoding="utf-8") == "id,tag,prompt,image\n"
    for _ in range(2):  # the second time over an empty file
        again = open_export(RubricParameters(export=str(earlier)), ["steady"], load_rubric("counting"))
        assert again and again.close() == 0


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
    rubric = load_rubric("counting", prompt_set)
    writer = open_export(RubricParameters(export=str(file)), ["steady"], rubric)
    assert writer
    writer.add(outcome(CLOCKS, score, satisfied=satisfied), image(CLOCKS))
    assert writer.close() == 1 - len(expected)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [(row["correct"], json.loads(row["details"])["correct_by"], row["reason"]) for row in rows] == expected


def test_correct_of_an_unparsed_prompt_follows_the_score(tmp_path: Path):
    file = tmp_path / "results.jsonl"
    writer = open_export(RubricParameters(export=str(file)), ["steady"], load_rubric("counting", "checked"))
    assert writer
    writer.add(outcome(CLOCKS, 9.0), replace(image(CLOCKS), required=(), excluded=()))
    assert writer.close() == 0
    assert json.loads(json.loads(file.read_text(encoding="utf-8"))["details"])["correct_by"] == "score"
