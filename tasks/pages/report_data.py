"""Data of a report: an evaluation with its numbers and samples, queried from the history."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from markupsafe import Markup

from tasks.comparing.alarms import Watched, watched
from tasks.comparing.comparison import Comparison, compare_candidates
from tasks.comparing.trend import Point, series_of
from tasks.history import queries as history
from tasks.history.queries import last_comparable, stop_of
from tasks.judging.results import ControlRate, control_rate, red_words
from tasks.ledger.evaluations import unmeasured_words
from tasks.ledger.run_files import folder, read_start
from tasks.pages.cards import LONGEST_TEXT, Card, Context, cards, reasons_by_question, text_limit
from tasks.pages.queries import ask, corrected_words, people_lines, question
from tasks.pages.unfinished import of_run
from tasks.presentation.wording import Scored
from tasks.protocols import display_of
from tasks.protocols.display import Display, Terms, threshold_of
from tasks.statistics.rates import RateRow

MOST_COMPARED = 6
"""Most candidates that are compared with themselves."""
MOST_TRENDS = 30
"""Most trends drawn: those of six candidates on all dimensions."""
EMBEDDED = 1_000
"""Most samples of a page that holds its pictures; those of a larger one lie beside it."""
TEXTS, TEXTS_OF_LARGE = 6_000_000, 3_000_000
"""Bytes of all captions, explanations and replies together, and of those of a page whose pictures lie beside it."""
LOOKED_AT = 3
"""Number of the lowest samples, and of the most fragile ones, that the page shows first."""
ALONE = "This run is compared with nothing and enters no trend."
_QUESTIONS = ("scores", "all_tags", "people", "rates", "controls", "cost", "statuses")


@dataclass(frozen=True)
class Evaluation:
    """One evaluation with the answers to the queries behind its tables and charts."""

    about: Mapping[str, Any]
    """The row of the view `evaluations`."""
    answers: Mapping[str, list[dict[str, Any]]]
    """Name of a query -> rows."""
    scores: list[Scored]
    """Scores over all samples, by group of samples, and of aspects, as far as there are any."""
    rates: list[RateRow]
    """Rates of the judge's agreement with itself."""
    controls: list[ControlRate]
    """Rates of the control samples."""
    samples: list[Markup]
    """Cards of all samples as JSON, the lowest first. As objects they would take ten times the memory."""
    lowest: list[Card]
    """Cards of the lowest samples; a missing output has nothing to look at."""
    fragile: list[Card]
    """Cards of the samples whose outcome depends most on one reply, without the lowest."""
    pictures: set[str]
    """SHA-256 of all pictures of the samples."""
    comparisons: list[Comparison]
    """Comparisons with the last comparable evaluation, a candidate each; empty if there is none."""
    trends: list[list[Point]]
    """Scores over time of each candidate and dimension or tag with at least two."""
    watched: Watched | None
    """State of a scheduled evaluation against its baselines; None for any other."""
    state: str
    """Sentence on a run without an end; empty: it has ended."""

    @property
    def flow(self) -> str:
        """Flow of the evaluation."""
        return cast(str, self.about["flow"])

    @property
    def display(self) -> Display[Any]:
        """Display of this kind of judging."""
        return display_of(self.flow)

    @property
    def red(self) -> bool:
        """Whether the controls show that the scores are not to be trusted."""
        return bool(red_words(self.controls))

    @property
    def stopped(self) -> str:
        """Sentence on a stop, or on a run without an end; empty: it judged all samples."""
        return self.state or (stop_of(self.about["stopped"]).sentence if self.about["stopped"] else "")

    @property
    def reused(self) -> str:
        """Sentence on an evaluation with too few new replies to be a measurement; empty: it is one."""
        about = self.about
        if self.stopped or about["measured"]:
            return ""
        return f"{unmeasured_words(about['replies'], about['anew'], calls=about['calls'])} {ALONE}"

    @property
    def notices(self) -> list[str]:
        """Sentences that come before the verdict: alarms and a stop."""
        return [*self.alarms, *([f"{self.stopped} {ALONE}"] if self.stopped else [])]

    @property
    def alarms(self) -> list[str]:
        """Sentences on each drop and moved judge that this evaluation raised or found open, and that is still open."""
        began = datetime.fromisoformat(self.about["started_at"])
        found = self.watched.open if self.watched else ()
        return [alarm.words for alarm in found if alarm.raised_at <= began]

    @property
    def beside(self) -> bool:
        """Whether the pictures lie beside the page."""
        return len(self.samples) > EMBEDDED

    @property
    def first_pictures(self) -> set[str]:
        """SHA-256 of the pictures that the page shows first."""
        return {sha256 for card in (*self.lowest, *self.fragile) for sha256 in card.pictures.values() if sha256}

    @property
    def standings(self) -> list[str]:
        """State of each candidate of a scheduled evaluation against its baseline, a sentence each."""
        return [place.words(self.flow) for place in self.watched.places] if self.watched else []

    @property
    def notes(self) -> list[str]:
        """Notes on reading the headline."""
        good_from = threshold_of(self.flow, self.about["parameters"])
        return self.display.notes(self.scores, Terms(self.flow, self.about["endpoint"], good_from))

    @property
    def people(self) -> list[str]:
        """Sentences on people's labels for the scores; empty without labels."""
        return people_lines(self.answers["people"])

    def corrected(self) -> list[str]:
        """Return each first score as corrected by people, with its interval, where there are enough labels."""
        found = {(row["candidate"], row["dimension"]): corrected_words(row) for row in self.answers["people"]}
        told = [(name, found.get((row.candidate, row.dimension))) for name, row in self.display.headline(self.scores)]
        return [f"{name} corrected by people {words}" for name, words in told if words]


