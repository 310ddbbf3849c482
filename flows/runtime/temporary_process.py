"""The process of a temporary Prefect server: `temporary_server` starts it, with the socket that it is to listen on.

It ends when its standard input does, in its own time or at the latest after `GRACE_SECONDS`. It answers programs of
this machine alone and no page of a browser: it has no UI.
"""

import gc
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from flows.runtime.guard import guarded
from flows.runtime.prepared_database import give

GRACE_SECONDS = 5.0
"""For what it has been told to be written down, once it is to end."""


def main(descriptor: int) -> None:
    """Serve on the socket of this number until standard input ends."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    gc.disable()  # searching all that is imported, again and again, would be a quarter of the start
    give(Path(os.environ["PREFECT_HOME"]))
    listening = socket.socket(fileno=descriptor)
    host = "{}:{}".format(*listening.getsockname())

    import uvicorn
    from prefect.server.api.server import create_app

    app = guarded(create_app(ephemeral=True, final=True), {host}, pages=False)
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=round(GRACE_SECONDS) - 2)
    )
    gc.freeze()
    gc.enable()
    server.run(sockets=[listening])


def _end_with_input() -> None:
    while os.read(0, 1):
        pass
    os.killpg(os.getpgrp(), signal.SIGTERM)  # the group is this server's own
    time.sleep(GRACE_SECONDS)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
