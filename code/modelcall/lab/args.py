"""Checks of arguments, so that a chapter's code shows its idea and still refuses bad input by name.

Every check returns the value in the type the caller computes with, or raises with the name of the
argument, what was expected and what was found. A wrong type is a ``TypeError``, a wrong value a
``ValueError``. The checks never repair a value: no clipping, no renormalising, no default.
"""

from __future__ import annotations

import math
import reprlib
import sys
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, TypeVar

T = TypeVar("T")

__all__ = [
    "LARGEST",
    "LARGEST_COUNT",
    "TOTAL_TOLERANCE",
    "count",
    "distribution",
    "found",
    "inside",
    "instance",
    "instances",
    "integer",
    "integers",
    "items",
    "mapping",
    "out_of",
    "outcome",
    "plain",
    "range_tables",
    "real",
    "reals",
    "text",
    "text_pairs",
    "texts",
]

LARGEST = sys.float_info.max  # as a bound, it shuts the infinities out

LARGEST_COUNT = 2**53  # up to here a float tells each integer from the next, so that rates stay exact

# How far from 1 the sum of a distribution may lie. A softmax in float64 over 200,000 tokens is off by
# about 1e-14; a vector that forgot a token, or was rounded for print, is off by far more than this.
TOTAL_TOLERANCE = 1e-9


def found(value: object) -> str:
    """Return the part of a message that shows the offending value, shortened if it is long.

    >>> found([0.5] * 100_000)
    'got [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, ...]'
    """
    try:
        return f"got {reprlib.repr(value)}"
    except ValueError:  # Python writes out no integer of more than some thousand digits
        return f"got {type(value).__name__}, too large to show"


