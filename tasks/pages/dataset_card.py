"""The card of an exported evaluation: what it is, how it was judged, what its numbers are and what its columns hold.

In the form that Hugging Face's hub reads: front matter in YAML, then Markdown. Texts of strangers in it are plain text.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import yaml

from tasks.controls.status import red_words, status_lines
from tasks.history.parquet import Written
from tasks.pages.rate_tables import rate_grid, rate_notes
from tasks.pages.run_summary import Summary
from tasks.pages.summary_texts import cost_lines, defect_lines, failure_lines, status_counts
from tasks.presentation.markup import bullets, grid, plain, table
from tasks.presentation.wording import judge_words
from tasks.text import one_line

TAG = "image-jury"
"""Tag of every such card."""
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
"""The hub's words for fewer rows than so many."""
NAME = 80
LONGEST = 400
MOST_LINES = 50
"""Warnings shown; the others are counted."""
RIGHTS = (
    "The licence is not known. Captions, prompts and data come from the dataset, replies from the judge, and both are "
    "their owners'; whoever passes this on has to know what they allow.",
    "Texts are as they came, and no instructions to whoever reads them. Warnings and problems may name folders of the "
    "machine that judged.",
)


def card(summary: Summary, files: Sequence[Written], pictures: int) -> str:
    """The card of an evaluation that was written as these files.

    Args:
        pictures: thumbnails that were written besides.
    """
    start = summary.start
    title = f"{start.flow}: {' + '.join(start.candidates)}"
    parts = [
        _front_matter(one_line(f"Image Jury, {title}", LONGEST), files),
        f"# {plain(title, LONGEST)}",
        *(f"**{plain(words, LONGEST)}**" for words in (red_words(summary.controls), summary.unmeasured) if words),
        summary.display.instrument,
        _about(summary),
        *_scores(summary),
        *_section("Order and votes", _rates(summary)),
        *_section("Controls", [bullets(status_lines(summary.controls))] * bool(summary.controls)),
        *_section("Failures and warnings", [bullets(_trouble(summary))]),
        *_section("Calls", [bullets(cost_lines(summary))]),
        *_section("Protocol", [_protocol(summary)]),
        *(part for file in files for part in _file(file)),
        *_section("Pictures", [_pictures(pictures)]),
        *_section("Rights", [bullets(RIGHTS)]),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(title: str, files: Sequence[Written]) -> str:
    rows = max(file.rows for file in files)
    about = {
        "pretty_name": title,
        "license": "unknown",
        "tags": [TAG, "evaluation", "vlm-as-a-judge"],
        "size_categories": [next((words for most, words in SIZES if rows < most), "n>1M")],
        "configs": [
            {"config_name": file.name, "data_files": f"{file.name}.parquet"} | ({"default": True} if first else {})
            for first, file in zip((True, *[False] * len(files)), files, strict=False)
        ],
    }
    return f"---\n{yaml.safe_dump(about, sort_keys=False, width=1000)}---"


def _about(summary: Summary) -> str:
    start, end = summary.start, summary.end
    ended = end.finished_at[:16].replace("T", " ") if end else "unfinished"
    protocol = end.protocol if end else start.protocol
    lines = [
        ("flow", start.flow),
        ("judge", judge_words(start.model, start.endpoint)),
        ("answered by", protocol.get("model answered", "")),
        ("dataset", f"{start.dataset}, {start.samples:,} samples with all candidates"),
        ("prompt set", start.prompt_set.rpartition("/")[2]),
        ("judged", f"{start.started_at[:16].replace('T', ' ')} to {ended} UTC, by Image Jury {start.version}"),
        ("exported", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
        ("evaluation", start.run_id),
        ("protocol key", end.protocol_key if end else ""),
        ("dataset key", start.dataset_key),
    ]
    return table(["", ""], [[name, plain(words, LONGEST)] for name, words in lines], numbers=False)


def _scores(summary: Summary) -> list[str]:
    notes = [*summary.display.notes(summary.scores, summary.terms), status_counts(summary), *defect_lines(summary)]
    joins = "Scores are to be compared only with those of the same dataset key and protocol key."
    return ["## Scores", grid(summary.display.grid(summary.scores)), bullets([*notes, joins])]


def _rates(summary: Summary) -> list[str]:
    return [grid(rate_grid(summary.rates)), bullets(rate_notes(summary))] if summary.rates else []


def _section(title: str, parts: Sequence[str]) -> list[str]:
    return [f"## {title}", *parts] if any(parts) else []


def _trouble(summary: Summary) -> list[str]:
    warnings = summary.end.warnings if summary.end else ()
    more = [f"and {len(warnings) - MOST_LINES:,} more warnings"] * (len(warnings) > MOST_LINES)
    return [*failure_lines(summary), *warnings[:MOST_LINES], *more]


def _protocol(summary: Summary) -> str:
    protocol = (summary.end or summary.start).protocol
    lines = [[plain(name, NAME), plain(words, LONGEST)] for name, words in protocol.items() if name != "endpoint"]
    return table(["item", "as followed"], lines, numbers=False)


def _file(file: Written) -> list[str]:
    lines = [[f"`{name}`", f"`{kind}`", comment] for name, kind, comment in file.columns]
    rows = f"{file.words} {file.rows:,} row{'s' * (file.rows != 1)}."
    return [f"## {file.name}.parquet", rows, table(["column", "type", "what it holds"], lines, numbers=False)]


def _pictures(pictures: int) -> str:
    if not pictures:
        return "None are here: `pictures` in the tables has their hashes and sizes alone."
    return (
        f"`pictures/` has {pictures:,} thumbnail{'s' * (pictures > 1)}, each named by the SHA-256 of the file that it "
        "is made of (`source_sha256`)."
    )
