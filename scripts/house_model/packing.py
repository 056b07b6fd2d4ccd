"""Rows for training: documents encoded once, then packed anew for every epoch.

A row always starts with the start of a document, because that is how a prompt starts. Documents fill a row
until the next one does not fit; the rest is padding that carries no loss. Between two documents stands
``<|endoftext|>``, except that chat documents are sometimes joined into one longer conversation. Everything
depends only on the seed and the epoch's number, so a run that was interrupted continues with the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tiktoken

Ids = npt.NDArray[np.int64]
IGNORED = -100  # what cross entropy skips


@dataclass(frozen=True)
class Encoded:
    """One document: its ids, and for each id whether the model is trained to produce it."""

    ids: Ids
    learnt: npt.NDArray[np.bool_]
    starts_chat: bool
    ends_chat: bool


def encode(
    texts: Sequence[str], tokenizer: tiktoken.Encoding, *, replies_only: bool = False
) -> list[Encoded]:
    """Encode documents; with ``replies_only`` just the assistant's tokens, end token included, carry loss."""
    user, assistant, end = (
        tokenizer.encode_single_token(t) for t in ("<|user|>", "<|assistant|>", "<|end|>")
    )
    out = []
    for row in tokenizer.encode_batch(list(texts), allowed_special="all", num_threads=1):
        ids = np.array(row, np.int64)
        learnt = np.ones(len(ids), np.bool_)
        if replies_only:
            opened = np.cumsum(ids == assistant) > np.cumsum(ids == end)
            learnt = (opened & (ids != assistant)) | (ids == end)
        out.append(Encoded(ids, learnt, bool(ids[0] == user), bool(ids[-1] == end)))
    return out


def pack(
    documents: Sequence[Encoded], length: int, separator: int, joined: float, seed: Sequence[int]
) -> Ids:
    """Rows of ``length + 1`` ids and their loss mask, shape (rows, 2, length + 1), in a fresh random order.

    ``joined`` is the probability that a conversation is continued by the next one. Documents longer than a
    row are cut at its end.
    """
    rng = np.random.default_rng(seed)
    room = length + 1
    rows: list[Ids] = []
    row = np.full((2, room), separator, np.int64)
    row[1] = 0
    used, open_chat = 0, False
    for index in rng.permutation(len(documents)):
        d = documents[index]
        if used and used + len(d.ids) > room:
            rows.append(row)
            row = np.full((2, room), separator, np.int64)
            row[1] = 0
            used, open_chat = 0, False
        if open_chat and d.starts_chat and rng.random() < joined:
            used -= 1  # write over the separator
        n = min(len(d.ids), room - used)
        row[0, used : used + n] = d.ids[:n]
        row[1, used : used + n] = d.learnt[:n]
        used += n
        if used < room:
            row[1, used] = 1  # the separator itself is learnt: a document's end is a fact about it
            used += 1
        open_chat = d.ends_chat and used < room
    rows.append(row)
    packed = np.stack(rows)
    return packed[rng.permutation(len(packed))]
