"""The pages of the book, read and numbered: what HTML, Markdown, notebooks and EPUB are made from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .config import Book, Page
from .crossref import Numbering, Register
from .pandoc import Pandoc
from .parallel import Job
from .problems import Problems
from .source import Source, read
from .transform import Transform
from .tree import Node

__all__ = ["Draft", "read_pages"]


@dataclass
class Draft:
    """A page of the book, read and numbered."""

    page: Page
    source: Source
    chapter: str
    tree: list[Node]  # as Pandoc reads the source
    blocks: list[Node]  # numbered, and once all pages are, with the words of references
    transform: Transform
    cited: list[str] = field(default_factory=list)
    worded: list[Node] = field(default_factory=list)  # with those of citations too


def read_pages(book: Book, pandoc: Pandoc, register: Register, problems: Problems) -> Job[list[Draft]]:
    """Read and number every page of the book; fill ``register``."""
    drafts: list[Draft] = []
    by_path = {page.path: page for page in book.pages}
    chapter = appendix = 0
    sources = [read(book.root, page, problems, book.code_fold) for page in book.pages]
    trees = yield from pandoc.trees([source.text for source in sources])
    for page, source, (tree, warnings) in zip(book.pages, sources, trees, strict=True):
        for warning in warnings:
            line = re.search(r" line (\d+)", warning)
            place = source.where_line(int(line[1])) if line else page.path
            problems.add(place, re.sub(r"\s+(at )?line \d+ column \d+", "", " ".join(warning.split())))
        label = _label(tree["blocks"], page, chapter, appendix)
        chapter += label.isdigit()
        appendix += label.isalpha()
        numbering = Numbering(source, register, problems, label)
        transform = Transform(source, numbering, by_path, problems)
        blocks = transform.run(tree["blocks"], book.root)
        drafts.append(Draft(page, source, label, tree["blocks"], blocks, transform))
    return drafts


def _label(blocks: list[Node], page: Page, chapter: int, appendix: int) -> str:
    """The chapter number or appendix letter of a page; "" if its H1 is unnumbered."""
    title = next((b for b in blocks if b["t"] == "Header" and b["c"][0] == 1), None)
    if title is None or "unnumbered" in title["c"][1][1]:
        return ""
    return chr(65 + appendix) if page.kind == "appendix" else str(chapter + 1)
