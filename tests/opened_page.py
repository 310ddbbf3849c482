"""Our pages in a real browser without network: opened in Chromium, or visited by keyboard in either browser."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from firefox import Firefox, FirefoxTab

HEIGHT = 900
BLANK = "about:blank"


def installed(browser: str) -> str:
    """Return the path of a Debian browser; skip the test if it is not installed."""
    found = shutil.which(browser)
    return found or pytest.skip(f"needs {browser} (`apt-get install {browser}`)")


def chromium() -> Path:
    """Return the script that starts Debian's Chromium for tests; skip the test if it is not installed."""
    installed("chromium")
    return Path(__file__).with_name("chromium.sh")


class Opened:
    """A tab of a browser without network: loads one page after another, each as if new, and notes attempted actions.

    A new tab takes three times the processor time of a page.

    Args:
        browser: a started browser, or its own context.
        look: how `load` shows the first page.
    """

    def __init__(self, browser: Any, file: Path | str = BLANK, **look: Any) -> None:
        self.context = browser.new_context() if hasattr(browser, "new_context") else browser
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)
        self.trouble: list[str] = []
        self.page.on("dialog", lambda dialog: (self.trouble.append(dialog.message), dialog.dismiss()))
        self.page.on("pageerror", lambda error: self.trouble.append(f"error {error}"))
        self.page.on("console", lambda message: self.trouble.append(f"console {message.text}"))
        self.page.on("request", lambda request: self._asked(request.url))
        self.load(file, **look)

    def load(self, file: Path | str, scheme: str = "light", address: str = "", width: int = 1280) -> None:
        """Load a page, on disk or on a server; `address` is the part of its address after the file."""
        self.look(scheme, width)
        whole = (file.as_uri() if isinstance(file, Path) else file) + address
        self.context.set_offline(whole.startswith("file:"))
        if "#" in whole:
            self.page.goto(BLANK)  # a loaded page would only go to another of its places
        self.trouble.clear()
        self.page.goto(whole)

    def look(self, scheme: str, width: int) -> None:
        """Show the same page on another screen size, in light or dark."""
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        self.page.emulate_media(media="screen", color_scheme=scheme)

    def _asked(self, url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:")):
            self.trouble.append(f"request {url}")

    def shown(self) -> list[str]:
        """Return the ids of the samples that the filters leave, in order."""
        return self.page.eval_on_selector_all(".thumb b", "all => all.map(one => one.textContent)")

    def check(self) -> None:
        """Check that the page attempted nothing, at the end of a test."""
        assert self.trouble == [], self.trouble

    def focused(self) -> str:
        return self.page.evaluate("document.activeElement.querySelector?.('h3')?.firstChild.textContent ?? ''")


class Visit:
    """Visits of pages with a keyboard and no mouse, in either browser, and the pages' attempted actions."""

    def __init__(self, browser: Any, address: str = BLANK, **look: Any) -> None:
        self._tab: FirefoxTab | None = None
        if isinstance(browser, Firefox):
            self._tab = tab = FirefoxTab(browser)
            self.evaluate, self._press, self.trouble = tab.evaluate, tab.press, tab.trouble
        else:
            self._opened = opened = Opened(browser)
            self.evaluate, self._press = opened.page.evaluate, opened.page.keyboard.press
            self.trouble = opened.trouble
        self.load(address, **look)

    def load(self, address: str, scheme: str = "light", width: int = 1280) -> None:
        """Load a page as if new."""
        if not self._tab:
            self._opened.load(address, scheme, width=width)
            return
        self._tab.goto(BLANK)
        self.trouble.clear()
        self._tab.goto(address)
        self.look(scheme, width)

    def look(self, scheme: str, width: int) -> None:
        """Show the same page on another screen size, in light or dark."""
        if not self._tab:
            self._opened.look(scheme, width)
            return
        self._tab.resize(width, HEIGHT)
        # WebDriver BiDi cannot set the color scheme preference of this Firefox.
        self._tab.evaluate(f"document.documentElement.style.colorScheme = '{scheme}'")

    def press(self, *keys: str) -> None:
        for key in keys:
            self._press(key)

    def until(self, is_there: str, key: str = "Tab", most: int = 60) -> None:
        """Press the key until this selector has the focus, and check that the focus is visible."""
        for _ in range(most):
            self.press(key)
            if self.has_focus(is_there):
                assert self.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
                return
        raise AssertionError(f"{most} times {key}, and no {is_there} has the focus")

    def has_focus(self, selector: str) -> bool:
        return self.evaluate(f"document.activeElement.matches({json.dumps(selector)})")

    def text(self, selector: str) -> str:
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def count(self, selector: str) -> int:
        """Return the number of visible matches."""
        return self.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].filter(one => one.checkVisibility()).length"
        )

    def wait(self, expression: str) -> None:
        """Wait until the expression holds; a page that is being left may not answer."""
        deadline = time.monotonic() + 120
        while True:
            try:
                if self.evaluate(f"Boolean({expression})"):
                    return
            except Exception:
                if time.monotonic() > deadline:
                    raise
            assert time.monotonic() < deadline, f"waited in vain for {expression}"
            time.sleep(0.05)

    def check(self) -> None:
        """Check that the page attempted nothing, at the end of a test."""
        self.evaluate("1")  # wait until earlier events have arrived
        assert self.trouble == [], self.trouble
