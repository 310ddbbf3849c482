"""Stores of others, and of bad disks: what is in them is believed as far as it proves itself, and the rest is told."""

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from factories import RUN, end, judgment, line, outcome, start, write_run
from written_history import ask, whole_run

from tasks.history.loading import Synced, pending, sync
from tasks.kinds import kind_of
from tasks.ledger.reading import END, JUDGMENTS, OUTCOMES
from tasks.ledger.reading import RUN as START
from tasks.ledger.reuse import Replies, earlier_replies
from tasks.records import SCHEMA, Judgment

OTHER = "20261121T120000-diagram-0000aa"
JUNK = b"\xff\x00junk" * 1_500_000
LEDGERS = Path(__file__).parent / "ledgers"
NEWEST = b'"schema":%d' % SCHEMA

Damage = Callable[[Path], object]


def flip(path: Path, old: bytes, new: bytes) -> None:
    """Change the first of these words, as a bit on a bad disk does."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


def tear(path: Path) -> None:
    """Lose the end of the first line."""
    first, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(first[:-50] + rest)


def replace(path: Path, made: Callable[[Path], object]) -> None:
    path.unlink()
    made(path)


def take_from_other(name: str) -> Damage:
    return lambda run: shutil.copy(run.parent / OTHER / name, run / name)


def lead_elsewhere(run: Path) -> None:
    run.rename(run.parents[1] / "elsewhere")
    run.symlink_to(run.parents[1] / "elsewhere")


def reseal(path: Path, **changes: Any) -> None:
    """Forge the first row, as one who knows how rows are sealed."""
    first, rest = path.read_text().split("\n", 1)
    path.write_text(line({**json.loads(first), **changes}) + rest)


def drop_last(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


DAMAGED: dict[str, tuple[Damage, str]] = {
    "a bit of a verdict": (lambda run: flip(run / JUDGMENTS, b'"Model"', b'"Nodel"'), "line 1: damaged"),
    "a bit of a status": (lambda run: flip(run / JUDGMENTS, b'"ok"', b'"oj"'), "line 1: damaged"),
    "a bit of a score": (lambda run: flip(run / OUTCOMES, b"100.0", b"000.0"), "line 1: damaged"),
    "a digit that leaves an outcome valid": (lambda run: flip(run / OUTCOMES, b"100.0", b"900.0"), "checksum"),
    "a schema that has no checksum": (lambda run: flip(run / JUDGMENTS, NEWEST, b'"schema":3'), "checksum"),
    "no checksum": (lambda run: (run / JUDGMENTS).write_text(judgment().model_dump_json() + "\n"), "checksum"),
    "a bit of the end": (lambda run: flip(run / END, b'"ok": 12', b'"ok": 13'), "checksum"),
    "a bit of the start": (lambda run: flip(run / START, b'"samples"', b'"ramples"'), "checksum"),
    "a torn line": (lambda run: tear(run / JUDGMENTS), "line 1: damaged"),
    "emptied judgments": (
        lambda run: (run / JUDGMENTS).write_bytes(b""),
        "damaged: 4 of the 4 rows that end.json tells of",
    ),
    "no judgments": (lambda run: (run / JUDGMENTS).unlink(), "damaged: 4 of the 4 rows that end.json tells of"),
    "a judgment less": (lambda run: drop_last(run / JUDGMENTS), "damaged: 1 of the 4 rows that end.json tells of"),
    "emptied outcomes": (
        lambda run: (run / OUTCOMES).write_bytes(b""),
        "damaged: 1 of the 1 rows that end.json tells of",
    ),
    "the start of another run": (take_from_other(START), f"of the run '{OTHER}'"),
    "the end of another run": (take_from_other(END), f"of the run '{OTHER}'"),
    "judgments of another run": (take_from_other(JUDGMENTS), f"of the run '{OTHER}'"),
    "outcomes of another run": (take_from_other(OUTCOMES), f"of the run '{OTHER}'"),
    "a check of another form": (lambda run: reseal(run / JUDGMENTS, seen="a dog"), "judgments.jsonl"),
    "a check of other objects": (lambda run: reseal(run / JUDGMENTS, seen={"objects": ["dog"]}), "judgments.jsonl"),
    "a pipe for a start": (lambda run: replace(run / START, os.mkfifo), "no regular file"),
    "a pipe for judgments": (lambda run: replace(run / JUDGMENTS, os.mkfifo), "no regular file"),
    "a pipe for an end": (lambda run: replace(run / END, os.mkfifo), "no regular file"),
    "a link for judgments": (lambda run: replace(run / JUDGMENTS, lambda to: to.symlink_to("/etc/passwd")), "a link"),
    "a link to nothing": (lambda run: replace(run / OUTCOMES, lambda to: to.symlink_to("nowhere")), "a link"),
    "a link for a start": (lambda run: replace(run / START, lambda to: to.symlink_to("/etc/passwd")), "a link"),
    "a link for the folder": (lead_elsewhere, "it is a link"),
    "a folder for an end": (lambda run: replace(run / END, os.mkdir), "no regular file"),
    "junk for judgments": (lambda run: (run / JUDGMENTS).write_bytes(JUNK), "damaged"),
    "junk in a row": (lambda run: (run / JUDGMENTS).write_bytes(JUNK + b"\n"), "line 1: damaged"),
    "junk for a start": (lambda run: (run / START).write_bytes(JUNK), "damaged"),
    "junk for an end": (lambda run: (run / END).write_bytes(JUNK), "damaged"),
    "a row that has no end": (lambda run: os.truncate(run / JUDGMENTS, 1 << 34), "damaged"),
    "a start that has no end": (lambda run: os.truncate(run / START, 1 << 34), "more than"),
}
"""What can be wrong with a ledger -> how it comes to be so, and what is said of it."""


@pytest.mark.parametrize(("damage", "said"), DAMAGED.values(), ids=DAMAGED)
@pytest.mark.usefixtures("laid_out")
def test_a_ledger_that_is_not_to_be_believed_is_left_out_and_told(tmp_path: Path, damage: Damage, said: str) -> None:
    run = whole_run(tmp_path)
    whole_run(tmp_path, OTHER)
    damage(run)
    done = sync(tmp_path)
    assert done.loaded == (OTHER,)
    [sentence] = done.left_out
    assert sentence.startswith(f"The ledger {run} was left out: ") and said in sentence and "\n" not in sentence
    assert ask(tmp_path, "SELECT DISTINCT run_id FROM runs UNION SELECT run_id FROM judgments") == [(OTHER,)]
    assert ask(tmp_path, "SELECT count(*) FROM outcomes") == [(1,)]
    if (run / END).is_file():
        assert pending(tmp_path) == [RUN], "the commands that ask the history tell of it"


@pytest.mark.usefixtures("laid_out")
def test_a_copy_of_a_run_under_another_name_replaces_nothing(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    sync(tmp_path)
    forged = tmp_path / "ledger" / "20261129T120000-diagram-ffffff"
    shutil.copytree(run, forged)
    (forged / OUTCOMES).write_text(line(outcome(overall="Human", verdicts="HHHH")))
    done = sync(tmp_path)
    assert done.loaded == () and len(done.left_out) == 1
    assert ask(tmp_path, "SELECT run_id, overall FROM outcomes") == [(RUN, "Model")]


@pytest.mark.parametrize("schema", ["1", "2", "3", "4"])
@pytest.mark.usefixtures("laid_out")
def test_rows_of_every_schema_are_believed_until_a_bit_is_flipped(tmp_path: Path, schema: str) -> None:
    shutil.copytree(LEDGERS / schema, tmp_path / "ledger")
    [run] = (tmp_path / "ledger").iterdir()
    assert sync(tmp_path) == Synced((run.name,), ())
    flip(run / JUDGMENTS, *((b'"score":9.0', b'"score":8.0') if schema == "2" else (b'"verdict":"M', b'"verdict":"H')))
    [sentence] = sync(tmp_path, rebuild=True).left_out
    assert "checksum does not hold" in sentence or "read again, does not say what the row says" in sentence


# Replies of others


def replies(store: Path) -> Replies:
    now = start("20991231T000000-diagram-new", started_at=datetime.now(UTC).isoformat())
    return earlier_replies(store, now, 1e6, kind_of("diagram").confirms)


def asked(number: int) -> Judgment:
    return judgment(f"s{number}", key=f"k{number}")


@pytest.fixture
def replied(tmp_path: Path) -> Path:
    """A finished run that could lend four replies."""
    return write_run(tmp_path, start(), [asked(number) for number in range(4)], end())


def found(store: Path) -> tuple[list[int], Replies]:
    there = replies(store)
    return [number for number in range(4) if there.find(f"k{number}")], there


LENT: dict[str, tuple[Damage, list[int], int]] = {
    "nothing": (lambda run: None, [0, 1, 2, 3], 0),
    "a bit of a verdict": (lambda run: flip(run / JUDGMENTS, b'"Model"', b'"Nodel"'), [1, 2, 3], 1),
    "a bit of a reply": (lambda run: flip(run / JUDGMENTS, b"winner", b"vinner"), [1, 2, 3], 1),
    "a bit of a key": (lambda run: flip(run / JUDGMENTS, b'"k0"', b'"k9"'), [1, 2, 3], 1),
    "a bit of a status": (lambda run: flip(run / JUDGMENTS, b'"ok"', b'"oj"'), [1, 2, 3], 1),
    "a torn line takes the next with it": (lambda run: tear(run / JUDGMENTS), [2, 3], 2),
    "the last row": (lambda run: drop_last(run / JUDGMENTS), [0, 1, 2], 1),
    "all rows": (lambda run: (run / JUDGMENTS).write_bytes(b""), [], 4),
    "a pipe in its place": (lambda run: replace(run / JUDGMENTS, os.mkfifo), [], 1),
    "a link in its place": (lambda run: replace(run / JUDGMENTS, lambda to: to.symlink_to("/etc/passwd")), [], 1),
    "junk before a row": (
        lambda run: (run / JUDGMENTS).write_bytes(JUNK + (run / JUDGMENTS).read_bytes()),
        [1, 2, 3],
        1,
    ),
}
"""What a ledger has lost -> how, which replies it lends still, and how many rows are told of."""


@pytest.mark.parametrize(("damage", "lent", "told"), LENT.values(), ids=LENT)
def test_what_is_damaged_is_asked_anew_and_told(replied: Path, damage: Damage, lent: list[int], told: int) -> None:
    damage(replied)
    numbers, there = found(replied.parents[1])
    assert (numbers, there.unreadable) == (lent, told)
    assert (str(replied / JUDGMENTS) in there.first_unreadable) == bool(told)


def test_rows_under_the_name_of_another_run_lend_nothing(replied: Path) -> None:
    shutil.copytree(replied, replied.parent / OTHER)
    shutil.rmtree(replied)
    assert found(replied.parents[1])[0] == []


def old_row(**changes: Any) -> str:
    """A row of schema 3, which has no checksum."""
    row = json.loads(asked(0).model_dump_json()) | {"schema": 3} | changes
    return json.dumps(row, separators=(",", ":")) + "\n"


@pytest.mark.parametrize(
    ("changes", "lends"),
    [
        ({}, [0]),
        ({"verdict": "Human"}, []),
        ({"verdict": "Iuman"}, []),
        ({"raw": '{"winner": "Human"}'}, []),
        ({"raw": '{"winner": "Iodel"}'}, []),
        ({"raw": ""}, []),
        ({"raw": '```json\n{"winner": "Model"}\n```'}, [0]),
    ],
)
def test_a_row_without_a_checksum_is_reused_where_its_reply_says_the_same(
    replied: Path, changes: dict[str, Any], lends: list[int]
) -> None:
    (replied / JUDGMENTS).write_text(old_row(**changes))
    (replied / END).unlink()
    numbers, there = found(replied.parents[1])
    assert (numbers, there.unreadable) == (lends, int(not lends))
