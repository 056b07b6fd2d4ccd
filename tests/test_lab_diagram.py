"""Sequence diagrams: everything in the picture comes from the messages, and nothing in it overlaps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import matplotlib.pyplot as plt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation

from modelcall.lab import style
from modelcall.lab.diagram import Message, sequence_diagram

NAMES = st.sampled_from(["caller", "server", "model"])
LABELS = st.sampled_from(["ask", "one logit per entry", "text, scores,\ncounts", "a\nb\nc"])
MESSAGES = st.lists(st.builds(Message, NAMES, NAMES, LABELS, st.booleans()), min_size=1, max_size=8)
CALL = [
    Message("caller", "server", "request"),
    Message("server", "model", "ids", repeats=True),
    Message("model", "model", "think\ntwice", repeats=True),
    Message("server", "caller", "reply"),
]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    style.use()
    yield


def arrows(axes: Axes) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Start and end of each arrow, in the order drawn."""
    found = [text for text in axes.texts if isinstance(text, Annotation)]
    return [(tuple(arrow.xyann), tuple(arrow.xy)) for arrow in found]


def words(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_text()]


@given(messages=MESSAGES)
@settings(derandomize=True, deadline=None, max_examples=25)
def test_each_message_is_one_arrow_between_its_lanes_in_order(messages: list[Message]) -> None:
    plt.close("all")
    axes = sequence_diagram(messages)
    parties = list(dict.fromkeys(name for m in messages for name in (m.sender, m.receiver)))
    lane = {name: parties.index(name) for name in parties}
    drawn = arrows(axes)
    assert len(drawn) == len(messages)
    for message, (start, end) in zip(messages, drawn, strict=True):
        assert start[1] == end[1]
        if message.sender == message.receiver:
            assert abs(start[0] - lane[message.sender]) < 0.2 and abs(end[0] - lane[message.sender]) < 0.2
        else:
            assert (start[0], end[0]) == (lane[message.sender], lane[message.receiver])
    heights = [start[1] for start, _ in drawn]
    assert heights == sorted(set(heights))
    top, bottom = axes.get_ylim()[::-1]
    assert top < heights[0] and heights[-1] < bottom  # the y axis points down


@given(messages=MESSAGES)
@settings(derandomize=True, deadline=None, max_examples=25)
def test_every_word_is_the_callers(messages: list[Message]) -> None:
    plt.close("all")
    axes = sequence_diagram(messages, loop_label="again")
    parties = dict.fromkeys(name for m in messages for name in (m.sender, m.receiver))
    expected = [*parties, *(message.label for message in messages)]
    expected += ["again"] if any(message.repeats for message in messages) else []
    assert words(axes) == expected


def test_the_frame_holds_the_repeated_messages_and_no_other() -> None:
    axes = sequence_diagram(CALL)
    [frame] = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    low, high = frame.get_y(), frame.get_y() + frame.get_height()
    inside = [low < start[1] < high for start, _ in arrows(axes)]
    assert inside == [message.repeats for message in CALL]
    assert not [p for p in sequence_diagram(CALL[:1]).patches if isinstance(p, Rectangle)]


def test_no_text_covers_another_or_leaves_the_figure() -> None:
    axes = sequence_diagram(CALL, loop_label="once per\ntoken")
    figure = axes.figure
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
    assert not [1 for a, b in combinations(boxes, 2) if a.overlaps(b)]
    for box in boxes:
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y0 >= 0 and box.y1 <= figure.bbox.height


def test_a_label_stands_between_the_arrow_before_and_its_own() -> None:
    messages = [
        Message("a", "b", "one"),
        Message("b", "a", "two\nlines"),
        Message("a", "b", "three\nlong\nlines"),
    ]
    axes = sequence_diagram(messages)
    axes.figure.canvas.draw()
    label = {text.get_text(): text.get_window_extent() for text in axes.texts if text.get_text()}
    levels = [axes.transData.transform(start)[1] for start, _ in arrows(axes)]
    above = [label["a"].y0, *levels]
    for message, before, own in zip(messages, above, levels, strict=False):
        assert own <= label[message.label].y0 and label[message.label].y1 <= before, message


def test_it_is_as_wide_as_every_other_figure() -> None:
    assert sequence_diagram(CALL).figure.get_figwidth() == plt.rcParams["figure.figsize"][0]


def test_nothing_to_draw_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^messages: expected at least one message; got \[\]"):
        sequence_diagram([])


def test_stages_are_named_in_order_above_their_messages() -> None:
    messages = [Message("a", "b", "one"), Message("b", "a", "two"), Message("a", "a", "three")]
    axes = sequence_diagram(messages, stages=[("first", 2), ("second", 1)])
    height = {text.get_text(): text.get_position()[1] for text in axes.texts if text.get_text()}
    names = ["first", "one", "two", "second", "three"]
    assert sorted(names, key=height.__getitem__) == names  # the axis points down
    plt.close("all")


def test_stages_that_hold_other_messages_are_refused() -> None:
    with pytest.raises(ValueError, match="stages: expected 1 messages in them"):
        sequence_diagram([Message("a", "b", "one")], stages=[("first", 2)])