def integer(name: str, value: object, *, at_least: int = 0, at_most: int | None = None) -> int:
    """Return ``value`` as an ``int`` inside the closed bounds. A bool is no integer here.

    Raises:
        TypeError: not an integer.
        ValueError: outside the bounds.

    >>> integer("k", 3, at_least=1)
    3
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}: expected an integer; {found(value)}")
    number = int(value)
    if number < at_least or (at_most is not None and number > at_most):
        bounds = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        raise ValueError(f"{name}: expected an integer {bounds}; {found(value)}")
    return number


def count(name: str, value: object) -> int:
    """Return ``value`` as an ``int`` from 0 to ``LARGEST_COUNT``, so that arithmetic in floats is safe.

    Raises:
        TypeError: not an integer.
        ValueError: negative, or too large.

    >>> count("trials", 4)
    4
    """
    return integer(name, value, at_most=LARGEST_COUNT)


def out_of(name: str, pair: object) -> tuple[int, int]:
    """Return a pair of counts, the first of them out of the second.

    Raises:
        TypeError: not a pair of integers.
        ValueError: a negative or too large count, or more than there are.

    >>> out_of("golden", (46, 50))
    (46, 50)
    """
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"{name}: expected a pair, how many out of how many; {found(pair)}")
    whole = count(f"{name}[1]", pair[1])
    return integer(f"{name}[0]", pair[0], at_most=whole), whole


def outcome(name: str, value: object) -> int:
    """Return 1 for what equals 1, such as True, and 0 for what equals 0.

    Raises:
        ValueError: anything else, of whatever type.

    >>> outcome("right", True)
    1
    """
    # An array compares member by member, so it is neither; like every mutable value it has no hash.
    if not isinstance(value, Hashable) or value not in (0, 1):
        raise ValueError(f"{name}: expected 0 or 1; {found(value)}")
    return 1 if value == 1 else 0


def real(name: str, value: object, at_least: float = -math.inf, at_most: float = math.inf) -> float:
    """Return ``value`` as a ``float`` inside the closed bounds. NaN is never inside; an infinity may be.

    Raises:
        TypeError: not a real number (a bool and a string of digits are none).
        ValueError: NaN, beyond the range of a float, or outside the bounds.

    >>> real("temperature", 2, at_least=0.0)
    2.0
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}: expected a number; {found(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name}: expected a number in the range of a float; {found(value)}") from None
    if math.isnan(number) or not at_least <= number <= at_most:
        raise ValueError(f"{name}: expected a number from {at_least:g} to {at_most:g}; {found(value)}")
    return number


def inside(value: object, low: float, high: float) -> bool:
    """Say whether ``value`` is a number inside the closed range; what is no number lies outside.

    >>> inside(25, 0, 25), inside("25", 0, 25)
    (True, False)
    """
    try:
        return low <= real("value", value) <= high
    except (TypeError, ValueError):
        return False


def items(name: str, values: object, *, empty: bool = False) -> list[object]:
    """Return the members of an iterable as a list. A string counts as one value, not as its letters.

    Raises:
        TypeError: a string, bytes, or nothing that can be iterated.
        ValueError: no member, unless ``empty`` allows that.

    >>> items("corpus", ("a b", "c"))
    ['a b', 'c']
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{name}: expected a sequence of values; {found(values)}")
    try:
        iterator = iter(values)
    except TypeError:  # a NumPy array without dimensions says that it can be iterated, and cannot
        raise TypeError(f"{name}: expected a sequence of values; {found(values)}") from None
    members = list(iterator)
    if not members and not empty:
        raise ValueError(f"{name}: expected at least one value; {found(values)}")
    return members


def instance(name: str, value: object, kind: type[T]) -> T:
    """Return ``value`` if it is of the type.

    Raises:
        TypeError: it is not.

    >>> instance("score", 1, int)
    1
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected a {kind.__name__}; {found(value)}")
    return value


def instances(name: str, values: object, kind: type[T]) -> tuple[T, ...]:
    """Return the members of an iterable, possibly none, all of them of one type.

    Raises:
        TypeError: not a sequence, or a member of another type.

    >>> instances("scores", [1, 2], int)
    (1, 2)
    """
    members = enumerate(items(name, values, empty=True))
    return tuple(instance(f"{name}[{i}]", value, kind) for i, value in members)


def reals(
    name: str, values: object, *, at_least: float = -math.inf, at_most: float = math.inf
) -> list[float]:
    """Return a non-empty vector of numbers, each held to the same bounds as in ``real``.

    Raises:
        TypeError: not a sequence, or a member that is not a number.
        ValueError: empty, or a member that is NaN or outside the bounds.

    >>> reals("logits", [1, -0.5])
    [1.0, -0.5]
    """
    members = enumerate(items(name, values))
    return [real(f"{name}[{i}]", value, at_least=at_least, at_most=at_most) for i, value in members]


def integers(name: str, values: object, at_most: int) -> list[int]:
    """Return a vector of integers from 0 to ``at_most``, possibly an empty one.

    Raises:
        TypeError: not a sequence, or a member that is not an integer.
        ValueError: a member outside the bounds.

    >>> integers("ids", (3, 1), 3)
    [3, 1]
    """
    members = enumerate(items(name, values, empty=True))
    return [integer(f"{name}[{i}]", value, at_most=at_most) for i, value in members]


def distribution(name: str, values: object) -> list[float]:
    """Return a probability vector: each entry from 0 to 1, and a sum of 1 within ``TOTAL_TOLERANCE``.

    Raises:
        TypeError: not a sequence of numbers.
        ValueError: empty, NaN, negative, above 1, or not normalised.

    >>> distribution("probs", [0.25, 0.75])
    [0.25, 0.75]
    """
    probs = reals(name, values, at_least=0.0, at_most=1.0 + TOTAL_TOLERANCE)
    total = math.fsum(probs)
    if abs(total - 1.0) > TOTAL_TOLERANCE:
        raise ValueError(
            f"{name}: expected probabilities that sum to 1; these sum to {total!r}; {found(values)}"
        )
    return probs


def text(name: str, value: object) -> str:
    """Return ``value`` if it is text that UTF-8 can carry.

    Python allows half of a surrogate pair inside a string; no UTF-8 file and no request body can hold
    one, so it is refused here and not at the far end of the call.

    Raises:
        TypeError: not a string.
        ValueError: holds a lone surrogate.

    >>> text("word", "naïve")
    'naïve'
    """
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected text; {found(value)}")
    try:
        value.encode()  # in C: a page of text is checked thousands of times as fast as letter by letter
    except UnicodeEncodeError as error:
        i = error.start
        raise ValueError(
            f"{name}: expected Unicode text; character {i} is a lone surrogate, {value[i]!r}"
        ) from None
    return value


def texts(name: str, values: object) -> list[str]:
    """Return a non-empty vector of texts, each held to the same rule as in ``text``.

    Raises:
        TypeError: one string, not a sequence, or a member that is not a string.
        ValueError: empty, or a member that holds a lone surrogate.

    >>> texts("corpus", ["a b", "c"])
    ['a b', 'c']
    """
    return [text(f"{name}[{i}]", value) for i, value in enumerate(items(name, values))]


def text_pairs(name: str, values: object) -> list[tuple[str, str]]:
    """Return the members of an iterable, possibly none, as pairs of strings.

    Raises:
        TypeError: not a sequence, or a member that is no pair of strings.
        ValueError: a string holds a lone surrogate.

    >>> text_pairs("merges", [("a", "b"), ["ab", "c"]])
    [('a', 'b'), ('ab', 'c')]
    """
    pairs: list[tuple[str, str]] = []
    for i, value in enumerate(items(name, values, empty=True)):
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            raise TypeError(f"{name}[{i}]: expected a pair of strings; {found(value)}")
        left, right = (text(f"{name}[{i}]", side) for side in value)
        pairs.append((left, right))
    return pairs


def mapping(name: str, values: object, *kinds: type) -> Mapping[str, Any]:
    """Return a mapping, possibly an empty one, whose keys are texts and whose values are of one of the types.

    Without ``kinds`` its values may be anything.

    Raises:
        TypeError: not a mapping, a key that is no string, or a value of another type.
        ValueError: a key that holds a lone surrogate.

    >>> mapping("right", {"easy": True}, bool)
    {'easy': True}
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"{name}: expected a mapping; {found(values)}")
    for key, value in values.items():
        text(f"{name}, a key", key)
        if kinds and not isinstance(value, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name}[{reprlib.repr(key)}]: expected {expected}; {found(value)}")
    return values


def range_tables(name: str, tables: object) -> None:
    """Check a mapping from texts to mappings from texts to closed ranges (low, high).

    Raises:
        TypeError: not such mappings, or a range that is no pair of numbers.
        ValueError: a NaN, or a range whose low end is above its high end.

    >>> range_tables("granted", {"read": {"id": (1, 999)}})
    """
    for key, table in mapping(name, tables).items():
        place = f"{name}[{reprlib.repr(key)}]"
        for inner, pair in mapping(place, table).items():
            where = f"{place}[{reprlib.repr(inner)}]"
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(f"{where}: expected a range (low, high); {found(pair)}")
            real(f"{where}[1]", pair[1], at_least=real(f"{where}[0]", pair[0]))


def plain(record: Any) -> None:
    """Check the fields of a dataclass that it declares as plain ``str``, ``int``, ``float`` or ``bool``.

    They are held to a text, a ``count``, a finite number of at least 0, and a bool. Fields of other types
    are left to the caller.

    Raises:
        TypeError: a field of another type than its own.
        ValueError: a text that holds a lone surrogate; a number that is negative, NaN or infinite.
    """
    for field in fields(record):
        name, value = field.name, getattr(record, field.name)
        if field.type is str:
            text(name, value)
        elif field.type is int:
            count(name, value)
        elif field.type is float:
            real(name, value, 0.0, LARGEST)
        elif field.type is bool:
            instance(name, value, bool)
