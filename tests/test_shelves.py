"""Small files that several runs change at once: none of their changes is lost, in a folder or in a bucket."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_remote import S3Server, server, url  # noqa: F401

from tasks.batches.checks import check_batch
from tasks.errors import InputError
from tasks.ledger.bucket import Bucket
from tasks.parameters import Judge, PairwiseParameters
from tasks.spending.reservations import Month
from tasks.spending.shelves import BucketShelf, LocalShelf


def test_a_file_in_a_folder_is_its_users_alone(tmp_path: Path) -> None:
    shelf = LocalShelf(tmp_path)
    assert shelf.read("budget/2026-11.json") is None
    shelf.change("budget/2026-11.json", lambda data: (data or b"") + b"1")
    shelf.change("budget/2026-11.json", lambda _: None)
    assert shelf.read("budget/2026-11.json") == b"1"
    assert stat.S_IMODE((tmp_path / "budget/2026-11.json").stat().st_mode) == 0o600


def test_what_a_stranger_put_into_the_store_is_not_followed(tmp_path: Path) -> None:
    shelf, outside = LocalShelf(tmp_path / "store"), tmp_path / "outside"
    outside.mkdir()
    (outside / "a.json").write_text("{}")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "linked").symlink_to(outside)
    with pytest.raises(InputError, match="linked: refused: it is a link"):
        shelf.change("linked/a.json", lambda _: b"changed")
    assert (outside / "a.json").read_text() == "{}"
    (tmp_path / "store" / "budget").mkdir()
    os.mkfifo(tmp_path / "store" / "budget" / "a.json")
    with pytest.raises(InputError, match="no regular file"):
        shelf.read("budget/a.json")


def test_a_change_in_a_bucket_is_made_again_where_another_came_before_it(url: str) -> None:  # noqa: F811
    one, other = BucketShelf(Bucket(url)), BucketShelf(Bucket(url))
    seen: list[bytes | None] = []

    def edit(data: bytes | None) -> bytes:
        seen.append(data)
        if len(seen) < 3:
            other.change("budget/a.json", lambda found: (found or b"") + b"o")
        return (data or b"") + b"1"

    one.change("budget/a.json", edit)
    assert seen == [None, b"o", b"oo"] and other.read("budget/a.json") == b"oo1"


def test_runs_share_a_month_in_a_bucket(tmp_path: Path, url: str) -> None:  # noqa: F811
    shares = [Month(tmp_path / name, BucketShelf(Bucket(url)), "2026-11", 10.0, name) for name in ("one", "other")]
    assert shares[0].claim(6.0) and not shares[1].claim(5.0) and shares[1].claim(4.0)


def test_a_bucket_that_heeds_no_conditions_is_refused(
    server: S3Server,  # noqa: F811
    url: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app: Callable[..., Any] = server._app

    def heedless(environ: dict[str, Any], respond: Callable[..., Any]) -> Any:
        return app({name: value for name, value in environ.items() if name != "HTTP_IF_NONE_MATCH"}, respond)

    monkeypatch.setattr(server, "_app", heedless)
    with pytest.raises(InputError, match=r"this server ignores them.* Unset JURY_BUDGET_MONTH"):
        BucketShelf(Bucket(url))
    judge = Judge(model="m", base_url="https://judge.example/v1", tier="batch")
    with pytest.raises(InputError, match=r"this server ignores them: two could take it in at once. Give a folder"):
        check_batch(PairwiseParameters(judge=judge, store=url))


def test_a_remote_store_that_is_no_bucket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="conditional puts, which only s3:// has"):
        BucketShelf(Bucket(f"file://{tmp_path}"))
