"""Read-only server of `jury up` for the pages of a store, on a port of its own beside Prefect's."""

import hmac
import json
import os
import re
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from flows.server import server
from flows.server.server import HOST, listening
from flows.server.server_process import LOOPBACK, App, Receive, Scope, Send, further_hosts, guarded
from tasks.errors import InputError
from tasks.files import open_regular, private_folder, real_place, remove_file, write_file
from tasks.pages.page import HEAD_BYTES, policy_of
from tasks.pages.page_names import FOLDER, INDEX, NOTE, folder_of

_NAME = re.compile(r"/[\w][\w.-]*(\.html|\.files/[0-9a-f]{16}\.jpg)", re.ASCII)
"""A page, or a picture beside it."""
_HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


@contextmanager
def serving_pages(store: Path, port: int, auth: str) -> Generator[str]:
    """Serve the pages of a store inside the context; yield their address, and write it to a note for other commands.

    Args:
        port: port of this machine; if it is taken, another one.
        auth: text that must be sent to sign in; "": none.
    """
    import uvicorn

    folder = folder_of(store)
    private_folder(folder)
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(listening(port))
        except (OSError, OverflowError):
            opened = stack.enter_context(listening(0))
        address = f"http://{HOST}:{opened.getsockname()[1]}"
        app = guarded(pages_app(folder, auth), {*LOOPBACK, *further_hosts()}, pages=True)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, args=([opened],), name="pages", daemon=True)
        thread.start()
        with suppress(InputError):  # no page is served from a folder that is a link
            write_file(store, f"{FOLDER}/{NOTE}", json.dumps({"address": address, "pid": os.getpid()}).encode())
        try:
            yield address
        finally:
            with suppress(InputError):
                remove_file(store, f"{FOLDER}/{NOTE}")
            server.should_exit = True
            thread.join(5)


def pages_app(folder: Path, auth: str) -> App:
    """Return an ASGI app that serves the pages of this folder to users who sign in."""
    wanted = server.sign_in_header(auth).get("Authorization", "")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _response(folder, wanted, Request(scope))(scope, receive, send)

    return app


def _response(folder: Path, wanted: str, request: Request) -> Response:
    given = request.headers.get("authorization", "")
    if wanted and not hmac.compare_digest(given.encode(), wanted.encode()):
        asking = {"www-authenticate": 'Basic realm="jury"'}
        return PlainTextResponse("sign in with the text of `jury up --auth`\n", 401, asking)
    if request.method not in ("GET", "HEAD"):
        return PlainTextResponse("pages are read, and nothing else\n", 405, {"allow": "GET, HEAD"})
    page = _read(folder, request.scope["path"])
    if page is None:
        return PlainTextResponse("there is no such page; the index at / has those that there are\n", 404)
    policy = f"{policy_of(page[:HEAD_BYTES])}; frame-ancestors 'none'"
    kind = {"content-type": "image/jpeg"} if request.scope["path"].endswith(".jpg") else {}
    return Response(page, headers={**_HEADERS, **kind, "content-security-policy": policy})


def _read(folder: Path, path: str) -> bytes | None:
    """Return a page of the folder; None if the path names no page, or a link, which may lead anywhere."""
    name = f"/{INDEX}" if path == "/" else path
    if not _NAME.fullmatch(name) or folder.is_symlink():
        return None
    try:
        place = folder / name[1:]
        with open_regular(place, within=() if place.parent == folder else (real_place(folder),)) as file:
            return file.read()
    except (OSError, InputError):
        return None
