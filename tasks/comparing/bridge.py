"""Bridge between two judges: its evaluations, and the decision whether the new judge may continue a history."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from tasks.errors import InputError
from tasks.judging.protocol import asked_protocol
from tasks.ledger.evaluations import PROMPT, Evaluation, evaluations, protocol_differences
from tasks.ledger.side_records import BridgeRow
from tasks.presentation.tables import Grid
from tasks.presentation.wording import signed
from tasks.protocols import label_rules_of, protocol_of
from tasks.protocols.labels import Scale
from tasks.records import OVERALL, Outcome, RunEnd, RunStart, new_id
from tasks.records.judge import FLEX_WAITS, Judge
from tasks.records.parameters import Parameters, parameters_of
from tasks.rubrics.rubric import load_rubric
from tasks.statistics.intervals import CONTINUED, OFFSET_MARGIN, WITH_OFFSET, offset
from tasks.statistics.series import ALL_PROMPTS, Compared, Measured, series
from tasks.text import listed, number_of, number_words, one_line

LONGEST_NAME = 40
FEWEST = 30
"""Fewest samples that two judges must have in common."""
OF_THE_JUDGE = {
    *("model asked", "model answered", "endpoint", "temperature", "max output tokens", "detail"),
    *("effort", "extra", "headers", "seed", "reply formats", "not sent"),
}
"""Items of a protocol in which two judges may differ; all others define the questions and the scoring."""

Key = tuple[str, str]
"""Candidate and sample."""


class Answers(NamedTuple):
    """The outcomes of one judge in an evaluation."""

    evaluation: Evaluation
    outcomes: Mapping[Key, Outcome]
    """Outcomes of the real samples."""

    @property
    def scored(self) -> int:
        """Number of samples with a score."""
        return sum(each.score is not None for each in self.outcomes.values())

    def of(self, units: Iterable[str]) -> "Answers":
        """Return the answers about these samples (prompts) alone."""
        wanted = {*units}
        return self._replace(outcomes={key: each for key, each in self.outcomes.items() if unit(each) in wanted})


def answers_of(evaluation: Evaluation) -> Answers:
    """Return the outcomes of a finished evaluation.

    Raises:
        InputError: a ledger is damaged.
    """
    found = (outcome for outcome in evaluation.outcomes() if not outcome.control)
    return Answers(evaluation, {(each.candidate, each.sample_id): each for each in found})


def unit(outcome: Outcome) -> str:
    """Return the unit that is drawn and resampled: the sample, or the prompt of a generated image."""
    return _measured(outcome).unit


def common(old: Answers, new: Answers) -> list[Key]:
    """Return the samples that both judges scored from the same pictures and texts."""
    shared = [key for key, each in old.outcomes.items() if key in new.outcomes and each.score is not None]
    same = [key for key in shared if _shown(old.outcomes[key]) == _shown(new.outcomes[key])]
    scored = [key for key in same if new.outcomes[key].score is not None]
    if old.evaluation.start.dataset_key == new.evaluation.start.dataset_key:
        return scored  # the key covers the texts
    before, after = (_texts(each) for each in (old, new))
    return [key for key in scored if before.get(key) == after.get(key)]


def _shown(outcome: Outcome) -> dict[str, str]:
    return {role: note.sent_sha256 for role, note in outcome.pictures.items()}


def _texts(answers: Answers) -> dict[Key, set[tuple[str, str]]]:
    """Return hashes of the texts sent with each sample, by dimension; none of forfeits, which nobody judges."""
    found: dict[Key, set[tuple[str, str]]] = {}
    for row in answers.evaluation.judgments():
        if not row.control:
            found.setdefault((row.candidate, row.sample_id), set()).add((row.dimension, row.text_sha256))
    return found


def differing(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return the items in which two protocols differ, without those in which two judges may differ."""
    return [name for name in protocol_differences(old, new) if name not in OF_THE_JUDGE]


