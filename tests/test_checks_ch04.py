"""The checkers of chapter 4 against answers that readers give: each wrong one gets its reason.

``WRONG`` holds, for each exercise, answers and words that the reason must contain; ``RIGHT`` holds answers
that must pass, each in another style.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import notebooks
from modelcall.ch04 import PagedTables
from modelcall.checks import ch04 as check
from modelcall.checks.grading import Exercise

EXERCISES: dict[str, Exercise] = {
    name: value for name, value in vars(check).items() if isinstance(value, Exercise)
}
Answers = list[Callable[..., Any]]
Wrongs = list[tuple[Callable[..., Any], str]]


def raising(*_: object) -> None:
    raise KeyError("oops")


def up(a: int, b: int) -> int:
    return -(-a // b)


# -- 4.1 -----------------------------------------------------------------------------------------------------


def cache(layers: int, q: int, kv: int, size: int, bits: int, tokens: int) -> int:
    return 2 * layers * kv * size * bits * tokens // 8


def by_adding(layers: int, q: int, kv: int, size: int, bits: int, tokens: int) -> Fraction:
    return sum((Fraction(bits, 8) * kv * size * tokens for _ in range(2 * layers)), Fraction(0))


RIGHT_1: Answers = [
    cache,
    by_adding,
    lambda n, q, kv, d, b, t: n * kv * d * b * t / 4,
    lambda n, q, kv, d, b, t: np.int64(2 * n) * kv * d * t * b // 8,
]
WRONG_1: Wrongs = [
    (lambda n, q, kv, d, b, t: n * kv * d * b * t // 8, "a key and a value"),
    (lambda n, q, kv, d, b, t: 2 * n * q * d * b * t // 8, "query heads keep nothing"),
    (lambda n, q, kv, d, b, t: 2 * n * kv * d * b * t, "these are bits"),
    (lambda n, q, kv, d, b, t: 2 * n * kv * d * t, "one byte a number"),
    (lambda n, q, kv, d, b, t: 4 * n * kv * d * t, "two bytes a number"),
    (lambda n, q, kv, d, b, t: 2 * kv * d * b * t // 8, "every layer keeps"),
    (lambda n, q, kv, d, b, t: 2 * n * kv * d * b // 8, "this is one token"),
    (lambda n, q, kv, d, b, t: 2 * n * d * b * t // 8, "this is one key-value head"),
    (lambda *x: cache(*x) // 1024, "these are KiB"),
    (lambda *x: str(cache(*x)), "no number but str"),
    (lambda *x: cache(*x) / 1e9, "are whole"),
    (lambda *x: cache(*x) + 1, "; expected "),
    (raising, "raises KeyError"),
    (lambda *x: print(cache(*x)), "return it"),
]

# -- 4.2 -----------------------------------------------------------------------------------------------------


def limit(capacity: int, weights: int, workspace: int, per_token: int) -> int:
    return max(0, (capacity - weights - workspace) // per_token)


def by_divmod(capacity: int, weights: int, workspace: int, per_token: int) -> int:
    left = capacity - (weights + workspace)
    return divmod(left, per_token)[0] if left > 0 else 0


RIGHT_2: Answers = [
    limit,
    by_divmod,
    lambda c, w, s, t: int(max(c - w - s, 0) // t),
    lambda c, w, s, t: max(0, math.floor(Fraction(c - w - s, t))),
]
WRONG_2: Wrongs = [
    (lambda c, w, s, t: max(0, up(c - w - s, t)), "does not fit whole"),
    (lambda c, w, s, t: max(0, (c - w) // t), "the workspace takes room"),
    (lambda c, w, s, t: c // t, "weights and workspace take room"),
    (lambda c, w, s, t: (c - w - s) // t, "no context does; return 0"),
    (lambda c, w, s, t: max(0, (c - w - s - 1) // t), "exactly does fit"),
    (lambda c, w, s, t: max(0, c - w - s), "these are bytes"),
    (lambda c, w, s, t: max(0, (c - w - s) / t), "are whole"),
    (lambda c, w, s, t: max(0, round((c - w - s) / t)), "not to the nearest"),
    (lambda c, w, s, t: limit(c, w, s, t) + 1, "; expected "),
    (lambda c, w, s, t: "8", "no number but str"),
    (lambda c, w, s, t: [limit(c, w, s, t)], "no number but list"),
    (lambda c, w, s, t: float("nan"), "is NaN"),
    (raising, "raises KeyError"),
]

# -- 4.3 -----------------------------------------------------------------------------------------------------


def heads(q: int, kv: int, n: int) -> list[int]:
    if q % n:
        return []
    share, group = q // n, q // kv
    return [len({i // group for i in range(at, at + share)}) for at in range(0, q, share)]


def by_borders(q: int, kv: int, n: int) -> Any:
    if q % n:
        return ()
    share, group = q // n, q // kv
    first = np.arange(n) * share
    return (first + share - 1) // group - first // group + 1


def by_lists(q: int, kv: int, n: int) -> list[int]:
    owner = [i * n // q for i in range(q)] if q % n == 0 else []
    reads: list[set[int]] = [set() for _ in range(n)] if owner else []
    for i, device in enumerate(owner):
        reads[device].add(i * kv // q)
    return [len(each) for each in reads]


RIGHT_3: Answers = [heads, by_borders, by_lists, lambda q, kv, n: tuple(heads(q, kv, n))]
WRONG_3: Wrongs = [
    (lambda q, kv, n: [kv // n] * n if q % n == 0 else [], "could not attend"),
    (lambda q, kv, n: [up(kv, n)] * n if q % n == 0 else [], "both sides need"),
    (lambda q, kv, n: [max(1, kv // n)] * n if q % n == 0 else [], "both sides need"),
    (lambda q, kv, n: [kv] * n if q % n == 0 else [], "nothing is split"),
    (lambda q, kv, n: heads(q, kv, n) or [0] * n, "do not divide by"),
    (lambda q, kv, n: heads(q, kv, n) or None, "returns None"),
    (lambda q, kv, n: heads(q, kv, n) if kv % n == 0 else [], "do divide by"),
    (lambda q, kv, n: sum(heads(q, kv, n)), "returns int"),
    (lambda q, kv, n: heads(q, kv, n)[:1], "returns 1 values"),
    (
        lambda q, kv, n: [len(heads(q, kv, n)) for _ in heads(q, kv, n)],
        "nothing is split|count the different",
    ),
    (lambda q, kv, n: [h + 1 for h in heads(q, kv, n)], "count the different"),
    (
        lambda q, kv, n: [kv // n + (i < kv % n) for i in range(n)] if q % n == 0 else [],
        "kept on both",
    ),
    (lambda q, kv, n: [str(h) for h in heads(q, kv, n)], "no number but str"),
    (raising, "raises KeyError"),
]

# -- 4.4 -----------------------------------------------------------------------------------------------------


def packed(size: int, group: int) -> int:
    return up(size, 2) + 2 * up(size, group)


def by_walking(size: int, group: int) -> int:
    made = 0
    for at in range(size):
        made += (at % 2 == 0) + 2 * (at % group == 0)
    return made


RIGHT_4: Answers = [
    packed,
    by_walking,
    lambda size, group: math.ceil(size / 2) + 2 * math.ceil(size / group),
    lambda size, group: (size + 1) // 2 + 2 * ((size + group - 1) // group),
]
WRONG_4: Wrongs = [
    (lambda s, g: up(s, 2), "the scales are missing"),
    (lambda s, g: s + 2 * up(s, g), "a byte a number"),
    (lambda s, g: up(s, 2) + up(s, g), "2 bytes, not one"),
    (lambda s, g: up(s, 2) + 2 * (s // g), "a group that is started"),
    (lambda s, g: s // 2 + 2 * up(s, g), "an odd number of codes"),
    (lambda s, g: up(s, 2) + 2, "one scale for the whole vector"),
    (lambda s, g: 8 * packed(s, g), "these are bits"),
    (lambda s, g: up(s, 2) + 2 * s, "a scale for every number"),
    (lambda s, g: up(up(s, g) * g, 2) + 2 * up(s, g), "the last group is filled up"),
    (lambda s, g: s / 2 + 2 * up(s, g), "are whole"),
    (lambda s, g: packed(s, g) + 1, "; expected "),
    (lambda s, g: "no", "no number but str"),
    (raising, "raises KeyError"),
]

# -- 4.5 -----------------------------------------------------------------------------------------------------


def blocks(prompt: int, written: list[int], size: int) -> int:
    full, rest = divmod(prompt, size)
    return full + (rest > 0) + sum(up(rest + n, size) for n in written if n)


def by_the_tables(prompt: int, written: list[int], size: int) -> int:
    """The book's own tables, driven step by step."""
    tables = PagedTables(4000, size)
    root = tables.open()
    tables.reserve(root, prompt)
    tables.advance(root, prompt)
    for child, count in [(tables.fork(root), n) for n in written]:
        tables.reserve(child, count)
        tables.advance(child, count)
    return sum(readers > 0 for readers in tables.readers)


