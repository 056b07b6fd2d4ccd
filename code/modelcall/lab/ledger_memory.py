"""What the ledger needs beside chapter 4 to recompute the memory of one call: sums, and units.

The functions of the chapter give bytes; the source adds and prints gigabytes of a model of nominally 70e9
parameters in eight bits. Its shape stands here as the source prints it, and not as a dated fact, so that the
ledger depends on the source alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from modelcall.ch04 import FP8, FP16, Fit, ModelProfile, fit, kv_bytes, parameter_count
from modelcall.lab.units import convert

__all__ = [
    "MODEL",
    "alone_gb",
    "cache_bytes",
    "call_gb",
    "hidden_width",
    "in_unit",
    "needed_gb",
    "parameters_in",
    "per_device_gb",
    "shared_gb",
    "sharing",
]

MODEL = ModelProfile("the 70B model of the source", 80, 8192, 64, 8, 128, 28672, 128256)
_CACHE = {8: FP8, 16: FP16}


def in_unit(n_bytes: int, unit: str) -> int | float:
    """Return bytes in another unit, as an integer where it is one.

    >>> in_unit(327680, "KiB"), in_unit(41943040000, "GB")
    (320, 41.94304)
    """
    return _plain(convert(n_bytes, "B", unit))


def cache_bytes(tokens: int, token_bytes: int) -> int:
    """Return the bytes of the model's cache in the format that takes ``token_bytes`` for a token.

    Raises:
        ValueError: neither format does.

    >>> cache_bytes(128_000, 327_680)
    41943040000
    """
    for stored in _CACHE.values():
        if kv_bytes(MODEL, 1, stored) == token_bytes:
            return kv_bytes(MODEL, tokens, stored)
    raise ValueError(f"token_bytes: no format takes {token_bytes} bytes for a token")


def hidden_width(query_heads: int, head_dim: int) -> int:
    """Return the width of a model whose query heads are slices of its hidden state.

    >>> hidden_width(64, 128)
    8192
    """
    return replace(MODEL, d_model=query_heads * head_dim).d_model


def sharing(query_heads: int, kv_heads: int) -> float:
    """Return how many times smaller shared key-value heads make the cache.

    >>> sharing(64, 8)
    8.0
    """
    own = replace(MODEL, query_heads=query_heads, kv_heads=query_heads)
    return kv_bytes(own, 1) / kv_bytes(replace(own, kv_heads=kv_heads), 1)


def call_gb(weights_gb: float, kv_gb: float) -> int | float:
    """Return the sum of two numbers of GB, each rounded to a byte first.

    >>> call_gb(70, 41.94304)
    111.94304
    """
    return in_unit(Fit(round(weights_gb * 10**9), round(kv_gb * 10**9), 0, 0).needed, "GB")


def needed_gb(weights_gb: int, tokens: int, bits: int, devices: int = 1) -> int | float:
    """Return the GB that weights of ``weights_gb`` GB and a cache of 8 or 16 bits need on each device.

    >>> needed_gb(70, 128_000, 16)
    111.94304
    """
    found = fit(MODEL, 0, tokens, devices=devices, cache=_CACHE[bits], parameters=weights_gb * 10**9)
    return in_unit(found.needed, "GB")


def per_device_gb(tokens: int, devices: int, bits: Sequence[int]) -> list[int | float]:
    """Return the GB of cache on each device, for each number of bits.

    >>> [round(gb, 2) for gb in per_device_gb(128_000, 2, [8, 16])]
    [10.49, 20.97]
    """
    found = [fit(MODEL, 0, tokens, devices=devices, cache=_CACHE[each]) for each in bits]
    return [in_unit(each.cache, "GB") for each in found]


def shared_gb(weights_gb: int, tokens: int, devices: int) -> dict[str, int | float]:
    """Return the GB that each device needs, by the bits of the cache.

    >>> shared_gb(70, 128_000, 2)["8-bit KV"]
    45.48576
    """
    return {f"{bits}-bit KV": needed_gb(weights_gb, tokens, bits, devices) for bits in (8, 16)}


def alone_gb(names: Sequence[str], tokens: int) -> dict[str, int | float]:
    """Return the GB that a call needs with 70 GB of weights and a 16-bit cache, for each device."""
    return {name: needed_gb(70, tokens, 16) for name in names}


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
