"""A run's summary, in sentences and as a Markdown artifact: its content, escaping and size."""

import asyncio
import base64
import gc
import io
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from factories import (
    DIMENSIONS,
    RUN,
    counted_run,
    image,
    judgment,
    outcome,
    rasterized,
    scored,
    start,
    summary,
    write_run,
)
from PIL import Image
from strangers import HOSTILE, tokens
from written_history import keep_thumbnails

from flows.run import Progress
from tasks.errors import InputError
from tasks.judging.counts import CallCounts
from tasks.pages.artifact import THUMBNAIL_BYTES, markdown
from tasks.pages.run_summary import cost_lines, price_lines, sentence, summarize
from tasks.records import AspectScore, Judgment, Outcome
from tasks.report import publish

DATA_URI = re.compile(r"!\[([^]]*)\]\(data:image/(svg\+xml|jpeg);base64,([A-Za-z0-9+/=]+)\)")


def pictures(text: str) -> list[tuple[str, str, bytes, Image.Image]]:
    """Return title, declared format, bytes and decoded image of every embedded picture."""
    found: list[tuple[str, str, bytes, Image.Image]] = []
    for title, kind, data in DATA_URI.findall(text):
        raw = base64.b64decode(data, validate=True)
        image = Image.open(io.BytesIO(rasterized(raw) if kind == "svg+xml" else raw))
        image.load()
        found.append((title, kind, raw, image))
    return found


