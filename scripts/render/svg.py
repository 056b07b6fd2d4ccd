"""An SVG figure made part of a page: unique ids, the page's own colours and font, a name for readers.

Colours are found by value: each light hex of the book's palette becomes ``var(--fig-<role>)``, which the
style sheet defines for the light and the dark page.
"""

from __future__ import annotations

import ast
import re
import struct
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

from .slim import slim

__all__ = ["inline", "palette", "palette_css", "png_size"]

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_STYLE = Path(__file__).parents[2] / "code" / "modelcall" / "lab" / "style.py"
# Attributes with coordinates in points; a hundredth of a point is finer than any screen.
_COORDINATES = {"d", "points", "transform", "x", "y", "cx", "cy", "r", "width", "height"} | {
    side + end for side in "xy" for end in "12"
}
_FORBIDDEN = {"script", "foreignObject", "iframe"}


@cache
def palette() -> dict[str, tuple[str, str]]:
    """Role -> (light, dark), read from the figure style's source: importing it would start Matplotlib."""
    for node in ast.parse(_STYLE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "PALETTE" and node.value:
            colours: dict[str, tuple[str, str]] = ast.literal_eval(node.value)
            return colours
    raise LookupError(f"no PALETTE in {_STYLE}")


def palette_css() -> str:
    roles = "".join(f"--fig-{role}:light-dark({a},{b});" for role, (a, b) in palette().items())
    return f":root{{{roles}}}\n"


def inline(text: str, prefix: str, alt: str) -> str:
    """Return ``text`` as an element of an HTML page whose ids start with ``prefix``.

    Raises:
        ValueError: ``text`` is not an SVG document, or it holds a script or an outside resource.
    """
    text = re.sub(r"<!DOCTYPE[^>\[]*(\[.*?\])?\s*>", "", text, count=1, flags=re.S)
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise ValueError(f"not XML: {error}") from None
    if root.tag != f"{{{_SVG}}}svg":
        raise ValueError(f"expected an svg element, found {root.tag!r}")
    roles = {light.lower(): f"var(--fig-{role})" for role, (light, _) in palette().items()}
    colour = re.compile("|".join(map(re.escape, roles)), re.I)
    used = set(re.findall(r"(?:url\(#|href=[\"']#)([^)\"']+)", text))

    def fix(value: str) -> str:
        value = re.sub(r"url\(#([^)]+)\)", lambda m: f"url(#{prefix}{m[1]})", value)
        value = re.sub(r"font:([^;]*?)(?:'[^']*'|\b[A-Za-z-]+)(?:,[^;]*)?(?=;|$)", _font, value)
        value = re.sub(r"font-family:[^;]*", "font-family:var(--sans)", value)
        value = re.sub(r"(?<=[:;]) +| +(?=;)", "", value)
        return colour.sub(lambda m: roles[m[0].lower()], value)

    for parent in list(root.iter()):
        for child in list(parent):
            local = child.tag.rsplit("}", 1)[-1] if isinstance(child.tag, str) else ""
            if local in _FORBIDDEN:
                raise ValueError(f"an SVG figure may not hold <{local}>")
            if local == "metadata":
                parent.remove(child)
    for element in root.iter():
        if element.tag not in (f"{{{_SVG}}}text", f"{{{_SVG}}}tspan"):  # indentation is no content
            for child in element:
                child.tail = (child.tail or "").strip() or None
            element.text = (element.text or "").strip() or None
        if element.tag == f"{{{_SVG}}}style" and element.text:
            element.text = fix(element.text).replace("*{", f"#{prefix}svg *{{")
        for key, value in list(element.attrib.items()):
            local = key.rsplit("}", 1)[-1]
            if local == "href" and value.startswith("#"):
                element.attrib[key] = f"#{prefix}{value[1:]}"
            elif local == "href" and not value.startswith("data:"):
                raise ValueError(f"an SVG figure may not load {value!r}")
            elif local == "id" and value in used:
                element.attrib[key] = prefix + value
            elif local == "id":
                del element.attrib[key]
            elif local == "font-family":
                element.attrib[key] = "var(--sans)"
            else:
                element.attrib[key] = fix(_rounded(value) if local in _COORDINATES else value)
            if key == f"{{{_XLINK}}}href":
                element.attrib["href"] = element.attrib.pop(key)
    width, height = (_points(root.attrib.pop(side, "")) for side in ("width", "height"))
    if "viewBox" not in root.attrib and width and height:
        root.attrib["viewBox"] = f"0 0 {width:g} {height:g}"
    root.attrib.pop("version", None)
    if width:
        root.attrib["style"] = f"--natural:{width / 0.75:.0f}px"
    root.attrib |= {"id": f"{prefix}svg", "role": "img", "aria-label": alt, "class": "figure-svg"}
    slim(root, f"#{prefix}svg")
    ET.register_namespace("", _SVG)
    text = ET.tostring(root, encoding="unicode", short_empty_elements=True).replace(" />", "/>")
    return text.replace(f' xmlns="{_SVG}"', "", 1)  # in HTML an svg element needs no namespace


def _rounded(value: str) -> str:
    """``value`` with its numbers to two decimals; a scale is a factor, not a length."""
    if "scale" in value or "matrix" in value:
        return value
    return re.sub(r"-?\d*\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value)


def _font(match: re.Match[str]) -> str:
    return f"font:{match[1]}var(--sans)"


def _points(length: str) -> float:
    match = re.fullmatch(r"([\d.]+)(pt|px)?", length.strip())
    return float(match[1]) * (0.75 if match[2] != "pt" else 1.0) if match else 0.0


def png_size(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels of a PNG file, or None if it is none."""
    if data[:8] != b"\x89PNG\r\n\x1a\n" or len(data) < 24:
        return None
    width, height = struct.unpack(">II", data[16:24])
    return int(width), int(height)