def gather(store: Path, run_id: str) -> Evaluation:
    """Gather the evaluation with this id, or the run that has not finished; InputError if there is no history."""
    with history.held_together(store, unfinished=run_id):
        answers = {name: ask(store, name, run=run_id) for name in _QUESTIONS}
        [about] = ask(store, "evaluation", run=run_id)
        before, names = last_comparable(store, run_id)
        trend = history.query(store, question("trend", run=run_id)).rows
        display = display_of(about["flow"])
        reasons, rows = ask(store, "reasons", run=run_id), history.query(store, question("samples", run=run_id))
        limit = text_limit(reasons, rows, TEXTS if len(rows.rows) <= EMBEDDED else TEXTS_OF_LARGE)
        context = Context(
            reasons=reasons_by_question(reasons, limit),
            good_from=threshold_of(about["flow"], about["parameters"]),
            display=display,
            limit=min(limit, LONGEST_TEXT),
        )
        samples, pictures = list[Markup](), set[str]()
        lowest, fragile = list[Card](), list[Card]()
        for card in cards(rows, context):
            samples.append(card.as_json())
            pictures.update(sha256 for sha256 in card.pictures.values() if sha256)
            if len(lowest) < LOOKED_AT and card.status != "forfeit":
                lowest.append(card)
            elif card.fragile:
                fragile = sorted([*fragile, card], key=Card.fragility)[:LOOKED_AT]
        return Evaluation(
            about=about,
            answers=answers,
            scores=_rows(display.row, answers["scores"]),
            rates=_rows(RateRow, answers["rates"]),
            controls=[control_rate(**row) for row in answers["controls"]],
            samples=samples,
            lowest=lowest,
            fragile=fragile,
            pictures=pictures,
            comparisons=compare_candidates(store, before, run_id, names[:MOST_COMPARED]) if before else [],
            trends=series_of(Point(*row) for row in trend)[:MOST_TRENDS],
            watched=watched(store, run_id) if about["scheduled"] else None,
            state="" if about["finished_at"] else of_run(store, read_start(folder(store, run_id))).words,
        )


def _rows(kind: type[Any], rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    return [kind(**{key: row[key] for key in kind.model_fields}) for row in rows]
