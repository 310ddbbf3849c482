"""Comparison of the form in which a run sent Human and Model pictures to the judge.

A judge may prefer one side for its file format, size or background rather than its content. The limits here
determine when a run warns of such a difference. `prepare` makes the changes before sending; the history's view
`picture_contract` has the numbers of every run.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from tasks.pictures.prepare import ON_WHITE
from tasks.records import Outcome, PictureNote

SIDES = ("human", "model")
LEAST_SHARE = 0.25
"""Share of pictures in which the sides must differ. A bias in one sample of four moves a score of 0-100 by up to 25
points, more than candidates usually differ. Rarer differences, such as a few odd files, cause no warning."""
LEAST_RATIO = 2.0
"""Ratio of the pixels (median over pairs) at which the sides count as different in size. Twice the pixels are about
twice the image tokens, and small print that is legible on one side only."""


@dataclass
class _Pairs:
    """Counts over the pairs of one candidate."""

    formats: dict[str, Counter[str]] = field(default_factory=lambda: {side: Counter[str]() for side in SIDES})
    """Side -> format sent -> pictures."""
    transparent: Counter[str] = field(default_factory=Counter[str])
    ratios: list[float] = field(default_factory=list[float])
    """Pixels of the Model picture as sent, divided by those of the Human one."""

    def differences(self) -> Iterator[str]:
        """Yield each difference that is large enough to decide verdicts, as the end of a sentence."""
        n, (human, model) = len(self.ratios), (self.formats[side] for side in SIDES)
        if sum(abs(human[name] - model[name]) for name in human | model) / 2 >= LEAST_SHARE * n:
            sides = f"Model {_shares(model)}; Human {_shares(human)}"
            cure = "`normalize: true` (`--normalize`) sends both sides as PNG"
            yield f"formats ({sides}): compression may decide verdicts; {cure}"
        ratio = median(self.ratios)
        if max(ratio, 1 / ratio) >= LEAST_RATIO:
            yield f"size (Model has {ratio:.2g} times the pixels of Human, in the median): detail may decide verdicts"
        if abs(self.transparent["human"] - self.transparent["model"]) >= LEAST_SHARE * n:
            sides = ", ".join(f"{side.capitalize()} in {self.transparent[side] / n:.0%}" for side in reversed(SIDES))
            yield f"transparency (shown on white: {sides}): the background may decide verdicts"


@dataclass
class Comparability:
    """Counts of a run's pictures by their form, updated as its samples are decided."""

    pairs: dict[str, _Pairs] = field(default_factory=dict[str, _Pairs])
    """Pairs by candidate."""

    def add(self, outcome: Outcome) -> None:
        """Count the pair of a sample, unless a picture is missing (not judged) or the sample is one generated image."""
        if not all(side in outcome.pictures for side in SIDES):
            return
        pairs = self.pairs.setdefault(outcome.candidate, _Pairs())
        for side in SIDES:
            note = outcome.pictures[side]
            pairs.formats[side][note.sent_format] += 1
            pairs.transparent[side] += ON_WHITE in note.changes
        pairs.ratios.append(_pixels(outcome.pictures["model"]) / _pixels(outcome.pictures["human"]))

    def warnings(self) -> list[str]:
        """Return a sentence for each difference between candidate and Human pictures that may decide verdicts.

        The limits are a quarter of the pictures for format and transparency, and a factor of two for pixels.
        """
        return [
            f"The pictures of {candidate} and the Human ones differ in {words}"
            for candidate, pairs in self.pairs.items()
            for words in pairs.differences()
        ]


def _pixels(note: PictureNote) -> int:
    return note.sent_width * note.sent_height


def _shares(formats: Counter[str]) -> str:
    return ", ".join(f"{name} {n / formats.total():.0%}" for name, n in formats.most_common())
