"""HTML pages that are one file each, load nothing, and run no script but their own."""

import base64
import hashlib
import html
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

HEAD_BYTES = 2000
"""Number of first bytes of a page, which hold its policy."""
_HERE = Path(__file__).parent
_META = re.compile('<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
_HASH = "'sha256-[A-Za-z0-9+/]{43}='"
_POLICY = re.compile(
    f"default-src 'none'; img-src data:; style-src {_HASH}; script-src {_HASH}; base-uri 'none'; form-action 'none'"
)


def rendered(template: str, script: str, values: Mapping[str, object], style: str = "page.css") -> str:
    """Render a page as HTML.

    Args:
        template: file of this folder; it gets `css`, `js`, `policy` and `values`.
        script: file of the page's own script, which follows the common one; empty: it has none.
        style: file of the page's own style, which follows the common one.
    """
    css = _joined("base.css", style)
    js = _joined("common.js", script)
    # The template inserts them verbatim, so that the hashes in the policy match the text that the browser reads.
    return _template(template).render(css=Markup(css), js=Markup(js), policy=_policy(css, js), **values)


def _joined(*names: str) -> str:
    return "\n".join(_HERE.joinpath(name).read_text(encoding="utf-8") for name in names if name)


def stamp() -> str:
    """Return the present moment, as a new page shows it."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def _policy(css: str, js: str) -> str:
    """Return a Content-Security-Policy: pictures within the page, this style and this script, and nothing else."""
    style, script = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, js))
    allowed = f"img-src data:; style-src 'sha256-{style}'; script-src 'sha256-{script}'"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def policy_of(head: bytes) -> str:
    """Return the policy in the first bytes of a page; if it has another form or none, one that allows nothing.

    The page may be a stranger's, and its policy goes into a header unchanged.
    """
    found = _META.search(head.decode("utf-8", "replace"))
    policy = html.unescape(found[1]) if found else ""
    return policy if _POLICY.fullmatch(policy) else "default-src 'none'"


@cache
def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    return environment.get_template(name)
