"""What the ledger needs beside chapter 4 to recompute the memory of one call: sums, and units.

The functions of the chapter give bytes; the source adds and prints gigabytes of a model of nominally 70e9
parameters in eight bits. Its shape stands here as the source prints it, and not as a dated fact, so that the
ledger depends on the source alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from modelcall.ch04 import FP8, FP16, ModelProfile, fit, parameter_count
from modelcall.lab.units import convert

__all__ = [
    "MODEL",
    "alone_gb",
    "cache_gb",
    "call_gb",
    "in_unit",
    "parameters_in",
    "per_device_gb",
    "shared_gb",
]

MODEL = ModelProfile("the 70B model of the source", 80, 8192, 64, 8, 128, 28672, 128256)
_CACHE = {8: FP8, 16: FP16}


def in_unit(n_bytes: int, unit: str) -> int | float:
    """Return bytes in another unit, as an integer where it is one.

    >>> in_unit(327680, "KiB"), in_unit(41943040000, "GB")
    (320, 41.94304)
    """
    return _plain(convert(n_bytes, "B", unit))


def cache_gb(tokens: int, bits: int, devices: int = 1) -> int | float:
    """Return the GB of cache on each device, for numbers of 8 or 16 bits.

    >>> cache_gb(128_000, 8)
    20.97152
    """
    return in_unit(fit(MODEL, 0, tokens, devices=devices, cache=_CACHE[bits]).cache, "GB")


def call_gb(weights_gb: int, tokens: int, bits: int, devices: int = 1) -> int | float:
    """Return the GB that weights of ``weights_gb`` bytes and a cache need on each device.

    >>> call_gb(70, 128_000, 16)
    111.94304
    """
    parameters, stored = weights_gb * 10**9, _CACHE[bits]
    return in_unit(fit(MODEL, 0, tokens, devices=devices, cache=stored, parameters=parameters).needed, "GB")


def per_device_gb(tokens: int, devices: int, bits: Sequence[int]) -> list[int | float]:
    """Return ``cache_gb`` for each number of bits.

    >>> [round(gb, 2) for gb in per_device_gb(128_000, 2, [8, 16])]
    [10.49, 20.97]
    """
    return [cache_gb(tokens, each, devices) for each in bits]


def shared_gb(weights_gb: int, tokens: int, devices: int) -> dict[str, int | float]:
    """Return the GB that each device needs, by the bits of the cache.

    >>> shared_gb(70, 128_000, 2)["8-bit KV"]
    45.48576
    """
    return {f"{bits}-bit KV": call_gb(weights_gb, tokens, bits, devices) for bits in (8, 16)}


def alone_gb(names: Sequence[str], tokens: int) -> dict[str, int | float]:
    """Return the GB that a call needs with 70 GB of weights and a 16-bit cache, for each device."""
    return {name: call_gb(70, tokens, 16) for name in names}


def parameters_in(
    unit: float, layers: int = 80, d_model: int = 8192, d_ff: int = 28672, vocab: int = 128256
) -> float:
    """Return the parameters of a shape with 64 query heads on 8 KV heads of 128, in ``unit``.

    >>> parameters_in(1e9)
    70.553706496
    """
    return parameter_count(ModelProfile("a shape", layers, d_model, 64, 8, 128, d_ff, vocab)) / unit


def _plain(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)
