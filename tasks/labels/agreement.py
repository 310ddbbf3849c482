"""Agreement of two raters on the same samples: judges (evaluations) or people (sets of labels)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tasks.errors import InputError
from tasks.history import queries as history
from tasks.history.database import UnknownName
from tasks.history.queries import Evaluation, find, one_opening
from tasks.labels.inputs import prompts_of
from tasks.ledger.evaluations import PROMPT, protocol_differences
from tasks.ledger.labels import labels_words
from tasks.protocols import label_rules_of
from tasks.protocols.labels import LabelRules
from tasks.protocols.protocol import Answered
from tasks.records import OVERALL, OVERALL_SCORE, Record
from tasks.rubrics.rubric import Rubric, load_rubric
from tasks.statistics.concordance import Statistic
from tasks.text import listed

_LABELS = """
    SELECT any_value(flow), count(*), count(DISTINCT nullif(annotator, '')), any_value(source)
    FROM labels WHERE name = $1 HAVING count(*) > 0"""
_RUN = """
    SELECT run_id FROM evaluations
    WHERE run_id = CASE $2 WHEN 'labels' THEN (SELECT any_value(of_run) FROM labels WHERE name = $1) ELSE $1 END"""
"""Evaluation that a rater is, or whose page its labels are from."""
_ASKED = f"""
    SELECT candidate, sample_id, part.aspect, part.asked_key
    FROM (SELECT run_id, candidate, sample_id, unnest(aspects) AS part FROM outcomes) JOIN shard_runs USING (run_id)
    WHERE evaluation_id = ({_RUN}) AND part.asked_key <> ''"""
_RATINGS = """
    SELECT candidate, sample_id, question, tag, prompt_id, coalesce(array_to_string(pictures, ' '), ''), verdict, score
    FROM ratings WHERE source = $1 ORDER BY ALL"""


class Key(NamedTuple):
    """One question about one sample."""

    candidate: str
    """Empty for labels that do not name it."""
    sample_id: str
    question: str
    """Dimension, or overall; for a generated image an aspect, or overall_score."""


class Answer(NamedTuple):
    """Answer of a rater to one question."""

    given: Answered | None
    """A verdict, or a score of 0-10; None where it is missing."""
    tag: str = ""
    prompt_id: str = ""
    """Empty for figures, and for labels."""
    pictures: str = ""
    """Hashes of all pictures that were shown; empty for labels from a table."""
    asked_key: str = ""
    """Equal where the same was asked; empty: questions of one name are the same, or it is unknown."""


class Rater(Record):
    """A rater: an evaluation, or a set of labels."""

    name: str
    """Id of the evaluation, or name of the labels."""
    kind: Literal["evaluation", "labels"]
    flow: str
    about: str
    """Judge and prompt set, or number of people, in words."""


class Agreed(Record):
    """Agreement of two raters on one question."""

    question: str
    """Dimension, or overall; for generated images an aspect, or overall_score; `checks`: all checks together."""
    tag: str
    """Tag of the images' prompts, or instrument; empty for figures."""
    n: int
    """Samples (of checks: answers) that both answered."""
    only_a: int
    """Number of answers of A for which B has none."""
    only_b: int
    other_picture: int
    """Number of answers about another picture, or another check, of the same name; they are left out."""
    agreement: Statistic
    """Share of equal answers; for scores, share of those at most 1 point apart."""
    kappa: Statistic
    """Cohen's kappa, for scores with quadratic weights."""
    tau: Statistic
    """Kendall's tau-b, verdicts on the scale Model > neutral > Human."""
    categories: tuple[str, ...]
    """Answers that occur; scores are rounded to whole points."""
    confusion: tuple[tuple[int, ...], ...]
    """Counts of pairs of answers of A (row) and B (column), in the order of the categories."""


class Agreement(Record):
    """Agreement of two raters, question by question."""

    a: Rater
    b: Rater
    questions: tuple[Agreed, ...]


class _Met(NamedTuple):
    """The answers of both raters to one question about one sample."""

    key: Key
    a: Answer
    b: Answer

    @property
    def tag(self) -> str:
        return self.a.tag or self.b.tag

    @property
    def drawn(self) -> str:
        """Unit that resampling draws: the figure, or the prompt, which its images share."""
        return self.a.prompt_id or self.b.prompt_id or self.key.sample_id

    @property
    def same(self) -> bool:
        """Return whether both answered the same question about the same pictures, as far as that is known."""
        sides = (self.a.pictures, self.b.pictures), (self.a.asked_key, self.b.asked_key)
        return all(one == other for one, other in sides if one and other)


