"""Passports are copied between a store and its bucket, once, and by machines that never made any."""

from pathlib import Path

import pytest
from passport_judges import Judge, Key, card_of

from tasks.ledger.bucket import Bucket
from tasks.ledger.passport_exchange import exchange_passports
from tasks.ledger.passports import CARD, passport_folders, read_card


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("made")
    card_of(Judge(Key()), 1, store)
    return store


def test_a_card_travels_to_the_other_machines_and_only_once(made: Path, tmp_path: Path) -> None:
    bucket, other = Bucket(f"file://{tmp_path}/bucket"), tmp_path / "other"
    [own] = passport_folders(made)
    assert exchange_passports(bucket, made) == ([own.name], [])
    assert exchange_passports(bucket, other) == ([], [own.name])
    assert exchange_passports(bucket, other) == exchange_passports(bucket, made) == ([], [])
    [copy] = passport_folders(other)
    assert read_card(copy) == read_card(own)
    assert {file.name: file.read_bytes() for file in copy.iterdir()} == {
        file.name: file.read_bytes() for file in own.iterdir()
    }


def test_an_unfinished_passport_stays_and_a_name_that_is_none_is_left(made: Path, tmp_path: Path) -> None:
    bucket, store = Bucket(f"file://{tmp_path}/bucket"), tmp_path / "store"
    unfinished = store / "passports" / "20261122T090000000-passport-00000a"
    unfinished.mkdir(parents=True)
    (unfinished / "replies.jsonl").write_bytes(b"")
    bucket.put({f"passports/not one/{CARD}": b"{}", f"passports/20261122T090000000-passport-00000b/{CARD}x": b"{}"})
    assert exchange_passports(bucket, store) == ([], [])
