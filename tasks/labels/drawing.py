"""Draw of the samples that people are shown, by a seed, and the blind pages that they are dealt out to.

Tokens and sides of a page come from the system's randomness: a known seed does not reveal the owner of a side.
"""

import random
import secrets
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from tasks.errors import InputError
from tasks.history import asking as history
from tasks.history.evaluations import find
from tasks.labels.prompts import prompts_of
from tasks.ledger.label_pages import DISAGREEMENTS, UNIFORM, LabelItem, LabelPage, keep_page
from tasks.ledger.protocol_keys import digest
from tasks.pictures.thumbnails import made
from tasks.protocols import label_rules_of
from tasks.protocols.labels import PeopleQuestion

_JUDGED = """
    SELECT candidate, sample_id, coalesce(tag, '') AS tag, coalesce(prompt_id, '') AS prompt_id,
           coalesce(nullif(prompt, ''), caption) AS text,
           map_from_entries(list_transform(map_entries(pictures),
               lambda each: {'k': each.key, 'v': each.value.source_sha256})) AS pictures,
           len(list_filter(dimensions, lambda each: each.order_flip OR each.verdict = 'Mixed')) > 0
               OR greatest(p_model, p_tie, p_human) < 1 AS unsure,
           overall, score
    FROM outcomes JOIN shard_runs s USING (run_id)
    WHERE s.evaluation_id = $1 AND score IS NOT NULL AND status IN ('complete', 'incomplete')
    ORDER BY candidate, sample_id"""
_OTHERS = """
    SELECT o.candidate, o.sample_id FROM outcomes o JOIN shard_runs s USING (run_id)
    JOIN evaluations e ON e.run_id = s.evaluation_id
    JOIN (SELECT r.*, e.dataset_key, e.flow AS of FROM outcomes r JOIN shard_runs t USING (run_id)
          JOIN evaluations e ON e.run_id = t.evaluation_id WHERE t.evaluation_id = $1) mine
      ON mine.dataset_key = e.dataset_key AND mine.of = e.flow
         AND (mine.candidate, mine.sample_id, mine.pictures) = (o.candidate, o.sample_id, o.pictures)
    WHERE e.run_id <> $1
          AND (o.overall <> mine.overall OR (mine.overall IS NULL AND abs(o.score - mine.score) >= $2))"""
FAR = 3.0
"""Points of ten by which two scores of an image must differ to count as disagreement."""


class Drawable(NamedTuple):
    """A sample that people can be shown: it has a score, and the store has kept its pictures."""

    candidate: str
    sample_id: str
    tag: str
    prompt_id: str
    """Empty for figures."""
    text: str
    pictures: Mapping[str, str]
    """Role -> SHA-256 of the picture's file."""

    @property
    def unit(self) -> tuple[str, str]:
        """Unit with one turn in a round of the drawing: a figure, or all images of a prompt."""
        return self.candidate, self.prompt_id or self.sample_id


class Asked(NamedTuple):
    """Pages asked for: `number` items a page, for so many `people`, who all get the first `overlap` items."""

    number: int
    people: int = 1
    overlap: int = 0
    seed: int = 1
    questions: Sequence[str] = ()
    disagreements: bool = False
    candidate: str = ""


class Made(NamedTuple):
    """A page as it is kept in the store, and the further content of its file."""

    page: LabelPage
    questions: Mapping[str, tuple[PeopleQuestion, ...]]
    texts: Mapping[str, str]
    """Token -> caption or prompt."""


