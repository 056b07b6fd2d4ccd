"""Grade an answer: a verdict, the reason for it, and one more hint with each failure.

An exercise is a function that tests an ``Answer`` and raises ``Wrong`` with a reason. Tests draw their cases
from generators of their own with a fixed seed, compare with a formula or a function of the book, and look for
the commonest misconceptions first, as their reason says more than two numbers that differ. An untouched stub
never passes, and costs no hint.
"""

from __future__ import annotations

import html
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

from modelcall.checks import guard
from modelcall.checks.guard import Untouched, Wrong
from modelcall.lab import args, bundle, local, results

__all__ = [
    "Answer",
    "Exercise",
    "Mistakes",
    "Verdict",
    "Wrong",
    "agree",
    "apart",
    "close",
    "exercise",
    "number",
    "places",
    "sequence",
    "whole",
]


@dataclass(frozen=True)
class Verdict:
    """What became of an answer; ``reason`` is empty where it passed."""

    state: Literal["passed", "wrong", "untouched"]
    reason: str = ""


class Answer:
    """The reader's function under test: calling it runs it guarded and counts its cases."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self.name, self.cases = function, name, 0

    def __call__(self, *arguments: Any) -> Any:
        self.cases += 1
        return guard.call(self.function, self.name, arguments)

    def shown(self, *arguments: Any) -> str:
        """Return a call as messages write it."""
        return guard.shown_call(self.name, arguments)


@dataclass(frozen=True)
class Exercise:
    """An exercise; call it with an answer to have it graded and the verdict printed."""

    number: str
    title: str
    name: str  # of the function that the reader writes
    hints: tuple[str, ...]
    test: Callable[[Answer, random.Random], None]

    def grade(self, answer: object) -> Verdict:
        """Return the verdict on an answer, without a word and without a record of it."""
        if answer is None or answer is Ellipsis:
            return Verdict("untouched")
        if not callable(answer):
            return Verdict("wrong", f"expected the function {self.name} itself; {args.found(answer)}")
        try:
            # Drawn cases cannot be known to an answer; with a fixed seed the verdict is the same each time.
            self.test(Answer(answer, self.name), random.Random(f"exercise {self.number}"))
        except Untouched:
            return Verdict("untouched")
        except Wrong as error:
            return Verdict("wrong", str(error))
        except Exception as error:  # a result that cannot even be looked at
            return Verdict("wrong", f"its result cannot be used: {type(error).__name__}: {error}")
        return Verdict("passed")

    def __call__(self, answer: object) -> None:
        """Grade an answer and print the verdict; a failure prints one more hint than the last."""
        verdict = self.grade(answer)
        head = f"Exercise {self.number}:"
        if verdict.state == "untouched":
            print(f"{head} not started. Write {self.name}, then run this cell again.")
            return
        tries = 0

        def change(old: Any) -> dict[str, Any]:
            nonlocal tries
            entry = old if isinstance(old, dict) else {}
            before = entry.get("tries", 0)
            tries = max(0, before if isinstance(before, int) else 0) + (verdict.state == "wrong")
            return entry | {"tries": tries, "passed": bool(entry.get("passed")) or verdict.state == "passed"}

        trouble = local.record("exercises", self.number, change)
        if verdict.state == "passed":
            print(f"{head} passed.")
        else:
            print(f"{head} not yet. {verdict.reason}")
            if self.hints:
                at = min(tries, len(self.hints))
                print(f"Hint {at} of {len(self.hints)}: {self.hints[at - 1]}")
        if trouble:
            print(f"({trouble})")

    def on_page(self) -> None:
        """Show the hints, folded, and a box to tick: what a page can do for an exercise."""
        folds = "".join(
            f"<details><summary>Hint {i} of {len(self.hints)}</summary>"
            f"{results.markdown_html(hint)}</details>"
            for i, hint in enumerate(self.hints, 1)
        )
        page = (
            f'<div class="exercise-foot" id="exercise-{self.number.replace(".", "-")}">{folds}<label>'
            f'<input type="checkbox" autocomplete="off" data-key="exercise:{self.number}">'
            f" I have solved exercise {self.number}</label></div>"
        )
        plain = f"Exercise {self.number} has {len(self.hints)} hints; its check gives one with each failure."
        bundle.show_still(page, plain, lambda module: module.HTML(html.escape(plain)))


def exercise(
    number: str, title: str, name: str, hints: Sequence[str]
) -> Callable[[Callable[[Answer, random.Random], None]], Exercise]:
    """Make an exercise of a function that tests an answer."""
    return lambda test: Exercise(number, title, name, tuple(hints), test)


# -- many cases at once --------------------------------------------------------------------------------------

Mistakes = Sequence[tuple[Callable[..., Any], str]]  # what a wrong answer does, and what to say of it
_KINDS = {bool: "True or False", str: "the name of a status, such as 'COMPLETED'"}


def agree(
    answer: Answer,
    cases: Sequence[tuple[Any, ...]],
    rule: Callable[..., Any],
    mistakes: Mistakes,
    kind: type,
    told: Sequence[str] = (),
) -> None:
    """Compare an answer with the rule on all cases; name the mistake that gives the same wrong results.

    ``told`` says of each case in words what it is, where its arguments are too long to be read.
    """
    got = []
    for case in cases:
        value = answer(*case)
        if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
            value = value.item()
        if not isinstance(value, kind):
            raise Wrong(f"{answer.shown(*case)} returns {value!r}; expected {_KINDS[kind]}")
        got.append(value)
    want = [rule(*case) for case in cases]
    if got == want:
        return
    for mistake, why in mistakes:
        if got == [mistake(*case) for case in cases]:
            raise Wrong(f"{answer.name}: {why}")
    at = next(i for i, (a, b) in enumerate(zip(got, want, strict=True)) if a != b)
    call = f"{answer.name}, given {told[at]}," if told else answer.shown(*cases[at])
    raise Wrong(f"{call} returns {got[at]!r}; expected {want[at]!r}")


# -- looking at results --------------------------------------------------------------------------------------


def number(value: object, what: str) -> float:
    """Return a result as a float; ``what`` names it in the reason.

    Raises:
        Wrong: it is no number, NaN, or beyond the range of a float.
    """
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a NumPy scalar
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise Wrong(f"{what} is no number but {type(value).__name__}: {args.found(value)[4:]}")
    try:
        result = float(value)
    except OverflowError:
        raise Wrong(f"{what} is beyond the range of a float") from None
    if math.isnan(result):
        raise Wrong(f"{what} is NaN")
    return result


def whole(value: object, what: str, why: str = "expected a whole number") -> int:
    """Return a result as an int; ``why`` says why it must be whole.

    Raises:
        Wrong: as ``number``; or it is infinite, or has a fraction.
    """
    got = number(value, what)
    if math.isinf(got) or got != int(got):
        raise Wrong(f"{what} is {got!r}; {why}")
    return int(got)


def places(value: object, what: str, item: str) -> list[int]:
    """Return a result as a list of whole numbers, of any length; ``item`` names one of them.

    Raises:
        Wrong: it is no list, tuple or array, or a member is no whole number.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise Wrong(f"{what} returns {_kind(value)}; expected a list")
    return [whole(each, f"{what}: {item}") for each in value]


