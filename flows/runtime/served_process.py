"""The process of a Prefect server of ours: that of `jury up`, which `server` starts, and that of `compose.yaml`.

It is what `prefect server start` would be, by the same settings, with a guard before it, and patience with a busy
database.
"""

import gc
import os

from flows.runtime.guard import LOOPBACK, guarded
from flows.runtime.patience import patient

HOSTS = "JURY_HOSTS"
"""Environment variable: further names under which it is asked, as by a proxy; with commas between them."""


def main() -> None:
    """Serve where Prefect's settings say until the process is told to end."""
    gc.disable()  # searching all that is imported, again and again, would be a seventh of the start
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    settings = get_current_settings().server
    app = guarded(patient(create_app(final=True)), {*LOOPBACK, *further_hosts()}, pages=True)
    gc.freeze()
    gc.enable()
    uvicorn.run(
        app,
        host=settings.api.host,
        port=settings.api.port,
        timeout_keep_alive=settings.api.keepalive_timeout,
        ws_ping_interval=settings.api.websocket_ping_interval,
        ws_ping_timeout=settings.api.websocket_ping_timeout,
        log_level=settings.logging_level.lower(),
    )


def further_hosts() -> set[str]:
    """What the environment names, in lower case."""
    return {name.strip().lower() for name in os.environ.get(HOSTS, "").split(",") if name.strip()}


if __name__ == "__main__":
    main()
