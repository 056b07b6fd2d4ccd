"""Quarto's boxes: callouts, theorem-like environments, tabsets, margin notes and layouts.

Markup and wording follow Quarto's defaults; the class names are the same where a reader of both would look.
"""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from typing import Any

from .config import Page
from .crossref import CALLOUTS, THEOREMS, Numbering, kind_of
from .problems import Problems
from .source import Source
from .tree import Node, Walker, attribute, div, html_block, html_inline, plain_text, strings

__all__ = ["Boxes"]

_CALLOUTS = {"note": "nte", "tip": "tip", "warning": "wrn", "important": "imp", "caution": "cau"}
_PROOFS = {"proof": "Proof", "remark": "Remark", "solution": "Solution"}
# Boxes that say in words what they are, so that they read the same without a style sheet.
_NAMED = {"erratum": "Erratum", "predict": "Predict", "checkpoint": "Checkpoint"}
_KNOWN_ATTRIBUTES = {"title", "collapse", "icon", "appearance", "name", "group", "layout-ncol"}
# Classes by which Quarto would do something that this renderer does not.
_QUARTO_CLASS = re.compile(
    r"(callout|column|panel|content|tabset|cell|quarto|layout|grid|g-col|fragment|incremental|nonincremental)(-|$)"
)


class Boxes(Walker, ABC):
    """The half of a page's transformation that deals with divs and spans."""

    def __init__(
        self, source: Source, numbering: Numbering, pages: dict[str, Page], problems: Problems
    ) -> None:
        self.source, self.numbering, self.pages, self.problems = source, numbering, pages, problems
        self.cell = self.marks = self.tabsets = 0
        # Inside a float div: its number, its subfigures so far, whether it is a table's, the table's caption.
        self.parent, self.letters, self.in_table = "", 0, False
        self.table_caption: list[Node] = []

    def fail(self, needle: str, message: str) -> None:
        self.problems.add(self.source.where(self.cell, needle), message)

    # What the other half (``transform``) provides.
    @abstractmethod
    def float_div(self, identifier: str, attr: list[Any], content: list[Node]) -> list[Node]: ...

    @abstractmethod
    def grid(self, columns: str, body: list[Node]) -> list[Node]: ...

    @abstractmethod
    def attribute_words(self, text: str) -> list[Node]: ...

    def on_div(self, node: Node) -> list[Node] | None:
        attr, content = node["c"]
        identifier, classes, attributes = attr
        kind = kind_of(identifier)
        for name in _NAMED.keys() & set(classes):
            self._check_name(name, content)
        for name in classes:
            if name.startswith("callout-") and name[8:] in _CALLOUTS:
                return self._callout(name[8:], attr, content)
        if kind in THEOREMS:
            return self._theorem(kind, attr, content)
        if kind in CALLOUTS:
            self.fail(identifier, f"id {identifier!r} belongs on a callout of its kind")
        if proof := next((name for name in classes if name in _PROOFS), None):
            return self._proof(proof, attr, content)
        if "panel-tabset" in classes:
            return self._tabset(attr, content)
        if "column-margin" in classes or "aside" in classes:
            own = [name for name in classes if name not in ("column-margin", "aside")]
            return [div(identifier, ["margin-note", *own], self.walk(content), [["role", "note"]])]
        if kind in ("fig", "tbl", "lst"):
            return self.float_div(identifier, attr, content)
        unknown = [n for n in classes if _QUARTO_CLASS.match(n) and not re.match(r"cell($|-output)", n)]
        needle = unknown[0] if unknown else identifier
        if unknown:
            self.fail(needle, f"div class {unknown[0]!r} is not supported")
        for key, _ in attributes:
            if re.match(r"layout|fig-|tbl-|lst-|when-", key) and key not in _KNOWN_ATTRIBUTES:
                self.fail(key, f"div attribute {key!r} is not supported")
        if columns := attribute(attr, "layout-ncol"):
            return self.grid(columns, self.walk(content))
        return None

    def on_span(self, node: Node) -> list[Node] | None:
        (identifier, classes, _), content = node["c"]
        if "aside" in classes or "column-margin" in classes:
            attr = [identifier, ["margin-note"], [["role", "note"]]]
            return [{"t": "Span", "c": [attr, self.walk(content)]}]
        for name in classes:
            if _QUARTO_CLASS.match(name):
                self.fail(name, f"span class {name!r} is not supported")
        return None

    def _check_name(self, name: str, content: list[Node]) -> None:
        first = next((b for b in content if b["t"] != "RawBlock"), None)
        start = first["c"][0] if first and first["t"] == "Para" else None
        if not start or start["t"] != "Strong" or plain_text(start) != f"{_NAMED[name]}.":
            self.fail(f".{name}", f"a box of class {name!r} starts with **{_NAMED[name]}.**")

    def _title(self, key: str, attr: list[Any], content: list[Node]) -> tuple[list[Node], list[Node]]:
        """A box's title, from its attribute or its first heading, and the rest of its content."""
        if content and content[0]["t"] == "Header":
            return self.walk(content[0]["c"][2]), content[1:]
        if content and content[0]["t"] == "RawBlock" and content[0]["c"][0] == "cell" and len(content) > 1:
            title, rest = self._title(key, attr, content[1:])
            return title, [content[0], *rest]
        text = attribute(attr, key)
        return (self.attribute_words(text) if text else []), content

    def _callout(self, name: str, attr: list[Any], content: list[Node]) -> list[Node]:
        identifier, classes, attributes = attr
        for key, _ in attributes:
            if key not in _KNOWN_ATTRIBUTES:
                self.fail(key, f"callout attribute {key!r} is not supported")
        kind = _CALLOUTS[name]
        if kind_of(identifier) in CALLOUTS and kind_of(identifier) != kind:
            self.fail(identifier, f"id {identifier!r} on a callout-{name}: expected {kind}-...")
        title, content = self._title("title", attr, content)
        if kind_of(identifier) == kind:
            number = self.numbering.next(kind, identifier, self.cell)
            label = strings(f"{CALLOUTS[kind]}\xa0{number}" + (":" if title else ""))
            title = [*label, {"t": "Space"}, *title] if title else label
        title = title or strings(CALLOUTS[kind])
        extra = [c for c in classes if c != f"callout-{name}" and not c.startswith("callout")]
        names = html.escape(" ".join(["callout", f"callout-{name}", *extra]))
        ident = f' id="{identifier}"' if identifier else ""
        body = [div("", ["callout-body"], self.walk(content))]
        if (collapse := attribute(attr, "collapse")) in ("true", "false"):
            start = f'<details{ident} class="{names}"{" open" if collapse == "false" else ""}>'
            head = [html_block(start + '<summary class="callout-title">'), {"t": "Plain", "c": title}]
            return [*head, html_block("</summary>"), *body, html_block("</details>")]
        head = [html_block(f'<div{ident} class="{names}" role="note"><p class="callout-title">')]
        return [*head, {"t": "Plain", "c": title}, html_block("</p>"), *body, html_block("</div>")]

    def _prefixed(self, prefix: list[Node], content: list[Node]) -> list[Node]:
        """Put a run-in title at the start of the first paragraph, or before whatever comes first."""
        skip = 1 if content and content[0]["t"] == "RawBlock" and content[0]["c"][0] == "cell" else 0
        marks, content = content[:skip], content[skip:]
        if content and content[0]["t"] == "Para":
            first = {"t": "Para", "c": [*prefix, {"t": "Space"}, *content[0]["c"]]}
            return [*marks, first, *content[1:]]
        return [*marks, {"t": "Para", "c": prefix}, *content]

    def _theorem(self, kind: str, attr: list[Any], content: list[Node]) -> list[Node]:
        identifier, classes, _ = attr
        title, content = self._title("name", attr, content)
        number = self.numbering.next(kind, identifier, self.cell)
        name = [*strings(" ("), *title, *strings(")")] if title else []
        label: list[Node] = [{"t": "Strong", "c": [*strings(f"{THEOREMS[kind]}\xa0{number}"), *name]}]
        span = {"t": "Span", "c": [["", ["theorem-title"], []], label]}
        names = ["theorem", *([THEOREMS[kind].lower()] if kind != "thm" else []), *classes]
        return [div(identifier, names, self.walk(self._prefixed([span], content)))]

    def _proof(self, name: str, attr: list[Any], content: list[Node]) -> list[Node]:
        title, content = self._title("name", attr, content)
        extra = [*strings(" ("), *title, *strings(")")] if title else []
        label = [{"t": "Emph", "c": strings(_PROOFS[name])}, *extra, *strings(".")]
        span = {"t": "Span", "c": [["", ["proof-title"], []], label]}
        names = ["proof", *[c for c in attr[1] if c != "proof"]]
        return [div(attr[0], names, self.walk(self._prefixed([span], content)))]

    def _tabset(self, attr: list[Any], content: list[Node]) -> list[Node]:
        heads = [i for i, b in enumerate(content) if b["t"] == "Header"]
        if not heads or [b for b in content[: heads[0]] if b["t"] != "RawBlock"]:
            self.fail(
                "panel-tabset", "a tabset starts with a heading for its first tab (a blank line before it)"
            )
            return []
        level = content[heads[0]]["c"][0]
        starts = [i for i in heads if content[i]["c"][0] == level]
        self.tabsets += 1
        group = f' data-group="{html.escape(attribute(attr, "group"))}"' if attribute(attr, "group") else ""
        buttons: list[Node] = []
        panels: list[Node] = []
        for n, (start, end) in enumerate(zip(starts, [*starts[1:], len(content)], strict=True), 1):
            name = f"tabset-{self.tabsets}-{n}"
            title = content[start]["c"][2]
            chosen = "true" if n == 1 else "false"
            button = f'<button role="tab" type="button" id="{name}-tab" aria-controls="{name}"'
            buttons.append(html_inline(f'{button} aria-selected="{chosen}">'))
            buttons += [*self.walk(title), html_inline("</button>")]
            heading = f'<p class="tab-title" aria-hidden="true">{html.escape(plain_text(title))}</p>'
            panel = f'<div role="tabpanel" id="{name}" aria-labelledby="{name}-tab">{heading}'
            panels += [html_block(panel), *self.walk(content[start + 1 : end]), html_block("</div>")]
        return [
            html_block(f'<div class="panel-tabset"{group}><div role="tablist">'),
            {"t": "Plain", "c": buttons},
            html_block("</div>"),
            *panels,
            html_block("</div>"),
        ]
