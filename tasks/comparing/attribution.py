"""Cause of a change, judge or candidate, by the anchors of scheduled runs, in words, and the alarm of a judge.

`statistics.attribution` has the rule. Anchors are judged once for all candidates of a flow, so they have one alarm.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tasks.history.asking import one_opening, query
from tasks.presentation.wording import signed
from tasks.protocols import protocol_of
from tasks.text import one_line

LONGEST_NAME = 80
_FIELDS = (
    *("flow", "candidate", "moved", "moved_since", "moved_nights", "judge_shift", "judge_low", "judge_high"),
    *("candidate_shift", "candidate_low", "candidate_high", "judge_since"),
)
_OF_RUN = f"""
    SELECT {", ".join(_FIELDS)} FROM anchor_nights WHERE run_id = $1 AND moved IS NOT NULL ORDER BY candidate"""


class Attribution(NamedTuple):
    """The cause of an open alarm of a candidate: a row of the table `anchor_nights`."""

    flow: str
    candidate: str
    moved: str
    """judge moved, candidate moved, both or cannot tell."""
    since: datetime
    """First night considered, UTC."""
    nights: int
    judge_shift: float | None
    """Mean change of the anchors; None: too few nights with anchors came before."""
    judge_low: float | None
    judge_high: float | None
    candidate_shift: float | None
    """Mean change of the candidate less that of the anchors."""
    candidate_low: float | None
    candidate_high: float | None
    judge_since: datetime | None
    """First night of a shift that the anchors' own alarm has found; None: there is none."""

    @property
    def words(self) -> str:
        """Sentence with both figures, without a full stop."""
        if self.judge_shift is None:
            return "Judge or candidate, the anchors cannot tell: fewer than 14 nights with them lie before"
        since = f"on {self.nights} night{'s' * (self.nights > 1)} since {self.since:%Y-%m-%d}"
        judge = self._figure(self.judge_shift, self.judge_low, self.judge_high)
        candidate = self._figure(self.candidate_shift, self.candidate_low, self.candidate_high)
        return f"{_SAID[self.moved]}: the anchors changed by {judge} {since}, the candidate beside them by {candidate}"

    def _figure(self, value: float | None, low: float | None, high: float | None) -> str:
        decimals = protocol_of(self.flow).decimals
        return f"{signed(value, decimals)} [{signed(low, decimals)}, {signed(high, decimals)}]"

    @property
    def line(self) -> str:
        """Sentence with the candidate's name."""
        return f"{one_line(self.candidate, LONGEST_NAME)}: {self.words}"


_SAID = {
    "judge moved": "The judge moved",
    "candidate moved": "The candidate moved",
    "both": "Both judge and candidate moved",
    "cannot tell": "Judge or candidate, the anchors cannot tell",
}


def attributions(store: Path, run_id: str) -> list[Attribution]:
    """Return the causes of open alarms after an evaluation that is in the history; none where it has no anchors."""
    return [Attribution(*row) for row in query(store, _OF_RUN, values=(run_id,)).rows]


JUDGE_MOVED = "jury.judge_moved"
_OPEN = """
    WITH placed AS (
        SELECT a.*, e.dataset, e.judge, e.dataset_key, e.protocol_key,
               max(a.started_at) FILTER (a.judge_since IS NULL) OVER (
                   PARTITION BY a.flow, a.candidate, a.anchors_key, e.dataset_key, e.protocol_key) AS quiet_at
        FROM anchor_nights a JOIN evaluations e USING (run_id)
    )
    SELECT flow, max(dataset), max(judge), anchors_key, dataset_key, protocol_key, max(quiet_at), min(started_at),
           max(started_at), arg_max(moved_since, started_at), arg_max(moved_nights, started_at),
           arg_max(judge_shift, started_at), arg_max(judge_low, started_at), arg_max(judge_high, started_at)
    FROM placed p
    WHERE started_at > quiet_at AND NOT EXISTS (
              FROM baselines b
              WHERE b.flow = p.flow AND b.candidate IN ('', p.candidate) AND b.restarted_at > p.started_at
          ) AND ($1 = '' OR (flow, anchors_key, dataset_key, protocol_key) IN (
              SELECT (flow, anchors_key, dataset_key, protocol_key) FROM evaluations WHERE run_id = $1
          ))
    GROUP BY flow, anchors_key, dataset_key, protocol_key ORDER BY flow, min(started_at)"""


class MovedJudge(NamedTuple):
    """An open alarm of the anchors of a flow."""

    flow: str
    dataset: str
    judge: str
    anchors_key: str
    dataset_key: str
    protocol_key: str
    watched_from: datetime
    """Time after which these anchors had no other alarm, UTC."""
    raised_at: datetime
    last_at: datetime
    since_at: datetime
    """First night behind the figures."""
    nights: int
    """Number of nights behind the figures."""
    judge_shift: float | None
    """Mean change of the anchors on those nights; None: a drop of a score began before their baseline was whole."""
    judge_low: float | None
    judge_high: float | None

    candidate = ""
    """Empty: the alarm is about all candidates of the flow."""
    event = JUDGE_MOVED
    what = "has another judge than before"
    falsely = (
        "Without any change the anchors of six flows together raise such an alarm at most 0.2 times in 60 nights "
        "(simulated)"
    )

    @property
    def short(self) -> str:
        """Name of the judge, first night and size of its change."""
        who = f"the judge {one_line(self.judge, LONGEST_NAME)} has moved since {self.since_at:%Y-%m-%d}"
        if self.judge_shift is None:
            return who
        decimals = protocol_of(self.flow).decimals
        change, low, high = (signed(each, decimals) for each in (self.judge_shift, self.judge_low, self.judge_high))
        nights = f"{self.nights} night{'s' * (self.nights > 1)}"
        return f"{who}: the anchors changed by {change} [{low}, {high}] on {nights}"

    @property
    def cure(self) -> str:
        """Commands with which a person responds."""
        return (
            f"`jury judge bridge` measures what that does to scores; `jury alarms restart {self.flow}` begins its "
            "baselines anew with the judge as it is, with --anchors it has other anchors chosen"
        )

    @property
    def words(self) -> str:
        """Full message, in sentences."""
        kept = "The anchors and their pictures are the same every night, so that no candidate can be the reason"
        return " ".join(f"{each[:1].upper()}{each[1:]}." for each in (self.short, kept, self.cure, self.falsely))


@one_opening
def moved_judges(store: Path, run_id: str = "") -> Sequence[MovedJudge]:
    """Return the open alarms of anchors: of all flows, or of the series that an evaluation belongs to."""
    found = [MovedJudge(*row) for row in query(store, _OPEN, values=(run_id,)).rows]
    if not found:
        return []
    from tasks.extensions.anchors import is_newest  # an extension, for stores with anchors alone

    return [each for each in found if is_newest(store, each.flow, each.anchors_key)]
