"""Charts drawn by a process of their own: what comes back, and what is told when nothing can."""

import io
import os
import subprocess
import sys
from typing import Any

import pytest
from PIL import Image

from tasks.presentation import drawing as plotter

BARS: dict[str, Any] = {
    "data": {"values": [{"name": "a", "n": 3}, {"name": "b", "n": 1}]},
    "mark": {"type": "bar", "color": "#ff0000"},
    "encoding": {"x": {"field": "n", "type": "quantitative"}, "y": {"field": "name", "type": "nominal"}},
    "width": 200,
}


def test_a_chart_is_drawn_with_twice_the_pixels_and_a_palette() -> None:
    image = Image.open(io.BytesIO(plotter.png(BARS)))
    assert (image.format, image.mode) == ("PNG", "P")
    assert image.width > 400
    red = sum(n for n, color in image.convert("RGB").getcolors(1 << 20) or [] if color == (255, 0, 0))
    assert red > 400 * 20


def test_a_process_started_ahead_draws_the_next_chart_and_no_other() -> None:
    plotter.warm_up()
    first = plotter.png(BARS)
    assert plotter.png(BARS) == first


def test_a_chart_that_cannot_be_drawn_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"^the chart could not be drawn: .*TypeError.*$"):
        plotter.png({"data": {"values": []}, "mark": "nonsense"})


def test_a_process_that_is_never_needed_ends_with_its_parent() -> None:
    ahead = "from tasks.showing import plotter; plotter.warm_up(); print(plotter._waiting[0].pid)"
    done = subprocess.run([sys.executable, "-c", ahead], capture_output=True, text=True, timeout=60, check=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
    assert done.stderr == ""
