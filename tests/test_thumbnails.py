"""Thumbnails of judged pictures: made at once, in the background, or after a killed run."""

import hashlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from full_disk import files_of
from PIL import Image
from png_files import BLUE, POLICY, WHITE, file, noise, oriented
from served import wait_for

from tasks.pictures.preparation import prepare
from tasks.pictures.thumbnails import FEW, LOWEST_PRIORITY, Thumbnails, made, make_waiting, place_of, waiting


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def prepare_all(store: Path, *pictures: bytes) -> None:
    with Thumbnails(store) as thumbnails:
        for data in pictures:
            prepare(data, POLICY, thumbnails)


def thumbnail_of(store: Path, data: bytes) -> Image.Image:
    place = made(store, sha256(data))
    assert place
    with Image.open(place) as image:
        assert image.format == "JPEG"
        return image.copy()


def draw_many(count: int) -> list[bytes]:
    return [file(Image.new("RGB", (700, 40), (n, 0, 0)), "PNG") for n in range(count)]


SEEN = [(file(noise(1400, 500), "JPEG") + b"more", (350, 125)), (file(noise(60, 40, "RGBA"), "PNG"), (60, 40))]


@pytest.mark.parametrize(("data", "expected"), SEEN, ids=["JPEG and more", "PNG with an alpha channel"])
def test_decoded_picture_gets_its_thumbnail_at_once(data: bytes, expected: tuple[int, int], tmp_path: Path):
    prepare_all(tmp_path, data)
    assert waiting(tmp_path) == []
    assert thumbnail_of(tmp_path, data).size == expected


@pytest.mark.parametrize(
    ("image", "name", "expected"),
    [
        (noise(1400, 500), "JPEG", (350, 125)),
        (noise(500, 1200), "JPEG", (125, 300)),
        (noise(60, 40), "JPEG", (60, 40)),
        (noise(3000, 2), "JPEG", (640, 1)),
        (noise(1400, 500), "PNG", (640, 229)),
        (noise(60, 40, "P"), "PNG", (60, 40)),
    ],
)
def test_pending_thumbnail_is_size_limited(image: Image.Image, name: str, expected: tuple[int, int], tmp_path: Path):
    data = file(image, name)
    prepare_all(tmp_path, data)
    assert waiting(tmp_path) == [sha256(data)]
    assert not place_of(tmp_path, sha256(data)).exists()
    assert (thumbnail_of(tmp_path, data).size, thumbnail_of(tmp_path, data).mode) == (expected, "RGB")
    assert waiting(tmp_path) == []


def test_thumbnail_shows_the_picture_as_sent(tmp_path: Path):
    stored = Image.new("RGBA", (80, 40), (0, 0, 0, 0))
    stored.paste(BLUE, (0, 0, 40, 40))
    data = file(stored, "PNG", exif=oriented(6))
    prepare_all(tmp_path, data)
    image = thumbnail_of(tmp_path, data)
    assert image.size == (40, 80)
    assert image.getpixel((20, 5)) == pytest.approx(BLUE, abs=8)
    assert image.getpixel((20, 75)) == pytest.approx(WHITE, abs=8)


@pytest.mark.parametrize("name", ["JPEG", "PNG"])
def test_thumbnail_has_no_metadata_and_is_made_once(name: str, tmp_path: Path):
    data = file(Image.new("RGB", (30, 20)), name, icc_profile=bytes(500_000))
    prepare_all(tmp_path, data)
    assert thumbnail_of(tmp_path, data).info.keys() <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
    assert place_of(tmp_path, sha256(data)).stat().st_size < 1000
    place_of(tmp_path, sha256(data)).write_bytes(b"of an earlier run")
    prepare_all(tmp_path, data)
    assert waiting(tmp_path) == []
    assert place_of(tmp_path, sha256(data)).read_bytes() == b"of an earlier run"


def test_concurrent_writers_leave_one_whole_thumbnail(tmp_path: Path):
    data = file(noise(600, 600), "PNG")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: (prepare_all(tmp_path, data), made(tmp_path, sha256(data))), range(16)))
    assert [path.name for path in (tmp_path / "pictures").iterdir() if path.is_file()] == [f"{sha256(data)}.jpg"]
    assert thumbnail_of(tmp_path, data).size == (600, 600)


def test_background_process_has_lowest_priority_and_ends_when_done(tmp_path: Path):
    pictures = draw_many(FEW + 20)
    with Thumbnails(tmp_path) as thumbnails:
        for data in pictures:
            prepare(data, POLICY, thumbnails)
        process = thumbnails._process
        assert process
        wait_for(lambda: not waiting(tmp_path))
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == LOWEST_PRIORITY
    assert process.wait(120) == 0
    assert waiting(tmp_path) == []
    assert all(place_of(tmp_path, sha256(data)).is_file() for data in pictures)


