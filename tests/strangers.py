"""Hostile texts against readers, and a Markdown parser to check their effect."""

from markdown_it import MarkdownIt
from markdown_it.token import Token

HOSTILE = (
    "<script>alert(1)</script>",
    '<img src="http://evil.example/i.png" onerror=alert(1)>',
    "![x](http://evil.example/a.png)",
    "![x][1] [1]: http://evil.example/a.png",
    "[click](javascript:alert(1))",
    "<http://evil.example> &lt;b&gt; &#60;",
    "http://evil.example/x www.evil.example HTTPS://EVIL.EXAMPLE WWW.evil.example me@evil.example ftp://evil.example",
    "a | b \\| c |",
    "`code` **bold** _it_ ~~gone~~ $x^2$ [^1] {{ x }}",
    "# heading",
    "- item",
    "+ item",
    "1. item",
    "1) item",
    "12.",
    "> quote",
    "--- | ---",
    "***",
    "<!-- x",
    "--> x",
    "ends with \\",
    "&",
)


def tokens(markdown: str) -> list[Token]:
    """Return the tokens of GitHub's Markdown, except links from bare addresses."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    allowed = parser.validateLink
    # The Prefect UI shows SVG as a picture, in which nothing runs; GitHub does not show it.
    parser.validateLink = lambda url: url.startswith("data:image/svg+xml;") or allowed(url)  # type: ignore
    blocks = parser.parse(markdown)
    return [token for block in blocks for token in [block, *(block.children or [])]]
