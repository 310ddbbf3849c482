"""A page of ours in a real browser without a network: opened in Chromium, or visited by keyboard in either."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from firefox import Firefox, FirefoxTab

HEIGHT = 900


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
        browser: one that was started, or a context of its own.
        file: where it is, on the disk or on a server.
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
        """Ids of the samples that the filters leave, in order."""
        return self.page.eval_on_selector_all(".thumb b", "all => all.map(one => one.textContent)")

    def close(self) -> None:
        assert self.trouble == []
        self.context.close()

    def focused(self) -> str:
        return self.page.evaluate("document.activeElement.querySelector?.('h3')?.firstChild.textContent ?? ''")


class Visit:
    """Somebody on a page with a keyboard and no mouse, in whichever of the two browsers, and what it tried to do."""

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
        """Look at the same page on another screen, in light or dark."""
        if not self._tab:
            self.page.set_viewport_size({"width": width, "height": HEIGHT})
            self.page.emulate_media(color_scheme=scheme)
            return
        self._tab.resize(width, HEIGHT)
        # What a person likes, WebDriver BiDi cannot tell this Firefox.
        self._tab.evaluate(f"document.documentElement.style.colorScheme = '{scheme}'")

    def press(self, *keys: str) -> None:
        for key in keys:
            self._press(key)

    def until(self, is_there: str, key: str = "Tab", most: int = 60) -> None:
        """Press the key until the focus is on what this selector finds, and see that it shows where it is."""
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
        """How many of them can be seen."""
        return self.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].filter(one => one.checkVisibility()).length"
        )

    def wait(self, expression: str) -> None:
        """Ask again and again until it is so; a page that is being left for another may not answer."""
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
        self.evaluate("1")  # what came before has been told
        self._close()
        assert self.trouble == []
