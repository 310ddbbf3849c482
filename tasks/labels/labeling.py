"""Labeling: samples drawn for people by a seed, their blind pages, and import of the labels."""

import random
import re
import secrets
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import ValidationError
from pydantic_core import from_json

from tasks.datasets.rows import Cells, Columns, find_rows
from tasks.errors import InputError, Problems, first_fault
from tasks.files import read_regular, real_place
from tasks.history import queries as history
from tasks.history.queries import Evaluation, find, one_opening
from tasks.labels.inputs import Drawable, Inputs, known_questions, prompts_of, read_inputs
from tasks.ledger.evaluations import digest
from tasks.ledger.labels import (
    ABOUT,
    UNIFORM,
    LabelItem,
    LabelPage,
    LabelRow,
    LabelSet,
    is_label_name,
    keep_labels,
    label_folder,
    label_sets,
    read_label_set,
    read_page,
    removed_labels,
)
from tasks.protocols import label_rules_of
from tasks.protocols.labels import NUMBER, OWN, UNANSWERED, LabelRules, PeopleQuestion
from tasks.records import Record
from tasks.records.parameters import FLOWS
from tasks.rubrics.rubric import Rubric
from tasks.statistics.intervals import FEWEST_SHARED
from tasks.text import listed, one_line, quoted

_JUDGED = """
    SELECT candidate, sample_id, coalesce(tag, '') AS tag, coalesce(prompt_id, '') AS prompt_id,
           map_from_entries(list_transform(map_entries(pictures),
               lambda each: {'k': each.key, 'v': each.value.source_sha256})) AS pictures,
           unnest(if($2, [each.aspect FOR each IN aspects IF each.score IS NOT NULL], [''])) AS question,
           unnest(if($2, [each.weight FOR each IN aspects IF each.score IS NOT NULL], [1.0])) AS weight
    FROM outcomes JOIN shard_runs s USING (run_id)
    WHERE s.evaluation_id = $1 AND score IS NOT NULL AND status IN ('complete', 'incomplete')
    ORDER BY candidate, sample_id, question"""
"""Samples with a score; if samples have questions of their own ($2), a row for each of these that has one."""
SHARED = FEWEST_SHARED
"""Items that all pages share which are made together: so many tell whether people agree better than by chance."""
MOST_LOST = 0.1
"""Share of the drawn samples that need not be shown: above it no page is made."""
LONGEST = 1000
"""Characters of a list of samples that cannot be shown, each with its reason."""


class Asked(NamedTuple):
    """Pages asked for: `number` items a page, for so many `people`."""

    number: int
    people: int = 1
    seed: int = 1
    questions: Sequence[str] = ()
    candidate: str = ""
    places: Mapping[str, str] = {}
    """Parameter (dataset, results or images) -> its place now; a parameter that is absent: the place of the run."""

    @property
    def overlap(self) -> int:
        """Number of items that all of several pages share."""
        return min(self.number, SHARED) if self.people > 1 else 0


class Made(NamedTuple):
    """A page as the store is to keep it, and the further content of its file."""

    page: LabelPage
    questions: Mapping[str, tuple[PeopleQuestion, ...]]
    rubric: Rubric
    inputs: Mapping[tuple[str, str], Inputs]
    """Candidate and sample id -> inputs of the judge."""


@one_opening
def make_pages(store: Path, run: str, asked: Asked) -> list[Made]:
    """Draw the items of one evaluation's pages, one page for each person, and read what they show."""
    if asked.number < 1 or asked.people < 1:
        raise InputError(f"a page holds 1 item or more, for 1 person or more, found {asked.number} for {asked.people}")
    evaluation = find(store, run)
    rubric = prompts_of(evaluation)
    rules = label_rules_of(evaluation.flow)
    questions = rules.people_questions(rubric, asked.questions)
    found = _drawable(store, evaluation.run_id, asked, None if rules.pooled else questions)
    hands = list(dealt(drawing(found, asked.seed), asked))
    drawn = list({sample[:2]: sample for hand in hands for sample in hand}.values())
    inputs = _inputs(store, evaluation, rubric, drawn, asked.places)
    prompts = history.query(store, "SELECT prompts FROM evaluations WHERE run_id = $1", values=[evaluation.run_id]).rows
    about = {
        "of_run": evaluation.run_id,
        "flow": evaluation.flow,
        "dataset_key": evaluation.dataset_key,
        "prompts_key": digest(prompts[0][0]),
        "drawn": UNIFORM,
        "among": len(found),
        "seed": asked.seed,
        "made_at": datetime.now(UTC).isoformat(),
    }
    pages: list[Made] = []
    for hand in hands:
        own = [_item(each, inputs[each[:2]], rules) for each in hand]
        asked_of = {**questions, **{item.tag: (question,) for item, question in own if question}}
        allowed = {
            tag: {each.question: tuple(choice.value for choice in each.choices) for each in some}
            for tag, some in asked_of.items()
        }
        held = {"page_id": secrets.token_hex(8), "items": [item for item, _ in own], "questions": allowed}
        pages.append(Made(LabelPage.model_validate({**about, **held}), asked_of, rubric, inputs))
    return pages


