"""Data of a report: an evaluation with its numbers and samples, queried from the history.

The page holds the cards of the samples as JSON, and `page.js` uses these names.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

from markupsafe import Markup

from tasks.comparing.alarms import Watched, attributions, watched
from tasks.comparing.comparison import Comparison, since_last
from tasks.comparing.trend import Point, joined, series_of
from tasks.comparing.wording import layout_lines
from tasks.errors import InputError
from tasks.history import queries as history
from tasks.history.queries import Table, as_json_rows, find, stop_of
from tasks.judging.results import ControlRate, control_rate, red_words
from tasks.ledger.evaluations import unmeasured_words
from tasks.pages.page import REASONS, as_json, fair_share
from tasks.pages.queries import Answer, ask, corrected_words, people_lines, points, question
from tasks.presentation.tables import Grid
from tasks.presentation.wording import Scored, judge_words
from tasks.protocols import display_of
from tasks.protocols.display import Display, Headline, Terms
from tasks.records import Record
from tasks.statistics.rates import RateRow
from tasks.statistics.scores import ScoreRow
from tasks.text import natural, number_words

MOST_COMPARED = 6
"""Most candidates that are compared with themselves."""
MOST_CHANGES = 20
"""Most changed samples that are listed; the cards show all."""
MOST_TRENDS = 30
"""Most trends drawn: those of six candidates on all dimensions."""
LONGEST_TEXT = 2_000
"""Longest caption, prompt or note, in bytes."""
MISSING = "missing"

Rows = Sequence[Mapping[str, Any]]
"""Rows of the history."""

_QUESTIONS = (
    "scores",
    "groups",
    "aspects",
    "all_tags",
    "people",
    "rates",
    "controls",
    "passport",
    "anchors",
    "contract",
    "cost",
    "statuses",
    "trend",
)


class Reason(Record):
    """Reply of the judge to one call."""

    call: str
    """Order and vote in words; empty where a dimension has only one call."""
    verdict: str
    """The verdict, or the status of a call that is not ok."""
    parts: tuple[tuple[str, str], ...]
    """(heading, text) of each part; one part without a heading where the text lacks the structure."""
    seen: str = ""
    """Contents that the judge reports of a generated image with a check."""


class Question(Record):
    """One dimension, or one tag of a generated image, and its result."""

    name: str
    verdict: str
    """Verdict on the dimension, or score of the tag."""
    orders: str = ""
    """Verdicts of both orders where they differ."""
    flip: bool = False
    reversal: bool = False
    reasons: tuple[Reason, ...] = ()


class Aspect(Record):
    """One aspect of a generated image."""

    name: str
    score: str
    explanation: str


class Card(Record):
    """One sample."""

    id: str
    candidate: str
    category: str = ""
    difficulty: str = ""
    tag: str = ""
    text: str
    """Caption, brief description or prompt."""
    status: str
    overall: str
    """Outcome, or score of a generated image."""
    score: float | None
    marks: dict[str, str]
    """Dimension or tag, `overall` among them -> value by which a reader filters the samples."""
    pictures: dict[str, str]
    """Side -> SHA-256; empty: there is none."""
    tier: str = ""
    path: str = ""
    notes: tuple[str, ...] = ()
    """Further facts, a few words each."""
    columns: tuple[str, str]
    """Heads of the columns with the questions' names and verdicts."""
    questions: tuple[Question, ...] = ()
    aspects: tuple[Aspect, ...] = ()
    change: float | None = None
    """Change since the evaluation before, in points of the overall score; None: no such evaluation, or no change."""
    changed: tuple[str, ...] = ()


class Context(NamedTuple):
    """Data of the evaluation that a card needs besides its own row."""

    reasons: Mapping[tuple[str, str, str], tuple[Reason, ...]]
    """(candidate, sample, dimension) -> replies of the judge."""
    changes: Mapping[tuple[str, str], Mapping[str, Any]]
    """(candidate, sample) -> its row of `changes`."""
    good_from: float
    """Score from which a sample counts as good; 0 where there is no threshold."""
    display: Display[Any]
    """Display of this kind of judging."""