def sequence(value: object, size: int, what: str) -> list[Any]:
    """Return a result as a list of ``size`` members.

    Raises:
        Wrong: it is no list, tuple or array, or has another length.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise Wrong(f"{what} returns {_kind(value)}; expected {size} values in a list or tuple")
    if len(value) != size:
        raise Wrong(f"{what} returns {len(value)} values; expected {size}")
    return list(value)


def _kind(value: object) -> str:
    if hasattr(value, "__next__"):
        return "a generator, which can be read only once"
    return f"{type(value).__name__} ({args.found(value)[4:]})"


def close(got: float, want: float, rel: float = 1e-9) -> bool:
    """Say whether two results are equal up to rounding."""
    return math.isclose(got, want, rel_tol=rel, abs_tol=1e-12)


def apart(got: float, want: float, unit: str = "") -> str:
    """Return two unequal results in words, with as many digits as it takes to tell them apart.

    >>> apart(0.3679, math.exp(-1)), apart(1.0, 2.0, " ms")
    ('0.3679; expected 0.36788: round what you print, not the result', '1 ms; expected 2')
    """
    digits = next((n for n in range(4, 17) if f"{got:.{n}g}" != f"{want:.{n}g}"), 17)
    reason = ""
    if math.isfinite(want) and any(got == round(want, n) for n in range(12)) and abs(got - want) < 0.5:
        reason = ": round what you print, not the result"
    elif close(got, want, 1e-5):
        reason = ": near, but not to nine digits; compute in float64, which is Python's float"
    return f"{got:.{digits}g}{unit}; expected {want:.{digits}g}{reason}"
