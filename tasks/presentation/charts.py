"""Charts in Vega-Lite: their style, and the process that draws them as PNG or as SVG that is safe in a page."""

import atexit
import base64
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any, Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from tasks.text import one_line

Chart = dict[str, Any]
"""Vega-Lite description. Its `description` gives the content of the chart in words, for readers who cannot see it."""

MOST_CANDIDATES = 6
"""Most candidates in a chart, the best first: more would make the picture taller than a screen."""
WIDTH, BAR_HEIGHT = 360, 26
"""Pixels. With the labels on both sides, the chart fills the column in which the Prefect UI shows Markdown."""
LONGEST_NAME = 60
LABEL_WIDTH = 240
"""Widest label at the left of a bar, in pixels; a longer one ends in an ellipsis."""
INK = "currentColor"
"""Color of the text around the chart; black in a PNG."""
GREY = "#808080"
"""Color of rules and edges, visible on white and on a dark page."""

_TEXT = {"labelColor": INK, "labelFontSize": 13}
_LOOK: Chart = {
    "background": None,
    "padding": 2,
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "fontSize": 15,
        "subtitleFontSize": 12,
        "subtitlePadding": 4,
        "offset": 8,
        "color": INK,
        "subtitleColor": INK,
    },
    "axis": {**_TEXT, "domain": False, "ticks": False, "gridColor": GREY, "gridOpacity": 0.35},
    "header": {**_TEXT, "labelFontWeight": "bold", "labelOrient": "top", "labelAnchor": "start", "labelPadding": 2},
    "legend": {
        **_TEXT,
        "orient": "top",
        "columnPadding": 18,
        "symbolType": "square",
        "symbolStrokeColor": GREY,
    },
    "mark": {"aria": False},
    "text": {"fontSize": 12, "color": INK},
    "rule": {"color": INK},
    "facet": {"spacing": 12},
}


def faceted(title: Chart, values: Sequence[Chart], panels: Sequence[str], panel: Chart, words: str) -> Chart:
    """Return a chart of panels, one below the other.

    Args:
        values: records of the data; `place` is the number of a record's panel.
        panels: names of the panels, which may be a stranger's.
        panel: size and layers of each panel.
        words: description for readers who cannot see the chart.
    """
    header = {"title": None, "labelExpr": numbered(panels), "labelLimit": WIDTH}
    return {
        "description": words,
        "title": title,
        "data": {"values": list(values)},
        "facet": {"row": {"field": "place", "type": "ordinal", "header": header}},
        "spec": panel,
        "config": _LOOK,
    }


def layer(mark: str | Chart, where: str = "", **encoding: Chart) -> Chart:
    """Return a layer of a panel: marks of the records for which an expression is true; empty: of all."""
    return {"transform": [{"filter": where}] if where else [], "mark": mark, "encoding": encoding}


def lines(labels: Sequence[str]) -> Chart:
    """Return the vertical axis of a panel with a bar for each label; `line` of a record is the number of its label."""
    axis = {"labelExpr": numbered(labels), "labelLimit": LABEL_WIDTH}
    return {"field": "line", "type": "ordinal", "title": None, "axis": axis}


def numbered(names: Sequence[str]) -> str:
    """Return the expression that labels a number with its name.

    The data has numbers instead of names, because shortened names may be equal, and long ones would take ages to draw.
    """
    return f"{json.dumps([one_line(name, LONGEST_NAME) for name in names])}[datum.value]"


SCALE = 2.0
COLOURS = 64
MARGIN = 12
"""Pixels of white around a PNG."""
PATIENCE_SECONDS = 300.0
"""Longest wait for the process. A chart takes some hundredths of a second, but the pages of a large run are made, and
their charts drawn, in processes that give way to all others."""

_waiting: list[subprocess.Popen[bytes]] = []

_ELEMENTS = frozenset({"svg", "g", "path", "line", "text", "tspan"})
_ATTRIBUTES = frozenset(
    {
        "d", "x", "y", "dx", "dy", "x2", "y2", "transform", "viewBox", "width", "height",
        "fill", "fill-opacity", "stroke", "stroke-dasharray", "stroke-miterlimit", "stroke-opacity", "stroke-width",
        "opacity", "font-size", "font-weight", "text-anchor",
    }
)  # fmt: skip
_DEFAULTS = {"opacity": "1", "stroke-width": "1"}
_VALUE = re.compile(r"(?!.*url)[\w\s.,+()#%-]*")
"""Numbers, path commands, transformations and names of colors; no quotes and no references."""
_NUMBER = re.compile(r"-?\d+\.\d{2,}")


def warm_up() -> None:
    """Start a process that will have loaded its engine before a chart is drawn."""
    if not _waiting:
        with suppress(OSError):  # the drawing tries again, and reports the reason
            _waiting.append(_start())


def png(chart: Mapping[str, Any]) -> bytes:
    """Draw the chart (Vega-Lite) on white and return a PNG with twice the pixels of its description.

    Raises:
        RuntimeError: the chart cannot be drawn; the message is the engine's or the system's.
    """
    [drawing] = _draw("png", [_on_white(chart)])
    return drawing


