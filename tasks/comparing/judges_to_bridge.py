"""Evaluations that a bridge is made of, and parameters to ask a judge without stored replies.

`--old` and `--new` name an evaluation, by the beginning of its id, or a judge, by its model.
"""

import random
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from tasks.comparing.bridge import FEWEST, Answers, answers_of, check_questions, common, differing, unit
from tasks.errors import InputError
from tasks.judging.protocol import asked_protocol
from tasks.ledger.evaluations import Evaluation, read_evaluation
from tasks.ledger.reading import read_start, run_folders
from tasks.parameters import FLEX_WAITS, Judge, Parameters, parameters_of
from tasks.protocols import protocol_of
from tasks.records import RunStart
from tasks.rubrics.rubric import load_rubric
from tasks.text import listed, number_of

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


def made_since(store: Path, model: str, earlier: Collection[Path]) -> Evaluation | None:
    """Return the evaluation of the newest run by a judge, without the `earlier` runs; None: there is none."""
    made = [run for run in run_folders(store) if run not in earlier and read_start(run).judge == model]
    return read_evaluation(store, made[-1].name) if made else None


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


def evaluations(store: Path, flow: str = "") -> Iterator[Evaluation]:
    """Yield finished evaluations, the newest first, without unreadable ones: `jury store sync` reports them."""
    met: set[str] = set()
    for run in reversed(run_folders(store)):
        with suppress(InputError, FileNotFoundError):
            start = read_start(run)
            if start.evaluation_id in met or flow not in ("", start.flow):
                continue
            met.add(start.evaluation_id)
            found = read_evaluation(store, start.evaluation_id)
            if found.end:
                yield found
