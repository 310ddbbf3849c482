"""Charts drawn by a process of their own: what comes back, and what is told when nothing can."""

import io
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from PIL import Image

from tasks.presentation import drawing

BARS: dict[str, Any] = {
    "data": {"values": [{"name": "a", "n": 3}, {"name": "b", "n": 1}]},
    "mark": {"type": "bar", "color": "#ff0000"},
    "encoding": {"x": {"field": "n", "type": "quantitative"}, "y": {"field": "name", "type": "nominal"}},
    "width": 200,
}


def test_a_chart_is_drawn_with_twice_the_pixels_and_a_palette() -> None:
    image = Image.open(io.BytesIO(drawing.png(BARS)))
    assert (image.format, image.mode) == ("PNG", "P")
    assert image.width > 400
    red = sum(n for n, color in image.convert("RGB").getcolors(1 << 20) or [] if color == (255, 0, 0))
    assert red > 400 * 20


def test_a_process_started_ahead_draws_the_next_chart_and_no_other() -> None:
    drawing.warm_up()
    first = drawing.png(BARS)
    assert drawing.png(BARS) == first


def test_a_chart_that_cannot_be_drawn_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"^the chart could not be drawn: .*TypeError.*$"):
        drawing.png({"data": {"values": []}, "mark": "nonsense"})


def test_a_chart_that_is_begun_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    other = drawing.png({**BARS, "width": 100})
    started: list[object] = []
    start = drawing._start  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(drawing, "_start", lambda: started.append(1) or start())
    drawing.begin_png(BARS)
    drawing.begin_png(BARS)
    assert drawing.png({**BARS, "width": 100}) == other and len(started) == 2
    begun = drawing.png(BARS)
    assert len(started) == 2
    assert drawing.png(BARS) == begun and len(started) == 3


def test_where_no_process_can_be_started_only_who_draws_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process() -> None:
        raise OSError("Cannot allocate memory")

    monkeypatch.setattr(drawing, "_start", no_process)
    monkeypatch.setattr(drawing, "_waiting", [])
    drawing.warm_up()
    words = "the chart could not be drawn: no process for it could be started: Cannot allocate memory"
    with pytest.raises(RuntimeError, match=f"^{words}$"):
        drawing.png(BARS)


def test_a_chart_that_is_begun_and_cannot_be_drawn_says_why() -> None:
    drawing.begin_png({"data": {"values": []}, "mark": "nonsense"})
    with pytest.raises(RuntimeError, match=r"^the chart could not be drawn: .*TypeError.*$"):
        drawing.png({"data": {"values": []}, "mark": "nonsense"})


def test_all_drawings_of_a_page_come_from_one_process_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    start = drawing._start  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(drawing, "_start", lambda: started.append(1) or start())
    drawn = drawing.svgs([{**BARS, "description": f"chart {number}"} for number in range(3)])
    assert [re.search('aria-label="(.*?)"', svg)[1] for svg in drawn] == ["chart 0", "chart 1", "chart 2"]  # type: ignore
    assert len(started) == 1
    assert drawing.svgs([]) == [] and len(started) == 1


def test_one_of_several_charts_that_cannot_be_drawn_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"^the chart could not be drawn: .*TypeError.*$"):
        drawing.svgs([BARS, {"data": {"values": []}, "mark": "nonsense"}])


@pytest.mark.skipif(sys.platform != "linux", reason="needs threads with a priority of their own")
def test_who_gives_way_to_others_waits_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(drawing, "PATIENCE_PER_CHART", 1e-5)
    monkeypatch.setattr(drawing, "GIVING_WAY", 1e7)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)).result()
        assert thread.submit(drawing.png, BARS).result()
    with pytest.raises(RuntimeError, match="the chart was not drawn within 1e-05 seconds"):
        drawing.png(BARS)


def test_a_chart_loads_nothing() -> None:
    with pytest.raises(RuntimeError, match="could not be drawn"):
        drawing.svgs([{**BARS, "data": {"url": "http://127.0.0.1:9/data.json"}}])


@pytest.mark.parametrize(
    "ahead",
    [
        "drawing.warm_up(); print(drawing._waiting[0].pid)",
        f"drawing.begin_png({BARS}); print(*(process.pid for process in drawing._at_work.values()))",
    ],
)
def test_a_process_that_is_never_needed_ends_with_its_parent(ahead: str) -> None:
    ahead = f"from tasks.presentation import drawing; {ahead}"
    done = subprocess.run([sys.executable, "-c", ahead], capture_output=True, text=True, timeout=60, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
    assert done.stderr == ""