def _inputs(
    store: Path, evaluation: Evaluation, rubric: Rubric, drawn: Sequence[Drawable], places: Mapping[str, str]
) -> dict[tuple[str, str], Inputs]:
    """Return the inputs of all samples; InputError if more of them are lost than may be."""
    moved = f"if files of {evaluation.run_id} have moved, name them with --dataset, --results or --images"
    advice = f"people are shown what the judge got: {moved}"
    try:
        inputs = read_inputs(store, evaluation, rubric, drawn, places)
    except InputError as error:
        raise InputError(f"{error}\n{advice}") from error
    lost = [f"{sample_id} ({each.lost})" for (_, sample_id), each in inputs.items() if each.lost]
    if len(lost) > MOST_LOST * len(drawn):
        share = f"{len(lost):,} of the {len(drawn):,} drawn samples cannot be shown, more than {MOST_LOST:.0%}"
        raise InputError(f"{share}: {one_line(listed(lost, 5), LONGEST)}; {advice}")
    return inputs


def drawing(found: Sequence[Drawable], seed: int) -> list[Drawable]:
    """Return all samples in the order in which they are drawn: the first n of them are a draw of n.

    Figures: a random order of all. Images: rounds over the prompts in random order, an image of each drawn at random,
    since a score is a mean over prompts. Of the questions of samples, one a prompt in each round, by their weights.
    """
    order = random.Random(seed)  # a drawing that can be repeated, and no secret
    units: defaultdict[tuple[str, str], list[Drawable]] = defaultdict(list)
    for sample in found:
        units[sample.unit].append(sample)
    hands = list(units.values())
    for hand in hands:
        order.shuffle(hand)
        if hand[0].question:  # each is the first in proportion to its weight
            hand.sort(key=lambda each: order.expovariate(each.weight))
    order.shuffle(hands)
    return [sample for turn in zip_longest(*hands) for sample in turn if sample is not None]


def dealt(drawn: Sequence[Drawable], asked: Asked) -> Iterator[list[Drawable]]:
    """Yield the samples of each person's page, in an order of its own: the first drawn for all, others for each."""
    own = asked.number - asked.overlap
    for person in range(asked.people):
        start = asked.overlap + person * own
        hand = [*drawn[: asked.overlap], *drawn[start : start + own]]
        secrets.SystemRandom().shuffle(hand)
        if hand:
            yield hand


def _drawable(
    store: Path, run_id: str, asked: Asked, questions: Mapping[str, tuple[PeopleQuestion, ...]] | None
) -> list[Drawable]:
    """Return the samples that can be drawn; raises InputError where there is none.

    Args:
        questions: tag -> the questions that its samples share; None: each sample has its own, which are drawn.
    """
    rows = history.query(store, _JUDGED, values=[run_id, questions is None]).rows
    named = [row for row in rows if asked.candidate in ("", row[0]) and (questions is None or questions.get(row[2]))]
    if asked.candidate and not named:
        raise InputError(f"{run_id} has no scored sample of a candidate {asked.candidate!r}")
    if not named:
        raise InputError(f"{run_id} has no scored sample that people could be asked about")
    return [Drawable(*row) for row in named]


def _item(drawn: Drawable, inputs: Inputs, rules: LabelRules) -> tuple[LabelItem, PeopleQuestion | None]:
    """Return an item, and the question that is its own; None: it shares those of its tag."""
    roles, token = sorted(drawn.pictures), secrets.token_hex(6)
    own = rules.own_question(inputs.sample, drawn.question) if drawn.question and inputs.sample else None
    item = LabelItem(
        token=token,
        candidate=drawn.candidate,
        sample_id=drawn.sample_id,
        tag=token if drawn.question else drawn.tag,
        pictures=dict(drawn.pictures),
        left=secrets.choice(roles) if len(roles) > 1 else "",
        lost=inputs.lost,
        question=drawn.question,
        scores=dict(own.scores) if own else {},
    )
    unknown = PeopleQuestion(OWN, "", "", ()) if drawn.question else None  # that of a lost sample
    return item, own.asked if own else unknown


def sides(item: LabelItem) -> list[str]:
    """Return the SHA-256 of the pictures of an item, from left to right."""
    return [sha256 for _, sha256 in sorted(item.pictures.items(), key=lambda each: each[0] != item.left)]