def svgs(charts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Draw the charts in one process and return them as SVG elements for an HTML page: see `inline_svg`.

    Raises:
        RuntimeError: a chart cannot be drawn; the message is the engine's or the system's.
    """
    drawings = _draw("svg", charts) if charts else []
    return [
        inline_svg(drawing.decode(), str(chart.get("description", "")))
        for chart, drawing in zip(charts, drawings, strict=True)
    ]


def inline_svg(drawing: str, words: str) -> str:
    """Return the drawing as one SVG element for an HTML page.

    Screen readers treat it as one picture. The engine's description of a mark becomes the mark's tooltip. Without a
    font family of its own, the element takes the page's. Charts of one page share no ids, because they have none.

    Args:
        words: description of the picture, for readers who cannot see it.

    Raises:
        RuntimeError: the drawing is no SVG.
    """
    try:
        found = ElementTree.fromstring(drawing)
    except ElementTree.ParseError as error:
        raise RuntimeError(f"the engine drew no SVG: {error}") from None
    root = _kept(found)
    if root is None or root.tag != "svg":
        raise RuntimeError(f"the engine drew {found.tag}, not an SVG")
    root.attrib |= {"class": "chart", "role": "img", "aria-label": words}
    return ElementTree.tostring(root, encoding="unicode")


def _kept(element: Element) -> Element | None:
    """Return the element with its allowed parts; None if nothing of it would be visible."""
    name = element.tag.rpartition("}")[2]
    if name not in _ELEMENTS or element.get("display") == "none":
        return None
    kept = Element(name, _attributes(element.attrib))
    kept.text = element.text if name in ("text", "tspan") else None
    if name == "path" and "aria-label" in element.attrib:
        SubElement(kept, "title").text = element.attrib["aria-label"]
    kept.extend(child for child in map(_kept, element) if child is not None)
    return kept if _is_seen(kept) else None


def _attributes(found: Mapping[str, str]) -> dict[str, str]:
    return {
        name: _NUMBER.sub(lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), value)
        for name, value in found.items()
        if name in _ATTRIBUTES and _DEFAULTS.get(name) != value and _VALUE.fullmatch(value)
    }


def _is_seen(element: Element) -> bool:
    match element.tag:
        case "g":
            return len(element) > 0
        case "path":
            return bool(element.get("d")) and ("fill" in element.attrib or "stroke" in element.attrib)
        case "text" | "tspan":
            return bool(element.text) or len(element) > 0
        case _:
            return True


def _on_white(chart: Mapping[str, Any]) -> dict[str, Any]:
    return {**chart, "background": "white", "padding": MARGIN}


def _line(form: Literal["png", "svg"], charts: Sequence[Mapping[str, Any]]) -> bytes:
    return json.dumps({"format": form, "charts": charts}, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _draw(form: Literal["png", "svg"], charts: Sequence[Mapping[str, Any]]) -> list[bytes]:
    order = _line(form, charts)
    try:
        process = _taken()
    except OSError as error:
        raise RuntimeError(f"the chart could not be drawn: no process for it could be started: {error}") from None
    with process:
        try:
            output, errors = process.communicate(order, PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise RuntimeError(f"the chart was not drawn within {PATIENCE_SECONDS:g} seconds") from None
    if process.returncode:
        reason = errors.decode(errors="replace").strip() or f"exit code {process.returncode}"
        raise RuntimeError(f"the chart could not be drawn: {reason}")
    return [base64.b64decode(drawing) for drawing in json.loads(output)]


def _taken() -> subprocess.Popen[bytes]:
    """Return the process that was started ahead, or a new one; several threads may call this at once."""
    try:
        return _waiting.pop()
    except IndexError:
        return _start()


def _start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", __name__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _dismiss() -> None:
    for process in _waiting:
        process.communicate()  # ends its input, and so the process


atexit.register(_dismiss)


def _main() -> None:
    """Draw charts: read a line, a JSON object with `format` and `charts`, and write a list of drawings in base64.

    Without a line, the process ends.
    """
    import vl_convert

    vl_convert.vegalite_to_svg({"data": {"values": []}, "mark": "bar"})  # loads the engine
    order = sys.stdin.buffer.readline()
    if not order:
        return
    asked = json.loads(order)
    drawn = (_drawing(asked["format"], chart) for chart in asked["charts"])
    json.dump([base64.b64encode(each).decode("ascii") for each in drawn], sys.stdout)


def _drawing(form: str, chart: Mapping[str, Any]) -> bytes:
    import vl_convert
    from PIL import Image

    try:
        if form == "svg":
            return vl_convert.vegalite_to_svg(dict(chart), allowed_base_urls=[]).encode()
        drawn = vl_convert.vegalite_to_png(dict(chart), scale=SCALE, allowed_base_urls=[])
    except ValueError as error:
        # The lines after the first two give only the place of the error in the engine.
        sys.exit(" ".join(str(error).splitlines()[:2]))
    small = BytesIO()
    with Image.open(BytesIO(drawn)) as drawing:
        # A palette reduces the size to a fifth without a visible loss.
        drawing.convert("RGB").quantize(COLOURS).save(small, format="png")
    return small.getvalue()


if __name__ == "__main__":
    _main()
