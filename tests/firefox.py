"""A driver for Debian's Firefox by WebDriver BiDi: opens pages, evaluates scripts and types.

It implements the parts of the protocol that tests of pages need. Playwright's BiDi uses commands that this version of
Firefox does not support.
"""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

KEYS = {
    **{"Tab": "\ue004", "Enter": "\ue006", "Shift": "\ue008", "Escape": "\ue00c", "Space": " "},
    **{"ArrowLeft": "\ue012", "ArrowRight": "\ue014", "ArrowDown": "\ue015"},
}
PREFERENCES = {
    # Block all network but loopback: everything else goes to a proxy that does not exist.
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "layout.css.prefers-color-scheme.content-override": 1,
}
EVENTS = ["log.entryAdded", "network.beforeRequestSent", "browsingContext.userPromptOpened"]
SECONDS = 120.0
"""Longest wait for the browser."""


class Firefox:
    """A running browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.last_id = 0
        self.tabs: dict[str, FirefoxTab] = {}
        self.ask("session.new", capabilities={})
        self.ask("session.subscribe", events=EVENTS)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; pass events that arrive before it to their tabs."""
        self.last_id += 1
        self.socket.send(json.dumps({"id": self.last_id, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(SECONDS))
            if message.get("id") == self.last_id:
                assert message["type"] == "success", f"{method}: {message}"
                return message["result"]
            self._note(message)

    def _note(self, event: dict[str, Any]) -> None:
        details = event.get("params", {})
        context = details.get("context") or details.get("source", {}).get("context")
        if tab := self.tabs.get(context):
            tab.note(event["method"], details)


class FirefoxTab:
    """A tab with its own cookies and storage; `trouble` lists what its page must not do."""

    def __init__(self, browser: Firefox) -> None:
        self.browser = browser
        user = browser.ask("browser.createUserContext")["userContext"]
        self.context = browser.ask("browsingContext.create", type="tab", userContext=user)["context"]
        self.trouble: list[str] = []
        browser.tabs[self.context] = self

    def resize(self, width: int, height: int) -> None:
        viewport = {"width": width, "height": height}
        self.browser.ask("browsingContext.setViewport", context=self.context, viewport=viewport)

    def note(self, event: str, details: dict[str, Any]) -> None:
        if event != "network.beforeRequestSent":
            self.trouble.append(f"{event} {details.get('text') or details.get('message')}")
        elif not details["request"]["url"].startswith(("file:", "data:", "blob:", "http://127.0.0.1:")):
            self.trouble.append(f"request {details['request']['url']}")

    def goto(self, address: str) -> None:
        self.browser.ask("browsingContext.navigate", context=self.context, url=address, wait="complete")

    def evaluate(self, expression: str, given: Any = None) -> Any:
        """Return the value of an expression, of a function called with `given`, or of a promise of either."""
        asking = f"""async () => {{
            const found = ({expression});
            return JSON.stringify(await (typeof found === "function" ? found({json.dumps(given)}) : found)) ?? "null";
        }}"""
        how = {"awaitPromise": True, "target": {"context": self.context}, "userActivation": False}
        reply = self.browser.ask("script.callFunction", functionDeclaration=asking, **how)
        assert reply["type"] == "success", reply["exceptionDetails"]["text"]
        return json.loads(reply["result"]["value"])

    def press(self, keys: str) -> None:
        """Press a key, or several at once joined by +."""
        values = [KEYS.get(key, key) for key in keys.split("+")]
        actions = [{"type": "keyDown", "value": value} for value in values]
        actions += [{"type": "keyUp", "value": value} for value in reversed(values)]
        typing = [{"type": "key", "id": "keyboard", "actions": actions}]
        self.browser.ask("input.performActions", context=self.context, actions=typing)


@contextmanager
def started_firefox(program: str, profile: Path) -> Iterator[Firefox]:
    """Start the browser with this empty folder as its profile; it ends with the context."""
    written = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
    (profile / "user.js").write_text("\n".join(written))
    log = profile / "log.txt"
    with log.open("w") as output:
        command = [program, "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", str(profile)]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        with connect(f"{_address(log, process)}/session", max_size=None, open_timeout=SECONDS) as socket:
            browser = Firefox(socket)
            yield browser
            browser.ask("browser.close")
        process.wait(SECONDS)
    finally:
        process.kill()
        process.wait()


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if found := re.search(r"BiDi listening on (ws://\S+)", log.read_text()):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(log.read_text())
