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
from .crossref import Target, kind_of
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

    def run(self, blocks: list[Node], root: Path) -> list[Node]:
        self.root, self.title, self.files, self.svgs = root, [], {}, {}
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
                content = [*strings(f"Appendix\xa0{chapter} — "), *content]
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

    def float(
        self, identifier: str, content: list[Node], caption: list[Node], cell: int | None = None
    ) -> list[Node]:
        """Content with a numbered caption; a figure's caption stands below, all others' above."""
        kind = kind_of(identifier)
        number = self.numbering.next(kind, identifier, self.cell if cell is None else cell)
        return self._captioned(identifier, kind, f"{self.words[kind]}\xa0{number}", content, caption)

    def _captioned(
        self, identifier: str, kind: str, label: str, content: list[Node], caption: list[Node]
    ) -> list[Node]:
        name = {"t": "Span", "c": [["", ["caption-label"], []], strings(label + (":" if caption else ""))]}
        text = [name, *([{"t": "Space"}] if caption else []), *caption]
        head = [html_block("<figcaption>"), {"t": "Plain", "c": text}, html_block("</figcaption>")]
        inner = [*content, *head] if kind == "fig" else [*head, *content]
        start = f'<figure id="{identifier}" class="quarto-float quarto-float-{kind}">'
        return [html_block(start), *inner, html_block("</figure>")]

    def on_figure(self, node: Node) -> list[Node] | None:
        (identifier, _, _), (_, caption), content = node["c"]
        words = self.walk(caption[0]["c"]) if caption else []
        image = self._only_image(content)
        if image is not None and not attribute(image["c"][0], "fig-alt"):
            self.fail(image["c"][2][0], "a figure without fig-alt: say what it shows")
        body = [{"t": "Plain", "c": self._image(image)}] if image is not None else self.walk(content)
        if kind_of(identifier) == "fig" and self.parent:
            self.subfigure += 1
            letter = chr(96 + self.subfigure)
            number = f"{self.parent} ({letter})"
            self.numbering.add(identifier, Target(self.source.page, "Figure", number), self.cell)
            text = [*strings(f"({letter})"), {"t": "Space"}, *words]
            head = [html_block("<figcaption>"), {"t": "Plain", "c": text}, html_block("</figcaption>")]
            return [html_block(f'<figure id="{identifier}">'), *body, *head, html_block("</figure>")]
        if kind_of(identifier) == "fig":
            return self.float(identifier, body, words)
        head = [html_block("<figcaption>"), {"t": "Plain", "c": words}, html_block("</figcaption>")]
        name = f' id="{identifier}"' if identifier else ""
        return [html_block(f"<figure{name}>"), *body, *head, html_block("</figure>")]

    def _only_image(self, blocks: list[Node]) -> Node | None:
        if len(blocks) == 1 and blocks[0]["t"] in ("Plain", "Para") and len(blocks[0]["c"]) == 1:
            only: Node = blocks[0]["c"][0]
            return only if only["t"] == "Image" else None
        return None

    def on_image(self, node: Node) -> list[Node] | None:
        return self._image(node)

    def _image(self, node: Node) -> list[Node]:
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
        return [
            {"t": "Image", "c": [["", attr[1], kept], strings(alt), [self.source.page.up + target, title]]}
        ]

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
        rest = self.walk(rest)
        table = {"t": "Table", "c": [["", attr[1], []], [short, []], *rest]}
        content = [html_block('<div class="scroll">'), table, html_block("</div>")]
        if self.captioned_by_cell:
            return content
        words = self.walk(words)
        if kind_of(identifier) == "tbl":
            return self.float(identifier, content, words)
        if not words:
            return content
        head = [html_block("<figcaption>"), {"t": "Plain", "c": words}, html_block("</figcaption>")]
        return [html_block("<figure>"), *head, *content, html_block("</figure>")]

    def on_codeblock(self, node: Node) -> list[Node] | None:
        (identifier, classes, rest), text = node["c"]
        kept = [[k, v] for k, v in rest if k not in ("lst-cap", "filename")]
        name = attribute(node["c"][0], "filename")
        block = [{"t": "CodeBlock", "c": [["", classes, kept], text]}]
        if name:
            block.insert(0, html_block(f'<p class="filename">{html.escape(name)}</p>'))
        if kind_of(identifier) != "lst":
            return block if not identifier else [div(identifier, [], block)]
        return self.float(identifier, block, self.attribute_words(attribute(node["c"][0], "lst-cap")))

    def float_div(self, identifier: str, attr: list[Any], content: list[Node]) -> list[Node]:
        """``::: {#fig-x}``, ``#tbl-x``, ``#lst-x``: the last paragraph is the caption."""
        self.check_attributes(attr, identifier)
        caption: list[Node] = []
        if content and content[-1]["t"] == "Para" and len(content) > 1:
            caption, content = content[-1]["c"], content[:-1]
        kind = kind_of(identifier)
        number = self.numbering.next(kind, identifier, self.cell)
        self.parent, self.subfigure = number, 0
        if kind == "tbl":
            self.captioned_by_cell = True
            for block in content:
                if block["t"] == "Table" and block["c"][1][1]:
                    caption = block["c"][1][1][-1]["c"]
        body = self.walk(content)
        self.parent, self.captioned_by_cell = "", False
        columns = attribute(attr, "layout-ncol", "1")
        if self.subfigure:
            body = self.grid(columns, body)
        return self._captioned(identifier, kind, f"{self.words[kind]}\xa0{number}", body, self.walk(caption))

    def grid(self, columns: str, body: list[Node]) -> list[Node]:
        if not re.fullmatch(r"[1-6]", str(columns)):
            self.fail("layout-ncol", f"layout-ncol: expected 1 to 6, found {columns!r}")
        return [html_block(f'<div class="layout" style="--columns:{columns}">'), *body, html_block("</div>")]

    # -- code cells ----------------------------------------------------------------------------------------

    def code_cell(self, number: int, content: list[Node]) -> list[Node]:
        """A cell's div: code, then outputs, with the figure, table or listing that its options make."""
        options = self.source.cells[number].options
        label = str(options.get("label", ""))
        kind = kind_of(label)
        captions: dict[str, list[list[Node]]] = {}
        code: list[Node] = []
        outputs: list[Node] = []
        for block in content:
            classes = block["c"][0][1] if block["t"] in ("Div", "CodeBlock") else []
            if "caption-of-cell" in classes:
                of = attribute(block["c"][0], "of")
                captions.setdefault(of, []).append(block["c"][1][0]["c"] if block["c"][1] else [])
            elif "cell-code" in classes:
                code = self._cell_code(options, block)
            else:
                outputs.append(block)
        if code and options.get("lst-label"):
            words = self.walk(captions.get("lst", [[]])[0])
            code = self.float(str(options["lst-label"]), code, words, number)
        cell_id = f"cell-{label}" if kind else label
        body = self._cell_outputs(number, options, kind, label, captions, outputs)
        return [div(cell_id, ["cell"], [*code, *body])]

    def _cell_code(self, options: dict[str, Any], block: Node) -> list[Node]:
        shown = [{"t": "CodeBlock", "c": [["", ["python", "cell-code"], []], block["c"][1]]}]
        if fold := options.get("code-fold"):
            summary = html.escape(str(options.get("code-summary", "Code")))
            opened = " open" if fold == "show" else ""
            start = f'<details class="code-fold"{opened}><summary>{summary}</summary>'
            return [html_block(start), *shown, html_block("</details>")]
        return shown

    def _cell_outputs(
        self,
        number: int,
        options: dict[str, Any],
        kind: str,
        label: str,
        captions: dict[str, list[list[Node]]],
        outputs: list[Node],
    ) -> list[Node]:
        where = self.source.where(number)
        figures = [b for b in outputs if b["t"] == "RawBlock" and b["c"][0] == "figure"]
        markdown = [b for b in outputs if b["t"] == "Div" and "cell-output-markdown" in b["c"][0][1]]
        if kind in ("fig", "tbl") and options.get("eval", True) is not True:
            self.problems.add(
                where, f"label {label!r}: a cell that is not evaluated makes no {self.words[kind]}"
            )
        if kind not in ("fig", "tbl", ""):
            self.problems.add(
                where, f"label {label!r}: a cell makes fig- and tbl- targets (lst-label for code)"
            )
        if figures and not options.get("fig-alt"):
            self.problems.add(where, "a figure without fig-alt: say what it shows (`#| fig-alt: ...`)")
        own = figures or markdown if kind == "fig" else markdown if kind == "tbl" else []
        if kind in ("fig", "tbl") and not own:
            self.problems.add(
                where, f"label {label!r}: the cell stores no output that is a {self.words[kind]}"
            )
        if not own:
            return list(self.walk(outputs))
        if not captions.get(kind):
            self.problems.add(
                where, f"label {label!r} without {kind}-cap: a {self.words[kind]} has a caption"
            )
        out: list[Node] = []
        for block in outputs:
            if block is own[0]:
                out += self._cell_float(number, options, kind, label, captions, own)
            elif not any(block is one for one in own):
                out += self.walk([block])
        return out

    def _cell_float(
        self,
        number: int,
        options: dict[str, Any],
        kind: str,
        label: str,
        captions: dict[str, list[list[Node]]],
        own: list[Node],
    ) -> list[Node]:
        count = self.numbering.next(kind, label, number)
        self.captioned_by_cell = kind == "tbl"
        parts = [self.walk([block]) for block in own]
        self.captioned_by_cell = False
        subcaptions = captions.get("sub", [])
        body = [block for part in parts for block in part]
        if subcaptions:
            if len(subcaptions) != len(parts):
                found = f"{len(subcaptions)} fig-subcap for {len(parts)} figures"
                self.problems.add(self.source.where(number, "fig-subcap"), found)
            body = []
            for i, (part, words) in enumerate(zip(parts, subcaptions, strict=False), 1):
                target = Target(self.source.page, self.words[kind], f"{count} ({chr(96 + i)})")
                self.numbering.add(f"{label}-{i}", target, number)
                text = [*strings(f"({chr(96 + i)})"), {"t": "Space"}, *self.walk(words)]
                body += [html_block(f'<figure id="{label}-{i}">'), *part, html_block("<figcaption>")]
                body += [{"t": "Plain", "c": text}, html_block("</figcaption></figure>")]
        if subcaptions or "layout-ncol" in options:
            body = self.grid(str(options.get("layout-ncol", 1)), body)
        words = self.walk(captions.get(kind, [[]])[0])
        return self._captioned(label, kind, f"{self.words[kind]}\xa0{count}", body, words)

    def _output_figure(self, key: str) -> list[Node]:
        form, data = self.source.figures[key]
        number, _, index = key.partition("-")
        alts = self.source.cells[int(number)].options.get("fig-alt") or ""
        shown = [k for k in self.source.figures if k.startswith(f"{number}-")]
        alt = str(alts[min(shown.index(key), len(alts) - 1)] if isinstance(alts, list) else alts).strip()
        if form == "svg":
            return [html_block(f'<div class="drawing">{self._svg(data, f"f{key}-", alt, "")}</div>')]
        raw = base64.b64decode(data)
        name = str(Path(self.source.page.path).with_suffix("")) + f"_files/cell-{number}-{index}.png"
        self.files[name] = raw
        width, height = png_size(raw) or (0, 0)
        size = f' width="{width}" height="{height}"' if width else ""
        path = html.escape(self.source.page.up + name)
        return [html_block(f'<div class="drawing"><img src="{path}" alt="{html.escape(alt)}"{size}></div>')]

    def _svg(self, text: str, prefix: str, alt: str, needle: str) -> str:
        """A placeholder for an inlined figure: Pandoc need not carry it, nor its cache depend on it."""
        try:
            self.svgs[prefix] = inline(text, prefix, alt)
        except ValueError as error:
            self.fail(needle, f"SVG figure: {error}")
        return f"<!--svg:{prefix}-->"

    def attribute_words(self, text: str) -> list[Node]:
        try:
            return inlines(text)
        except ValueError as error:
            self.fail(text, str(error))
            return []
