"""Files of requests, one a line, as a batch takes them: written as the samples are read, split by bytes and number.

Owns the form of a line and the limits of a file. Source of both: OpenAI's Batch API, 200 MB and 50,000 requests a file.
"""

import json
from collections.abc import Iterable, Iterator
from io import BufferedWriter
from pathlib import Path

from tasks.batches.index import Index, Line
from tasks.batches.log import Log
from tasks.files import keep_private

MOST_BYTES = 190_000_000
MOST_REQUESTS = 45_000
_BEGIN, _AFTER_ID = b'{"custom_id": "', b'", "method": "POST", "url": "/v1/chat/completions", "body": '
_END = b"}\n"


class RequestFiles:
    """The files of one turn, filled one after another."""

    def __init__(self, log: Log, turn: int) -> None:
        self._log, self._turn = log, turn
        self._file: BufferedWriter | None = None
        self._bytes = 0
        self.sizes: list[int] = []
        """Requests of each file."""

    def add(self, name: str, body: Iterable[bytes | memoryview]) -> None:
        """Add a request.

        Raises:
            OSError: the disk is full.
        """
        pieces = [_BEGIN, name.encode(), _AFTER_ID, *body, _END]
        length = sum(map(len, pieces))
        if not self._file or self._bytes + length > MOST_BYTES or self.sizes[-1] >= MOST_REQUESTS:
            self._next()
        assert self._file
        self._file.writelines(pieces)
        self._bytes += length
        self.sizes[-1] += 1

    def close(self) -> tuple[int, ...]:
        """Write what is left; returns how many requests each file holds."""
        if self._file:
            self._file.close()
        return tuple(self.sizes)

    def _next(self) -> None:
        self.close()
        path = self._log.requests(self._turn, len(self.sizes))
        self._file, self._bytes = path.open("wb"), 0
        keep_private(path)
        self.sizes.append(0)


class Requests:
    """The requests in files, found by what they are called."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._lines = Index(lines_of(files))

    def body(self, name: str) -> bytes:
        """What a request asks, which is there."""
        line = self._lines.find(name)[0].read()
        return line[line.index(_AFTER_ID) + len(_AFTER_ID) : -len(_END)]


def lines_of(files: Iterable[Path]) -> Iterator[tuple[str, Line]]:
    """Names and places of the requests in files."""
    for path in files:
        start = 0
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                name = line[len(_BEGIN) : line.index(b'"', len(_BEGIN))].decode()
                yield name, Line(path, number, start, len(line))
                start += len(line)


def reseeded(body: bytes, before: int, after: int) -> bytes:
    """A body with another seed, or as it is where it has none.

    The quotes of a text are escaped in JSON, so that the first such field is the call's own.
    """
    return body.replace(json.dumps({"seed": before})[1:-1].encode(), json.dumps({"seed": after})[1:-1].encode(), 1)
