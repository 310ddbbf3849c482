"""The server of a store's pages: access to pages, and protection from foreign requests."""

import html
import http.client
import json
import platform
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from factories import RUN, end, judgment, outcome, start, write_run
from served import free_port

from flows.server.pages import serving_pages
from flows.server.server import sign_in_header
from tasks.history.landing import land
from tasks.ledger.run_files import Ledger
from tasks.pages.page import HEAD_BYTES, policy_of
from tasks.pages.page_names import NOTE, page_of, where
from tasks.pages.site import renew

INDEX = b"<!doctype html>the index" + bytes(600_000)
SIGNED = "jury:not-a-secret"
PICTURE = "0123456789abcdef.jpg"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("served") / "store"
    (store / "pages").mkdir(parents=True)
    (store / "history.html").write_text("a file of the store")
    files = {"index.html": INDEX, "run.html": b"a run", "notes.txt": b"no page", ".hidden.html": b"a draft"}
    for name, data in files.items():
        (store / "pages" / name).write_bytes(data)
    (store / "pages" / "link.html").symlink_to(store / "history.html")
    (store / "pages" / "folder.html").mkdir()
    for folder in (store / "pages" / "run.files", store / "elsewhere"):
        folder.mkdir()
        (folder / PICTURE).write_bytes(b"a picture")
    (store / "pages" / "link.files").symlink_to(store / "elsewhere")
    return store


@pytest.fixture(scope="module")
def address(store: Path) -> Iterator[str]:
    with serving_pages(store, free_port(), "") as address:
        yield address


