"""A disk that is nearly full, as far as a process can have one to itself."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def files_of(most: int) -> Iterator[None]:
    """No file of this process can grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
