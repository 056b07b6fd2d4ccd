"""Reads GGUF, the one-file format of llama.cpp: metadata, a table of tensors, and their blocks of bits.

Versions 2 and 3, little-endian; tensor types F32, F16, Q4_0, Q4_1 and Q8_0 (a block of 32 weights shares
a scale, and in Q4_1 a smallest value). The layout is that of the format's specification
(``docs/gguf.md`` of the ggml repository). A tensor is converted to float32 when it is asked for.

Everything read is checked against the size of the file before it is believed, so that a damaged file is
an error in words (:class:`~modelcall.lab.model_errors.GgufError`) and never a crash or a gigabyte of
zeros. What is not done here: writing, big-endian files, the K and I families of quantized types.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from modelcall.lab.model_errors import GgufError

__all__ = ["GgufFile", "TensorInfo", "dequantize"]

MAGIC: Final = b"GGUF"
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# Name, weights in a block, bytes of a block.
_TYPES: Final = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    8: ("Q8_0", 32, 34),
}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor is: its name, shape (NumPy's order), type, and bytes from ``start`` in the file."""

    name: str
    shape: tuple[int, ...]
    kind: int
    start: int

    @property
    def type_name(self) -> str:
        """The name of the type, for example ``"Q4_1"``."""
        return _TYPES[self.kind][0]

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        _, weights, size = _TYPES[self.kind]
        return math.prod(self.shape) // weights * size


class GgufFile:
    """An open GGUF file.

    Args:
        path: the file; it is mapped, not read.

    Attributes:
        metadata: the key-value pairs.
        tensors: the table of tensors by name.

    Raises:
        GgufError: the file is missing, is no GGUF file, is damaged, or uses what is not supported.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
            raise GgufError(f"{path}: cannot be read as a GGUF file: {error}") from None
        self._at = 0
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, TensorInfo] = {}
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the mapping."""
        self._data.close()

    def __enter__(self) -> GgufFile:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return a tensor as float32.

        Raises:
            GgufError: there is no such tensor.
        """
        if name not in self.tensors:
            raise GgufError(f"{self.path}: has no tensor {name!r}")
        info = self.tensors[name]
        raw = np.frombuffer(self._data[info.start : info.start + info.nbytes], np.uint8)
        return dequantize(raw, info.kind).reshape(info.shape)

    def _bad(self, problem: str) -> GgufError:
        return GgufError(f"{self.path}: {problem} (at byte {self._at} of {len(self._data)})")

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise self._bad(f"is cut short: {size} more bytes were announced")
        self._at += size
        return self._data[self._at - size : self._at]

    def _scalar(self, code: str) -> Any:
        return struct.unpack("<" + code, self._take(struct.calcsize("<" + code)))[0]

    def _text(self) -> str:
        try:
            return self._take(self._scalar("Q")).decode("utf-8")
        except UnicodeDecodeError:
            raise self._bad("holds a string that is not UTF-8") from None

    def _value(self, kind: int, *, nested: bool = False) -> Any:
        if kind == _STRING:
            return self._text()
        if kind in _SCALARS:
            return self._scalar(_SCALARS[kind])
        if kind != _ARRAY or nested:
            raise self._bad(f"holds a value of unknown type {kind}")
        item, count = self._scalar("I"), self._scalar("Q")
        if item in _SCALARS:
            dtype = np.dtype(_SCALARS[item]).newbyteorder("<")
            return np.frombuffer(self._take(count * dtype.itemsize), dtype).tolist()
        # A string is at least its length; a count that cannot fit is refused before the loop.
        if count > (len(self._data) - self._at) // 8:
            raise self._bad(f"is cut short: {count} array entries were announced")
        return [self._value(item, nested=True) for _ in range(count)]

    def _read(self) -> None:
        if self._data[:4] != MAGIC:
            raise self._bad(f"is no GGUF file: it begins with {self._data[:4]!r}, not {MAGIC!r}")
        self._take(4)
        version = self._scalar("I")
        if version not in (2, 3):
            raise self._bad(f"has GGUF version {version}; versions 2 and 3 are read, little-endian")
        tensors, pairs = self._scalar("Q"), self._scalar("Q")
        for _ in range(pairs):
            key = self._text()
            if key in self.metadata:
                raise self._bad(f"names the key {key!r} twice")
            self.metadata[key] = self._value(self._scalar("I"))
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 8 <= alignment <= 1 << 20 or alignment % 8:
            raise self._bad(f"has an alignment of {alignment!r}")
        table = [self._entry() for _ in range(tensors)]
        start = -(-self._at // alignment) * alignment
        for name, shape, kind, offset in table:
            info = TensorInfo(name, shape, kind, start + offset)
            if offset % alignment or info.start + info.nbytes > len(self._data):
                raise self._bad(
                    f"tensor {name}: {info.nbytes} bytes from {info.start}: not in the file, or not aligned"
                )
            if name in self.tensors:
                raise self._bad(f"names the tensor {name!r} twice")
            self.tensors[name] = info

    def _entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name, dimensions = self._text(), self._scalar("I")
        if dimensions > 4:
            raise self._bad(f"tensor {name} has {dimensions} dimensions; at most 4 are allowed")
        # The file counts the fastest dimension first.
        shape = tuple(self._scalar("Q") for _ in range(dimensions))[::-1]
        kind, offset = self._scalar("I"), self._scalar("Q")
        if kind not in _TYPES:
            known = ", ".join(name for name, _, _ in _TYPES.values())
            raise self._bad(f"tensor {name} has type {kind}; read are {known}")
        if not shape or 0 in shape or shape[-1] % _TYPES[kind][1]:
            raise self._bad(f"tensor {name} has shape {shape}, which blocks of {_TYPES[kind][0]} do not fill")
        return name, shape, kind, offset


def dequantize(raw: NDArray[np.uint8], kind: int) -> NDArray[np.float32]:
    """Convert the blocks of a tensor to float32, in one dimension.

    Args:
        raw: the bytes, a whole number of blocks.
        kind: the type's number in the format.

    A block of Q4_1 with scale 0.5 and minimum 1, whose nibbles are all 3, is 32 times 2.5:

    >>> block = np.frombuffer(np.array([0.5, 1.0], "<f2").tobytes() + bytes([0x33] * 16), np.uint8)
    >>> set(dequantize(block, 3).tolist())
    {2.5}
    """
    name, _, size = _TYPES[kind]
    if name in ("F32", "F16"):
        return raw.view("<f4" if name == "F32" else "<f2").astype(np.float32)
    blocks = raw.reshape(-1, size)
    header = 4 if name == "Q4_1" else 2
    scale = blocks[:, :header].copy().view("<f2").astype(np.float32)
    body = blocks[:, header:]
    if name == "Q8_0":
        return (body.view(np.int8) * scale[:, :1]).reshape(-1)
    # The low nibbles are the first sixteen weights of the block, the high ones the rest.
    weights = np.concatenate([body & 15, body >> 4], axis=1).astype(np.float32)
    if name == "Q4_0":
        return ((weights - np.float32(8)) * scale).reshape(-1)
    weights *= scale[:, :1]
    weights += scale[:, 1:]
    return weights.reshape(-1)