_NOTHING = Answer(None)


@one_opening
def agreement(store: Path, a: str, b: str) -> Agreement:
    """Return the agreement of two evaluations (by the beginning of the id), two sets of labels (by name), or one each.

    It is the check of the PaperBanana paper (Kendall's tau, 50 figures of two systems), so all candidates count
    together. The paper names no variant of tau; in data with so many ties it must be tau-b.

    Raises:
        InputError: a rater is unknown or on both sides, the flows differ, or the two answered nothing in common.
    """
    first, second = find_rater(store, a), find_rater(store, b)
    judged = _evaluations(store, first, second)
    if first.name == second.name:
        raise InputError(f"{a!r} and {b!r} are both {first.name}: agreement takes two")
    if first.flow != second.flow:
        raise InputError(f"{first.name} is of {first.flow} and {second.name} of {second.flow}: they share no samples")
    ours, theirs = answers(store, first, judged), answers(store, second, judged)
    one, other = _with_candidate(ours, theirs, first), _with_candidate(theirs, ours, second)
    met = [_Met(key, one.get(key, _NOTHING), other.get(key, _NOTHING)) for key in dict.fromkeys((*one, *other))]
    rules = label_rules_of(first.flow)
    default = (prompt.dimension for prompt in load_rubric(first.flow).prompts)
    sequence = list(dict.fromkeys([*(name for each in judged for name in each.dimensions), *default]))
    questions = tuple(_agreed(*group, rules) for group in _grouped(met, sequence, rules.pooled))
    if not any(question.n for question in questions):
        raise InputError(_nothing_shared(first, ours, second, theirs, met))
    return Agreement(a=first, b=_with_edits(second, judged), questions=questions)


def _with_edits(second: Rater, judged: Sequence[Evaluation]) -> Rater:
    """Return the second rater with a note if prompts of their common set were edited between the two."""
    for one, other in pairwise(judged):
        differing = protocol_differences(one.protocol, other.protocol)
        if one.prompt_set == other.prompt_set and (found := [each for each in differing if each.startswith(PROMPT)]):
            return second.model_copy(update={"about": f"{second.about}; edited between the two: {listed(found)}"})
    return second


def _with_candidate(ours: Mapping[Key, Answer], theirs: Mapping[Key, Answer], rater: Rater) -> dict[Key, Answer]:
    """Assign answers without a candidate to the only one of the other side, or of the same."""
    known = candidates(theirs) or candidates(ours)
    if len(known) > 1 and any(not key.candidate for key in ours):
        raise InputError(
            f"{rater.name} does not name the candidate of its samples, and there are several candidates: "
            f"{listed(known)}; import it with a column `candidate`"
        )
    only = known[0] if known else ""
    return {key if key.candidate else key._replace(candidate=only): answer for key, answer in ours.items()}


def _grouped(met: Iterable[_Met], sequence: Sequence[str], pooled: str) -> list[tuple[tuple[str, str], list[_Met]]]:
    """Group by tag and question, in the sequence of the dimensions and tags, the overall ones last.

    Args:
        pooled: name of all questions as one group, without the score that they make up; empty: each is a group.
    """
    groups: dict[tuple[str, str], list[_Met]] = {}
    for each in met:
        if not pooled or each.key.question != OVERALL_SCORE:
            groups.setdefault((each.tag, pooled or each.key.question), []).append(each)

    def place(group: tuple[str, str]) -> tuple[object, ...]:
        tag, question = group
        ranks = (sequence.index(name) if name in sequence else len(sequence) for name in group)
        return (*ranks, tag, question in (OVERALL, OVERALL_SCORE), question)

    return [(group, groups[group]) for group in sorted(groups, key=place)]


def _agreed(group: tuple[str, str], met: Sequence[_Met], rules: LabelRules) -> Agreed:
    both = [(each, a, b) for each in met if (a := each.a.given) is not None and (b := each.b.given) is not None]
    same = [(each, a, b) for each, a, b in both if each.same]
    first, second = [a for _, a, _ in same], [b for *_, b in same]
    statistics = rules.scale.concordance(first, second, [each.drawn for each, *_ in same])
    counts = Counter((rules.scale.category(a), rules.scale.category(b)) for a, b in zip(first, second, strict=True))
    categories = sorted({category for pair in counts for category in pair})
    return Agreed(
        tag=group[0],
        question=group[1],
        n=len(same),
        only_a=sum(each.a.given is not None and each.b.given is None for each in met),
        only_b=sum(each.b.given is not None and each.a.given is None for each in met),
        other_picture=len(both) - len(same),
        agreement=statistics.agreement,
        kappa=statistics.kappa,
        tau=statistics.tau,
        categories=tuple(category.name for category in categories),
        confusion=tuple(tuple(counts[row, column] for column in categories) for row in categories),
    )


