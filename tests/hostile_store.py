"""A store full of hostile texts, and a page of every kind.

This module owns these texts and their positions: names of candidates, datasets, models, samples and categories,
captions, prompts, reasons, notes and warnings.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from answered_page import COUNTING
from factories import end, start, write_run
from PIL import Image
from strangers import HOSTILE
from written_datasets import encoded
from written_history import EARLIER, LATER, LONG, OF_COUNTING, SCRIPT, images, keep_thumbnails, pair, written

from flows.cli import main
from tasks.history.landing import land
from tasks.history.queries import Evaluation
from tasks.labels.inputs import Drawable, Inputs
from tasks.pages.site import renew
from tasks.records import Judgment, Outcome, RunEnd, RunStart
from tasks.rubrics.rubric import Rubric, load_rubric

CLOSING = "</script></style></title></textarea>--></code>"
"""Closes any element or comment that a text may be in."""
NAME = f'"><script>alert(1)</script> onerror=alert(1) {"W" * 120}'
"""Unlike our own names: too long for a line, and without a possible line break."""
SAMPLE = "<b>s</b>&sample=1#'\"../../x"
REASON = " ".join((CLOSING, SCRIPT, *HOSTILE, LONG))
"""50 KB."""
TEXT = " ".join((CLOSING, SCRIPT, *HOSTILE, "{{ 7 * 7 }}", "\u202e", "x" * 500))

Row = TypeVar("Row", Judgment, Outcome)


def _hostile(row: Row) -> Row:
    """Return the row with hostile texts in it."""
    texts: dict[str, Any] = {"candidate": NAME, "sample_id": row.sample_id.replace("s1", SAMPLE, 1)}
    if isinstance(row, Judgment):
        reason = REASON if row.sample_id == "s1" else TEXT  # once is enough to see the effect
        texts |= {"reasoning": reason, "raw": reason, "error": TEXT, "judge_answered": NAME, "system_fingerprint": TEXT}
    else:
        asked = {"prompt": TEXT} if row.prompt else {"caption": TEXT}
        texts |= {**asked, "category": NAME, "difficulty": SCRIPT, "tier_path": TEXT, "notes": HOSTILE, "problem": TEXT}
    return row.model_copy(update=texts)


def _begun(run_id: str, **changes: Any) -> RunStart:
    named = {"candidates": (NAME,), "dataset": TEXT[:200], "judge": NAME, "prompt_set": SCRIPT}
    return start(run_id, **named, **changes)


def _ended() -> RunEnd:
    return end(warnings=(TEXT,), protocol={"temperature": "1.0", "model": NAME, SCRIPT: TEXT})


def _figures(later: bool) -> list[Judgment | Outcome]:
    """Return twelve pairs, half of which have other outcomes later: enough for a comparison to have an interval."""
    verdicts = (("MMMM", "Model"), ("HHHH", "Human"))
    pairs = [pair(f"s{number}", *verdicts[later and number % 2]) for number in range(1, 13)]
    return [row for rows in pairs for row in rows]


def write_hostile(store: Path) -> Path:
    """Write two evaluations of the same figures, and one of images."""
    for run, rows in (
        (_begun(EARLIER, started_at="2026-11-19T12:00:00+00:00"), _figures(later=False)),
        (_begun(LATER), _figures(later=True)),
        (_begun(COUNTING, started_at="2026-11-18T12:00:00+00:00", **OF_COUNTING), images()),
    ):
        changed = [_hostile(row) for row in rows]
        write_run(store, run, changed, _ended())
        keep_thumbnails(store, (row for row in changed if isinstance(row, Outcome)))
    land(store)
    return store


def _read(_store: Path, _run: Evaluation, rubric: Rubric, drawn: Collection[Drawable], _: str) -> Any:
    """Return the inputs of a dataset with such texts: `read_inputs` would refuse most of these ids, and `prompts_of`
    the name of their prompt set."""
    texts = {
        name: TEXT for prompt in rubric.prompts for name in prompt.inputs if name in ("context", "caption", "prompt")
    }
    jpeg = encoded(Image.new("RGB", (3000, 1000), "green"), "JPEG")
    return {each[:2]: Inputs(texts, dict.fromkeys(each.pictures.values(), jpeg)) for each in drawn}


def write_pages(store: Path) -> dict[str, Path]:
    """Write a page of every kind; pages of the store are inside it."""
    at = ["--store", str(store)]
    counting, later = renew(store, [LATER, COUNTING]).pages
    assert main(["compare", EARLIER, LATER, *at]) == 0
    with (
        patch("tasks.labels.labeling.read_inputs", _read),
        patch("tasks.labels.labeling.prompts_of", lambda run: load_rubric(run.flow)),
    ):
        assert main(["labels", "page", LATER, "-n", "4", "-o", str(store / "label.html"), *at]) == 0
        assert main(["labels", "page", COUNTING, "-n", "2", "-o", str(store / "label-images.html"), *at]) == 0
    [comparison] = (store / "pages").glob("compare-*.html")
    return {
        "index": renew(store).place, "run": later, "run of images": counting,
        "comparison": comparison,
        "run without pictures": written(store, store / "without.html", "--flow", "counting", "--no-pictures"),
        "labels": store / "label.html", "labels of images": store / "label-images.html",
    }  # fmt: skip
