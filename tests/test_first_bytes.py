"""What the first bytes of a picture tell, wherever it stands."""

import base64
import os
from pathlib import Path

import pytest
from written_datasets import inline, png

from tasks.datasets.first_bytes import ENOUGH, is_bare_base64, looked_at, of_file, of_value
from tasks.errors import InputError
from tasks.pictures.bad_picture import NoReader
from tasks.records import PictureSource, Place

SOURCE = PictureSource(place=Place(path="/a.png"))


@pytest.mark.parametrize(
    "value", [png(1), inline(1), f"data:image/png;base64,{inline(1)}", f" {inline(1)[:7]}\n{inline(1)[7:]}"]
)
def test_a_picture_is_one_in_whatever_form_it_stands(value: bytes | str):
    assert looked_at(SOURCE, of_value(value)) == SOURCE


@pytest.mark.parametrize(
    ("value", "words"), [(b"", "the file is empty"), (b"text", "b'text'"), ("out/1.png", "b'out/1.png'"), ("é", "xc3")]
)
def test_what_is_no_picture_keeps_its_place_and_says_what_was_found(value: bytes | str, words: str):
    found = looked_at(SOURCE, of_value(value))
    assert found.place == SOURCE.place and words in found.problem


def test_a_format_without_a_reader_is_an_error_and_no_property_of_the_picture():
    with pytest.raises(NoReader, match="convert it"):
        looked_at(SOURCE, b"%!PS-Adobe-3.0")


def test_no_more_of_a_file_is_read_than_tells_its_format(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(png(1) + bytes(100_000))
    assert len(of_file(tmp_path / "a.png")) < 5_000
    with pytest.raises(InputError, match=r"gone\.png cannot be read: No such file"):
        of_file(tmp_path / "gone.png")


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        (inline(1), True),
        (base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(60)).decode(), True),
        (base64.b64encode(b"%!PS-Adobe-3.0" + bytes(60)).decode(), True),
        ("images/figures/of/a/paper/with/a/long/name/indeed/1.png", False),
        ("a" * 5000, False),
        ("/9j/4AAQ", False),
    ],
)
def test_a_picture_in_the_place_of_a_path_is_told_from_a_path(text: str, bare: bool):
    assert is_bare_base64(text) is bare


@pytest.mark.parametrize("place", ["file", "bytes", "base64"])
def test_a_drawing_that_does_not_stand_by_itself_is_told_before_the_first_call(tmp_path: Path, place: str):
    pytest.importorskip("resvg_py", reason="the extra `vector` is not installed")
    rest = f"<rect/><!--{'x' * 3 * ENOUGH}--><foreignObject/></svg>"
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg">{rest}'.encode()
    (tmp_path / "a.svg").write_bytes(drawing)
    encoded = base64.b64encode(drawing).decode()
    heads = {"file": lambda: of_file(tmp_path / "a.svg"), "bytes": lambda: of_value(drawing)}
    head = heads.get(place, lambda: of_value(encoded))()
    with pytest.raises(NoReader, match="only a browser shows"):
        looked_at(PictureSource(), head)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_no_file_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ValueError, match="it is no regular file"):
        of_file(tmp_path / "pipe.png")
