"""Ledger rows with default values; a test sets only the fields that matter to it."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tasks.comparing.trend import Point
from tasks.history.queries import query
from tasks.judging.counts import CallCounts
from tasks.ledger.run_files import Ledger
from tasks.ledger.side_records import OtherCall
from tasks.pages.queries import question
from tasks.pages.run_summary import Summary, summarize
from tasks.records import (
    AspectScore,
    DimensionOutcome,
    Judgment,
    Outcome,
    PictureNote,
    Place,
    Record,
    RunEnd,
    RunStart,
    Sample,
)
from tasks.statistics.rates import RateRow, RateTally
from tasks.statistics.scores import GradeRow, GradeTally, ScoreRow, ScoreTally

DIMENSIONS = ("faithfulness", "conciseness", "readability", "aesthetics")
NOON = "2026-11-20T12:00:00+00:00"
RUN = "20261120T120000-diagram-0000aa"
SCORES = {"Model": 100.0, "Human": 0.0}
WON, LOST, TIED = ("MMMM", "Model"), ("HHHH", "Human"), ("GGGG", "Tie")
TAGS = {
    "object": ("single_object", "two_object"),
    "counting": ("counting",),
    "colors": ("colors", "color_attr"),
    "position": ("position",),
}


def slip(*_: object, **__: object) -> Any:
    """Raise an ordinary ValueError, as a bug does that passes a wrong argument."""
    raise ValueError("a slip")


def start(run_id: str = RUN, **changes: Any) -> RunStart:
    """Return the start of a diagram run on three samples."""
    values = {
        "run_id": run_id, "evaluation_id": run_id, "flow": "diagram", "started_at": NOON, "version": "0.1.0",
        "prefect_run_id": "", "scheduled": False, "dataset": "mini", "dataset_key": "d" * 64,
        "candidates": ("alpha",), "samples": 3, "prompt_set": "default",
        "prompts": {dimension: "f" * 64 for dimension in DIMENSIONS}, "dimensions": DIMENSIONS, "judge": "gpt-x",
        "endpoint": "https://judge.example/v1", "resume_key": "r" * 64, "protocol": {"temperature": "1.0"},
        "parameters": {"votes": 1, "judge": {"model": "gpt-x"}},
    }  # fmt: skip
    return RunStart.model_validate({**values, **changes})


def end(run_id: str = RUN, **changes: Any) -> RunEnd:
    """Return the end of a run that took one minute from noon."""
    values = {
        "run_id": run_id, "finished_at": "2026-11-20T12:01:00+00:00", "seconds": 60.0, "protocol_key": "p" * 64,
        "protocol": {"temperature": "1.0", "model": "gpt-x-1"}, "calls": 12, "reused": 0, "judgments": {"ok": 12},
        "outcomes": {"complete": 3},
    }  # fmt: skip
    return RunEnd.model_validate({**values, **changes})


def any_sample() -> Sample:
    """Return a sample without pictures, for reply formats that are the same for all samples."""
    return Sample(sample_id="s1", candidate="alpha", record=Place(path="test.json"))


def picture(name: str) -> PictureNote:
    """Return a note about a PNG that was sent unchanged; its hash is made from its name."""
    sha256 = name.encode().hex().ljust(64, "0")
    return PictureNote(
        source_sha256=sha256, sent_sha256=sha256, format="PNG", mode="RGB", width=640, height=480, bytes=9000,
        sent_format="PNG", sent_width=640, sent_height=480, sent_bytes=9000,
    )  # fmt: skip


def other_call(calls_id: str = "20261120T120000-probe-0000aa", **changes: Any) -> OtherCall:
    """Return an answered first question."""
    values = {
        "calls_id": calls_id, "purpose": "probe", "asked_by": "", "flow": "", "asked_at": NOON, "status": "ok",
        "judge_asked": "gpt-x", "judge_answered": "gpt-x-1", "endpoint": "https://judge.example/v1",
        "service_tier": "standard",
        "tokens_in": 100, "tokens_out": 10, "tokens_cached": 0, "tokens_written": 0, "tokens_pictures": 0,
        "tokens_reasoning": 0, "price": 0.001, "price_source": "the judge's own parameters", "estimated": 0.0,
        "saved_by_service_tier": 0.0, "saved_by_cache": 0.0, "seconds": 1.0,
    }  # fmt: skip
    return OtherCall.model_validate({**values, **changes})


def judgment(
    sample_id: str = "s1", dimension: str = "faithfulness", verdict: str | None = "Model", **changes: Any
) -> Judgment:
    """Return an ok reply at the first attempt."""
    values = {
        "run_id": RUN, "flow": "diagram", "sample_id": sample_id, "candidate": "alpha",
        "dimension": dimension, "order": "human_first", "vote": 1, "attempt": 1, "status": "ok", "verdict": verdict,
        "reasoning": "Both show the method.", "raw": f'{{"winner": "{verdict}"}}', "error": "", "finish_reason": "stop",
        "rung": "json_schema", "recovery": "strict", "key": f"{sample_id}/{dimension}", "prompt_sha256": "f" * 64,
        "text_sha256": "e" * 64, "pictures": {"human": picture(f"{sample_id}h"), "model": picture(f"{sample_id}m")},
        "judge_asked": "gpt-x", "judge_answered": "gpt-x-1", "endpoint": "https://judge.example/v1",
        "tokens_in": 1000, "tokens_out": 100, "tokens_cached": 10, "price": 0.25, "seconds": 2.0, "http_retries": 0,
        "judged_at": "2026-11-20T12:00:30+00:00", "reused_from": "",
    }  # fmt: skip
    return Judgment.model_validate({**values, **changes})


def named(verdicts: str) -> dict[str, str | None]:
    """Return dimension -> verdict, from one letter each."""
    words = {"M": "Model", "H": "Human", "G": "Both are good", "B": "Both are bad", "X": "Mixed", "-": None}
    return dict(zip(DIMENSIONS, (words[letter] for letter in verdicts), strict=True))


def outcome(sample_id: str = "s1", verdicts: str = "MMMM", overall: str | None = "Model", **changes: Any) -> Outcome:
    """Return an outcome; `verdicts` has one letter a dimension: Model, Human, Good, Bad, X (Mixed), - (missing)."""
    status = changes.get("status", "complete")
    values = {
        "run_id": RUN, "flow": "diagram", "sample_id": sample_id, "candidate": "alpha",
        "category": "", "difficulty": "", "status": status, "overall": overall, "score": _score(overall, status),
        "tier": "tier 1", "tier_path": "tier 1", "score_scale": 100.0, "caption": "Overview of the method.",
        "problem": "", "notes": (),
        "dimensions": tuple(
            DimensionOutcome(
                dimension=name, verdict=verdict, score=_score(verdict, status), human_first=verdict,
                votes=int(status in ("complete", "incomplete")), ok_votes=int(verdict is not None),
            )
            for name, verdict in named(verdicts).items()
        ),
        "pictures": {"human": picture(f"{sample_id}h"), "model": picture(f"{sample_id}m")},
        "injected": "", "caught": None, "decided_at": "2026-11-20T12:00:40+00:00",
    }  # fmt: skip
    return Outcome.model_validate({**values, **changes})


def _score(verdict: str | None, status: str) -> float | None:
    if verdict is None:
        return 0.0 if status == "forfeit" else None
    return SCORES.get(verdict, 50.0)


def write_run(store: Path, run: RunStart, rows: list[Judgment | Outcome], ended: RunEnd | None) -> Path:
    """Write a ledger as a run does, with the run's id on every row; without `ended`, it stays unfinished."""
    ledger = Ledger(store, run)
    for row in rows:
        ledger.append(row.model_copy(update={"run_id": run.run_id}))
    if ended:
        ledger.end(ended.model_copy(update={"run_id": run.run_id}))
    ledger.close()
    return ledger.folder