def make_pages(store: Path, run: str, asked: Asked) -> list[Made]:
    """Draw the items of one evaluation's pages, one page for each person, and keep their identities in the store."""
    _check(asked)
    evaluation = find(store, run)
    questions = label_rules_of(evaluation.flow).people_questions(prompts_of(evaluation), asked.questions)
    found = _drawable(store, evaluation.run_id, asked, questions)
    drawn = drawing(found, asked.seed)
    prompts = history.query(store, "SELECT prompts FROM evaluations WHERE run_id = $1", values=[evaluation.run_id]).rows
    about = {
        "of_run": evaluation.run_id,
        "flow": evaluation.flow,
        "dataset_key": evaluation.dataset_key,
        "prompts_key": digest(prompts[0][0]),
        "drawn": DISAGREEMENTS if asked.disagreements else UNIFORM,
        "among": len(found),
        "seed": asked.seed,
        "made_at": datetime.now(UTC).isoformat(),
        "questions": {
            tag: {each.question: tuple(choice.value for choice in each.choices) for each in some}
            for tag, some in questions.items()
        },
    }
    made_pages: list[Made] = []
    for hand in dealt(drawn, asked):
        items = tuple(map(_item, hand))
        page = LabelPage.model_validate({**about, "page_id": secrets.token_hex(8), "items": items})
        keep_page(store, page)
        texts = {item.token: sample.text for item, sample in zip(items, hand, strict=True)}
        made_pages.append(Made(page, questions, texts))
    return made_pages


def drawing(found: Sequence[Drawable], seed: int) -> list[Drawable]:
    """Return all samples in the order in which they are drawn: the first n of them are a draw of n.

    Figures: a random order of all. Images: rounds over the prompts in random order, an image of each drawn at random,
    since a score is a mean over prompts.
    """
    order = random.Random(seed)  # a drawing that can be repeated, and no secret
    units: defaultdict[tuple[str, str], list[Drawable]] = defaultdict(list)
    for sample in found:
        units[sample.unit].append(sample)
    hands = list(units.values())
    for hand in hands:
        order.shuffle(hand)
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


def _check(asked: Asked) -> None:
    if asked.number < 1 or asked.people < 1:
        raise InputError(f"a page holds 1 item or more, for 1 person or more, found {asked.number} for {asked.people}")
    if not 0 <= asked.overlap <= asked.number:
        raise InputError(
            f"--overlap {asked.overlap}: of the {asked.number} items of a page 0 to {asked.number} can be shared"
        )


def _drawable(
    store: Path, run_id: str, asked: Asked, questions: Mapping[str, tuple[PeopleQuestion, ...]]
) -> list[Drawable]:
    """Return the samples that can be drawn; raises InputError where there is none."""
    rows = history.query(store, _JUDGED, values=[run_id]).rows
    named = [row for row in rows if asked.candidate in ("", row[0]) and questions.get(row[2])]
    if asked.candidate and not named:
        raise InputError(f"{run_id} has no scored sample of a candidate {asked.candidate!r}")
    chosen = _doubtful(store, run_id, named) if asked.disagreements else named
    if not chosen:
        raise InputError(
            f"{run_id}: no orders, votes or judges disagree on any sample: leave out --disagreements"
            if asked.disagreements and named
            else f"{run_id} has no scored sample that people could be asked about"
        )
    kept = [found for row in chosen if _kept(store, found := Drawable(*row[:6]))]
    if not kept:
        raise InputError(f"{store} keeps the pictures of none of the {len(chosen):,} samples of {run_id}")
    return kept


def _kept(store: Path, sample: Drawable) -> bool:
    return bool(sample.pictures) and all(made(store, sha256) for sha256 in sample.pictures.values())


def _doubtful(store: Path, run_id: str, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows on which orders or votes differ, or another evaluation of the same pictures disagrees."""
    others = {tuple(row) for row in history.query(store, _OTHERS, values=[run_id, FAR]).rows}
    return [row for row in rows if row[6] or row[:2] in others]


def _item(sample: Drawable) -> LabelItem:
    roles = sorted(sample.pictures)
    return LabelItem(
        token=secrets.token_hex(6),
        candidate=sample.candidate,
        sample_id=sample.sample_id,
        tag=sample.tag,
        pictures=dict(sample.pictures),
        left=secrets.choice(roles) if len(roles) > 1 else "",
    )


def sides(item: LabelItem) -> list[str]:
    """Return the SHA-256 of the pictures of an item, from left to right."""
    return [sha256 for _, sha256 in sorted(item.pictures.items(), key=lambda each: each[0] != item.left)]
