"""Small pieces of Pandoc's JSON tree: constructors, plain text, and a little inline Markdown.

``Walker`` visits a tree in document order; a subclass defines ``on_<type>`` methods that return the elements
to put in place, or None to keep the element and go on inside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

__all__ = [
    "LEAVES",
    "Node",
    "Walker",
    "attribute",
    "div",
    "html_block",
    "html_inline",
    "inlines",
    "plain_text",
    "strings",
]

Node = dict[str, Any]
LEAVES = frozenset(
    {"Str", "Space", "SoftBreak", "LineBreak", "Code", "Math", "RawInline", "RawBlock", "CodeBlock"}
    | {"HorizontalRule", "AlignDefault", "AlignLeft", "AlignRight", "AlignCenter", "ColWidth"}
    | {"ColWidthDefault"}
)


def html_block(text: str) -> Node:
    return {"t": "RawBlock", "c": ["html", text]}


def html_inline(text: str) -> Node:
    return {"t": "RawInline", "c": ["html", text]}


def div(
    identifier: str, classes: list[str], content: list[Node], attributes: list[list[str]] | None = None
) -> Node:
    return {"t": "Div", "c": [[identifier, classes, attributes or []], content]}


def strings(text: str) -> list[Node]:
    """``text`` as one unbreakable Str: the caller's spaces are meant."""
    return [{"t": "Str", "c": text}]


def attribute(attr: list[Any], key: str, default: str = "") -> str:
    return next((str(value) for name, value in attr[2] if name == key), default)


def plain_text(node: Any) -> str:
    """The text a reader sees of inlines or blocks, without notes."""
    if isinstance(node, list):
        return "".join(plain_text(item) for item in node)
    if not isinstance(node, dict):
        return ""
    kind, content = node.get("t"), node.get("c")
    if kind in ("Str", "Code", "Math"):
        return str(content if kind == "Str" else content[1])  # type: ignore[index]
    if kind in ("Space", "SoftBreak", "LineBreak"):
        return " "
    if kind in ("Note", "RawInline", "RawBlock"):
        return ""
    if kind == "Quoted":
        marks = "‘’" if content[0]["t"] == "SingleQuote" else "“”"  # type: ignore[index]
        return marks[0] + plain_text(content[1]) + marks[1]  # type: ignore[index]
    return plain_text(content)


def inlines(text: str) -> list[Node]:
    """Inlines of an attribute's text (a title, a caption): words, ``code``, *emphasis*, **strong**.

    Raises:
        ValueError: it holds other Markdown, which only a heading or a caption in the text can hold.
    """
    out: list[Node] = []
    for piece in re.split(r"(`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*)", text):
        if piece.startswith("`") and len(piece) > 2:
            out.append({"t": "Code", "c": [["", [], []], piece[1:-1]]})
        elif piece.startswith("**") and len(piece) > 4:
            out.append({"t": "Strong", "c": inlines(piece[2:-2])})
        elif piece.startswith("*") and len(piece) > 2:
            out.append({"t": "Emph", "c": inlines(piece[1:-1])})
        elif re.search(r"\$|\]\(|(?<!\w)@\w", piece):
            raise ValueError(f"an attribute holds words, `code` and *emphasis* only, found {text!r}")
        else:
            words = re.split(r"( )", piece.replace("'", "’"))
            out += [{"t": "Space"} if word == " " else {"t": "Str", "c": word} for word in words if word]
    return out


class Walker:
    """Visits every element below a list of blocks or inlines, in document order.

    What no handler changes may be shared between the trees, so a handler makes elements and changes none.
    """

    @cached_property
    def _handlers(self) -> _Handlers:
        return _Handlers(self)

    def walk(self, node: Any) -> Any:
        if isinstance(node, list):
            handlers = self._handlers
            out: list[Any] = []
            for item in node:
                if isinstance(item, list):
                    # One that starts with a string is a target, or an element's attributes.
                    out.append(self.walk(item) if item and not isinstance(item[0], str) else item)
                    continue
                kind = item.get("t") if isinstance(item, dict) else None
                if kind is None:
                    out.append(self.walk(item))
                    continue
                handler = handlers[kind]
                new = handler(item) if handler else None
                if new is not None:
                    out += new
                elif kind not in LEAVES and isinstance(item.get("c"), (list, dict)):
                    out.append({"t": kind, "c": self.walk(item["c"])})
                else:
                    out.append(item)
            return out
        if isinstance(node, dict):
            return {key: self.walk(value) for key, value in node.items()}
        return node


class _Handlers(dict[str, Callable[[Node], list[Node] | None] | None]):
    """A walker's method for each kind of element, None where it has none."""

    def __init__(self, walker: Walker) -> None:
        super().__init__()
        self.walker = walker

    def __missing__(self, kind: str) -> Callable[[Node], list[Node] | None] | None:
        self[kind] = getattr(self.walker, f"on_{kind.lower()}", None)
        return self[kind]