def summary(store: Path, *rows: Judgment | Outcome, **changes: Any) -> Summary:
    """Return the summary of a finished run with these rows; the other arguments are fields of its start."""
    write_run(store, start(**changes), [*rows], end())
    return summarize(store, RUN)


def figures(*results: tuple[str, str | None], first: int = 0, **changes: Any) -> list[Outcome]:
    """Return one outcome for each result: verdicts and overall verdict."""
    return [outcome(f"s{number:02}", *each, **changes) for number, each in enumerate(results, first)]


def finished(
    store: Path, run_id: str, rows: Sequence[Judgment | Outcome], key: str = "p", calls: int = 4, **changes: Any
) -> RunStart:
    """Store a finished run that began at the time in its id; `calls` of its four replies are new, the others reused.

    `protocol` sets that of start and end, `ended` changes fields of the end, other arguments fields of the start.
    """
    began = datetime.strptime(run_id[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC).isoformat()
    ended = {"protocol_key": key * 64, "calls": calls, "reused": 4 - calls, **changes.pop("ended", {})}
    protocol = {"protocol": changes.pop("protocol")} if "protocol" in changes else {}
    begun = start(run_id, **{"started_at": began, "flow": run_id.split("-")[1], **protocol, **changes})
    write_run(store, begun, [*rows], end(**{**protocol, **ended}))
    return begun


def line(row: Record | Mapping[str, Any]) -> str:
    """Return a row as a ledger line, valid or not."""
    text = row.model_dump_json() if isinstance(row, Record) else json.dumps(row, separators=(",", ":"))
    return f"{text}\n"


def image(sample_id: str = "00000/0000", score: float | None = 8.0, **changes: Any) -> Outcome:
    """Return the outcome of a counting image; its prompt is the part of the id before the slash."""
    status = changes.get("status", "incomplete" if score is None else "complete")
    tag = changes.get("tag", "counting")
    values = {
        "run_id": RUN, "flow": "counting", "sample_id": sample_id, "candidate": "alpha", "category": "",
        "difficulty": "", "tag": tag, "prompt_id": sample_id.partition("/")[0], "prompt": "a photo of two clocks",
        "status": status, "overall": None, "score": score, "aspect_mean": score, "score_scale": 10.0,
        "tier": "", "tier_path": "overall",
        "dimensions": (DimensionOutcome(dimension=tag, verdict=None, score=score, votes=1, ok_votes=1),),
        "caption": "", "pictures": {"image": picture(sample_id)}, "problem": "", "notes": (), "injected": "",
        "caught": None, "decided_at": "2026-11-20T12:00:40+00:00",
    }  # fmt: skip
    return Outcome.model_validate({**values, **changes})


def scored(**scores: float | None) -> tuple[AspectScore, ...]:
    """Return aspects with these scores."""
    return tuple(AspectScore(aspect=key, score=value, explanation=f"why {key}") for key, value in scores.items())


def page_trend(store: Path, run_id: str, *dimensions: str) -> list[Point]:
    """Return the trend points on a run's page, for these dimensions or tags."""
    points = [Point(*row) for row in query(store, question("trend", run=run_id)).rows]
    return [point for point in points if point.dimension in dimensions]


def rasterized(drawing: bytes) -> bytes:
    """Return an SVG file as a PNG of twice its size."""
    import resvg_py

    return bytes(resvg_py.svg_to_bytes(svg_string=drawing.decode(), zoom=2))


def score_rows(outcomes: Iterable[Outcome]) -> list[ScoreRow]:
    """Return score rows: all samples, each category and each difficulty, in order of first appearance."""
    tally = ScoreTally()
    for outcome in outcomes:
        tally.add(outcome)
    return tally.rows()


def grade_rows(outcomes: Iterable[Outcome], good_from: float) -> list[GradeRow]:
    """Return score rows of all candidates and tags, in order of first appearance."""
    tally = GradeTally(good_from)
    for outcome in outcomes:
        tally.add(outcome)
    return tally.rows()


def rate_rows(outcomes: Iterable[Outcome], judgments: Iterable[Judgment]) -> list[RateRow]:
    """Return rates of all candidates and dimensions; without judgments, only those of the rule and of order flips.

    Args:
        outcomes: outcomes of real samples of a run, or of all shards of an evaluation.
        judgments: all attempts, in ledger order; controls are skipped.
    """
    tally = RateTally()
    for outcome in outcomes:
        tally.decide(outcome)
    return tally.rows(judgments)


def counted_run(
    counts: CallCounts,
    cost: Callable[[int, int], str] = lambda *_: "",
    held_up: Callable[[], str] = str,
    keep: Callable[[str], object] = str,
) -> Any:
    """Return a run with these counts, as far as its progress is concerned."""
    vlm, ledger = SimpleNamespace(gate=SimpleNamespace(words=held_up)), SimpleNamespace(note_progress=keep)
    return SimpleNamespace(counts=counts, bill=SimpleNamespace(words=cost), vlm=vlm, ledger=ledger)
