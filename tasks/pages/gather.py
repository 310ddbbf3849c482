"""What stands on the report: evaluations with their figures, asked of the history.

Owns which evaluations and which questions; how an answer becomes a drawing is `plots`', how it looks the template's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from tasks.comparing.compare import Comparison, compare
from tasks.controls.status import ControlRate, control_rate
from tasks.errors import InputError
from tasks.history import asking as history
from tasks.history.evaluations import find
from tasks.pages.budget import REASONS
from tasks.pages.card import Card
from tasks.pages.cards import Context, cards, spoken
from tasks.pages.queries import Answer, ask
from tasks.parameters import EMBEDDED, T2I
from tasks.presentation.wording import PIXELS, SCALE_0_10, Scored, judge_words, score_notes
from tasks.statistics.image_scores import GradeRow
from tasks.statistics.rates import RateRow
from tasks.statistics.scores import ScoreRow, ranking

MOST = 20
"""Evaluations that one page may hold."""
MOST_COMPARED = 6
"""Candidates that are compared with themselves."""
MOST_CHANGES = 20
"""Changed samples that are listed; the cards show all."""

_FIGURES = ("scores", "groups", "aspects", "six_tags", "rates", "controls", "contract", "cost", "statuses", "trend")


@dataclass(frozen=True)
class Evaluation:
    """One evaluation with the answers that its figures are made of."""

    about: Mapping[str, Any]
    """The row of the view `evaluations`."""
    answers: Mapping[str, Answer]
    """By the name of the question; `changes` is missing where there is nothing to compare with."""
    cards: list[Card]
    comparisons: list[Comparison]
    """With the last evaluation that this one may be compared with, a candidate each; none where there is none."""

    @property
    def flow(self) -> str:
        """What was judged."""
        return cast(str, self.about["flow"])

    @property
    def images(self) -> bool:
        """Generated images were judged, not figures."""
        return self.flow in T2I

    @property
    def judge(self) -> str:
        """Name and host of the judge."""
        return judge_words(self.about["model"], self.about["endpoint"])

    @property
    def notes(self) -> list[str]:
        """What must be known to read the scores."""
        if not self.images:
            return score_notes(self.flow, self.bars(), self.about["endpoint"])
        good = f"Good: share of prompts with an image of {self.about['parameters']['threshold']} or more."
        return [SCALE_0_10, good, *[PIXELS] * (self.about["endpoint"] == EMBEDDED)]

    def bars(self) -> list[ScoreRow]:
        """Counts and scores of a pairwise evaluation, dimension by dimension; none of images."""
        return [] if self.images else [row for row in self._rows(ScoreRow, "scores") if row.measure == "score"]

    def grades(self) -> list[GradeRow]:
        """Scores of generated images, tag by tag; none of figures."""
        return [row for row in self._rows(GradeRow, "scores") if row.measure == "score"] if self.images else []

    def beside(self, row: GradeRow) -> dict[str, float | None]:
        """What else was measured of the same candidate and tag: measure -> mean."""
        place = (row.candidate, row.dimension)
        rows = self._rows(GradeRow, "scores")
        return {each.measure: each.score for each in rows if (each.candidate, each.dimension) == place}

    def aspects(self) -> list[GradeRow]:
        """Scores of generated images, aspect by aspect."""
        return self._rows(GradeRow, "aspects")

    def groups(self) -> list[tuple[str, list[ScoreRow]]]:
        """(`category` or `difficulty`, its overall scores)."""
        rows = groupby(self._rows(ScoreRow, "groups"), key=lambda row: row.grouping)
        return [(grouping, list(found)) for grouping, found in rows]

    def published(self) -> list[ScoreRow]:
        """Scores by the published protocol alone, where orders or votes were repeated."""
        rows = [] if self.images else self._rows(ScoreRow, "scores")
        return [row for row in rows if row.measure == "published"]

    def rates(self) -> list[RateRow]:
        """How far the judge agrees with itself."""
        return self._rows(RateRow, "rates")

    def control_rates(self) -> list[ControlRate]:
        """What the control samples tell of the judge."""
        return [control_rate(**row) for row in self.answers["controls"].rows]

    def headline(self) -> list[Scored]:
        """The scores that the page begins with: overall of every candidate, the best first; of images every tag."""
        return [*ranking(self.bars()), *self.grades()]

    def _rows(self, kind: type[Any], name: str) -> list[Any]:
        return [kind(**{key: row[key] for key in kind.model_fields}) for row in self.answers[name].rows]


def choose(store: Path, run: str = "", flow: str = "", last: int = 1) -> list[str]:
    """Ids of the finished evaluations to report, newest first: the one that is named, or the last of a flow or of all.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: there is no such evaluation, or several begin so, or they are too many for a page.
    """
    if run:
        return [find(store, run).run_id]
    if not 1 <= last <= MOST:
        raise InputError(f"--last {last}: a page holds 1 to {MOST} evaluations")
    newest = """SELECT run_id FROM evaluations WHERE $1 IN ('', flow) ORDER BY started_at DESC, run_id DESC LIMIT $2"""
    found = [str(run_id) for (run_id,) in history.query(store, newest, values=(flow, last)).rows]
    if not found:
        what = f"finished {flow} evaluation" if flow else "finished evaluation"
        raise InputError(f"{store} holds no {what}; `jury status` tells what there is")
    return found


def gather(store: Path, run_ids: list[str]) -> list[Evaluation]:
    """The evaluations with these ids.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: there is no history, or it cannot be asked.
    """
    return [_evaluation(store, run_id, number, REASONS // len(run_ids)) for number, run_id in enumerate(run_ids)]


def _evaluation(store: Path, run_id: str, number: int, budget: int) -> Evaluation:
    answers = {name: ask(store, name, run=run_id) for name in _FIGURES}
    previous = ask(store, "previous", run=run_id)
    comparisons: list[Comparison] = []
    for row in previous.rows:
        answers |= {"previous": previous, "changes": ask(store, "changes", run=run_id, previous=row["run_id"])}
        shared = sorted(row["candidates"])[:MOST_COMPARED]
        comparisons = [compare(store, row["run_id"], run_id, (name, name)) for name in shared]
    changes = answers["changes"].rows if "changes" in answers else []
    samples, reasons = (ask(store, name, run=run_id).rows for name in ("samples", "reasons"))
    [about] = ask(store, "evaluation", run=run_id).rows
    context = Context(
        run=number,
        said=spoken(reasons, budget),
        changes={(row["candidate"], row["sample_id"]): row for row in changes},
        good_from=float(about["parameters"].get("threshold", 0.0)),
    )
    return Evaluation(about, answers, cards(samples, context), comparisons)
