"""The tree of one page with Quarto's constructs made plain: numbered headings, floats, cells and links.

Boxes (callouts, theorems, tabs, margin notes) are in ``boxes``. References stay as they are until every page
has been numbered (``crossref.Resolver``). An unknown construct that looks like Quarto's is a mistake.
"""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path
from typing import Any

from .boxes import Boxes
from .crossref import KINDS, Target, kind_of
from .svg import inline, png_size
from .tree import Node, attribute, div, html_block, html_inline, inlines, plain_text, strings

__all__ = ["Transform"]

_EQUATION = re.compile(r"^\{#(eq-[^}\s]+)\}$")
_FLOAT_ATTRIBUTES = {"fig-alt", "width", "height", "layout-ncol", "lst-cap", "tbl-colwidths"}


class Transform(Boxes):
    """Rewrites one page; ``files`` collects what the page shows, as site path -> bytes or source path."""

    title: list[Node]
    files: dict[str, bytes | Path]
    svgs: dict[str, str]
    codes: list[Node]
    drawings: dict[str, tuple[str, str]]  # key -> the drawing as it came, its alternative text

    def run(self, blocks: list[Node], root: Path) -> list[Node]:
        self.root, self.title, self.files, self.svgs, self.codes = root, [], {}, {}, []
        self.drawings = {}
        out: list[Node] = self.walk(blocks)
        self.cell = 0
        if not self.title:
            self.fail("", "no H1: every page has exactly one, with an id")
        seen = len([b for b in self.source.lines if b == "```{=cell}"])
        if seen and self.marks != seen:
            self.fail("", "a code fence or a comment opened in a Markdown cell is never closed")
        return out

    # -- places, headings and text -------------------------------------------------------------------------

    def on_rawblock(self, node: Node) -> list[Node] | None:
        form, text = node["c"]
        if form == "cell":
            self.cell, self.marks = int(text), self.marks + 1
            return None
        if form == "figure":
            return self._output_figure(text)
        if form != "html":
            self.fail(f"{{={form}}}", f"raw {form} is not supported: {text.strip()[:40]!r}")
        elif not re.match(r"<pre><code>|<details class=\"code-fold\"|</details>$", text):
            # To the HTML writer the same; to ``plain``, not the renderer's own.
            return [{"t": "RawBlock", "c": ["html5", text]}]
        return [node]

    def on_rawinline(self, node: Node) -> list[Node] | None:
        if node["c"][0] != "html":
            self.fail(node["c"][1].strip(), f"raw {node['c'][0]} in the text: {node['c'][1].strip()[:40]!r}")
        return [node]

    def on_str(self, node: Node) -> list[Node] | None:
        if "{{<" in node["c"]:
            self.fail("{{<", "shortcodes are not supported here (include stands alone on its line)")
        if match := re.search(r"\{#[\w-]+\}?", node["c"]):
            self.fail(
                match[0], f"{match[0]!r} stands in the text: an id follows a heading, formula or caption"
            )
        return None

    def on_code(self, node: Node) -> list[Node] | None:
        # To Pandoc, a fence that Quarto would execute is code in the text.
        if match := re.match(r"\{(python|r|julia|ojs|mermaid|dot|bash)\}(?=\s|$)", node["c"][1]):
            self.fail(
                match[0], f"code fence {match[0]!r}: cells live in notebooks, diagrams are their figures"
            )
        return None

    def on_orderedlist(self, node: Node) -> list[Node] | None:
        if node["c"][0][1]["t"] == "Example":
            self.fail("@", "a line that starts with `@name.` is a numbered example for Pandoc: reword it")
        return None

    def on_header(self, node: Node) -> list[Node] | None:
        level, (identifier, classes, rest), content = node["c"]
        numbered = "unnumbered" not in classes
        content = self.walk(content)
        if level == 1:
            if self.title:
                self.fail("# " + plain_text(content), "a second H1; every page has exactly one")
                return []
            self.title = content
            if not re.search(r"\{[^}]*#" + re.escape(identifier) + r"\b", self.source.text):
                self.fail("# ", "the H1 has no id of its own: write `# Title {#sec-name}`")
            if not numbered:
                self.numbering.chapter = ""
            chapter = self.numbering.chapter
            word = "Appendix" if chapter.isalpha() else "Chapter"
            if kind_of(identifier) == "sec":
                self.numbering.add(identifier, Target(self.source.page, word, chapter), self.cell)
            if chapter.isalpha():
                dash = '<span class="appendix-dash"> —</span> '
                start = f'<span class="appendix-label">Appendix&nbsp;{chapter}{dash}</span>'
                content = [html_inline(start), *content]
            elif chapter:
                start = f'<span class="chapter-number">{chapter}&nbsp; </span><span class="chapter-title">'
                content = [html_inline(start), *content, html_inline("</span>")]
        else:
            number = self.numbering.heading(level, identifier, numbered, self.cell)
            if number:
                content = [html_inline(f'<span class="header-section-number">{number}</span> '), *content]
        return [{"t": "Header", "c": [level, [identifier, classes, rest], content]}]

    def on_para(self, node: Node) -> list[Node] | None:
        """Number display formulas that carry an id, and lift them out of their paragraph."""
        out: list[Node] = []
        line: list[Node] = []
        content, i = node["c"], 0
        while i < len(content):
            item = content[i]
            rest = content[i + 1 : i + 3]
            label = (
                rest[1] if len(rest) == 2 and rest[0]["t"] in ("Space", "SoftBreak") else (rest or [{}])[0]
            )
            match = _EQUATION.match(str(label.get("c", ""))) if item["t"] == "Math" else None
            if match and item["c"][0]["t"] == "DisplayMath":
                number = self.numbering.next("eq", match[1], self.cell)
                out += [{"t": "Para", "c": line}] if plain_text(line).strip() else []
                out += [
                    html_block(f'<div id="{match[1]}" class="equation">'),
                    {"t": "Plain", "c": [item]},
                    html_block(f'<span class="equation-number">({number})</span></div>'),
                ]
                line, i = [], i + (2 if label is rest[0] else 3)
                while i < len(content) and content[i]["t"] in ("Space", "SoftBreak"):
                    i += 1
                continue
            line.append(item)
            i += 1
        if not out:
            return None
        out += [{"t": "Para", "c": line}] if plain_text(line).strip() else []
        return list(self.walk(out))

    def on_link(self, node: Node) -> list[Node] | None:
        attr, content, (href, title) = node["c"]
        path, mark, fragment = href.partition("#")
        if path.endswith((".ipynb", ".md", ".qmd")) and ":" not in path:
            target = self.source.page.resolve(path)
            page = self.pages.get(target)
            if page is None:
                self.fail(href, f"link to {target!r}, which is not a page of the book")
                return []
            href = self.source.page.way_to(page) + mark + fragment
        return [{"t": "Link", "c": [attr, self.walk(content), [href, title]]}]

    # -- floats --------------------------------------------------------------------------------------------

    def figure(
        self, identifier: str, content: list[Node], caption: list[Node], above: bool = False
    ) -> list[Node]:
        """A figure element; a caption of no words is left out."""
        head = [html_block("<figcaption>"), {"t": "Plain", "c": caption}, html_block("</figcaption>")]
        inner = content if not caption else [*head, *content] if above else [*content, *head]
        kind = kind_of(identifier)
        name = f' id="{identifier}" class="quarto-float quarto-float-{kind}"' if kind else ""
        return [html_block(f"<figure{name}>"), *inner, html_block("</figure>")]

    def float(
        self, identifier: str, content: list[Node], caption: list[Node], number: str = ""
    ) -> list[Node]:
        """A numbered figure, table or listing: a figure's caption stands below, the others' above."""
        kind = kind_of(identifier)
        number = number or self.numbering.next(kind, identifier, self.cell)
        label = f"{KINDS[kind]}\xa0{number}" + (":" if caption else "")
        name: Node = {"t": "Span", "c": [["", ["caption-label"], []], strings(label)]}
        words = [name, {"t": "Space"}, *caption] if caption else [name]
        return self.figure(identifier, content, words, above=kind != "fig")

    def subfigure(self, identifier: str, content: list[Node], caption: list[Node]) -> list[Node]:
        self.letters += 1
        letter = f"({chr(96 + self.letters)})"
        target = Target(self.source.page, "Figure", f"{self.parent} {letter}")
        self.numbering.add(identifier, target, self.cell)
        return self.figure(identifier, content, [*strings(letter), {"t": "Space"}, *caption])

    def on_figure(self, node: Node) -> list[Node] | None:
        (identifier, _, _), (_, caption), content = node["c"]
        words = self.walk(caption[0]["c"]) if caption else []
        image = content[0]["c"][0] if content and len(content[0]["c"]) == 1 else {}
        if image.get("t") == "Image" and not attribute(image["c"][0], "fig-alt"):
            self.fail(image["c"][2][0], "a figure without fig-alt: say what it shows")
        if kind_of(identifier) != "fig":
            return self.figure("", self.walk(content), words)
        return (self.subfigure if self.parent else self.float)(identifier, self.walk(content), words)

    def on_image(self, node: Node) -> list[Node] | None:
        attr, words, (src, title) = node["c"]
        alt = attribute(attr, "fig-alt") or attribute(attr, "alt") or plain_text(words)
        self.check_attributes(attr, src)
        if not alt:
            self.fail(src, f"image {src!r} has no alternative text")
        if re.match(r"[a-z]+:|//", src):
            self.fail(src, f"image {src!r} is not a file of the book")
            return []
        target = self.source.page.resolve(src)
        path = self.root / target
        if target.startswith("../") or not path.is_file():
            self.fail(src, f"no image {target!r}")
            return []
        if path.suffix == ".svg":
            return [html_inline(self._svg(path.read_text(encoding="utf-8"), f"i{len(self.svgs)}-", alt, src))]
        self.files[target] = path
        kept = [[k, v] for k, v in attr[2] if k in ("width", "height")]
        if not kept and (size := png_size(path.read_bytes()[:32])):
            kept = [["width", str(size[0])], ["height", str(size[1])]]
        address = [self.source.page.up + target, title]
        return [{"t": "Image", "c": [["", attr[1], kept], strings(alt), address]}]

    def check_attributes(self, attr: list[Any], needle: str) -> None:
        for key, _ in attr[2]:
            if re.match(r"fig-|layout|tbl-|lst-|out-", key) and key not in _FLOAT_ATTRIBUTES:
                self.fail(key if key in self.source.text else needle, f"attribute {key!r} is not supported")

    def on_table(self, node: Node) -> list[Node] | None:
        attr, (short, caption), *rest = node["c"]
        words = caption[-1]["c"] if caption else []
        identifier = attr[0]
        if words and (match := re.fullmatch(r"\{#(tbl-\S+)\}", str(words[-1].get("c", "")))):
            identifier, words = match[1], words[:-2]
        self.check_attributes(attr, identifier)
        table = {"t": "Table", "c": [["", attr[1], []], [short, []], *self.walk(rest)]}
        content = [html_block('<div class="scroll">'), table, html_block("</div>")]
        if self.in_table:
            self.table_caption = words
            return content
        words = self.walk(words)
        if kind_of(identifier) == "tbl":
            return self.float(identifier, content, words)
        return self.figure("", content, words, above=True) if words else content

    def on_codeblock(self, node: Node) -> list[Node] | None:
        (identifier, classes, rest), text = node["c"]
        kept = [[k, v] for k, v in rest if k not in ("lst-cap", "filename")]
        name = attribute(node["c"][0], "filename")
        # A placeholder: code is coloured on its own, so that an edit of the text need not colour it again.
        block = [html_block(f"<!--code:{len(self.codes)}-->")]
        self.codes.append({"t": "CodeBlock", "c": [["", classes, kept], text]})
        if name:
            block.insert(0, html_block(f'<p class="filename">{html.escape(name)}</p>'))
        if kind_of(identifier) != "lst":
            return block if not identifier else [div(identifier, [], block)]
        return self.float(identifier, block, self.attribute_words(attribute(node["c"][0], "lst-cap")))

    def float_div(self, identifier: str, attr: list[Any], content: list[Node]) -> list[Node]:
        """``::: {#fig-x}`` (tbl, lst): the last paragraph is the caption, unless the table has its own."""
        self.check_attributes(attr, identifier)
        caption: list[Node] = []
        if len(content) > 1 and content[-1]["t"] == "Para":
            caption, content = self.walk(content[-1]["c"]), content[:-1]
        if "subfigure" in attr[1]:
            return self.subfigure(identifier, self.walk(content), caption)
        kind = kind_of(identifier)
        self.parent = self.numbering.next(kind, identifier, self.cell)
        self.letters, self.in_table, self.table_caption = 0, kind == "tbl", []
        number, body = self.parent, self.walk(content)
        caption = caption or self.walk(self.table_caption)
        self.parent, self.in_table = "", False
        if self.letters or attribute(attr, "layout-ncol"):
            body = self.grid(attribute(attr, "layout-ncol", "1"), body)
        return self.float(identifier, body, caption, number)

    def grid(self, columns: str, body: list[Node]) -> list[Node]:
        if not re.fullmatch(r"[1-6]", columns):
            self.fail("layout-ncol", f"layout-ncol: expected 1 to 6, found {columns!r}")
        return [html_block(f'<div class="layout" style="--columns:{columns}">'), *body, html_block("</div>")]

    def _output_figure(self, key: str) -> list[Node]:
        form, data = self.source.figures[key]
        number, _, index = key.partition("-")
        alts = self.source.cells[int(number)].options.get("fig-alt") or ""
        shown = [k for k in self.source.figures if k.startswith(f"{number}-")]
        alt = str(alts[min(shown.index(key), len(alts) - 1)] if isinstance(alts, list) else alts).strip()
        if form == "image/svg+xml":
            return [html_block(f'<div class="drawing">{self._svg(data, f"f{key}-", alt, "")}</div>')]
        raw = base64.b64decode(data)
        if not (size := png_size(raw)):
            self.fail("", "the stored image/png is not a PNG file")
        name = str(Path(self.source.page.path).with_suffix("")) + f"_files/cell-{number}-{index}.png"
        self.files[name] = raw
        width, height = size or (0, 0)
        image = f'<img src="{html.escape(self.source.page.up + name)}" alt="{html.escape(alt)}"'
        return [html_block(f'<div class="drawing">{image} width="{width}" height="{height}"></div>')]

    def _svg(self, text: str, prefix: str, alt: str, needle: str) -> str:
        """A placeholder for an inlined figure: Pandoc need not carry it, nor its cache depend on it."""
        try:
            self.svgs[prefix] = inline(text, prefix, alt)
            self.drawings[prefix] = text, alt
        except ValueError as error:
            self.fail(needle, f"SVG figure: {error}")
        return f"<!--svg:{prefix}-->"

    def attribute_words(self, text: str) -> list[Node]:
        try:
            return inlines(text)
        except ValueError as error:
            self.fail(text, str(error))
            return []
