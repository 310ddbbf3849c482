"""Thumbnails: what a store keeps of every judged picture, bounded, once, whole or not at all.

A picture whose pixels are at hand is made small at once. One that was never decoded is put by as it is, for it may be
overwritten where it stands; it is made small behind the judging, by processes of low priority, or by whoever wants to
show it before that. Run as a module, this file is such a process. What a killed run leaves waits for `jury sync`.
"""

import atexit
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from PIL import Image

from tasks.errors import InputError
from tasks.files import drafted, keep_private, open_regular, private_folder, read_regular
from tasks.pictures.decoding import decode
from tasks.store_files import is_sha256, names_in, remove_file, write_file

SIDES = (256, 640)
"""Least and most pixels on the longest side; between them any fraction that JPEG decodes to will do."""
QUALITY = 75
FEW = 16
"""So many are made without a process, which costs as much to start as they do."""
MOST_PROCESSES = 4
LOWEST_PRIORITY = 19
LARGEST = 2**21
"""Bytes of a thumbnail: the noisiest picture comes to half a megabyte."""
MOST_BYTES = 2**28
"""Of a picture that is put by."""
LOOK_EVERY_SECONDS = 0.2
HELD_UP, PAUSE_SECONDS = 2.0, 1.0
"""Where a picture took so many times as long by the clock as by the processor, the machine is busy: while the run goes
on, the next one is not begun for so many seconds. Even at the lowest priority it would hold the run up, by what it
takes of the processor's caches and whenever the run waits for a moment (292 pairs of PNG, two cores: half a second)."""
_KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**28)}
"""Settings of glibc, for a process that makes thumbnails: it keeps the memory of a picture for the next one. To give it
back and to take it anew costs a sixth of the processor's time."""

_END_OF_JPEG = b"\xff\xd9"
WAITING = "pictures/waiting"
"""Pictures of a store whose thumbnails are still to be made, by their hashes."""


def place_of(store: Path, sha256: str) -> Path:
    """Where the thumbnail of a picture stands, by the hash of the picture's file."""
    return store / "pictures" / f"{sha256}.jpg"


def made(store: Path, sha256: str) -> Path | None:
    """The thumbnail of a picture, made now where the picture is still put by; None where nothing is kept of it.

    Hash and store may be a stranger's: what is no hash is no file name either, and what is no file, or one larger than
    any thumbnail, is none that was kept.
    """
    if not is_sha256(sha256):
        return None
    place = place_of(store, sha256)
    if not place.exists():
        _make(store, sha256)
    return place if _is_thumbnail(place) else None


def waiting(store: Path) -> list[str]:
    """Hashes of the pictures that are put by, whose thumbnails are to be made."""
    try:
        return [name for name in names_in(store, WAITING) if is_sha256(name)]
    except InputError:  # of a link: what lies behind it is not ours
        return []


def make_waiting(store: Path) -> tuple[int, int]:
    """Make every thumbnail that waits; returns how many were made, and how many pictures cannot be read any more."""
    there = [made(store, sha256) is not None for sha256 in waiting(store)]
    return there.count(True), there.count(False)


def scaled(image: Image.Image, scale: float, resampling: Image.Resampling) -> Image.Image:
    """The picture at that scale, never enlarged, at least 1 px a side."""
    if scale >= 1:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, resampling, reducing_gap=3.0)


class Thumbnails:
    """The thumbnails of a store while a run judges; may be used from any thread.

    Left as a context, it lets its processes finish what waits; where the run fails, it ends them.
    """

    def __init__(self, store: Path) -> None:
        """Raises InputError where the folder of pictures is a link: what lies behind it is not ours."""
        for folder in (store / "pictures", store / WAITING):
            if folder.is_symlink():
                raise InputError(f"{folder}: refused: it is a link; nothing behind it is changed")
        self._store = store
        self._lock = threading.Lock()
        self._put_by = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            if kind:
                process.terminate()
            if process.stdin:
                process.stdin.close()

    def keep(self, sha256: str, image: Image.Image) -> None:
        """Make the thumbnail of a picture from its pixels, in RGB, as any reader should see it."""
        if not _is_kept(self._store, sha256):
            _write(self._store, sha256, image)

    def put_by(self, sha256: str, data: bytes) -> None:
        """Keep a plain picture, whose pixels nobody has read, until its thumbnail is made."""
        if _is_kept(self._store, sha256):
            return
        write_file(self._store, f"{WAITING}/{sha256}", data)
        with self._lock:
            self._put_by += 1
            if self._put_by > FEW and not self._processes:
                self._processes = _started(self._store)

    def finish_few(self) -> None:
        """Make what waits here, where there was too little for a process."""
        if self._put_by and not self._processes:
            make_waiting(self._store)


