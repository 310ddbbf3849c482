"""Files that others see whole or not at all, however many processes write the same one."""

from pathlib import Path
from uuid import uuid4


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a hidden name beside its place, and rename it into it; what fails leaves nothing behind."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}.draft")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
