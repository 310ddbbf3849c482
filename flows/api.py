"""Python API of Image Jury: judge samples that are objects, and read tables of the history as Polars frames.

A run does the same as `jury run`, in a process that stays for the next one, so that a notebook or a thread can start
it. Its output goes to the logger `flows` at level INFO. The README and the notebook `api.ipynb` have examples.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from flows.subprocess import Worker, worker
from tasks.datasets.sample_objects import FigureSample, Given, ImageSample, Picture, write_samples
from tasks.errors import InputError
from tasks.files import private_folder
from tasks.judging.results import judge_status
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.remote import local_cache
from tasks.ledger.run_files import read_judgments, read_outcomes
from tasks.pages.background import LARGE
from tasks.pages.page_names import is_address, page_of, where
from tasks.pages.run_summary import cost_lines, price_lines, sentence, summarize, with_price
from tasks.presentation.wording import Scored, judge_words
from tasks.protocols import display_of
from tasks.records import Judgment, Outcome, Record
from tasks.records.judge import Judge
from tasks.records.parameters import (
    DEFAULT_STORE,
    FLOWS,
    PairwiseParameters,
    Parameters,
    RubricParameters,
    at_store,
    default_store,
    parameters_of,
)
from tasks.text import one_line

if TYPE_CHECKING:
    import polars

__all__ = [
    "FigureSample", "ImageSample", "InputError", "Judge", "PairwiseParameters", "Picture", "Result",
    "RubricParameters", "judge", "judge_async", "table", "tables",
]  # fmt: skip


Samples = Sequence[Given] | None
LOWEST = 6
"""Number of samples that a notebook shows of a result."""
PICTURE_BYTES = 16_000
"""Most bytes of each picture of these samples: a notebook keeps them."""


class Result(Record):
    """Result of a run. A notebook shows its scores and the samples with the lowest score."""

    run_id: str
    flow: str
    store: Path
    """Local folder of the store."""
    exit_code: int
    """Exit code of `jury run`: 0 if every call was answered in the end; 3 if any was not, a Human picture is bad, or
    the budget stopped the run."""
    scores: tuple[Scored, ...]
    """Score of each candidate on each dimension or tag, in each group of samples, with interval and coverage."""
    outcomes: tuple[Outcome, ...]
    """Outcomes of the samples, without controls and anchors. A sample that could not be judged has no score; its status
    gives the reason."""
    statuses: dict[str, int]
    """Status -> number of outcomes."""
    judgments_by_status: dict[str, int]
    """Status -> number of judgments that count, without controls and anchors."""
    calls: int
    """Number of calls made, attempts included."""
    reused: int
    """Number of replies reused from earlier runs."""
    cost: float | None
    """Cost in the currency of the prices; None: some price is unknown."""
    sentence: str
    """Whether the judge can be trusted, scores with interval and coverage, and counts by status."""
    facts: tuple[str, ...]
    """Judge, worst status of its controls, calls and cost, in words."""
    warnings: tuple[str, ...]
    """Sentences for the reader."""
    page: str
    """Address or file of the run's page; empty: none was made. That of many samples comes some seconds later."""

    def __repr__(self) -> str:
        """Return one line: flow, scores with interval and coverage, counts by status, and the run's id."""
        return one_line(f"Result({self.flow}: {self.sentence} Run {self.run_id})", 400)

    __str__ = __repr__

    def score(self, dimension: str = "", candidate: str = "") -> Scored:
        """Return the score over all samples.

        Args:
            dimension: dimension or tag; empty: `overall` for figures, else the first one in tables.
            candidate: name of a candidate; empty: the only one.

        Raises:
            KeyError: there is no such score, or there are several candidates and none is named.
        """
        whole = [row for row in self.scores if (row.measure, row.grouping) == ("score", "all")]
        wanted = dimension or ("overall" if any(row.dimension == "overall" for row in whole) else whole[0].dimension)
        found = [row for row in whole if row.dimension == wanted and candidate in ("", row.candidate)]
        if len(found) != 1:
            there = sorted({(row.dimension, row.candidate) for row in whole})
            raise KeyError(f"{len(found)} scores of {wanted!r}, {candidate or 'any candidate'!r}; there are {there}")
        return found[0]

    def _repr_html_(self) -> str:
        """Return the result as HTML for a notebook: scores, facts, and the samples with the lowest score."""
        from tasks.pages.page import embedded, rendered, thumbnails

        scored = [row for row in self.outcomes if row.score is not None]
        lowest = sorted(scored, key=lambda row: row.score or 0.0)[:LOWEST]
        hashes = [note.source_sha256 for row in lowest for note in row.pictures.values()]
        pictures = dict(embedded(thumbnails(self.store, hashes), PICTURE_BYTES))
        shown = {"lowest": lowest, "display": display_of(self.flow), "pictures": pictures}
        return rendered("result.html.j2", "", {"result": self, "is_linked": is_address(self.page), **shown}, ())

    def frame(self) -> "polars.DataFrame":
        """Return a row for each sample and candidate, with the verdict on each dimension, or each aspect's score.

        `price` is the sum over the sample's calls; null: a part of it is unknown.
        """
        import polars

        prices = dict[tuple[str, str], float | None]()
        for call in self.judgments():
            if not call.control:
                place = call.sample_id, call.candidate
                prices[place] = with_price(prices.get(place, 0.0), call)
        return polars.DataFrame([_row(row, prices) for row in self.outcomes], infer_schema_length=None)

    def judgments(self) -> Iterator[Judgment]:
        """Return an iterator over all judgments of the run, read one at a time; they include controls and anchors."""
        return chain.from_iterable(map(read_judgments, read_evaluation(self.store, self.run_id).folders))


