"""Somebody who visits a page of ours with a keyboard and no mouse, in whichever of the two browsers."""

import json
import time
from typing import Any

from firefox import Firefox, FirefoxTab
from opened_page import Opened

HEIGHT = 900


class Visit:
    """A page in a tab with a memory of its own, and what it tried to do."""

    def __init__(self, browser: Any, address: str, scheme: str = "light", width: int = 1280) -> None:
        self._scheme = "light"
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
            self.evaluate, self._press, self._close = (
                opened.page.evaluate,
                opened.page.keyboard.press,
                opened.context.close,
            )
            self.trouble = opened.trouble

    def look(self, scheme: str, width: int) -> None:
        """Look at the same page on another screen, in light or dark."""
        if not self._tab:
            self.page.set_viewport_size({"width": width, "height": HEIGHT})
            self.page.emulate_media(color_scheme=scheme)
            return
        self._tab.resize(width, HEIGHT)
        if scheme != self._scheme:  # What a person likes, WebDriver BiDi cannot tell this Firefox: a button does.
            self._tab.evaluate("document.getElementById('theme').click()")
            self._scheme = scheme

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
