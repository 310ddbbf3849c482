"""Only a bare URL opens a remote store, and what is wrong with another is said without repeating it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tasks.ledger.remote import Remote, is_remote, local_cache


@pytest.mark.parametrize(
    "store",
    [
        "s3://AKIA:s3cr3t@bucket/x", "s3://AKIA:s3/cr3t@bucket/x", "s3://bucket/x?key=s3cr3t", "s3://bucket#s3cr3t",
        "s3:/AKIA:s3cr3t@bucket",
    ],
)  # fmt: skip
def test_credentials_in_a_url_are_refused_and_not_repeated(store: str, tmp_path: Path) -> None:
    for use in (local_cache, lambda store: Remote(store, tmp_path)):
        with pytest.raises(ValueError, match="credentials belong into the worker's environment") as refused:
            use(store)
        assert "cr3t" not in str(refused.value)


@pytest.mark.parametrize("store", ["s3:/bucket/x", "s3://", "s3:///x", "simplecache::s3://bucket/x", "S3://b/x"])
def test_a_malformed_url_is_refused(store: str, tmp_path: Path) -> None:
    assert is_remote(store)
    with pytest.raises(ValueError, match="no URL of a remote store, such as s3://bucket/prefix"):
        Remote(store, tmp_path)


def test_an_unknown_scheme_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nonsense://x cannot be opened: Protocol not known: nonsense"):
        Remote("nonsense://x", tmp_path)


def test_without_the_extra_only_a_remote_store_says_what_to_install(tmp_path: Path) -> None:
    """In a process that can import neither package, as where the extra is not installed."""
    code = """if True:
        import sys
        from pathlib import Path
        sys.modules["s3fs"] = None
        from tasks.ledger.remote import Remote, is_remote, local_cache
        print(is_remote("s3://b/x"), local_cache("store"), local_cache("s3://b/x").name[:4], "fsspec" in sys.modules)
        try:
            Remote("s3://b/x", Path("."))
        except ValueError as error:
            print(error)
    """
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[1])
    first, second = told.stdout.splitlines()
    assert first == "True store b-x- False"
    assert second.startswith("The store s3://b/x needs a package") and second.endswith(
        "pip install -e '.[s3]', in the folder of Image Jury"
    )
