"""A picture of a paged cache: the table of each sequence, and the memory with the readers of each block.

It is drawn from the tables themselves, so it cannot show a state that the cache is not in. A row is a
sequence, a box one of its blocks; the bar in it is as long as the sequence holds tokens there. Blocks with
several readers have the colour of sharing in every row. Contents are not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from modelcall.lab.style import color

__all__ = ["Blocks", "draw_blocks"]

_WIDTH, _HEIGHT = 0.9, 0.62


class Blocks(Protocol):
    """What the picture shows: tables and lengths by sequence, readers by block."""

    @property
    def block_tokens(self) -> int: ...

    @property
    def tables(self) -> Mapping[int, Sequence[int]]: ...

    @property
    def lengths(self) -> Mapping[int, int]: ...

    @property
    def readers(self) -> Sequence[int]: ...


def draw_blocks(cache: Blocks) -> Figure:
    """Draw the tables of all open sequences, and below them the memory.

    Raises:
        ValueError: more blocks than fit a page.

    >>> class One:
    ...     block_tokens, tables, lengths, readers = 4, {0: [1]}, {0: 3}, [0, 1]
    >>> figure = draw_blocks(One())
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['sequence 0', '1', 'memory', 'readers', '0', 'free', '1', '1']
    >>> plt.close(figure)
    """
    if len(cache.readers) > 12:
        raise ValueError(f"draw_blocks: at most 12 blocks; got {len(cache.readers)}")
    # A row for two sequences, even if fewer are open: the memory stays where it is from picture to picture.
    rows = max(2, len(cache.tables))
    figure, axes = plt.subplots(figsize=(4.4, 0.55 * rows + 0.95))
    axes.set_axis_off()
    axes.set(xlim=(-2.2, max(8, len(cache.readers))), ylim=(-1.75, rows))
    for row, (sequence, table) in enumerate(cache.tables.items()):
        y = rows - 1 - row
        _label(axes, y, f"sequence {sequence}")
        for place, block in enumerate(table):
            held = cache.lengths[sequence] - place * cache.block_tokens
            share = min(1.0, max(0.0, held / cache.block_tokens))
            _box(axes, place, y, block, share, cache.readers[block])
    _label(axes, -1, "memory")
    _label(axes, -1.7, "readers")
    for block, readers in enumerate(cache.readers):
        _box(axes, block, -1, block, float(readers > 0), readers)
        axes.text(block + _WIDTH / 2, -1.39, str(readers or "free"), ha="center", va="center", fontsize=9)
    return figure


def _label(axes: Axes, y: float, words: str) -> None:
    axes.text(-0.2, y + _HEIGHT / 2, words, ha="right", va="center", fontsize=9)


def _box(axes: Axes, x: float, y: float, block: int, share: float, readers: int) -> None:
    # A bar below the number, not a fill behind it: no ink is legible on every colour in both themes.
    shade = color("c3" if readers > 1 else "c1")
    axes.add_patch(Rectangle((x, y), _WIDTH * share, _HEIGHT / 3, facecolor=shade, linewidth=0))
    axes.add_patch(Rectangle((x, y), _WIDTH, _HEIGHT, fill=False, edgecolor=color("ink"), linewidth=0.9))
    axes.text(x + _WIDTH / 2, y + _HEIGHT * 0.66, str(block), ha="center", va="center", fontsize=9)
