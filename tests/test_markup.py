"""Untrusted texts in Markdown: displayed literally, without any effect."""

import re

import pytest
from strangers import HOSTILE, tokens

from tasks.presentation.tables import bullets, markdown_table, plain_markdown

BARE_ADDRESS = re.compile(r"(https?|ftp)://|www\.|\w@\w", re.IGNORECASE)


def displayed_text(markdown: str) -> str:
    return "".join(token.content for token in tokens(markdown) if token.type == "text")


def active_parts(markdown: str) -> set[str]:
    """Return kinds of tokens other than text and comments, and texts that GitHub would turn into links."""
    harmless = {"text", "inline", "paragraph_open", "paragraph_close"}
    found = {token.type for token in tokens(markdown) if token.content != "<!-- -->"} - harmless
    texts = {token.content for token in tokens(markdown) if token.type == "text"}
    return found | {*filter(BARE_ADDRESS.search, texts)}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_literal_and_stays_in_its_cell_and_item(text: str) -> None:
    assert displayed_text(plain_markdown(text)) == text
    assert active_parts(plain_markdown(text)) == set()
    markdown = markdown_table(["a", "b"], [[plain_markdown(text), "next"]])
    assert sum(token.type == "td_open" for token in tokens(markdown)) == 2
    assert displayed_text(markdown) == f"ab{text}next"
    markdown = bullets([text, f"  {text}"])
    assert [token.type for token in tokens(markdown)].count("list_item_open") == 2
    assert displayed_text(markdown) == text * 2


def test_line_breaks_do_not_start_a_block() -> None:
    assert active_parts(plain_markdown("a\n\n# b\n- c\n    code\n```\nd")) == set()


def test_ordinary_words_are_not_escaped() -> None:
    words = 'judgments: 93 ok, 2 invalid; 62.5 (no interval below 8), 22/24 scored. It\'s "fine" - yes?'
    assert plain_markdown(words) == words


def test_long_text_is_shortened_before_escaping() -> None:
    assert displayed_text(plain_markdown("<" * 500, 10)) == "<" * 9 + "…"


def test_short_table_row_is_padded() -> None:
    assert markdown_table(["", "n"], [["head"], ["a", "1"]]).splitlines() == [
        "|  | n |",
        "| --- | ---: |",
        "| head |  |",
        "| a | 1 |",
    ]
