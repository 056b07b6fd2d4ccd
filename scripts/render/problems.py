"""Mistakes in a book's sources: collected over the whole build, so that one run reports all of them."""

from __future__ import annotations

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

    def raise_if_any(self) -> None:
        if self.lines:
            raise BuildError(list(self.lines))
