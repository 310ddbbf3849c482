"""The pages of a store served: who reads what, and what nobody does."""

import html
import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest
from factories import RUN, end, outcome, start, write_run
from served import free_port

from flows.server.pages import serving_pages
from flows.server.server import sign_in_header
from tasks.history.landing import land
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


def asked(address: str, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """What is answered to these very words: no path is tidied up."""
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


def test_pages_are_read_whole_and_nothing_is_done_to_them(address: str) -> None:
    status, body, headers = asked(address, "/")
    assert (status, body) == (200, INDEX) and asked(address, "/index.html")[1] == INDEX
    assert headers["content-type"] == "text/html; charset=utf-8" and headers["x-content-type-options"] == "nosniff"
    assert asked(address, "/run.html?a=b")[:2] == (200, b"a run")
    status, body, headers = asked(address, f"/run.files/{PICTURE}")
    assert (status, body, headers["content-type"]) == (200, b"a picture", "image/jpeg")
    status, body, headers = asked(address, "/", "HEAD")
    assert (status, body, headers["content-length"]) == (200, b"", str(len(INDEX)))
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        status, _, headers = asked(address, "/", method)
        assert (status, headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path",
    [
        "/none.html", "/notes.txt", "/.hidden.html", f"/{NOTE}", "/link.html", "/folder.html", "/run", "//run.html",
        "/../history.html", "/%2e%2e/history.html", "/..%2fhistory.html", "/pages/run.html", "/run.html%00",
        "/\\run.html",
    ],
)  # fmt: skip
def test_nothing_but_pages_is_answered(address: str, path: str) -> None:
    status, body, _ = asked(address, path)
    assert status == 404 and b"no such page" in body


def test_who_asks_by_another_name_or_from_another_page_gets_nothing(address: str) -> None:
    assert asked(address, "/", Host="evil.example")[0] == 403
    assert asked(address, "/", Origin="http://evil.example")[0] == 403
    assert asked(address, "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="iframe")[0] == 403
    assert asked(address, "/", Origin="http://127.0.0.1:4200")[0] == 403, "not even Prefect's pages"
    assert asked(address, "/", Sec_Fetch_Site="same-site", Sec_Fetch_Dest="document")[0] == 200, "a link in an artifact"


def test_a_folder_that_is_a_link_is_not_followed(store: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "pages").symlink_to(store / "pages")
    with serving_pages(tmp_path / "other", free_port(), "") as address:
        assert asked(address, "/")[0] == 404


NOTHING = "default-src 'none'; frame-ancestors 'none'"
OWN = (
    f"default-src 'none'; img-src data:; style-src 'sha256-{'a' * 43}='; script-src 'sha256-{'b' * 43}='; "
    "base-uri 'none'; form-action 'none'"
)
META = '<!doctype html><meta http-equiv="Content-Security-Policy" content="{}">'


@pytest.mark.parametrize(
    ("page", "policy"),
    [
        (META.format(OWN), f"{OWN}; frame-ancestors 'none'"),
        (META.format(html.escape(OWN)), f"{OWN}; frame-ancestors 'none'"),
        (META.format("default-src *"), NOTHING),
        (META.format(OWN.replace("img-src data:", "img-src *")), NOTHING),
        (META.format(f"{OWN}; script-src 'unsafe-inline'"), NOTHING),
        (META.format(f"{OWN}\r\nSet-Cookie: a=b"), NOTHING),
        (" " * 5000 + META.format(OWN), NOTHING),
        ("no policy", NOTHING),
    ],
)
def test_a_page_has_its_own_policy_and_a_stranger_s_nothing(store: Path, address: str, page: str, policy: str) -> None:
    (store / "pages" / "policy.html").write_text(page, newline="")
    _, body, headers = asked(address, "/policy.html")
    assert (headers["content-security-policy"], body) == (policy, page.encode()) and "set-cookie" not in headers


@pytest.mark.usefixtures("laid_out")
def test_pages_that_we_make_have_a_policy_that_is_served(tmp_path: Path) -> None:
    write_run(tmp_path, start(RUN), [outcome()], end())
    land(tmp_path)
    for page in (renew(tmp_path, [RUN]).place, page_of(tmp_path, RUN)):
        assert "script-src 'sha256-" in policy_of(page.read_bytes()[:HEAD_BYTES])


def test_others_of_the_machine_are_kept_out_by_the_text_that_signs_in(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.html").write_bytes(b"the index")
    with serving_pages(tmp_path, free_port(), SIGNED) as address:
        status, body, headers = asked(address, "/")
        assert (status, headers["www-authenticate"]) == (401, 'Basic realm="jury"') and b"index" not in body
        assert asked(address, "/", **sign_in_header("jury:another"))[0] == 401
        assert asked(address, "/", **sign_in_header(SIGNED))[:2] == (200, b"the index")


def test_a_note_tells_others_the_address_while_it_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JURY_PAGES", raising=False)
    page = tmp_path / "pages" / "run.html"
    with serving_pages(tmp_path, free_port(), "") as address:
        assert where(page) == f"{address}/run.html"
        (tmp_path / "pages" / NOTE).write_text('{"address": "javascript:alert(1)", "pid": 1}')
        assert where(page) == str(page)
    assert where(page) == str(page) and not (tmp_path / "pages" / NOTE).exists()


def test_a_taken_port_is_left_to_who_has_it(store: Path, address: str) -> None:
    taken = int(address.rpartition(":")[2])
    with serving_pages(store, taken, "") as other:
        assert other != address and asked(other, "/run.html")[0] == 200
