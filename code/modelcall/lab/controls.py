"""What a reader may turn: a slider, a choice or a switch, each with a short list of values and their names.

The form of an argument says which: ``(0.1, 3.0, 0.1)`` or a ``range`` is a slider with both ends, a list is a
choice, a dict is a choice whose keys are the names of its values, a bool is a switch and its position at the
start. The steps of a slider are computed in decimal, so 0.1 steps thrice to 0.3 and not beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from modelcall.lab import args

__all__ = ["MAX_STATES", "Control", "make_control"]

MAX_STATES = 400


@dataclass(frozen=True)
class Control:
    """A control: ``kind`` is "slider", "choice" or "switch"; ``start`` is the place of its first value."""

    name: str
    label: str
    kind: str
    values: tuple[Any, ...]
    names: tuple[str, ...]
    start: int = 0


def make_control(name: str, spec: object, label: str, default: object = None) -> Control:
    """Return the control that ``spec`` describes; ``default`` is the value to start from, if it is one.

    Raises:
        TypeError: ``spec`` is none of the four forms, or a bound is no number.
        ValueError: no value, a value twice, a step that leads nowhere, or too many values.

    >>> make_control("t", (0.1, 0.4, 0.1), "T", default=0.3).names
    ('0.1', '0.2', '0.3', '0.4')
    >>> make_control("rule", ["all", "top-k"], "rule").kind
    'choice'
    """
    if isinstance(spec, bool):
        return Control(name, label, "switch", (False, True), ("off", "on"), int(spec))
    if isinstance(spec, tuple | range):
        kind, (values, names) = "slider", _steps(name, spec)
    elif isinstance(spec, Mapping):
        kind, values, names = "choice", list(spec.values()), [str(key) for key in spec]
    elif isinstance(spec, list):
        kind, values, names = "choice", spec, [str(value) for value in spec]
    else:
        forms = "(start, stop, step), a range, a list, a dict or a bool"
        raise TypeError(f"{name}: expected {forms}; {args.found(spec)}")
    if not values:
        raise ValueError(f"{name}: expected at least one value; {args.found(spec)}")
    for text in names:
        args.text(f"{name}, a value", text)
    if twice := [text for i, text in enumerate(names) if text in names[:i]]:
        raise ValueError(f"{name}: the value {twice[0]!r} is there twice; {args.found(spec)}")
    start = next((i for i, value in enumerate(values) if _same(value, default)), 0)
    return Control(name, label, kind, tuple(values), tuple(names), start)


def _same(value: object, default: object) -> bool:
    if isinstance(value, float) and isinstance(default, Real):
        return math.isclose(value, float(default), rel_tol=1e-9, abs_tol=1e-12)
    try:
        return type(value) is type(default) and bool(value == default)
    except ValueError:  # arrays compare member by member
        return False


def _steps(name: str, spec: tuple[Any, ...] | range) -> tuple[list[Any], list[str]]:
    if isinstance(spec, range):
        count, values = len(spec), spec[: MAX_STATES + 1]
        if count > MAX_STATES:
            raise ValueError(f"{name}: {count} values, at most {MAX_STATES}; {args.found(spec)}")
        return list(values), [str(value) for value in values]
    if len(spec) != 3:
        raise TypeError(f"{name}: expected (start, stop, step); {args.found(spec)}")
    for part, value in zip(("start", "stop", "step"), spec, strict=True):
        args.real(f"{name}, {part}", value, -args.LARGEST, args.LARGEST)
    whole = all(isinstance(value, Integral) for value in spec)
    start, stop, step = (Decimal(repr(int(v) if isinstance(v, Integral) else float(v))) for v in spec)
    if step <= 0 or stop < start:
        raise ValueError(
            f"{name}: expected a stop not below the start, and a step above 0; {args.found(spec)}"
        )
    count = int((stop - start) / step) + 1
    if count > MAX_STATES:
        many = count if count < 10**9 else "more than 10**9"
        raise ValueError(
            f"{name}: {many} values, at most {MAX_STATES}: take a larger step; {args.found(spec)}"
        )
    places = max(0, *(-int(part.normalize().as_tuple().exponent) for part in (start, step)))
    exact = [start + i * step for i in range(count)]
    return [int(v) if whole else float(v) for v in exact], [f"{v:.{places}f}" for v in exact]