RIGHT_5: Answers = [
    blocks,
    by_the_tables,
    lambda p, w, b: up(p, b) + sum(up(p % b + n, b) for n in w if n > 0),
    lambda p, w, b: up(p, b) + sum(up(p + n, b) - p // b for n in w if n),
]
WRONG_5: Wrongs = [
    (lambda p, w, b: up(p, b) + sum(up(p + n, b) for n in w), "nothing is shared"),
    (lambda p, w, b: up(p, b) + sum(up(n, b) for n in w), "copy of the half-full block"),
    (lambda p, w, b: up(p, b) + sum(up(p % b + n, b) for n in w), "writes nothing takes no block"),
    (lambda p, w, b: p // b + sum(up(p % b + n, b) for n in w if n), "stays open"),
    (lambda p, w, b: up(p, b) + sum(up(p % b + n, b) - (p % b > 0) for n in w if n), "copied first"),
    (lambda p, w, b: up(p + sum(w), b), "sequences of their own"),
    (lambda p, w, b: blocks(p, w, b) * b, "these are slots"),
    (lambda p, w, b: p + sum(w), "these are tokens"),
    (lambda p, w, b: blocks(p, w, b) - 1, "; expected "),
    (lambda p, w, b: (p + sum(w)) / b, "are whole"),
    (lambda p, w, b: [blocks(p, w, b)], "no number but list"),
    (lambda p, w, b: w.clear() or blocks(p, [1], b), "changes its argument"),  # type: ignore[func-returns-value]
    (raising, "raises KeyError"),
]

RIGHT = [RIGHT_1, RIGHT_2, RIGHT_3, RIGHT_4, RIGHT_5]
WRONG = [WRONG_1, WRONG_2, WRONG_3, WRONG_4, WRONG_5]


def test_every_exercise_has_its_corpus() -> None:
    assert list(EXERCISES) == [f"exercise_4_{n}" for n in range(1, 6)]
    assert all(len(wrong) >= 10 for wrong in WRONG) and all(len(right) >= 4 for right in RIGHT)


@pytest.mark.parametrize(
    ("number", "case"), [(n, i) for n, wrong in enumerate(WRONG, 1) for i in range(len(wrong))]
)
def test_wrong_answers_get_their_reason(number: int, case: int) -> None:
    answer, words = WRONG[number - 1][case]
    verdict = EXERCISES[f"exercise_4_{number}"].grade(answer)
    assert verdict.state == "wrong"
    assert any(part in verdict.reason for part in words.split("|")), verdict.reason


@pytest.mark.parametrize(
    ("number", "case"), [(n, i) for n, right in enumerate(RIGHT, 1) for i in range(len(right))]
)
def test_right_answers_pass(number: int, case: int) -> None:
    verdict = EXERCISES[f"exercise_4_{number}"].grade(RIGHT[number - 1][case])
    assert verdict.state == "passed", verdict.reason


@pytest.mark.parametrize("name", EXERCISES)
def test_the_untouched_stub_of_the_page_fails(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The very cell that readers get, run as it is; and the solution beside it, which passes."""
    page = notebooks.read(notebooks.ROOT / "chapters" / "04-kv-cache.ipynb")
    at = int(name.rpartition("_")[2]) - 1
    cells = [cell.source for cell in notebooks.code_cells(page) if "exercise" in notebooks.tags(cell)]
    assert f"check.{name}(" in cells[at] and EXERCISES[name].name in cells[at]
    exec(cells[at], {"check": check})
    assert "not started" in capsys.readouterr().out
    solved = [cell.source for cell in notebooks.code_cells(page) if "solution" in notebooks.tags(cell)]
    space: dict[str, Any] = {"check": check}
    exec(solved[at].partition("\n\n\ncheck.")[0], space)
    assert EXERCISES[name].grade(space[EXERCISES[name].name]).state == "passed"
