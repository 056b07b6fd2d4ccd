"""Reading a trained model for measurement: greedy answers, exact scores, loss by position, two statistics.

Written for batches of short prompts on a CPU: rows are recomputed rather than cached, which keeps the network
free of state. Readers of the book use the package's NumPy engine instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tiktoken
import torch
from torch import Tensor

from . import documents as text
from .network import Decoder

Floats = npt.NDArray[np.float64]


class Reader:
    """A model with its tokenizer: greedy answers in batches, and exact scores of continuations."""

    def __init__(self, model: Decoder, tokenizer: tiktoken.Encoding) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.stop = {tokenizer.encode_single_token(t) for t in (text.END, "<|endoftext|>")}

    def ids(self, prompt: str) -> list[int]:
        return self.tokenizer.encode(prompt, allowed_special="all")

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Logits of right-padded rows; what stands right of a position cannot reach it."""
        longest = max(map(len, rows))
        padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        with torch.inference_mode():
            out: Tensor = self.model(padded)
        return out

    def greedy(self, prompts: Sequence[str], limit: int = 48, batch: int = 32) -> list[tuple[str, Floats]]:
        """(answer, probability of each chosen token, end token included) for each prompt."""
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        out: dict[int, tuple[str, Floats]] = {}
        for first in range(0, len(order), batch):
            chunk = order[first : first + batch]
            rows = [self.ids(prompts[i]) for i in chunk]
            chosen: list[list[int]] = [[] for _ in chunk]
            p: list[list[float]] = [[] for _ in chunk]
            live = list(range(len(chunk)))
            for _ in range(limit):
                scores = self.logits([rows[j] for j in live])
                at = torch.tensor([len(rows[j]) - 1 for j in live])
                distribution = scores[torch.arange(len(live)), at].double().softmax(-1)
                best = distribution.argmax(-1)
                for k, j in enumerate(live):
                    token = int(best[k])
                    p[j].append(float(distribution[k, token]))
                    rows[j].append(token)
                    chosen[j].append(token)
                live = [j for j in live if chosen[j][-1] not in self.stop]
                if not live:
                    break
            for j, i in enumerate(chunk):
                kept = [t for t in chosen[j] if t not in self.stop]
                out[i] = self.tokenizer.decode(kept), np.array(p[j])
        return [out[i] for i in range(len(prompts))]

    def score(self, prompt: str, continuations: Sequence[str]) -> Floats:
        """Exact probability of each continuation after ``prompt``, by the chain rule."""
        start = self.ids(prompt)
        ends = [self.ids(prompt + c)[len(start) :] for c in continuations]
        logp = self.logits([start + e for e in ends]).double().log_softmax(-1)
        total = [
            sum(float(logp[i, len(start) - 1 + j, token]) for j, token in enumerate(end))
            for i, end in enumerate(ends)
        ]
        return np.exp(np.array(total, np.float64))


def auroc(positive: Iterable[float], negative: Iterable[float]) -> float:
    """Probability that a positive scores above a negative, ties counted half.

    >>> auroc([3, 2], [1, 2])
    0.875
    """
    a, b = np.array(list(positive))[:, None], np.array(list(negative))[None]
    return float((a > b).mean() + 0.5 * (a == b).mean())


def calibration(confidence: Sequence[float], right: Sequence[bool], bins: int = 10) -> dict[str, Any]:
    """Expected calibration error (Naeini et al. 2015) and its table of [n, mean confidence, share right].

    >>> calibration([0.9, 0.9, 0.1, 0.1], [True, True, False, False])["ece"]
    0.1
    """
    c, y = np.array(confidence, float), np.array(right, float)
    index = np.minimum((c * bins).astype(int), bins - 1)
    table = [
        [int((index == b).sum()), rounded(c[index == b].mean()), rounded(y[index == b].mean())]
        for b in range(bins)
        if (index == b).any()
    ]
    error = sum(
        abs(c[index == b].mean() - y[index == b].mean()) * (index == b).mean() for b in set(index.tolist())
    )
    return {"ece": rounded(error), "bins": table}


def rounded(value: Any, digits: int = 4) -> float:
    """A float for the record."""
    return round(float(value), digits)


def teacher_forced(reader: Reader, rows: Sequence[list[int]]) -> list[tuple[Floats, npt.NDArray[np.bool_]]]:
    """Per row: loss at each position, and whether greedy would have chosen the token that follows."""
    out = []
    for row in rows:
        logp = reader.logits([row])[0, :-1].double().log_softmax(-1)
        target = torch.tensor(row[1:])
        loss = -logp[torch.arange(len(target)), target]
        out.append((loss.numpy(), (logp.argmax(-1) == target).numpy()))
    return out
