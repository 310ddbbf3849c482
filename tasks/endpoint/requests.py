"""Question of one call, and the cheap question before all others."""

import base64
import re
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

from PIL import Image as PillowImage

from tasks.demo.chat import PROBE

PICTURE_LIMIT = re.compile(r"at most (\d+) image|supports up to (\d+) image", re.IGNORECASE)
"""Refusal of a request with too many pictures, in the words of vLLM and Groq."""


class Image(NamedTuple):
    """A picture in a request, as a data URL in ASCII."""

    data_url: bytes


class Request(NamedTuple):
    """One question to the judge."""

    system: str
    content: tuple[str | Image, ...]
    name: str
    """Name of the reply schema."""
    schema: Mapping[str, Any]
    turn: int = 0
    """Number of times the question was asked before. The seed grows by it, or each vote would repeat the first one."""
    breakpoints: tuple[int, ...] = ()
    """Indices of the parts that end a shared prefix; empty if none is shared."""
    system_is_shared: bool = False
    """True if the system message by itself is a shared prefix."""
    key: str = ""
    """Key under which a cache looks for the shared prefix; empty if none is shared."""

    @property
    def pictures(self) -> int:
        """Number of pictures in the question."""
        return sum(isinstance(part, Image) for part in self.content)


@cache
def probe_request(pictures: int = 1, shares: bool = False) -> Request:
    """Return a cheap question in the form of the real ones: as many pictures, a reply schema, the word JSON.

    Args:
        shares: the real questions share prefixes; then the cheap one marks one, too, to detect a refusal of the marks.
    """
    white = BytesIO()
    PillowImage.new("RGB", (64, 64), "white").save(white, "PNG")
    words = 'This checks that you can be reached. Reply with the JSON object {"ready": true} and nothing around it.'
    schema = {
        "type": "object",
        "properties": {"ready": {"type": "boolean"}},
        "required": ["ready"],
        "additionalProperties": False,
    }
    picture = Image(b"data:image/png;base64," + base64.b64encode(white.getvalue()))
    probe = Request("You answer readiness checks.", (words, *[picture] * pictures), PROBE, schema)
    return probe._replace(breakpoints=(pictures,), system_is_shared=True, key=PROBE) if shares else probe


def advice(request: Request, refusal: str) -> str:
    """Return advice to append to a refusal of this request; "" if there is none."""
    limit = PICTURE_LIMIT.search(refusal)
    most = int(limit[1] or limit[2]) if limit else request.pictures
    if most >= request.pictures:
        return ""
    if not most:
        return ". The model takes no pictures: choose one that does"
    return (
        f". A question holds {request.pictures} pictures: start the judge's server so that it takes them (vLLM: "
        f"--limit-mm-per-prompt '{{\"image\": {request.pictures}}}', older versions image={request.pictures}), or "
        "choose another model"
    )
