"""A month that runs share: what each may claim of it, and what becomes of the claim of one that was killed."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from factories import end, judgment, other_call, start, write_run

from tasks.errors import InputError
from tasks.ledger.other_calls import OTHER_CALLS
from tasks.records import Judgment
from tasks.spending import reservations
from tasks.spending.reservations import Month, month_of
from tasks.spending.shelves import LocalShelf

ROOT = Path(__file__).parents[1]
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
Share = Callable[..., Month]


@pytest.fixture
def share(tmp_path: Path) -> Share:
    """The share of a run in a November with a budget of 10."""

    def made(run_id: str, month: str = "2026-11") -> Month:
        return Month(tmp_path, LocalShelf(tmp_path), month, 10.0, run_id)

    return made


def ran(store: Path, run_id: str, *rows: Judgment, finished: bool = True) -> None:
    write_run(store, start(run_id), [*rows], end(run_id) if finished else None)


def priced(price: float | None, at: datetime = NOW, **changes: Any) -> Judgment:
    return judgment(price=price, judged_at=at.isoformat(), **changes)


def test_a_run_gets_what_others_leave_and_gives_back_what_it_does_not_use(share: Share) -> None:
    one, other = share("one"), share("other")
    assert one.claim(6.0) and not other.claim(5.0) and other.claim(4.0)
    one.renew(3.0)
    assert other.claim(7.0) and not other.claim(7.5) and not one.claim(3.1)
    other.close(5.0)
    assert one.claim(5.0) and not one.claim(5.1)


def test_a_run_claims_ahead_as_far_as_there_is_room(share: Share) -> None:
    one, other = share("one"), share("other")
    assert one.claim(6.0, wanted=3.0) and not other.claim(1.5) and other.claim(1.0)
    assert not share("third").claim(0.5)


def test_what_is_claimed_for_a_run_that_waits_stands_until_it_is_settled(
    tmp_path: Path, share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, now = share("one"), reservations.time.time()
    assert one.claim(6.0)
    one.keep(5.0)
    one.renew(0.0)
    monkeypatch.setattr(reservations.time, "time", lambda: now + 10 * reservations.LEASE_SECONDS)
    assert not share("other").claim(5.5) and share("other").claim(5.0)
    again = Month(tmp_path, LocalShelf(tmp_path), "2026-11", 10.0, "one", waited=True)
    assert again.claim(5.0) and not again.claim(5.5)
    again.keep(2.0)
    assert share("third").claim(3.0) and not share("third").claim(3.5)


def test_what_ledgers_tell_of_the_month_is_spent(tmp_path: Path, share: Share) -> None:
    october = NOW.replace(month=10)
    ran(tmp_path, "20261001-old", priced(2.0, october), priced(1.5))
    ran(tmp_path, "20261110-more", priced(0.25, estimated=0.25), priced(9.0, reused_from="20261001-old"))
    ran(tmp_path, "20261111-unknown", priced(None))
    month = share("now")
    assert month.claim(8.0) and not month.claim(8.01) and month.unknown == 1
    assert not share("now too", "2026-10").claim(8.01)


def test_a_ledger_is_read_once_and_not_again_once_its_run_has_told_what_it_spent(
    tmp_path: Path, share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(tmp_path, "20261110-one", priced(4.0))
    share("20261110-one").close(4.0)
    monkeypatch.setattr(reservations, "read_judgments", None)
    assert not share("now").claim(6.1) and share("now").claim(6.0)


def test_calls_that_judge_no_sample_count_and_those_of_a_passport_once(tmp_path: Path, share: Share) -> None:
    OTHER_CALLS.keep(tmp_path, [other_call("20261120T12-probe-a", price=1.0), other_call("20261120T12-probe-a")])
    passport = {"purpose": "passport", "asked_by": "p", "price": 2.0}
    OTHER_CALLS.keep(tmp_path, [other_call("20261120T13-passport-b", **passport)])
    OTHER_CALLS.keep(tmp_path, [other_call("20261020T13-old", price=9.0, asked_at="2026-10-20T12:00:00+00:00")])
    OTHER_CALLS.keep(tmp_path, [other_call("20261120T14-unknown", price=None)])
    month = share("now")
    assert month.left() == pytest.approx(10 - 3.001) and month.unknown == 1
    assert month.standing() == (pytest.approx(3.001), 0.0, 0, 1)
    share("p").close(2.5)  # with what is not written down yet
    assert month.claim(1.0) and share("later").left() == pytest.approx(10 - 3.501 - 1.0)
    assert share("later").standing() == (pytest.approx(3.501), 1.0, 1, 1)


KILLED = """if True:
    import os, signal, sys
    from pathlib import Path
    from tasks.spending import reservations
    from tasks.spending.shelves import LocalShelf
    reservations.LEASE_SECONDS = float(sys.argv[2])
    store = Path(sys.argv[1])
    assert reservations.Month(store, LocalShelf(store), "2026-11", 10.0, "20261119-killed").claim(7.0)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("lease", "left"), [(600.0, 3.0), (-1.0, 8.5)])
