"""Text that signs in to the server of `jury up --auth`, in a file of its home that this user alone reads.

It keeps out other users of the machine. It goes only into the environment of this user's processes.
"""

import base64
import os
import secrets
from contextlib import suppress
from pathlib import Path

FILE = "auth"


def kept(home: Path) -> str:
    """Return the text that signs in to the server of this home; "": none is needed."""
    with suppress(OSError, UnicodeDecodeError):
        return (home / FILE).read_text(encoding="ascii").strip()
    return ""


def settle(home: Path, wanted: bool) -> str:
    """Keep a text that signs in, the same as before if there is one, and return it; remove it if none is wanted."""
    if not wanted:
        (home / FILE).unlink(missing_ok=True)
        return ""
    if not kept(home):
        (home / FILE).unlink(missing_ok=True)
        with os.fdopen(os.open(home / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"jury:{secrets.token_urlsafe(24)}\n")
    return kept(home)


def header(text: str) -> dict[str, str]:
    """Return the header that Prefect's server checks; empty without a text."""
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"} if text else {}