def check_questions(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise InputError with all differences if two protocols do not ask the same questions."""
    names = differing(old, new)
    prompts = [name.removeprefix(PROMPT) for name in names if name.startswith(PROMPT)]
    others = [
        f"{name} ({old.get(name, 'none')} → {new.get(name, 'none')})" for name in names if not name.startswith(PROMPT)
    ]
    if names:
        what = [f"other prompts: {', '.join(prompts)}"] * bool(prompts) + others
        raise InputError(
            f"the two judges were not asked the same, so their scores do not compare: {'; '.join(what)}. Let both be "
            "asked alike, by `jury run` with the same prompt set and options, and bridge those runs"
        )


def bridge(old: Answers, new: Answers, margin: float = OFFSET_MARGIN) -> list[BridgeRow]:
    """Compare two judges on the same samples: a row for each candidate and dimension, the headline's first.

    Args:
        margin: points of a scale of 100.

    Raises:
        InputError: both are one evaluation, one is unfinished, their questions differ, or no candidate has 30 samples
            in common.
    """
    first, second = old.evaluation, new.evaluation
    if first.start.run_id == second.start.run_id:
        raise InputError(f"--old and --new are both {first.start.run_id}: a bridge takes two judges")
    if first.end is None or second.end is None:
        raise InputError("only finished runs, with all their shards, are bridged")
    check_questions(first.end.protocol, second.end.protocol)
    pairs: dict[str, list[_Pair]] = {}
    for key in common(old, new):
        pairs.setdefault(key[0], []).append(_Pair(old.outcomes[key], new.outcomes[key]))
    enough = {name: its for name, its in pairs.items() if sum(each.judged for each in its) >= FEWEST}
    if not enough:
        raise InputError(_too_few(old, new, pairs))
    about = _about(first, second, first.end, second.end)
    return [row for name, its in enough.items() for row in _rows(name, its, margin, about)]


class _Pair(NamedTuple):
    """Outcomes of one sample by both judges."""

    old: Outcome
    new: Outcome

    @property
    def judged(self) -> bool:
        """True if judges decided it; a forfeit is the same with any judge."""
        return "forfeit" not in (self.old.status, self.new.status)


def _too_few(old: Answers, new: Answers, pairs: Mapping[str, Sequence[_Pair]]) -> str:
    counts = {name: sum(each.judged for each in its) for name, its in pairs.items()}
    found = listed(f"{name} {n}" for name, n in counts.items()) if counts else "none"
    both = old.outcomes.keys() & new.outcomes.keys()
    other = sum(_shown(old.outcomes[key]) != _shown(new.outcomes[key]) for key in both)
    why = f"; {other} of the same name were judged by other pictures" if other else ""
    return (
        f"{old.evaluation.start.run_id} and {new.evaluation.start.run_id} have too few samples in common that both "
        f"scored: {found}; a bridge takes {FEWEST} of one candidate{why}. Let both judge the same samples, by "
        "`jury run`, and bridge those runs"
    )


def _about(first: Evaluation, second: Evaluation, ended: RunEnd, then: RunEnd) -> dict[str, str]:
    now, one, other = datetime.now(UTC), first.start, second.start
    whole = one if one.samples >= other.samples else other  # the other may have judged a part of them
    return {
        "bridge_id": new_id(one.flow, now),
        "made_at": now.isoformat(),
        "flow": one.flow,
        "dataset": whole.dataset,
        "dataset_key": whole.dataset_key,
        "prompt_set": whole.prompt_set,
        "old_run": one.run_id,
        "new_run": other.run_id,
        "old_judge": one.judge,
        "new_judge": other.judge,
        "old_protocol_key": ended.protocol_key,
        "new_protocol_key": then.protocol_key,
    }


def _rows(candidate: str, pairs: Sequence[_Pair], margin: float, about: Mapping[str, str]) -> Iterator[BridgeRow]:
    old, new = series(_measured(each.old) for each in pairs), series(_measured(each.new) for each in pairs)
    for measure in old.values:
        if measure.measure != "score" or measure not in new.values:
            continue
        first, second = old.values[measure], new.values[measure]
        units = sorted(first.keys() & second.keys())
        found = offset([first[one] for one in units], [second[one] for one in units], measure.highest, margin)
        yield BridgeRow.model_validate(
            {
                **about,
                **found.model_dump(),
                **_agreed(pairs, measure.dimension, label_rules_of(about["flow"]).scale),
                "candidate": candidate,
                "dimension": measure.dimension,
                "highest": measure.highest,
            }
        )


def _measured(outcome: Outcome) -> Measured:
    return protocol_of(outcome.flow).measured(Compared.of(outcome))


def _agreed(pairs: Sequence[_Pair], dimension: str, scale: Scale) -> dict[str, Any]:
    answered = [(each, answer_of(each.old, dimension), answer_of(each.new, dimension)) for each in pairs if each.judged]
    both = [(each, old, new) for each, old, new in answered if old is not None and new is not None]
    if not both:
        return {"judged": 0, "agreement": None, "kappa": None, "confusion": {}}
    drawn = [unit(each.old) for each, *_ in both]
    found = scale.concordance([old for _, old, _ in both], [new for *_, new in both], drawn)
    confusion = Counter((scale.category(old), scale.category(new)) for _, old, new in both)
    return {
        "judged": len(both),
        "agreement": found.agreement.value,
        "kappa": found.kappa.value,
        "confusion": {f"{old.name} > {new.name}": n for (old, new), n in sorted(confusion.items())},
    }


def answer_of(outcome: Outcome, dimension: str) -> str | float | None:
    """Return the answer of a judge about a sample: on one dimension, overall, or its score alone."""
    if dimension == OVERALL:
        return outcome.overall
    if dimension == ALL_PROMPTS:
        return outcome.score
    found = next((each for each in outcome.dimensions if each.dimension == dimension), None)
    return None if found is None else found.score if found.verdict is None else found.verdict


def sentences(row: BridgeRow) -> str:
    """State whether the new judge may continue the history of a candidate, and why."""
    decimals, units = protocol_of(row.flow).decimals, protocol_of(row.flow).unit
    whose = f"{row.flow}, {one_line(row.candidate, LONGEST_NAME)}"
    new, old = (one_line(name, LONGEST_NAME) for name in (row.new_judge, row.old_judge))
    shift, margin = f"{shift_words(row)} at n = {row.n} {units}", number_words(row.margin, decimals)
    if row.decision == CONTINUED:
        return f"{whose}: may be continued with {new}. The shift from {old} is {shift}, within ±{margin}."
    if row.decision == WITH_OFFSET:
        offset = signed(row.shift, decimals)
        return f"{whose}: may be continued with {new} with an offset of {offset}. The shift from {old} is {shift}."
    more = f"; about {row.enough:,} {units} would" if row.enough else ""
    return f"{whose}: cannot tell{more}. The shift from {old} to {new} is {shift}, too wide for ±{margin}."


def shift_words(row: BridgeRow) -> str:
    """Format the shift with its interval."""
    decimals = protocol_of(row.flow).decimals
    if row.ci_low is None or row.ci_high is None:
        return f"{signed(row.shift, decimals)} (no interval)"
    return f"{signed(row.shift, decimals)} [{signed(row.ci_low, decimals)}, {signed(row.ci_high, decimals)}]"


def bridge_grid(rows: Sequence[BridgeRow]) -> Grid:
    """Tabulate the rows of one candidate: scores by both judges, the shift, their agreement, and the decision."""
    header = ["", "old", "new", "shift", "n", "equal", "kappa", "history"]
    return Grid(header, [_line(row) for row in rows])


def _line(row: BridgeRow) -> list[str]:
    decimals = protocol_of(row.flow).decimals
    return [
        row.dimension,
        number_words(row.old_score, decimals),
        number_words(row.new_score, decimals),
        shift_words(row),
        str(row.n),
        "–" if row.agreement is None else f"{row.agreement:.0%}",
        number_words(row.kappa),
        row.decision,
    ]


def confusion_grid(row: BridgeRow) -> Grid:
    """Tabulate how often the old judge gave the answer of the row and the new judge that of the column."""
    category = label_rules_of(row.flow).scale.category
    met = {name for pair in row.confusion for name in pair.split(" > ")}
    names = sorted(met, key=lambda name: category(float(name) if name.isdigit() else name))
    lines = [[old, *(str(row.confusion.get(f"{old} > {new}", 0)) for new in names)] for old in names]
    return Grid(["", *(name.replace("Both are ", "both\n") for name in names)], lines)


SEED = 20_260_101
"""Seed of the draw. Any constant will do: it draws the same samples for the same number, which spares calls."""
COVERED = 0.9
"""Share of the samples that stored replies must cover; below it their judge is asked."""
MOST_READ = 20
"""Most evaluations of a judge that are searched, the newest first."""
SHARED_SETTINGS = ("temperature", "max_output_tokens", "detail", "timeout_seconds", "call_seconds", "concurrency")
"""Settings that a judge behind another endpoint takes over from the one it is compared with."""
_RUN = re.compile(r"\d{8}T\d")
"""Beginning of the id of a run."""


class Basis(NamedTuple):
    """Samples of a bridge, and the evaluation that they are from."""

    answers: Answers
    units: tuple[str, ...]
    """Samples (prompts) on which the judges are compared."""
    drawn: bool
    """True if they are a draw from all."""

    @property
    def words(self) -> str:
        """Return the number of samples (prompts) with their noun."""
        return number_of(len(self.units), protocol_of(self.answers.evaluation.start.flow).unit.removesuffix("s"))


def basis(store: Path, flow: str, old: str, new: str, samples: int = 0) -> Basis:
    """Return samples of the newest finished evaluation of a flow: by the old judge, else by the new one, else by any.

    Args:
        samples: draw so many samples (prompts), by a seeded shuffle; 0: all.

    Raises:
        InputError: there is none, fewer than 30 are to be drawn, or a ledger is damaged.
    """
    found = (
        next(_by(store, flow, old), None) or next(_by(store, flow, new), None) or next(evaluations(store, flow), None)
    )
    if found is None:
        raise InputError(f"{store} holds no finished {flow} run: `jury run {flow}` makes one, whose samples are judged")
    answers = answers_of(found)
    units = list(dict.fromkeys(unit(each) for each in answers.outcomes.values() if each.score is not None))
    if 0 < samples < FEWEST:
        raise InputError(f"-n {samples}: a bridge takes {FEWEST} {protocol_of(flow).unit} at least")
    if not 0 < samples < len(units):
        return Basis(answers, tuple(units), drawn=False)
    chosen = {*random.Random(SEED).sample(sorted(units), samples)}
    return Basis(answers, tuple(each for each in units if each in chosen), drawn=True)


def stored(store: Path, judge: str, wanted: Basis, settings: Mapping[str, Any]) -> Answers | None:
    """Return stored answers of a judge about the samples; None: the judge is to be asked.

    A named run counts as it is. For a model, the newest evaluation counts that had the same questions and covers nine
    tenths of the samples.

    Args:
        settings: settings of the judge, by name, that its evaluations must have had.

    Raises:
        InputError: there is no such run, or it is of another flow; or a ledger is damaged.
    """
    start = wanted.answers.evaluation.start
    if _RUN.match(judge):
        return _named(store, start.flow, judge).of(wanted.units)
    for each in islice(_by(store, start.flow, judge), MOST_READ):
        if _is_alike(each, wanted.answers.evaluation) and _has(each, settings):
            answers = answers_of(each).of(wanted.units)
            if len(common(wanted.answers, answers)) >= COVERED * wanted.answers.of(wanted.units).scored:
                return answers
    return None


def to_ask(store: Path, model: str, wanted: Basis, settings: Mapping[str, Any]) -> Parameters:
    """Return the parameters for a judge without stored replies: those of the run that the samples are from.

    A judge that has judged this flow before keeps the settings that it had then. Any other takes over the address and
    settings of the run's own judge; at another address it takes over only the general settings.

    Args:
        settings: settings of the judge, by name, that were given and override all others.

    Raises:
        InputError: the settings do not go together, the run's parameters cannot be read any more, or its prompts have
            changed since.
    """
    evaluation = wanted.answers.evaluation
    start, end = evaluation.start, evaluation.end
    own = next(_by(store, start.flow, model), None)
    judge = {**_settings(start, own and own.start, settings), **settings, "model": model}
    try:
        asked = _parameters_again(wanted, judge)
    except InputError as error:
        raise InputError(
            f"run {start.run_id} cannot be repeated with {model}: {error}; or let the judge make a run of its own with "
            f"`jury run {start.flow}`, and name that run"
        ) from error
    asks = asked_protocol(asked, load_rubric(start.flow, asked.prompt_set))
    check_questions({name: value for name, value in (end or start).protocol.items() if name in asks}, asks)
    return asked


def _parameters_again(wanted: Basis, judge: Mapping[str, Any]) -> Parameters:
    """Return the parameters of the run that samples are from, for these samples alone and with this judge."""
    start = wanted.answers.evaluation.start
    known = parameters_of(start.flow).model_fields
    once = {"shards": 1, "shard": 0, "evaluation_id": "", "controls": 0.0, "anchors": 0, "export": ""}
    again = {name: value for name, value in {**start.parameters, **once}.items() if name in known}
    ids = {"ids": list(wanted.units), "limit": 0} if wanted.drawn else {}
    settings = {name: value for name, value in judge.items() if name in Judge.model_fields}
    try:
        asked = parameters_of(start.flow).model_validate({**again, **ids, "judge": settings})
    except ValidationError as error:
        raise InputError(error.errors()[0]["msg"].removeprefix("Value error, ")) from error
    live = {"service_tier": "standard"} if asked.judge.service_tier == "batch" else {}  # somebody waits for its replies
    return asked.model_copy(update={"judge": asked.judge.model_copy(update=live)})


def _settings(basis: RunStart, own: RunStart | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that were not given: the judge's own, or those it can share with another."""
    if own:
        return dict(_judge(own))
    there = _judge(basis)
    if given.get("base_url", there.get("base_url")) == there.get("base_url"):
        return {name: value for name, value in there.items() if not name.startswith("price")}
    return {name: value for name, value in there.items() if name in SHARED_SETTINGS}


def _judge(start: RunStart) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", start.parameters.get("judge") or {})


def _has(evaluation: Evaluation, settings: Mapping[str, Any]) -> bool:
    judge = _judge(evaluation.start)
    return all(
        judge.get(name) == value for name, value in settings.items() if name not in ("service_tier", *FLEX_WAITS)
    )


def _is_alike(one: Evaluation, other: Evaluation) -> bool:
    if one.end is None or other.end is None or one.start.dataset != other.start.dataset:
        return False
    return not differing(one.end.protocol, other.end.protocol)


def _named(store: Path, flow: str, wanted: str) -> Answers:
    found = [each for each in evaluations(store) if each.start.run_id.startswith(wanted)]
    if len(found) != 1:
        ids = listed((each.start.run_id for each in found), 5)
        raise InputError(
            f"{wanted!r} is the beginning of several runs: {ids}" if found else f"no finished run is called {wanted!r}"
        )
    if found[0].start.flow != flow:
        raise InputError(f"{found[0].start.run_id} is of {found[0].start.flow}, and --flow says {flow}")
    return answers_of(found[0])


def _by(store: Path, flow: str, judge: str) -> Iterator[Evaluation]:
    """Yield finished evaluations of a flow by a model, asked for or answered by that name, or the one with this id."""
    for each in evaluations(store, flow):
        names = (each.start.judge, each.end.protocol.get("model answered") if each.end else "")
        if each.start.run_id.startswith(judge) if _RUN.match(judge) else judge in names:
            yield each
