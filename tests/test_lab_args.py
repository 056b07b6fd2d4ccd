"""The argument checks: what passes comes back as the type computed with, what does not is named.

The oracle for whole vectors is the obvious rule written out with ``numbers`` and ``math``; the messages are
held to one form, because a reader meets them before any documentation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import make_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelcall.lab import args

CHECKS: dict[str, Callable[[object], Any]] = {
    "count": lambda value: args.count("x", value),
    "instance": lambda value: args.instance("x", value, int),
    "integer": lambda value: args.integer("x", value),
    "mapping": lambda value: args.mapping("x", value, int),
    "out_of": lambda value: args.out_of("x", value),
    "outcome": lambda value: args.outcome("x", value),
    "range_tables": lambda value: args.range_tables("x", value),
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
    assert set(args.__all__) == {
        *CHECKS, "found", "inside", "plain", "LARGEST", "LARGEST_COUNT", "TOTAL_TOLERANCE",
    }  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
@given(value=ANYTHING)
@many
def test_bad_input_gives_one_kind_of_message_and_nothing_else_escapes(check: str, value: object) -> None:
    try:
        CHECKS[check](value)
    except (TypeError, ValueError) as error:
        assert re.match(r"x(\[.+\])*(, a key)?: expected .*", str(error), re.S), error
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
        for value in ("ab", b"ab", np.array(0.5)):
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


def test_an_integer_too_long_to_write_out_is_refused_all_the_same() -> None:
    for value in (10**5000, [10**5000]):
        assert args.found(value) == f"got {type(value).__name__}, too large to show"
    with pytest.raises(ValueError, match=r"^n: expected an integer from 0 to .*too large to show$"):
        args.count("n", 10**5000)


def test_a_count_ends_where_floats_no_longer_count() -> None:
    assert args.count("n", args.LARGEST_COUNT) == args.LARGEST_COUNT
    assert float(args.LARGEST_COUNT) != float(args.LARGEST_COUNT - 1)
    assert float(args.LARGEST_COUNT) == float(args.LARGEST_COUNT + 1)
    for value in (-1, args.LARGEST_COUNT + 1):
        with pytest.raises(ValueError, match=r"^n: expected an integer from 0 to 9007199254740992; got "):
            args.count("n", value)


@pytest.mark.parametrize(
    ("pair", "error", "message"),
    [
        (None, TypeError, "p: expected a pair, how many out of how many; got None"),
        ((1,), TypeError, "p: expected a pair, how many out of how many; got (1,)"),
        ((1, 2, 3), TypeError, "p: expected a pair, how many out of how many; got (1, 2, 3)"),
        ((1.0, 2), TypeError, "p[0]: expected an integer; got 1.0"),
        ((1, "2"), TypeError, "p[1]: expected an integer; got '2'"),
        ((3, 2), ValueError, "p[0]: expected an integer from 0 to 2; got 3"),
        ((-1, 2), ValueError, "p[0]: expected an integer from 0 to 2; got -1"),
        ((0, -1), ValueError, "p[1]: expected an integer from 0 to 9007199254740992; got -1"),
    ],
)
def test_out_of_is_a_count_out_of_a_count(pair: Any, error: type[Exception], message: str) -> None:
    assert args.out_of("p", [0, 0]) == (0, 0) and args.out_of("p", (2, 2)) == (2, 2)
    with pytest.raises(error) as caught:
        args.out_of("p", pair)
    assert str(caught.value) == message


def test_an_outcome_is_zero_or_one_and_no_array() -> None:
    rights: list[Any] = [True, 1, 1.0, np.int64(1), np.True_]
    wrongs: list[Any] = [False, 0, 0.0, np.int64(0), np.False_]
    assert [args.outcome("o", value) for value in rights] == [1] * 5
    assert [args.outcome("o", value) for value in wrongs] == [0] * 5
    bad: list[Any] = [np.array([1, 2]), np.array([1]), np.array(1), [1], (1, [2]), "1", None, 2, math.nan]
    for value in bad:
        with pytest.raises(ValueError, match=r"^o: expected 0 or 1; got "):
            args.outcome("o", value)


def test_inside_is_a_closed_range_of_numbers() -> None:
    assert all(args.inside(value, 0, 25) for value in (0, 25, 0.5, np.float64(3)))
    bad: list[Any] = [-0.1, 25.1, math.nan, math.inf, True, "3", None, [3], np.array([3]), 10**400]
    assert not any(args.inside(value, 0, 25) for value in bad)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (None, TypeError, r"m: expected a mapping; got None"),
        ([("a", 1)], TypeError, r"m: expected a mapping; got "),
        ({1: 1}, TypeError, r"m, a key: expected text; got 1"),
        ({LONE: 1}, ValueError, r"m, a key: .*lone surrogate"),
        ({"a": "1"}, TypeError, r"m\['a'\]: expected int or NoneType; got '1'"),
    ],
)
def test_a_mapping_has_texts_for_keys(value: Any, error: type[Exception], message: str) -> None:
    assert args.mapping("m", {"a": 1, "b": None}, int, type(None)) == {"a": 1, "b": None}
    assert args.mapping("m", {}) == {}
    with pytest.raises(error, match=f"^{message}"):
        args.mapping("m", value, int, type(None))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (None, TypeError, r"g: expected a mapping"),
        ({"read": [1]}, TypeError, r"g\['read'\]: expected a mapping"),
        ({"read": {"id": 3}}, TypeError, r"g\['read'\]\['id'\]: expected a range \(low, high\); got 3"),
        ({"read": {"id": (1,)}}, TypeError, r"g\['read'\]\['id'\]: expected a range"),
        ({"read": {"id": ("1", 2)}}, TypeError, r"g\['read'\]\['id'\]\[0\]: expected a number"),
        ({"read": {"id": (2, 1)}}, ValueError, r"g\['read'\]\['id'\]\[1\]: expected a number from 2"),
        ({"read": {"id": (math.nan, 1)}}, ValueError, r"g\['read'\]\['id'\]\[0\]"),
        ({"read": {"id": (1, math.nan)}}, ValueError, r"g\['read'\]\['id'\]\[1\]"),
    ],
)
def test_a_range_has_two_ends_in_order(value: Any, error: type[Exception], message: str) -> None:
    args.range_tables("g", {"read": {"id": (1, 1), "usd": [-math.inf, 3]}, "list": {}})
    with pytest.raises(error, match=f"^{message}"):
        args.range_tables("g", value)


def test_plain_fields_are_held_to_their_types() -> None:
    # Made here, as this module's own annotations are strings.
    kinds: list[tuple[str, Any]] = [("t", str), ("n", int), ("x", float), ("b", bool), ("other", list)]
    record = make_dataclass("record", kinds)
    args.plain(record("a", 1, 2, True, None))
    for name, bad, error in [
        ("t", None, TypeError),
        ("t", LONE, ValueError),
        ("n", 1.0, TypeError),
        ("n", -1, ValueError),
        ("x", "1", TypeError),
        ("x", math.nan, ValueError),
        ("x", math.inf, ValueError),
        ("x", -0.5, ValueError),
        ("b", 1, TypeError),
    ]:
        good: dict[str, Any] = {"t": "a", "n": 1, "x": 2.0, "b": True, "other": None}
        with pytest.raises(error, match=f"^{name}: expected "):
            args.plain(record(**{**good, name: bad}))
