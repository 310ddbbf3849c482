"""An SVG of the drawing engine made fit to stand in an HTML page.

Owns what may be in it: a few elements and attributes that draw, and nothing that runs, loads, links or styles. Whatever
the engine writes besides is left out, and texts are escaped anew, so that no name in a chart becomes markup.
"""

import re
from collections.abc import Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

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
"""Numbers, path commands, transformations and names of colours; no quotes and no references."""
_NUMBER = re.compile(r"-?\d+\.\d{2,}")


def inline_svg(drawing: str, words: str) -> str:
    """The drawing as one SVG element for an HTML page.

    It is one picture to a screen reader, what the engine says of a single mark becomes its tooltip, and without a font
    family it takes the page's. Charts of one page share no ids, because they have none.

    Args:
        words: what the picture says, for who cannot see it.

    Raises:
        RuntimeError: the drawing is none that this module knows how to keep.
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
    """The element with what may stay of it; None where nothing of it would be seen."""
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
        name: _NUMBER.sub(_rounded, value)
        for name, value in found.items()
        if name in _ATTRIBUTES and _DEFAULTS.get(name) != value and _VALUE.fullmatch(value)
    }


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")


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
