"""A prefix cache: the keys and values of recent prompts, so that a prompt that begins alike is read faster.

A few whole sequences are kept, most recently used last. A new prompt takes the longest beginning that it
shares with any of them, copied, never all of the prompt: the last token has to be read for its logits.
Keys and values depend only on the tokens before them, so what is copied is what would be computed, up to
the rounding of sums in another order. Sharing parts between entries (a radix tree) is not done here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modelcall.lab.engine import Decoder
from modelcall.lab.kvcache import Ints, KVCache

__all__ = ["PrefixCache"]


@dataclass(slots=True, eq=False)
class _Entry:
    model: str
    tokens: Ints
    cache: KVCache


class PrefixCache:
    """Keeps at most ``max_entries`` sequences and ``max_bytes`` of keys and values; not thread-safe."""

    def __init__(self, max_entries: int = 8, max_bytes: int = 256 << 20) -> None:
        self.max_entries, self.max_bytes = max_entries, max_bytes
        self._entries: list[_Entry] = []

    @property
    def nbytes(self) -> int:
        """Bytes of all entries."""
        return sum(entry.cache.nbytes for entry in self._entries)

    def start(
        self, model: str, decoder: Decoder, prompt: Sequence[int], capacity: int
    ) -> tuple[KVCache, int]:
        """Return a cache of ``capacity`` tokens that begins like the prompt, and how many tokens it holds."""
        ids = np.asarray(prompt, np.int64)
        best, length = None, 0
        for entry in self._entries:
            if entry.model == model:
                size = min(len(entry.tokens), len(ids) - 1)
                differs = np.flatnonzero(entry.tokens[:size] != ids[:size])
                common = int(differs[0]) if len(differs) else size
                if common > length:
                    best, length = entry, common
        if best is None:
            return decoder.cache(capacity), 0
        self._entries.remove(best)
        self._entries.append(best)
        return best.cache.prefix(length, capacity=capacity), length

    def keep(self, model: str, tokens: Sequence[int], cache: KVCache) -> None:
        """Keep a finished sequence; ``tokens`` are those that the cache holds, which is not used further."""
        ids = np.asarray(tokens, np.int64)
        # An entry that the new one begins with can serve nobody better than the new one.
        self._entries = [
            entry
            for entry in self._entries
            if not (
                entry.model == model
                and len(entry.tokens) <= len(ids)
                and np.array_equal(entry.tokens, ids[: len(entry.tokens)])
            )
        ]
        self._entries.append(_Entry(model, ids, cache))
        while len(self._entries) > self.max_entries or (self.nbytes > self.max_bytes and self._entries):
            self._entries.pop(0)