FORMAT = "image-jury labels 1"
NO_ANSWER = "no answer"
"""Answer to a question that has only a comment."""
NOT_SHOWN = "cannot be shown"
"""Answer to all questions about an item whose picture or text is gone."""
_OF_PAGE = {"of_run", "dataset_key", "prompts_key", "drawn"}
_NUMBER = re.compile("0|[1-9][0-9]{0,5}")
LARGEST = 256_000_000


class Answer(Record):
    """One row of a saved file."""

    item: str
    question: str
    answer: str
    """Empty: there is only a comment."""
    comment: str


class Saved(NamedTuple):
    """A saved file, before its rows are checked."""

    page: str
    name: str
    """Name of the person: a pseudonym, or one that the person chose."""
    rows: Sequence[object]


def import_labels(store: Path, file: Path, flow: str = "", name: str = "") -> LabelSet:
    """Keep the labels of a table, or of a file that a page saved, under `name` or the file's stem; the same file once.

    Args:
        flow: flow whose samples a table is about; a page's file contains it.

    Raises:
        InputError: the name is taken, impossible or that of these labels before their removal; the file is too large;
            or rows are wrong, and all of them are listed.
    """
    name = name or file.stem
    if not is_label_name(name):
        raise InputError(
            f"labels cannot be called {name!r}: allowed are letters, digits, '_', '.' and '-', at most 100; choose "
            "another name with --name"
        )
    if not file.is_file():
        raise InputError(f"labels {file}: there is no such file")
    data = read_regular(file, LARGEST, (real_place(file),))
    digest = sha256(data).hexdigest()
    if (name, digest) in removed_labels(store):
        raise InputError(f"these labels were removed as {name!r}, on every machine: choose another name with --name")
    place = label_folder(store, name)
    saved = _saved(file, data) if file.suffix.lower() == ".json" else None
    page = read_page(store, saved.page) if saved else None
    flow = _flow(file, flow, page)
    if (place / ABOUT).exists():
        return _same(read_label_set(place), flow, digest)
    if saved and page:
        _check_new(store, saved)
        rows = labels_of(saved, page, file.name)
    else:
        rows = read_label_rows(file, flow, known_questions(store, flow))
    about = LabelSet(
        name=name,
        flow=flow,
        source=file.name,
        source_sha256=digest,
        imported_at=datetime.now(UTC).isoformat(),
        labels=len(rows),
        annotators=tuple(sorted({row.annotator for row in rows} - {""})),
    )
    if page:
        about = about.model_copy(update={**page.model_dump(include=_OF_PAGE), "page": page.page_id})
    keep_labels(store, about, rows)
    return about


def about_no_sample(store: Path, about: LabelSet) -> str:
    """Return a sentence about labels of a set that are about no sample of any run; empty if there are none."""
    sql = """SELECT count(*), list(DISTINCT sample_id ORDER BY sample_id) FROM labels l
        WHERE name = $1 AND NOT EXISTS (
            SELECT 1 FROM outcomes o WHERE o.flow = l.flow AND o.sample_id = l.sample_id
                AND coalesce(l.candidate, '') IN ('', o.candidate))"""
    [(number, ids)] = history.query(store, sql, values=(about.name,)).rows
    whose = f"about no sample of any {about.flow} run in the history: {listed(map(one_line, ids or ()), 5)}"
    return f"{number:,} of {about.labels:,} labels are kept until a run has them, {whose}" if number else ""


def read_label_rows(file: Path, flow: str, questions: Mapping[str, Collection[str]]) -> list[LabelRow]:
    """Return the labels in a table, in its order (JSON Lines, JSON or CSV, by its ending).

    The kind of judging defines the columns. All four verdicts are allowed on every dimension: the limits of a judge's
    answers do not bind people. Two answers of one annotator to the same question are a problem.

    Args:
        questions: see `known_questions`.

    Raises:
        InputError: rows are wrong; each is listed with the value found and the values allowed.
    """
    problems, rules = Problems(), label_rules_of(flow)
    columns = Columns(rules.required, rules.optional)
    first: dict[tuple[str, ...], str] = {}
    labels: list[LabelRow] = []
    for row in find_rows(file, problems, (real_place(file),)):
        if not columns.meet(row, problems):
            continue
        label = rules.read_label(Cells(row, problems), questions)
        asked = (label.candidate, label.sample_id, label.dimension, label.aspect, label.annotator, label.order)
        if label.sample_id and (known := first.setdefault(asked, row.where)) != row.where:
            problems.add(row.where, f"answers again what the same person answers in {known}")
        labels.append(label)
    columns.check(file.name, problems)
    problems.stop(f"labels {file}")
    return labels


