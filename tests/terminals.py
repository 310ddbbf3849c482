"""Terminals that a test reads from."""

import os


def shown_until_closed(ours: int) -> str:
    """What was written to the other side of a pseudo-terminal until that was closed; closes this side, too.

    One read may return a part of it, whatever it asks for.
    """
    shown = b""
    try:
        while block := os.read(ours, 65536):
            shown += block
    except OSError:  # Linux's way to say that the other side is closed
        pass
    finally:
        os.close(ours)
    return shown.decode().replace("\r\n", "\n")
