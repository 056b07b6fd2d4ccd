"""Units of memory and time, converted and printed so that none is ever guessed.

A gigabyte is 10**9 bytes and is written GB. A gibibyte is 2**30 bytes and is written GiB. Accelerators are
sold in one and their memory is counted in the other, a difference of seven percent that decides whether a
model fits. So every function here is told the unit, and no function picks one to suit the size of a number.

The conversions are exact: factors are fractions, integers and fractions stay exact, and floats are taken
for the binary fractions that they are. Rates, energies and currencies are not covered.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Rational

__all__ = ["BYTES", "SECONDS", "convert", "fmt_bytes", "fmt_seconds", "fmt_unit"]

# bytes in one unit
BYTES: dict[str, Fraction] = {
    "B": Fraction(1),
    "KB": Fraction(10**3),
    "MB": Fraction(10**6),
    "GB": Fraction(10**9),
    "TB": Fraction(10**12),
    "KiB": Fraction(2**10),
    "MiB": Fraction(2**20),
    "GiB": Fraction(2**30),
    "TiB": Fraction(2**40),
}

# seconds in one unit
SECONDS: dict[str, Fraction] = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
}


def convert(value: float | Fraction, unit: str, to: str) -> Fraction:
    """Return ``value`` of ``unit`` in the unit ``to``, exactly.

    Both must measure the same thing, bytes or time. ``float(...)`` of the result is the nearest float.

    Raises:
        TypeError: ``value`` is not a number.
        ValueError: ``value`` is NaN, infinite or negative; a unit is unknown, or not of the same kind.

    >>> float(convert(80, "GiB", "GB")), float(convert(250, "us", "ms"))
    (85.89934592, 0.25)
    """
    exact = _exact("value", value)
    for table in (BYTES, SECONDS):
        if unit in table and to in table:
            return exact * table[unit] / table[to]
    for name, given in (("unit", unit), ("to", to)):
        if given not in BYTES and given not in SECONDS:
            raise ValueError(f"{name}: expected one of {', '.join([*BYTES, *SECONDS])}; got {given!r}")
    raise ValueError(f"to: expected a unit of the same kind as {unit!r}; got {to!r}")


def fmt_bytes(n_bytes: float | Fraction, unit: str, digits: int = 2) -> str:
    """Return a number of bytes in ``unit`` with ``digits`` decimals.

    Raises:
        TypeError: ``n_bytes`` is not a number, or ``digits`` is not an integer.
        ValueError: ``n_bytes`` is NaN, infinite or negative; ``unit`` is unknown; ``digits`` is negative.

    >>> fmt_bytes(80 * 2**30, "GB"), fmt_bytes(80 * 2**30, "GiB", 0)
    ('85.90 GB', '80 GiB')
    """
    return fmt_unit("n_bytes", n_bytes, unit, BYTES, digits)


def fmt_seconds(seconds: float | Fraction, unit: str, digits: int = 1) -> str:
    """Return a time given in seconds, in ``unit`` with ``digits`` decimals; microseconds print as µs.

    Raises:
        TypeError: ``seconds`` is not a number, or ``digits`` is not an integer.
        ValueError: ``seconds`` is NaN, infinite or negative; ``unit`` is unknown; ``digits`` is negative.

    >>> fmt_seconds(0.0209, "ms"), fmt_seconds(7.135e-5, "us", 0)
    ('20.9 ms', '71 µs')
    """
    return fmt_unit("seconds", seconds, unit, SECONDS, digits)


def fmt_unit(name: str, value: float | Fraction, unit: str, table: dict[str, Fraction], digits: int) -> str:
    """Return ``value``, given in the base unit of ``table``, in ``unit`` with ``digits`` decimals.

    The exact value is rounded, halves to even. ``name`` is the argument that error messages name.

    Raises:
        TypeError: ``value`` is not a number, or ``digits`` is not an integer.
        ValueError: ``value`` is NaN, infinite or negative; ``unit`` is unknown; ``digits`` is negative.

    >>> fmt_unit("length", 1500, "MB", BYTES, 4)
    '0.0015 MB'
    """
    if unit not in table:
        raise ValueError(f"unit: expected one of {', '.join(table)}; got {unit!r}")
    if not isinstance(digits, int) or isinstance(digits, bool):
        raise TypeError(f"digits: expected an integer; got {digits!r}")
    if digits < 0:
        raise ValueError(f"digits: expected 0 or more; got {digits!r}")
    scaled = round(_exact(name, value) / table[unit] * 10**digits)
    text = str(scaled).zfill(digits + 1)
    number = f"{text[:-digits]}.{text[-digits:]}" if digits else text
    return f"{number} {'µs' if unit == 'us' else unit}"


def _exact(name: str, value: float | Fraction) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, float | Rational):
        raise TypeError(f"{name}: expected a number; got {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name}: expected a finite number; got {value!r}")
    if value < 0:
        raise ValueError(f"{name}: expected 0 or more; got {value!r}")
    return Fraction(value)
