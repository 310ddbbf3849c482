"""HTML pages that are one file each, load nothing, and share a fixed size among their pictures."""

import base64
import hashlib
import html
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any

import jinja2
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from PIL import Image

from tasks.pictures.decoding import BadPicture, decode
from tasks.pictures.thumbnails import SIDES, made, scaled

HEAD_BYTES = 2000
"""Number of first bytes of a page, which hold its policy."""
SITE_STYLE = "page.css"
"""Style that the pages of a store share."""
FORMS = "index.html.j2"
"""The template whose form asks the server of its page for a comparison."""
_HERE = Path(__file__).parent
_JSON: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":")}
_META = re.compile('<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
_HASH = "'sha256-[A-Za-z0-9+/]{43}='"
WITHIN, BESIDE = "data:", "data: 'self'"
"""Sources of a page's pictures: the page itself; or files beside it, also where both lie on a disk."""
_POLICY = re.compile(
    f"default-src 'none'; img-src ({WITHIN}|{BESIDE}); style-src {_HASH}; script-src {_HASH}; base-uri 'none'; "
    "form-action '(none|self)'"
)


def rendered(template: str, script: str, values: Mapping[str, object], styles: Sequence[str]) -> str:
    """Render a page as HTML."""
    return "".join(pieces(template, script, values, styles))


def pieces(
    template: str, script: str, values: Mapping[str, object], styles: Sequence[str], pictures: str = WITHIN
) -> Iterator[str]:
    """Yield a page as HTML, piece after piece: the pictures of a large run need more memory than they should.

    Args:
        template: file of this folder; it gets `css`, `js`, `policy` and `values`.
        script: file of the page's own script, which follows the common one; empty: it has none.
        styles: files of the page's style, which follow the one of all pages.
        pictures: sources of its pictures, for its policy.
    """
    css = _joined("base.css", *styles)
    js = _joined("common.js", script)
    # The template inserts them verbatim, so that the hashes in the policy match the text that the browser reads.
    policy = _policy(css, js, pictures, "self" if template == FORMS else "none")
    return _templates().get_template(template).generate(css=Markup(css), js=Markup(js), policy=policy, **values)


def as_json(value: object) -> Markup:
    """Return a value as JSON for a page's script element, as the template's own filter does."""
    return htmlsafe_json_dumps(value, **_JSON)


def _joined(*names: str) -> str:
    return "\n".join(_HERE.joinpath(name).read_text(encoding="utf-8") for name in names if name)


def stamp() -> str:
    """Return the present moment, as a new page shows it."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def _policy(css: str, js: str, pictures: str, forms: str) -> str:
    """Return a Content-Security-Policy: pictures of these sources, this style and this script, and nothing else.

    Args:
        forms: where its forms may lead: none, or the server itself.
    """
    style, script = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, js))
    allowed = f"img-src {pictures}; style-src 'sha256-{style}'; script-src 'sha256-{script}'"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action '{forms}'"


def policy_of(head: bytes) -> str:
    """Return the policy in the first bytes of a page; if it has another form or none, one that allows nothing.

    The page may be a stranger's, and its policy goes into a header unchanged.
    """
    found = _META.search(head.decode("utf-8", "replace"))
    policy = html.unescape(found[1]) if found else ""
    return policy if _POLICY.fullmatch(policy) else "default-src 'none'"


@cache
def _templates() -> jinja2.Environment:
    """Return the templates; each is compiled once, also the parts that several pages include."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined, auto_reload=False
    )
    templates.policies["json.dumps_kwargs"] = _JSON
    return templates


PICTURES = 16_000_000
"""Bytes of all pictures together: in base64 they are 21.4 MB, so that such a page stays under 30 MB."""
LARGEST_BESIDE = 60_000
"""Bytes allowed to each picture that lies beside its page."""
AT_ONCE = 500
"""Pictures of a page that are in memory at the same time."""
ROUNDS = 6
"""Most tries to get a picture below its limit; most get there in one or two."""


def fair_share(sizes: Sequence[int], budget: int) -> int:
    """Return the largest limit for which all sizes, each cut to it, stay within the budget.

    A size below its share leaves the rest to the others. Where all fit, the limit is the largest size.
    """
    left = budget
    ordered = sorted(sizes)
    for at, size in enumerate(ordered):
        others = len(ordered) - at
        if size * others > left:
            return left // others
        left -= size
    return ordered[-1] if ordered else budget


def thumbnails(store: Path, hashes: Iterable[str]) -> dict[str, Path]:
    """Return SHA-256 of a picture -> the file of its thumbnail, without those not kept."""
    wanted = sorted(set(hashes))
    with ThreadPoolExecutor() as threads:
        found = zip(wanted, threads.map(partial(made, store), wanted), strict=True)
        return {sha256: path for sha256, path in found if path}


def embedded(kept: Mapping[str, Path], limit: int = 0, side: int = SIDES[1]) -> Iterator[tuple[str, str]]:
    """Yield SHA-256 of each picture and its thumbnail, a JPEG in base64, without those not whole.

    Args:
        limit: most bytes of each; 0: its share of a page.
        side: most pixels of the longer side.
    """
    limit = limit or fair_share([path.stat().st_size for path in kept.values()], PICTURES)
    return ((sha256, base64.b64encode(data).decode("ascii")) for sha256, data in fitted(kept, limit, side))


def fitted(kept: Mapping[str, Path], limit: int = LARGEST_BESIDE, side: int = SIDES[1]) -> Iterator[tuple[str, bytes]]:
    """Yield SHA-256 of each picture and its thumbnail, a JPEG of at most `limit` bytes, without those not whole."""
    hashes = list(kept)
    with ThreadPoolExecutor() as threads:
        for start in range(0, len(hashes), AT_ONCE):
            part = hashes[start : start + AT_ONCE]
            pictures = threads.map(partial(_fitted, limit=limit, side=side), (kept[sha256] for sha256 in part))
            yield from ((sha256, picture) for sha256, picture in zip(part, pictures, strict=True) if picture)


def _fitted(path: Path, limit: int, side: int) -> bytes:
    try:
        data = path.read_bytes()
        if len(data) > limit or side < SIDES[1]:
            picture = decode(data, SIDES[1]).image.convert("RGB")
            data = bounded(scaled(picture, side / max(picture.size), Image.Resampling.LANCZOS), limit, quality=70)
        return data
    except (BadPicture, OSError):  # begins like a JPEG and is none, or has more pixels than a thumbnail
        return b""


def bounded(picture: Image.Image, limit: int, quality: int) -> bytes:
    """Return the picture as a JPEG of at most `limit` bytes; it may lose pixels, in at most `ROUNDS` tries."""
    data, scale = _jpeg(picture, quality), 1.0
    for _ in range(ROUNDS):
        if len(data) <= limit:
            break
        scale *= min(0.9, math.sqrt(limit / len(data)))  # file size is proportional to the area
        data = _jpeg(scaled(picture, scale, Image.Resampling.LANCZOS), quality)
    return data


def _jpeg(picture: Image.Image, quality: int) -> bytes:
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=quality, optimize=True)
    return buffer.getvalue()
