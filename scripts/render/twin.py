"""The Markdown twin of each page, and ``llms.txt``: the book for readers that are programs.

A twin says what its page says: numbers and references in words, outputs as blocks of code, a drawing as its
alternative text with a link to it, what is interactive as its table. It is CommonMark with pipe tables,
footnotes and formulas in dollars; a table that has none of these forms stays HTML.
"""

from __future__ import annotations

import posixpath
from pathlib import Path

from .config import Book, Page
from .page import Built
from .pandoc import Pandoc
from .plain import Plain
from .search import words
from .transform import Transform
from .tree import Node, Walker, strings

__all__ = ["llms", "twin", "twin_name"]

_FORMAT = "commonmark+pipe_tables+footnotes+strikeout+tex_math_dollars"
_QUOTED = {"callout", "margin-note", "theorem", "checkpoint", "predict"}


def twin_name(page: Page) -> str:
    """The twin's path in the site: beside the page."""
    return str(Path(page.output).with_suffix(".md").as_posix())


class _Words(Walker):
    """Reduces a plain tree to what Markdown can say: no divs, no links within the page or to numbers."""

    def on_div(self, node: Node) -> list[Node] | None:
        (_, classes, _), content = node["c"]
        inner: list[Node] = self.walk(content)
        return [{"t": "BlockQuote", "c": inner}] if _QUOTED & set(classes) and inner else inner

    def on_span(self, node: Node) -> list[Node] | None:
        inner: list[Node] = self.walk(node["c"][1])
        if "margin-note" in node["c"][0][1]:
            return [{"t": "Space"}, *strings("("), *inner, *strings(")")]
        return inner

    def on_figure(self, node: Node) -> list[Node] | None:
        _, (_, caption), content = node["c"]
        parts = [part for one in caption for part in one["c"]]
        return [*self.walk(content), *([{"t": "Para", "c": self.walk(parts)}] if parts else [])]

    def on_header(self, node: Node) -> list[Node] | None:
        level, _, content = node["c"]
        return [{"t": "Header", "c": [level, ["", [], []], self.walk(content)]}]

    def on_link(self, node: Node) -> list[Node] | None:
        (_, classes, _), content, (address, _) = node["c"]
        return self.walk(content) if "quarto-xref" in classes or address.startswith("#") else None

    def on_image(self, node: Node) -> list[Node] | None:
        return [{"t": "Image", "c": [["", [], []], *node["c"][1:]]}]

    def on_plain(self, node: Node) -> list[Node] | None:
        """A drawing stands in a block of its own; in a list's item the next block is not its line."""
        inner = self.walk(node["c"])
        alone = len(inner) == 1 and inner[0]["t"] in ("Image", "Link")
        return [{"t": "Para" if alone else "Plain", "c": inner}]


def twin(page: Page, blocks: list[Node], transform: Transform, pandoc: Pandoc) -> str:
    """Write the twin of ``page``."""
    address = posixpath.basename(page.output)

    def drawing(key: str, alt: str) -> list[Node]:
        return [
            {"t": "Link", "c": [["", [], []], strings(f"Figure: {alt}"), [f"{address}#{key}svg", ""]]},
        ]

    plain = _Words().walk(Plain(transform, pandoc, drawing).walk(blocks))
    return pandoc.write(plain, _FORMAT).replace("\xa0", " ")


def llms(book: Book, site: list[Built]) -> bytes:
    """The list of the twins, each with the titles of its sections, as llmstxt.org describes it."""
    lines = [f"# {book.title}", ""]
    if summary := book.description or book.subtitle:
        lines += [f"> {summary}", ""]
    lines += ["Each page is also there as Markdown: its address with .md for .html.", ""]
    group = None
    for built in site:
        own = "Appendices" if built.page.kind == "appendix" else built.page.part or "Chapters"
        if own != group:
            lines += ([""] if group else []) + [f"## {own}", ""]
            group = own
        sections = "; ".join(words(head.inner) for head in built.headings if head.level == 2)
        title = words(built.label).replace("[", "(").replace("]", ")")
        lines.append(f"- [{title}]({twin_name(built.page)})" + (f": {sections}" if sections else ""))
    return ("\n".join(lines) + "\n").encode()
