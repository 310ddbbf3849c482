"""Dataset records: valid ones become samples, every fault of an invalid one is named."""

from pathlib import Path

import pytest
from written_datasets import png

from tasks.datasets.entries import Layout, clean_text, read_figure
from tasks.datasets.paths import NO_PICTURE, Folder
from tasks.datasets.rows import Row
from tasks.errors import Problems
from tasks.records import Place, Sample

LAYOUT = Layout({"context": "content", "caption": "visual_intent"}, "path_to_gt_image")
GOOD = {"id": "a", "content": "text", "visual_intent": "caption", "path_to_gt_image": "a.png"}


def figure(folder: Path, flow: str = "diagram", **changes: object) -> Sample:
    (folder / "a.png").write_bytes(png(1))
    row = Row("r.json, record 1", Place(path="/r.json"), GOOD | changes)
    problems = Problems()
    made = read_figure(row, flow, LAYOUT, Folder(folder), problems)
    problems.stop("r.json")
    assert made
    return made


@pytest.mark.parametrize(
    ("value", "text", "links"),
    [
        ("before ![alt](images/a.png) after", "before  after", 1),
        ('![](a.png)![b [c] d](<x (1).png> "title")', "", 2),
        ("a [link](x) stays, n! [k](m) too", "a [link](x) stays, n! [k](m) too", 0),
        ("![not closed](", "![not closed](", 0),
        ({"Monday": [1, None], "Friday": "ü"}, '{"Monday": [1, null], "Friday": "ü"}', 0),
        ([{"y": 1.5, "x": True}], '[{"y": 1.5, "x": true}]', 0),
        (None, "", 0),
    ],
)
def test_text_is_cleaned(value: object, text: str, links: int):
    assert clean_text(value) == (text, links)


def test_text_keeps_its_image_links_on_request():
    assert clean_text("before ![alt](images/a.png) after", keep_links=True) == ("before ![alt](images/a.png) after", 0)


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        ({}, ()),
        ({"content": ""}, ("empty context",)),
        ({"content": None}, ("empty context",)),
        ({"content": "![](a.png)\n"}, ("1 image link dropped from the context", "empty context")),
        ({"visual_intent": "![](a)![](b) c"}, ("2 image links dropped from the caption",)),
    ],
)
def test_empty_texts_and_dropped_links_are_noted(tmp_path: Path, changes: dict[str, object], notes: tuple[str, ...]):
    assert figure(tmp_path, **changes).notes == notes


@pytest.mark.parametrize("content", [{"x": [1]}, [1, 2], "1,2", None])
def test_plot_data_may_be_object_list_or_text(tmp_path: Path, content: object):
    assert figure(tmp_path, "plot", content=content).sample_id == "a"


def test_text_hash_ignores_the_order_of_keys(tmp_path: Path):
    hashes = {figure(tmp_path, "plot", content=data).texts_key for data in ({"a": 1, "b": 2}, {"b": 2, "a": 1})}
    assert len(hashes) == 1
    assert figure(tmp_path, "plot", content={"a": 1, "b": 3}).texts_key not in hashes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"id": None}, "id is null, must be text"),
        ({"id": 7}, "id is a number, must be text"),
        ({"id": " "}, "id ' ' names nothing"),
        ({"id": ".."}, "id '..' names nothing"),
        ({"id": "a/b"}, "id 'a/b' holds a path separator"),
        ({"id": "a\\b"}, "holds a path separator"),
        ({"id": "a\n"}, "holds a path separator or a control character"),
        ({"id": "a\ud800"}, "holds a path separator or a control character"),
        ({"content": {"x": 1}}, "'content' is an object, must be text or null"),
        ({"content": 3}, "'content' is a number, must be text or null"),
        ({"visual_intent": None}, "'visual_intent' is null, must be text"),
        ({"category": 1.5}, "'category' is a number, must be text or null"),
        ({"difficulty": ["hard"]}, "'difficulty' is a list, must be text or null"),
        ({"path_to_gt_image": True}, "'path_to_gt_image' is a boolean, must be the path"),
    ],
)
def test_invalid_field_is_named_with_its_row_and_allowed_values(tmp_path: Path, changes: dict[str, object], words: str):
    with pytest.raises(ValueError) as error:
        figure(tmp_path, **changes)
    assert "r.json, record 1: " in str(error.value)
    assert words in str(error.value)


def test_all_faults_of_one_record_are_listed(tmp_path: Path):
    with pytest.raises(ValueError, match="has 3 problems"):
        figure(tmp_path, id="", content=1, category=2)


@pytest.mark.parametrize("key", ["content", "visual_intent"])
def test_missing_text_key_is_a_fault(tmp_path: Path, key: str):
    row = Row("r.json, record 1", Place(path="/r.json"), {name: value for name, value in GOOD.items() if name != key})
    problems = Problems()
    assert read_figure(row, "diagram", LAYOUT, Folder(tmp_path), problems) is None
    with pytest.raises(ValueError, match=f"key '{key}' is missing"):
        problems.stop("r.json")


@pytest.mark.parametrize(
    ("changes", "state"), [({"path_to_gt_image": None}, "is null"), ({"path_to_gt_image": ""}, "is empty")]
)
def test_sample_without_a_human_picture_is_kept_with_the_reason(tmp_path: Path, changes: dict[str, object], state: str):
    human = figure(tmp_path, **changes).pictures["human"]
    assert human.place is None
    assert human.problem == f"{NO_PICTURE}key 'path_to_gt_image' {state} in r.json, record 1"
