"""Pages of old evaluations made small: first the judge's words go from them, and the pictures last.

Owns the rule and what is cut out of a page. Scores, verdicts and the addresses of samples stay, and the page says what
it has lost. What made a page anew, `jury pages RUN`, made it whole, and it stays so for the days that the rule names.
"""

import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from tasks.files import write_whole
from tasks.pages.page_names import page_of
from tasks.pages.without_pictures import without_pictures


class Stage(NamedTuple):
    """One step of the rule: a page is so thin when it is older than both."""

    newest: int
    """Evaluations of a flow and its candidates, the newest, whose pages are not."""
    age: timedelta
    """Since it was made, up to which it is not."""
    lost: str


STAGES = (
    Stage(14, timedelta(days=30), "the judge's words and the earlier verdicts"),
    Stage(60, timedelta(days=90), "the judge's words, the earlier verdicts and the pictures"),
)
_HEAD = 64
"""Bytes of a page that say how thin it is."""
_MARK = re.compile(r'<html lang="en"(?: data-thinned="(\d)")?>')
_LACKS = re.compile(r'(<main>\n)(?:<p id="lacks" class="absent">[^<]*</p>\n?)*')
_SAMPLES = re.compile(r'(<script type="application/json" id="samples">)(.*?)(</script>)', re.DOTALL)


def thin(store: Path, ordered: Iterable[Sequence[str]], now: float | None = None) -> list[Path]:
    """Make those pages small that are due; returns them.

    Args:
        ordered: ids of the evaluations of each flow and its candidates, newest first.
        now: a Unix time; None: the present.
    """
    found: list[Path] = []
    for run_ids in ordered:
        for at, run_id in enumerate(run_ids[STAGES[0].newest :], STAGES[0].newest):
            page = page_of(store, run_id)
            if page.is_file():
                made = page.stat().st_mtime
                age = timedelta(seconds=(now or time.time()) - made)
                stage = sum(at >= each.newest and age > each.age for each in STAGES)
                if stage and _stage(page) < stage:
                    write_whole(page, thinned(page.read_text(encoding="utf-8"), stage).encode(), private=True)
                    os.utime(page, (made, made))
                    found.append(page)
    return found


def _stage(page: Path) -> int:
    """How thin a page is; one that is none of ours stays as it is."""
    with page.open("rb") as file:
        found = _MARK.search(file.read(_HEAD).decode(errors="replace"))
    return int(found[1] or 0) if found else len(STAGES)


def thinned(page: str, stage: int) -> str:
    """A page without the judge's words and earlier verdicts (1), or without pictures either (2)."""
    rule = STAGES[stage - 1]
    words = (
        f"This is an old page: {rule.lost} are not on it any more, because it is not of the newest {rule.newest} of "
        f"its flow and candidate and was made more than {rule.age.days} days ago. `jury pages RUN` makes it anew."
    )
    said = Markup('<p id="lacks" class="absent">{}</p>\n').format(words)
    text = _MARK.sub(f'<html lang="en" data-thinned="{stage}">', page, count=1)
    text = _LACKS.sub(lambda found: f"{found[1]}{said}", text, count=1)
    text = _SAMPLES.sub(lambda found: f"{found[1]}{_without_words(found[2])}{found[3]}", text, count=1)
    return without_pictures(text) if stage == len(STAGES) else text


def _without_words(samples: str) -> str:
    cards: list[dict[str, Any]] = json.loads(samples)
    for card in cards:
        card.pop("earlier", None)
        for question in card.get("questions", ()):
            question.pop("reasons", None)
        for aspect in card.get("aspects", ()):
            aspect["explanation"] = ""
    return str(htmlsafe_json_dumps(cards, ensure_ascii=False, separators=(",", ":")))
