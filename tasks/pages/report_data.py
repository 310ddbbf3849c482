"""What stands on the report: evaluations with their numbers and samples, asked of the history.

Owns which evaluations and which questions; how the answers look is for `report_page` and the template.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from tasks.comparing.alarms import Watched, watched
from tasks.comparing.attribution import attributions
from tasks.comparing.compare import Comparison, compare
from tasks.comparing.joints import joined
from tasks.comparing.layout_words import layout_lines
from tasks.comparing.points import COLUMNS, Point
from tasks.comparing.trend import series_of
from tasks.controls.status import ControlRate, control_rate, red_words
from tasks.errors import InputError
from tasks.history import asking as history
from tasks.history.evaluations import find, stop_of
from tasks.kinds import kind_of, terms_of
from tasks.kinds.display import Display, Headline
from tasks.ledger.anew import unmeasured_words
from tasks.ledger.layout_checks import LayoutRow
from tasks.pages.earlier_verdicts import Before, earlier_verdicts
from tasks.pages.people_words import corrected_words, people_lines
from tasks.pages.queries import Answer, ask
from tasks.pages.reasoning import reasons_by_question
from tasks.pages.sample_cards import Card, Context, cards
from tasks.pages.size_limits import REASONS
from tasks.presentation.tables import Grid
from tasks.presentation.wording import Scored, judge_words
from tasks.statistics.rates import RateRow
from tasks.statistics.scores import ScoreRow

MOST = 20
"""Evaluations that one page may hold."""
MOST_COMPARED = 6
"""Candidates that are compared with themselves."""
MOST_CHANGES = 20
"""Changed samples that are listed; the cards show all."""
MOST_TRENDS = 30
"""Trends drawn: those of six candidates on all dimensions."""

_QUESTIONS = (
    "scores",
    "groups",
    "aspects",
    "six_tags",
    "people",
    "rates",
    "controls",
    "passport",
    "anchors",
    "contract",
    "cost",
    "layout",
    "statuses",
    "trend",
)


@dataclass(frozen=True)
class Evaluation:
    """One evaluation with the answers that its tables and charts are made of."""

    about: Mapping[str, Any]
    """The row of the view `evaluations`."""
    answers: Mapping[str, Answer]
    """By the name of the question; `changes` is missing where there is nothing to compare with."""
    cards: list[Card]
    before: list[Before]
    """The evaluations that the earlier verdicts of its samples are of, the newest first."""
    comparisons: list[Comparison]
    """With the last evaluation that this one may be compared with, a candidate each; none where there is none."""
    moved: list[str]
    """What its anchors put open alarms down to, a sentence each."""
    points: list[Point]
    """Of its trends: the answers' own, and those that bridges join to them."""
    watched: Watched
    """Where a scheduled evaluation stands against its baselines; empty of any other."""

    @property
    def flow(self) -> str:
        """What was judged."""
        return cast(str, self.about["flow"])

    @property
    def display(self) -> Display[Any]:
        """How what was judged is shown."""
        return kind_of(self.flow).display

    @property
    def judge(self) -> str:
        """Name and host of the judge."""
        return judge_words(self.about["model"], self.about["endpoint"])

    @property
    def red(self) -> str:
        """What forbids to trust the scores, to stand above them; empty: nothing does."""
        return red_words(self.control_rates())

    @property
    def unmeasured(self) -> str:
        """A sentence where nothing was measured, or not all, to stand above the scores, too; empty: all was."""
        if self.about["stopped"]:
            return stop_of(self.about["stopped"]).sentence
        return "" if self.about["measured"] else unmeasured_words(self.about["replies"], self.about["anew"])

    @property
    def alarms(self) -> list[str]:
        """What there is to say of each drop, and of a judge that moved, that this evaluation raised or found open and
        that still is.
        """
        began = datetime.fromisoformat(self.about["started_at"])
        return [alarm.words for alarm in self.watched.open if alarm.raised_at <= began]

    @property
    def standings(self) -> list[str]:
        """Where each candidate of a scheduled evaluation stands against its baseline."""
        return [place.words(self.flow) for place in self.watched.places]

    @property
    def notes(self) -> list[str]:
        """What must be known to read the headline."""
        terms = terms_of(self.flow, self.about["endpoint"], self.about["parameters"])
        return self.display.headline_notes(self.scores, terms)

    @property
    def layout(self) -> list[str]:
        """What stands beside scores in another layout than the published one."""
        rows = [LayoutRow.model_validate(row) for row in self.answers["layout"].rows]
        tokens = [sum(row[kind] for row in self.answers["cost"].rows) for kind in ("tokens_in", "tokens_cached")]
        return layout_lines(self.about["protocol"], self.about["run_id"], tokens[0], tokens[1], rows)

    @cached_property
    def scores(self) -> list[Scored]:
        """Scores over all samples, by group of samples, and of aspects: of each as far as there are any."""
        return [row for name in ("scores", "groups", "aspects") for row in self._rows(self.display.row, name)]

    def groupings(self) -> list[str]:
        """`category` and `difficulty`, where the samples have them."""
        found = {row.grouping for row in self.scores}
        return [grouping for grouping in ("category", "difficulty") if grouping in found]

    def table(self, grouping: str = "all") -> Grid:
        """The scores as a table: of all samples, or by group."""
        return self.display.grid(self.scores, grouping)

    def trends(self) -> list[list[Point]]:
        """The scores over time of each candidate and dimension or tag, where there are two at least."""
        return series_of(self.points)[:MOST_TRENDS]

    def published(self) -> list[ScoreRow]:
        """Scores by the published protocol alone, where orders or votes were repeated."""
        return [row for row in self.scores if isinstance(row, ScoreRow) and row.measure == "published"]

    def rates(self) -> list[RateRow]:
        """How far the judge agrees with itself."""
        return self._rows(RateRow, "rates")

    def control_rates(self) -> list[ControlRate]:
        """What the control samples show of the judge."""
        return [control_rate(**row) for row in self.answers["controls"].rows]

    @property
    def people(self) -> list[str]:
        """What people's labels say of the scores; nothing where there are none."""
        return people_lines(self.answers["people"].rows)

    def corrected(self, row: Scored) -> str:
        """A score as people would have it, with its interval; empty where too few of them were asked."""
        place = row.candidate, row.dimension
        found = [each for each in self.answers["people"].rows if (each["candidate"], each["dimension"]) == place]
        return corrected_words(found[0]) if found else ""

    def headline(self) -> list[Headline]:
        """The scores that the page begins with."""
        return self.display.headline(self.scores)

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
        raise InputError(f"{store} holds no {what}; `jury status` shows what there is")
    return found


