"""The choice of a mechanism (chapter 1): every combination of answers against a table written apart."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import pytest

from modelcall.ch01 import QUESTIONS, AgentProposal, Mechanism, agent_objections, choose_mechanism
from modelcall.lab.decisions import Ask, Step, draw_questions, draw_steps
from modelcall.lab.tables import markdown_table

KEYS = ["rules", "data", "evidence", "goal", "judgment"]
LAST = ["none", "known", "observed"]
FIRST_YES = {"rules": "RULES", "data": "QUERY", "evidence": "RETRIEVAL", "goal": "SOLVER"}


def expected(answers: dict[str, str]) -> tuple[str, int]:
    """The end and the number of questions asked: the first yes decides, then judgment, then the next step."""
    for i, (key, end) in enumerate(FIRST_YES.items(), start=1):
        if answers[key] == "yes":
            return end, i
    if answers["judgment"] == "no":
        return "HUMAN", 5
    return {"none": "CALL", "known": "WORKFLOW", "observed": "AGENT"}[answers["next_step"]], 6


ALL = [
    {**dict(zip(KEYS, five, strict=True)), "next_step": last}
    for five in itertools.product(["yes", "no"], repeat=5)
    for last in LAST
]


@pytest.mark.parametrize("answers", ALL, ids=["-".join(answers.values()) for answers in ALL])
def test_every_combination_of_answers_ends_where_the_table_says(answers: dict[str, str]) -> None:
    mechanism, trail = choose_mechanism(answers)
    assert (mechanism.name, len(trail)) == expected(answers)
    assert trail == [(key, answers[key]) for key in QUESTIONS][: len(trail)]
    only_asked = dict(trail)
    assert choose_mechanism(only_asked) == (mechanism, trail)  # the other answers do not matter
    as_bools: dict[str, Any] = {
        key: {"yes": True, "no": False}.get(value, value) for key, value in answers.items()
    }
    assert choose_mechanism(as_bools) == (mechanism, trail)


def test_six_questions_reach_eight_mechanisms_each_once() -> None:
    ends = Counter(to for q in QUESTIONS.values() for to in q.branches.values() if isinstance(to, Mechanism))
    assert len(QUESTIONS) == 6
    assert ends == Counter(list(Mechanism))
    assert len(Mechanism) == 8
    keys = list(QUESTIONS)
    for key, question in QUESTIONS.items():  # every link goes forward, so the walk cannot loop
        for to in question.branches.values():
            assert isinstance(to, Mechanism) or keys.index(to) == keys.index(key) + 1


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({}, r"answers\['rules'\]: expected one of \['yes', 'no'\]; got None"),
        ({"rules": "no"}, r"answers\['data'\]"),
        ({"rules": "maybe"}, r"answers\['rules'\].*'maybe'"),
        ({"rules": 1}, r"answers\['rules'\]"),
        ({"rules": []}, r"answers\['rules'\]: expected one of \['yes', 'no'\]; got \[\]"),
        ({"rules": {}}, r"answers\['rules'\]"),
        ({"rules": "yes", "budget": "no"}, "answers: expected keys among .*'budget'"),
        ({**dict.fromkeys(KEYS[:4], "no"), "judgment": "yes", "next_step": True}, r"answers\['next_step'\]"),
    ],
)
def test_missing_unknown_and_wrong_answers_are_named(answers: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose_mechanism(answers)


@pytest.mark.parametrize("answers", [None, [], "rules", {1: "no"}])
def test_answers_that_are_no_mapping_are_refused(answers: Any) -> None:
    with pytest.raises(TypeError, match=r"^answers(, a key)?: expected "):
        choose_mechanism(answers)


GOOD = AgentProposal(
    "x", "a rule", {"easy": True, "hard": False}, {"cycle": "read on", "none": "stop"}, False
)
WEAK: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"baseline": " "}, ["counterfactual baseline: no measured"]),
    ({"baseline_right": {}}, ["counterfactual baseline: no measured"]),
    ({"baseline_right": {"easy": True}}, ["counterfactual baseline: a rule fails on no"]),
    ({"next_action": {}}, ["branch value: no observation"]),
    ({"next_action": {"a": "go", "b": "go"}}, ["branch value: no observation"]),
    ({"listed_in_advance": True}, ["branch value: the observations can be listed"]),
    (
        {"baseline": "", "next_action": {}},
        ["counterfactual baseline: no measured", "branch value: no observation"],
    ),
]


@pytest.mark.parametrize(("changes", "starts"), WEAK)
def test_the_two_tests_say_what_is_missing(changes: dict[str, Any], starts: list[str]) -> None:
    found = agent_objections(replace(GOOD, **changes))
    assert len(found) == len(starts)
    assert all(got.startswith(start) for got, start in zip(found, starts, strict=True))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"name": None}, "name"),
        ({"baseline": 3}, "baseline"),
        ({"baseline_right": None}, "baseline_right"),
        ({"baseline_right": {"easy": "yes"}}, r"baseline_right\['easy'\]"),
        ({"next_action": ["go"]}, "next_action"),
        ({"next_action": {"a": []}}, r"next_action\['a'\]"),
        ({"listed_in_advance": "no"}, "listed_in_advance"),
    ],
)
def test_a_proposal_of_other_types_is_refused(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name}: expected "):
        replace(GOOD, **changes)


def test_only_a_proposal_has_objections() -> None:
    with pytest.raises(TypeError, match=r"^proposal: expected a AgentProposal; got None"):
        agent_objections(None)  # type: ignore[arg-type]


# --- the drawings and tables that carry this data ---------------------------------------------------------


def test_the_flow_chart_shows_each_question_and_each_end_once() -> None:
    asks = [
        Ask(q.text, [(a, to.value) for a, to in q.branches.items() if isinstance(to, Mechanism)],
            next((a for a, to in q.branches.items() if isinstance(to, str)), ""))
        for q in QUESTIONS.values()
    ]  # fmt: skip
    axes = draw_questions(asks)
    shown = Counter(text.get_text().replace("\n", " ") for text in axes.texts)
    assert all(shown[q.text] == 1 for q in QUESTIONS.values())
    assert all(shown[m.value] == 1 for m in Mechanism)
    labels = [text for text in axes.texts if text.get_text() and text.get_position()[1] is not None]
    height = max(axes.get_ylim())
    assert all(0 <= float(text.get_position()[1]) <= height for text in labels)
    plt.close(axes.figure)


def test_the_ladder_puts_the_first_step_at_the_bottom() -> None:
    axes = draw_steps([Step("low", [("buys", "a")]), Step("high", [("buys", "b")])])
    where = {text.get_text(): text.get_position() for text in axes.texts}
    assert where["low"][1] > where["high"][1]  # the axis points down
    assert where["low"][0] < where["high"][0]
    plt.close(axes.figure)


@pytest.mark.parametrize("draw", [draw_questions, draw_steps])
def test_nothing_to_draw_is_refused(draw: Any) -> None:
    with pytest.raises(ValueError, match="at least one"):
        draw([])


def test_a_markdown_table_escapes_what_would_break_it() -> None:
    table = markdown_table(["a", "b"], [["x|y", "two\nlines"]])
    assert table.splitlines() == ["| a | b |", "|---|---|", r"| x\|y | two lines |"]
    with pytest.raises(ValueError, match=r"rows\[0\]"):
        markdown_table(["a", "b"], [["x"]])
    with pytest.raises(ValueError, match="header"):
        markdown_table([], [])
