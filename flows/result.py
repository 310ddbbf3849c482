"""Result of a run, for programs and notebooks."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.judging.results import judge_status
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.run_files import read_judgments, read_outcomes
from tasks.pages.page_names import LARGE, is_address, page_of, where
from tasks.pages.run_summary import cost_lines, price_lines, sentence, summarize, with_price
from tasks.presentation.wording import Scored, judge_words
from tasks.protocols import display_of
from tasks.records import OVERALL, Judgment, Outcome, Record
from tasks.text import one_line

if TYPE_CHECKING:
    import polars

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
        named = [row.dimension for row in whole]
        wanted = dimension or (OVERALL if OVERALL in named else "".join(named[:1]))
        found = [row for row in whole if row.dimension == wanted and candidate in ("", row.candidate)]
        if len(found) != 1:
            there = sorted({(row.dimension, row.candidate) for row in whole})
            raise KeyError(f"{len(found)} scores of {wanted!r}, {candidate or 'any candidate'!r}; there are {there}")
        return found[0]

    def _repr_html_(self) -> str:
        """Return the result as HTML for a notebook: scores, facts, and the lowest samples, missing outputs last."""
        from tasks.pages.page import embedded, rendered, thumbnails

        scored = [row for row in self.outcomes if row.score is not None]
        lowest = sorted(scored, key=lambda row: (row.status == "forfeit", row.score or 0.0))[:LOWEST]
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


def _row(row: Outcome, prices: Mapping[tuple[str, str], float | None]) -> dict[str, object]:
    own: dict[str, object] = {"id": row.sample_id, "candidate": row.candidate, "status": row.status}
    own |= {"tag": row.tag} if row.tag else {"overall": row.overall}
    own |= {"score": row.score, "price": prices.get((row.sample_id, row.candidate), 0.0)}
    parts = {each.dimension: each.verdict for each in row.dimensions}
    parts = {each.aspect: each.score for each in row.aspects} if row.tag else parts
    return own | {f"{name}_2" if name in own else name: value for name, value in parts.items()}


def read_result(store: Path, run_id: str, warnings: Sequence[str]) -> Result:
    """Read the result of a run from its ledger.

    Args:
        warnings: sentences that the run printed for its reader.
    """
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
        warnings=tuple(warnings),
        page=where(page) if page.exists() or summary.start.samples > LARGE else "",
    )
