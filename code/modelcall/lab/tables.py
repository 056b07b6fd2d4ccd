"""Markdown tables from rows of data, so that a table on a page is printed and never typed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from IPython.display import Markdown, display

__all__ = ["markdown_table", "show_table"]

# A number as tables print it, with sign, separators and unit; what is missing may be blank or a dash.
_NUMBER = re.compile(r"[-+−±]?\d[\d,_]*(?:\.\d+)?(?:e[-+]?\d+)?\s?([A-Za-zµ%°×/]{0,6})")
_MISSING = {"", "-", "–", "—"}


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a pipe table. A bar inside a cell is escaped, a line break becomes a space.

    A column of numbers in one unit is aligned to the right, so that their digits stand below each other.

    Raises:
        ValueError: no header, or a row with another number of cells than the header.

    >>> print(markdown_table(["layer", "calls"], [["workflow", 3], ["agent", 12]]))
    | layer | calls |
    |---|---:|
    | workflow | 3 |
    | agent | 12 |
    """
    if not header:
        raise ValueError(f"header: expected at least one column; got {header!r}")
    body = list(rows)
    for i, row in enumerate(body):
        if len(row) != len(header):
            raise ValueError(f"rows[{i}]: expected {len(header)} cells; got {row!r}")
    rules = ["---:" if _numeric([row[i] for row in body]) else "---" for i in range(len(header))]
    return "\n".join([_line(header), f"|{'|'.join(rules)}|", *map(_line, body)])


def _numeric(cells: Sequence[object]) -> bool:
    texts = [str(cell).strip() for cell in cells]
    found = [_NUMBER.fullmatch(text) for text in texts if text not in _MISSING]
    return len({match[1] if match else None for match in found}) == 1 and found[0] is not None


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", r"\|").replace("\n", " ") for cell in cells) + " |"


def show_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Show the table as the output of a cell."""
    display(Markdown(markdown_table(header, rows)))