@dataclass(frozen=True)
class Evaluation:
    """One evaluation with the answers to the queries behind its tables and charts."""

    about: Mapping[str, Any]
    """The row of the view `evaluations`."""
    answers: Mapping[str, Answer]
    """Name of a query -> answer; `changes` is missing where there is nothing to compare with."""
    samples: list[Markup]
    """Cards of all samples as JSON. As objects they would take ten times the memory."""
    pictures: set[str]
    """SHA-256 of all pictures of the samples."""
    comparisons: list[Comparison]
    """Comparisons with the last comparable evaluation, a candidate each; empty if there is none."""
    moved: list[str]
    """Causes of open alarms by its anchors, a sentence each."""
    points: list[Point]
    """Points of its trends, with those that bridges join to them."""
    watched: Watched
    """State of a scheduled evaluation against its baselines; empty for any other."""

    @property
    def flow(self) -> str:
        """Flow of the evaluation."""
        return cast(str, self.about["flow"])

    @property
    def display(self) -> Display[Any]:
        """Display of this kind of judging."""
        return display_of(self.flow)

    @property
    def judge(self) -> str:
        """Name and host of the judge."""
        return judge_words(self.about["judge"], self.about["endpoint"])

    @property
    def red(self) -> str:
        """Reason not to trust the scores, shown above them; empty: there is none."""
        return red_words(self.control_rates())

    @property
    def unmeasured(self) -> str:
        """Sentence above the scores if nothing, or not all, was measured; empty: all was."""
        if self.about["stopped"]:
            return stop_of(self.about["stopped"]).sentence
        return "" if self.about["measured"] else unmeasured_words(self.about["replies"], self.about["anew"])

    @property
    def alarms(self) -> list[str]:
        """Sentences on each drop and moved judge that this evaluation raised or found open, and that is still open."""
        began = datetime.fromisoformat(self.about["started_at"])
        return [alarm.words for alarm in self.watched.open if alarm.raised_at <= began]

    @property
    def standings(self) -> list[str]:
        """State of each candidate of a scheduled evaluation against its baseline, a sentence each."""
        return [place.words(self.flow) for place in self.watched.places]

    @property
    def notes(self) -> list[str]:
        """Notes on reading the headline."""
        good_from = self.display.good_from(self.about["parameters"])
        return self.display.notes(self.scores, Terms(self.flow, self.about["endpoint"], good_from))

    @property
    def layout(self) -> list[str]:
        """Lines shown beside scores in another layout than the published one."""
        tokens = [sum(row[kind] for row in self.answers["cost"].rows) for kind in ("tokens_in", "tokens_cached")]
        return layout_lines(self.about["protocol"], self.about["run_id"], tokens[0], tokens[1])

    @cached_property
    def scores(self) -> list[Scored]:
        """Scores over all samples, by group of samples, and of aspects, as far as there are any."""
        return [row for name in ("scores", "groups", "aspects") for row in self._rows(self.display.row, name)]

    def groupings(self) -> list[str]:
        """Return `category` and `difficulty`, where the samples have them."""
        found = {row.grouping for row in self.scores}
        return [grouping for grouping in ("category", "difficulty") if grouping in found]

    def table(self, grouping: str = "all") -> Grid:
        """Return the scores as a table: of all samples, or by group."""
        return self.display.grid(self.scores, grouping)

    def trends(self) -> list[list[Point]]:
        """Return the scores over time of each candidate and dimension or tag with at least two."""
        return series_of(self.points)[:MOST_TRENDS]

    def published(self) -> list[ScoreRow]:
        """Return the scores by the published protocol alone, where orders or votes were repeated."""
        return [row for row in self.scores if isinstance(row, ScoreRow) and row.measure == "published"]

    def rates(self) -> list[RateRow]:
        """Return the rates of the judge's agreement with itself."""
        return self._rows(RateRow, "rates")

    def control_rates(self) -> list[ControlRate]:
        """Return the rates of the control samples."""
        return [control_rate(**row) for row in self.answers["controls"].rows]

    @property
    def people(self) -> list[str]:
        """Sentences on people's labels for the scores; empty without labels."""
        return people_lines(self.answers["people"].rows)

    def corrected(self, row: Scored) -> str:
        """Return a score as corrected by people, with its interval; empty if there are too few labels."""
        place = row.candidate, row.dimension
        found = [each for each in self.answers["people"].rows if (each["candidate"], each["dimension"]) == place]
        return corrected_words(found[0]) if found else ""

    def headline(self) -> list[Headline]:
        """Return the scores that the page begins with."""
        return self.display.headline(self.scores)

    def _rows(self, kind: type[Any], name: str) -> list[Any]:
        return [kind(**{key: row[key] for key in kind.model_fields}) for row in self.answers[name].rows]


