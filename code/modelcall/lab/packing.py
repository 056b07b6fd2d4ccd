"""Many similar texts in few bytes: what they share is written once, and a state is a row of what differs.

The states of one slider are nearly the same HTML: a figure whose bars have other heights, a sentence with
other numbers. Each text is cut into words and what stands between them. Texts with the same between-parts
share a *template*: a list of fixed pieces and of places. A place is a column of the rows; words that never
change are fixed, columns that always agree are one column, and rows that agree are one row. A browser joins
a template with a row in a few lines of script; ``unpack`` is that script in Python.

What is not done here: no compression proper. A host compresses what it sends, and a file on disk has no need.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

__all__ = ["pack", "unpack"]

_WORD = re.compile(r"[A-Za-z0-9_.+-]+")


def pack(texts: Sequence[str]) -> dict[str, Any]:
    """Return templates ``t``, rows ``r`` and, for each text, its row ``s`` (left out if that is its place).

    A template is a list of strings and column numbers. A row is "template,word,...", words without commas.

    >>> pack(["<b>0.5</b> of 2", "<b>0.7</b> of 2"])
    {'t': [['<b>', 0, '</b> of 2']], 'r': ['0,0.5', '0,0.7']}
    """
    shapes: dict[tuple[str, ...], list[int]] = {}
    words = [_WORD.findall(text) for text in texts]
    for i, text in enumerate(texts):
        shapes.setdefault(tuple(_WORD.split(text)), []).append(i)
    templates, row_of = [], [""] * len(texts)
    for number, (between, members) in enumerate(shapes.items()):
        columns: dict[tuple[str, ...], int] = {}
        template: list[str | int] = [between[0]]
        for place, after in enumerate(between[1:]):
            column = tuple(words[i][place] for i in members)
            if len(set(column)) == 1:
                _add(template, column[0] + after)
            else:
                template.append(columns.setdefault(column, len(columns)))
                _add(template, after)
        templates.append([piece for piece in template if piece != ""])
        for at, i in enumerate(members):
            row_of[i] = ",".join([str(number), *(column[at] for column in columns)])
    rows = {row: i for i, row in enumerate(dict.fromkeys(row_of))}
    packed: dict[str, Any] = {"t": templates, "r": list(rows)}
    if len(rows) < len(texts):
        packed["s"] = [rows[row] for row in row_of]
    return packed


def _add(template: list[str | int], text: str) -> None:
    if isinstance(template[-1], str):
        template[-1] += text
    else:
        template.append(text)


def unpack(packed: dict[str, Any], state: int) -> str:
    """Return the text number ``state``, counted from 0.

    >>> unpack(pack(["a 1", "a 2", "a 1"]), 2)
    'a 1'
    """
    number, *words = packed["r"][packed["s"][state] if "s" in packed else state].split(",")
    return "".join(piece if isinstance(piece, str) else words[piece] for piece in packed["t"][int(number)])
