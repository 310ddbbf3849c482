"""Fixtures that tests of several modules share."""

from collections.abc import Iterator

import pytest
from loopback_judge import LoopbackJudge
from served import free_port

from flows.commands.server import client_settings, own_server


@pytest.fixture
def loopback() -> Iterator[LoopbackJudge]:
    """A started judge that gives every request an allowed reply, until the test queues others or sets `answer`."""
    with LoopbackJudge() as judge:
        yield judge


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Prefect server of the tests' own, for flows in this process and in others."""
    store = tmp_path_factory.mktemp("prefect")
    with pytest.MonkeyPatch.context() as environment, own_server(store, free_port()) as server:
        for name, value in {**client_settings(server.api), "PREFECT_HOME": str(store / "client")}.items():
            environment.setenv(name, value)
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: server.api}):
            yield server.api
