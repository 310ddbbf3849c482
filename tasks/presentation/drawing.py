"""Vega-Lite charts drawn as PNG files, in a process of their own.

The drawing engine takes a third of a second to start, holds Python's lock until it is done, and keeps 100 MB: in the
judging process no reply would be read meanwhile. So a process is started ahead of its use, draws one chart, and ends.
Run as a module, this file is that process: a chart as JSON comes in, a PNG goes out, nothing at all comes of nothing.
"""

import atexit
import json
import subprocess
import sys
from collections.abc import Mapping
from io import BytesIO
from typing import Any

SCALE = 2.0
COLOURS = 64
PATIENCE_SECONDS = 60.0

_waiting: list[subprocess.Popen[bytes]] = []


def warm_up() -> None:
    """Start a process that will have loaded its engine by the time a chart is to be drawn."""
    if not _waiting:
        _waiting.append(_start())


def png(chart: Mapping[str, Any]) -> bytes:
    """The chart (Vega-Lite) as a PNG with twice the pixels that it is described in.

    Raises:
        RuntimeError: the chart cannot be drawn, in the engine's words.
    """
    process = _waiting.pop() if _waiting else _start()
    with process:
        try:
            drawing, words = process.communicate(json.dumps(chart).encode(), PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise RuntimeError(f"the chart was not drawn within {PATIENCE_SECONDS:g} seconds") from None
    if process.returncode:
        told = words.decode(errors="replace").strip() or f"exit code {process.returncode}"
        raise RuntimeError(f"the chart could not be drawn: {told}")
    return drawing


def _start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", __name__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _dismiss() -> None:
    for process in _waiting:
        process.communicate()  # ends its input, and so the process


atexit.register(_dismiss)


def _main() -> None:
    import vl_convert
    from PIL import Image

    vl_convert.vegalite_to_png({"data": {"values": []}, "mark": "bar"})  # loads the engine
    chart = sys.stdin.buffer.read()
    if not chart:
        return
    try:
        drawn = vl_convert.vegalite_to_png(chart.decode(), scale=SCALE)
    except ValueError as error:  # What follows the first two lines is where in the engine it happened.
        sys.exit(" ".join(str(error).splitlines()[:2]))
    with Image.open(BytesIO(drawn)) as drawing:
        # A palette makes a fifth of the size, and nothing is lost that an eye would miss.
        drawing.convert("RGB").quantize(COLOURS).save(sys.stdout.buffer, format="png")


if __name__ == "__main__":
    _main()
