"""The figures of The Operational On-Ramp that the ledger checks, drawn anew and counted.

Of a figure cell the claim is only that it runs and draws, so each function draws the same marks from the
chapters' functions, off screen, and returns how many came out. It says nothing about how a figure looks.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from modelcall import ch01
from modelcall.lab.ledger_cells import TREATY

__all__ = ["bars_of_figure_4", "bars_of_figure_5", "points_of_figure_8"]


def bars_of_figure_4() -> int:
    """Draw Figure 1.4, one bar for each token of the false answer; return the number of bars.

    >>> bars_of_figure_4()
    10
    """
    figure = Figure()
    axes = figure.subplots()
    axes.bar(range(len(TREATY)), [ch01.token_confidence(logprob) for logprob in TREATY])
    return _bars(figure)


def bars_of_figure_5() -> int:
    """Draw Figure 1.5, prefill and then decode on one line; return the number of bars.

    >>> bars_of_figure_5()
    2
    """
    times = ch01.simulate_decode(800, 20)
    figure = Figure()
    axes = figure.subplots()
    axes.barh(0, times[0])
    axes.barh(0, times[-1] - times[0], left=times[0])
    return _bars(figure)


def points_of_figure_8() -> int:
    """Draw Figure 1.8, cumulative cost against mechanism; return the number of points.

    >>> points_of_figure_8()
    6
    """
    rows = ch01.autonomy_costs(ch01.LADDER)
    figure = Figure()
    axes = figure.subplots()
    (line,) = axes.plot([name for name, _, _ in rows], [so_far for _, _, so_far in rows], marker="o")
    figure.draw_without_rendering()
    return len(np.asarray(line.get_xydata()))


def _bars(figure: Figure) -> int:
    """Lay the figure out and count the bars that cover an area."""
    figure.draw_without_rendering()
    boxes = [patch.get_window_extent() for axes in figure.axes for patch in axes.patches]
    return len([box for box in boxes if box.width > 0 and box.height > 0])
