"""The Markdown artifact of a run: what is in it, what strangers cannot do in it, and its size."""

import asyncio
import base64
import gc
import io
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from answered_page import figures_store, made_page, prefer, saved
from factories import DIMENSIONS, RUN, end, judgment, outcome, start, write_run
from PIL import Image
from strangers import HOSTILE, tokens
from written_history import keep, pair

from flows.cli import main
from flows.runtime.progress import Progress
from tasks.judging.results import results_of
from tasks.ledger.reading import folder
from tasks.pages import artifact
from tasks.pages.artifact import THUMBNAIL_BYTES, begin_chart, markdown
from tasks.pages.run_summary import Summary, summarize
from tasks.records import Judgment, Outcome
from tasks.report import publish

pytestmark = pytest.mark.usefixtures("drawn_here")

DATA_URI = re.compile(r"!\[([^]]*)\]\(data:image/(png|jpeg);base64,([A-Za-z0-9+/=]+)\)")


def summary(store: Path, rows: Sequence[Judgment | Outcome], **changes: Any) -> Summary:
    """What is made of a finished run with these rows."""
    write_run(store, start(**changes), list(rows), end())
    return summarize(store, RUN)


def keep_thumbnails(store: Path, sample: Outcome, image: Image.Image) -> None:
    """Put the thumbnails of a sample where a run keeps them."""
    (store / "pictures").mkdir(exist_ok=True)
    for note in sample.pictures.values():
        image.save(store / "pictures" / f"{note.source_sha256}.jpg", quality=75)


def pictures(text: str) -> list[tuple[str, str, bytes, Image.Image]]:
    """Title, declared format, bytes and decoded picture of all that are embedded."""
    found: list[tuple[str, str, bytes, Image.Image]] = []
    for title, kind, data in DATA_URI.findall(text):
        raw = base64.b64decode(data, validate=True)
        image = Image.open(io.BytesIO(raw))
        image.load()
        found.append((title, kind, raw, image))
    return found


