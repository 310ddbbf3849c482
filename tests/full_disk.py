"""A full disk, simulated by a limit on the size of this process's files."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def files_of(most: int) -> Iterator[None]:
    """Limit files of this process to this many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
