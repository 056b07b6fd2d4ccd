"""Boxes of a page in the form that a notebook has for them: block quotes, and ``<details>`` for folds.

``Boxes`` reads a div of the page (a callout, a theorem, a margin note, tabs) and says which box it is. Titles
and numbers are worded as on the site.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

from render.crossref import CALLOUTS, THEOREMS, Register, kind_of
from render.problems import Problems
from render.source import Source
from render.tree import Node, Walker, attribute, html_block, html_inline, inlines, plain_text, strings

__all__ = ["Box", "Boxes", "anchor", "wrapped"]

_CALLOUTS = {"note": "nte", "tip": "tip", "warning": "wrn", "important": "imp", "caution": "cau"}
_PROOFS = {"proof": "Proof", "remark": "Remark", "solution": "Solution"}
_QUOTED = {"column-margin", "aside", "predict", "checkpoint", "erratum"}


@dataclass(eq=False)
class Box:
    """A box around pieces: ``fold`` for what is closed until asked for, a quotation otherwise."""

    title: list[Node] = field(default_factory=list)
    anchor: str = ""
    fold: bool = False
    open: bool = False
    seen: int = 0  # how many pieces have been written: the first one carries the title


def anchor(identifier: str) -> str:
    """The HTML that a link to ``#identifier`` finds in every notebook front end."""
    return f'<a id="{html.escape(identifier)}"></a>' if identifier else ""


def summary(nodes: list[Node]) -> str:
    """Inlines as the HTML of a summary, in which front ends read no Markdown."""
    out = ""
    for node in nodes:
        kind, content = node["t"], node.get("c", [])
        if kind == "Code":
            out += f"<code>{html.escape(content[1], quote=False)}</code>"
        elif kind in ("Emph", "Strong"):
            tag = "em" if kind == "Emph" else "strong"
            out += f"<{tag}>{summary(content)}</{tag}>"
        elif kind == "Math":
            out += f"${html.escape(content[1], quote=False)}$"
        else:
            out += html.escape(plain_text(node), quote=False)
    return out


class Boxes(Walker):
    """The half of a page's reading that deals with divs."""

    source: Source
    problems: Problems
    register: Register
    cell: int

    def box(self, node: Node) -> tuple[Box | None, list[Node]]:
        """The box that a div stands for, if any, and what is in it."""
        attr, content = node["c"]
        identifier, classes, _ = attr
        kind = kind_of(identifier)
        callout = next((c[8:] for c in classes if c.startswith("callout-") and c[8:] in _CALLOUTS), "")
        if callout:
            title, content = self._title("title", attr, content)
            label = CALLOUTS[_CALLOUTS[callout]]
            if target := self.register.targets.get(identifier):
                name = strings(f"{target.word}\xa0{target.number}" + (":" if title else ""))
                title = [*name, *([{"t": "Space"}] if title else []), *title]
            collapse = attribute(attr, "collapse")
            return Box(title or strings(label), identifier, bool(collapse), collapse == "false"), content
        if kind in THEOREMS:
            title, content = self._title("name", attr, content)
            target = self.register.targets.get(identifier)
            number = f"\xa0{target.number}" if target else ""
            name = [*strings(" ("), *title, *strings(")")] if title else []
            label_nodes: list[Node] = [{"t": "Strong", "c": [*strings(THEOREMS[kind] + number), *name]}]
            return Box(anchor=identifier), _run_in(label_nodes, content)
        if proof := next((name for name in classes if name in _PROOFS), None):
            title, content = self._title("name", attr, content)
            extra = [*strings(" ("), *title, *strings(")")] if title else []
            start: list[Node] = [{"t": "Emph", "c": strings(_PROOFS[proof])}, *extra, *strings(".")]
            return None, self._anchored(identifier, _run_in(start, content))
        if "panel-tabset" in classes:
            return None, _tabs(content)
        if _QUOTED & set(classes):
            return Box(anchor=identifier), content
        return None, self._anchored(identifier, content)

    def _anchored(self, identifier: str, content: list[Node]) -> list[Node]:
        return [html_block(anchor(identifier)), *content] if identifier else content

    def _title(self, key: str, attr: list[Any], content: list[Node]) -> tuple[list[Node], list[Node]]:
        """A box's title, from its first heading or its attribute, and the rest of its content."""
        if content and content[0]["t"] == "Header":
            return self.walk(content[0]["c"][2]), content[1:]
        if len(content) > 1 and content[0]["t"] == "RawBlock" and content[0]["c"][0] == "cell":
            title, rest = self._title(key, attr, content[1:])
            return title, [content[0], *rest]
        text = attribute(attr, key)
        try:
            return (inlines(text) if text else []), content
        except ValueError as error:
            self.problems.add(self.source.where(self.cell, text), str(error))
            return [], content


def wrapped(box: Box, blocks: list[Node], title: list[Node] | None = None) -> list[Node]:
    """Blocks in the form that a box has in a notebook; ``title`` replaces the box's own."""
    title = box.title if title is None else title
    mark = anchor(box.anchor) if not box.seen else ""
    box.seen += 1
    if box.fold:
        start = f"{mark}<details{' open' if box.open else ''}>\n<summary>{summary(title)}</summary>"
        return [html_block(start), *blocks, html_block("</details>")]
    if title:
        blocks = [{"t": "Para", "c": [html_inline(mark), {"t": "Strong", "c": title}]}, *blocks]
    elif mark:
        blocks = _run_in([html_inline(mark)], blocks, space=False)
    return [{"t": "BlockQuote", "c": blocks}]


def _run_in(prefix: list[Node], content: list[Node], space: bool = True) -> list[Node]:
    """Put a run-in title at the start of the first paragraph, or before whatever comes first."""
    skip = 1 if content and content[0]["t"] == "RawBlock" and content[0]["c"][0] == "cell" else 0
    marks, rest = content[:skip], content[skip:]
    if rest and rest[0]["t"] == "Para":
        gap: list[Node] = [{"t": "Space"}] if space else []
        return [*marks, {"t": "Para", "c": [*prefix, *gap, *rest[0]["c"]]}, *rest[1:]]
    return [*marks, {"t": "Para", "c": prefix}, *rest]


def _tabs(content: list[Node]) -> list[Node]:
    """The tabs of a set one below the other, each under its title."""
    level = next((b["c"][0] for b in content if b["t"] == "Header"), 0)
    return [
        {"t": "Para", "c": [{"t": "Strong", "c": b["c"][2]}]}
        if b["t"] == "Header" and b["c"][0] == level
        else b
        for b in content
    ]