def cells(text: str, name: str) -> list[str]:
    """Return the cells of the first table line with this name."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_artifact_states_dataset_judge_scores_and_cost(tmp_path: Path) -> None:
    rows = [judgment("s1", dimension) for dimension in DIMENSIONS]
    text = markdown(summary(tmp_path, *rows, outcome("s1"), endpoint="https://judge.example/v1?key=secret"))
    assert text.startswith("# diagram: alpha\n\n**alpha scores 100.0 (no interval below 8")
    assert text.index("The page with every sample") < text.index("## Scores")
    assert "3 samples of mini, judged by gpt-x at judge.example, 2026-11-20 12:00 UTC" in text
    assert "alpha: score 100.0 (no interval below 8), 1/1 samples scored" in text
    assert "4 calls made, 0 replies taken from earlier runs" in text
    assert "4,000 tokens in (40 of them cached), 400 out" in text and "price: 1.0000" in text
    assert "secret" not in text


def test_artifact_lists_failures_defects_and_warnings(tmp_path: Path) -> None:
    rows = [
        judgment("s2", verdict=None, status="refused", error="not allowed"),
        outcome("s1", injected="black", caught=True),
        outcome("s2", "-GGG", None, status="incomplete"),
    ]
    text = markdown(summary(tmp_path, *rows), ["the history is locked"])
    assert "- caught 1 of 1 injected defects\n  - black 1/1" in text
    assert "- judgments: 1 refused\n  - s2, faithfulness: refused: not allowed" in text
    assert "- the history is locked" in text


def test_artifact_of_a_clean_run_has_no_empty_sections(tmp_path: Path) -> None:
    text = markdown(summary(tmp_path, judgment("s1"), outcome("s1", "GGGG", "Tie")))
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Lowest: s1", "## Scores"]


def test_artifact_of_a_run_without_outcomes_says_unfinished(tmp_path: Path) -> None:
    write_run(tmp_path, start(), [judgment("s1")], None)
    text = markdown(summarize(tmp_path, RUN))
    assert "unfinished" in text
    assert "## Scores" not in text


def test_chart_and_thumbnails_are_embedded_pictures_that_decode(tmp_path: Path) -> None:
    lost = outcome("s1", "HGHG", "Human", tier_path="tier 1: faithfulness Human, readability Human")
    words = f"Faithfulness of Human: {'fine ' * 99}; Faithfulness of Model: fine; Conclusion: An arrow is reversed."
    keep_thumbnails(tmp_path, [lost])
    text = markdown(summary(tmp_path, judgment("s1", verdict="Human", reasoning=words), lost))
    found = [(title, kind, image.format) for title, kind, _, image in pictures(text)]
    assert found == [("Human", "jpeg", "JPEG"), ("Model", "jpeg", "JPEG"), ("Scores", "svg+xml", "PNG")], (
        "pictures come first"
    )
    assert "## Lowest: s1" in text
    assert "tier 1: faithfulness Human, readability Human" in text and "Caption: Overview of the method." in text
    assert cells(text.split("## Lowest")[1], "faithfulness") == ["faithfulness", "Human", "An arrow is reversed."]


def test_image_is_shown_with_aspects_and_requirements(tmp_path: Path) -> None:
    fields = {"flow": "position", "dimensions": ("position",), "parameters": {"threshold": 7.0}}
    row = image(score=9.0, tag="position", satisfied=False, aspects=scored(position_accuracy=9.0))
    keep_thumbnails(tmp_path, [row])
    text = markdown(summary(tmp_path, row, **fields))
    assert [title for title, *_ in pictures(text)] == ["Image", "Scores"]
    assert cells(text, "position_accuracy")[1] == "9.00"


def test_wrong_checks_come_first_with_the_judges_answers(tmp_path: Path) -> None:
    checks = [AspectScore(aspect="c", question=f"{n:g}?", score=n, explanation="no: gone") for n in (100.0, 0.0)]
    row = image(score=50.0, flow="facts", tag="together", aspects=checks)
    text = markdown(summary(tmp_path, row, flow="facts", dimensions=("together",)))
    assert "| 0? | wrong | no: gone |\n| 100? | right | no: gone |" in text


def test_order_flip_shows_the_verdicts_of_both_orders(tmp_path: Path) -> None:
    flipped = outcome("s1", "XGGG", "Tie")
    first = {"human_first": "Human", "model_first": "Model", "order_flip": True, "reversal": True}
    dimensions = (flipped.dimensions[0].model_copy(update=first), *flipped.dimensions[1:])
    text = markdown(summary(tmp_path, flipped.model_copy(update={"dimensions": dimensions})))
    shown = cells(text.split("## Lowest")[1], "faithfulness")[1]
    assert shown == "Mixed (Human first: Human; Model first: Model)"


def test_absent_and_removed_pictures_are_named_in_words(tmp_path: Path) -> None:
    forfeit = outcome("s1", "----", None, status="forfeit")
    forfeit = forfeit.model_copy(update={"pictures": {"human": forfeit.pictures["human"]}})
    assert "| picture not kept | no picture |" in markdown(summary(tmp_path, forfeit))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_inert_in_the_artifact(tmp_path: Path, text: str) -> None:
    changes: dict[str, Any] = {"candidate": text, "category": text, "difficulty": text, "caption": text}
    rows = [
        judgment(text, candidate=text, verdict="Human", reasoning=text),
        judgment(text, "readability", None, candidate=text, status="refused", error=text),
        outcome(text, "HGHG", "Human", tier_path=text, injected=text, caught=False, **changes),
        outcome(f"{text}2", "----", None, status="forfeit", problem=text, **changes),
    ]
    report = markdown(summary(tmp_path, *rows, candidates=(text, "b"), dataset=text, judge=text), [text])
    found = tokens(report)
    assert {token.content for token in found if token.type.startswith("html")} <= {"<!-- -->"}
    assert not [token for token in found if token.type in ("link_open", "code_inline", "fence", "em_open", "s_open")]
    sources = [str(token.attrGet("src")) for token in found if token.type == "image"]
    assert sources and all(source.startswith(("data:image/svg+xml;", "data:image/jpeg;")) for source in sources)
    assert [token.tag for token in found if token.type == "heading_open"].count("h1") == 1


def test_artifact_stays_below_a_megabyte(tmp_path: Path) -> None:
    words, noise = "<|" * 20_000, Image.effect_noise((600, 400), 200).convert("RGB")
    rows: list[Judgment | Outcome] = []
    for overall, verdicts in {"Human": "HHHH", "Model": "MMMM", "Tie": "XGGG", None: "----"}.items():
        status = "complete" if overall else "incomplete"
        row = outcome("s", verdicts, overall, status=status, caption=words, tier_path=words)
        keep_thumbnails(tmp_path, [row])
        for file in (tmp_path / "pictures").iterdir():
            noise.save(file, quality=75)
        row = row.model_copy(update={"sample_id": f"{overall}{words}"})
        reasons = [judgment(row.sample_id, each.dimension, each.verdict, reasoning=words) for each in row.dimensions]
        rows += [row, *reasons]
    rows += [outcome("s", candidate=f"{number}{words}", category=f"{number}{words}") for number in range(100)]
    rows += [judgment(f"s{number}", verdict=None, status="refused", error=words) for number in range(100)]
    text = markdown(summary(tmp_path, *rows), [words] * 100)
    assert len(text.encode()) < 1_000_000
    thumbnails = [raw for _, kind, raw, _ in pictures(text) if kind == "jpeg"]
    assert len(thumbnails) == 6 and max(map(len, thumbnails)) <= THUMBNAIL_BYTES


def test_artifact_imports_no_slow_packages() -> None:
    slow = {"rich", "prefect", "duckdb", "openai"}
    code = f"import sys, tasks.pages.artifact; print(sorted({slow} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.usefixtures("prefect_server")
def test_progress_and_report_become_artifacts_of_the_flow_run(tmp_path: Path) -> None:
    from prefect import flow, get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
    from prefect.client.schemas.objects import Artifact
    from prefect.context import FlowRunContext

    found = summary(tmp_path, judgment("s1"), outcome("s1"))

    @flow
    async def evaluation() -> str:
        counts = CallCounts(samples=2, calls=4, not_ok=Counter(refused=1))
        async with Progress(counted_run(counts), "diagram", "diagram").shown():
            counts.done, counts.samples_done = 4, 2
        # The server refuses this key: a failure to show progress must not end the run.
        async with Progress(counted_run(CallCounts(samples=1)), "diagram", "No Such Key!").shown():
            pass
        await publish(found, "diagram-nightly", [], [])
        context = FlowRunContext.get()
        return str(context.flow_run.id) if context and context.flow_run else ""

    async def artifacts() -> list[Artifact]:
        run = await evaluation()
        async with get_client() as client:
            return await client.read_artifacts(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[UUID(run)])))

    kept = asyncio.run(artifacts())
    gc.collect()  # closes a connection that Prefect leaves open
    by_key = {artifact.key: artifact for artifact in kept}
    assert set(by_key) == {"diagram-progress", "diagram-nightly"} and by_key["diagram-progress"].data == 100
    assert by_key["diagram-progress"].description == "4/4 calls · 2/2 samples · 1 not ok (1 refused)"
    assert by_key["diagram-nightly"].data == markdown(found)


# Sentences


def test_calls_count_every_attempt_and_statuses_the_last(tmp_path: Path) -> None:
    found = summary(
        tmp_path,
        judgment("s1", verdict=None, status="unavailable", error="503"),
        judgment("s1", attempt=2),
        judgment("s2", verdict=None, status="unavailable", error="503"),
        judgment("s2", verdict=None, status="invalid", attempt=2, error="no winner"),
        judgment("s3", reused_from="earlier", tokens_in=0, tokens_out=0, tokens_cached=0, price=0.0),
    ).judgments
    assert found.statuses() == {"ok": 2, "invalid": 1}
    assert [(failure.sample_id, failure.words) for failure in found.not_ok.values()] == [("s2", "no winner")]
    assert (found.calls, found.reused, found.tokens_in, found.tokens_out) == (4, 1, 4000, 400)
    assert found.price == pytest.approx(1.0)


def test_bill_states_price_source_possible_extra_cost_and_savings(tmp_path: Path) -> None:
    table = "genai-prices 0.2.3: openai gpt-5, flex, 2026-11-20"
    flex = {"price_source": table, "service_tier": "flex", "saved_by_service_tier": 0.25}
    found = summary(
        tmp_path,
        judgment("s1", **flex, saved_by_cache=0.02, tokens_written=30, tokens_reasoning=60),
        judgment("s2", **flex, estimated=0.3),
        judgment("s3", price=0.0, price_source=table, reused_from="earlier", saved_by_reuse=0.125),
    )
    assert cost_lines(found)[1:] == [
        "3,000 tokens in (30 of them cached, 30 written to a cache), 300 out (60 of them reasoning)",
        "price: 0.5000 US dollars, by genai-prices 0.2.3",
        "calls that timed out may have cost, besides: 0.3000, an estimate",
        "saved: 0.1250 by reuse, 0.5000 by service tier, 0.0200 by cache",
    ]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([judgment("s1")], ["price: 0.2500 in the currency of the prices given"]),
        ([judgment("s1"), judgment("s2", price=None), judgment("s3")], ["price: unknown"]),
        ([judgment("s1"), judgment("s2", price=None, status="rejected")],
         ["price: 0.2500 in the currency of the prices given"]),
        ([judgment("s1", price=0.0, price_source="the embedded judge costs nothing")], ["price: 0.0000"]),
        ([judgment("s1", price=None, estimated=None)],
         ["price: unknown", "calls that timed out may have cost, besides: unknown"]),
    ],
)  # fmt: skip
def test_unknown_prices_are_reported_as_unknown(tmp_path: Path, rows: list[Judgment], lines: list[str]) -> None:
    assert price_lines(summary(tmp_path, *rows)) == lines


@pytest.mark.parametrize(
    ("rows", "all_ok"),
    [
        ([judgment("s1"), outcome("s1")], True),
        ([outcome("s1", "----", None, status="forfeit"), outcome("s2", "----", None, status="no_reference")], True),
        ([outcome("s1", "----", None, status="bad_picture")], False),
        ([judgment("s1", verdict=None, status="refused"), outcome("s1", "-MMM")], False),
    ],
    ids=["ok", "forfeit and no reference", "bad picture", "refused"],
)
def test_summary_is_ok_unless_a_row_failed(tmp_path: Path, rows: list[Judgment | Outcome], all_ok: bool) -> None:
    assert summary(tmp_path, *rows).all_ok is all_ok


def test_lowest_samples_are_chosen_by_the_mean_of_their_dimensions(tmp_path: Path) -> None:
    rows = [
        outcome("forfeit", "----", None, status="forfeit"),
        outcome("tie", "GGGG", "Tie"),
        outcome("loss", "HGHG", "Human"),
        outcome("clear loss", "HHHH", "Human"),
        outcome("win", "MHMM", "Model"),
    ]
    lowest = [each.outcome.sample_id for each in summary(tmp_path, *rows).lowest]
    assert lowest == ["clear loss", "loss", "tie"]


def test_low_sample_has_the_reasons_for_its_verdicts(tmp_path: Path) -> None:
    found = summary(
        tmp_path,
        judgment("s1", "faithfulness", "Human", vote=1, reasoning="outvoted"),
        judgment("s1", "faithfulness", "Model", vote=2, reasoning="first of the majority"),
        judgment("s1", "faithfulness", "Model", vote=3, reasoning="second of the majority"),
        judgment("s1", "readability", "Human", reasoning="one order's"),
        judgment("s2", "faithfulness", "Model", reasoning="another sample's"),
        outcome("s1", "MGXG", "Model"),
    )
    assert found.lowest[0].reasons == {"faithfulness": "first of the majority", "readability": "one order's"}


def test_sentence_states_the_verdict_and_failed_judgments(tmp_path: Path) -> None:
    rows = [
        *(judgment("s1", dimension) for dimension in DIMENSIONS),
        judgment("s2", verdict=None, status="refused"),
        outcome("s1", "MMMM"),
        outcome("s2", "-GGG", None, status="incomplete"),
    ]
    assert sentence(summary(tmp_path, *rows)) == (
        "alpha scores 100.0 (no interval below 8) of 100. Judgments: 4 ok, 1 refused. "
        "Outcomes: 1 complete, 1 incomplete."
    )


def test_sentence_names_each_tag(tmp_path: Path) -> None:
    fields = {"flow": "object", "dimensions": ("single_object", "two_object"), "parameters": {"threshold": 7.0}}
    images = [image(score=9.0, tag="single_object"), image("s2", score=5.0, tag="two_object")]
    assert sentence(summary(tmp_path, *images, **fields)) == (
        "single_object: alpha scores 9.00 (no interval below 8) of 10; "
        "two_object: alpha scores 5.00 (no interval below 8) of 10."
    )


def test_unfinished_run_is_summarized_and_missing_run_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no ledger of a run"):
        summarize(tmp_path, RUN)
    write_run(tmp_path, start(), [judgment("s1"), outcome("s1")], None)
    found = summarize(tmp_path, RUN)
    assert found.end is None and found.outcomes.statuses == {"complete": 1}
