"""The pictures of a report."""

from pathlib import Path

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
