"""Code on a page: Pandoc's text and colours in fewer bytes, docstrings in a fold, drawings in fewer bytes."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import html5lib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from render.coloured import COLOURS, compact, docstring_rests
from render.pandoc import Pandoc
from render.slim import path_data
from render.svg import inline

ROOT = Path(__file__).resolve().parent.parent
# The colour of each class of Pandoc's, and of each element of ours; the others have that of plain code.
COLOUR_OF = {
    name: colour
    for colour, names in {
        "brown": "kw cf im", "blue": "dt va bu", "azure": "fu ex", "ochre": "dv bn fl cn",
        "green": "st ch ss vs sc", "grey": "co do an cv in", "brick": "er al",
    }.items()
    for name in names.split()
}  # fmt: skip
ELEMENTS = {
    "k-": "brown",
    "b-": "blue",
    "f-": "azure",
    "n-": "ochre",
    "s-": "green",
    "c-": "grey",
    "e-": "brick",
}
CODE = (
    '@wraps(f)\ndef g(x: int = 0x1f) -> str:\n    """Words,\n    more: {x}.\n\n    The <rest>, TODO.\n\n'
    '    >>> g(1)\n    """\n    # a <note> & more\n    # second\n'
    '    return f"{x!r} = {x + 1.5:>3}" \'y\' + "\\n" if None else print(x)\n'
)


def pandocs(code: str, language: str = "python") -> str:
    command = [Pandoc(Path()).executable[0], "-f", "markdown", "-t", "html5"]
    text = f"```{language}\n{code}```\n"
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.strip()


def characters(markup: str) -> list[tuple[str, str, bool]]:
    """(character, colour, folded) of everything in a block of code but space."""
    tree = html5lib.parseFragment(markup, namespaceHTMLElements=False)
    found: list[tuple[str, str, bool]] = []

    def visit(element: ET.Element, colour: str, folded: bool) -> None:
        name = element.get("class", "")
        colour = ELEMENTS.get(element.tag, COLOUR_OF.get(name, "") if len(name) == 2 else colour)
        folded = folded or element.tag == "d-"
        found.extend((c, colour, folded) for c in element.text or "")
        for child in element:
            visit(child, colour, folded)
            found.extend((c, colour, folded) for c in child.tail or "")

    visit(tree, "", False)
    return [one for one in found if not one[0].isspace()]


def text_of(markup: str) -> str:
    return "".join(html5lib.parseFragment(markup, namespaceHTMLElements=False).itertext())


def test_code_keeps_its_words_and_colours() -> None:
    """Fewer elements than Pandoc's; the same text, each character in the colour that Pandoc gave it."""
    theirs = pandocs(CODE)
    ours = compact(theirs)
    assert text_of(ours) == CODE.rstrip("\n")
    assert [(c, colour) for c, colour, _ in characters(ours)] == [(c, k) for c, k, _ in characters(theirs)]
    assert len(re.findall(r"<\w-", ours)) < len(re.findall("<span", theirs)) / 2
    assert len(ours) < len(theirs) / 2


def test_each_element_has_its_colour_in_the_style_sheet() -> None:
    css = (ROOT / "scripts/render/assets/book.css").read_text(encoding="utf-8")
    assert set(COLOURS.values()) == set(re.findall(r"^(\w-) \{ color:", css, re.M)) == set(ELEMENTS)


def test_the_rest_of_a_docstring_is_folded() -> None:
    ours = compact(pandocs(CODE))
    assert "".join(c for c, _, inside in characters(ours) if inside) == "The<rest>,TODO.>>>g(1)"
    # The quotes that close it are an element after the fold, before which the page's button stands.
    assert re.search(r'</d->\n    <c->"""', ours)
    assert "<d->" not in compact(pandocs(CODE, "c"))


QUOTES = '"' * 3
DOCSTRINGS: list[tuple[str, list[str]]] = [
    (f"def f():\n    {QUOTES}One.{QUOTES}\n", []),
    (f"def f():\n    {QUOTES}One\n    and the same.\n    {QUOTES}\n", []),
    ("def f():\n    '''One.\n\n    Two.'''\n", ["\n\n    Two."]),
    (
        f"class A:\n    {QUOTES}é.\n\n    B.{QUOTES}\n    def f():\n"
        f"        {QUOTES}C.\n \n        D.\n     {QUOTES}\n",
        ["\n\n    B.", "\n \n        D."],
    ),
    (f"x = {QUOTES}One.\n\nTwo.\n{QUOTES}\n", []),
    (f"def f():\n    return {QUOTES}One.\n\nTwo.{QUOTES}\n", []),
    (f"%timeit x\ndef f():\n    {QUOTES}One.\n\n    Two.{QUOTES}\n", []),
    (f"def f():\n    {QUOTES}One.\n\n    {QUOTES}\n", []),
    ('def f():\n    "One.\\n\\nTwo."\n', []),
]


@pytest.mark.parametrize(("code", "rests"), DOCSTRINGS)
def test_which_part_of_a_docstring_is_its_rest(code: str, rests: list[str]) -> None:
    assert [code[start:end] for start, end in docstring_rests(code)] == rests


SHAPE = st.tuples(
    st.sampled_from("ML"), st.sampled_from(["0", "1", "2.5", "-3"]), st.sampled_from(["0", "1", "7"])
)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.lists(st.one_of(SHAPE, st.just(("z", "", "")))))
def test_short_path_data_draw_the_same_points(shapes: list[tuple[str, str, str]]) -> None:
    long = " ".join(" ".join(filter(None, shape)) for shape in [("M", "0", "0"), *shapes])

    def points(data: str) -> list[tuple[str, ...]]:
        here: tuple[str, ...] = ("", "")
        found: list[tuple[str, ...]] = []
        for command, rest in re.findall(r"([A-Za-z])([^A-Za-z]*)", data):
            numbers = tuple(rest.split())
            here = {"H": (*numbers, here[1]), "V": (here[0], *numbers), "z": ("", "")}.get(command, numbers)
            found.append((command if command in "Mz" else "L", *here))
        return found

    short = path_data(long)
    assert points(short) == points(long) and len(short) <= len(long)


def test_a_drawing_says_each_style_once() -> None:
    style = "fill: none; stroke: red; stroke-width: 0.8; stroke-linejoin: miter; stroke-linecap: square"
    paths = "".join(f'<g><g><path d="M 0 {i} L 9 {i}" style="{style}"/></g></g>' for i in range(9))
    text = inline(
        f'<svg xmlns="http://www.w3.org/2000/svg">{paths}<g clip-path="none"/></svg>', "f-", "Lines"
    )
    root = ET.fromstring(text)
    assert text.count("stroke-linejoin") == 1 and len(root.findall("path")) == 9
    assert {path.attrib["class"] for path in root.findall("path")} == {"a"} and root.find("g") is not None
    assert f"#f-svg .a{{{style.replace(': ', ':').replace('; ', ';')}}}" in text
