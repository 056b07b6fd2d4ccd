"""Markdown tables from rows of data, so that a table on a page is printed and never typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from IPython.display import Markdown, display

__all__ = ["markdown_table", "show_table"]


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a pipe table. A bar inside a cell is escaped, a line break becomes a space.

    Raises:
        ValueError: no header, or a row with another number of cells than the header.

    >>> print(markdown_table(["layer", "calls"], [["workflow", 3]]))
    | layer | calls |
    |---|---|
    | workflow | 3 |
    """
    if not header:
        raise ValueError(f"header: expected at least one column; got {header!r}")
    lines = [_line(header)]
    for i, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(f"rows[{i}]: expected {len(header)} cells; got {row!r}")
        lines.append(_line(row))
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", r"\|").replace("\n", " ") for cell in cells) + " |"


def show_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Show the table as the output of a cell."""
    display(Markdown(markdown_table(header, rows)))