def _started(store: Path) -> list[subprocess.Popen[bytes]]:
    """Processes that make thumbnails until their input ends and nothing waits; this process ends after them."""
    number = max(1, min(MOST_PROCESSES, (os.cpu_count() or 1) - 1))
    command = [sys.executable, "-m", __name__, str(store), str(number)]
    processes = [
        subprocess.Popen(
            [*command, str(share)], env=os.environ | _KEPT_MEMORY, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for share in range(number)
    ]
    for process in processes:
        atexit.register(process.wait)
    return processes


def _is_thumbnail(place: Path) -> bool:
    try:
        with open_regular(place) as file:
            return os.fstat(file.fileno()).st_size <= LARGEST
    except (InputError, OSError):
        return False


def _is_kept(store: Path, sha256: str) -> bool:
    """Whether there is a thumbnail, whose time becomes that of its last judgment: `JURY_KEEP_DAYS` goes by it."""
    place = place_of(store, sha256)
    try:
        os.utime(place, follow_symlinks=False)
    except OSError:  # there is none, or it is another user's
        return place.exists()
    return True


def _make(store: Path, sha256: str) -> None:
    """Make a thumbnail from the picture that is put by, if it still is."""
    kept = store / WAITING / sha256
    try:
        data = read_regular(kept, MOST_BYTES)
        _write(store, sha256, decode(data, SIDES[0]).image.convert("RGB"))
    except FileNotFoundError:
        return
    except InputError:
        pass  # damaged since it was put by, or never a picture: there is nothing to be kept of it
    with suppress(InputError):  # a link leads there: what lies behind it is not ours
        remove_file(store, f"{WAITING}/{sha256}")


def _write(store: Path, sha256: str, image: Image.Image) -> None:
    """Write a bounded JPEG, whole or not at all, however many processes make the same one.

    JPEG and not WebP: it takes a tenth of the processor's time (0.2 ms against 2 ms), for a file half as large again,
    and the Prefect UI shows it as it is.
    """
    image.info.clear()  # No profile of megabytes belongs into a thumbnail.
    place = place_of(store, sha256)
    private_folder(place.parent)
    small = scaled(image, SIDES[1] / max(image.size), Image.Resampling.BOX)
    with drafted(place) as draft:
        small.save(draft, "JPEG", quality=QUALITY)  # into a file, Pillow encodes without holding Python's lock
        keep_private(draft)
        _check_whole(draft)


def _check_whole(jpeg: Path) -> None:
    """Raise OSError where a JPEG has no end: on a full disk Pillow does not see that only a part was written."""
    with jpeg.open("rb") as file:
        file.seek(-len(_END_OF_JPEG), os.SEEK_END)
        if file.read() != _END_OF_JPEG:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _main(store: Path, processes: int, share: int) -> None:
    """Make this process's share of what waits, as long as more may come."""
    if hasattr(os, "nice"):  # absent on Windows
        os.nice(LOWEST_PRIORITY)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without words
    no_more = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), no_more.set()), daemon=True).start()
    last = False
    while True:
        mine = [sha256 for sha256 in waiting(store) if int(sha256[:8], 16) % processes == share]
        for sha256 in mine:
            wall, cpu = time.perf_counter(), time.thread_time()
            _make(store, sha256)
            if time.perf_counter() - wall > HELD_UP * (time.thread_time() - cpu):
                no_more.wait(PAUSE_SECONDS)
        if last and not mine:
            return
        last = no_more.wait(0 if mine else LOOK_EVERY_SECONDS)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
