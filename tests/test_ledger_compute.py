"""The expressions by which the ledger recomputes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from modelcall.lab import ledger_cells
from modelcall.lab.ledger_compute import evaluate, plain, resolve
from modelcall.lab.ledger_words import missing_numbers

INPUTS: dict[str, Any] = {"T": [4, 9], "n": 3, "table": {"a": {"b": [7, 8]}}}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (5, 5),
        ([1, {"input": "n"}], [1, 3]),
        ({"call": "math.hypot", "args": [3, 4]}, 5.0),
        ({"call": "math.sqrt", "args": [{"call": "operator.mul", "args": [{"input": "n"}, 12]}]}, 6.0),
        ({"call": "builtins.sorted", "args": [[2, 1, 3]], "kwargs": {"reverse": True}}, [3, 2, 1]),
        ({"each": "T", "do": {"call": "math.sqrt", "args": [{"input": "T"}]}}, [2.0, 3.0]),
        ({"each": "n", "do": {"call": "operator.neg", "args": [{"input": "n"}]}}, [0, -1, -2]),
        ({"input": "table", "pick": ["a", "b", 1]}, 8),
        ({"name": "math.pi", "round": 2}, 3.14),
        ({"name": "modelcall.ch01.softmax", "pick": ["__name__"]}, "softmax"),
        ({"value": {"call": "not a call"}}, {"call": "not a call"}),
    ],
)
def test_evaluate(node: Any, expected: Any) -> None:
    assert evaluate(node, INPUTS) == expected


def test_each_leaves_the_inputs_as_they_were() -> None:
    before = {"T": [1, 2]}
    evaluate({"each": "T", "do": {"input": "T"}}, before)
    assert before == {"T": [1, 2]}


@pytest.mark.parametrize("path", ["math.nothing", "nothing.at.all", "modelcall.ch01.Completion.nothing"])
def test_resolve_names_the_path_that_is_not_there(path: str) -> None:
    with pytest.raises(LookupError, match=path.replace(".", r"\.")):
        resolve(path)


def test_plain() -> None:
    value = {1: (np.float64(0.5), np.array([1, 2])), "s": range(2)}
    assert plain(value) == {"1": [0.5, [1, 2]], "s": [0, 1]}
    with pytest.raises(TypeError, match="got object"):
        plain(object())


@pytest.mark.parametrize(
    ("statement", "stated", "missing"),
    [
        ("It moves 1,280,000 KiB.", 1280000, []),
        ("It takes 2.788e10 steps.", 2.788e10, []),
        ("Seven words.", 7, []),
        ("It is -2147483648.", -2147483648, []),
        ("There are 20 of them.", 2, [2]),
        ("It gives 0.75 and 0.40.", [0.75, 0.4, 0.1], [0.1]),
        ("Nothing is said.", {"a": 1}, []),
        ("Nothing is said.", True, []),
    ],
)
def test_missing_numbers(statement: str, stated: Any, missing: list[float]) -> None:
    assert missing_numbers(statement, stated) == missing


def test_chi_square_equals_the_textbook_sum() -> None:
    # 60 throws of a die, expected 10 of each face
    throws = [face for face, times in enumerate([5, 8, 9, 8, 10, 20]) for _ in range(times)]
    assert math.isclose(ledger_cells.chi_square(throws, [1 / 6] * 6), 13.4)
