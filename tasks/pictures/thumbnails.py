"""Thumbnails that a store keeps of every judged picture: bounded, made once, whole or not at all.

A picture with decoded pixels gets its thumbnail at once. Any other is set aside unchanged, since its file may be
overwritten. A process of low priority makes its thumbnail during the run, or a viewer makes it before that. Run as a
module, this file is that process. `jury store sync` makes the thumbnails that a killed run left.
"""

import atexit
import errno
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from PIL import Image

from tasks.errors import InputError
from tasks.files import (
    drafted,
    is_sha256,
    keep_private,
    names_in,
    open_regular,
    private_folder,
    read_regular,
    remove_file,
    write_file,
)
from tasks.pictures.decoding import END_OF_JPEG, decode

SIDES = (256, 640)
"""Least and most pixels on the longest side; any fraction between them that JPEG decodes to is accepted."""
QUALITY = 75
FEW = 16
"""Number of thumbnails made without a process, which takes as long to start as they do."""
LOWEST_PRIORITY = 19
LARGEST = 2**21
"""Largest thumbnail, in bytes: that of the noisiest picture has half a megabyte."""
MOST_BYTES = 2**28
"""Largest picture that is set aside, in bytes."""
LOOK_EVERY_SECONDS = 0.2

WAITING = "pictures/waiting"
"""Folder of pictures whose thumbnails are still to be made, named by their hashes."""


def place_of(store: Path, sha256: str) -> Path:
    """Return the path of a picture's thumbnail, from the hash of the picture's file."""
    return store / "pictures" / f"{sha256}.jpg"


def made(store: Path, sha256: str) -> Path | None:
    """Return the thumbnail of a picture, made now if the picture is still set aside; None if the store has neither.

    Hash and store may be a stranger's. Invalid hashes, irregular files and files larger than any thumbnail give None.
    """
    if not is_sha256(sha256):
        return None
    place = place_of(store, sha256)
    if not place.exists():
        _make(store, sha256)
    try:
        with open_regular(place) as file:
            return place if os.fstat(file.fileno()).st_size <= LARGEST else None
    except (InputError, OSError):
        return None


def waiting(store: Path) -> list[str]:
    """Return the hashes of pictures set aside, whose thumbnails are still to be made."""
    try:
        return [name for name in names_in(store, WAITING) if is_sha256(name)]
    except InputError:  # a link: its target is not ours
        return []


def make_waiting(store: Path) -> tuple[int, int]:
    """Make every outstanding thumbnail; return how many were made, and how many pictures can no longer be read."""
    there = [made(store, sha256) is not None for sha256 in waiting(store)]
    return there.count(True), there.count(False)


def scaled(image: Image.Image, scale: float, resampling: Image.Resampling) -> Image.Image:
    """Return the picture at that scale, never enlarged, at least 1 px a side."""
    if scale >= 1:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, resampling, reducing_gap=3.0)


class Thumbnails:
    """Thumbnails of a store while a run judges, for use from any thread.

    At the end of the context, its process finishes the outstanding ones; if the run fails, it is terminated.
    """

    def __init__(self, store: Path) -> None:
        """Open the thumbnails of a store. Raises InputError if a picture folder is a link: its target is not ours."""
        for folder in (store / "pictures", store / WAITING):
            if folder.is_symlink():
                raise InputError(f"{folder}: refused: it is a link; nothing behind it is changed")
        self._store = store
        self._lock = threading.Lock()
        self._few: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._process and kind:
            self._process.terminate()
        if self._process and self._process.stdin:
            self._process.stdin.close()

    def keep(self, sha256: str, image: Image.Image) -> None:
        """Make the thumbnail of a picture from its RGB pixels, as any reader should show them."""
        if not _is_kept(self._store, sha256):
            _write(self._store, sha256, image)

    def put_by(self, sha256: str, data: bytes) -> None:
        """Set a plain picture with unread pixels aside, until its thumbnail is made."""
        if _is_kept(self._store, sha256):
            return
        write_file(self._store, f"{WAITING}/{sha256}", data)
        with self._lock:
            if self._process:
                return
            self._few.append(sha256)
            if len(self._few) > FEW:
                self._process = _started(self._store)

    def finish_few(self) -> None:
        """Make the run's outstanding thumbnails here, if they are too few for a process."""
        if not self._process:
            for sha256 in self._few:
                made(self._store, sha256)


def _started(store: Path) -> subprocess.Popen[bytes]:
    """Start a process that makes thumbnails until its input ends and none is left; this process waits for it."""
    command = [sys.executable, "-P", "-m", __name__, str(store)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    atexit.register(process.communicate)  # ends its input, too, where the context was never left
    threading.Thread(target=process.wait, daemon=True).start()  # a process with many runs is to keep no ended ones
    return process


def _is_kept(store: Path, sha256: str) -> bool:
    """Return whether a thumbnail exists, and set its time to that of its last judgment, which `JURY_KEEP_DAYS` uses."""
    place = place_of(store, sha256)
    try:
        os.utime(place, follow_symlinks=False)
    except OSError:  # none, or another user's
        return place.exists()
    return True


def _make(store: Path, sha256: str) -> None:
    """Make a thumbnail from a picture that was set aside, if it is still there."""
    kept = store / WAITING / sha256
    try:
        data = read_regular(kept, MOST_BYTES)
        _write(store, sha256, decode(data, SIDES[0]).image.convert("RGB"))
    except FileNotFoundError:
        return
    except InputError:
        pass  # damaged since it was set aside, or never a picture: nothing to keep
    with suppress(InputError):  # a link leads there: its target is not ours
        remove_file(store, f"{WAITING}/{sha256}")


def _write(store: Path, sha256: str, image: Image.Image) -> None:
    """Write a bounded JPEG, whole or not at all, even if several processes make the same one.

    JPEG takes a tenth of WebP's processor time (0.2 ms against 2 ms), for a file half as large again, and the Prefect
    UI shows it unchanged.
    """
    image.info.clear()  # A profile of megabytes does not belong in a thumbnail.
    place = place_of(store, sha256)
    private_folder(place.parent)
    small = scaled(image, SIDES[1] / max(image.size), Image.Resampling.BOX)
    with drafted(place) as draft:
        small.save(draft, "JPEG", quality=QUALITY)  # to a file, Pillow encodes without holding Python's lock
        keep_private(draft)
        _check_whole(draft)


def _check_whole(jpeg: Path) -> None:
    """Raise OSError if a JPEG has no end: on a full disk, Pillow does not notice that only a part was written."""
    with jpeg.open("rb") as file:
        file.seek(-len(END_OF_JPEG), os.SEEK_END)
        if file.read() != END_OF_JPEG:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _main(store: Path) -> None:
    """Make the outstanding thumbnails, as long as more may come."""
    os.nice(LOWEST_PRIORITY)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a message
    no_more = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), no_more.set()), daemon=True).start()
    last = False
    while True:
        found = waiting(store)
        for sha256 in found:
            _make(store, sha256)
        if last and not found:
            return
        last = no_more.wait(0 if found else LOOK_EVERY_SECONDS)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