def cells(text: str, name: str) -> list[str]:
    """The cells of the first table line with this name."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_its_chart_may_be_begun_before_the_run_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = summary(tmp_path, [outcome(f"s{n}", candidate=f"model-{n:02}") for n in range(25)])
    begun: list[Any] = []
    drawn: list[Any] = []
    png = artifact.png
    monkeypatch.setattr(artifact, "begin_png", begun.append)
    monkeypatch.setattr(artifact, "png", lambda chart: drawn.append(chart) or png(chart))
    begin_chart(shown.start, results_of(shown.start, [folder(tmp_path, RUN)]))
    assert "](data:image/png;base64," in markdown(shown)
    assert begun == drawn and len(drawn) == 1


def test_without_its_chart_it_says_why_and_all_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_chart(_: object) -> bytes:
        raise RuntimeError("the chart was not drawn within 65 seconds")

    shown = summary(tmp_path, [outcome("s1")])
    before = DATA_URI.sub("", markdown(shown))
    monkeypatch.setattr(artifact, "png", no_chart)
    sentence = "There is no chart: the chart was not drawn within 65 seconds."
    assert markdown(shown) == before.replace("\n\n\n\n", f"\n\n{sentence}\n\n", 1)


def test_the_table_says_what_the_rows_say(tmp_path: Path) -> None:
    rows = [outcome("s1", "MHGM", "Model"), outcome("s2", "HHGM", "Human"), outcome("s3", "-HGM", None)]
    text = markdown(summary(tmp_path, rows))
    assert cells(text, "faithfulness") == ["faithfulness", "50.0", "none below 8", "1", "1", "0", "2/3"]
    assert cells(text, "readability") == ["readability", "50.0", "none below 8", "0", "0", "3", "3/3"]
    assert cells(text, "overall") == ["overall", "50.0", "none below 8", "1", "1", "", "2/3"]


def test_it_says_what_was_judged_by_whom_and_how_it_came_out(tmp_path: Path) -> None:
    rows = [judgment("s1", dimension) for dimension in DIMENSIONS]
    text = markdown(summary(tmp_path, [*rows, outcome("s1")], endpoint="https://judge.example/v1?key=secret"))
    assert text.startswith("# diagram: alpha\n")
    assert "mini, 3 samples, judged by gpt-x at judge.example, 2026-11-20 12:00 UTC" in text
    assert "alpha: 100.0 (no interval below 8), 1/1 samples scored" in text
    assert "4 calls made, 0 replies taken from earlier runs" in text
    assert "4,000 tokens in (40 of them cached), 400 out" in text
    assert "price: 1.0000" in text
    assert "60 seconds" in text
    assert "secret" not in text


@pytest.mark.parametrize(
    ("flow", "endpoint", "ceiling", "pixels"),
    [("plot", "https://judge.example", True, False), ("diagram", "embedded", False, True)],
)
def test_it_says_what_must_be_known_to_read_the_scores(
    tmp_path: Path, flow: str, endpoint: str, ceiling: bool, pixels: bool
) -> None:
    text = markdown(summary(tmp_path, [outcome("s1")], flow=flow, endpoint=endpoint))
    assert "Human is 50 by definition" in text
    assert ("Plot faithfulness cannot exceed 50" in text) is ceiling
    assert ("measures pixels and is no model" in text) is pixels


def test_groups_failures_defects_and_warnings_are_told_where_there_are_any(tmp_path: Path) -> None:
    rows = [
        judgment("s2", verdict=None, status="refused", error="not allowed"),
        outcome("s1", category="bar", injected="black", caught=True),
        outcome("s2", "-GGG", None, status="incomplete", category="line", difficulty="hard"),
    ]
    text = markdown(summary(tmp_path, rows), ["the history is locked"])
    assert cells(text, "bar")[1:] == ["alpha", "100.0 (no interval below 8)", "1/1"]
    assert cells(text, "line")[1:] == ["alpha", "nothing scored", "0/1"]
    assert cells(text, "hard")
    assert "- caught 1 of 1 injected defects\n  - black 1/1" in text
    assert "- judgments: 1 refused\n  - s2, faithfulness: refused: not allowed" in text
    assert "- the history is locked" in text


def test_a_forfeit_is_told_as_missing_output(tmp_path: Path) -> None:
    lost = outcome("lost", "----", None, status="forfeit", score=0.0, path="forfeit: no picture")
    text = markdown(summary(tmp_path, [outcome(), lost]))
    assert "## Missing output (forfeit): lost" in text and "Not complete" not in text


def test_what_people_say_stands_in_it_with_agreement_and_why_labels_do_not_count(tmp_path: Path) -> None:
    store = figures_store(tmp_path / "store")
    assert "What people say" not in markdown(summarize(store, RUN))
    page = made_page(store, tmp_path / "label.html")
    file = saved(page, tmp_path / "reader-1.json", prefer("human"))
    assert main(["labels", "import", str(file), "--store", str(store)]) == 0
    text = markdown(summarize(store, RUN))
    assert re.search(r"## What people say\n\n- alpha, overall: \S+ \\\[.+\\\] corrected by 30 labels of 1 person", text)
    assert re.search(r"judge and people agree on \d+% of 30, which can mean", text)
    rows = [row for at in range(40) for row in pair(f"secret-{at:03}", "GGGG", "Tie")]
    keep(store, "20261121T120000-diagram-0000bb", rows, samples=40, dataset_key="e" * 64)
    other = markdown(summarize(store, "20261121T120000-diagram-0000bb"))
    why = "15 labels are needed, 0 count; reader-1 does not count: of another dataset"
    assert f"not corrected by people: {why}" in other


def test_a_run_without_them_has_no_empty_sections(tmp_path: Path) -> None:
    text = markdown(summary(tmp_path, [judgment("s1"), outcome("s1", "GGGG", "Tie")]))
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Scores", "## Calls"]


def test_a_run_without_a_single_outcome_can_be_told(tmp_path: Path) -> None:
    write_run(tmp_path, start(), [judgment("s1")], None)
    text = markdown(summarize(tmp_path, RUN))
    assert "unfinished" in text
    assert "## Scores" not in text


def test_chart_and_thumbnails_are_whole_pictures(tmp_path: Path) -> None:
    lost = outcome("s1", "HGHG", "Human", path="tier 1: faithfulness Human, readability Human")
    keep_thumbnails(tmp_path, lost, Image.new("RGB", (512, 256), "teal"))
    text = markdown(summary(tmp_path, [judgment("s1", verdict="Human", reasoning="An arrow is reversed."), lost]))
    found = [(title, kind, image.format) for title, kind, _, image in pictures(text)]
    assert found == [
        ("Scores", "png", "PNG"),
        ("Human", "jpeg", "JPEG"),
        ("Model", "jpeg", "JPEG"),
    ]
    assert "## Lost in tier 1: s1" in text
    assert "tier 1: faithfulness Human, readability Human" in text
    assert "Caption: Overview of the method." in text
    assert cells(text.split("## Lost")[1], "faithfulness") == ["faithfulness", "Human", "An arrow is reversed."]


def test_a_flip_shows_the_verdicts_of_both_orders(tmp_path: Path) -> None:
    flipped = outcome("s1", "XGGG", "Tie")
    first = {"human_first": "Human", "model_first": "Model", "order_flip": True, "reversal": True}
    dimensions = (flipped.dimensions[0].model_copy(update=first), *flipped.dimensions[1:])
    text = markdown(summary(tmp_path, [flipped.model_copy(update={"dimensions": dimensions})]))
    shown = cells(text.split("## Verdicts pull apart")[1], "faithfulness")[1]
    assert shown == "Mixed (Human first: Human; Model first: Model)"


def test_a_picture_that_was_never_there_or_is_gone_is_told_in_words(tmp_path: Path) -> None:
    forfeit = outcome("s1", "----", None, status="forfeit")
    forfeit = forfeit.model_copy(update={"pictures": {"human": forfeit.pictures["human"]}})
    assert "| picture not kept | no picture |" in markdown(summary(tmp_path, [forfeit]))


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_strangers_wrote_acts_or_is_fetched(tmp_path: Path, text: str) -> None:
    changes: dict[str, Any] = {"candidate": text, "category": text, "difficulty": text, "caption": text}
    rows = [
        judgment(text, candidate=text, verdict="Human", reasoning=text),
        judgment(text, "readability", None, candidate=text, status="refused", error=text),
        outcome(text, "HGHG", "Human", path=text, injected=text, caught=False, **changes),
        outcome(f"{text}2", "----", None, status="forfeit", problem=text, **changes),
    ]
    report = markdown(summary(tmp_path, rows, candidates=(text, "b"), dataset=text, model=text), [text])
    found = tokens(report)
    assert {token.content for token in found if token.type.startswith("html")} <= {"<!-- -->"}
    assert not [token for token in found if token.type in ("link_open", "code_inline", "fence", "em_open", "s_open")]
    sources = [str(token.attrGet("src")) for token in found if token.type == "image"]
    assert sources
    assert all(source.startswith(("data:image/png;", "data:image/jpeg;")) for source in sources)
    assert [token.tag for token in found if token.type == "heading_open"].count("h1") == 1


def test_the_artifact_stays_below_a_megabyte(tmp_path: Path) -> None:
    words, noise = "<|" * 20_000, Image.effect_noise((600, 400), 8).convert("RGB")
    rows: list[Judgment | Outcome] = []
    for overall, verdicts in {"Human": "HHHH", "Model": "MMMM", "Tie": "XGGG", None: "----"}.items():
        status = "complete" if overall else "incomplete"
        row = outcome("s", verdicts, overall, status=status, caption=words, path=words)
        keep_thumbnails(tmp_path, row, noise)
        row = row.model_copy(update={"sample_id": f"{overall}{words}"})
        reasons = [judgment(row.sample_id, each.dimension, each.verdict, reasoning=words) for each in row.dimensions]
        rows += [row, *reasons]
    rows += [outcome("s", candidate=f"{number}{words}", category=f"{number}{words}") for number in range(100)]
    rows += [judgment(f"s{number}", verdict=None, status="refused", error=words) for number in range(100)]
    text = markdown(summary(tmp_path, rows), [words] * 100)
    assert len(text.encode()) < 1_000_000
    thumbnails = [raw for _, kind, raw, _ in pictures(text) if kind == "jpeg"]
    assert len(thumbnails) == 8
    assert max(map(len, thumbnails)) <= THUMBNAIL_BYTES


def test_a_thumbnail_too_large_for_the_artifact_is_said_to_be_so(tmp_path: Path) -> None:
    row = outcome("s1", "HHHH", "Human")
    keep_thumbnails(tmp_path, row, Image.effect_noise((640, 640), 200).convert("RGB"))
    assert markdown(summary(tmp_path, [row])).count("picture too large to be shown here") == 2


def test_what_shows_a_run_is_loaded_only_when_it_is_shown() -> None:
    slow = {"altair", "vl_convert", "rich", "prefect", "duckdb", "openai"}
    code = f"import sys, tasks.pages.artifact, flows.runtime.progress; print(sorted({slow} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.usefixtures("prefect_server")
# Prefect leaves a connection of its own to the garbage collector.
def test_progress_and_report_are_artifacts_of_the_flow_run(tmp_path: Path) -> None:
    from prefect import flow, get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
    from prefect.client.schemas.objects import Artifact
    from prefect.context import FlowRunContext

    found = summary(tmp_path, [judgment("s1"), outcome("s1")])

    @flow
    async def evaluation() -> str:
        async with Progress("diagram", 2) as progress:
            progress.advance([judgment("s1"), judgment("s1", "readability", None, status="refused")])
            progress.advance([judgment("s2")])
        # A key that the server refuses: progress that cannot be shown costs the run nothing.
        async with Progress("No Such Key!", 1) as unshown:
            unshown.advance([judgment("s1")])
        await publish(found, "diagram-nightly", [], None)
        context = FlowRunContext.get()
        return str(context.flow_run.id) if context and context.flow_run else ""

    async def artifacts() -> list[Artifact]:
        run = await evaluation()
        async with get_client() as client:
            return await client.read_artifacts(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[UUID(run)])))

    kept = asyncio.run(artifacts())
    gc.collect()
    by_key = {artifact.key: artifact for artifact in kept}
    assert set(by_key) == {"diagram-progress", "diagram-nightly"}
    assert by_key["diagram-progress"].data == 100
    assert by_key["diagram-progress"].description == "2/2 samples, 1 not ok (1 refused)"
    assert by_key["diagram-nightly"].data == markdown(found)
