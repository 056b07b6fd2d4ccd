"""Numbers and references over the whole book, worded as Quarto words them by default.

``Numbering`` hands out the numbers of one page and fills the book's register; ``Resolver`` replaces
``@fig-x`` and its variants once every page has been numbered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .config import Page
from .problems import Problems
from .tree import Node, Walker, strings

if TYPE_CHECKING:
    from .source import Source

__all__ = ["KINDS", "THEOREMS", "Numbering", "Register", "Resolver", "Target", "kind_of"]

THEOREMS = {
    "thm": "Theorem", "lem": "Lemma", "cor": "Corollary", "prp": "Proposition", "cnj": "Conjecture",
    "def": "Definition", "exm": "Example", "exr": "Exercise",
}  # fmt: skip
CALLOUTS = {"nte": "Note", "tip": "Tip", "wrn": "Warning", "imp": "Important", "cau": "Caution"}
KINDS = {"fig": "Figure", "tbl": "Table", "eq": "Equation", "lst": "Listing", "sec": "Section"}
KINDS |= THEOREMS | CALLOUTS


def kind_of(identifier: str) -> str:
    """The cross-reference kind of an id (``fig`` of ``fig-x``), or ""."""
    prefix, dash, rest = identifier.partition("-")
    kind = prefix[:1].lower() + prefix[1:]
    return kind if dash and rest and kind in KINDS else ""


@dataclass(frozen=True)
class Target:
    """Something that can be referred to: where it is and how it is called."""

    page: Page
    word: str
    number: str  # "" where Quarto gives none (an unnumbered heading)


@dataclass
class Register:
    """Every target of the book by id."""

    targets: dict[str, Target] = field(default_factory=dict)


@dataclass
class Numbering:
    """The counters of one page; ``chapter`` is "3", "A" or "" for a page without a number."""

    source: Source
    register: Register
    problems: Problems
    chapter: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    sections: list[int] = field(default_factory=list)

    def next(self, kind: str, identifier: str, cell: int) -> str:
        """Number the next ``kind`` and register it; return the number as printed."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        number = f"{self.chapter}.{self.counts[kind]}" if self.chapter else str(self.counts[kind])
        self.add(identifier, Target(self.source.page, KINDS[kind], number), cell)
        return number

    def heading(self, level: int, identifier: str, numbered: bool, cell: int) -> str:
        """Number a heading below the page's title; return its number or ""."""
        number = ""
        if numbered and self.chapter:
            depth = level - 1
            self.sections = [*self.sections, *[0] * depth][:depth]
            self.sections[-1] += 1
            number = ".".join([self.chapter, *map(str, self.sections)])
        if kind_of(identifier) == "sec":
            self.add(identifier, Target(self.source.page, "Section", number), cell)
        return number

    def add(self, identifier: str, target: Target, cell: int) -> None:
        other = self.register.targets.setdefault(identifier, target)
        if other is not target:
            place = self.source.where(cell, identifier)
            self.problems.add(place, f"id {identifier!r} is already used on {other.page.path}")


class Resolver(Walker):
    """Replaces the cross-references of one page by links."""

    def __init__(self, source: Source, register: Register, problems: Problems) -> None:
        self.source, self.register, self.problems = source, register, problems
        self.cell = 0
        self.cited: list[str] = []

    def on_rawblock(self, node: Node) -> list[Node] | None:
        if node["c"][0] != "cell":
            return None
        self.cell = int(node["c"][1])
        return []

    def on_cite(self, node: Node) -> list[Node] | None:
        citations = node["c"][0]
        kinds = [kind_of(one["citationId"]) for one in citations]
        if not any(kinds):
            self.cited += [one["citationId"] for one in citations]
            return None
        if not all(kinds):
            ids = ", ".join("@" + one["citationId"] for one in citations)
            place = self.source.where(self.cell, "@" + citations[0]["citationId"])
            self.problems.add(place, f"a citation and a cross-reference in one bracket ({ids}); use two")
            return []
        out: list[Node] = []
        for citation in citations:
            if out:
                out += [{"t": "Str", "c": ","}, {"t": "Space"}]
            out += self._link(citation)
        return out

    def _link(self, citation: dict[str, Any]) -> list[Node]:
        given = citation["citationId"]
        identifier = given[:1].lower() + given[1:]
        target = self.register.targets.get(identifier)
        if target is None or not target.number:
            wrong = f"@{given} is an unnumbered heading; link to it as [text](#{identifier})"
            wrong = wrong if target else f"unresolved reference @{given}"
            self.problems.add(self.source.where(self.cell, "@" + given), wrong)
            return []
        text: list[Node] = []
        if citation["citationPrefix"]:
            text = [*citation["citationPrefix"], *strings("\xa0")]
        elif citation["citationMode"]["t"] != "SuppressAuthor":
            text = strings(f"{target.word}\xa0")
        here = self.source.page
        path = "" if target.page == here else here.way_to(target.page)
        attr = ["", ["quarto-xref"], []]
        return [
            {"t": "Link", "c": [attr, [*text, *strings(target.number)], [f"{path}#{identifier}", ""]]},
            *citation["citationSuffix"],
        ]
