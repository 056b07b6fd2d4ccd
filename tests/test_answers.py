"""More answers to the exercises of every chapter (``answers``): each gets the verdict that it deserves."""

from __future__ import annotations

import importlib
import random
from types import ModuleType

import numpy as np
import pytest
from tests.answers import ch01, ch02, ch03, ch04

from modelcall.checks import ch01 as check

CHAPTERS = {number: module for module in (ch01, ch02, ch03, ch04) for number in module.WRONG}


def cases(kind: str) -> list[tuple[str, int]]:
    return [(n, i) for n, chapter in CHAPTERS.items() for i in range(len(getattr(chapter, kind)[n]))]


def grade(number: str, answer: object) -> tuple[str, str]:
    chapter, exercise = number.split(".")
    checks = importlib.import_module(f"modelcall.checks.ch{int(chapter):02}")
    verdict = getattr(checks, f"exercise_{chapter}_{exercise}").grade(answer)
    return verdict.state, verdict.reason


@pytest.mark.parametrize(("number", "at"), cases("WRONG"))
def test_a_wrong_answer_gets_its_reason(number: str, at: int) -> None:
    answer, words = CHAPTERS[number].WRONG[number][at]
    state, reason = grade(number, answer)
    assert state == "wrong"
    assert any(part in reason for part in words.split("|")), reason


@pytest.mark.parametrize(("number", "at"), cases("RIGHT"))
def test_a_right_answer_in_another_style_passes(
    number: str, at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert grade(number, CHAPTERS[number].RIGHT[number][at]) == ("passed", "")
    assert capsys.readouterr().out == "", "what an answer prints is not shown"


@pytest.mark.parametrize("chapter", [ch01, ch02, ch03, ch04])
def test_each_exercise_has_its_share(chapter: ModuleType) -> None:
    assert chapter.WRONG.keys() == chapter.RIGHT.keys()
    for number in chapter.WRONG:
        assert len(chapter.WRONG[number]) >= 10 and len(chapter.RIGHT[number]) >= 3, number


def test_the_check_leaves_the_shared_generator_as_it_was() -> None:
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), repr(np.random.get_state())
    for answer in (ch01.by_the_shared_module, ch01.by_numpys_shared_state):
        check.exercise_1_3.grade(answer)
        assert (random.getstate(), repr(np.random.get_state())) == before
