"""From measures to pairwise verdicts: the rules of the embedded judge.

Owns the limits and the words. The limits are set so that figures of published papers pass and plain cases of the veto
rules fail; everything finer is left to a judge that can read. How the numbers are measured stands in `measures`.
"""

import math
from typing import NamedTuple

from tasks.embedded_judge.measures import Measures, agreement
from tasks.records import Verdict

MANY_STROKES = 1400
"""About seven hundred letters. With less lettering no figure is wordy."""
WORDIER = 2.0
"""From this many times the other's strokes a figure is the wordier one. Two drawings of one method differ by less."""
SAME_LAYOUT = {"diagram": 0.55, "plot": 0.75}
"""Flow -> agreement from which two figures count as the same. Any two plots agree in their frames and axes."""


class Veto(NamedTuple):
    """A limit that no good figure crosses."""

    name: str
    measure: str
    """Field of the measures."""
    words: str
    number: str
    """How its values are written, as a format."""
    limit: float
    fails_below: bool
    gap: float
    """Two figures closer than this count as equal: then both cross the limit or neither does."""

    def failures(self, human: Measures, model: Measures) -> tuple[bool, bool]:
        """Whether the Human figure fails, and whether the Model figure does."""
        one, two = self._value(human), self._value(model)
        if abs(one - two) < self.gap:
            one = two = (one + two) / 2
        return self._crossed(one), self._crossed(two)

    def describe(self, measures: Measures) -> str:
        """What was measured, and the limit."""
        value = self._value(measures)
        found = "unknown" if math.isnan(value) else self.number.format(value)
        return (
            f"{self.words} {found} ({'at least' if self.fails_below else 'at most'} {self.number.format(self.limit)})"
        )

    def _value(self, measures: Measures) -> float:
        return getattr(measures, self.measure)

    def _crossed(self, value: float) -> bool:
        return value < self.limit if self.fails_below else value > self.limit


# Dark themes go up to about #333333, which is 0.03; the darkest pure color, blue, is 0.07.
BLACK_PAPER = Veto("black paper", "paper", "luminance of the paper", "{:.2f}", 0.04, True, 0.02)
# WCAG 2 asks for 3:1 at the least, for large letters and for lines.
LOW_CONTRAST = Veto("low contrast", "contrast", "contrast", "{:.1f}:1", 3.0, True, 1.0)
# In a figure printed 5.5 inches wide, words 0.9 % of the width tall are set in type of about five points.
TINY_LETTERS = Veto("tiny letters", "word_height", "height of words by the width", "{:.1%}", 0.009, True, 0.0015)
# Published figures are cropped: what is drawn reaches over more than four fifths of the area.
WIDE_MARGINS = Veto("wide margins", "content", "area drawn on", "{:.0%}", 0.6, True, 0.1)
# The edges of ordinary figures fit no grid of small squares better than a coarser one, those of mosaics to over 80 %.
PIXELATION = Veto("pixelation", "mosaic", "edges on a grid of squares", "{:.0%}", 0.75, False, 0.1)
# Published figures use such colors for single marks, for less than a tenth of all their color.
NEON = Veto("neon colors", "neon", "neon among the color", "{:.0%}", 0.25, False, 0.1)

VETOES: dict[str, tuple[Veto, ...]] = {
    "diagram_readability": (BLACK_PAPER, LOW_CONTRAST, TINY_LETTERS, WIDE_MARGINS),
    "diagram_aesthetics": (PIXELATION, NEON, BLACK_PAPER),
    "plot_readability": (LOW_CONTRAST, TINY_LETTERS),
    "plot_aesthetics": (PIXELATION, NEON, BLACK_PAPER, WIDE_MARGINS),
}
"""Question -> the vetoes of its prompt that pixels show. The plot prompts do not name margins; they ask for a
harmonious layout."""

QUESTIONS = ("diagram_faithfulness", "diagram_conciseness", "plot_faithfulness", "plot_conciseness", *VETOES)
"""What this judge can be asked, as `<flow>_<dimension>`."""


class Finding(NamedTuple):
    """What was measured of each figure, and what follows."""

    human: str
    model: str
    conclusion: str
    verdict: Verdict


def compare(question: str, human: Measures, model: Measures) -> Finding:
    """Answer one of the `QUESTIONS` about two figures."""
    flow, _, dimension = question.partition("_")
    if dimension == "faithfulness":
        return _faithfulness(SAME_LAYOUT[flow], human, model)
    if dimension == "conciseness":
        return _conciseness(human, model)
    return _vetoed(VETOES[question], human, model)


def _faithfulness(limit: float, human: Measures, model: Measures) -> Finding:
    agreed = agreement(human, model)
    parts = "taken as the reference", f"agrees to {agreed:.2f} in where things are (below {limit}: another figure)"
    if agreed >= limit:
        return Finding(*parts, "things are in the same places", "Both are good")
    return Finding(*parts, "things are elsewhere, as they would be in a true drawing of another layout too", "Human")


def _conciseness(human: Measures, model: Measures) -> Finding:
    parts = f"{human.strokes:,} strokes of letters", f"{model.strokes:,} strokes of letters"
    if not all(one.word_height >= TINY_LETTERS.limit for one in (human, model)):  # False for NaN as well
        return Finding(*parts, "some lettering is too small or too faint to be counted", "Both are good")
    few, many = sorted((human.strokes, model.strokes))
    if many < MANY_STROKES or many < WORDIER * few:
        rule = f"neither has {WORDIER:g} times the other's lettering, or none has {MANY_STROKES:,} strokes"
        return Finding(*parts, rule, "Both are good")
    winner, wordy = ("Human", "Model") if model.strokes == many else ("Model", "Human")
    return Finding(*parts, f"the {wordy} figure has {many / max(1, few):.1f} times the other's lettering", winner)


def _vetoed(vetoes: tuple[Veto, ...], human: Measures, model: Measures) -> Finding:
    failures = [veto.failures(human, model) for veto in vetoes]
    bad_human = [veto.name for veto, (failed, _) in zip(vetoes, failures, strict=True) if failed]
    bad_model = [veto.name for veto, (_, failed) in zip(vetoes, failures, strict=True) if failed]
    blamed = [f"{who} has {' and '.join(bad)}" for who, bad in (("Human", bad_human), ("Model", bad_model)) if bad]
    return Finding(
        ", ".join(veto.describe(human) for veto in vetoes),
        ", ".join(veto.describe(model) for veto in vetoes),
        "; ".join(blamed) or "no limit is crossed",
        _VERDICTS[bool(bad_human), bool(bad_model)],
    )


_VERDICTS: dict[tuple[bool, bool], Verdict] = {
    (False, False): "Both are good",
    (False, True): "Human",
    (True, False): "Model",
    (True, True): "Both are bad",
}