def gather(store: Path, run_ids: list[str]) -> list[Evaluation]:
    """The evaluations with these ids.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: there is no history, or it cannot be asked.
    """
    with history.held_together(store):
        return [_evaluation(store, run_id, number, REASONS // len(run_ids)) for number, run_id in enumerate(run_ids)]


def _evaluation(store: Path, run_id: str, number: int, budget: int) -> Evaluation:
    answers = {name: ask(store, name, run=run_id) for name in _QUESTIONS}
    [about] = ask(store, "evaluation", run=run_id).rows
    previous = ask(store, "previous", run=run_id)
    comparisons: list[Comparison] = []
    for row in previous.rows if about["measured"] else ():
        answers |= {"previous": previous, "changes": ask(store, "changes", run=run_id, previous=row["run_id"])}
        shared = sorted(row["candidates"])[:MOST_COMPARED]
        comparisons = [compare(store, row["run_id"], run_id, (name, name)) for name in shared]
    changes = answers["changes"].rows if "changes" in answers else []
    samples, reasons, earlier = (ask(store, name, run=run_id).rows for name in ("samples", "reasons", "earlier"))
    display = kind_of(about["flow"]).display
    known = earlier_verdicts(earlier, display)
    context = Context(
        run=number,
        reasons=reasons_by_question(reasons, budget),
        changes={(row["candidate"], row["sample_id"]): row for row in changes},
        good_from=kind_of(about["flow"]).good_from(about["parameters"]),
        display=display,
        earlier=known.of,
    )
    moved = [each.line for each in attributions(store, run_id)]
    points = joined(store, about["flow"], map(_point, answers["trend"].rows))
    places, shown = watched(store, run_id), cards(samples, context)
    return Evaluation(about, answers, shown, known.before, comparisons, moved, points, places)


def _point(row: Mapping[str, Any]) -> Point:
    point = Point(**{name: row[name] for name in COLUMNS})
    return point._replace(started_at=datetime.fromisoformat(row["started_at"]))
