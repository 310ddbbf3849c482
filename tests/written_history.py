"""Histories written to disk for tests of pages and views: ledgers, thumbnails and the database."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from factories import DIMENSIONS, RUN, end, image, judgment, named, outcome, scored, start, write_run
from PIL import Image
from strangers import HOSTILE
from written_datasets import encoded

from tasks.history.landing import land
from tasks.history.queries import query
from tasks.records import DimensionOutcome, Judgment, Outcome

EARLIER, LATER = "20261119T120000-diagram-0000aa", "20261120T120000-diagram-0000bb"
SCRIPT = "<script>document.title = 'harmed'; alert(1)</script>"
LONG = "Faithfulness of Human: fine; Faithfulness of Model: " + "very long " * 5_000 + "; Conclusion: Model."


def keep_thumbnails(store: Path, samples: Iterable[Outcome], size: tuple[int, int] = (320, 200)) -> None:
    """Write a JPEG for every picture, where a run stores thumbnails; each has its own colour."""
    (store / "pictures").mkdir(parents=True, exist_ok=True)
    for sample in samples:
        for note in sample.pictures.values():
            shade = int(note.source_sha256[:6], 16)
            colour = (shade >> 16, shade >> 8 & 255, shade & 255)
            Image.new("RGB", size, colour).save(store / "pictures" / f"{note.source_sha256}.jpg", quality=75)


def noise(side: int) -> bytes:
    """Return a JPEG as large in bytes as this size allows."""
    pixels = np.random.default_rng(side).integers(0, 255, (side, side, 3), np.uint8)
    return encoded(Image.fromarray(pixels), "JPEG", quality=95)


def pair(sample_id: str, verdicts: str, overall: str | None, **changes: Any) -> list[Judgment | Outcome]:
    """Return a judged figure: a judgment for each dimension, and the outcome."""
    reasoning, rows = changes.pop("reasoning", ""), list[Judgment | Outcome]()
    for name, verdict in named(verdicts).items():
        words = reasoning or f"{name} of Human: seen; {name} of Model: seen, too; Conclusion: {verdict}."
        rows.append(judgment(sample_id, name, verdict, status="ok" if verdict else "invalid", reasoning=words))
    return [*rows, outcome(sample_id, verdicts, overall, **changes)]


def keep(store: Path, run_id: str, rows: Sequence[Judgment | Outcome], **changes: Any) -> str:
    """Write a finished run with its thumbnails to ledger and history; `ended` changes its end record."""
    keep_ledger(store, run_id, rows, **changes)
    land(store)
    return run_id


def keep_ledger(store: Path, run_id: str, rows: Sequence[Judgment | Outcome], **changes: Any) -> None:
    ended = changes.pop("ended", {})
    write_run(store, start(run_id, **changes), list(rows), end(**ended))
    keep_thumbnails(store, (row for row in rows if isinstance(row, Outcome)))


def figures(later: bool) -> list[Judgment | Outcome]:
    """Return twelve figures, two of which have other outcomes later; the hostile texts are in the first ones."""
    rows = [
        *pair("s1", "MHGM", "Model", caption=SCRIPT + " </script> & <b>bold</b>", category="agent", difficulty="easy"),
        *pair("s2", "MMMM", "Model" if later else "Tie", reasoning=LONG, category="vision", injected="copy"),
        *pair("s3", "-HGM", None, status="incomplete", tier_path=" ".join(HOSTILE), notes=HOSTILE),
        *pair("s10", "HHBB", "Human", category="agent", tier="tier 1", pivotal=("readability",)),
        *(row for number in range(4, 10) for row in pair(f"s{number}", "GGGG", "Tie", category="vision")),
        *pair("s11", "GGGG" if later else "BGGG", "Tie"),
    ]
    orders: dict[str, Any] = {"human_first": "Model", "model_first": "Human", "order_flip": True, "reversal": True}
    flipped = DimensionOutcome(dimension="aesthetics", verdict="Mixed", score=50.0, **orders)
    [*others, sample] = pair("s12", "GGGX", "Tie")
    assert isinstance(sample, Outcome)
    return [*rows, *others, sample.model_copy(update={"dimensions": (*sample.dimensions[:3], flipped)})]


def images() -> list[Judgment | Outcome]:
    """Return two images of one prompt, one of which is not as requested."""
    rows: list[Judgment | Outcome] = []
    for sample_id, score, satisfied in (("00000/0000", 8.5, True), ("00000/0001", 2.0, False)):
        seen = {"objects": [{"name": "clock", "present": True, "count": 2 if satisfied else 3, "color": "red"}]}
        rows += [
            image(sample_id, score, aspects=scored(count_accuracy=score, object_uniformity=None), satisfied=satisfied),
            judgment(sample_id, "counting", None, flow="counting", order="single", seen=seen),
        ]
    return rows


OF_COUNTING: Any = {"flow": "counting", "parameters": {"threshold": 7.0}, "dimensions": ("counting",)}


def write_evaluations(store: Path) -> Path:
    """Write two evaluations of the same figures, EARLIER and LATER, and an older one of images."""
    keep_ledger(store, EARLIER, figures(later=False), samples=12, started_at="2026-11-19T12:00:00+00:00")
    keep_ledger(store, LATER, figures(later=True), samples=12, ended={"warnings": HOSTILE[:2]})
    begun = {"started_at": "2026-11-18T12:00:00+00:00", **OF_COUNTING}
    keep_ledger(store, "20261118T120000-counting-0000cc", images(), **begun)
    land(store)
    return store


def written(store: Path, target: Path, *arguments: str) -> Path:
    from flows.cli import main

    assert main(["report", *arguments, "-o", str(target), "--store", str(store)]) == 0
    return target


def ask(store: Path, sql: str) -> list[tuple[Any, ...]]:
    return query(store, sql).rows


def whole_run(store: Path, run_id: str = RUN, **changes: Any) -> Path:
    """Write a finished run of one sample, judged Model throughout, to the ledger only."""
    rows = [judgment("s1", dimension) for dimension in DIMENSIONS]
    return write_run(store, start(run_id, samples=1, **changes), [*rows, outcome("s1")], end())
