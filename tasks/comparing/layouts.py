"""Both layouts of one judge on the same samples: which evaluations they are, and how far they agree.

Owns what is compared, and what is to be asked where one layout is missing. The statistics are the kind's own, where a
check is kept is `ledger.layout_checks`, how it is told `layout_words`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tasks.comparing.bridge import Answers, Key, answer_of, answers_of, common
from tasks.comparing.judges_to_bridge import COVERED, MOST_READ, Basis, basis_of, evaluations, parameters_again
from tasks.errors import InputError
from tasks.judging import shared_layout
from tasks.judging.protocol import asked_protocol, new_id
from tasks.kinds import kind_of
from tasks.kinds.values import Answered
from tasks.ledger.evaluations import Evaluation
from tasks.ledger.layout_checks import LayoutRow
from tasks.ledger.protocol_keys import protocol_differences
from tasks.ledger.reading import read_judgments
from tasks.parameters import FLOWS, Parameters, parameters_of
from tasks.records import OVERALL
from tasks.rubrics.rubric import load_rubric
from tasks.statistics.concordance import Concordance
from tasks.text import listed

Layout = Literal["published", "shared"]
LAYOUTS: tuple[Layout, ...] = ("published", "shared")
ITEM = "layout"
"""Of a protocol: the one in which the two differ."""
_VERSIONS: Mapping[Layout, str | None] = {"published": None, "shared": shared_layout.LAYOUT}
"""What it says there of a run that is made now; stored replies in another version are replies to other questions."""


class Pair(NamedTuple):
    """Two answers about a sample."""

    key: Key
    before: Answered
    after: Answered


class Own(NamedTuple):
    """What the published layout says when it is asked again."""

    by: Literal["run", "votes", ""]
    pairs: Mapping[str, Sequence[Pair]]
    """Dimension -> answers to the same question."""


def layout_of(evaluation: Evaluation) -> Layout:
    """The layout of an evaluation."""
    return "shared" if ITEM in evaluation.start.protocol else "published"


def wanted(store: Path, target: str, samples: int) -> Basis:
    """The samples of a run, by the beginning of its id, or of the newest finished one of a flow.

    Args:
        samples: so many of them, by a seeded shuffle; 0: all.

    Raises:
        InputError: there is no such run, several begin so, or it has no layout but the published one.
    """
    flow = target if target in FLOWS else ""
    found = [each for each in evaluations(store, flow) if flow or each.start.run_id.startswith(target)]
    if not found:
        raise InputError(f"{store} holds no finished run of {target}: name a flow, or the beginning of a run's id")
    if len(found) > 1 and not flow:
        raise InputError(f"{target!r} is the beginning of several runs: {listed((e.start.run_id for e in found), 5)}")
    if ITEM not in parameters_of(found[0].start.flow).model_fields:
        raise InputError(f"{found[0].start.flow} asks one question about an image: there is nothing to share")
    return basis_of(found[0], samples, "a layout check")


def stored(store: Path, basis: Basis, layout: Layout) -> Answers | None:
    """What the judge has said of the samples in a layout before; None: it is to be asked."""
    own = basis.answers
    if layout_of(own.evaluation) == layout:
        return own.of(basis.units)
    others = _like(store, own.evaluation, [ITEM])
    of_now = (each for each in others if each.start.protocol.get(ITEM) == _VERSIONS[layout])
    for each in islice(of_now, MOST_READ):
        answers = answers_of(each).of(basis.units)
        if len(common(own, answers)) >= COVERED * own.of(basis.units).scored:
            return answers
    return None


def to_ask(basis: Basis, layout: Layout) -> Parameters:
    """The run that the samples are from, asked once more in a layout.

    Raises:
        InputError: its parameters cannot be read any more, or its prompts have changed since.
    """
    evaluation = basis.answers.evaluation
    start, end = evaluation.start, evaluation.end
    asked = parameters_again(basis, {ITEM: layout})
    asks = asked_protocol(asked, load_rubric(start.flow, asked.prompt_set))
    before = {name: value for name, value in (end or start).protocol.items() if name in {*asks, ITEM}}
    if others := [name for name in protocol_differences(before, asks) if name != ITEM]:
        raise InputError(f"run {start.run_id} cannot be repeated, for this has changed since: {', '.join(others)}")
    return asked


def own_answers(store: Path, published: Answers) -> Own:
    """What is known of the published layout's agreement with itself: from another run, else from votes."""
    reused = _reused(published)
    for each in islice(_like(store, published.evaluation, []), MOST_READ):
        other = answers_of(each)
        lent = reused | _reused(other)
        keys = [key for key in common(published, other) if key not in lent]
        if len(keys) >= COVERED * published.scored:
            return Own("run", _pairs(published, other, keys))
    votes = _votes(published)
    return Own("votes" if votes else "", votes)


