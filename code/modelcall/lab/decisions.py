"""Two drawings of decisions: a list of questions with its ends, and a ladder of described steps.

As in ``diagram``, a picture has no facts of its own. It places the text that the caller's data holds, in
one column as wide as every other figure, so that it stays legible on a phone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from modelcall.lab.style import color

__all__ = ["Ask", "Step", "draw_questions", "draw_steps"]


class Ask(NamedTuple):
    """A question with the answers that end the search, each with where it ends, and the one that goes on.

    The last question has no answer that goes on.
    """

    text: str
    ends: Sequence[tuple[str, str]]
    onward: str = ""


class Step(NamedTuple):
    """One step of a ladder: its short name and the lines that describe it, each a (label, text) pair."""

    name: str
    lines: Sequence[tuple[str, str]]


def draw_questions(asks: Sequence[Ask]) -> Axes:
    """Draw the questions down the left side and the ends of each beside it.

    Raises:
        ValueError: ``asks`` is empty.

    >>> axes = draw_questions([Ask("Cold?", [("yes", "coat")], "no"), Ask("Wet?", [("yes", "hat")])])
    >>> [text.get_text() for text in axes.texts if text.get_text()]
    ['Cold?', 'coat', 'yes', 'no', 'Wet?', 'hat', 'yes']
    >>> plt.close(axes.figure)
    """
    if not asks:
        raise ValueError(f"asks: expected at least one question; got {asks!r}")
    tops = [0.0]
    for ask in asks:
        tops.append(tops[-1] + max(1.25, 0.95 * len(ask.ends) + 0.2))
    axes = _canvas(tops[-1], inches_per_unit=0.6)
    for ask, top, bottom in zip(asks, tops, tops[1:], strict=False):
        _box(axes, 0.0, top + 0.1, 2.1, 0.8, textwrap.fill(ask.text, 17), fill="paper", edge="c1")
        for i, (answer, end) in enumerate(ask.ends):
            y = top + 0.5 + 0.95 * i
            _box(axes, 3.05, y - 0.32, 1.5, 0.64, textwrap.fill(end, 17), fill="grid", edge="muted")
            if i:  # further ends hang from one trunk, so that no arrow crosses a label
                axes.plot([2.18, 2.18], [top + 0.5, y], color=color("c1"), linewidth=1.2, marker="")
            _arrow(axes, (2.18 if i else 2.12, y), (3.03, y))
            axes.text(2.58, y - 0.05, answer, ha="center", va="bottom", color=color("c2"))
        if ask.onward:
            _arrow(axes, (1.05, top + 0.92), (1.05, bottom + 0.08))
            axes.text(1.14, (top + bottom + 1.0) / 2, ask.onward, va="center", color=color("c2"))
    return axes


def draw_steps(steps: Sequence[Step]) -> Axes:
    """Draw the steps of a ladder, the lowest at the bottom, each a little further to the right.

    Raises:
        ValueError: ``steps`` is empty.

    >>> axes = draw_steps([Step("L0", [("fails", "unused")]), Step("L1", [("fails", "waved on")])])
    >>> [text.get_text() for text in axes.texts]
    ['L0', 'fails', 'unused', 'L1', 'fails', 'waved on']
    >>> plt.close(axes.figure)
    """
    if not steps:
        raise ValueError(f"steps: expected at least one step; got {steps!r}")
    heights = [0.62 + 0.3 * len(step.lines) for step in steps]
    axes = _canvas(sum(heights), inches_per_unit=0.6)
    y = sum(heights)
    for i, (step, height) in enumerate(zip(steps, heights, strict=True)):
        y -= height
        left = 0.09 * i
        _box(axes, left, y + 0.05, 4.55 - left, height - 0.1, "", fill="paper", edge="c1")
        axes.text(left + 0.1, y + 0.27, step.name, va="center", weight="bold")
        for j, (label, text) in enumerate(step.lines):
            line = y + 0.57 + 0.3 * j
            axes.text(left + 0.1, line, label, va="center", color=color("c2"))
            axes.text(left + 0.72, line, text, va="center")
    return axes


def _canvas(height: float, inches_per_unit: float) -> Axes:
    width_inches = plt.rcParams["figure.figsize"][0]
    figure = plt.figure(figsize=(width_inches, height * inches_per_unit + 0.1), layout="none")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(-0.05, 4.6)
    axes.set_ylim(height, 0.0)
    return axes


def _box(
    axes: Axes, left: float, top: float, width: float, height: float, text: str, *, fill: str, edge: str
) -> None:
    shape = FancyBboxPatch(
        (left + 0.06, top + 0.06), width - 0.12, height - 0.12, boxstyle="round,pad=0.06", linewidth=1.2
    )
    shape.set(facecolor=color(fill), edgecolor=color(edge))
    axes.add_patch(shape)
    if text:
        axes.text(left + width / 2, top + height / 2, text, ha="center", va="center")


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": color("c1"), "linewidth": 1.2})
