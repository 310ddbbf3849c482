"""Page on which people judge blind items: one file that opens anywhere, with no server and no network.

It reveals no owner of a picture: no candidate, id, file name, hash or verdict.
"""

import base64
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tasks.errors import InputError
from tasks.files import read_regular, write_whole
from tasks.labels.labeling import Made, sides
from tasks.pages.page import bounded, rendered
from tasks.pictures.decoding import decode
from tasks.pictures.thumbnails import LARGEST, SIDES, made
from tasks.protocols.labels import PeopleQuestion

PICTURES = 13_000_000
"""Bytes of all pictures of a page together: 17.3 MB in base64, so that 100 pairs stay below 20 MB."""
QUALITY = 80


class Written(NamedTuple):
    """A page that was written."""

    file: Path
    items: int
    bytes: int


def write_label_page(store: Path, page: Made, target: Path) -> Written:
    """Write the page of these items.

    Raises:
        InputError: a thumbnail can no longer be read.
        OSError: the file cannot be written.
    """
    items = page.page.items
    shown = {item.token: sides(item) for item in items}
    limit = PICTURES // max(1, sum(map(len, shown.values())))
    places = [(f"{token}-{at}", sha256) for token, hashes in shown.items() for at, sha256 in enumerate(hashes)]
    with ThreadPoolExecutor() as threads:
        found = threads.map(partial(_picture, store, limit=limit), [sha256 for _, sha256 in places])
        pictures = {name: picture for (name, _), picture in zip(places, found, strict=True)}
    told = [
        {"item": item.token, "tag": item.tag, "text": page.texts[item.token], "pictures": len(shown[item.token])}
        for item in items
    ]
    asked = {tag: [_question(each) for each in some] for tag, some in page.questions.items()}
    data = {"page": page.page.page_id, "asked": asked, "items": told}
    values = {"data": data, "pictures": pictures, "side": SIDES[1]}
    text = rendered("label.html.j2", "label.js", values, ["label.css"])
    whole = text.encode("utf-8", "replace")
    write_whole(target, whole)
    return Written(target, len(items), len(whole))


def _question(asked: PeopleQuestion) -> dict[str, object]:
    choices = [choice._asdict() for choice in asked.choices]
    return {"question": asked.question, "words": asked.words, "hint": asked.hint, "choices": choices}


def _picture(store: Path, sha256: str, limit: int) -> str:
    """Return a thumbnail as a new JPEG in base64, all made alike: neither form nor metadata reveals its source."""
    place = made(store, sha256)
    if place is None:
        raise InputError(f"{store}: the picture {sha256} is no longer kept: make the page again")
    image = decode(read_regular(place, LARGEST), SIDES[1]).image.convert("RGB")
    image.info.clear()
    return base64.b64encode(bounded(image, limit, QUALITY)).decode("ascii")
