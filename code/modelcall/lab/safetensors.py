"""Read a safetensors file into NumPy arrays.

The format (github.com/huggingface/safetensors, "Format"): eight bytes with the header's length N,
little-endian; N bytes of JSON that give each tensor's dtype, shape and byte range; then the raw bytes,
row-major and little-endian. There is nothing to execute, which is the point of the format. A file is
checked in full before the first array is made: ranges must lie inside the file, not overlap, leave no hole,
and match their shapes.

Arrays are read-only views of one buffer; call ``.astype`` for a private copy. It does not write files.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["SafetensorsError", "load", "loads"]

DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
HEADER_LIMIT_BYTES = 100_000_000  # the reference implementation's own bound


class SafetensorsError(ValueError):
    """The bytes are not a whole, consistent safetensors file."""


def load(path: str | Path) -> dict[str, npt.NDArray[Any]]:
    """Read every tensor of the file at ``path``, in the header's order.

    Raises ``SafetensorsError`` naming the file when it is damaged, and ``OSError`` when it cannot be read.
    """
    try:
        return loads(Path(path).read_bytes())
    except SafetensorsError as error:
        raise SafetensorsError(f"{path}: {error}") from None


def loads(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """Read every tensor of a safetensors file held in memory.

    >>> header = b'{"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}'
    >>> loads(len(header).to_bytes(8, "little") + header + bytes(8))["w"]
    array([[0., 0.]], dtype=float32)

    Raises ``SafetensorsError`` when the header is no header, a dtype is not one that NumPy has, or the byte
    ranges do not tile the rest of the file exactly.
    """
    if len(data) < 8:
        raise SafetensorsError(
            f"{len(data)} bytes found, expected at least the 8 bytes of the header's length"
        )
    length = int.from_bytes(data[:8], "little")
    if length > min(HEADER_LIMIT_BYTES, len(data) - 8):
        raise SafetensorsError(f"header of {length} bytes announced, {len(data) - 8} bytes follow")
    try:
        header = json.loads(data[8 : 8 + length].decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise SafetensorsError(f"header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise SafetensorsError(f"header is a JSON {type(header).__name__}, expected an object")
    header.pop("__metadata__", None)
    start, size = 8 + length, len(data) - 8 - length
    fields = {name: _entry(name, entry) for name, entry in header.items()}
    end = 0
    for name, (_, _, begin, stop) in sorted(fields.items(), key=lambda item: item[1][2:]):
        if begin != end:
            raise SafetensorsError(f"tensor {name!r} begins at byte {begin}, expected {end}")
        end = stop
    if end != size:
        raise SafetensorsError(f"tensors take {end} bytes, the file holds {size}")
    return {
        name: np.frombuffer(data, dtype, math.prod(shape), start + begin).reshape(shape)
        for name, (dtype, shape, begin, _) in fields.items()
    }


def _entry(name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    """Check one header entry; returns dtype, shape, first and past-the-last byte."""
    try:
        code, shape, (begin, stop) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise SafetensorsError(f"tensor {name!r}: expected dtype, shape and two data_offsets") from None
    if not isinstance(code, str) or code not in DTYPES:
        raise SafetensorsError(f"tensor {name!r}: dtype {code!r} found, expected one of {', '.join(DTYPES)}")
    if not all(type(n) is int and n >= 0 for n in (*shape, begin, stop)):
        raise SafetensorsError(f"tensor {name!r}: shape and data_offsets must be whole numbers, not negative")
    dtype = np.dtype(DTYPES[code])
    if stop - begin != dtype.itemsize * math.prod(shape):
        raise SafetensorsError(f"tensor {name!r}: {stop - begin} bytes for shape {list(shape)} of {code}")
    return dtype, shape, begin, stop
