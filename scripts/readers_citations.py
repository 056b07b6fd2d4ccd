"""Citations of a notebook: which works a page cites, and their words by citeproc."""

from __future__ import annotations

import hashlib
import json

from render.config import Book
from render.crossref import kind_of
from render.pandoc import Pandoc
from render.site import nocite
from render.tree import Node, Walker

__all__ = ["cited_works", "with_citations"]


class _Works(Walker):
    """The keys of the works that a page cites."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def on_cite(self, node: Node) -> list[Node] | None:
        self.keys += [c["citationId"] for c in node["c"][0] if not kind_of(c["citationId"])]
        return None


def cited_works(tree: list[Node]) -> list[str]:
    """The keys of the works that a page cites, each once, in order."""
    works = _Works()
    works.walk(tree)
    return list(dict.fromkeys(works.keys))


def with_citations(book: Book, pandoc: Pandoc, blocks: list[Node], cited: list[str]) -> list[Node]:
    """Let citeproc write the words of citations, knowing all works so that 2020a is the same everywhere."""
    assert book.bibliography
    data = (book.root / book.bibliography).read_bytes()
    meta = {
        "link-citations": {"t": "MetaBool", "c": True},
        "nocite": {"t": "MetaInlines", "c": [nocite(cited)]},
    }
    extra = ["-t", "json", "--citeproc", "--bibliography", book.bibliography]
    out = pandoc.write(blocks, extra, meta, hashlib.sha256(data).hexdigest())
    written: list[Node] = json.loads(out)["blocks"]
    return written
