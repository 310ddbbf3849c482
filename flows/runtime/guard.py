"""Access to our Prefect servers: they answer programs, and pages that they served themselves.

A browser lets any page ask a server on its own machine. Besides Prefect's CORS and CSRF settings, this checks `Host`
(a page whose name was made to point here would pass for its own) and `Origin` of WebSockets, which carry logs.
"""

import re
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

LOOPBACK = frozenset(("127.0.0.1", "localhost", "[::1]"))
"""Names of this machine, which no other machine can be given."""
FOREIGN = {"cross-site", "same-site"}
"""`Sec-Fetch-Site` in requests by a page of another address; another port is another address of the same site."""
_WITH_PORT = re.compile(r"([^:]+|\[[0-9a-f:.]+\]):[0-9]{1,5}")
POLICY_VIOLATION = 1008
"""Code with which a refused WebSocket is closed."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def guarded(app: App, hosts: Collection[str], pages: bool) -> App:
    """Return the app behind a check of host names and origins; refused requests never reach the app.

    Args:
        hosts: names of the app, `127.0.0.1:4200`, or `127.0.0.1` for any port, which is another behind a tunnel.
        pages: whether it has pages, which may ask it. If not, no request of a browser is answered.
    """

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or _may_ask(scope, hosts, pages):
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"this server answers programs and pages of its own"})

    return answering


def _may_ask(scope: Scope, hosts: Collection[str], pages: bool) -> bool:
    named, origins, sites = (_values(scope, name) for name in (b"host", b"origin", b"sec-fetch-site"))
    if len(named) != 1 or not ({named[0], _name(named[0])} & {*hosts}):
        return False
    if not pages:
        return not origins and not sites
    own = (f"http://{named[0]}", f"https://{named[0]}")  # `https` behind a proxy
    # Browsers ask for pictures, scripts and frames of another page without `Origin`.
    return all(origin in own for origin in origins) and (not FOREIGN & {*sites} or _is_followed_link(scope))


def _name(host: str) -> str:
    """Return a host without its port. No browser sends a host with two colons, or with more than digits behind one."""
    found = _WITH_PORT.fullmatch(host)
    return found[1] if found else host


def _is_followed_link(scope: Scope) -> bool:
    """Return whether a person opens a page of ours in a window of its own, not in a frame of the other page."""
    return scope.get("method") == "GET" and _values(scope, b"sec-fetch-dest") == ["document"]


def _values(scope: Scope, header: bytes) -> list[str]:
    """Return all values of a header, in lower case, since the app behind could read two values differently."""
    return [value.decode("latin-1").lower() for name, value in scope.get("headers", ()) if name == header]
