"""Pages without pictures: whether pages of this process may hold any, what one without says, and how they are taken out
of one that was made with them.
"""

import os
import re

from markupsafe import Markup

from tasks.errors import InputError

VARIABLE = "JURY_PAGES_PICTURES"
LEFT_OUT = "Pictures are left out of this page (--no-pictures)."
NEVER = f"Pictures are left out of all pages that are made here ({VARIABLE}=no)."
_PICTURES = re.compile(r'\n<script type="text/plain" id="p-[0-9a-f]*">[^<]*</script>')
_MAIN = "<main>\n"


def may_have_pictures() -> bool:
    """Whether pages may hold pictures; what sends pages sends none then, either, whoever made them.

    Raises:
        InputError: the environment says something else than yes or no.
    """
    text = os.environ.get(VARIABLE, "").strip() or "yes"
    if text not in ("yes", "no"):
        raise InputError(
            f"{VARIABLE} is {text!r}: allowed is no, by which no page holds a picture; yes or unset allows all"
        )
    return text == "yes"


def without_pictures(page: str) -> str:
    """The page without its pictures; the samples say that these are not kept."""
    return _PICTURES.sub("", page)


def as_sent(page: bytes) -> bytes:
    """A page of the store as it may be sent: one that was made with pictures loses them where there may be none."""
    if may_have_pictures():
        return page
    text = page.decode("utf-8", "replace")
    if (bare := without_pictures(text)) == text:
        return page
    said = Markup('<p class="absent">{}</p>\n').format(NEVER)
    return bare.replace(_MAIN, f"{_MAIN}{said}", 1).encode()
