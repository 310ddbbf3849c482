"""`jury judge exam`: stored cards, the history, warnings of runs."""

import asyncio
import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, Request, allowed_reply, text
from test_passport import replies

from tasks.endpoint.api_keys import no_secret
from tasks.errors import InputError
from tasks.history.landing import land
from tasks.ledger.passports import CARD, PASSPORTS, STOPPED, Card, keep_exam, newest_card, passport_folders, read_card
from tasks.ledger.remote import Remote
from tasks.ledger.side_records import OTHER_CALLS
from tasks.passport.exam import calls_of, take_exam
from tasks.passport.items import Item, card_lines, items_of, marks
from tasks.passport.lines import FAINT, FIRST, TWO, warning
from tasks.records.judge import Judge as Settings
from tasks.spending.budget import Budget, CallCosts
from tasks.spending.prices import tariff

CALLS = calls_of(1)
PRICES = ("--judge.price-in", "1", "--judge.price-out", "10")
Jury = Callable[..., tuple[int, str, str]]
Ask = Callable[[str], list[dict[str, Any]]]


@cache
def picture_items() -> dict[str, tuple[Item, int]]:
    """Return the item of each picture and the picture's position in it, by the hash of its bytes."""
    drawn = [(item, place, draw()) for item in items_of(1) for place, draw in enumerate(item.draws)]
    return {hashlib.sha256(data).hexdigest(): (item, place) for item, place, data in drawn}


class Judge:
    """A judge that answers exam questions by the pictures of a request that it sees."""

    def __init__(self, sees: int = 2) -> None:
        self.sees = sees
        """Number of pictures in a request that it sees; it ignores the others."""

    def __call__(self, request: Request) -> Reply:
        line = request.schema_name.removeprefix("passport_")
        if line == request.schema_name:
            return allowed_reply()(request)
        seen = [picture_items()[hashlib.sha256(data).hexdigest()] for data in request.images[: self.sees]]
        return text(json.dumps({"seen": "what I see", "answer": self._answer(line, seen)}))

    def _answer(self, line: str, seen: list[tuple[Item, int]]) -> Any:
        if line == TWO:
            return [item.answer[place] for item, place in seen if isinstance(item.answer, tuple)]
        if line in (FIRST, FAINT):
            first, second = (*(marks(str(item.answer))[place] for item, place in seen), False)[:2]
            return {(True, False): "first", (False, True): "second", (True, True): "both"}.get(
                (first, second), "neither"
            )
        return seen[0][0].answer


# The command


def test_passed_exam_exits_0_and_puts_its_card_into_the_history(jury: Jury, ask: Ask) -> None:
    with LoopbackJudge(Judge()) as loopback:
        code, out, err = jury("judge", "exam", *judged_by(loopback)[:4])
    message = f"jury: m is asked {CALLS} small questions about drawn pictures; a stop keeps the replies\n"
    assert (code, err) == (0, message)
    assert "✗" not in out and "smallest letters read" not in out
    assert "11 of 11 lines passed. It is the judge's by name and address" in out
    assert max(map(len, out.splitlines())) <= 100
    rows = ask("passports")
    assert {row["state"] for row in rows} == {"passed"}
    assert next(row["found"] for row in rows if row["line"] == "text") == "smallest letters read: 9 pixels"
    assert loopback.count == CALLS + 1  # the first question comes before them


