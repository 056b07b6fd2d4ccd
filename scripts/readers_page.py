"""One page as notebooks for readers: in its forms, without Quarto syntax, its links and works in words."""

from __future__ import annotations

import json
import mimetypes
import re
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import notebooks
import readers_cells
import readers_setup
import twins
from notebooks import BookError, NotebookNode
from readers_cells import Draft
from readers_prose import Prose
from render.citations import Citations, cited_works
from render.config import Book, Page
from render.crossref import Register
from render.downloads import STUDENT, forms
from render.drafts import Draft as Read
from render.pandoc import Pandoc
from render.problems import Problems
from render.source import Source
from render.tree import Node, html_block

__all__ = ["Made", "made"]

_WRITER = "gfm-tex_math_gfm-footnotes-alerts+tex_math_dollars"
_QUARTO = re.compile(
    r":::|(?<![\w.])@(?:fig|tbl|eq|sec|lst|thm|lem|cor|prp|cnj|def|exm|exr|nte|tip|wrn|imp|cau)-"
    r"|\{#|\{\.|^#\||\[-?@|\{\{<|\{=\w+\}",
    re.M,
)
_FENCED = re.compile(
    r"^( {0,3}(?:> ?)*)(`{3,}|~{3,})[^\n]*\n.*?^\1\2[`~]*[ \t]*$|(`+)(?!`).+?(?<!`)\3(?!`)", re.M | re.S
)


@dataclass(frozen=True)
class Made:
    """The notebooks of one page by their path in the site, and what came of making them."""

    texts: dict[str, str]
    problems: Problems
    attached: bool


def made(
    book: Book,
    draft: Read,
    register: Register,
    pandoc: Pandoc,
    said: Citations,
    wheel: readers_setup.Wheel | None,
) -> Made:
    problems = Problems()
    try:
        page = _Page(book, draft.source, draft.chapter, register, pandoc, problems)
    except BookError as error:
        problems.add(draft.page.path, str(error))
        return Made({}, problems, False)
    _check_twin(book, draft.page, page.twin, problems)
    own = cited_works(draft.tree)
    page.read([*said.walk(draft.tree), *(said.works if own else [])], own)
    texts = {f"{form}/{page.name}": page.form(form, wheel) for form in forms(draft.page)}
    return Made(texts, problems, page.attached)


def _check_twin(book: Book, page: Page, notebook: NotebookNode, problems: Problems) -> None:
    """A notebook that does not say what its text says would reach readers stale."""
    text = (book.root / page.path).with_suffix(".md")
    try:
        if not text.is_file() or _synced(notebook, text):
            return
        import sync  # which takes long to import, and is needed only to say what differs

        found = sync.read_page(text.stem, book.root)
        if found.text_cells != found.notebook_cells:
            difference = sync.first_difference(found)
            problems.add(page.path, f"is not what {text.name} says: {difference}; run `make sync`")
    except BookError as error:
        problems.add(page.path, str(error))


def _synced(notebook: NotebookNode, text: Path) -> bool:
    """Whether both forms of a page are as the last sync left them."""
    record = notebook.metadata.get("modelcall", {})
    return bool(
        record.get("text_sha256") == twins.text_hash(text.read_text(encoding="utf-8", errors="replace"))
        and record.get("inputs_sha256") == twins.inputs_hash(twins.from_notebook(notebook, text.stem))
    )


