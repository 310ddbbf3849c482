"""Python's garbage collector while a run is judged."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def settled_garbage_collector() -> Generator[None]:
    """Let the collector look seldom, and not at what is already there, for as long as the context lasts.

    What is imported by now stays for good, and calls leave few reference cycles: without this the collector walks
    through everything again and again.
    """
    threshold = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()
