"""Page of a comparison of two evaluations, beside the store's other pages."""

import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path
from urllib.parse import quote

from tasks.comparing.comparison import Comparison, Side
from tasks.comparing.wording import changed_lines, difference_grid, notes, outcome_words
from tasks.files import write_file
from tasks.pages.page import SITE_STYLE, rendered, stamp
from tasks.pages.page_names import FOLDER, folder_of, page_name
from tasks.protocols import display_of, protocol_of
from tasks.text import one_line

LONGEST_NAME = 120


def write_comparison(store: Path, found: Comparison, command: str) -> Path:
    """Write the page of a comparison over an earlier page of the same sides, and return its path.

    Args:
        command: command that makes the page, as a person types it.

    Raises:
        InputError: the folder of pages is a link.
        OSError: the page cannot be written.
    """
    folder = folder_of(store)
    target = folder / _name(found)
    names = {file.name for file in folder.glob("*.html")}
    write_file(store, f"{FOLDER}/{target.name}", comparison_page(found, command, names).encode("utf-8", "replace"))
    return target


def _name(found: Comparison) -> str:
    """Return a file name that is unique to the two sides."""
    asked = "\n".join((found.before.run_id, found.before.candidate, found.after.run_id, found.after.candidate))
    return f"compare-{hashlib.sha256(asked.encode('utf-8', 'replace')).hexdigest()[:16]}.html"


def comparison_page(found: Comparison, command: str, pages: Collection[str]) -> str:
    """Return the comparison as HTML.

    Args:
        command: command that makes the page.
        pages: names of the files beside the page.
    """
    title, *lines = changed_lines(found) or ["No samples are paired"]
    unit, counted = protocol_of(found.before.flow).unit, display_of(found.before.flow).counted
    known = pages if unit == counted else ()  # A prompt has several samples, and no card of its own.
    sides = {"before": found.before, "after": found.after}
    return rendered(
        "comparison.html.j2",
        "",
        {
            "title": f"{found.before.flow}: {_candidates(found)}",
            "shows": stamp(),
            "command": command,
            "sides": [_side(name, side, pages) for name, side in sides.items()],
            "unmeasured": found.unmeasured,
            "outcome": outcome_words(found),
            "table": difference_grid(found.rows, found.before.flow),
            "notes": notes(found),
            "changed_title": title.strip().rstrip(":").capitalize(),
            "changed": [
                {"words": line.strip(), "links": [*_links(sides, each.sample_id, known)]}
                for line, each in zip(lines, found.changed, strict=True)
            ],
        },
        [SITE_STYLE],
    )


def _candidates(found: Comparison) -> str:
    names = dict.fromkeys((found.before.candidate, found.after.candidate))
    return " against ".join(one_line(name, LONGEST_NAME) for name in [*names][::-1])


def _side(name: str, side: Side, pages: Collection[str]) -> dict[str, str]:
    words = {
        key: one_line(str(getattr(side, key)), LONGEST_NAME) for key in ("candidate", "judge", "prompt_set", "dataset")
    }
    when = f"{side.started_at:%Y-%m-%d %H:%M}"
    return {"name": name, "run_id": side.run_id, "when": when, "page": _page(side, pages), **words}


def _page(side: Side, pages: Collection[str]) -> str:
    name = page_name(side.run_id)
    return quote(name) if name in pages else ""


def _links(sides: dict[str, Side], sample_id: str, pages: Collection[str]) -> Iterator[dict[str, str]]:
    """Yield a link to the sample in the page of either side; one link if both sides are the same."""
    for name, side in ({"in it": sides["after"]} if sides["before"] == sides["after"] else sides).items():
        if page := _page(side, pages):
            yield {"words": name, "href": f"{page}#sample={quote(sample_id, safe='')}"}