def test_background_process_runs_no_program_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "json.py").write_text("raise SystemExit('a program of the dataset was run')")
    monkeypatch.chdir(tmp_path)
    with Thumbnails(tmp_path / "store") as thumbnails:
        for data in draw_many(FEW + 1):
            prepare(data, POLICY, thumbnails)
        process = thumbnails._process
    assert process and process.wait(120) == 0


def test_few_pictures_need_no_background_process(tmp_path: Path):
    other, *pictures = draw_many(FEW + 1)
    Thumbnails(tmp_path).put_by(sha256(other), other)  # by another run
    with Thumbnails(tmp_path) as thumbnails:
        for data in pictures:
            prepare(data, POLICY, thumbnails)
        assert thumbnails._process is None
        thumbnails.finish_few()
    assert waiting(tmp_path) == [sha256(other)]
    assert all(place_of(tmp_path, sha256(data)).is_file() for data in pictures)


def test_failed_run_leaves_pending_thumbnails_to_a_later_sync(tmp_path: Path):
    pictures = draw_many(FEW + 20)
    with pytest.raises(RuntimeError), Thumbnails(tmp_path) as thumbnails:
        for data in pictures:
            prepare(data, POLICY, thumbnails)
        process = thumbnails._process
        raise RuntimeError
    assert process and process.wait(120) == -signal.SIGTERM
    left = len(waiting(tmp_path))
    assert make_waiting(tmp_path) == (left, 0)
    assert all(place_of(tmp_path, sha256(data)).is_file() for data in pictures)


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(-signal.SIGKILL)"])
def test_background_process_of_a_killed_run_finishes_and_ends(tmp_path: Path, end: str):
    script = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_thumbnails import POLICY, draw_many, prepare
from tasks.pictures.thumbnails import Thumbnails
thumbnails = Thumbnails(Path({str(tmp_path)!r}))
for data in draw_many({FEW + 20}):
    prepare(data, POLICY, thumbnails)
print(thumbnails._process.pid, flush=True)
{end}
"""
    command = [sys.executable, "-c", script]
    # The output ends after all processes that hold it have ended, including those that make thumbnails.
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1], timeout=60)
    assert done.returncode in (-signal.SIGKILL, 256 - signal.SIGKILL)
    assert done.stdout.split()
    assert waiting(tmp_path) == []


def test_damaged_pending_picture_is_given_up(tmp_path: Path):
    data = file(noise(60, 40), "PNG")
    prepare_all(tmp_path, data)
    (tmp_path / "pictures" / "waiting" / sha256(data)).write_bytes(data[:-40])
    assert make_waiting(tmp_path) == (0, 1)
    assert made(tmp_path, sha256(data)) is None
    assert waiting(tmp_path) == []


# Foreign stores


def test_links_pipes_and_junk_are_not_thumbnails(tmp_path: Path) -> None:
    """A link may lead to a secret, a pipe blocks its reader, and no page has room for 9 MB. Only hashes are names."""
    junk, link, pipe, long = (place_of(tmp_path, f"{number:064x}") for number in range(4))
    junk.parent.mkdir()
    secret = junk.with_name("secret.jpg")
    Image.new("RGB", (20, 10)).save(secret)
    junk.write_bytes(b"no JPEG " * 1_200_000)
    link.symlink_to(secret)
    os.mkfifo(pipe)
    long.write_bytes(secret.read_bytes() + b"\0" * 9_000_000)
    names = [*(path.stem for path in (junk, link, pipe, long)), "secret", "../pictures/secret"]
    assert [made(tmp_path, name) for name in names] == [None] * 6


def test_pending_links_and_pipes_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "pictures" / "waiting"
    folder.mkdir(parents=True)
    (folder / f"{1:064x}").symlink_to("/etc/passwd")
    os.mkfifo(folder / f"{2:064x}")
    assert make_waiting(tmp_path) == (0, 2)
    assert waiting(tmp_path) == []


def test_thumbnail_torn_by_a_full_disk_is_removed(tmp_path: Path) -> None:
    full = pytest.raises(OSError, match="No space left on device")
    with full as raised, Thumbnails(tmp_path) as thumbnails, files_of(1_000):
        thumbnails.keep("a" * 64, noise(300, 300))
    assert raised.value.filename == str(place_of(tmp_path, "a" * 64))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
