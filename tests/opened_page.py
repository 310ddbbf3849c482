"""A page of ours in a real browser without a network, and what it tried to do."""

import shutil
from pathlib import Path
from typing import Any

import pytest

SCREENSHOTS = Path(__file__).parents[1] / "screenshots"


def installed(browser: str) -> str:
    """Where a browser of Debian's is; the test is skipped where it is not."""
    found = shutil.which(browser)
    return found or pytest.skip(f"needs {browser} (`apt-get install {browser}`)")


def chromium() -> Path:
    """What starts Debian's Chromium for tests; the test is skipped where it is not."""
    installed("chromium")
    return Path(__file__).with_name("chromium.sh")


class Opened:
    """A page in a browser without a network, and what it tried to do.

    Args:
        file: where it is, on the disk or on a server.
    """

    def __init__(
        self, browser: Any, file: Path | str, scheme: str = "light", address: str = "", width: int = 1280
    ) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.context.set_offline(isinstance(file, Path) or file.startswith("file:"))
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)
        self.trouble: list[str] = []
        self.page.on("dialog", lambda dialog: self._note(f"dialog {dialog.message}", dialog))
        self.page.on("pageerror", lambda error: self._note(f"error {error}"))
        self.page.on("console", lambda message: self._note(f"console {message.text}"))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.goto((file.as_uri() if isinstance(file, Path) else file) + address)

    def _note(self, words: str, dialog: Any = None) -> None:
        self.trouble.append(words)
        if dialog:
            dialog.dismiss()

    def _asked(self, url: str) -> None:
        if not url.startswith(("file:", "data:")):
            self.trouble.append(f"request {url}")

    def shown(self) -> list[str]:
        """Ids of the cards that the filters leave, in order."""
        return self.page.eval_on_selector_all(".card h3", "all => all.map(one => one.firstChild.textContent)")

    def close(self) -> None:
        assert self.trouble == []
        self.context.close()

    def focused(self) -> str:
        return self.page.evaluate("document.activeElement.querySelector?.('h3')?.firstChild.textContent ?? ''")
