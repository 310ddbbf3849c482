"""Rules of a kind of judging for controls and anchors: samples that test the judge."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from tasks.protocols.protocol import Answered
from tasks.records import FALSE_PREFERENCE, NEGLECT, REENCODED, SAME, Order, Outcome, Sample
from tasks.statistics.intervals import DECIMALS


class Original(NamedTuple):
    """Outcome of a sample as it is, for comparison with a control made of it."""

    overall: str | None
    score: float | None


Votes = Mapping[str, Mapping[Order, Sequence[Answered]]]
"""Dimension or tag -> order -> its ok answers, by vote."""


class Heard(NamedTuple):
    """All ok answers about a control and about the sample that it was made of.

    Empty if each question was asked once in an order: the two outcomes then contain the answers.
    """

    control: Votes
    real: Votes


class ControlRules(ABC):
    """Rules for the controls and anchors of one kind of judging. Instances have no state."""

    instructions: ClassVar[Mapping[str, str]]
    """Role of a picture that controls may alter -> text that they paint into it."""
    replaced: ClassVar[Mapping[str, str]] = {SAME: REENCODED}
    """Control that the kind cannot show -> the one that a sample gets instead: one picture has no second side."""
    tested: ClassVar[str] = "image"
    """Role of the picture that a control shows another one for."""
    taken: ClassVar[str] = "image"
    """Role of the picture in its place, of the same sample or of another; painted text gets the sample's own."""

    @abstractmethod
    def failures(self, control: Outcome, real: Original | None, heard: Heard) -> Sequence[float | None]:
        """Return the share of answers on which the judge failed, 0-1, for each question of a control sample.

        The expected share is the same for all numbers of orders and votes. None: the question gives no evidence,
        because a verdict or score is missing, or because nothing was left to win or lose.

        Args:
            real: outcome of the sample that the control was made of; None: it has no outcome.
            heard: the answers, if there were several votes.
        """

    @abstractmethod
    def manifest_row(
        self, flow: str, sample: Sample, texts: Mapping[str, object], pictures: Mapping[str, str]
    ) -> Mapping[str, object]:
        """Return an anchor as a row of a manifest that `Protocol.read_dataset` reads.

        Args:
            texts: text field of the prompt -> its text, or data.
            pictures: role -> path of the file, relative to the manifest's folder.
        """


def failed(measure: str, score: float, real: float, noticed: float, highest: float) -> float | None:
    """Return 1 if the judge failed, 0 if not, by the scores of a control and of the picture that it was made of.

    Args:
        noticed: difference of two scores of one picture that chance seldom makes.
        highest: upper end of the scores.

    Returns:
        None also if the real score is too low to fall, or too high to rise, by as much.
    """
    risen = round(score - real, DECIMALS)
    if measure == FALSE_PREFERENCE:
        return float(abs(risen) >= noticed)
    if measure == NEGLECT:
        return float(risen >= 0) if real > noticed else None
    return float(risen >= noticed) if real <= highest - noticed else None
