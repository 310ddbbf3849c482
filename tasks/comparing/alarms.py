"""Drops in the scores of scheduled runs: their words and events, each reported once, and the state of candidates.

The history computes the beginning and the end of a drop (`history.watching`).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tasks.comparing.attribution import Attribution, MovedJudge, attributions, moved_judges
from tasks.history.asking import one_opening, query
from tasks.ledger.alarm_records import Told, keep_told, told_before
from tasks.presentation.wording import signed
from tasks.protocols import protocol_of
from tasks.records import RunStart
from tasks.statistics.cusum import BASELINE
from tasks.text import number_words, one_line

EVENT = "jury.regression"
LONGEST_NAME = 80
_OPEN = "open"


class Alarm(NamedTuple):
    """A drop: a row of the view `alarms`."""

    flow: str
    dataset: str
    candidate: str
    judge: str
    state: str
    """open, back or restarted."""
    since_at: datetime
    """First night of the drop, UTC."""
    raised_at: datetime
    last_at: datetime
    nights: int
    """Number of nights of the drop."""
    baseline_score: float
    score: float
    """Mean over the nights of the drop."""
    change: float
    most_in: str | None
    """Dimension, or aspect, that fell most; None: its scores are unknown."""
    most_change: float | None
    baseline_from: datetime
    baseline_nights: int
    raised_by: str
    """Evaluation whose night raised it."""
    dataset_key: str
    protocol_key: str
    watched_from: datetime
    """Time after which its series had no other alarm."""
    moved: str = ""
    """judge moved, candidate moved, both or cannot tell; empty: there are no anchors."""
    attribution: str = ""
    """Sentence on the cause, judge or candidate; empty: there are no anchors."""

    event = EVENT
    what = "has dropped"
    falsely = (
        "Without any change such an alarm comes at most 0.15 times in 60 nights for each flow and candidate (simulated)"
    )
    anchors_key = ""
    """Empty, since the alarm is about the score."""

    @property
    def is_open(self) -> bool:
        """True if the score is not back, and nobody began a new baseline."""
        return self.state == _OPEN

    @property
    def short(self) -> str:
        """Name, first night and size of the drop."""
        decimals = protocol_of(self.flow).decimals
        name = one_line(self.candidate, LONGEST_NAME)
        return (
            f"{name} has dropped since {_day(self.since_at)}: {signed(self.change, decimals)} to "
            f"{number_words(self.score, decimals)} over {_nights(self.nights)}, from {_baseline(self, decimals)}"
        )

    @property
    def words(self) -> str:
        """Full message, in sentences."""
        said = (f"{self.short}{self._most}", self.attribution, self.falsely)
        return " ".join(f"{words}." for words in said if words)

    @property
    def _most(self) -> str:
        if self.most_in is None or self.most_change is None:
            return ""
        return f"; most in {one_line(self.most_in)} ({signed(self.most_change, protocol_of(self.flow).decimals)})"


class Place(NamedTuple):
    """State of a candidate after the newest night of its series: a row of the table `nights`."""

    candidate: str
    phase: str
    night: int
    baseline_nights: int
    """Number of nights of the baseline so far."""
    scored: float
    """Share of its samples with a score."""
    baseline_score: float | None
    change: float | None
    cusum: float
    cusum_limit: float | None

    def words(self, flow: str) -> str:
        """Describe the state in one sentence, drop or not."""
        decimals, name = protocol_of(flow).decimals, one_line(self.candidate, LONGEST_NAME)
        if self.phase == "left out":
            return f"{name}: only {self.scored:.0%} was scored, too little to compare the night with others"
        filling = f"the baseline has {self.baseline_nights} of {BASELINE} nights"
        if self.change is None or self.baseline_score is None:
            return f"{name}: {filling}"
        against = f"{signed(self.change, decimals)} against the baseline of {self.baseline_score:.{decimals}f}"
        if self.cusum_limit is None:
            return f"{name}: {against}" + (f"; {filling}" if self.baseline_nights < BASELINE else "")
        return f"{name}: {against}; nights below it add up to {self.cusum:.1f}, the alarm is at {self.cusum_limit:.1f}"


class Watched(NamedTuple):
    """The candidates of a scheduled run after its night."""

    places: Sequence[Place]
    alarms: Sequence[Alarm]
    """Open alarms of the scores."""
    news: Sequence[Alarm]
    """Open alarms of the scores that no run has reported yet."""
    attributions: Sequence[Attribution] = ()
    """Causes by the anchors: of open alarms of the scores, and of their own alarms."""
    judges: Sequence[MovedJudge] = ()
    """Open alarms of the anchors."""
    judge_news: Sequence[MovedJudge] = ()
    """Open alarms of the anchors that no run has reported yet."""

    @property
    def open(self) -> Sequence[Alarm | MovedJudge]:
        """Open alarms, of scores and of anchors."""
        return [*self.alarms, *self.judges]

    @property
    def events(self) -> Sequence[Alarm | MovedJudge]:
        """Alarms to announce; those of the anchors only if no new drop names the judge as its cause."""
        said = any(alarm.moved in ("judge moved", "both") for alarm in self.news)
        return [*self.news, *([] if said else self.judge_news)]


_COLUMNS = [name for name in Alarm._fields if name not in ("moved", "attribution")]
_PLACES = """
    SELECT n.flow, n.candidate, n.phase, n.night, (
               SELECT count(*) FROM nights b
               WHERE (b.baseline, b.candidate) = (n.baseline, n.candidate) AND b.phase = 'baseline'
                     AND b.night <= n.night
           ), n.scored, n.baseline_score, n.change, n.cusum, n.cusum_limit
    FROM nights n"""
_NEWEST = """
    QUALIFY row_number() OVER (PARTITION BY n.flow, n.candidate ORDER BY n.started_at DESC) = 1
    ORDER BY n.flow, n.candidate"""
_OF_SERIES = f"""
    SELECT {", ".join(f"a.{name}" for name in _COLUMNS)} FROM alarms a
    JOIN evaluations e USING (flow, dataset_key, protocol_key)
    WHERE a.state = '{_OPEN}' AND e.run_id = $1 AND list_contains(e.candidates, a.candidate)"""


def alarms(store: Path) -> list[Alarm]:
    """Return all alarms of a store, the open ones first."""
    return [Alarm(*row) for row in query(store, f"SELECT {', '.join(_COLUMNS)} FROM alarms").rows]


def newest_places(store: Path) -> list[tuple[str, Place]]:
    """Return each flow with the state of each of its candidates after the newest night."""
    return [(flow, Place(*row)) for flow, *row in query(store, f"{_PLACES} {_NEWEST}").rows]


def candidates_watched(store: Path, flow: str) -> list[str]:
    """Return the candidates of a flow that have nights in the history."""
    sql = "SELECT DISTINCT candidate FROM nights WHERE flow = $1 ORDER BY candidate"
    return [str(candidate) for (candidate,) in query(store, sql, values=(flow,)).rows]


@one_opening
def watched(store: Path, run_id: str) -> Watched:
    """Return the state of the candidates after the night of an evaluation that is in the history."""
    rows = query(store, f"{_PLACES} WHERE n.run_id = $1 ORDER BY n.candidate", values=(run_id,)).rows
    places = [Place(*row) for _, *row in rows]
    found = [Alarm(*row) for row in query(store, _OF_SERIES, values=(run_id,)).rows]
    put_down = attributions(store, run_id)
    seen = [_attributed(each, put_down) for each in found]
    judges = moved_judges(store, run_id)
    told = list(told_before(store))
    news = [each for each in seen if not any(_tells(one, each) for one in told)]
    judge_news = [each for each in judges if not any(_tells(one, each) for one in told)]
    return Watched(places, seen, news, put_down, judges, judge_news)


def _attributed(alarm: Alarm, found: Sequence[Attribution]) -> Alarm:
    own = next((each for each in found if each.candidate == alarm.candidate), None)
    return alarm._replace(moved=own.moved, attribution=own.words) if own else alarm


def _tells(told: Told, alarm: Alarm | MovedJudge) -> bool:
    """Return whether a note is about this alarm.

    Another ledger may have moved the night that raised it, so the night must only be later than any other alarm.
    """
    moment = datetime.fromisoformat(told.night_at).astimezone(UTC).replace(tzinfo=None)
    return all(getattr(told, name) == key for name, key in _series(alarm).items()) and moment > alarm.watched_from


def _series(alarm: Alarm | MovedJudge) -> dict[str, str]:
    named = ("flow", "candidate", "dataset_key", "protocol_key", "anchors_key")
    return {name: getattr(alarm, name) for name in named}


def note_told(store: Path, alarm: Alarm | MovedJudge, start: RunStart) -> None:
    """Record that a run has reported an alarm, so that no other run does."""
    told = {**_series(alarm), "night": start.run_id, "night_at": start.started_at}
    keep_told(store, Told.model_validate(told))


def resource_of(alarm: Alarm | MovedJudge, start: RunStart) -> dict[str, str]:
    """Return the subject of the event: the run, by Prefect's names for the id and the name of a resource."""
    name = alarm.candidate or alarm.judge
    return {"prefect.resource.id": f"jury.run.{start.run_id}", "prefect.resource.name": name}


def payload_of(alarm: Alarm | MovedJudge, start: RunStart) -> dict[str, Any]:
    """Return all facts about the alarm as JSON takes them; the caller adds the address of the run's page."""
    known = alarm._asdict()
    times = {name: value.isoformat() for name, value in known.items() if isinstance(value, datetime)}
    said = {name: getattr(alarm, name) for name in ("candidate", "words", "what", "falsely")}
    return {**known, **times, **said, "run_id": start.run_id}


def _baseline(alarm: Alarm, decimals: int) -> str:
    began = f"{_nights(alarm.baseline_nights)} from {_day(alarm.baseline_from)} on"
    return f"{number_words(alarm.baseline_score, decimals)} ({began})"


def _nights(number: int) -> str:
    return "1 night" if number == 1 else f"{number} nights"


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"