def test_exam_is_billed_and_refused_if_it_exceeds_the_month(
    jury: Jury, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackJudge(Judge()) as loopback:
        asked = ("judge", "exam", *judged_by(loopback)[:4], *PRICES)
        monkeypatch.setenv("JURY_BUDGET_MONTH", "0.7")
        code, out, err = jury(*asked, "--json")
        assert code == 0 and {line["state"] for line in json.loads(out)["lines"]} == {"passed"}, err
        [row] = ask("SELECT purpose, flow, calls, price FROM spend")
        assert (row["purpose"], row["flow"], row["calls"]) == ("passport", "", CALLS + 1)
        assert 0.05 < row["price"] < 0.6

        monkeypatch.setenv("JURY_BUDGET_MONTH", str(row["price"]))
        code, _, err = jury(*asked)
        assert code == 2 and "does not fit into what is left of the month's budget (JURY_BUDGET_MONTH)" in err
        assert "stopped: 0.0020 are spent" in err, "the first question"


def test_exam_stops_at_its_budget_and_the_next_reuses_its_replies(tmp_path: Path) -> None:
    limit = 0.025
    with LoopbackJudge(Judge()) as loopback:
        judge = Settings(model="m", base_url=loopback.base_url, price_in=1.0, price_out=10.0, max_output_tokens=100)
        found = tariff(judge, "m", "standard", datetime.now(UTC))
        assert found
        budget = Budget(limit, CallCosts(found, 100))
        with pytest.raises(InputError, match="a further question, which may cost"):
            asyncio.run(take_exam(tmp_path, judge, 1, "p", no_secret, budget))
        spent = sum(row.price or 0.0 for place in OTHER_CALLS.folders(tmp_path) for row in OTHER_CALLS.read(place))
        asked = loopback.count
        assert spent == pytest.approx(budget.spent) and limit / 2 < spent <= limit and asked < CALLS
        card = asyncio.run(take_exam(tmp_path, judge, 1, "q", no_secret))
    assert card.calls <= CALLS - (asked - 1) and {line.state for line in card.lines} == {"passed"}


def test_exam_that_fails_after_its_last_reply_keeps_all_replies(tmp_path: Path) -> None:
    left = iter(range(CALLS - 1, -1, -1))

    def fail_at_the_last() -> None:
        if not next(left):
            raise BrokenPipeError("nobody reads the progress")

    with LoopbackJudge(Judge()) as loopback:
        judge = Settings(model="m", base_url=loopback.base_url)  # pyright: ignore
        with pytest.raises(BrokenPipeError):
            asyncio.run(take_exam(tmp_path, judge, 1, "p", no_secret, heard=fail_at_the_last))
        assert loopback.count == CALLS + 1
        assert asyncio.run(take_exam(tmp_path, judge, 1, "q", no_secret)).calls == 0


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tasks.endpoint.api_keys import no_secret
from tasks.passport.exam import take_exam
from tasks.records.judge import Judge
left = iter(range(20, -1, -1))
kill = lambda: next(left) or os.kill(os.getpid(), signal.SIGKILL)
judge = Judge(model="m", base_url=sys.argv[2])
asyncio.run(take_exam(Path(sys.argv[1]), judge, 1, "p", no_secret, heard=kill))
"""
"""Program of an exam that is killed after its 21st reply."""


def test_killed_exam_keeps_its_replies_until_one_ends(tmp_path: Path, commands: Path) -> None:
    with LoopbackJudge(Judge()) as loopback:
        killed = subprocess.run([commands / "forked", "-c", KILLED, tmp_path, loopback.base_url], check=False)
        assert killed.returncode == 128 + signal.SIGKILL
        judge = Settings(model="m", base_url=loopback.base_url)  # pyright: ignore
        assert asyncio.run(take_exam(tmp_path, judge, 1, "q", no_secret)).calls == CALLS - 21
        assert [path.name for path in (tmp_path / PASSPORTS / "q").iterdir()] == [CARD]
        (tmp_path / PASSPORTS / "p" / STOPPED).rename(tmp_path / PASSPORTS / "q" / STOPPED)
        assert asyncio.run(take_exam(tmp_path, judge, 1, "r", no_secret)).calls == CALLS, "an ended exam lends nothing"


def test_failed_exam_exits_3_and_prints_the_consequences(jury: Jury, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with LoopbackJudge(Judge(sees=1)) as loopback:
        code, out, err = jury("judge", "exam", *judged_by(loopback)[:4])
    assert code == 3
    assert f"{CALLS}/{CALLS}" in err and "questions" in err and "questions" not in out, "a terminal gets a progress bar"
    words = " ".join(out.split())
    assert "✗ FAILED: sees two pictures" in words and "For diagram, plot: one figure of a pair is not seen." in words
    failed = {row["line"] for row in ask("SELECT line FROM passports WHERE state = 'failed'")}
    assert failed == {"two_pictures", "which_is_first", "faint"}


def test_embedded_judge_has_no_exam(jury: Jury, tmp_path: Path) -> None:
    code, _, err = jury("judge", "exam")
    assert code == 2 and "the embedded judge measures pixels and has no exam: name a model with --judge.model" in err
    assert not (tmp_path / "store").exists()


# Stored cards


def test_unreachable_judge_is_reported_and_gets_no_card(jury: Jury, tmp_path: Path) -> None:
    code, _, err = jury("judge", "exam", "--judge.model", "m", "--judge.base-url", "http://127.0.0.1:9/v1")
    assert code == 2 and "cannot be reached" in err
    assert passport_folders(tmp_path / "store") == []


# Warnings of runs


def store_card(store: Path, changes: dict[str, Any], **states: str) -> Card:
    """Store a card; all lines passed except those with a state in `states`."""
    items = items_of(1)
    made = card_lines(items, replies(items))
    lines = [line.model_copy(update={"state": states.get(line.line, line.state)}) for line in made]
    about = {"passport_id": "20261101T000000000-passport-000001", "judge": "m", "endpoint": "http://127.0.0.1:9/v1"}
    more = {"judge_answered": "m-1", "edition": "1", "seed": 1, "calls": 84, "seconds": 5.0, "lines": lines}
    times = {"finished_at": "2026-11-01T00:00:00+00:00"}
    card = Card.model_validate({**about, **more, **times, **changes})
    keep_exam(store, card.passport_id, card)
    assert read_card(store / "passports" / card.passport_id) == card
    return card


def test_card_reaches_another_machine(tmp_path: Path) -> None:
    card = store_card(tmp_path / "one", {})
    for machine in ("one", "two"):
        Remote(f"file://{tmp_path}/bucket", tmp_path / machine).share_folder(PASSPORTS)
    assert newest_card(tmp_path / "two", "m", card.endpoint) == card


def test_damaged_card_is_skipped_and_others_are_loaded(tmp_path: Path) -> None:
    first, second = (store_card(tmp_path, {"passport_id": f"20261101T000000000-passport-00000{n}"}) for n in (1, 2))
    place = tmp_path / "passports" / second.passport_id / CARD
    place.write_bytes(place.read_bytes().replace(b'"passed"', b'"pasted"', 1))
    done = land(tmp_path)
    assert done.besides == {"passports": (first.passport_id,)} and "damaged: lines.0.state" in done.left_out[0]
    assert newest_card(tmp_path, "m", first.endpoint) == first
    assert not land(tmp_path).besides


JUDGE = Settings(model="m", base_url="http://127.0.0.1:9/v1", api_key_env="MY_KEY")
NOW = datetime(2026, 11, 22, tzinfo=UTC)
COMMAND = "`jury judge exam --judge.model m --judge.base-url http://127.0.0.1:9/v1 --judge.api-key-env MY_KEY`"


def test_judge_without_passport_gets_a_warning_with_the_command(tmp_path: Path) -> None:
    message = warning(tmp_path, "diagram", JUDGE, now=NOW)
    assert message.startswith("nobody has tested what the judge m sees") and COMMAND in message
    store_card(tmp_path, {"judge": "another"})
    assert warning(tmp_path, "diagram", JUDGE, now=NOW) == message
    assert "--store s3://b/p`" in warning(tmp_path, "diagram", JUDGE, "s3://b/p", now=NOW)


def test_passport_of_another_model_or_older_than_30_days_gets_a_warning(tmp_path: Path) -> None:
    store_card(tmp_path, {})
    assert warning(tmp_path, "diagram", JUDGE, now=NOW, answered={"m-1"}) == ""
    message = warning(tmp_path, "diagram", JUDGE, now=NOW, answered={"m-1", "m-2"})
    assert message.startswith("m-2 answers as the judge m, whose passport of 2026-11-01 is that of m-1: `jury judge ex")
    assert warning(tmp_path, "diagram", JUDGE, now=NOW + timedelta(days=9)) == ""
    message = warning(tmp_path, "diagram", JUDGE, now=NOW + timedelta(days=10))
    assert "is 31 days old" in message and COMMAND in message


def test_failed_line_gives_a_warning_in_flows_that_need_it(tmp_path: Path) -> None:
    store_card(tmp_path, {}, text="failed", counting="not measured", yes_no="failed")
    flows = ("diagram", "plot", "counting", "colors", "facts")
    messages = {flow: warning(tmp_path, flow, JUDGE, now=NOW) for flow in flows}
    assert "(reads small text)" in messages["diagram"] and messages["diagram"] == messages["plot"]
    assert "(counts objects)" in messages["counting"] and COMMAND in messages["counting"]
    assert messages["colors"] == "" and "(counts objects, tells yes from no)" in messages["facts"]


@pytest.mark.usefixtures("prefect_server")
def test_run_warns_of_a_card_of_another_model_and_the_card_can_be_queried(jury: Jury, ask: Ask, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with LoopbackJudge() as loopback:
        store_card(store, {"endpoint": loopback.base_url, "finished_at": datetime.now(UTC).isoformat()})
        _, _, err = jury("run", "diagram", "--dataset", "samples", "--limit", 1, *judged_by(loopback))
    assert " is that of m-1: `jury judge exam" in err
    assert "is that of m-1" in str(ask("SELECT warnings FROM runs"))
    assert jury("store", "sync") == (0, "the history is in step with the ledgers\n", "")
    assert ask("SELECT DISTINCT passport_id FROM passports") == [{"passport_id": "20261101T000000000-passport-000001"}]
