"""The argument checks: what passes comes back as the type computed with, what does not is named.

The oracle for whole vectors is the obvious rule written out with ``numbers`` and ``math``; the messages are
held to one form, because a reader meets them before any documentation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelcall.lab import args

CHECKS: dict[str, Callable[[object], Any]] = {
    "integer": lambda value: args.integer("x", value),
    "real": lambda value: args.real("x", value),
    "items": lambda value: args.items("x", value),
    "instances": lambda value: args.instances("x", value, int),
    "reals": lambda value: args.reals("x", value),
    "integers": lambda value: args.integers("x", value, 9),
    "distribution": lambda value: args.distribution("x", value),
    "text": lambda value: args.text("x", value),
    "texts": lambda value: args.texts("x", value),
    "text_pairs": lambda value: args.text_pairs("x", value),
}
LONE = "a\ud800"
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(LONE),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
many = settings(
    derandomize=True, deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)


def test_every_check_is_public_and_tested() -> None:
    assert set(args.__all__) == {*CHECKS, "found", "LARGEST", "TOTAL_TOLERANCE"}


@pytest.mark.parametrize("check", CHECKS)
@given(value=ANYTHING)
@many
def test_bad_input_gives_one_kind_of_message_and_nothing_else_escapes(check: str, value: object) -> None:
    try:
        CHECKS[check](value)
    except (TypeError, ValueError) as error:
        assert re.match(r"x(\[\d+\])*: expected .*", str(error), re.S), error
        assert len(str(error)) < 300


@given(value=st.integers() | st.booleans() | st.floats(), low=st.integers(-5, 5), width=st.integers(0, 9))
@many
def test_an_integer_is_an_integer_within_closed_bounds(value: object, low: int, width: int) -> None:
    fits = type(value) is int and low <= value <= low + width
    if fits:
        assert args.integer("k", value, at_least=low, at_most=low + width) == value
    else:
        with pytest.raises(ValueError if type(value) is int else TypeError, match=r"^k: expected an integer"):
            args.integer("k", value, at_least=low, at_most=low + width)


@given(value=st.floats(), low=st.floats(allow_nan=False), high=st.floats(allow_nan=False))
@many
def test_a_real_is_inside_its_closed_bounds_or_refused(value: float, low: float, high: float) -> None:
    if low <= value <= high:
        assert args.real("t", value, low, high) == value
    else:
        with pytest.raises(ValueError, match=r"^t: expected a number from"):
            args.real("t", value, low, high)


@pytest.mark.parametrize("value", [True, "1", b"1", None, 1j, Decimal(1), [1.0]])
def test_what_only_looks_like_a_number_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match=r"^t: expected a number; got "):
        args.real("t", value)
    with pytest.raises(TypeError, match=r"^k: expected an integer; got "):
        args.integer("k", value)


@pytest.mark.parametrize("value", [np.float32(0.5), Fraction(1, 2), np.float64(0.5), 0.5])
def test_numbers_of_other_libraries_become_plain_floats(value: object) -> None:
    assert args.real("t", value) == 0.5 and type(args.real("t", value)) is float
    assert type(args.integer("k", np.int64(3))) is int
    assert [type(x) for x in args.reals("v", np.array([1.0, 2.0]))] == [float, float]


def test_no_bound_admits_infinity_and_largest_shuts_it_out() -> None:
    assert args.real("t", math.inf) == math.inf
    assert args.real("t", args.LARGEST, 0.0, args.LARGEST) == args.LARGEST
    for value in (math.inf, -math.inf):
        with pytest.raises(ValueError, match=r"^t: expected a number from"):
            args.real("t", value, -args.LARGEST, args.LARGEST)
    with pytest.raises(ValueError, match=r"in the range of a float"):
        args.real("t", 10**400)
    with pytest.raises(ValueError, match=r"^t"):
        args.real("t", math.nan)


@given(weights=st.lists(st.integers(0, 10**6), min_size=1, max_size=50).filter(any))
@many
def test_what_is_normalised_is_a_distribution_and_what_is_scaled_is_none(weights: list[int]) -> None:
    total = sum(weights)
    shares = [weight / total for weight in weights]
    assert args.distribution("p", shares) == shares
    for factor in (1.0 + 3e-9, 1.0 - 3e-9, 2.0):
        with pytest.raises(ValueError, match=r"^p"):
            args.distribution("p", [share * factor for share in shares])


def test_a_distribution_is_never_repaired() -> None:
    for bad in ([0.5, 0.6, -0.1], [0.5, math.nan], [0.2] * 4, []):
        with pytest.raises(ValueError, match=r"^p"):
            args.distribution("p", bad)
    with pytest.raises(ValueError, match=r"^p\[2\]: .*got -0.1"):
        args.distribution("p", [0.5, 0.6, -0.1])


@given(text=st.text(st.characters(exclude_categories=())))
@many
def test_text_is_what_utf_8_can_carry(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        with pytest.raises(ValueError, match=f"^w: .* character {error.start} is a lone surrogate"):
            args.text("w", text)
    else:
        assert args.text("w", text) is text


@pytest.mark.parametrize(
    ("char", "fits"),
    [
        ("\ud7ff", True),
        ("\ud800", False),
        ("\udbff", False),
        ("\udc00", False),
        ("\udfff", False),
        ("\ue000", True),
    ],
)
def test_the_borders_of_the_surrogates(char: str, fits: bool) -> None:
    if fits:
        assert args.text("w", "a" + char) == "a" + char
    else:
        with pytest.raises(ValueError, match=r"^w: .* character 1 is a lone surrogate"):
            args.text("w", "a" + char)


def test_a_string_is_one_value_and_not_its_letters() -> None:
    for check in ("items", "instances", "reals", "integers", "texts", "text_pairs", "distribution"):
        for value in ("ab", b"ab"):
            with pytest.raises(TypeError, match=r"^x: expected a sequence of values"):
                CHECKS[check](value)


def test_the_place_in_a_vector_is_named() -> None:
    with pytest.raises(TypeError, match=r"^s\[1\]: expected a int; got 2.0"):
        args.instances("s", [1, 2.0], int)
    with pytest.raises(ValueError, match=r"^ids\[2\]: expected an integer from 0 to 3; got 4"):
        args.integers("ids", [0, 3, 4], 3)
    with pytest.raises(TypeError, match=r"^m\[1\]: expected a pair of strings"):
        args.text_pairs("m", [("a", "b"), ("a", "b", "c")])
    with pytest.raises(ValueError, match=r"^m\[0\]: .*lone surrogate"):
        args.text_pairs("m", [("a", LONE)])


def test_emptiness_is_allowed_where_the_name_says_so() -> None:
    assert args.instances("s", [], int) == () and args.integers("i", [], 3) == []
    assert args.text_pairs("m", []) == [] and args.items("v", [], empty=True) == []
    for check in ("items", "reals", "texts", "distribution"):
        with pytest.raises(ValueError, match=r"^x: expected at least one value"):
            CHECKS[check]([])


def test_an_iterator_is_read_once_and_kept() -> None:
    assert args.reals("v", iter([1, 2])) == [1.0, 2.0]
    assert args.items("v", {"a": 1, "b": 2}) == ["a", "b"]


@given(value=st.text() | st.lists(st.integers(), max_size=2000))
@many
def test_the_found_part_stays_short(value: object) -> None:
    shown = args.found(value)
    assert shown.startswith("got ") and len(shown) <= 160
