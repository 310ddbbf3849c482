"""The pictures of a report."""

from pathlib import Path

import pytest
from written_history import noise

from tasks.pages.report_pictures import bounded, thumbnails
from tasks.pages.size_limits import LEAST_PICTURE


def test_a_picture_is_bounded_and_a_small_one_is_left_as_it_is() -> None:
    large = noise(500)
    assert len(large) > 4 * LEAST_PICTURE
    assert len(bounded(large, LEAST_PICTURE)) <= LEAST_PICTURE
    assert bounded(large, len(large)) == large


def test_what_is_no_hash_is_no_file_name(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "secret.jpg").write_bytes(noise(20))
    assert thumbnails(tmp_path, ["../secret", "f" * 64]) == {}


def test_a_thumbnail_that_is_torn_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.pages.report_pictures.picture_limit", lambda _sizes: LEAST_PICTURE)
    whole, torn = "a" * 64, "b" * 64
    (tmp_path / "pictures").mkdir()
    for sha256, part in ((whole, 1.0), (torn, 0.5)):
        data = noise(600)
        (tmp_path / "pictures" / f"{sha256}.jpg").write_bytes(data[: int(len(data) * part)])
    assert set(thumbnails(tmp_path, [whole, torn])) == {whole}
