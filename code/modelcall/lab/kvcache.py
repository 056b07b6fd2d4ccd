"""A KV cache: the keys and values of every past position, so that a new token costs one position.

One array each for keys and values, of shape (layers, batch, KV heads, capacity, head size), filled from
the left; ``lengths`` says how far, row by row, so that the rows of a batch may differ. What lies beyond
a row's length is leftovers, never read. Cutting a cache back (:meth:`KVCache.truncate`) is therefore
only a smaller number, which is what speculative decoding relies on; copying its head
(:meth:`KVCache.prefix`) is what a prefix cache relies on. Paging is not done here; a paged cache that
offers what :class:`Cache` lists serves the decoder as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from modelcall.lab.model_errors import CacheFull

__all__ = ["Cache", "Floats", "Ints", "KVCache"]

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]


class Cache(Protocol):
    """What the decoder asks of a cache; :class:`KVCache` describes each."""

    @property
    def lengths(self) -> Ints:
        """Tokens held in each row."""

    def __len__(self) -> int: ...

    @property
    def batch(self) -> int:
        """Number of rows."""

    @property
    def room(self) -> int:
        """Tokens that every row can still take."""

    def require(self, tokens: int) -> None:
        """Raise ``CacheFull`` unless every row can take ``tokens`` more."""

    def append(self, layer: int, keys: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Write one layer's new entries and return all of that layer's entries."""

    def advance(self, tokens: int | Sequence[int] | Ints) -> None:
        """Count ``tokens`` more as held."""


class KVCache:
    """Keys and values of ``batch`` sequences, up to ``capacity`` tokens each.

    Args:
        layers, batch, kv_heads, capacity, head_dim: the shape; see the module's description.
        dtype: of the entries; the model's own.

    Attributes:
        keys, values: arrays of shape (layers, batch, kv_heads, capacity, head_dim).
        lengths: int64 array of shape (batch,), tokens held in each row.

    >>> cache = KVCache(layers=4, batch=1, kv_heads=2, capacity=100, head_dim=32, dtype=np.float32)
    >>> cache.nbytes, len(cache), cache.room
    (204800, 0, 100)
    """

    def __init__(
        self,
        *,
        layers: int,
        batch: int,
        kv_heads: int,
        capacity: int,
        head_dim: int,
        dtype: np.typing.DTypeLike,
    ) -> None:
        if min(layers, batch, kv_heads, capacity, head_dim) < 1:
            raise ValueError("KVCache: every dimension must be at least 1")
        shape = (layers, batch, kv_heads, capacity, head_dim)
        # zeros, not empty: leftovers are multiplied by probability zero, and 0 × NaN is NaN.
        self.keys: Floats = np.zeros(shape, dtype)
        self.values: Floats = np.zeros(shape, dtype)
        self.lengths: Ints = np.zeros(batch, np.int64)

    def __len__(self) -> int:
        """Tokens held in the longest row."""
        return int(self.lengths.max())

    @property
    def batch(self) -> int:
        """Number of rows."""
        return int(self.keys.shape[1])

    @property
    def capacity(self) -> int:
        """Tokens a row can hold."""
        return int(self.keys.shape[3])

    @property
    def room(self) -> int:
        """Tokens that every row can still take."""
        return self.capacity - len(self)

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays: 2 × layers × batch × KV heads × capacity × head size × bytes an entry."""
        return self.keys.nbytes + self.values.nbytes

    def require(self, tokens: int) -> None:
        """Raise unless every row can take ``tokens`` more.

        Raises:
            CacheFull: it cannot; the message has both numbers.
        """
        if tokens > self.room:
            raise CacheFull(
                f"the KV cache holds {len(self)} of {self.capacity} tokens; no room for {tokens} more"
            )

    def append(self, layer: int, keys: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Write one layer's new entries after those held and return views of all entries so far.

        The lengths stay; :meth:`advance` moves them once all layers have been written.

        Args:
            keys, values: shape (batch, KV heads, tokens, head size).

        Returns:
            Keys and values of this layer, each (batch, KV heads, longest row + tokens, head size).
        """
        tokens = keys.shape[2]
        end = len(self) + tokens
        if (self.lengths == self.lengths[0]).all():
            self.keys[layer, :, :, end - tokens : end] = keys
            self.values[layer, :, :, end - tokens : end] = values
        else:
            rows = np.arange(self.batch)[:, None]
            columns = self.lengths[:, None] + np.arange(tokens)
            # Two advanced indices around a slice put their axes first: (batch, tokens, heads, head size).
            self.keys[layer][rows, :, columns] = keys.transpose(0, 2, 1, 3)
            self.values[layer][rows, :, columns] = values.transpose(0, 2, 1, 3)
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]

    def advance(self, tokens: int | Sequence[int] | Ints) -> None:
        """Count ``tokens`` more as held: one number for all rows, or one for each."""
        self.lengths += np.asarray(tokens, np.int64)

    def truncate(self, length: int | Sequence[int] | Ints) -> None:
        """Forget all but the first ``length`` tokens of each row (one number, or one for each row).

        Raises:
            ValueError: a length is negative or more than the row holds.
        """
        wanted = np.broadcast_to(np.asarray(length, np.int64), self.lengths.shape)
        if (wanted < 0).any() or (wanted > self.lengths).any():
            raise ValueError(f"truncate: lengths {self.lengths.tolist()} cannot be cut to {wanted.tolist()}")
        self.lengths = wanted.copy()

    def prefix(self, length: int, *, capacity: int, row: int = 0, batch: int = 1) -> KVCache:
        """Return a new cache whose every row begins with the first ``length`` tokens of ``row``.

        Raises:
            ValueError: the row holds fewer tokens, or ``capacity`` is smaller than ``length``.
        """
        if not 0 <= length <= min(int(self.lengths[row]), capacity):
            raise ValueError(
                f"prefix: {length} tokens of {int(self.lengths[row])} into a capacity of {capacity}"
            )
        layers, _, kv_heads, _, head_dim = self.keys.shape
        new = KVCache(
            layers=layers,
            batch=batch,
            kv_heads=kv_heads,
            capacity=capacity,
            head_dim=head_dim,
            dtype=self.keys.dtype,
        )
        new.keys[:, :, :, :length] = self.keys[:, row : row + 1, :, :length]
        new.values[:, :, :, :length] = self.values[:, row : row + 1, :, :length]
        new.lengths[:] = length
        return new