def compared(published: Answers, shared: Answers, own: Own) -> list[LayoutRow]:
    """How far the two layouts agree: a row for overall, then one for each dimension; of all candidates together, and
    then, where there are several, of each of them.

    Raises:
        InputError: they have no sample in common.
    """
    pairs = _pairs(published, shared, common(published, shared))
    if not pairs:
        one, other = (each.evaluation.start.run_id for each in (published, shared))
        raise InputError(f"{one} and {other} have no sample in common that both judged by the same pictures and texts")
    about = _about(published.evaluation, shared.evaluation)
    found = sorted({each.key[0] for its in pairs.values() for each in its})
    return [
        _row(about, candidate, dimension, _of(candidate, its), own)
        for candidate in ("", *(found if len(found) > 1 else ()))
        for dimension, its in pairs.items()
    ]


def _like(store: Path, evaluation: Evaluation, differing: Sequence[str]) -> Iterable[Evaluation]:
    """Other finished evaluations of the same dataset whose protocols differ in just this."""
    for each in evaluations(store, evaluation.start.flow):
        if each.end is None or evaluation.end is None or each.start.run_id == evaluation.start.run_id:
            continue
        same = each.start.dataset == evaluation.start.dataset
        if same and protocol_differences(each.end.protocol, evaluation.end.protocol) == list(differing):
            yield each


def _reused(answers: Answers) -> set[Key]:
    """Samples with replies of other runs: with those, a run agrees."""
    rows = (row for run in answers.evaluation.folders for row in read_judgments(run))
    return {(row.candidate, row.sample_id) for row in rows if row.reused_from}


def _pairs(one: Answers, other: Answers, keys: Sequence[Key]) -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {}
    for key in keys:
        first, second = one.outcomes[key], other.outcomes[key]
        if "forfeit" in (first.status, second.status):  # nobody judged it
            continue
        for dimension in (OVERALL, *one.evaluation.start.dimensions):
            before, after = answer_of(first, dimension), answer_of(second, dimension)
            if before is not None and after is not None:
                found.setdefault(dimension, []).append(Pair(key, before, after))
    return found


def _votes(answers: Answers) -> dict[str, list[Pair]]:
    """The first two votes of each question that has them, each by its last attempt."""
    said: dict[tuple[Any, ...], dict[int, Answered]] = {}
    for row in (row for run in answers.evaluation.folders for row in read_judgments(run)):
        if not row.control and (row.candidate, row.sample_id) in answers.outcomes and row.verdict:
            said.setdefault((row.dimension, row.candidate, row.sample_id, row.order), {})[row.vote] = row.verdict
    found: dict[str, list[Pair]] = {}
    for (dimension, candidate, sample_id, _), votes in said.items():
        if {1, 2} <= votes.keys():
            found.setdefault(dimension, []).append(Pair((candidate, sample_id), votes[1], votes[2]))
    return found


def _about(published: Evaluation, shared: Evaluation) -> dict[str, Any]:
    now, start = datetime.now(UTC), published.start
    return {
        "check_id": new_id(start.flow, now),
        "made_at": now.isoformat(),
        "flow": start.flow,
        "model": start.model,
        "endpoint": start.endpoint,
        "prompt_set": start.prompt_set,
        "dataset": start.dataset,
        "published_run": start.run_id,
        "shared_run": shared.start.run_id,
        "published_protocol_key": published.end.protocol_key if published.end else "",
        "shared_protocol_key": shared.end.protocol_key if shared.end else "",
    }


def _of(candidate: str, pairs: Sequence[Pair]) -> list[Pair]:
    """Those of a candidate; all where it is empty."""
    return [pair for pair in pairs if candidate in ("", pair.key[0])]


def _row(about: Mapping[str, Any], candidate: str, dimension: str, pairs: Sequence[Pair], own: Own) -> LayoutRow:
    kind, repeated = kind_of(about["flow"]), _of(candidate, own.pairs.get(dimension, ()))
    found, itself = _concordance(about["flow"], pairs), _concordance(about["flow"], repeated)
    confusion = Counter(f"{kind.category(before).name} > {kind.category(after).name}" for _, before, after in pairs)
    return LayoutRow(
        **about,
        candidate=candidate,
        dimension=dimension,
        n=len(pairs),
        agreement=found.agreement.value,
        agreement_low=found.agreement.ci_low,
        agreement_high=found.agreement.ci_high,
        kappa=found.kappa.value,
        kappa_low=found.kappa.ci_low,
        kappa_high=found.kappa.ci_high,
        own_by=own.by if repeated else "",
        own_n=len(repeated),
        own_agreement=itself.agreement.value,
        own_kappa=itself.kappa.value,
        confusion=dict(sorted(confusion.items())),
    )


def _concordance(flow: str, pairs: Sequence[Pair]) -> Concordance:
    first, second = [pair.before for pair in pairs], [pair.after for pair in pairs]
    return kind_of(flow).concordance(first, second, [pair.key[1] for pair in pairs])
