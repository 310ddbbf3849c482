"""Our pages in a real browser without network: opened in Chromium, or visited by keyboard in either browser."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from firefox import Firefox, FirefoxTab

HEIGHT = 900


def installed(browser: str) -> str:
    """Return the path of a Debian browser; skip the test if it is not installed."""
    found = shutil.which(browser)
    return found or pytest.skip(f"needs {browser} (`apt-get install {browser}`)")


def chromium() -> Path:
    """Return the script that starts Debian's Chromium for tests; skip the test if it is not installed."""
    installed("chromium")
    return Path(__file__).with_name("chromium.sh")


class Opened:
    """A page in a browser without network, and its attempted actions.

    Args:
        browser: a started browser, or its own context.
        file: address of the page, on disk or on a server.
    """

    def __init__(
        self, browser: Any, file: Path | str, scheme: str = "light", address: str = "", width: int = 1280
    ) -> None:
        screen = {"viewport": {"width": width, "height": HEIGHT}, "color_scheme": scheme}
        self.context = browser.new_context(**screen) if hasattr(browser, "new_context") else browser
        self.context.set_offline(isinstance(file, Path) or file.startswith("file:"))
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)
        self.trouble: list[str] = []
        self.page.on("dialog", lambda dialog: (self.trouble.append(dialog.message), dialog.dismiss()))
        self.page.on("pageerror", lambda error: self.trouble.append(f"error {error}"))
        self.page.on("console", lambda message: self.trouble.append(f"console {message.text}"))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.goto((file.as_uri() if isinstance(file, Path) else file) + address)

    def _asked(self, url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:")):
            self.trouble.append(f"request {url}")

    def shown(self) -> list[str]:
        """Return the ids of the samples that the filters leave, in order."""
        return self.page.eval_on_selector_all(".thumb b", "all => all.map(one => one.textContent)")

    def close(self) -> None:
        assert self.trouble == []
        self.context.close()

    def focused(self) -> str:
        return self.page.evaluate("document.activeElement.querySelector?.('h3')?.firstChild.textContent ?? ''")


class Visit:
    """A visit of a page with a keyboard and no mouse, in either browser, and the page's attempted actions."""

    def __init__(self, browser: Any, address: str, scheme: str = "light", width: int = 1280) -> None:
        self._tab: FirefoxTab | None = None
        if isinstance(browser, Firefox):
            self._tab = tab = FirefoxTab(browser, width, HEIGHT)
            self.evaluate, self._press, self._close = tab.evaluate, tab.press, tab.close
            self.trouble = tab.trouble
            tab.goto(address)
            self.look(scheme, width)
        else:
            opened = Opened(browser, address, scheme, width=width)
            self.page = opened.page
            self.evaluate, self._press = opened.page.evaluate, opened.page.keyboard.press
            self._close = opened.context.close
            self.trouble = opened.trouble

    def look(self, scheme: str, width: int) -> None:
        """Show the same page on another screen size, in light or dark."""
        if not self._tab:
            self.page.set_viewport_size({"width": width, "height": HEIGHT})
            self.page.emulate_media(color_scheme=scheme)
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

    def close(self) -> None:
        self.evaluate("1")  # wait until earlier events have arrived
        self._close()
        assert self.trouble == []
