"""Texts and pictures of a sample are read from their files, or refused with the reason."""

import os
from pathlib import Path

import pytest
from written_datasets import inline, png, write_json, write_two_stages

from tasks.datasets.contents import read_picture, read_texts
from tasks.datasets.dataset import Dataset
from tasks.kinds.loading import load_dataset
from tasks.parameters import PairwiseParameters
from tasks.records import PictureSource, Place


def load(source: Path, **parameters: object) -> Dataset:
    return load_dataset("diagram", PairwiseParameters.model_validate({"dataset": str(source)} | parameters))


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    return write_two_stages(tmp_path / "bench")


def test_texts_are_read_from_a_samples_own_record(bench: Path):
    assert read_texts(load(bench).samples[2]) == {"context": "method 2", "caption": "caption 2"}


def test_texts_of_a_file_rewritten_since_are_refused(bench: Path):
    sample = load(bench).samples[2]
    path = bench / "diagram" / "test.json"
    path.write_text(path.read_text().replace("test_2", "test_7"))
    with pytest.raises(ValueError, match="sample 'test_2' is no longer where it was"):
        read_texts(sample)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (inline(5), png(5)),
        (f"data:image/png;base64,{inline(5)}", png(5)),
        ("\n".join(inline(5)[n : n + 20] for n in range(0, len(inline(5)), 20)), png(5)),
        ("no base64 at all!", "'picture' in r.json is no picture"),
        (f"é{inline(5)}", "'picture' in r.json is no picture"),
        (inline(5)[:-3], "'picture' in r.json is no picture"),
        ("data:image/svg+xml,<svg/>", "a data: URL must be in base64"),
        (7, "found a number"),
    ],
)
def test_an_inline_picture_is_decoded_or_refused(tmp_path: Path, value: object, expected: bytes | str):
    path = write_json(tmp_path / "r.json", {"picture": value})
    source = PictureSource(place=Place(path=str(path), length=path.stat().st_size), field="picture")
    if isinstance(expected, bytes):
        assert read_picture(source) == expected
    else:
        with pytest.raises(ValueError, match=expected):
            read_picture(source)


def test_a_sparse_file_of_twelve_gigabytes_is_not_read(tmp_path: Path):
    sparse = tmp_path / "sparse.png"
    sparse.touch()
    os.truncate(sparse, 12 << 30)
    with pytest.raises(ValueError, match=r"sparse.png cannot be read: .* it has more than 256,000,000 bytes"):
        read_picture(PictureSource(place=Place(path=str(sparse))))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_no_file_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.png")
    for path in (tmp_path / "pipe.png", Path("/dev/zero")):
        with pytest.raises(ValueError, match=r"cannot be read: .* it is no regular file"):
            read_picture(PictureSource(place=Place(path=str(path))))


def test_a_picture_that_is_not_there_is_refused_with_the_reason(tmp_path: Path):
    with pytest.raises(ValueError, match="no picture: key 'x' is null"):
        read_picture(PictureSource(problem="no picture: key 'x' is null"))
    with pytest.raises(ValueError, match=r"gone.png cannot be read: No such file"):
        read_picture(PictureSource(place=Place(path=str(tmp_path / "gone.png"))))
