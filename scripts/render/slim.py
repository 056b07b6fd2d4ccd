"""A drawing in fewer bytes that shows the same: Matplotlib writes each group, style and space out in full.

Groups that say nothing are dissolved, styles that recur become classes of the drawing's own style sheet, ids
are counted and path data lose their spaces and repeated coordinates. No number loses a digit here.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import product
from string import ascii_lowercase

__all__ = ["path_data", "slim"]

_SVG = "{http://www.w3.org/2000/svg}"
_COMMAND = re.compile(r"([A-Za-z])([^A-Za-z]*)")


def slim(root: ET.Element, scope: str) -> None:
    """Shorten ``root`` in place; ``scope`` is the selector of the drawing within its page."""
    _dissolve(root)
    _number_ids(root, scope)
    for path in root.iter(f"{_SVG}path"):
        if "d" in path.attrib:
            path.attrib["d"] = path_data(path.attrib["d"])
    _share_styles(root, scope)


def _dissolve(element: ET.Element) -> None:
    """Replace each group without attributes by its children, and drop groups of nothing."""
    children: list[ET.Element] = []
    for child in element:
        _dissolve(child)
        if child.tag == f"{_SVG}g" and not child.attrib and not (child.text or child.tail or "").strip():
            children += list(child)
        else:
            children.append(child)
    element[:] = children


def _number_ids(root: ET.Element, scope: str) -> None:
    prefix = scope.removeprefix("#").removesuffix("svg")
    named = [element for element in root.iter() if "id" in element.attrib and element is not root]
    names = {element.attrib["id"]: f"{prefix}{i:x}" for i, element in enumerate(named)}
    uses = re.compile(r"#([^)\"'\s]+)")
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "id" and element is not root:
                element.attrib[key] = names[value]
            elif "#" in value and (key == "href" or "url(" in value):
                element.attrib[key] = uses.sub(lambda match: "#" + names.get(match[1], match[1]), value)


def path_data(data: str) -> str:
    """Path data without the spaces and coordinates that repeat what stands before them.

    >>> path_data("M 0 201.6 L 403.2 201.6 L 403.2 0 z")
    'M0 201.6H403.2V0z'
    """
    out: list[str] = []
    here: list[str] = []
    for command, rest in _COMMAND.findall(data):
        numbers = rest.replace(",", " ").split()
        if command == "L" and len(numbers) == 2 and len(here) == 2 and numbers != here:
            if numbers[1] == here[1]:
                out.append("H" + numbers[0])
                here = numbers
                continue
            if numbers[0] == here[0]:
                out.append("V" + numbers[1])
                here = numbers
                continue
        out.append(command + " ".join(numbers))
        # Where a path goes from is known after the commands that end in a point of their own.
        here = numbers[-2:] if command in "MLCSQTA" else []
    return "".join(out)


def _share_styles(root: ET.Element, scope: str) -> None:
    counts = Counter(e.attrib["style"] for e in root.iter() if e is not root and "style" in e.attrib)
    names = ("".join(letters) for size in (1, 2) for letters in product(ascii_lowercase, repeat=size))
    classes: dict[str, str] = {}
    for style, count in counts.most_common():
        if count > 1 and (count - 1) * len(style) > len(scope) + 8:
            classes[style] = next(names)
    if not classes:
        return
    for element in root.iter():
        if (style := element.attrib.get("style", "")) in classes and element is not root:
            del element.attrib["style"]
            element.attrib["class"] = " ".join(filter(None, [element.get("class"), classes[style]]))
    sheet = next(root.iter(f"{_SVG}style"), None)
    if sheet is None:
        sheet = ET.Element(f"{_SVG}style")
        root.insert(0, sheet)
    rules = "".join(f"{scope} .{name}{{{style}}}" for style, name in classes.items())
    sheet.text = (sheet.text or "") + rules
