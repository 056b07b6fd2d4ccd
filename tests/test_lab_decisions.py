"""Question charts and ladders: every word comes from the data, in order, and no two words overlap."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import matplotlib.pyplot as plt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Annotation

from modelcall.ch01 import PERMISSIONS, QUESTIONS, Mechanism
from modelcall.lab import style
from modelcall.lab.decisions import Ask, Step, draw_questions, draw_steps

END = st.tuples(st.sampled_from(["yes", "no", "known"]), st.sampled_from(["code", "a search"]))
QUESTION = st.sampled_from(["Rules?", "Does a database hold it?"])
ASK = st.builds(Ask, QUESTION, st.lists(END, min_size=1, max_size=3), st.just(""))
ASKS = st.lists(ASK, min_size=1, max_size=5)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    style.use()
    yield


def book_asks() -> list[Ask]:
    return [
        Ask(
            question.text,
            [(answer, to.value) for answer, to in question.branches.items() if isinstance(to, Mechanism)],
            *(answer for answer, to in question.branches.items() if isinstance(to, str)),
        )
        for question in QUESTIONS.values()
    ]


def book_steps() -> list[Step]:
    return [
        Step(f"L{p.level} {p.name}", [("buys", p.capability), ("fails", p.failure), ("owner", p.owner)])
        for p in PERMISSIONS
    ]


def words(axes: Axes) -> list[str]:
    return [" ".join(text.get_text().split()) for text in axes.texts if text.get_text()]


def boxes(axes: Axes) -> list[FancyBboxPatch]:
    return [patch for patch in axes.patches if type(patch) is FancyBboxPatch]


def arrows(axes: Axes) -> list[Annotation]:
    return [text for text in axes.texts if isinstance(text, Annotation)]


@given(asks=ASKS)
@settings(derandomize=True, deadline=None, max_examples=20)
def test_a_chart_has_each_question_each_end_and_an_arrow_for_each_answer(asks: list[Ask]) -> None:
    chain = [ask._replace(onward="go on") for ask in asks[:-1]] + asks[-1:]
    plt.close("all")
    axes = draw_questions(chain)
    expected = []
    for ask in chain:
        expected += [ask.text, *(word for answer, end in ask.ends for word in (end, answer))]
        expected += [ask.onward] if ask.onward else []
    assert words(axes) == expected
    ends = sum(len(ask.ends) for ask in chain)
    assert len(boxes(axes)) == len(chain) + ends
    assert len(arrows(axes)) == ends + len(chain) - 1


def test_arrows_of_answers_go_right_and_arrows_onward_go_down() -> None:
    axes = draw_questions(book_asks())
    right = [arrow for arrow in arrows(axes) if arrow.xy[1] == arrow.xyann[1]]
    down = [arrow for arrow in arrows(axes) if arrow.xy[0] == arrow.xyann[0]]
    assert len(right) == 8 and len(down) == 5
    assert all(arrow.xy[0] > arrow.xyann[0] for arrow in right)
    assert all(arrow.xy[1] > arrow.xyann[1] for arrow in down)  # the y axis points down
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


def test_the_lowest_step_is_at_the_bottom_and_each_starts_further_right() -> None:
    steps = book_steps()
    axes = draw_steps(steps)
    assert words(axes) == [
        word for step in steps for word in (step.name, *(w for line in step.lines for w in line))
    ]
    places = [(box.get_x(), box.get_y()) for box in boxes(axes)]
    assert [x for x, _ in places] == sorted({x for x, _ in places})
    assert [y for _, y in places] == sorted({y for _, y in places}, reverse=True)


@pytest.mark.parametrize("which", ["questions", "steps"])
def test_on_the_books_data_no_text_covers_another_or_leaves_its_box(which: str) -> None:
    axes = draw_questions(book_asks()) if which == "questions" else draw_steps(book_steps())
    figure = axes.figure
    figure.canvas.draw()
    frames = [box.get_window_extent() for box in boxes(axes)]
    texts = [(text.get_text(), text.get_window_extent()) for text in axes.texts if text.get_text()]
    for (first, a), (second, b) in combinations(texts, 2):
        assert not a.overlaps(b), (first, second)
    for label, box in texts:
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y0 >= 0 and box.y1 <= figure.bbox.height
        around = [frame for frame in frames if frame.overlaps(box)]
        whole = [f for f in around if f.x0 <= box.x0 and box.x1 <= f.x1 and f.y0 <= box.y0 and box.y1 <= f.y1]
        assert around == whole, f"{label!r} crosses the border of a box"
    for a, b in combinations(frames, 2):
        assert not a.overlaps(b)


def test_both_are_as_wide_as_every_other_figure() -> None:
    width = plt.rcParams["figure.figsize"][0]
    assert draw_questions(book_asks()).figure.get_figwidth() == width
    assert draw_steps(book_steps()).figure.get_figwidth() == width


def test_nothing_to_draw_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^asks: expected at least one question; got \[\]"):
        draw_questions([])
    with pytest.raises(ValueError, match=r"^steps: expected at least one step; got \[\]"):
        draw_steps([])
