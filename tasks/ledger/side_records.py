"""Records beside the ledgers of runs: alarms, bridges between judges, and calls without a sample."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar
from uuid import uuid4

from pydantic import Field

from tasks.errors import InputError
from tasks.files import write_file
from tasks.ledger import run_files as ledger
from tasks.ledger.run_files import line_of, read_record, record_bytes
from tasks.records import JudgmentStatus, LedgerRecord, Offset, Record
from tasks.records.terms import Tokens

R = TypeVar("R", bound=Record)


class Kept(Generic[R]):
    """Location of rows of one type.

    Args:
        what: name of one folder of rows in messages, such as bridge.
        folder: folder of the store that contains the folders of the rows.
        file: name of the file with the rows of a folder.
        column: column of the rows with the name of their folder; names sort by time.
    """

    def __init__(self, rows: type[R], what: str, folder: str, file: str, column: str) -> None:
        self._rows, self._what = rows, what
        self.folder, self.file, self.column = folder, file, column

    def keep(self, store: Path, rows: Sequence[R]) -> Path:
        """Write the rows of one folder, at least one; return the folder."""
        name = f"{self.folder}/{self._name(rows[0])}"
        write_file(store, f"{name}/{self.file}", b"".join(line_of(row) for row in rows))
        return store / name

    def folders(self, store: Path) -> list[Path]:
        """Return all folders of such rows in the store, oldest first."""
        return ledger.folders_with(store, self.folder, self.file)

    def read(self, place: Path) -> Iterator[R]:
        """Yield the rows of a folder; InputError if one is damaged, of a newer version, or of another folder."""
        file = place / self.file
        for number, row in enumerate(ledger.read_valid(file, self._rows), 1):
            if self._name(row) != place.name:
                raise InputError(f"{file}, line {number}: refused: it is of another {self._what}")
            yield row

    def history_rows(self, place: Path) -> Iterator[dict[str, Any]]:
        """Return the rows of a folder as rows of their table in the history; InputError as in `read`."""
        return (row.model_dump(mode="json") for row in self.read(place))

    def _name(self, row: R) -> str:
        return getattr(row, self.column)


ALARMS = "alarms"
_RESTART, _TOLD = "restart", "told"


class Restart(LedgerRecord):
    """Baseline that a person restarted: `restart-….json`."""

    restart_id: str
    """Name of the restart and of its file; names sort by time."""
    flow: str
    """Flow whose baselines restart."""
    candidate: str
    """Candidate whose baselines restart; empty: all candidates of the flow."""
    restarted_at: str
    """Time of the restart, UTC, ISO 8601; the next scheduled run is the first night of a new baseline."""


class Told(LedgerRecord):
    """Drop of a score, or shift of the judge, that a run has reported: `told-….json`."""

    flow: str
    candidate: str
    """Candidate whose score dropped; empty: the judge of all candidates shifted."""
    series_key: str
    protocol_key: str
    night: str
    """Evaluation whose run reported it."""
    night_at: str
    """Start of that evaluation, UTC, ISO 8601."""
    anchors_key: str = ""
    """Key of the anchors that show the judge's shift; empty: the record is a drop of a score."""


def restart_baseline(store: Path, flow: str, candidate: str = "") -> Restart:
    """Restart the baselines of a flow, or of one of its candidates, with the next scheduled run."""
    now = datetime.now(UTC)
    name = f"{_RESTART}-{now:%Y%m%dT%H%M%S%f}-{flow}-{uuid4().hex[:6]}"
    restart = Restart(restart_id=name, flow=flow, candidate=candidate, restarted_at=now.isoformat())
    _keep(store, name, restart)
    return restart


def restart_files(store: Path) -> list[Path]:
    """Return the restart files of a store, oldest first; the stem of a file is its `restart_id`."""
    return sorted((store / ALARMS).glob(f"{_RESTART}-*.json"))


def read_restart(file: Path) -> Restart:
    """Read a restart; InputError if its file is damaged or contains another restart."""
    restart = read_record(file, Restart)
    if restart.restart_id != file.stem:
        raise InputError(f"{file}: damaged: it holds the restart {restart.restart_id!r}")
    return restart


def keep_told(store: Path, told: Told) -> None:
    """Record that a run has reported a drop."""
    _keep(store, f"{_TOLD}-{told.night}-{uuid4().hex[:6]}", told)


def told_before(store: Path) -> Iterator[Told]:
    """Yield the drops that runs have reported. Damaged notes are skipped: a second report is better than none."""
    for file in sorted((store / ALARMS).glob(f"{_TOLD}-*.json")):
        with suppress(InputError):
            yield read_record(file, Told)


def _keep(store: Path, name: str, record: Record) -> None:
    write_file(store, f"{ALARMS}/{name}.json", record_bytes(record))


