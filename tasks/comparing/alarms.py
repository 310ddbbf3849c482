"""Drops in the scores of scheduled runs, each reported once, and their cause, judge or candidate."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tasks.history.queries import one_opening, query
from tasks.ledger.side_records import Told, keep_told, told_before
from tasks.presentation.wording import change_words, signed
from tasks.protocols import label_rules_of, protocol_of
from tasks.records import RunStart
from tasks.statistics.cusum import BASELINE
from tasks.text import listed, number_of, number_words, one_line

LONGEST_NAME = 80


class Attribution(NamedTuple):
    """The cause of an open alarm of a candidate: a row of the table `anchor_nights`."""

    flow: str
    candidate: str
    moved: str
    """judge moved, candidate moved, both or cannot tell."""
    moved_since: datetime
    """First night considered, UTC."""
    moved_nights: int
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
        decimals = protocol_of(self.flow).decimals
        since = f"on {number_of(self.moved_nights, 'night')} since {self.moved_since:%Y-%m-%d}"
        judge = change_words(self.judge_shift, self.judge_low, self.judge_high, decimals)
        candidate = change_words(self.candidate_shift, self.candidate_low, self.candidate_high, decimals)
        return f"{_SAID[self.moved]}: the anchors changed by {judge} {since}, the candidate beside them by {candidate}"


_SAID = {
    "judge moved": "The judge moved",
    "candidate moved": "The candidate moved",
    "both": "Both judge and candidate moved",
    "cannot tell": "Judge or candidate, the anchors cannot tell",
}


def attributions(store: Path, run_id: str) -> list[Attribution]:
    """Return the causes of open alarms after an evaluation that is in the history; none where it has no anchors."""
    sql = f"SELECT {', '.join(Attribution._fields)} FROM anchor_nights WHERE run_id = $1 AND moved IS NOT NULL"
    return [Attribution(*row) for row in query(store, f"{sql} ORDER BY candidate", values=(run_id,)).rows]


JUDGE_MOVED = "jury.judge_moved"
_MOVED = """
    WITH placed AS (
        SELECT a.*, e.dataset, e.judge, e.series_key, e.protocol_key,
               max(a.started_at) FILTER (a.judge_since IS NULL) OVER series AS quiet_at,
               max(a.started_at) OVER series AS ended_at
        FROM anchor_nights a JOIN evaluations e USING (run_id)
        WINDOW series AS (PARTITION BY a.flow, a.candidate, a.anchors_key, e.series_key, e.protocol_key)
    )
    SELECT flow, max(dataset), max(judge), anchors_key, series_key, protocol_key, max(quiet_at), min(started_at),
           max(started_at), arg_max(moved_since, started_at), arg_max(moved_nights, started_at),
           arg_max(judge_shift, started_at), arg_max(judge_low, started_at), arg_max(judge_high, started_at)
    FROM placed p
    WHERE started_at > quiet_at AND NOT is_followed(p.flow, p.candidate, p.ended_at) AND NOT EXISTS (
              FROM baselines b
              WHERE b.flow = p.flow AND b.candidate IN ('', p.candidate) AND b.restarted_at > p.started_at
          ) AND ($1 = '' OR (flow, anchors_key, series_key, protocol_key) IN (
              SELECT (flow, anchors_key, series_key, protocol_key) FROM evaluations WHERE run_id = $1
          ))
    GROUP BY flow, anchors_key, series_key, protocol_key ORDER BY flow, min(started_at)"""


class MovedJudge(NamedTuple):
    """An open alarm of the anchors of a flow."""

    flow: str
    dataset: str
    judge: str
    anchors_key: str
    series_key: str
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
        change = change_words(self.judge_shift, self.judge_low, self.judge_high, protocol_of(self.flow).decimals)
        return f"{who}: the anchors changed by {change} on {number_of(self.nights, 'night')}"

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
    found = [MovedJudge(*row) for row in query(store, _MOVED, values=(run_id,)).rows]
    if not found:
        return []
    from tasks.extensions.anchors import is_newest  # an extension, for stores with anchors alone

    return [each for each in found if is_newest(store, each.flow, each.anchors_key)]


EVENT = "jury.regression"


class Alarm(NamedTuple):
    """A drop: a row of the view `alarms`."""

    flow: str
    dataset: str
    candidate: str
    judge: str
    state: str
    """open: the score is not back, and neither a person nor a later series made a new baseline."""
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
    """Mean change over the nights of the drop."""
    newest_change: float
    """Change of the newest of them."""
    most_in: str | None
    """Dimension, or aspect, that fell most; None: its scores are unknown."""
    most_change: float | None
    baseline_from: datetime
    baseline_nights: int
    raised_by: str
    """Evaluation whose night raised it."""
    series_key: str
    protocol_key: str
    watched_from: datetime
    """Time after which its series had no other alarm."""
    moved: str = ""
    """judge moved, candidate moved, both or cannot tell; empty: there are no anchors."""
    attribution: str = ""
    """Sentence on the cause, judge or candidate; empty: there are no anchors."""
    judge_versions: str = ""
    """Model and fingerprint as which the judge answered in these nights, and in none before; empty: there is none."""

    event = EVENT
    what = "has dropped"
    falsely = (
        "Without any change such an alarm comes 0.04 times in 60 nights for each flow and candidate, in any of six in "
        "20%; where nights hang together, up to 0.27 times, in any of six in 81% (simulated)"
    )
    anchors_key = ""
    """Empty, since the alarm is about the score."""

    @property
    def short(self) -> str:
        """Name, first night and size of the drop."""
        decimals = protocol_of(self.flow).decimals
        name = one_line(self.candidate, LONGEST_NAME)
        newest = f", in the newest night {signed(self.newest_change, decimals)}" if self.nights > 1 else ""
        other = f"; the judge now answers as {self.judge_versions}" if self.judge_versions else ""
        began = f"{number_of(self.baseline_nights, 'night')} from {self.baseline_from:%Y-%m-%d} on"
        return (
            f"{name} has dropped since {self.since_at:%Y-%m-%d}: {signed(self.change, decimals)} to "
            f"{number_words(self.score, decimals)} over {number_of(self.nights, 'night')}{newest}, from "
            f"{number_words(self.baseline_score, decimals)} ({began}){other}"
        )

    @property
    def words(self) -> str:
        """Full message, in sentences."""
        change = signed(self.most_change, protocol_of(self.flow).decimals)
        most = f"; most in {one_line(self.most_in)} ({change})" if self.most_in is not None else ""
        said = (f"{self.short}{most}", self.attribution, self.falsely)
        return " ".join(f"{words}." for words in said if words)


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
    left_out: int = 0
    """Number of questions that other nights of its series lack."""

    def words(self, flow: str) -> str:
        """Describe the state in one sentence, drop or not."""
        decimals, parts = protocol_of(flow).decimals, label_rules_of(flow).pooled
        if self.phase == "left out":
            said = f"only {self.scored:.0%} was scored, too little to compare the night with others"
        elif self.change is None or self.baseline_score is None:
            said = f"the baseline has {self.baseline_nights} of {BASELINE} nights"
        else:
            said = f"{signed(self.change, decimals)} against the baseline of {self.baseline_score:.{decimals}f}"
            if self.cusum_limit is not None:
                said += f"; nights below it add up to {self.cusum:.1f}, the alarm is at {self.cusum_limit:.1f}"
        edited = f"; {self.left_out:,} {parts} that other nights lack are left out" if self.left_out else ""
        return f"{one_line(self.candidate, LONGEST_NAME)}: {said}{edited}"


class Watched(NamedTuple):
    """The candidates of a scheduled run after its night."""

    places: Sequence[Place]
    alarms: Sequence[Alarm]
    """Open alarms of the scores."""
    news: Sequence[Alarm]
    """Open alarms of the scores that no run has reported yet."""
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


_COLUMNS = [name for name in Alarm._fields if name not in ("moved", "attribution", "judge_versions")]
# Not by the view judge_versions, which reads the judgments of all runs.
_VERSIONS = """
    SELECT DISTINCT concat_ws(' ', j.judge_answered, nullif(j.system_fingerprint, '')) AS version, n.started_at >= $5
    FROM nights n JOIN shard_runs s ON s.evaluation_id = n.run_id JOIN judgments j ON j.run_id = s.run_id
    WHERE (n.flow, n.candidate, n.series_key, n.protocol_key) = ($1, $2, $3, $4)
          AND n.started_at BETWEEN $5::TIMESTAMP - INTERVAL 14 DAY AND $6
          AND j.reused_from = '' AND j.judge_answered <> ''
    ORDER BY version"""
_PLACES = """
    SELECT n.flow, e.dataset, n.candidate, n.phase, n.night, (
               SELECT count(*) FROM nights b
               WHERE (b.baseline, b.candidate) = (n.baseline, n.candidate) AND b.phase = 'baseline'
                     AND b.night <= n.night
           ), n.scored, n.baseline_score, n.change, n.cusum, n.cusum_limit, n.left_out
    FROM nights n JOIN evaluations e USING (run_id)"""
_NEWEST = """
    QUALIFY row_number() OVER (PARTITION BY n.flow, n.candidate, n.series_key ORDER BY n.started_at DESC) = 1
            AND n.started_at > max(n.started_at) OVER (PARTITION BY n.flow, n.candidate) - INTERVAL 8 DAY
    ORDER BY n.flow, n.candidate, e.dataset"""
_OF_SERIES = f"""
    SELECT {", ".join(f"a.{name}" for name in _COLUMNS)} FROM alarms a
    JOIN evaluations e USING (flow, series_key, protocol_key)
    WHERE a.state = 'open' AND e.run_id = $1 AND list_contains(e.candidates, a.candidate)"""


def alarms(store: Path) -> list[Alarm]:
    """Return the open alarms of a store."""
    found = query(store, f"SELECT {', '.join(_COLUMNS)} FROM alarms WHERE state = 'open'").rows
    return [_with_versions(store, Alarm(*row)) for row in found]


def _with_versions(store: Path, alarm: Alarm) -> Alarm:
    """Return an alarm with the versions of the judge that none of the 14 days before it had; none without such days."""
    series = alarm.flow, alarm.candidate, alarm.series_key, alarm.protocol_key
    rows = query(store, _VERSIONS, values=(*series, alarm.since_at, alarm.last_at)).rows
    before = {version for version, dropped in rows if not dropped}
    new = [str(version) for version, dropped in rows if dropped and version not in before]
    return alarm._replace(judge_versions=listed(new) if before and new else "")


def newest_places(store: Path) -> list[tuple[str, str, Place]]:
    """Return flow, dataset and state of each candidate after the newest night on it, of nights up to a week apart."""
    return [(flow, dataset, Place(*row)) for flow, dataset, *row in query(store, f"{_PLACES} {_NEWEST}").rows]


def candidates_watched(store: Path, flow: str) -> list[str]:
    """Return the candidates of a flow that have nights in the history."""
    sql = "SELECT DISTINCT candidate FROM nights WHERE flow = $1 ORDER BY candidate"
    return [str(candidate) for (candidate,) in query(store, sql, values=(flow,)).rows]


@one_opening
def watched(store: Path, run_id: str) -> Watched:
    """Return the state of the candidates after the night of an evaluation that is in the history."""
    rows = query(store, f"{_PLACES} WHERE n.run_id = $1 ORDER BY n.candidate", values=(run_id,)).rows
    places = [Place(*row) for _, _, *row in rows]
    found = [Alarm(*row) for row in query(store, _OF_SERIES, values=(run_id,)).rows]
    causes = {each.candidate: {"moved": each.moved, "attribution": each.words} for each in attributions(store, run_id)}
    seen = [_with_versions(store, each._replace(**causes.get(each.candidate, {}))) for each in found]
    judges = moved_judges(store, run_id)
    told = list(told_before(store))
    news = [each for each in seen if not any(_tells(one, each) for one in told)]
    judge_news = [each for each in judges if not any(_tells(one, each) for one in told)]
    return Watched(places, seen, news, judges, judge_news)


def _tells(told: Told, alarm: Alarm | MovedJudge) -> bool:
    """Return whether a note is about this alarm.

    Another ledger may have moved the night that raised it, so the night must only be later than any other alarm.
    """
    moment = datetime.fromisoformat(told.night_at).astimezone(UTC).replace(tzinfo=None)
    return all(getattr(told, name) == key for name, key in _series(alarm).items()) and moment > alarm.watched_from


def _series(alarm: Alarm | MovedJudge) -> dict[str, str]:
    named = ("flow", "candidate", "series_key", "protocol_key", "anchors_key")
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
