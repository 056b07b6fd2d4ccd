"""The words of citations: citeproc writes all of the book's in one run, and pages take theirs from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from .config import Book
from .crossref import kind_of
from .pandoc import Pandoc
from .tree import Node, Walker, div

__all__ = ["Citations", "citations", "cited_works"]


@dataclass
class Citations(Walker):
    """Puts the words of each citation into a page's blocks, and the works into its Div ``refs``."""

    words: dict[str, list[Node]] = field(default_factory=dict)  # by citation, as JSON
    works: list[Node] = field(default_factory=list)  # the Div of the list of works
    warnings: list[str] = field(default_factory=list)

    def on_cite(self, node: Node) -> list[Node] | None:
        return self.words.get(_key(node))

    def on_div(self, node: Node) -> list[Node] | None:
        return self.works or None if node["c"][0][0] == "refs" else None


class _Found(Walker):
    """The citations of works, each once, in order."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}

    def on_cite(self, node: Node) -> list[Node] | None:
        if not any(kind_of(one["citationId"]) for one in node["c"][0]):
            self.nodes.setdefault(_key(node), node)
        return None


def _key(node: Node) -> str:
    return json.dumps(node["c"], sort_keys=True)


def _keys(found: _Found) -> list[str]:
    return list(dict.fromkeys(one["citationId"] for node in found.nodes.values() for one in node["c"][0]))


def cited_works(tree: list[Node]) -> list[str]:
    """The keys of the works that ``tree`` cites, each once, in order."""
    found = _Found()
    found.walk(tree)
    return _keys(found)


def citations(book: Book, trees: Sequence[list[Node]], pandoc: Pandoc) -> Citations:
    """Let citeproc write the citations of ``trees``, the parsed pages of ``book``.

    Each is a paragraph of its own there: in an author-date style none depends on those before it, and what
    does depend on the others (2020a and 2020b) is the same on every page.
    """
    found = _Found()
    for tree in trees:
        found.walk(tree)
    if not found.nodes or not book.bibliography:
        return Citations()
    alone: list[Node] = [{"t": "Para", "c": [node]} for node in found.nodes.values()]
    path = book.root / book.bibliography
    blocks, warnings = pandoc.cited([*alone, div("refs", [], [])], path, sorted(_keys(found)))
    words = {key: block["c"] for key, block in zip(found.nodes, blocks, strict=False)}
    return Citations(words, blocks[len(words) :], warnings)