def choose(store: Path, run: str = "", flow: str = "") -> str:
    """Return the id of the finished evaluation to report: the named one, or the newest of a flow or of all.

    Raises:
        InputError: there is no such evaluation, or several ids begin so.
    """
    if run:
        return find(store, run).run_id
    newest = "SELECT run_id FROM evaluations WHERE $1 IN ('', flow) ORDER BY started_at DESC, run_id DESC LIMIT 1"
    found = history.query(store, newest, values=(flow,)).rows
    if not found:
        what = f"finished {flow} evaluation" if flow else "finished evaluation"
        raise InputError(f"{store} holds no {what}; `jury status` lists the runs")
    return str(found[0][0])


def gather(store: Path, run_id: str) -> Evaluation:
    """Gather the evaluation with this id.

    Raises:
        InputError: there is no history, or it cannot be queried.
    """
    with history.held_together(store):
        answers = {name: ask(store, name, run=run_id) for name in _QUESTIONS}
        [about] = ask(store, "evaluation", run=run_id).rows
        comparisons = since_last(store, run_id, MOST_COMPARED)
        if comparisons:
            answers["changes"] = ask(store, "changes", run=run_id, previous=comparisons[0].before.run_id)
        display = display_of(about["flow"])
        changes = answers["changes"].rows if comparisons else []
        context = Context(
            reasons=reasons_by_question(ask(store, "reasons", run=run_id).rows),
            changes={(row["candidate"], row["sample_id"]): row for row in changes},
            good_from=display.good_from(about["parameters"]),
            display=display,
        )
        moved = [each.line for each in attributions(store, run_id)]
        line = joined(store, about["flow"], points(answers["trend"].rows))
        samples, pictures = list[Markup](), set[str]()
        for card in cards(history.query(store, question("samples", run=run_id)), context):
            samples.append(as_json(card.model_dump(exclude_defaults=True)))
            pictures.update(sha256 for sha256 in card.pictures.values() if sha256)
        watch = watched(store, run_id)
        return Evaluation(about, answers, samples, pictures, comparisons, moved, line, watch)


# The samples


def cards(samples: Table, context: Context) -> Iterator[Card]:
    """Yield one card a row of `samples`, in the natural order of their ids: `test_2` comes before `test_10`.

    The rows are taken out of the table: those of a large run take much memory.
    """
    sample_id, candidate = samples.columns.index("sample_id"), samples.columns.index("candidate")
    rows = sorted(samples.rows, key=lambda row: (natural(row[sample_id]), row[candidate]), reverse=True)
    samples.rows.clear()
    while rows:
        [row] = as_json_rows(Table(samples.columns, [rows.pop()]))
        yield _card(row, context)


def _card(row: Mapping[str, Any], context: Context) -> Card:
    place = row["candidate"], row["sample_id"]
    changed = context.changes.get(place, {})
    questions = [
        _question(each, row["status"], context.reasons.get((*place, each["dimension"]), ()))
        for each in row["dimensions"]
    ]
    answers = {each.name: each.verdict for each in questions}
    labels = context.display.labels(row, answers, context.good_from)
    return Card(
        id=row["sample_id"],
        candidate=row["candidate"],
        category=row["category"],
        difficulty=row["difficulty"],
        tag=row["tag"] or "",
        text=cut(row["prompt"] or row["caption"], LONGEST_TEXT),
        status=row["status"],
        overall=labels.overall,
        score=row["score"],
        marks=labels.marks,
        tier=row["tier"],
        path=cut(labels.path, LONGEST_TEXT),
        notes=tuple(_notes(row)),
        columns=context.display.columns,
        questions=tuple(questions),
        aspects=tuple(map(_aspect, row["aspects"] or ())),
        pictures={side: row[side.lower()] or "" for side in context.display.sides},
        change=changed.get("change"),
        changed=tuple(changed.get("what", ())),
    )


def _question(row: Mapping[str, Any], status: str, reasons: tuple[Reason, ...]) -> Question:
    flip = bool(row["order_flip"])
    # A tag has a score and no verdict, a forfeit scores without one.
    other = MISSING if row["score"] is None else status if status == "forfeit" else number_words(row["score"])
    return Question(
        name=row["dimension"],
        verdict=row["verdict"] or other,
        orders=f"Human first: {row['human_first']}; Model first: {row['model_first']}" if flip else "",
        flip=flip,
        reversal=bool(row["reversal"]),
        reasons=reasons,
    )


def _aspect(row: Mapping[str, Any]) -> Aspect:
    score = "does not apply" if row["score"] is None else number_words(row["score"])
    return Aspect(name=row["aspect"], score=score, explanation=cut(row["explanation"], LONGEST_TEXT))


