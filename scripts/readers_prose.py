"""A page's text as pieces of plain Markdown that Jupyter, VS Code and Colab show as they are.

Input is Pandoc's tree of a whole page (``render.source``), with the book's register of numbers. Boxes become
block quotes or ``<details>``, references become words with links, equations get ``\\tag``, notes stand at the
end of their cell. The result is a list of pieces in page order: blocks of one cell, or a code cell's place.
Nothing is numbered anew but headings, and nothing is written here (see ``readers_cells``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from readers_boxes import Box, Boxes, anchor, wrapped
from render.config import Page
from render.crossref import Numbering, Register, Resolver, kind_of
from render.problems import Problems
from render.source import Source
from render.tree import Node, attribute, html_block, html_inline, inlines, plain_text, strings

__all__ = ["Piece", "Prose"]

Address = Callable[[Page, str], str | None]

_EQUATION = re.compile(r"^\{#(eq-[^}\s]+)\}$")
_TABLE_ID = re.compile(r"\{#(tbl-\S+)\}")


@dataclass
class Piece:
    """Blocks of cell ``cell`` inside ``boxes``, or the place of that code cell (``code``)."""

    cell: int
    boxes: tuple[Box, ...]
    blocks: list[Node] = field(default_factory=list)
    code: bool = False
    name: str = ""  # the id of the last heading of the cell, which is cut there


class Prose(Boxes):
    """The text of one page; ``pieces`` after ``run``, and per code cell its captions and Markdown outputs."""

    def __init__(
        self, source: Source, chapter: str, register: Register, address: Address, problems: Problems
    ) -> None:
        self.source, self.problems, self.address = source, problems, address
        self.register = register
        self.resolver = Resolver(source, register, problems)
        # A register of its own: this page's ids are in the book's already.
        self.numbering = Numbering(source, Register(), Problems(), chapter)
        self.cell = 0
        self.pieces: list[Piece] = []
        self.captions: dict[int, list[Node]] = {}
        self.shown: dict[int, list[list[Node]]] = {}
        self.entries: list[Node] = []
        self._notes: list[tuple[int, list[Node]]] = []
        self._asides: list[list[Node]] = []
        self._count, self._name = 0, ""

    # -- the page, piece by piece --------------------------------------------------------------------------

    def run(self, blocks: list[Node]) -> None:
        self._flow(blocks, ())

    def _flow(self, blocks: list[Node], boxes: tuple[Box, ...]) -> None:
        for node in blocks:
            kind = node["t"]
            if kind == "RawBlock" and node["c"][0] == "cell":
                self._flush_notes()
                self.cell, self._name = int(node["c"][1]), ""
                if self.cell in self.source.cells:
                    self.pieces.append(Piece(self.cell, boxes, code=True))
            elif kind == "Div" and self.cell in self.source.cells and "cell" in node["c"][0][1]:
                self._code_cell(node)
            elif kind == "Div" and node["c"][0][0] == "refs":
                self._references(node["c"][1])
            elif kind == "Div" and self._is_flow(node):
                box, content = self.box(node)
                self._flow(content, (*boxes, box) if box else boxes)
            elif kind == "Header" and not boxes:
                # Front ends fold a section, and jump to it, where a cell starts with its heading.
                self._name = node["c"][1][0][:64]
                self.pieces.append(Piece(self.cell, boxes, self.walk([node]), name=self._name))
            else:
                self._add(boxes, self.walk([node]))
        if not boxes:
            self._flush_notes()

    def _is_flow(self, node: Node) -> bool:
        """Whether a div only wraps what it holds, so that its cells can be cells."""
        return kind_of(node["c"][0][0]) not in ("fig", "tbl", "lst")

    def _add(self, boxes: tuple[Box, ...], blocks: list[Node]) -> None:
        asides, self._asides = self._asides, []
        blocks = [*blocks, *({"t": "BlockQuote", "c": [{"t": "Para", "c": one}]} for one in asides)]
        last = self.pieces[-1] if self.pieces else None
        if last and last.cell == self.cell and last.boxes == boxes and not last.code:
            last.blocks += blocks
        elif blocks:
            self.pieces.append(Piece(self.cell, boxes, blocks, name=self._name))

    def _flush_notes(self) -> None:
        notes, self._notes = self._notes, []
        if not notes:
            return
        quoted: list[Node] = []
        for number, blocks in notes:
            mark = [html_inline(f"<sup>{number}</sup>"), {"t": "Space"}]
            if blocks and blocks[0]["t"] in ("Para", "Plain"):
                blocks = [{"t": "Para", "c": [*mark, *blocks[0]["c"]]}, *blocks[1:]]
            else:
                blocks = [{"t": "Para", "c": mark}, *blocks]
            quoted += self.walk(blocks)
        self._add((), [{"t": "BlockQuote", "c": quoted}])

    def _references(self, entries: list[Node]) -> None:
        for entry in entries:
            words = entry["c"][1][0]["c"]
            self.entries.append(
                {"t": "Para", "c": [html_inline(anchor(entry["c"][0][0])), *self.walk(words)]}
            )

    # -- code cells ----------------------------------------------------------------------------------------

    def _code_cell(self, node: Node) -> None:
        """Take captions and Markdown outputs from the form that ``render.source`` gave the cell."""
        captions: list[Node] = []
        shown: list[list[Node]] = []

        def visit(blocks: list[Node]) -> None:
            for block in blocks:
                if block["t"] != "Div":
                    continue
                (identifier, classes, _), content = block["c"]
                if "cell-output-markdown" in classes:
                    shown.append(self.walk(content))
                elif kind_of(identifier) in ("fig", "tbl", "lst") or "subfigure" in classes:
                    visit(content)
                    last = content[-1] if len(content) > 1 else None
                    words = last["c"] if last is not None and last["t"] in ("Para", "Plain") else []
                    captions.append(self.caption(identifier, self.walk(words)))
                else:
                    visit(content)

        visit(node["c"][1])
        self.captions[self.cell] = captions
        self.shown[self.cell] = shown

    def caption(self, identifier: str, words: list[Node]) -> Node:
        """The line under (or over) a figure, table or listing: its name in bold, and an anchor."""
        target = self.register.targets.get(identifier)
        name = f"{target.word}\xa0{target.number}" if target else ""
        bold: list[Node] = [{"t": "Strong", "c": strings(name + (":" if words else ""))}] if name else []
        space: list[Node] = [{"t": "Space"}] if bold and words else []
        return {"t": "Para", "c": [html_inline(anchor(identifier)), *bold, *space, *words]}

    # -- blocks --------------------------------------------------------------------------------------------

    def on_div(self, node: Node) -> list[Node] | None:
        """A box inside a list or another block; at the top of a page, ``_flow`` takes it."""
        attr, content = node["c"]
        if not self._is_flow(node):
            return self._float(attr, content)
        box, content = self.box(node)
        inner = self.walk(content)
        return wrapped(box, inner) if box else inner

    def _float(self, attr: list[Any], content: list[Node]) -> list[Node]:
        """``::: {#fig-x}``, ``{#tbl-x}``, ``{#lst-x}``: what it holds, then its caption."""
        identifier = attr[0]
        words: list[Node] = []
        if len(content) > 1 and content[-1]["t"] == "Para":
            words, content = self.walk(content[-1]["c"]), content[:-1]
        return [*self.walk(content), self.caption(identifier, words)]

    def on_rawblock(self, node: Node) -> list[Node] | None:
        return [] if node["c"][0] in ("cell", "figure") else [node]

    def on_header(self, node: Node) -> list[Node] | None:
        level, (identifier, classes, _), content = node["c"]
        content = self.walk(content)
        numbered = "unnumbered" not in classes
        if level == 1:
            chapter = self.numbering.chapter if numbered else ""
            self.numbering.chapter = chapter
            number = f"Appendix\xa0{chapter} —" if chapter.isalpha() else chapter
        else:
            number = self.numbering.heading(level, identifier, numbered, self.cell)
        start: list[Node] = [*strings(number), {"t": "Space"}] if number else []
        end = [{"t": "Space"}, html_inline(anchor(identifier))] if identifier else []
        return [{"t": "Header", "c": [level, ["", [], []], [*start, *content, *end]]}]

    def on_para(self, node: Node) -> list[Node] | None:
        """Give display formulas a paragraph of their own, and their number as a ``\\tag``."""
        out: list[Node] = []
        line: list[Node] = []
        content, i = list(node["c"]), 0

        def close() -> None:
            if plain_text(line).strip() or any(n["t"] in ("RawInline", "Image") for n in line):
                out.append({"t": "Para", "c": self.walk(_stripped(line))})
            line.clear()

        while i < len(content):
            item = content[i]
            if item["t"] != "Math" or item["c"][0]["t"] != "DisplayMath":
                line.append(item)
                i += 1
                continue
            close()
            i += 1
            skip = i + (i < len(content) and content[i]["t"] in ("Space", "SoftBreak"))
            match = _EQUATION.match(str(content[skip].get("c", ""))) if skip < len(content) else None
            tex = item["c"][1]
            if match:
                i = skip + 1
                number = self.register.targets[match[1]].number if match[1] in self.register.targets else ""
                tex = f"{tex.strip()} \\tag{{{number}}}"
                out.append(html_block(anchor(match[1])))
            out.append({"t": "Para", "c": self.walk([{"t": "Math", "c": [item["c"][0], tex]}])})
        if not out:
            return None
        close()
        return out

    def on_table(self, node: Node) -> list[Node] | None:
        attr, (_, caption), *rest = node["c"]
        words = list(caption[-1]["c"]) if caption else []
        identifier = attr[0]
        if words and (match := _TABLE_ID.fullmatch(str(words[-1].get("c", "")))):
            identifier, words = match[1], words[:-2]
        table = {"t": "Table", "c": [["", [], []], [None, []], *self.walk(rest)]}
        if not words and not identifier:
            return [table]
        return [table, self.caption(identifier, self.walk(words))]

    def on_codeblock(self, node: Node) -> list[Node] | None:
        (identifier, classes, _), text = node["c"]
        block: Node = {"t": "CodeBlock", "c": [["", classes[:1], []], text]}
        out = [block]
        if name := attribute(node["c"][0], "filename"):
            out.insert(0, {"t": "Para", "c": [{"t": "Strong", "c": strings(name)}]})
        if kind_of(identifier) == "lst":
            out.append(self.caption(identifier, self.walk(inlines(attribute(node["c"][0], "lst-cap")))))
        return out

    def on_figure(self, node: Node) -> list[Node] | None:
        (identifier, _, _), (_, caption), content = node["c"]
        words = self.walk(caption[0]["c"]) if caption else []
        blocks = [{"t": "Para", "c": b["c"]} if b["t"] == "Plain" else b for b in self.walk(content)]
        return [*blocks, self.caption(identifier, words)]

    # -- inlines -------------------------------------------------------------------------------------------

    def on_math(self, node: Node) -> list[Node] | None:
        # In a quotation a line break would put the quotation's mark into the formula.
        kind, tex = node["c"]
        return [{"t": "Math", "c": [kind, " ".join(tex.split())]}]

    def on_note(self, node: Node) -> list[Node] | None:
        self._count += 1
        self._notes.append((self._count, node["c"]))
        return [html_inline(f"<sup>{self._count}</sup>")]

    def on_span(self, node: Node) -> list[Node] | None:
        (identifier, classes, _), content = node["c"]
        content = self.walk(content)
        if "aside" in classes or "column-margin" in classes:
            self._asides.append(content)
            return []
        return [html_inline(anchor(identifier)), *content] if identifier else content

    def on_image(self, node: Node) -> list[Node] | None:
        attr, words, (src, title) = node["c"]
        alt = attribute(attr, "fig-alt") or attribute(attr, "alt") or plain_text(words)
        return [{"t": "Image", "c": [["", [], []], strings(alt), [src, title]]}]

    def on_cite(self, node: Node) -> list[Node] | None:
        self.resolver.cell = self.cell
        found = self.resolver.on_cite(node)
        if found is None:  # a work: citeproc has written its words
            return list(self.walk(node["c"][1]))
        return list(self.walk([self._resolved(one) for one in found]))

    def _resolved(self, node: Node) -> Node:
        """A reference as the site words it, its link with the whole address of its target."""
        if node["t"] != "Link":
            return node
        attr, words, (href, title) = node["c"]
        identifier = href.partition("#")[2]
        address = self.address(self.register.targets[identifier].page, identifier)
        if address is None:
            return {"t": "Span", "c": [["", [], []], words]}
        return {"t": "Link", "c": [["", [], attr[2]], words, [address, title]]}

    def on_link(self, node: Node) -> list[Node] | None:
        _, words, (href, title) = node["c"]
        words = self.walk(words)
        path, _, fragment = href.partition("#")
        if re.match(r"[a-z][a-z+.-]*:|//", href):
            return [{"t": "Link", "c": [["", [], []], words, [href, title]]}]
        here = self.source.page
        target = Page(here.resolve(path), "chapter") if path else here
        address = self.address(target, fragment)
        return words if address is None else [{"t": "Link", "c": [["", [], []], words, [address, title]]}]


def _stripped(line: list[Node]) -> list[Node]:
    while line and line[0]["t"] in ("Space", "SoftBreak"):
        line = line[1:]
    while line and line[-1]["t"] in ("Space", "SoftBreak"):
        line = line[:-1]
    return line