def judge(
    flow: str, samples: Samples = None, parameters: Parameters | None = None, name: str = "given", store: str = ""
) -> Result:
    """Run a flow to its end, and return its result.

    The run has a process and a Prefect server of its own. Both stay for the next call, and end with this process. A
    call that comes meanwhile, from another thread, has others. So has one with another store, working folder or
    environment (keys, `JURY_` variables): it starts them anew.

    Ctrl-C stops the run. All replies so far are in the ledger, and the same call continues from there.

    Args:
        flow: `diagram`, `plot`, `object`, `counting`, `colors` or `position`.
        samples: None: the samples of `parameters.dataset`.
        parameters: `PairwiseParameters` or `RubricParameters`, as the flow requires.
        name: name of the dataset of these samples, and of a candidate without a name.
        store: store of the run; empty: that of the parameters.

    Raises:
        InputError: a mistake in the input, or the reason that stopped the run, in the words of `jury run`.
        RuntimeError: a fault of the program.
    """
    asked = _checked(flow, samples, parameters, str(store))
    with worker(local_cache(asked.store)) as at_work:
        return _judged(at_work, flow, samples, asked, name)


async def judge_async(
    flow: str, samples: Samples = None, parameters: Parameters | None = None, name: str = "given", store: str = ""
) -> Result:
    """Do the same as `judge` without blocking the event loop; when cancelled, stop the run and wait for its end."""
    asked = _checked(flow, samples, parameters, str(store))
    with worker(local_cache(asked.store)) as at_work:
        work = asyncio.create_task(asyncio.to_thread(_judged, at_work, flow, samples, asked, name))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            at_work.stop()
            with suppress(Exception):
                await work
            raise


def table(question: str, store: str = DEFAULT_STORE, seconds: float = 60) -> "polars.DataFrame":
    """Return one table of the history; see `tables`."""
    return tables(question, store=store, seconds=seconds)[question]


def tables(*questions: str, store: str = DEFAULT_STORE, seconds: float = 60) -> "dict[str, polars.DataFrame]":
    """Return tables and views of the history by name, or answers to SQL, as of one moment; then close the history.

    Args:
        questions: names or SQL, as in `jury query`; `jury query` alone lists the names.
        seconds: longest time of an answer; 0: no limit.

    Raises:
        InputError: there is no history or no such name, the SQL is refused, or an answer is too large.
    """
    import polars

    with tempfile.TemporaryDirectory() as folder:
        place = local_cache(default_store() if store == DEFAULT_STORE else store)
        with worker(place) as at_work:
            at_work.ask("tables", store=str(place), questions=questions, seconds=seconds, folder=folder)
        return {question: polars.read_ipc(Path(folder) / str(number)) for number, question in enumerate(questions)}


