"""The calls that a run would make, without making any: which replies there are already, and how long each question is.

Reads every sample as the run does, and lets its pictures go at once.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tasks.judging.case import Call, Case, load_case
from tasks.judging.run import Run
from tasks.records import ANCHOR, Sample
from tasks.spending import expected


class Plan(NamedTuple):
    """What a run has before it."""

    calls: list[expected.Call]
    """All that it asks for."""
    there: set[str]
    """Keys of those whose replies there are already."""
    samples: list[Sample]
    """About which calls are to be made, in the order of the run; controls and anchors are samples of their own."""

    @property
    def open(self) -> list[expected.Call]:
        """The calls to be made."""
        return [call for call in self.calls if call.key not in self.there]


def plan_of(run: Run, samples: Iterable[Sample]) -> Plan:
    """The calls that the run would make. Takes about as long as the reading of all pictures: for a thread.

    Raises:
        InputError: a sample's record cannot be read.
    """
    plan = Plan([], set(), [])
    for sample in samples:
        case = load_case(sample, run.rubric, run.parameters, run.policy, None)
        there = {call.key for call in case.calls if sample.control != ANCHOR and run.replies.find(call.key)}
        plan.calls.extend(_sized(run, case, call) for call in case.calls)
        plan.there.update(there)
        if len(there) < len(case.calls):
            plan.samples.append(sample)
    return plan


def _sized(run: Run, case: Case, call: Call) -> expected.Call:
    prompt = run.rubric.prompt(call.dimension)
    letters = len(run.layout.instructions(prompt)) + sum(
        len(case.texts[name]) for name in prompt.inputs if name in case.texts
    )
    return expected.Call(
        key=call.key,
        subject=(case.sample.sample_id, case.sample.candidate, case.sample.control),
        dimension=call.dimension,
        text_sha256=case.text_sha256(prompt),
        letters=letters,
        pictures=len(case.pictures),
        megapixels=expected.megapixels(case.notes()),
    )
