"""What became of a scheduled run's candidates since the last run that it compares with: information, and no alarm.

Owns which earlier run that is. Only the score of the whole flow is tested, once a candidate: the dimensions are shown
beside it. Everything is read from ledgers. What raises an alarm is the series of nights (`alarms`): between two of them
too much is chance.
"""

from pathlib import Path
from typing import NamedTuple

from tasks.comparing.pairing import Row, rows
from tasks.comparing.wording import headline, sizes_words
from tasks.judging.results import results_of
from tasks.kinds.series import Series, series
from tasks.ledger.anew import replies_anew, shared_replies
from tasks.ledger.evaluations import Evaluation, finished_before, read_evaluation
from tasks.records import RunStart
from tasks.statistics.intervals import TAIL
from tasks.text import one_line

RISK = 0.05
"""Share of the runs without any change that may say worse, whatever the number of their candidates."""
LONGEST_NAME = 80


class Standing(NamedTuple):
    """What became of one candidate since the earlier run."""

    candidate: str
    rows: list[Row]
    """The flow's own score, then its dimensions or measures."""
    sizes: tuple[float, float]
    """Samples of a unit in the earlier run and in this one: of generated images, the images of a prompt."""

    @property
    def worse(self) -> bool:
        """Whether the score dropped, by an interval that excludes zero."""
        return self.rows[0].difference.decision == "worse"


class Since(NamedTuple):
    """A scheduled run against the last one that it compares with."""

    start: RunStart
    earlier: RunStart
    standings: list[Standing]
    shared: str
    """What to say of replies that both runs share; empty: there are none."""

    @property
    def widened(self) -> bool:
        """Whether there are so many candidates that their intervals are wider than 95%."""
        return tail_of(len(self.start.candidates)) < TAIL

    @property
    def sentences(self) -> list[str]:
        """How each candidate stands, in words, with a warning where it has other numbers of images a prompt."""
        return [self._sentence(each) for each in self.standings]

    def _sentence(self, standing: Standing) -> str:
        said = headline(standing.rows[0].difference, self.start.flow)
        return ". ".join([f"{one_line(standing.candidate, LONGEST_NAME)}: {said}", *sizes_words(standing.sizes)])


def since_last(store: Path, run_id: str) -> Since | None:
    """The comparison of an evaluation with the newest one before it of the same flow, candidates, dataset key and
    protocol key; None where there is none, where a shard is missing, and where nothing was measured.

    Args:
        run_id: of a run, or of an evaluation in shards.

    Raises:
        FileNotFoundError: the store has no such ledger.
        InputError: its ledger is damaged.
    """
    now = read_evaluation(store, run_id)
    earlier = _earlier(store, now) if _measured(store, now) else None
    if earlier is None:
        return None
    before, after = _by_candidate(earlier), _by_candidate(now)
    tail = tail_of(len(now.start.candidates))
    shared = [candidate for candidate in now.start.candidates if candidate in before and candidate in after]
    standings = [_standing(candidate, before[candidate], after[candidate], tail) for candidate in shared]
    return Since(now.start, earlier.start, [each for each in standings if each.rows], shared_replies(earlier, now))


def _standing(candidate: str, before: Series, after: Series, tail: float) -> Standing:
    return Standing(candidate, rows(before, after, tail), (before.size, after.size))


def tail_of(candidates: int) -> float:
    """What an interval leaves out at its lower and its upper end, when so many candidates are looked at in one run.

    A drop is on one side of the interval, so that of two candidates 95% intervals say worse in 5% of runs without any
    change already; those of more are widened (Bonferroni).
    """
    return min(TAIL, RISK / candidates)


def _measured(store: Path, evaluation: Evaluation) -> bool:
    """Whether all of it is finished, and at least half of its replies are anew."""
    return bool(evaluation.end and replies_anew(store, evaluation).measured)


def _earlier(store: Path, now: Evaluation) -> Evaluation | None:
    alike = (each for each in finished_before(store, now.start) if _alike(each, now))
    return next((each for each in alike if _measured(store, each)), None)


def _alike(one: Evaluation, other: Evaluation) -> bool:
    """Whether two finished evaluations are of the same candidates, and judged in the same way."""
    same = {*one.start.candidates} == {*other.start.candidates}
    return bool(same and one.end and other.end and one.end.protocol_key == other.end.protocol_key)


def _by_candidate(evaluation: Evaluation) -> dict[str, Series]:
    samples = results_of(evaluation.start, evaluation.folders).by_candidate
    return {candidate: series(its) for candidate, its in samples.items()}