def _flow(file: Path, flow: str, page: LabelPage | None) -> str:
    if page and flow not in ("", page.flow):
        raise InputError(f"labels {file}: the page that saved it is about {page.flow}, not {flow}: leave out --flow")
    if not page and not flow:
        raise InputError(f"labels {file}: name the flow whose samples it is about: --flow {'|'.join(FLOWS)}")
    return page.flow if page else flow


def _check_new(store: Path, saved: Saved) -> None:
    """Check that a person answers a page once: a later save replaces an earlier one only after that is removed."""
    for kept in label_sets(store, {}).values():
        if kept.page == saved.page and saved.name in kept.annotators:
            raise InputError(
                f"the answers of {saved.name!r} to this page are here already, as {kept.name!r}: if these are newer, "
                f"`jury labels remove {kept.name}` first"
            )


def _same(kept: LabelSet, flow: str, digest: str) -> LabelSet:
    if (kept.flow, kept.source_sha256) != (flow, digest):
        raise InputError(
            f"other labels are called {kept.name!r} already ({kept.flow}, {kept.source}, {kept.imported_at[:10]}), and "
            "labels are never changed: choose another name with --name"
        )
    return kept


def _saved(file: Path, data: bytes) -> Saved | None:
    """Read a file that a page saved; None if the data is no such file. Raises InputError if parts of it are missing."""
    try:
        found = from_json(data)
    except ValueError:
        return None
    if not isinstance(found, dict) or "format" not in found:
        return None
    parts = cast("dict[str, Any]", found)
    if parts["format"] != FORMAT:
        unknown = f"format is {quoted(str(parts['format']))}, known here is {FORMAT!r}: upgrade Image Jury"
        raise InputError(f"labels {file}: {unknown}")
    page, name, rows = parts.get("page"), parts.get("name"), parts.get("answers")
    if not isinstance(page, str) or not isinstance(name, str) or not name.strip() or not isinstance(rows, list):
        lacking = "it has not the page, the name and the list of answers that a page saves: save it again"
        raise InputError(f"labels {file}: {lacking}")
    return Saved(page, name, cast("list[object]", rows))


def labels_of(saved: Saved, page: LabelPage, source: str) -> list[LabelRow]:
    """Return the labels in a saved file, bound to the samples of its page; raises InputError with all wrong rows."""
    problems = Problems()
    items = {item.token: item for item in page.items if not item.lost}
    labels: list[LabelRow] = []
    first: dict[tuple[str, str], str] = {}
    for where, row in _answers(saved, source, problems):
        if row.item in page.forgotten:
            continue
        if wrong := _wrong(row, page, items):
            problems.add(where, wrong)
        elif (known := first.setdefault((row.item, row.question), where)) != where:
            problems.add(where, f"answers again what {known} answers")
        else:
            labels.append(_label(row, saved.name, page.flow, items[row.item]))
    for item in page.items:
        for question in page.questions[item.tag] if item.lost else ():
            answer = Answer(item=item.token, question=question, answer=NOT_SHOWN, comment="")
            labels.append(_label(answer, saved.name, page.flow, item))
    if not saved.rows:
        problems.add(source, "holds no answer")
    problems.stop(f"labels {source}")
    return labels


def _answers(saved: Saved, source: str, problems: Problems) -> Iterator[tuple[str, Answer]]:
    for number, row in enumerate(saved.rows, 1):
        if problems.too_many:
            return
        where = f"{source}, answer {number}"
        try:
            yield where, Answer.model_validate(row, strict=True)
        except ValidationError as error:
            problems.add(where, first_fault(error))


def _wrong(row: Answer, page: LabelPage, items: Mapping[str, LabelItem]) -> str:
    """Return the problem of a row by itself; empty: it has none."""
    if row.item not in items:
        return f"item {quoted(row.item)} is not on the page {page.page_id}"
    asked = page.questions.get(items[row.item].tag, {})
    if row.question not in asked:
        return f"question {quoted(row.question)} is not asked of this item, allowed are {listed(asked)}"
    allowed = asked[row.question]
    known = _NUMBER.fullmatch(row.answer) if NUMBER.value in allowed else None
    if row.answer and not known and (row.answer not in allowed or row.answer == NUMBER.value):
        return f"answer {quoted(row.answer)}, allowed are {listed(asked[row.question])}"
    return ""


def _label(row: Answer, name: str, flow: str, item: LabelItem) -> LabelRow:
    answer = row.answer or NO_ANSWER
    label = label_rules_of(flow).people_label(item, row.question, answer)
    unanswered = answer if answer in (*UNANSWERED, NO_ANSWER, NOT_SHOWN) else ""
    given = {"annotator": name, "comment": row.comment, "unanswered": unanswered, "pictures": item.pictures}
    return label.model_copy(update=given)
