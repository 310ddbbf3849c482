"""Server of `jury up` for the pages of a store, on a port of its own beside Prefect's; it also makes comparisons."""

import asyncio
import hmac
import json
import platform
import re
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from flows.server.server import HOST, listening, sign_in_header
from flows.server.server_process import LOOPBACK, App, Receive, Scope, Send, further_hosts, guarded
from tasks.errors import InputError
from tasks.files import alone, open_regular, private_folder, real_place, remove_file, write_file
from tasks.pages.page import HEAD_BYTES, policy_of
from tasks.pages.page_names import FOLDER, INDEX, NOTE, folder_of, page_files
from tasks.pages.unfinished import unfinished, unfinished_part

_NAME = re.compile(r"/[\w][\w.-]*(\.html|\.files/([0-9a-f]{16}|[0-9a-f]{64})\.jpg)", re.ASCII)
"""A page, or a picture beside it."""
_UNFINISHED = re.compile(rb'<div id="unfinished">.*?</div>', re.DOTALL)
"""Part of the index that is out of date as soon as a run is at work: the present one takes its place."""
_COMPARE = "/compare"
_FIELDS = ("before", "after", "before_candidate", "after_candidate")
_MOST_BYTES = 4096
"""Maximum size of a form."""
_ONE_AT_A_TIME = threading.Lock()
_HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # without a referrer, the form of the index would send no origin
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
            write_file(store, f"{FOLDER}/{NOTE}", json.dumps({"address": address, "machine": platform.node()}).encode())
            stack.enter_context(alone(folder / NOTE))
        try:
            yield address
        finally:
            with suppress(InputError):
                remove_file(store, f"{FOLDER}/{NOTE}")
            server.should_exit = True
            thread.join(5)


def pages_app(folder: Path, auth: str) -> App:
    """Return an ASGI app that serves the pages of this folder to users who sign in."""
    wanted = sign_in_header(auth).get("Authorization", "")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await _response(folder, wanted, Request(scope, receive))
            await response(scope, receive, send)

    return app


async def _response(folder: Path, wanted: str, request: Request) -> Response:
    given = request.headers.get("authorization", "")
    if wanted and not hmac.compare_digest(given.encode(), wanted.encode()):
        asking = {"www-authenticate": 'Basic realm="jury"'}
        return PlainTextResponse("sign in with the text of `jury up --auth`\n", 401, asking)
    if (request.method, request.scope["path"]) == ("POST", _COMPARE):
        return await _compared(folder.parent, request)
    if request.method not in ("GET", "HEAD"):
        return PlainTextResponse("pages are read, and nothing else\n", 405, {"allow": "GET, HEAD"})
    path = request.scope["path"]
    is_index = path in ("/", f"/{INDEX}")
    page, now = _read(folder, path), unfinished(folder.parent) if is_index else []
    if page is None:
        at_work = "".join(f"{one.start.flow}: {one.words}\n" for one in now)
        return PlainTextResponse(f"there is no such page; the index at / has those that there are\n{at_work}", 404)
    policy = f"{policy_of(page[:HEAD_BYTES])}; frame-ancestors 'none'"
    if is_index:
        page = page.replace(b"<body>", b"<body data-served>", 1)
        part = unfinished_part(now, page_files(folder.parent)).encode("utf-8", "replace")
        page = _UNFINISHED.sub(lambda _: part, page, 1)
    kind = {"content-type": "image/jpeg"} if path.endswith(".jpg") else {}
    return Response(page, headers={**_HEADERS, **kind, "content-security-policy": policy})


async def _compared(store: Path, request: Request) -> Response:
    """Make the page of a comparison that a form asks for, and lead to it."""
    try:
        fields = await _form(request)
        name = await asyncio.to_thread(_make_comparison, store, fields)
    except (InputError, OSError) as error:
        return PlainTextResponse(f"{error}\n", 400)
    return RedirectResponse(f"/{name}", 303)


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises InputError: it is none of ours."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise InputError(f"the form is longer than {_MOST_BYTES:,} bytes")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=len(_FIELDS)))
    except ValueError:
        raise InputError(f"the form is damaged; its fields are {', '.join(_FIELDS)}") from None


def _make_comparison(store: Path, fields: Mapping[str, str]) -> str:
    from tasks.comparing.comparison import compare  # DuckDB, which the server does without until then
    from tasks.pages.comparison_page import write_comparison

    before, after, *candidates = (fields.get(name, "") for name in _FIELDS)
    with _ONE_AT_A_TIME:
        return write_comparison(store, compare(store, before, after, (candidates[0], candidates[1]))).name


def _read(folder: Path, path: str) -> bytes | None:
    """Return a page of the folder, or a picture beside it; None for any other path, or a link, which leads anywhere."""
    name = f"/{INDEX}" if path == "/" else path
    place = folder / name[1:]
    if not _NAME.fullmatch(name) or folder.is_symlink():
        return None
    try:
        with open_regular(place, within=() if place.parent == folder else (real_place(folder),)) as file:
            return file.read()
    except (OSError, InputError):
        return None
