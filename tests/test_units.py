"""Units: exact conversions, no unit guessed, no bad number let through."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelcall.lab import units

KINDS = (units.BYTES, units.SECONDS)


def test_decimal_and_binary_units_are_what_the_standards_say() -> None:
    # IEC 80000-13: the SI prefix is a power of 1000, the binary one of 1024
    for power, letter in enumerate("KMGT", 1):
        assert units.BYTES[f"{letter}B"] == 1000**power
        assert units.BYTES[f"{letter}iB"] == 1024**power
    assert units.BYTES["GB"] == 10**9 and units.BYTES["GiB"] == 2**30
    assert units.SECONDS["us"] * 10**6 == units.SECONDS["ms"] * 10**3 == units.SECONDS["h"] / 3600 == 1


@pytest.mark.parametrize(
    ("value", "unit", "to", "expected"),
    [
        (80, "GiB", "GB", Fraction(8589934592, 10**8)),
        (1, "TiB", "GiB", Fraction(1024)),
        (1, "GB", "GiB", Fraction(10**9, 2**30)),
        (20.9, "ms", "s", Fraction(20.9) / 1000),
        (Fraction(1, 3), "h", "min", Fraction(20)),
        (0, "B", "TB", Fraction(0)),
    ],
)
def test_convert_is_exact(value: float, unit: str, to: str, expected: Fraction) -> None:
    assert units.convert(value, unit, to) == expected


@given(
    st.fractions(min_value=0, max_value=10**15),
    st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(*[st.sampled_from(sorted(kind))] * 3)),
)
def test_convert_there_and_back_and_by_a_detour(value: Fraction, names: tuple[str, str, str]) -> None:
    first, second, third = names
    assert units.convert(units.convert(value, first, second), second, first) == value
    assert units.convert(units.convert(value, first, second), second, third) == units.convert(
        value, first, third
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.fmt_bytes(41_943_040_000, "GB"), "41.94 GB"),
        (units.fmt_bytes(41_943_040_000, "GiB"), "39.06 GiB"),
        (units.fmt_bytes(327_680, "KiB", 0), "320 KiB"),
        (units.fmt_bytes(5_000_000, "GB"), "0.00 GB"),  # a tie goes to the even digit
        (units.fmt_bytes(15_000_000, "GB"), "0.02 GB"),
        (units.fmt_bytes(0, "B", 0), "0 B"),
        (units.fmt_seconds(Fraction(209, 10_000), "ms"), "20.9 ms"),
        (units.fmt_seconds(5e-7, "us", 3), "0.500 µs"),
        (units.fmt_seconds(90, "min", 2), "1.50 min"),
        (units.fmt_bytes(10**30, "TB", 0), "1000000000000000000 TB"),
    ],
)
def test_formatting(text: str, expected: str) -> None:
    assert text == expected


@given(st.integers(0, 10**18), st.sampled_from(sorted(units.BYTES)), st.integers(0, 6))
def test_a_printed_number_is_within_half_a_last_digit(n_bytes: int, unit: str, digits: int) -> None:
    number, printed_unit = units.fmt_bytes(n_bytes, unit, digits).split(" ")
    assert printed_unit == unit
    assert len(number.partition(".")[2]) == digits
    assert abs(Fraction(number) * units.BYTES[unit] - n_bytes) <= units.BYTES[unit] / (2 * 10**digits)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, -0.5, Fraction(-1, 3)])
def test_numbers_that_measure_nothing_are_refused_by_name(bad: float) -> None:
    for call, name in (
        (lambda: units.fmt_bytes(bad, "GB"), "n_bytes"),
        (lambda: units.fmt_seconds(bad, "s"), "seconds"),
        (lambda: units.convert(bad, "GB", "GiB"), "value"),
    ):
        with pytest.raises(ValueError, match=rf"^{name}: expected .* got "):
            call()


@pytest.mark.parametrize("bad", ["12", None, True, [1], 1j])
def test_what_is_no_number_is_refused_by_name(bad: object) -> None:
    with pytest.raises(TypeError, match="n_bytes: expected a number"):
        units.fmt_bytes(bad, "GB")  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["gb", "Gb", "G", "GIB", "", "bytes", "s"])
def test_a_unit_is_never_guessed(unit: str) -> None:
    with pytest.raises(ValueError, match="unit: expected one of B, KB"):
        units.fmt_bytes(1, unit)


def test_units_of_different_kinds_and_bad_digits_are_refused() -> None:
    with pytest.raises(ValueError, match="to: expected a unit of the same kind as 'GB'; got 's'"):
        units.convert(1, "GB", "s")
    with pytest.raises(ValueError, match=r"to: expected one of .* got 'GHz'"):
        units.convert(1, "GB", "GHz")
    with pytest.raises(ValueError, match="digits: expected 0 or more; got -1"):
        units.fmt_bytes(1, "GB", -1)
    with pytest.raises(TypeError, match=r"digits: expected an integer; got 1\.0"):
        units.fmt_bytes(1, "GB", 1.0)  # type: ignore[arg-type]
