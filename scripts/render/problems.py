"""Mistakes in a book's sources: collected over the whole build, so that one run reports all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["BuildError", "Problems"]


class BuildError(Exception):
    """The book cannot be built; ``lines`` say why, each starting with the place of a mistake."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(lines)
        self.lines = lines

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclass
class Problems:
    """An ordered set of mistakes: the same mistake seen by two checks is reported once."""

    lines: dict[str, None] = field(default_factory=dict)

    def add(self, where: str, what: str) -> None:
        self.lines[f"{where}: {what}"] = None

    def raise_if_any(self, pages: Sequence[str] = ()) -> None:
        """Raise the mistakes there are: those of each of ``pages`` together, from its top."""
        if self.lines:
            raise BuildError(sorted(self.lines, key=lambda line: _rank(line, pages)))


def _rank(line: str, pages: Sequence[str]) -> tuple[int, int, int]:
    """The page, cell and line of a mistake; those of the whole book come first, of other files last.

    >>> _rank("b.ipynb, cell 3 [fig-x], line 4 (b.md:20): no", ["a.md", "b.ipynb"])
    (1, 3, 4)
    >>> _rank("a.md:7: no", ["a.md", "b.ipynb"]), _rank("_quarto.yml: no", ["a.md"])
    ((0, 0, 7), (-1, 0, 0))
    """
    place = re.match(r"(.+?\.\w+)(?::(\d+)|, cell (\d+)(?: \[[^\]]*\])?(?:, line (\d+))?)?", line)
    if not pages or not place or place[1] == "_quarto.yml":
        return -1, 0, 0
    page = pages.index(place[1]) if place[1] in pages else len(pages)
    return page, int(place[3] or 0), int(place[2] or place[4] or 0)