class _Page:
    """One page on its way to its notebooks."""

    def __init__(
        self,
        book: Book,
        source: Source,
        chapter: str,
        register: Register,
        pandoc: Pandoc,
        problems: Problems,
    ) -> None:
        self.book, self.source, self.pandoc, self.problems = book, source, pandoc, problems
        self.name = Path(source.page.path).name
        self.twin = notebooks.read(book.root / source.page.path, book.root)
        self.prose = Prose(source, chapter, register, self._address, problems)
        self.works: list[Node] = []
        self.texts: dict[str, str] = {}
        self.attached = False

    def read(self, tree: list[Node], cited: list[str]) -> None:
        """Take the page apart; ``cited`` are the works that it cites itself."""
        self.prose.run(tree)
        marks = [f'<a id="ref-{key}"></a>' for key in cited]
        self.works = [e for e in self.prose.entries if e["c"][0]["c"][1] in marks]

    def _address(self, page: Page, fragment: str) -> str | None:
        mark = f"#{fragment}" if fragment else ""
        if page.path == self.source.page.path:
            return mark or None
        if not self.book.site_url:
            return None
        return f"{self.book.site_url}{page.output}{mark}" if page.path.endswith((".md", ".ipynb")) else None

    # -- one form ------------------------------------------------------------------------------------------

    def form(self, folder: str, wheel: readers_setup.Wheel | None) -> str:
        student = folder == STUDENT
        drafts = readers_cells.plan(self.prose, self.twin.cells, student)
        if self.works:
            title = {"t": "Header", "c": [2, ["", [], []], [{"t": "Str", "c": "References"}]]}
            drafts.append(Draft("references", [title, *self.works]))
        self._check_names(drafts)
        self._write(drafts)
        cells = [self._cell(draft) for draft in drafts]
        record: dict[str, Any] = {
            "form": "student" if student else "complete",
            "source": self.source.page.path,
        }
        if wheel:
            setup = readers_setup.first_cell(wheel, self.book.site_url, self._last_run())
            cells.insert(0, readers_cells.new_code("setup", setup))
            record["wheel"] = {"name": wheel.name, "sha256": wheel.sha256}
        metadata = NotebookNode(
            {
                "kernelspec": twins.KERNELSPEC,
                "language_info": twins.LANGUAGE,
                "colab": {"name": self.name, "provenance": [], "toc_visible": True},
                "modelcall": {**record, "last_run": self.source.last_run},
            }
        )
        notebook = NotebookNode(cells=cells, metadata=metadata, nbformat=4, nbformat_minor=5)
        if not student and "widgets" in self.twin.metadata:
            notebook.metadata["widgets"] = self.twin.metadata["widgets"]
        self._check_syntax(notebook, folder)
        return twins.to_bytes(notebook).decode()

    def _last_run(self) -> dict[str, Any]:
        run = self.source.last_run
        for key in ("seconds", "date", "machine"):
            if key not in run:
                self.problems.add(
                    self.source.page.path, f"its record of the last run has no {key}; run `make sync`"
                )
        return {"seconds": 0, "date": "", "machine": "", **run}

    def _check_names(self, drafts: list[Draft]) -> None:
        kept = {draft.id for draft in drafts if draft.code is not None}
        gone = {c.id: c.source for c in self.twin.cells if c.cell_type == "code" and c.id not in kept}
        for cell, name, giver in readers_cells.missing_names(drafts, gone):
            where = f"{self.source.page.path}, cell {cell}"
            self.problems.add(
                where,
                f"reads {name!r}, which only the folded cell {giver} gives; a student has no such cell",
            )

    def _write(self, drafts: list[Draft]) -> None:
        """Turn the drafts' blocks, and the Markdown among their outputs, into text by one run of Pandoc."""
        jobs: list[list[Node]] = []
        targets: list[tuple[Draft, NotebookNode | None]] = []
        numbers = {cell.id: number for number, cell in enumerate(self.twin.cells, 1)}
        for draft in drafts:
            if draft.code is None:
                targets.append((draft, None))
                jobs.append(draft.blocks)
                continue
            outputs = readers_cells.markdown_outputs(draft)  # none in a student's notebook
            shown = self.prose.shown.get(numbers[draft.id], []) if outputs else []
            for output, blocks in zip(outputs, shown, strict=True):
                targets.append((draft, output))
                jobs.append(blocks)
        for (draft, shown_in), text in zip(targets, self._texts(jobs), strict=True):
            if shown_in is not None:
                readers_cells.set_markdown(shown_in, text)
            else:
                draft.text = self._attached(draft, text)

    def _texts(self, jobs: list[list[Node]]) -> list[str]:
        """The jobs as Markdown; what one form of the page has said is not written again for the other."""
        keys = [json.dumps(job) for job in jobs]
        new = {key: job for key, job in zip(keys, jobs, strict=True) if key not in self.texts}
        if new:
            between = html_block("<!--next-->")
            out = self.pandoc.write([block for job in new.values() for block in (*job, between)], _WRITER)
            pieces = out.split("<!--next-->")[:-1]
            self.texts |= {key: text.strip("\n") for key, text in zip(new, pieces, strict=True)}
        return [self.texts[key] for key in keys]

    def _attached(self, draft: Draft, text: str) -> str:
        """Put the image files of a cell into it."""

        def attach(match: re.Match[str]) -> str:
            path = self.book.root / self.source.page.resolve(match[2])
            if re.match(r"[a-z]+:", match[2]) or not path.is_file():
                return match[0]
            kind = mimetypes.guess_type(path.name)[0] or "image/png"
            self.attached = True
            draft.attachments[path.name] = {kind: b64encode(path.read_bytes()).decode()}
            return f"{match[1]}(attachment:{quote(path.name)})"

        return re.sub(r"(!\[[^\]]*\])\(([^()\s]+)\)", attach, text)

    def _cell(self, draft: Draft) -> NotebookNode:
        if draft.code is not None:
            return draft.code
        cell = NotebookNode(cell_type="markdown", id=draft.id, metadata=NotebookNode(), source=draft.text)
        if draft.attachments:
            cell.attachments = NotebookNode(draft.attachments)
        return cell

    def _check_syntax(self, notebook: NotebookNode, folder: str) -> None:
        for cell in notebook.cells:
            for text in _markdown(cell):
                if match := _QUARTO.search(_FENCED.sub("", text)):
                    line = text[: text.find(match[0])].count("\n") + 1
                    where = f"{self.source.page.path}, cell {cell.id}"
                    self.problems.add(
                        where, f"{folder}/{self.name}: {match[0]!r} is left in line {line} of the cell"
                    )
            if cell.cell_type == "code" and re.search(r"^#\|", cell.source, re.M):
                self.problems.add(
                    f"{self.source.page.path}, cell {cell.id}", "an option line below the top of the cell"
                )


def _markdown(cell: NotebookNode) -> list[str]:
    """What a front end shows of a cell as Markdown."""
    if cell.cell_type == "markdown":
        return [cell.source]
    return [
        out.data["text/markdown"] for out in cell.get("outputs", []) if "text/markdown" in out.get("data", {})
    ]
