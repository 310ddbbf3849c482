"""Silence at the end of a program, for what libraries say about themselves while Python shuts down."""

import os
import sys


def hush() -> None:
    """Keep what DuckDB 2.0 prints at exit (nanobind's leak list) from the user; to be registered with `atexit`."""
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
