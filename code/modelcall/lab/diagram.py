"""Diagrams drawn from data: a chapter lists the messages, this module only places them.

A drawing that is typed by hand drifts from the code beside it. Here the picture has no facts of its
own: lanes, arrows and labels all come from the caller's list.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from modelcall.lab.style import color

__all__ = ["Message", "sequence_diagram"]


class Message(NamedTuple):
    """One arrow of a sequence diagram. ``repeats`` puts it inside the loop frame."""

    sender: str
    receiver: str
    label: str
    repeats: bool = False


def sequence_diagram(
    messages: Sequence[Message], loop_label: str = "loop", stages: Sequence[tuple[str, int]] = ()
) -> Axes:
    """Draw the messages top to bottom, one lane for each party in order of first appearance.

    A message to oneself becomes a short arrow beside its lane. Neighbouring messages with ``repeats``
    share one frame that carries ``loop_label``. Labels may hold line breaks. ``stages`` names runs of
    messages, each with how many it has; a line and the name stand above the first of them.

    Raises:
        ValueError: ``messages`` is empty, or the stages hold another number of messages.

    >>> axes = sequence_diagram([Message("caller", "server", "request")])
    >>> [text.get_text() for text in axes.texts if text.get_text()]
    ['caller', 'server', 'request']
    >>> plt.close(axes.figure)
    """
    if not messages:
        raise ValueError(f"messages: expected at least one message; got {messages!r}")
    if stages and sum(count for _, count in stages) != len(messages):
        raise ValueError(f"stages: expected {len(messages)} messages in them; got {stages!r}")
    parties = list(dict.fromkeys(name for m in messages for name in (m.sender, m.receiver)))
    lane = {name: float(i) for i, name in enumerate(parties)}
    # A message takes as much height as its label has lines; the loop frame needs some air around it.
    first = list(accumulate([0, *(count for _, count in stages)]))[: len(stages)]
    headings: list[float] = []
    ys: list[float] = []
    y, inside = 0.0, False
    for i, message in enumerate(messages):
        if i in first:
            headings.append(y + 0.5)
            y += 0.8
        y += 0.9 + 0.35 * message.label.count("\n") + (0.35 if message.repeats != inside else 0.0)
        inside = message.repeats
        ys.append(y)
    bottom = ys[-1] + 0.5

    width_inches = plt.rcParams["figure.figsize"][0]
    _, axes = plt.subplots(figsize=(width_inches, 0.42 * bottom + 0.4))
    axes.set_axis_off()
    axes.set_xlim(-0.42, len(parties) - 0.58)
    axes.set_ylim(bottom, -0.75)
    for name, x in lane.items():
        axes.plot([x, x], [-0.1, bottom], color=color("grid"), linewidth=1.4, marker="", zorder=0)
        axes.text(x, -0.4, name, ha="center", va="center", weight="bold")
    for (name, _), y in zip(stages, headings, strict=True):
        axes.axhline(y - 0.2, color=color("grid"), linewidth=0.8, zorder=0)
        axes.text(-0.4, y + 0.1, name, ha="left", va="center", color=color("c2"))
    for message, y in zip(messages, ys, strict=True):
        _arrow(axes, lane[message.sender], lane[message.receiver], y, message.label)
    looped = [i for i, message in enumerate(messages) if message.repeats]
    if looped:
        top = ys[looped[0]] - 0.55 - 0.35 * messages[looped[0]].label.count("\n") - 0.3
        _frame(axes, len(parties), top, ys[looped[-1]] + 0.28, loop_label)
    return axes


def _arrow(axes: Axes, start: float, end: float, y: float, label: str) -> None:
    properties = {"arrowstyle": "-|>", "color": color("c1"), "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
    if start == end:
        # A message to oneself: a short arrow out of the lane, its label beside it.
        axes.annotate("", (start + 0.02, y), (start + 0.14, y), arrowprops=properties)
        axes.text(start + 0.18, y, label, ha="left", va="center")
        return
    axes.annotate("", (end, y), (start, y), arrowprops=properties)
    axes.text((start + end) / 2, y - 0.08, label, ha="center", va="bottom")


def _frame(axes: Axes, lanes: int, top: float, bottom: float, label: str) -> None:
    left, width = 0.62, lanes - 1 - 0.62 + 0.38
    frame = Rectangle((left, top), width, bottom - top, fill=False, edgecolor=color("c2"), linewidth=1.2)
    axes.add_patch(frame)
    axes.text(left - 0.03, (top + bottom) / 2, label, color=color("c2"), ha="right", va="center")
