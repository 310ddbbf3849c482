"""Protocol of pairwise figures: datasets, verdicts and outcomes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tasks.datasets.dataset import Dataset, read_figures
from tasks.datasets.entries import LOST
from tasks.datasets.paths import NO_PICTURE
from tasks.demo.defects import CLEAN, DEFECTS, IN_HUMAN
from tasks.protocols.figures import reply
from tasks.protocols.figures.display import CEILINGS
from tasks.protocols.figures.tier_rule import decide, undecided
from tasks.protocols.protocol import Decided, Protocol, Reading, ReplyForm, Tally
from tasks.records import OVERALL, WINNERS, Judgment, RunStart, Sample
from tasks.records.parameters import PairwiseParameters
from tasks.rubrics.rubric import PairwisePrompt, Rubric
from tasks.statistics.scores import ScoreTally
from tasks.statistics.series import Compared, Measure, Measured


class FigureProtocol(Protocol[PairwisePrompt, PairwiseParameters]):
    """Comparison of two figures with a verdict on each dimension; scores are 0-100, and Human is 50."""

    parameters = PairwiseParameters
    unit = "samples"
    decimals = 1
    highest = 100.0

    def read_dataset(self, source: Path, flow: str, parameters: PairwiseParameters) -> Dataset:
        """Read a folder as PaperBananaBench, or a file as a manifest."""
        return read_figures(source, flow, parameters)

    def reply_form(self, prompt: PairwisePrompt, sample: Sample) -> ReplyForm:
        """Return a form with the reasoning, then the winner: one of the prompt's verdicts."""
        return ReplyForm(reply.schema(prompt.verdicts), reply.format_words(prompt.verdicts), prompt.verdicts)

    def read_reply(self, text: str, prompt: PairwisePrompt, sample: Sample) -> Reading:
        """Return the verdict in a reply."""
        return reply.read(text, prompt)

    def decide(
        self,
        sample: Sample,
        judgments: Sequence[Judgment],
        rubric: Rubric,
        parameters: PairwiseParameters,
        problems: Mapping[str, str],
    ) -> Decided:
        """Apply the two-tier rule to the verdicts.

        Without the Human figure there is nothing to compare with. A missing Model figure is the Model's forfeit; if it
        existed when the dataset was loaded, the sample is incomplete.
        """
        if human := problems.get("human"):
            status = "no_reference" if human.startswith(NO_PICTURE) else "bad_picture"
            decided = undecided(status, human, rubric)
        elif model := problems.get("model"):
            decided = undecided("incomplete" if model.startswith(LOST) else "forfeit", model, rubric)
        else:
            decided = decide(judgments, rubric, parameters.order_list(), parameters.votes)
        verdicts = {each.dimension: each.verdict for each in decided.dimensions}
        return decided._replace(caught=caught(sample.injected, rubric.flow, verdicts))

    def score_tally(self, start: RunStart) -> Tally:
        """Return scores by dimension and group."""
        return ScoreTally(CEILINGS.get(start.flow, {}))

    def measured(self, outcome: Compared) -> Measured:
        """Return a figure's overall score, then each dimension's, for a pair with the same sample's figure."""
        dimensions = {Measure(dimension): score for dimension, score in outcome.scores.items()}
        return Measured(outcome.sample_id, outcome.status, "", {Measure(OVERALL): outcome.score, **dimensions})


def caught(kind: str, flow: str, verdicts: Mapping[str, str | None]) -> bool | None:
    """Return whether the verdicts (dimension -> verdict) show that the judge noticed the kind of a figure sample.

    A defect is caught by its verdict in its dimension, a clean pair by no winner in any dimension. None: the kind is
    unknown, the sample is a forfeit, or a verdict is missing.
    """
    if kind in CLEAN:
        given = verdicts.values()
        return None if None in given or not given else not any(verdict in WINNERS for verdict in given)
    dimension = DEFECTS.get(kind, ("", ""))[flow == "plot"]
    verdict = verdicts.get(dimension)
    return None if verdict is None else verdict == ("Model" if kind.startswith(IN_HUMAN) else "Human")


PROTOCOL = FigureProtocol()
