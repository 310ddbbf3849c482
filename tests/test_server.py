"""Which Prefect server is taken for ours: one that we noted, that lives, and that answers as ours does."""

import json
import os
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from loopback_prefect import LoopbackPrefect, Said

from flows.runtime.server import NOTE, home, running


@pytest.fixture
def server() -> Iterator[LoopbackPrefect]:
    with LoopbackPrefect() as there:
        yield there


def noted(store: Path, note: bytes) -> None:
    home(store).mkdir(parents=True)
    (home(store) / NOTE).write_bytes(note)


def note(server: LoopbackPrefect) -> bytes:
    return json.dumps({"port": server.port, "pid": os.getpid()}).encode()


def ours(store: Path, request: str) -> Said:
    """What a server of this store says."""
    said = version("prefect") if request.endswith("/admin/version") else {"home": str(home(store))}
    return Said(body=json.dumps(said).encode())


def test_a_server_that_was_noted_and_answers_as_ours_is_ours(tmp_path: Path, server: LoopbackPrefect) -> None:
    noted(tmp_path, note(server))
    server.answer = lambda request: ours(tmp_path, request)
    found = running(tmp_path)
    assert found and (found.api, found.pid) == (server.api, os.getpid())


def test_a_server_that_answers_late_on_a_busy_machine_is_ours(tmp_path: Path, server: LoopbackPrefect) -> None:
    noted(tmp_path, note(server))

    def late(request: str) -> Said:
        time.sleep(6 if request.endswith("/admin/version") else 0)
        return ours(tmp_path, request)

    server.answer = late
    assert running(tmp_path)


NOTES = [b"", b"[", b"7", b"\xff", b"{}", b'{"port": 1, "pid": "x"}', b'{"port": 1, "pid": 99999999999999999999}']


@pytest.mark.parametrize("written", NOTES)
def test_a_note_that_cannot_be_read_names_no_server(written: bytes, tmp_path: Path) -> None:
    noted(tmp_path, written)
    assert running(tmp_path) is None


STRANGE = {
    "500": Said(500),
    "no JSON": Said(body=b"<html>"),
    "no text": Said(body=b'"\xff\xfe"'),
    "another version": Said(body=b'"0.0.1"'),
    "a list": Said(body=json.dumps([version("prefect")]).encode()),
    "closes": Said(body=None),
}


@pytest.mark.parametrize("said", STRANGE.values(), ids=STRANGE)
@pytest.mark.parametrize("place", ["version", "settings"])
def test_what_answers_in_another_way_is_not_ours(
    said: Said, place: str, tmp_path: Path, server: LoopbackPrefect
) -> None:
    noted(tmp_path, note(server))
    server.answer = lambda request: said if request.endswith(place) else ours(tmp_path, request)
    assert running(tmp_path) is None


def test_a_server_of_another_store_is_not_ours(tmp_path: Path, server: LoopbackPrefect) -> None:
    noted(tmp_path, note(server))
    server.answer = lambda request: ours(tmp_path / "elsewhere", request)
    assert running(tmp_path) is None


def test_what_answers_without_http_is_not_ours(tmp_path: Path, server: LoopbackPrefect) -> None:
    noted(tmp_path, note(server))
    server.answer = lambda _: Said(raw=b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
    assert running(tmp_path) is None
