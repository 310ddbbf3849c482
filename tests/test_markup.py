"""Strangers' texts in Markdown: they show as they are, and nothing in them acts."""

import re

import pytest
from strangers import HOSTILE, tokens

from tasks.presentation.tables import bullets, markdown_table, plain_markdown

BARE_ADDRESS = re.compile(r"(https?|ftp)://|www\.|\w@\w", re.IGNORECASE)


def shown(markdown: str) -> str:
    return "".join(token.content for token in tokens(markdown) if token.type == "text")


def acting(markdown: str) -> set[str]:
    """Kinds of tokens but for text and comments, and texts of which GitHub's dialect would make links."""
    harmless = {"text", "inline", "paragraph_open", "paragraph_close"}
    found = {token.type for token in tokens(markdown) if token.content != "<!-- -->"} - harmless
    texts = {token.content for token in tokens(markdown) if token.type == "text"}
    return found | {*filter(BARE_ADDRESS.search, texts)}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_shows_as_it_is_does_nothing_and_stays_within_its_cell_and_item(text: str) -> None:
    assert shown(plain_markdown(text)) == text
    assert acting(plain_markdown(text)) == set()
    markdown = markdown_table(["a", "b"], [[plain_markdown(text), "next"]])
    assert sum(token.type == "td_open" for token in tokens(markdown)) == 2
    assert shown(markdown) == f"ab{text}next"
    markdown = bullets([text, f"  {text}"])
    assert [token.type for token in tokens(markdown)].count("list_item_open") == 2
    assert shown(markdown) == text * 2


def test_line_breaks_cannot_begin_a_block() -> None:
    assert acting(plain_markdown("a\n\n# b\n- c\n    code\n```\nd")) == set()


def test_ordinary_words_stay_readable_as_they_are_written() -> None:
    words = 'judgments: 93 ok, 2 invalid; 62.5 (no interval below 8), 22/24 scored. It\'s "fine" - yes?'
    assert plain_markdown(words) == words


def test_a_long_text_is_cut_before_it_is_escaped() -> None:
    assert shown(plain_markdown("<" * 500, 10)) == "<" * 9 + "…"


def test_a_short_line_of_a_table_is_filled_up() -> None:
    assert markdown_table(["", "n"], [["head"], ["a", "1"]]).splitlines() == [
        "|  | n |",
        "| --- | ---: |",
        "| head |  |",
        "| a | 1 |",
    ]
