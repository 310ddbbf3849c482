"""Keys go where they are listed for, and nowhere else."""

import pytest

from tasks.keys import find_key, listed_keys
from tasks.parameters import Judge
from tasks.records import JudgeStopped


@pytest.mark.parametrize(
    ("base_url", "named", "endpoints", "key"),
    [
        ("embedded", "", "", ""),
        ("http://127.0.0.1:8000/v1", "", "", ""),
        ("http://127.0.0.1:8000/v1", "MY_KEY", "", "mine"),
        ("https://api.openai.com/v1", "", "", "openai"),
        ("https://judge.example/v1", "", "judge.example=MY_KEY", "mine"),
        ("https://judge.example/v1", "MY_KEY", "other.example=X, judge.example=MY_KEY", "mine"),
        ("http://vllm.example/v1", "", "", ""),
    ],
)
def test_a_key_is_found_for_a_host_it_is_listed_for(
    base_url: str, named: str, endpoints: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "mine")
    monkeypatch.setenv("OPENAI_API_KEY", "openai")
    monkeypatch.setenv("JURY_ENDPOINTS", endpoints)
    model = "pixel-baseline" if base_url == "embedded" else "m"
    assert find_key(Judge(model=model, base_url=base_url, api_key_env=named)) == key  # pyright: ignore


@pytest.mark.parametrize(
    ("base_url", "named", "endpoints", "words"),
    [
        ("https://evil.example/v1", "OPENAI_API_KEY", "", "may not go to evil.example"),
        ("https://api.openai.com/v1", "AWS_SECRET_ACCESS_KEY", "", "may not go to api.openai.com: listed for it"),
        ("https://api.openai.com.evil.example/v1", "OPENAI_API_KEY", "", "may not go to"),
        ("https://judge.example/v1", "", "judge.example=A,judge.example=B", "set api_key_env to one of A, B"),
        ("https://judge.example/v1", "", "judge.example", "must read host=KEY_NAME"),
    ],
)
def test_a_key_goes_nowhere_else(
    base_url: str, named: str, endpoints: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JURY_ENDPOINTS", endpoints)
    monkeypatch.setenv("OPENAI_API_KEY", "openai")
    with pytest.raises(JudgeStopped, match=words):
        find_key(Judge(model="m", base_url=base_url, api_key_env=named))  # pyright: ignore


def test_the_list_of_endpoints_is_read_case_insensitively_by_host() -> None:
    assert listed_keys("Judge.Example=MY_KEY")["judge.example"] == {"MY_KEY"}
