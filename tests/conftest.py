"""Fixtures that tests of several modules share."""

from collections.abc import Iterator

import pytest
from loopback_judge import LoopbackJudge


@pytest.fixture
def loopback() -> Iterator[LoopbackJudge]:
    """A started judge that gives every request an allowed reply, until the test queues others or sets `answer`."""
    with LoopbackJudge() as judge:
        yield judge
