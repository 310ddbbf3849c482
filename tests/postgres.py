"""A PostgreSQL server for tests, from the programs of the system's packages."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from served import free_port, wait_for


def programs() -> Path | None:
    """The folder with `initdb` and `postgres`, which Debian keeps off the search path."""
    found = shutil.which("initdb")
    folders = (
        [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    )
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@contextmanager
def postgres() -> Iterator[str]:
    """Address of an empty database for SQLAlchemy's asyncpg, on loopback, for as long as the context lasts."""
    folder, port = programs(), free_port()
    assert folder, "PostgreSQL is not installed"
    with tempfile.TemporaryDirectory(prefix="jury-postgres-") as place:
        # PostgreSQL refuses to run as root, and nobody else can look into a folder of pytest's.
        user = "postgres" if os.geteuid() == 0 else None
        if user:
            shutil.chown(place, user)
        data = Path(place) / "data"
        make = [folder / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run(make, user=user, cwd=place, check=True, capture_output=True)
        options = ["-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", place, "-c", "fsync=off"]
        server = subprocess.Popen([folder / "postgres", *options], user=user, cwd=place, stderr=subprocess.DEVNULL)
        try:
            ready = [folder / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-q"]
            wait_for(lambda: subprocess.run(ready).returncode == 0)
            yield f"postgresql+asyncpg://postgres@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            server.wait(30)