def _nothing_shared(
    first: Rater, ours: Mapping[Key, Answer], second: Rater, theirs: Mapping[Key, Answer], met: Sequence[_Met]
) -> str:
    if any(not each.same for each in met):
        return f"{first.name} and {second.name} judged different pictures or checks of one name: nothing to compare"
    sides = [
        f"{rater.name} has samples such as {listed(sorted({key.sample_id for key in keys}), 3)} "
        f"of {listed(candidates(keys) or ['a candidate it does not name'], 3)}"
        for rater, keys in ((first, ours), (second, theirs))
    ]
    return f"{first.name} and {second.name} have answered no question about the same sample: {'; '.join(sides)}"


def _evaluations(store: Path, *raters: Rater) -> list[Evaluation]:
    """Return the evaluations among the raters, then those whose pages the labels are from."""
    ordered = sorted(raters, key=lambda rater: rater.kind == "labels")
    found = [row for each in ordered for row in history.query(store, _RUN, values=[each.name, each.kind]).rows]
    return [find(store, run_id) for (run_id,) in found]


def find_rater(store: Path, named: str) -> Rater:
    """Return the labels of this name, or else the evaluation whose id begins so; InputError for none or several."""
    if found := history.query(store, _LABELS, values=[named]).rows:
        flow, rows, people, source = found[0]
        about = f"{labels_words(rows, people)}, {source}"
        return Rater(name=named, kind="labels", flow=flow, about=about)
    try:
        run = find(store, named)
    except UnknownName:  # the history is another version's
        raise
    except InputError as error:
        names = history.query(store, "SELECT DISTINCT name FROM labels ORDER BY name").rows
        raise InputError(f"{error}; labels are {listed(name for (name,) in names)}") from error
    about = f"{run.judge}, prompt set {run.prompt_set}, {run.started_at:%Y-%m-%d %H:%M}"
    return Rater(name=run.run_id, kind="evaluation", flow=run.flow, about=about)


def answers(store: Path, rater: Rater, judged: Sequence[Evaluation]) -> dict[Key, Answer]:
    """Return one answer a sample and question, those of several annotators merged by the kind of judging.

    Where people judge the dimensions of a figure and not the whole, the overall follows by the tier rule.

    Args:
        judged: the rule applies to the prompts of the first of these evaluations; without any, to the default prompts.
    """
    rules = label_rules_of(rater.flow)
    found: dict[Key, list[tuple[Any, ...]]] = {}
    for candidate, sample_id, question, *rest in history.query(store, _RATINGS, values=[rater.name]).rows:
        found.setdefault(Key(candidate, sample_id, question), []).append(tuple(rest))
    asked = {Key(*about): key for *about, key in history.query(store, _ASKED, values=[rater.name, rater.kind]).rows}
    merged = {key: _merged(rules, key.question, rows, asked.get(key, "")) for key, rows in found.items()}
    derives = type(rules).overall_of is not LabelRules.overall_of and any(key.question != OVERALL for key in merged)
    if rater.kind == "evaluation" or not derives:
        return merged
    prompts = prompts_of(judged[0]) if judged else load_rubric(rater.flow)
    return {**_overalls(rules, merged, prompts), **merged}


def _merged(rules: LabelRules, question: str, rows: list[tuple[Any, ...]], asked_key: str) -> Answer:
    tag, prompt_id, pictures, *_ = rows[0]
    given = [score if verdict is None else verdict for *_, verdict, score in rows]
    return Answer(rules.merged_answer(question, given), tag, prompt_id, pictures, asked_key)


def _overalls(rules: LabelRules, merged: Mapping[Key, Answer], prompts: Rubric) -> dict[Key, Answer]:
    """Return the overall of each sample where it follows from the answers to the other questions."""
    samples: dict[tuple[str, str], dict[str, Answered]] = {}
    for key, answer in merged.items():
        if answer.given is not None and key.question != OVERALL:
            samples.setdefault(key[:2], {})[key.question] = answer.given
    derived = {sample: rules.overall_of(given, prompts) for sample, given in samples.items()}
    return {Key(*sample, OVERALL): Answer(outcome) for sample, outcome in derived.items() if outcome is not None}


def candidates(keys: Iterable[Key]) -> list[str]:
    """Return the names of the candidates, where they are given, in alphabetical order."""
    return sorted({key.candidate for key in keys} - {""})
