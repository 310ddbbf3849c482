"""Judges that moved by what the anchors of scheduled runs tell, whether or not a score has dropped.

Owns the words and the event. The rule stands in `statistics.attribution`, its nights in `history.anchor_watching`; that
it is told once is for `alarms`. One frozen set of anchors is judged for all candidates of a flow, so it has one alarm.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tasks.anchors.frozen import is_newest
from tasks.comparing.wording import signed
from tasks.history.asking import one_opening, query
from tasks.kinds import kind_of
from tasks.text import one_line

JUDGE_MOVED = "jury.judge_moved"
LONGEST_NAME = 80
_OPEN = """
    WITH placed AS (
        SELECT a.*, e.dataset, e.model, e.dataset_key, e.protocol_key,
               max(a.started_at) FILTER (a.judge_since IS NULL) OVER (
                   PARTITION BY a.flow, a.candidate, a.anchors_key, e.dataset_key, e.protocol_key) AS quiet_at
        FROM anchor_nights a JOIN evaluations e USING (run_id)
    )
    SELECT flow, max(dataset), max(model), anchors_key, dataset_key, protocol_key, max(quiet_at), min(started_at),
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
    model: str
    anchors_key: str
    dataset_key: str
    protocol_key: str
    watched_from: datetime
    """From then on there was no other alarm of these anchors, UTC."""
    raised_at: datetime
    last_at: datetime
    since_at: datetime
    """First night that the figures are of."""
    nights: int
    """That they are of."""
    judge_shift: float | None
    """Mean change of the anchors on those nights; None: a drop of a score began before their baseline was whole."""
    judge_low: float | None
    judge_high: float | None

    candidate = ""
    """All that the flow judges."""
    event = JUDGE_MOVED
    what = "has another judge than before"
    falsely = (
        "Without any change the anchors of six flows together raise such an alarm at most 0.2 times in 60 nights "
        "(simulated)"
    )

    @property
    def short(self) -> str:
        """Which judge moved since when, and by how much."""
        who = f"the judge {one_line(self.model, LONGEST_NAME)} has moved since {self.since_at:%Y-%m-%d}"
        if self.judge_shift is None:
            return who
        decimals = kind_of(self.flow).decimals
        change, low, high = (signed(each, decimals) for each in (self.judge_shift, self.judge_low, self.judge_high))
        nights = f"{self.nights} night{'s' * (self.nights > 1)}"
        return f"{who}: the anchors changed by {change} [{low}, {high}] on {nights}"

    @property
    def cure(self) -> str:
        """What people do about it."""
        return (
            f"`jury bridge` measures what that does to scores; `jury baseline restart {self.flow}` begins its "
            "baselines anew with the judge as it is, with --anchors it has other anchors chosen"
        )

    @property
    def words(self) -> str:
        """All there is to say, in sentences."""
        kept = "The anchors and their pictures are the same every night, so that no candidate can be the reason"
        return " ".join(f"{each[:1].upper()}{each[1:]}." for each in (self.short, kept, self.cure, self.falsely))


@one_opening
def moved_judges(store: Path, run_id: str = "") -> Sequence[MovedJudge]:
    """The open alarms of anchors: of all flows, or of the series that an evaluation belongs to.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: there is no history, or it was made by another version.
    """
    found = [MovedJudge(*row) for row in query(store, _OPEN, values=(run_id,)).rows]
    return [each for each in found if is_newest(store, each.flow, each.anchors_key)]
