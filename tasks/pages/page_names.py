"""Names of the pages of a store."""

import hashlib
import re

FOLDER = "pages"
"""Of a store."""
INDEX = "index.html"
_PLAIN = re.compile(r"(?!index$)[\w][\w.-]{0,150}", re.ASCII)


def page_name(run_id: str) -> str:
    """The file of an evaluation's page: its id, or where that is no name for a file, as another program may have
    chosen it, its hash.
    """
    name = run_id if _PLAIN.fullmatch(run_id) else hashlib.sha256(run_id.encode("utf-8", "replace")).hexdigest()
    return f"{name}.html"
