"""Whether the judge or the candidate moved, in words: what the anchors of scheduled runs tell.

The rule stands in `statistics.attribution`, which nights make up a series in `history.anchor_watching`.
"""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tasks.comparing.wording import signed
from tasks.history.asking import query
from tasks.kinds import kind_of
from tasks.text import one_line

LONGEST_NAME = 80
_FIELDS = (
    *("flow", "candidate", "moved", "moved_since", "moved_nights", "judge_shift", "judge_low", "judge_high"),
    *("candidate_shift", "candidate_low", "candidate_high", "judge_since"),
)
_OF_RUN = f"""
    SELECT {", ".join(_FIELDS)} FROM anchor_nights WHERE run_id = $1 AND moved IS NOT NULL ORDER BY candidate"""


class Attribution(NamedTuple):
    """What an open alarm of a candidate is put down to: a row of the table `anchor_nights`."""

    flow: str
    candidate: str
    moved: str
    """judge moved, candidate moved, both or cannot tell."""
    since: datetime
    """First night that was looked at, UTC."""
    nights: int
    judge_shift: float | None
    """Mean change of the anchors; None: too few nights with anchors lie before."""
    judge_low: float | None
    judge_high: float | None
    candidate_shift: float | None
    """Mean change of the candidate less that of the anchors."""
    candidate_low: float | None
    candidate_high: float | None
    judge_since: datetime | None
    """First night of a shift that the anchors' own alarm has found; None: it has found none."""

    @property
    def words(self) -> str:
        """With both figures, without a full stop."""
        if self.judge_shift is None:
            return "Judge or candidate, the anchors cannot tell: fewer than 14 nights with them lie before"
        since = f"on {self.nights} night{'s' * (self.nights > 1)} since {self.since:%Y-%m-%d}"
        judge = self._figure(self.judge_shift, self.judge_low, self.judge_high)
        candidate = self._figure(self.candidate_shift, self.candidate_low, self.candidate_high)
        return f"{_SAID[self.moved]}: the anchors changed by {judge} {since}, the candidate beside them by {candidate}"

    def _figure(self, value: float | None, low: float | None, high: float | None) -> str:
        decimals = kind_of(self.flow).decimals
        return f"{signed(value, decimals)} [{signed(low, decimals)}, {signed(high, decimals)}]"

    @property
    def line(self) -> str:
        """The words, with the candidate's name."""
        return f"{one_line(self.candidate, LONGEST_NAME)}: {self.words}"


_SAID = {
    "judge moved": "The judge moved",
    "candidate moved": "The candidate moved",
    "both": "Both judge and candidate moved",
    "cannot tell": "Judge or candidate, the anchors cannot tell",
}


def attributions(store: Path, run_id: str) -> list[Attribution]:
    """What the open alarms are put down to after an evaluation that is in the history; none where it has no anchors.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: there is no history, or it was made by another version.
    """
    return [Attribution(*row) for row in query(store, _OF_RUN, values=(run_id,)).rows]
