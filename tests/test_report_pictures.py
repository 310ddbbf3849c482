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


def of_size(jpeg: bytes, width: int, height: int) -> bytes:
    """The JPEG, saying that it has so many pixels."""
    at = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + jpeg[at + 4 :]


JUNK = b"\xff\x00junk" * 300_000
STRANGE = {
    "junk of 9 MB": JUNK * 5,
    "what begins like a JPEG": b"\xff\xd8\xff" + JUNK,
    "a picture before junk": noise(20) + JUNK,
    "a picture of 3.6 gigapixels": of_size(noise(20), 60_000, 60_000) + JUNK,
    "a picture of 108 megapixels": of_size(noise(20), 12_000, 9_000) + JUNK,
}
"""What a stranger may keep in the place of thumbnails."""


@pytest.mark.parametrize("data", STRANGE.values(), ids=STRANGE)
def test_what_is_in_the_place_of_a_thumbnail_is_left_out_or_made_small(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.pages.report_pictures.picture_limit", lambda _sizes: LEAST_PICTURE)
    strange, whole = "a" * 64, "b" * 64
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / f"{strange}.jpg").write_bytes(data)
    (tmp_path / "pictures" / f"{whole}.jpg").write_bytes(noise(20))
    found = thumbnails(tmp_path, [strange, whole])
    assert whole in found and len(found.get(strange, "")) <= LEAST_PICTURE * 4 / 3
