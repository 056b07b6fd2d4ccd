"""Exercises that check themselves: ``from modelcall.checks import ch01 as check``.

One module for each chapter; each exercise in it grades the reader's own object, offline:

>>> from modelcall.checks import ch01 as check
>>> check.exercise_1_1(lambda logprobs: (0.4, 0.4))  # doctest: +NORMALIZE_WHITESPACE
Exercise 1.1: not yet. recover([-0.5, -0.5]): the first result is 0.4; expected 0.3679:
round what you print, not the result
Hint 1 of 3: Probabilities of tokens in a row multiply; what do their logarithms do?

How an answer is run and judged is in :mod:`modelcall.checks.grading`.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

__all__ = ["titles"]


@cache
def titles() -> dict[str, str]:
    """Return the title of every exercise by its number, such as "1.2"."""
    from modelcall.checks.grading import Exercise

    found: dict[str, str] = {}
    for module in sorted(entry.name for entry in pkgutil.iter_modules(__path__)):
        if module.startswith("ch") and module[2:].isdigit():
            names = vars(importlib.import_module(f"{__name__}.{module}"))
            found |= {value.number: value.title for value in names.values() if isinstance(value, Exercise)}
    return dict(sorted(found.items(), key=lambda entry: [int(part) for part in entry[0].split(".")]))
