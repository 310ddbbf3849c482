"""The pages of a store served by `jury up`, on a port of their own beside Prefect's.

Owns what is answered: the pages themselves, to be read and nothing else. Whom it answers is for `guard`, and what signs
in for `sign_in`. The pages are whole files that others make; here they are only read.
"""

import hmac
import json
import os
import re
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from flows.runtime import sign_in
from flows.runtime.guard import LOOPBACK, App, Receive, Scope, Send, guarded
from flows.runtime.served_process import further_hosts
from tasks.errors import InputError
from tasks.files import open_regular, private_folder, write_whole
from tasks.pages.page_names import INDEX, NOTE, folder_of

HOST = "127.0.0.1"
_NAME = re.compile(r"/[\w][\w.-]*\.html", re.ASCII)
_PIECE = 1 << 18
_HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "frame-ancestors 'none'",
}


@contextmanager
def serving_pages(store: Path, port: int, auth: str) -> Generator[str]:
    """Serve the pages of a store for as long as the context lasts; gives their address, which a note tells to others.

    Args:
        port: of this machine; where it is taken, another one.
        auth: what has to be sent to sign in; "": nothing has.
    """
    import uvicorn

    folder = folder_of(store)
    private_folder(folder)
    with _listening(port) as listening:
        address = f"http://{HOST}:{listening.getsockname()[1]}"
        app = guarded(pages_app(folder, auth), {*LOOPBACK, *further_hosts()}, pages=True)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, args=([listening],), name="pages", daemon=True)
        thread.start()
        write_whole(folder / NOTE, json.dumps({"address": address, "pid": os.getpid()}).encode(), private=True)
        try:
            yield address
        finally:
            (folder / NOTE).unlink(missing_ok=True)
            server.should_exit = True
            thread.join(5)


@contextmanager
def _listening(port: int) -> Generator[socket.socket]:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except (OSError, OverflowError):
            listening.bind((HOST, 0))
        listening.listen()  # so that who asks before the server has begun is answered then
        yield listening


def pages_app(folder: Path, auth: str) -> App:
    """An ASGI app that shows the pages of this folder to whoever signs in."""
    wanted = sign_in.header(auth).get("Authorization", "").encode()

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        if wanted and not hmac.compare_digest(given, wanted):
            asking = {"www-authenticate": 'Basic realm="jury"'}
            await _refuse(send, 401, "sign in with the text of `jury up --auth`", asking)
        elif scope["method"] not in ("GET", "HEAD"):
            await _refuse(send, 405, "pages are read, and nothing else", {"allow": "GET, HEAD"})
        else:
            await _show(folder, scope, send)

    return app


async def _show(folder: Path, scope: Scope, send: Send) -> None:
    """One page, in pieces: it may have tens of megabytes."""
    name = f"/{INDEX}" if scope["path"] == "/" else scope["path"]
    file = _opened(folder, name)
    if not file:
        await _refuse(send, 404, "there is no such page; the index at / has those that there are", {})
        return
    with file:
        await _begin(send, 200, os.fstat(file.fileno()).st_size, _HEADERS)
        left = scope["method"] == "GET"
        while left:
            piece = file.read(_PIECE)
            left = len(piece) == _PIECE
            await send({"type": "http.response.body", "body": piece, "more_body": left})
    if scope["method"] == "HEAD":
        await send({"type": "http.response.body", "body": b""})


def _opened(folder: Path, name: str) -> BinaryIO | None:
    """A page of the folder; None where the name is of no page, or of a link, which may lead anywhere."""
    if not _NAME.fullmatch(name) or folder.is_symlink():
        return None
    try:
        return open_regular(folder / name[1:])
    except (OSError, InputError):
        return None


async def _refuse(send: Send, status: int, words: str, headers: dict[str, str]) -> None:
    body = f"{words}\n".encode()
    await _begin(send, status, len(body), {"content-type": "text/plain; charset=utf-8", **headers})
    await send({"type": "http.response.body", "body": body})


async def _begin(send: Send, status: int, size: int, headers: dict[str, str]) -> None:
    named = [(name.encode(), value.encode()) for name, value in {**headers, "content-length": str(size)}.items()]
    await send({"type": "http.response.start", "status": status, "headers": named})