def test_the_claim_of_a_killed_run_expires_and_then_counts_what_its_ledger_says(
    tmp_path: Path, share: Share, lease: float, left: float
) -> None:
    asked = share("20261120-now")
    ran(tmp_path, "20261119-killed", priced(1.5), finished=False)
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(lease)]
    assert subprocess.run(command, cwd=ROOT).returncode == -9
    for month in (asked, share("20261120-later")):
        assert not month.claim(left + 0.1) and month.claim(left)
        month.close(0.0)


def test_what_a_killed_run_spent_after_another_began_counts_for_that_one_too(
    tmp_path: Path, share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert share("20261119-killed").claim(7.0)
    ran(tmp_path, "20261119-killed", priced(1.5), finished=False)
    asked = share("20261120-now")
    ran(tmp_path / "later", "20261119-killed", priced(1.5), priced(4.0), finished=False)
    rows = "ledger/20261119-killed/judgments.jsonl"
    (tmp_path / "later" / rows).rename(tmp_path / rows)
    now = reservations.time.time()
    monkeypatch.setattr(reservations.time, "time", lambda: now + 2 * reservations.LEASE_SECONDS)
    assert not asked.claim(4.6) and asked.claim(4.5)


CLAIMING = """if True:
    import sys
    from pathlib import Path
    from tasks.spending.reservations import Month
    from tasks.spending.shelves import LocalShelf
    store, name = Path(sys.argv[1]), sys.argv[2]
    month, total = Month(store, LocalShelf(store), "2026-11", 10.0, name), 0.0
    print("ready", flush=True)
    sys.stdin.readline()
    while month.claim(total + 0.07):
        total += 0.07
    print(total)
"""


def test_two_processes_that_claim_at_once_never_get_more_than_there_is(tmp_path: Path) -> None:
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIMING, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for name in ("one", "other")
    ]
    for each in begun:
        assert each.stdout and each.stdout.readline() == "ready\n"
    for each in begun:
        assert each.stdin
        print(file=each.stdin, flush=True)
    got = [float(each.communicate(timeout=60)[0]) for each in begun]
    assert 10.0 - 0.07 <= sum(got) <= 10.0 + 1e-6


def test_the_month_is_that_of_utc() -> None:
    assert month_of(datetime.fromisoformat("2026-12-01T00:30:00+01:00")) == "2026-11"


@pytest.mark.parametrize("junk", [b"junk", b"[]", b'{"one": {"amount": "x", "until": 1}}'])
def test_a_damaged_file_is_told_with_what_to_do(tmp_path: Path, share: Share, junk: bytes) -> None:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "2026-11.json").write_bytes(junk)
    with pytest.raises(InputError, match=r"budget/2026-11\.json of the store is damaged: remove it"):
        share("one")
