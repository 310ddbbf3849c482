"""Fixtures that tests of several modules share."""

from collections.abc import Iterator

import pytest
from loopback_judge import LoopbackJudge


@pytest.fixture
def loopback() -> Iterator[LoopbackJudge]:
    """A started judge that gives every request an allowed reply, until the test queues others or sets `answer`."""
    with LoopbackJudge() as judge:
        yield judge


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Prefect server of the tests' own, for flows in this process and in others."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PREFECT_HOME", str(tmp_path_factory.mktemp("prefect")))
        environment.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
        environment.setenv("DO_NOT_TRACK", "1")
        from prefect.settings import PREFECT_API_URL
        from prefect.testing.utilities import prefect_test_harness

        with prefect_test_harness(server_startup_timeout=120):
            environment.setenv("PREFECT_API_URL", PREFECT_API_URL.value())
            yield PREFECT_API_URL.value()