def _checked(flow: str, samples: Sequence[Given] | None, parameters: Parameters | None, store: str) -> Parameters:
    """Return the parameters with their store if a program can wait for their result; else raise InputError."""
    if flow not in FLOWS:
        raise InputError(f"flow is {flow!r}, allowed are {', '.join(FLOWS)}")
    asked = parameters or parameters_of(flow)()
    if not isinstance(asked, parameters_of(flow)):
        raise InputError(f"flow {flow} takes {parameters_of(flow).__name__}, not {type(asked).__name__}")
    if asked.quote or asked.to_be_split or asked.judge.service_tier == "batch":
        raise InputError("a quote, shards and batches have no result to wait for: `jury run` is the way to them")
    defaults = {name: info.default for name, info in type(asked).model_fields.items()}
    named = [each for each in ("dataset", "results", "images", "metadata", "follow_links") if each in defaults]
    places = [each for each in named if getattr(asked, each) != defaults[each]]
    if samples is not None and places:
        raise InputError(f"samples are given, and {', '.join(places)} besides: give either")
    return at_store(asked.model_copy(update={"store": store}) if store else asked)


def _judged(at_work: Worker, flow: str, samples: Sequence[Given] | None, asked: Parameters, name: str) -> Result:
    """Return the result of a run; the folder in which its samples are written is gone then."""
    store, folder = local_cache(asked.store), ""
    try:
        if samples is not None:
            private_folder(store)
            folder = tempfile.mkdtemp(prefix="given-", dir=store.absolute())
            manifest = str(write_samples(Path(folder), flow, samples, name))
            dataset = manifest.replace("{", "{{").replace("}", "}}")  # single braces mark a date
            asked = asked.model_copy(update={"dataset": dataset})
        told = at_work.ask("run", flow=flow, parameters=asked.model_dump(mode="json"), folder=folder)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    return _result(store, told)


def _row(row: Outcome, prices: Mapping[tuple[str, str], float | None]) -> dict[str, object]:
    own: dict[str, object] = {"id": row.sample_id, "candidate": row.candidate, "status": row.status}
    own |= {"tag": row.tag} if row.tag else {"overall": row.overall}
    own |= {"score": row.score, "price": prices.get((row.sample_id, row.candidate), 0.0)}
    parts = {each.dimension: each.verdict for each in row.dimensions}
    parts = {each.aspect: each.score for each in row.aspects} if row.tag else parts
    return own | {f"{name}_2" if name in own else name: value for name, value in parts.items()}


def _result(store: Path, told: dict[str, object]) -> Result:
    run_id = str(told["run_id"])
    summary, page = summarize(store, run_id), page_of(store, run_id)
    folders = read_evaluation(store, run_id).folders
    judge = judge_words(summary.start.judge, summary.start.endpoint)
    return Result(
        run_id=run_id,
        flow=summary.start.flow,
        store=store,
        exit_code=0 if summary.all_ok else 3,
        scores=tuple(summary.scores),
        outcomes=tuple(row for row in chain.from_iterable(map(read_outcomes, folders)) if not row.control),
        statuses=dict(summary.outcomes.statuses),
        judgments_by_status=dict(summary.judgments.statuses()),
        calls=summary.judgments.calls,
        reused=summary.judgments.reused,
        cost=summary.judgments.price,
        sentence=sentence(summary),
        facts=(f"judged by {judge}", judge_status(summary.controls), cost_lines(summary)[0], *price_lines(summary)),
        warnings=tuple(map(str, told["warnings"])),  # pyright: ignore
        page=where(page) if page.exists() or summary.start.samples > LARGE else "",
    )
