"""The decode loop: choose a token, say what it was, read it, and know when to stop.

It stops at an end token (``"stop"``), at the limit of tokens, or when the cache is full (both
``"length"``). The end token is a step like any other and is counted once: a reply of five tokens that
ends by itself has six steps. Stop *strings* are a matter of text, and so of :mod:`modelcall.lab.textstream`.

The last token chosen is not read back into the cache: nobody asks for what would follow it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from modelcall.lab.engine import Decoder
from modelcall.lab.kvcache import Cache, Floats
from modelcall.lab.sampling import Sampler, log_softmax, top_logprobs

__all__ = ["Mask", "Step", "decode"]


class Mask(Protocol):
    """What a grammar offers the loop: which tokens may come next, and where it stands."""

    def allowed(self) -> NDArray[np.bool_]:
        """Return a boolean for each token of the vocabulary."""

    def advance(self, token: int) -> None:
        """Take note of the token that was chosen."""


@dataclass(frozen=True, slots=True)
class Step:
    """One chosen token.

    Attributes:
        token: its id.
        logprob: natural log of the model's own probability (before temperature, cuts and mask), or
            None if it was not asked for.
        top: the most probable (id, log probability) at this place, best first.
        finish: why the loop ends here; None while it goes on.
        kept: the probability that the mask left standing; 1 without a mask, None if not asked for.
    """

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    finish: Literal["stop", "length"] | None = None
    kept: float | None = None


def decode(
    model: Decoder,
    logits: Floats,
    cache: Cache,
    sampler: Sampler,
    *,
    max_tokens: int,
    end_tokens: Collection[int] = (),
    top: int | None = None,
    mask: Mask | None = None,
) -> Iterator[Step]:
    """Yield one :class:`Step` for each token until the loop ends.

    Args:
        model: the decoder.
        logits: (vocab,), those after the last token in ``cache``; what :meth:`Decoder.prefill` returns.
        cache: of one row; it grows by one token a step, the last excepted.
        sampler: chooses.
        max_tokens: at most this many steps, the end token included.
        end_tokens: ids that end the loop.
        top: None for no log probabilities; else how many alternatives to report beside the token's own.
        mask: restricts the choice.

    Raises:
        ValueError: ``max_tokens`` is less than 1.
        SamplingError: the mask allows no token.
    """
    if max_tokens < 1:
        raise ValueError(f"decode: max_tokens must be at least 1, found {max_tokens}")
    for left in range(max_tokens - 1, -1, -1):
        allowed = None if mask is None else mask.allowed()
        token = sampler.pick(logits, allowed)
        finish: Literal["stop", "length"] | None = None
        if token in end_tokens:
            finish = "stop"
        elif left == 0 or cache.room == 0:
            finish = "length"
        if top is None:
            yield Step(token, finish=finish)
        else:
            logprobs = log_softmax(logits)
            kept = 1.0 if allowed is None else float(np.exp(logprobs[allowed]).sum())
            yield Step(token, float(logprobs[token]), tuple(top_logprobs(logprobs, top)), finish, kept)
        if finish is not None:
            return
        if mask is not None:
            mask.advance(token)
        logits = model.step(token, cache)
