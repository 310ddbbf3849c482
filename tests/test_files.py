"""Files are written whole, or not at all."""

from pathlib import Path

import pytest

from tasks.files import write_whole


def test_a_file_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for data in (b"a longer text", b"text"):
        write_whole(tmp_path / "file", data)
    assert (tmp_path / "file").read_bytes() == b"text"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_cannot_be_put_in_its_place_leaves_no_draft_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(tmp_path / "folder", b"text")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
