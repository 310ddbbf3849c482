"""Pictures that were found when the dataset was loaded, and could not be read when their sample's turn came.

Owns what is said of them. Pictures that are absent already when the dataset is loaded are told by `datasets.dataset`.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tasks.datasets.dataset import in_samples
from tasks.judging.case import Case
from tasks.records import Outcome
from tasks.text import cut, well_formed


@dataclass
class Unread:
    """The samples that were decided by such a picture."""

    about: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict[str, dict[str, str]](dict))
    """What was found -> sample -> the sample with its file and what is wrong with it."""

    def add(self, case: Case, outcome: Outcome) -> None:
        """Count a decided sample, where it lacks a picture of which nothing was known when the dataset was loaded."""
        sample, problem = case.sample, outcome.problem
        role = next((role for role in sample.pictures if role not in case.pictures), "")
        if not problem or not role or sample.pictures[role].problem:
            return
        of_candidate = f"of candidate {sample.candidate}"
        whose = {"human": "Human picture", "model": f"Model picture {of_candidate}"}.get(role, f"image {of_candidate}")
        came = "a forfeit" if outcome.status == "forfeit" else "not scored"
        place = sample.pictures[role].place
        file = Path(place.path).name if place else ""
        words = problem if file in problem else f"{file}: {problem}"
        self.about[f"unreadable {whose}: {came}"][sample.sample_id] = f"{sample.sample_id} ({words})"

    def warnings(self) -> list[str]:
        """A sentence for each sort of such pictures, with their number and the first of them."""
        return [cut(well_formed(in_samples(what, where))) for what, where in self.about.items()]
