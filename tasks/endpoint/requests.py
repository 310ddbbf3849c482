"""What is asked of a judge in one call, and the cheap question that comes before all others.

How texts and pictures of a sample become a question is for `judging.questions`.
"""

import base64
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

from PIL import Image as PillowImage

from tasks.embedded_judge.app import PROBE


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


@cache
def probe_request() -> Request:
    """A cheap question in the form of the real ones: a picture, a reply schema, a word about JSON."""
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
    return Request("You answer readiness checks.", (words, picture), PROBE, schema)
