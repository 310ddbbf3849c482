"""Question of one call, and the cheap question that comes before all others."""

import base64
import re
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

from PIL import Image as PillowImage

from tasks.demo.chat import PROBE

PICTURE_LIMIT = re.compile(r"at most (\d+) image|supports up to (\d+) image", re.IGNORECASE)
"""How servers refuse a request with more pictures than they take: vLLM, Groq."""


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
    """How often the same was asked before: a seed moves on by so much, or each vote would be the first one again."""
    breakpoints: tuple[int, ...] = ()
    """Places of parts with which a beginning ends that other questions share; empty: it shares none."""
    system_is_shared: bool = False
    """The system message is such a beginning by itself."""
    key: str = ""
    """By which a cache is told where to look for its beginning; empty where it shares nothing."""

    @property
    def pictures(self) -> int:
        """How many it shows."""
        return sum(isinstance(part, Image) for part in self.content)


@cache
def probe_request(pictures: int = 1, shares: bool = False) -> Request:
    """Return a cheap question in the form of the real ones: as many pictures, a reply schema, a word about JSON.

    Args:
        shares: the real questions share beginnings, so that a refusal of that is found out, too.
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
    """What to do about a refusal of this request, to be added to its words; "" where they say it all."""
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
