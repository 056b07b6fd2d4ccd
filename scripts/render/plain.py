"""A page's tree without HTML: what the page's markup says, in Pandoc's own elements, for other formats.

The renderer puts figures, boxes and outputs between raw tags. Here the tags are read back: a figure becomes a
Figure, a box a Div with its classes, an output a code block. A drawing is asked for by its key. Markup that a
cell made is read by Pandoc; where it is interactive, its ``<noscript>`` stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from .pandoc import Pandoc
from .transform import Transform
from .tree import LEAVES, Node, div, strings

__all__ = ["Plain"]

_NOSCRIPT = re.compile(r"<noscript\b[^>]*>(.*?)</noscript>", re.S)
_UNREAD = re.compile(r"<(script|style|template|button|select)\b.*?</\1>|<input\b[^>]*>|<!--.*?-->", re.S)
_IMAGE = re.compile(r"svg:(.*)")


@dataclass
class _Frame:
    """An element that is open: what came before its end."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()


class _Events(HTMLParser):
    """The tags, comments and words of one piece of raw HTML, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str, dict[str, str]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(("open", tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(("close", tag, {}))

    def handle_comment(self, data: str) -> None:
        self.found.append(("comment", data, {}))

    def handle_data(self, data: str) -> None:
        self.found.append(("text", data, {}))


class Plain:
    """Rewrites one page's blocks; ``drawing`` makes what stands for a drawing, of its key and alt text."""

    def __init__(
        self, transform: Transform, pandoc: Pandoc, drawing: Callable[[str, str], list[Node]]
    ) -> None:
        self.transform, self.pandoc, self.drawing = transform, pandoc, drawing

    def walk(self, node: Any) -> Any:
        if isinstance(node, list):
            kinds = {item["t"] for item in node if isinstance(item, dict) and "t" in item}
            if "RawBlock" in kinds:
                return self._blocks(node)
            if "RawInline" in kinds:
                return self._inlines(node)
            return node if kinds and kinds <= LEAVES else [self.walk(item) for item in node]
        if isinstance(node, dict) and isinstance(node.get("c"), (list, dict)) and node["t"] not in LEAVES:
            return {"t": node["t"], "c": self.walk(node["c"])}
        return node

    def _inlines(self, nodes: list[Node]) -> list[Node]:
        out: list[Node] = []
        for node in nodes:
            if node["t"] != "RawInline":
                out.append(self.walk(node))
                continue
            for event, data, _ in _Events(node["c"][1]).found:
                if event == "comment" and (match := _IMAGE.fullmatch(data)):
                    out += self._drawing(match[1])
                elif event == "text":
                    out += strings(data)
        return out

    def _blocks(self, nodes: list[Node]) -> list[Node]:
        stack = [_Frame("")]
        for node in nodes:
            if node["t"] != "RawBlock":
                stack[-1].children.append(self.walk(node))
            elif node["c"][0] == "html5":
                stack[-1].children += self._foreign(node["c"][1])
            else:
                for event in _Events(node["c"][1]).found:
                    self._event(stack, *event)
        while len(stack) > 1:  # markup that a cell opened and did not close
            self._close(stack)
        return stack[0].children

    def _event(self, stack: list[_Frame], event: str, data: str, attributes: dict[str, str]) -> None:
        top = stack[-1]
        if event == "comment":
            if match := _IMAGE.fullmatch(data):
                top.children.append({"t": "Plain", "c": self._drawing(match[1])})
            elif data.startswith("code:"):
                (_, classes, _), code = self.transform.codes[int(data[5:])]["c"]
                top.children.append({"t": "CodeBlock", "c": [["", classes[:1], []], code]})
        elif top.tag == "pre" and not (event == "close" and data == "pre"):
            top.text.append(data if event == "text" else "")
        elif event == "text" and data.strip():
            top.children.append({"t": "Plain", "c": strings(data)})
        elif event == "open" and data == "img":
            image = [["", [], []], strings(attributes.get("alt", "")), [attributes.get("src", ""), ""]]
            top.children.append({"t": "Plain", "c": [{"t": "Image", "c": image}]})
        elif event == "open":
            stack.append(_Frame(data, attributes))
        elif event == "close" and len(stack) > 1:
            self._close(stack)

    def _close(self, stack: list[_Frame]) -> None:
        frame = stack.pop()
        stack[-1].children += self._closed(frame)

    def _closed(self, frame: _Frame) -> list[Node]:
        """What an element becomes, now that all of it is known."""
        inner, name = frame.children, frame.attributes.get("id", "")
        if frame.tag == "pre":
            return [{"t": "CodeBlock", "c": [["", ["output"], []], "".join(frame.text).rstrip("\n")]}]
        if frame.tag == "figcaption":
            return [{"t": "Caption", "c": inner}]
        if frame.tag == "figure":
            captions = [block for one in inner if one["t"] == "Caption" for block in one["c"]]
            content = [one for one in inner if one["t"] != "Caption"]
            figure: Node = {"t": "Figure", "c": [["", [], []], [None, captions], content]}
            # Pandoc finds the id of a Div, not of a Figure, when it splits a book into files.
            return [div(name, frame.classes, [figure]) if name else figure]
        if frame.attributes.get("role") == "tablist" or frame.tag == "button":
            return []
        if "equation" in frame.classes:
            words = [part for one in inner if one["t"] == "Plain" for part in [*one["c"], {"t": "Space"}]]
            return [div(name, ["equation"], [{"t": "Para", "c": words[:-1]}])]
        if frame.tag in ("summary", "p"):
            words = [part for one in inner if one["t"] == "Plain" for part in one["c"]]
            title = {"t": "Para", "c": [{"t": "Strong", "c": words}]}
            return [div(name, frame.classes or ["title"], [title])]
        if frame.tag == "span":
            return inner
        return [div(name, frame.classes, inner)]

    def _drawing(self, key: str) -> list[Node]:
        known = self.transform.drawings.get(key)  # none of one that cannot be read, which is reported there
        return self.drawing(key, known[1]) if known else []

    def _foreign(self, markup: str) -> list[Node]:
        """What a cell's own markup says without a script."""
        if "<noscript" in markup:
            markup = "".join(_NOSCRIPT.findall(markup))
        blocks: list[Node] = self.pandoc.html_tree(_with_ends(_UNREAD.sub("", markup)))["blocks"]
        return blocks


def _with_ends(markup: str) -> str:
    """Tables with the end tags of cells and rows, which HTML lets one leave out and Pandoc does not.

    >>> _with_ends("<table><tr><th>T<th>U<tr><td>1<td>2</table>")
    '<table><tr><th>T</th><th>U</th></tr><tr><td>1</td><td>2</td></tr></table>'
    """
    out: list[str] = []
    cell = row = ""
    for piece in re.split(r"(</?(?:t[dhr]|thead|tbody|tfoot|table)\b[^>]*>)", markup):
        match = re.match(r"<(/?)(t[dhr]|thead|tbody|tfoot|table)\b", piece)
        if match:
            out.append(cell)
            cell = ""
            if match[2] not in ("td", "th"):
                out.append(row)
                row = ""
            if match[2] in ("td", "th", "tr") and match[1]:
                continue  # its end is written already
            if match[2] in ("td", "th"):
                cell = f"</{match[2]}>"
            elif match[2] == "tr":
                row = "</tr>"
        out.append(piece)
    return "".join([*out, cell, row])
