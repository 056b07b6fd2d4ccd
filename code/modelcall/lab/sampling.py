"""From logits to one token: temperature, top-k, top-p, a seed, and a mask for a grammar.

The order is that of the common servers: the mask first, then temperature, top-k, top-p. Arithmetic is
float64 whatever the model's dtype. A draw takes one number from PCG64 and walks the cumulative sum in
the order of the token ids, so a seed means the same draw everywhere. Temperature 0 is greedy: the
largest logit, the smaller id in a tie, and no draw.

What is not done here: penalties, min-p, and log probabilities of what was *drawn from*: the log
probabilities reported (:func:`log_softmax`) are the model's own, before temperature, cuts and mask.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modelcall.lab.kvcache import Floats
from modelcall.lab.model_errors import SamplingError

__all__ = ["Sampler", "Sampling", "log_softmax", "top_logprobs"]

_GROWTH = 8  # how much larger the next guess at the nucleus is


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose a token.

    Attributes:
        temperature: logits are divided by it; 0 means greedy.
        top_k: keep this many of the most probable tokens; 0 keeps all.
        top_p: keep the most probable tokens whose probabilities first reach this sum.
        seed: of the generator; None takes entropy from the system.
        stream: a second seed, so that the choices of one request differ.

    Raises:
        SamplingError: a setting is outside its range.

    >>> Sampling(temperature=-1.0)
    Traceback (most recent call last):
    modelcall.lab.model_errors.SamplingError: temperature must be a finite number from 0 up, found -1.0
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    stream: int = 0

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise SamplingError(f"temperature must be a finite number from 0 up, found {self.temperature}")
        if self.top_k < 0:
            raise SamplingError(f"top_k must be 0 (off) or more, found {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise SamplingError(f"top_p must be above 0 and at most 1, found {self.top_p}")


class Sampler:
    """Chooses tokens by one :class:`Sampling`, drawing from its own generator.

    >>> logits = np.log([0.1, 0.2, 0.7])
    >>> Sampler(Sampling(temperature=0)).pick(logits)
    2
    >>> np.round(Sampler(Sampling(top_p=0.8)).probabilities(logits), 3).tolist()
    [0.0, 0.222, 0.778]
    """

    def __init__(self, settings: Sampling) -> None:
        self.settings = settings
        seed = settings.seed
        # A seed may be negative in the wire format; NumPy's may not.
        entropy = None if seed is None else [seed & (2**64 - 1), settings.stream]
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))

    def probabilities(self, logits: Floats, allowed: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """Return the distribution that is drawn from, (vocab,).

        Args:
            logits: (vocab,).
            allowed: where False, a token has probability 0.

        Raises:
            SamplingError: nothing is allowed.
        """
        s = self.settings
        z = _masked(logits, allowed)
        if s.temperature == 0:
            result = np.zeros(len(z))
            result[z.argmax()] = 1.0
            return result
        z = z - z.max()
        with np.errstate(over="ignore"):  # a tiny temperature sends the rest to -inf, as it should
            p: NDArray[np.float64] = np.exp(z / s.temperature)
        if 0 < s.top_k < len(p):
            # A stable sort, so that ties go to the smaller id on every machine.
            p[np.argsort(-p, kind="stable")[s.top_k :]] = 0.0
        p /= p.sum()
        if s.top_p < 1:
            kept = _nucleus(p, s.top_p)
            cut = np.zeros_like(p)
            cut[kept] = p[kept]
            p = cut / cut.sum()
        return p

    def pick(self, logits: Floats, allowed: NDArray[np.bool_] | None = None) -> int:
        """Choose a token id from the distribution of :meth:`probabilities`."""
        if self.settings.temperature == 0:
            return int(_masked(logits, allowed).argmax())
        cumulative = np.cumsum(self.probabilities(logits, allowed))
        # Scaled by the last sum, which rounding may leave a little beside 1.
        return int(np.searchsorted(cumulative, self._random.random() * cumulative[-1], side="right"))


def _masked(logits: Floats, allowed: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    z = np.asarray(logits, np.float64)
    if allowed is None:
        return z
    if not allowed.any():
        raise SamplingError("the mask allows no token at all")
    return np.where(allowed, z, -np.inf)


def _nucleus(p: NDArray[np.float64], top_p: float) -> NDArray[np.intp]:
    """Return the ids of the smallest head of the sorted distribution that sums to at least ``top_p``."""
    size = 64
    while size < len(p):
        # Everything as probable as the guess's last is in, so that ties are not cut at random.
        floor = np.partition(p, -size)[-size]
        head = np.flatnonzero(p >= floor)
        if p[head].sum() >= top_p:
            break
        size *= _GROWTH
    else:
        head = np.arange(len(p))
    order = head[np.argsort(-p[head], kind="stable")]
    reached = int(np.searchsorted(np.cumsum(p[order]), top_p, side="left"))
    return order[: reached + 1]


def log_softmax(logits: Floats) -> NDArray[np.float64]:
    """Return natural-log probabilities over the last axis, in float64."""
    z = np.asarray(logits, np.float64)
    z = z - z.max(-1, keepdims=True)
    result: NDArray[np.float64] = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return result


def top_logprobs(logprobs: NDArray[np.float64], count: int) -> list[tuple[int, float]]:
    """Return the ``count`` most probable (token id, log probability), best first, ties by id.

    >>> top_logprobs(np.log([0.2, 0.5, 0.3]), 2)[0][0]
    1
    """
    if count == 0:
        return []
    count = min(count, len(logprobs))
    head = np.flatnonzero(logprobs >= np.partition(logprobs, -count)[-count])
    order = head[np.argsort(-logprobs[head], kind="stable")][:count]
    return [(int(i), float(logprobs[i])) for i in order]
