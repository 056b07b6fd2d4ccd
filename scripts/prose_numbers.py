"""Every number in the prose of a page is a number that the page prints.

A number of the prose passes if an output of the page shows it, or if shown code has it as a literal (an
input such as ``temperature=0.5``), at the prose's precision or a finer one that adds only zeros. The sign
may be left to words. Free are: code spans, headings, citations and cross-references, links to the ledger,
names with digits (GPT-4, 8-bit), versions, years and dates, numbered parts of a book (Section 1.3),
ordinals, exponents and subscripts, and small or whole constants of formulas.

Not done: it does not ask whether the number is the right one, only whether it was printed.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nbformat import NotebookNode

import notebooks
from notebooks import ROOT, relative
from render.pandoc import Pandoc

_GROUPED = r"\d{1,3}(?:[,\u202f\u2009\u00a0]\d{3})+(?:\.\d+)?"
_PLAIN = r"\d+(?:\.\d+)?"
_NUMBER = re.compile(rf"(?P<sign>(?<![\w.)])[-−])?(?<![\w.])(?P<body>{_GROUPED}(?!\d)|{_PLAIN})")
_PRINTED = re.compile(r"[-−]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_EXEMPT = re.compile(
    r"(?:\b(?:Chapters?|Sections?|Figures?|Tables?|Equations?|Exercises?|Parts?|Steps?|Lines?|Rules?|Pages?)|§§?)"
    r"[\s\u00a0]*[A-Z]?\.?\d+(?:\.\d+)*(?:\s*(?:-|–|to|and|,)\s*\d+(?:\.\d+)*)*"
    r"|\b(?:Python|NumPy|CUDA|Pandoc|Quarto|version|v)[\s\u00a0]*\d+(?:\.\d+)*"
    r"|\d+\.\d+\.\d+(?:\.\d+)*"  # a version, or an address
    r"|\b\d{4}-\d\d-\d\d\b"
    r"|\b(?:19|20)\d\d\b(?![.,]\d)"
    r"|\b\d+(?:st|nd|rd|th|-bit|-bits)\b"
    r"|\b10[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+"
    r"|[A-Za-z_][\w-]*\d[\w.-]*",  # names: cl100k_base, GPT-4, B-20tok
    re.IGNORECASE,
)
# Of a raw-HTML output only what the page shows at once counts as printed.
_UNSEEN = re.compile(r"<(script|noscript|svg|style)\b.*?</\1>|</?[a-z][^<>]*>", re.S)
_CAPTIONS = ("fig-cap", "fig-subcap", "fig-alt", "tbl-cap")
_SKIPPED = frozenset({"Code", "CodeBlock", "Header", "Cite", "RawInline", "Superscript", "Subscript"})
_MARK = re.compile(r"<!-- cell (\S+) -->")
_NAMED_IN_MATH = re.compile(r"\\(?:text|mathrm|operatorname|begin|end|label|tag)\*?\{[^{}]*\}|\\[A-Za-z]+")


@dataclass(frozen=True)
class Number:
    """A number in the prose: the cell it is in, its text, and the words around it."""

    cell: str
    text: str
    context: str


def prose(notebook: NotebookNode) -> list[tuple[str, str]]:
    """Return the texts of a page, each with the id of its cell: Markdown, and the captions of figures."""
    texts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            texts.append((cell.id, cell.source))
        elif cell.cell_type == "code":
            options = notebooks.split(cell.source).options
            for key in _CAPTIONS:
                value = options.get(key, [])
                texts += [(cell.id, str(each)) for each in ([value] if isinstance(value, str) else value)]
    return texts


def numbers(notebook: NotebookNode) -> list[Number]:
    """Return the numbers in the prose of a page that have to be printed on it."""
    source = "\n\n".join(f"<!-- cell {cell_id} -->\n\n{text}" for cell_id, text in prose(notebook))
    with TemporaryDirectory() as cache:
        tree, _ = Pandoc(Path(cache)).tree(source)
    found: list[Number] = []
    cell = ""
    for kind, text in _texts(tree["blocks"]):
        if kind == "raw":
            cell = [cell, *_MARK.findall(text)][-1]
        else:
            found += [Number(cell, each, " ".join(text.split())) for each in _in_text(kind, text)]
    return found


def _texts(node: Any) -> Iterator[tuple[str, str]]:
    """Yield runs of text ("text"), formulas ("inline", "display") and raw blocks ("raw") in order."""
    if isinstance(node, list):
        if node and all(isinstance(each, dict) and "t" in each for each in node):
            yield from _run(node)
        else:
            for each in node:
                yield from _texts(each)
    elif isinstance(node, dict):
        if node.get("t") == "RawBlock":
            yield "raw", node["c"][1]
        elif node.get("t") not in _SKIPPED:
            yield from _texts(node.get("c", []))


def _run(nodes: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    text = ""
    later: list[tuple[str, str]] = []
    for node in nodes:
        kind: str = node["t"]
        content: Any = node.get("c")
        if kind == "Str":
            text += content
        elif kind in {"Space", "SoftBreak", "LineBreak"}:
            text += " "
        elif kind == "Math":
            text += " ◦ "
            later.append(("display" if content[0]["t"] == "DisplayMath" else "inline", content[1]))
        elif kind in {"Emph", "Strong", "Underline", "Strikeout", "SmallCaps"}:
            inner = list(_run(content))
            text += inner[0][1] if inner and inner[0][0] == "text" else ""
            later += [each for each in inner if each[0] != "text"]
        elif kind == "Quoted":
            inner = list(_run(content[1]))
            text += inner[0][1] if inner and inner[0][0] == "text" else ""
            later += [each for each in inner if each[0] != "text"]
        elif kind in {"Link", "Span"}:
            target = content[2][0] if kind == "Link" else ""
            if not re.search(r"(^|/)ledger\.\w+#", target):
                later += _run(content[1])
            text += " ◦ "
        elif kind in {"Superscript", "Subscript"}:
            text = re.sub(r"\b10$", "", text) + " "
        elif kind in _SKIPPED:
            text += " ◦ "
        else:  # blocks, and notes with blocks in them
            later += _texts(node)
    if text.strip(" ◦"):
        yield "text", text
    yield from later


def _in_text(kind: str, text: str) -> Iterator[str]:
    if kind == "text":
        text = _EXEMPT.sub(" ◦ ", text)
        yield from (match[0] for match in _NUMBER.finditer(text))
        return
    text = _NAMED_IN_MATH.sub(" ", text.replace("{,}", ","))
    text = re.sub(r"[_^]\s*(?:\{[^{}]*\}|\\?\w)", " ", text)
    for match in _NUMBER.finditer(text):
        body = match["body"]
        whole = "." not in body
        if not whole or (kind == "inline" and len(body) > 1 and not re.fullmatch("10+", body)):
            yield match[0]


def printed(notebook: NotebookNode) -> set[str]:
    """Return the numbers that a page shows in outputs and as literals of shown code, as they are written."""
    found: set[str] = set()
    for cell in notebooks.code_cells(notebook):
        code = notebooks.split(cell.source)
        if code.options.get("include", True) is False:
            continue
        if code.options.get("echo", True) is not False:
            found |= _literals(code.python)
        if code.options.get("output", True) is not False:
            for output in cell.outputs:
                data = output.get("data", {})
                markdown = _UNSEEN.sub(" ", data.get("text/markdown", ""))
                shown = [output.get("text", ""), markdown or data.get("text/plain", "")]
                for text in shown:
                    found |= _written(text)
    return found


def _written(text: str) -> set[str]:
    ungrouped = re.sub(r"(?<=\d)[,_\u202f\u2009](?=\d{3}(?!\d))", "", text)
    return {*_PRINTED.findall(text), *_PRINTED.findall(ungrouped)}


def _literals(python: str) -> set[str]:
    found: set[str] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(python).readline):
            if token.type in {tokenize.NUMBER, tokenize.STRING} or token.type > tokenize.COMMENT:
                found |= _written(token.string)
    except (tokenize.TokenError, SyntaxError):
        return found  # IPython's own syntax: what came before it counts
    return found


def _value(text: str) -> Decimal:
    return Decimal(re.sub(r"[,\u202f\u2009\u00a0]", "", text.replace("−", "-")))


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])


def unprinted(notebook: NotebookNode) -> list[Number]:
    """Return the numbers of the prose that the page does not print."""
    shown: dict[Decimal, int] = {}
    for text in printed(notebook):
        value = _value(text)
        exponent = value.as_tuple().exponent
        decimals = max(_decimals(text), -exponent if isinstance(exponent, int) else 0)
        for each in (value, value.copy_abs()):  # abs() rounds, and overflows on "6e99999999"
            shown[each] = max(shown.get(each, 0), decimals)
    return [
        number for number in numbers(notebook) if shown.get(_value(number.text), -1) < _decimals(number.text)
    ]


def problems(notebook: NotebookNode, path: Path, root: Path = ROOT) -> list[str]:
    """Say which numbers of a page's prose it does not print, each with its place."""
    return [
        f"{relative(path, root)}, cell {number.cell}: {number.text} is printed nowhere on the page: "
        f"...{_around(number)}..."
        for number in unprinted(notebook)
    ]


def _around(number: Number) -> str:
    at = number.context.find(number.text)
    return number.context[max(0, at - 40) : at + len(number.text) + 40]
