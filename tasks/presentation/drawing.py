"""Vega-Lite charts drawn as PNG or SVG, in a process of their own.

The drawing engine takes a third of a second to start, holds Python's lock until it is done, and keeps 100 MB: in the
judging process no reply would be read meanwhile. So a process is started ahead of its use, draws the charts of one
artifact or page, and ends. Run as a module, this file is that process: a line comes in, a JSON object with `format` and
`charts`; a list of drawings in base64 goes out, nothing at all comes of nothing.
"""

import atexit
import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any, BinaryIO, Literal, NoReturn, cast

from tasks.presentation.svg import inline_svg

SCALE = 2.0
COLOURS = 64
MARGIN = 12
"""Pixels of white around a PNG."""
PATIENCE_SECONDS, PATIENCE_PER_CHART = 60.0, 5.0
"""Longest wait for the process, and what each chart adds to it; a chart takes some hundredths of a second."""
GIVING_WAY = 10.0
"""So many times as long does wait whoever gives way to all else on the machine, as the process does that it starts:
where much is judged, that one has the processor for moments alone."""

_waiting: list[subprocess.Popen[bytes]] = []
_at_work: dict[bytes, subprocess.Popen[bytes]] = {}
"""Processes that draw ahead, by the line that each was given."""


def warm_up() -> None:
    """Start a process that will have loaded its engine by the time a chart is to be drawn."""
    if not _waiting:
        with suppress(OSError):  # who draws tries again, and tells why it cannot be started
            _waiting.append(_start())


def png(chart: Mapping[str, Any]) -> bytes:
    """The chart (Vega-Lite) on white, as a PNG with twice the pixels that it is described in.

    Raises:
        RuntimeError: the chart cannot be drawn, in the engine's words, or those of the system.
    """
    [drawing] = _draw("png", [_on_white(chart)])
    return drawing


def begin_png(chart: Mapping[str, Any]) -> None:
    """Let a process draw a chart while other things are done; `png` of the same chart then waits for what is left."""
    _begin(_line("png", [_on_white(chart)]))


def svgs(charts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The charts as SVG elements to stand in an HTML page: see `inline_svg`. All are drawn by one process.

    Raises:
        RuntimeError: a chart cannot be drawn, in the engine's words, or those of the system.
    """
    drawings = _draw("svg", charts) if charts else []
    return [
        inline_svg(drawing.decode(), str(chart.get("description", "")))
        for chart, drawing in zip(charts, drawings, strict=True)
    ]


def _on_white(chart: Mapping[str, Any]) -> dict[str, Any]:
    return {**chart, "background": "white", "padding": MARGIN}


def _line(form: Literal["png", "svg"], charts: Sequence[Mapping[str, Any]]) -> bytes:
    return json.dumps({"format": form, "charts": charts}, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _begin(order: bytes) -> None:
    if order in _at_work:
        return
    process = _at_work[order] = _taken()
    with suppress(OSError):  # it has ended: `_draw` tells why
        cast(BinaryIO, process.stdin).write(order)
        cast(BinaryIO, process.stdin).flush()


def _draw(form: Literal["png", "svg"], charts: Sequence[Mapping[str, Any]]) -> list[bytes]:
    order = _line(form, charts)
    begun = _at_work.pop(order, None)
    try:
        process = begun or _taken()
    except OSError as error:
        raise RuntimeError(f"the chart could not be drawn: no process for it could be started: {error}") from None
    patience = (PATIENCE_SECONDS + PATIENCE_PER_CHART * len(charts)) * (GIVING_WAY if _gives_way() else 1.0)
    with process:
        try:
            output, errors = process.communicate(None if begun else order, patience)
        except subprocess.TimeoutExpired:
            process.kill()
            raise RuntimeError(f"the chart was not drawn within {patience:g} seconds") from None
    if process.returncode:
        reason = errors.decode(errors="replace").strip() or f"exit code {process.returncode}"
        raise RuntimeError(f"the chart could not be drawn: {reason}")
    return [base64.b64decode(drawing) for drawing in json.loads(output)]


def _gives_way() -> bool:
    """Whether this thread has a lower priority than others."""
    # Elsewhere a thread has no priority of its own.
    return sys.platform == "linux" and os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) > 0


def _taken() -> subprocess.Popen[bytes]:
    """The process that was started ahead, or a new one; several threads may ask at once."""
    try:
        return _waiting.pop()
    except IndexError:
        return _start()


def _start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", __name__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _dismiss() -> None:
    for process in (*_waiting, *_at_work.values()):
        process.communicate()  # ends its input, and so the process


atexit.register(_dismiss)


def _main() -> None:
    import vl_convert

    vl_convert.vegalite_to_svg({"data": {"values": []}, "mark": "bar"})  # loads the engine
    order = sys.stdin.buffer.readline()
    if not order:
        return
    asked = json.loads(order)
    draw = _svg if asked["format"] == "svg" else _png
    json.dump([base64.b64encode(draw(chart)).decode("ascii") for chart in asked["charts"]], sys.stdout)


def _svg(chart: Mapping[str, Any]) -> bytes:
    import vl_convert

    try:
        return vl_convert.vegalite_to_svg(dict(chart), allowed_base_urls=[]).encode()
    except ValueError as error:
        _give_up(error)


def _png(chart: Mapping[str, Any]) -> bytes:
    import vl_convert
    from PIL import Image

    try:
        drawn = vl_convert.vegalite_to_png(dict(chart), scale=SCALE, allowed_base_urls=[])
    except ValueError as error:
        _give_up(error)
    small = BytesIO()
    with Image.open(BytesIO(drawn)) as drawing:
        # A palette makes a fifth of the size, and nothing is lost that an eye would miss.
        drawing.convert("RGB").quantize(COLOURS).save(small, format="png")
    return small.getvalue()


def _give_up(error: ValueError) -> NoReturn:
    """End this process; what follows the first two lines of the engine's words is where in it the error arose."""
    sys.exit(" ".join(str(error).splitlines()[:2]))


if __name__ == "__main__":
    _main()