class BridgeRow(LedgerRecord, Offset):
    """Comparison of two judges on one candidate and one dimension: a row of a bridge's file."""

    bridge_id: str
    """Name of the bridge and of its folder; ids sort by time."""
    made_at: str
    """Time of the comparison, UTC, ISO 8601."""
    flow: str
    """Flow of the samples that both judged."""
    candidate: str
    """Candidate whose figures or images they are."""
    dimension: str
    """Dimension, or overall; for generated images a tag, or all prompts if there are several tags."""
    dataset: str
    """Name of the dataset."""
    dataset_key: str
    """Key of the samples' dataset."""
    prompt_set: str
    """Name of the prompt set, or its folder: the same for both."""
    old_run: str
    """Evaluation that holds the old judge's replies."""
    new_run: str
    """Evaluation that holds the new judge's replies."""
    old_judge: str
    """Name by which the old judge was requested."""
    new_judge: str
    """Name by which the new judge was requested."""
    old_protocol_key: str
    """Protocol key of the old judge's evaluation; the offset applies to scores with this key."""
    new_protocol_key: str
    """Protocol key of the new judge's evaluation."""
    highest: float
    """Upper end of the scale, which begins at 0."""
    judged: int
    """Samples that both judged; forfeits, which nobody judges, count only in n."""
    agreement: float | None
    """Share of equal answers, or of scores at most 1 point apart; None if no sample was judged by both."""
    kappa: float | None
    """Cohen's kappa, for scores with quadratic weights; None if one judge gave the same answer to everything."""
    confusion: dict[str, int]
    """Answers of the old and the new judge, as in `Model > Human` -> number of samples; scores in whole points."""


BRIDGES = Kept(BridgeRow, "bridge", "bridges", "bridge.jsonl", "bridge_id")
"""Bridges of a store."""


Purpose = Literal["probe", "passport", "draft"]


class OtherCall(LedgerRecord):
    """Call that judges no sample: a row of a file of such calls."""

    calls_id: str
    """Name of the folder of the calls that were written together; ids sort by time."""
    purpose: Purpose
    """probe: first question, a test that the judge is available; passport: exam of the judge on drawn pictures;
    draft: checks of a figure, from its text."""
    asked_by: str
    """Run, passport or draft that asked the question; empty: none, or a run that stopped before it began."""
    flow: str
    """Flow whose run asked the question; empty: none."""
    asked_at: str
    """Time of the reply, UTC, ISO 8601."""
    status: JudgmentStatus
    """Status as of a judgment; never invalid, because the reply is not parsed here."""
    judge_asked: str
    """Name by which the judge is requested."""
    judge_answered: str
    """Name in the judge's reply; empty: the reply had none."""
    endpoint: str
    """Address of the judge."""
    service_tier: str
    """Service tier in which the call was billed, if the endpoint reports it."""
    tokens_in: Tokens
    """Tokens of the question, including its pictures."""
    tokens_out: Tokens
    """Tokens of the reply, reasoning included."""
    tokens_cached: Tokens
    """Tokens of `tokens_in` that were read from a cache."""
    tokens_written: Tokens
    """Tokens of `tokens_in` that were written to a cache."""
    tokens_pictures: Tokens
    """Tokens of `tokens_in` that are of pictures, if the endpoint reports them."""
    tokens_reasoning: Tokens
    """Tokens of `tokens_out` that are reasoning, if the endpoint reports them."""
    price: float | None = Field(ge=0, allow_inf_nan=False)
    """Cost of the call; None: unknown."""
    price_source: str
    """Source of the price; empty: none."""
    estimated: float | None = Field(ge=0, allow_inf_nan=False)
    """Possible extra cost of sends without a reply, which is in no price; None: unknown."""
    saved_by_service_tier: float | None
    """Saving compared with the standard tier."""
    saved_by_cache: float | None
    """Saving by tokens read from a cache, minus the extra cost of tokens written to it."""
    seconds: float
    """Duration of the call."""


_SECOND = len("20261127T120000")
"""Characters of an id that tell its second."""
OTHER_CALLS = Kept(OtherCall, "set of calls", "calls", "calls.jsonl", "calls_id")
"""Sets of calls in a store."""


def other_calls_of(store: Path, month: str) -> dict[str, list[OtherCall]]:
    """Return the calls of a month by the run or passport that asked them, or by set. Unreadable sets are skipped.

    Args:
        month: `2026-11`, UTC.
    """
    found: defaultdict[str, list[OtherCall]] = defaultdict(list)
    for place in OTHER_CALLS.folders(store):
        if place.name[:6] >= month.replace("-", ""):  # a set is written after its calls were asked
            with suppress(InputError, OSError):  # `jury store sync` reports it
                for row in OTHER_CALLS.read(place):
                    if row.asked_at.startswith(month):
                        found[row.asked_by or row.calls_id].append(row)
    return dict(found)


def first_questions_of(store: Path, runs: Collection[str], until: datetime) -> Iterator[OtherCall]:
    """Yield the calls about no sample that these runs asked, up to a time. Unreadable sets are skipped."""
    began, ended = min(runs)[:_SECOND], f"{until.astimezone(UTC):%Y%m%dT%H%M%S}"
    for place in OTHER_CALLS.folders(store):
        if began <= place.name[:_SECOND] <= ended:
            with suppress(InputError, OSError):  # `jury store sync` reports it
                yield from (row for row in OTHER_CALLS.read(place) if row.asked_by in runs)