def send_request(address: str, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Send the path unchanged; return status, body and headers."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.putrequest(method, path, skip_host="Host" in named)
    for name, value in named.items():
        connection.putheader(name, value)
    connection.endheaders()
    reply = connection.getresponse()
    found = reply.status, reply.read(), {name.lower(): value for name, value in reply.getheaders()}
    connection.close()
    return found


def test_server_returns_whole_pages_and_refuses_other_methods(address: str) -> None:
    status, body, headers = send_request(address, "/")
    assert (status, body) == (200, INDEX) and send_request(address, "/index.html")[1] == INDEX
    assert headers["referrer-policy"] == "same-origin", "without this header a browser sends the form with no origin"
    assert headers["content-type"] == "text/html; charset=utf-8" and headers["x-content-type-options"] == "nosniff"
    assert send_request(address, "/run.html?a=b")[:2] == (200, b"a run")
    status, body, headers = send_request(address, f"/run.files/{PICTURE}")
    assert (status, body, headers["content-type"]) == (200, b"a picture", "image/jpeg")
    status, body, headers = send_request(address, "/", "HEAD")
    assert (status, body, headers["content-length"]) == (200, b"", str(len(INDEX)))
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        status, _, headers = send_request(address, "/", method)
        assert (status, headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path",
    [
        "/none.html", "/notes.txt", "/.hidden.html", f"/{NOTE}", "/link.html", "/folder.html", "/run", "//run.html",
        "/../history.html", "/%2e%2e/history.html", "/..%2fhistory.html", "/pages/run.html", "/run.html%00",
        "/\\run.html",
    ],
)  # fmt: skip
def test_paths_other_than_pages_are_not_found(address: str, path: str) -> None:
    status, body, _ = send_request(address, path)
    assert status == 404 and b"no such page" in body


def test_foreign_hosts_and_origins_are_forbidden(address: str) -> None:
    assert send_request(address, "/", Host="evil.example")[0] == 403
    assert send_request(address, "/", Origin="http://evil.example")[0] == 403
    assert send_request(address, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="iframe")[0] == 403
    assert send_request(address, "/", Origin="http://127.0.0.1:4200")[0] == 403, "not even Prefect's pages"
    assert send_request(address, "/", Sec_Fetch_Site="same-site", Sec_Fetch_Dest="document")[0] == 200, "artifact link"


def test_index_shows_progress_of_unfinished_runs(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    run_id, later = (f"{now + timedelta(seconds=second):%Y%m%dT%H%M%S}-diagram-0000aa" for second in (0, 1))
    begun = {"started_at": now.isoformat(), "candidates": ("<i>alpha",), "parameters": {"judge": "another program's"}}
    ledger = Ledger(tmp_path, start(run_id, **begun))
    ledger.append(judgment())
    ledger.note_progress("24/40 calls · 3/10 samples · 12 s left")
    with serving_pages(tmp_path, free_port(), "") as address:
        status, body, _ = send_request(address, "/")
        assert status == 404 and "diagram: At work: 24/40 calls · 3/10 samples · 12 s left" in body.decode()
        write_run(tmp_path, start(), [outcome()], end())
        land(tmp_path)
        renew(tmp_path)
        ledger.note_progress("26/40 calls · 4/10 samples · 11 s left")

        def unfinished() -> list[str]:
            return re.findall(r'<p class="(.*? UTC): (.*?)</p>', send_request(address, "/")[1].decode())

        when = f"diagram of &lt;i&gt;alpha, begun {now:%Y-%m-%d %H:%M} UTC"
        assert unfinished() == [(f'quiet">{when}', "At work: 26/40 calls · 4/10 samples · 11 s left")]
        ledger.close()
        [(name, words)] = unfinished()
        assert name == f'red">{when}' and words.startswith("Killed or interrupted (26/40 calls · 4/10 samples). All")
        write_run(tmp_path, start(later, **begun), [outcome()], end(later))
        assert unfinished() == [], "the later run resumed it"


def post_form(address: str, form: str, **headers: str) -> tuple[int, str]:
    """Send the form of the index; return the status, and the redirect address or the message."""
    named = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    connection.request("POST", "/compare", form, named)
    reply = connection.getresponse()
    words = reply.read().decode()
    connection.close()
    return reply.status, reply.getheader("location") or words


def test_pages_need_the_sign_in_text_and_their_form_comes_from_them_alone(tmp_path: Path) -> None:
    later = RUN.replace("20", "21", 1)
    for run_id, moment in ((RUN, "2026-11-20T12:00:00+00:00"), (later, "2026-11-21T12:00:00+00:00")):
        write_run(tmp_path, start(run_id, started_at=moment), [outcome()], end(run_id))
    with serving_pages(tmp_path, free_port(), SIGNED) as address:
        signed = sign_in_header(SIGNED)
        form = f"before={RUN}&after={later}&before_candidate=&after_candidate=alpha"
        status, words = post_form(address, form, **signed)
        assert status == 400 and "holds no history yet" in words
        land(tmp_path)
        status, place = post_form(address, form, **signed, Origin=address)
        assert status == 303 and b"changed 0" in send_request(address, place, **signed)[1]
        status, body, headers = send_request(address, place)
        assert (status, headers["www-authenticate"]) == (401, 'Basic realm="jury"') and b"changed" not in body
        assert send_request(address, place, **sign_in_header("jury:another"))[0] == 401
        for other in ("http://evil.example", "http://127.0.0.1:4200", "null"):
            assert post_form(address, form, **signed, Origin=other)[0] == 403
        assert post_form(address, form, **signed, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert post_form(address, form)[0] == 401
        for wrong, message in (
            ("", "several"), (f"before={RUN}&after={RUN}", "would be compared with itself"),
            (f"before=x&after={later}", "no run is called 'x'"), ("a" * 5000, "longer than 4,096 bytes"),
            ("a=1&a=1&a=1&a=1&a=1", "the form is damaged"), ("a=%ff", "the form is damaged"),
            (f"before=../..&after={later}", "no run is called '../..'"),
        ):  # fmt: skip
            status, words = post_form(address, wrong, **signed)
            assert (status, message in words) == (400, True), words
    assert [file.name for file in (tmp_path / "pages").iterdir()] == [place[1:]]


def test_linked_pages_folder_is_not_followed(store: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "pages").symlink_to(store / "pages")
    with serving_pages(tmp_path / "other", free_port(), "") as address:
        assert send_request(address, "/")[0] == 404


NOTHING = "default-src 'none'; frame-ancestors 'none'"
OWN = (
    f"default-src 'none'; img-src data:; style-src 'sha256-{'a' * 43}='; script-src 'sha256-{'b' * 43}='; "
    "base-uri 'none'; form-action 'none'"
)
BESIDE = OWN.replace("img-src data:", "img-src data: 'self'")
META = '<!doctype html><meta http-equiv="Content-Security-Policy" content="{}">'


@pytest.mark.parametrize(
    ("page", "policy"),
    [
        (META.format(OWN), f"{OWN}; frame-ancestors 'none'"),
        (META.format(OWN.replace("form-action 'none'", "form-action *")), NOTHING),
        (META.format(html.escape(OWN)), f"{OWN}; frame-ancestors 'none'"),
        (META.format(BESIDE), f"{BESIDE}; frame-ancestors 'none'"),
        (META.format("default-src *"), NOTHING),
        (META.format(OWN.replace("img-src data:", "img-src *")), NOTHING),
        (META.format(f"{OWN}; script-src 'unsafe-inline'"), NOTHING),
        (META.format(f"{OWN}\r\nSet-Cookie: a=b"), NOTHING),
        (" " * 5000 + META.format(OWN), NOTHING),
        ("no policy", NOTHING),
    ],
)
def test_only_pages_with_our_policy_may_run_scripts(store: Path, address: str, page: str, policy: str) -> None:
    (store / "pages" / "policy.html").write_text(page, newline="")
    _, body, headers = send_request(address, "/policy.html")
    assert (headers["content-security-policy"], body) == (policy, page.encode()) and "set-cookie" not in headers


def test_generated_pages_have_an_accepted_policy(tmp_path: Path) -> None:
    write_run(tmp_path, start(RUN), [outcome()], end())
    land(tmp_path)
    for page, forms in ((renew(tmp_path, [RUN]).place, "self"), (page_of(tmp_path, RUN), "none")):
        policy = policy_of(page.read_bytes()[:HEAD_BYTES])
        assert "script-src 'sha256-" in policy and policy.endswith(f"form-action '{forms}'")


def test_note_gives_the_address_while_pages_are_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JURY_PAGES", raising=False)
    page = tmp_path / "pages" / "run.html"
    with serving_pages(tmp_path, free_port(), "") as address:
        assert where(page) == f"{address}/run.html"
        copied = shutil.copytree(tmp_path / "pages", tmp_path / "copied") / page.name
        for changes in ({"address": "javascript:alert(1)"}, {"machine": "elsewhere"}, {"machine": 7}):
            note = {"address": address, "machine": platform.node(), **changes}
            (tmp_path / "pages" / NOTE).write_text(json.dumps(note))
            assert where(page) == str(page)
    assert where(page) == str(page) and not (tmp_path / "pages" / NOTE).exists()
    assert where(copied) == str(copied) and (copied.parent / NOTE).exists()


def test_taken_port_is_replaced_by_another(store: Path, address: str) -> None:
    taken = int(address.rpartition(":")[2])
    with serving_pages(store, taken, "") as other:
        assert other != address and send_request(other, "/run.html")[0] == 200