def _notes(row: Mapping[str, Any]) -> Iterable[str]:
    """Yield further facts about a sample, a few words each."""
    if row["p_model"] is not None and max(row["p_model"], row["p_tie"], row["p_human"]) < 1:
        yield f"Model {row['p_model']:.0%}, Tie {row['p_tie']:.0%}, Human {row['p_human']:.0%} by its votes"
    if row["pivotal"]:
        yield f"another verdict on {' or '.join(row['pivotal'])} alone would have changed the outcome"
    if row["published"] and row["published"] != row["overall"]:
        yield f"by the published protocol (Human first, first vote): {row['published']}"
    if row["satisfied"] is not None:
        yield "what was asked for is there" if row["satisfied"] else "what was asked for is not there"
    if row["aspect_mean"] is not None:
        yield f"mean of the aspects {number_words(row['aspect_mean'])}"
    if row["injected"]:
        found = {True: ", judged rightly", False: ", judged wrongly", None: ""}[row["caught"]]
        yield f"drawn as: {row['injected'].replace('_', ' ')}{found}"
    problem = row["problem"] if row["problem"] not in row["tier_path"] else ""
    yield from (cut(text, LONGEST_TEXT) for text in (problem, *row["notes"]) if text)


# Replies of the judge

_HEADS = re.compile(
    r"[\s;*_]{0,8}(?:\b[A-Za-z]+ of (?:the )?(Human|Model)|\b(Conclusion))\b[\s*_]*:[\s*_]*", re.IGNORECASE
)
_WANTED = ["Human", "Model", "Conclusion"]


def reasons_by_question(rows: Rows, budget: int = REASONS) -> dict[tuple[str, str, str], tuple[Reason, ...]]:
    """Return (candidate, sample, dimension) -> replies of the judge, from the rows of the query `reasons`."""
    limit = fair_share([len(_words(row).encode("utf-8", "replace")) for row in rows], budget)
    found: defaultdict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["candidate"], row["sample_id"], row["dimension"]].append(row)
    return {place: tuple(_reason(row, limit, len(calls) > 1) for row in calls) for place, calls in found.items()}


def _words(row: Mapping[str, Any]) -> str:
    return row["reasoning"] or row["error"]


def _reason(row: Mapping[str, Any], limit: int, several: bool) -> Reason:
    order = {"human_first": "Human first, ", "model_first": "Model first, "}.get(row["order"], "")
    return Reason(
        call=f"{order}vote {row['vote']}" if several else "",
        verdict=(row["verdict"] or "") if row["status"] == "ok" else row["status"],
        parts=_parts(_words(row), limit),
        seen=_seen(row["seen"]),
    )


def _parts(words: str, limit: int) -> tuple[tuple[str, str], ...]:
    """Return the parts of a reasoning, together within the limit: a long part must not cost the conclusion."""
    parts = split(words)
    share = fair_share([len(text.encode("utf-8", "replace")) for _, text in parts], limit)
    return tuple((heading, cut(text, share)) for heading, text in parts)


def _seen(seen: Mapping[str, Any] | None) -> str:
    if seen is None:
        return ""
    objects = [
        f"{each['count']} × {each['name']}{each['color'] and ' (' + each['color'] + ')'}"
        if each["present"]
        else f"no {each['name']}"
        for each in cast(Rows, seen["objects"] or ())
    ]
    relation = {True: ["the relation holds"], False: ["the relation does not hold"]}.get(seen["relation_holds"], [])
    return ", ".join([*objects, *relation])


def split(text: str) -> list[tuple[str, str]]:
    """Return (heading, text) of the three parts, or the whole text under no heading if it has other parts."""
    heads = list(_HEADS.finditer(text))
    found = [(head[1] or head[2]).capitalize() for head in heads]
    # A conclusion may name either side again, so all text after the first three heads belongs to it.
    if found[:3] != _WANTED or text[: heads[0].start()].strip():
        return [("", text)]
    begins = [head.end() for head in heads[:3]]
    ends = [heads[1].start(), heads[2].start(), len(text)]
    return [(name, text[begin:end].strip()) for name, begin, end in zip(_WANTED, begins, ends, strict=True)]


def cut(text: str, limit: int) -> str:
    """Return the text if it has at most `limit` bytes of UTF-8, else its beginning and a note on the rest."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return f"{data[:limit].decode('utf-8', 'ignore')}… (cut; the history holds all {len(text):,} characters)"
