"""A decoder of Llama's shape in NumPy: RMSNorm, rotary positions, grouped queries, SwiGLU, a KV cache.

The reference is the Llama of Hugging Face Transformers: its tensor names, its convention for rotary
positions (the two halves of a head are the real and imaginary parts, not neighbouring entries), its
order of operations. The same class runs the book's house model and SmolLM2.

The one dial is ``dtype``: float32 for speed, float64 where a printed number must be the same on every
machine. Weights are converted once, when the model is built. What is not done here: training, sampling
(:mod:`modelcall.lab.sampling`), the loop (:mod:`modelcall.lab.generation`), biases, quantized arithmetic.

Errors are those of :mod:`modelcall.lab.model_errors`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from modelcall.lab.kvcache import Cache, Floats, Ints, KVCache
from modelcall.lab.model_config import Config, tensor_shapes
from modelcall.lab.model_errors import WeightsError

__all__ = ["Config", "Decoder", "tensor_shapes"]

AnyCache = TypeVar("AnyCache", bound=Cache)

# Attention scores of a long prompt are quadratic; in blocks, only the block's rows are held at once.
PREFILL_BLOCK = 128


@dataclass(frozen=True, slots=True)
class _Layer:
    """One block's weights; matrices are (in, out), those that read the same input side by side."""

    norm1: Floats
    qkv: Floats
    out: Floats
    norm2: Floats
    gate_up: Floats
    down: Floats


class Decoder:
    """A decoder with its weights.

    Args:
        config: the shape.
        tensors: the weights by Hugging Face's names, any float type; all of :func:`tensor_shapes`.
        dtype: float32 or float64; of all arithmetic and of the KV cache.

    Raises:
        WeightsError: a tensor is missing, has another shape, or holds a value that is not finite.

    >>> config = Config(
    ...     vocab_size=8, d_model=4, layers=1, heads=2, kv_heads=1, head_dim=2, d_ff=6, context=16)
    >>> model = Decoder(config, {name: np.full(shape, 0.5) for name, shape in tensor_shapes(config).items()})
    >>> logits, cache = model.prefill([1, 2, 3])
    >>> logits.shape, len(cache)
    ((8,), 3)
    """

    def __init__(
        self, config: Config, tensors: Mapping[str, NDArray[np.generic]], dtype: DTypeLike = np.float32
    ) -> None:
        self.config = config
        kinds: dict[np.dtype[Any], np.dtype[np.floating[Any]]] = {
            np.dtype(kind): np.dtype(kind) for kind in (np.float32, np.float64)
        }
        if np.dtype(dtype) not in kinds:
            raise ValueError(f"Decoder: dtype must be float32 or float64, found {np.dtype(dtype)}")
        self.dtype = kinds[np.dtype(dtype)]
        self._check(tensors)

        def vector(name: str) -> Floats:
            return np.ascontiguousarray(tensors[name], self.dtype)

        def columns(*names: str) -> Floats:
            """The matrices' transposes side by side: one multiplication instead of several."""
            return np.concatenate([np.asarray(tensors[name], self.dtype).T for name in names], axis=1)

        self.embedding = vector("model.embed_tokens.weight")
        self.head = self.embedding if config.tied else vector("lm_head.weight")
        self.norm = vector("model.norm.weight")
        self.layers = []
        for i in range(config.layers):
            base, attention = f"model.layers.{i}.", f"model.layers.{i}.self_attn."
            self.layers.append(
                _Layer(
                    norm1=vector(base + "input_layernorm.weight"),
                    qkv=columns(*(f"{attention}{x}_proj.weight" for x in "qkv")),
                    out=columns(attention + "o_proj.weight"),
                    norm2=vector(base + "post_attention_layernorm.weight"),
                    gate_up=columns(base + "mlp.gate_proj.weight", base + "mlp.up_proj.weight"),
                    down=columns(base + "mlp.down_proj.weight"),
                )
            )
        # Angles in float64: at position 2,000 a float32 angle is off in its fourth decimal.
        pairs = np.arange(0, config.head_dim, 2) / config.head_dim
        angles = np.arange(config.context)[:, None] * config.rope_theta**-pairs
        self._cos: Floats = np.cos(angles).astype(self.dtype)
        self._sin: Floats = np.sin(angles).astype(self.dtype)

    def _check(self, tensors: Mapping[str, NDArray[np.generic]]) -> None:
        for name, shape in tensor_shapes(self.config).items():
            if name not in tensors:
                raise WeightsError(f"tensor {name} is missing; expected shape {shape}")
            found = tensors[name]
            if found.shape != shape:
                raise WeightsError(f"tensor {name} has shape {found.shape}; the configuration says {shape}")
            # A sum is NaN or infinite exactly when an entry is (fp16 entries cannot overflow a float64).
            if not np.isfinite(np.sum(found, dtype=np.float64)):
                raise WeightsError(f"tensor {name} holds a value that is not a finite number")

    def cache(self, capacity: int | None = None, batch: int = 1) -> KVCache:
        """Return an empty cache for this model; ``capacity`` in tokens, the whole context by default.

        Raises:
            ValueError: the capacity is more than the model's context.
        """
        c = self.config
        capacity = c.context if capacity is None else capacity
        if capacity > c.context:
            raise ValueError(f"cache: {capacity} tokens are more than the model's context of {c.context}")
        return KVCache(
            layers=c.layers,
            batch=batch,
            kv_heads=c.kv_heads,
            capacity=capacity,
            head_dim=c.head_dim,
            dtype=self.dtype,
        )

    @overload
    def prefill(self, prompt: Sequence[int], cache: None = None) -> tuple[Floats, KVCache]: ...

    @overload
    def prefill(self, prompt: Sequence[int], cache: AnyCache) -> tuple[Floats, AnyCache]: ...

    def prefill(self, prompt: Sequence[int], cache: Cache | None = None) -> tuple[Floats, Cache]:
        """Read a prompt and return the logits of its last position, (vocab,), and the cache.

        With a cache of one row, the prompt is read after what that row holds. Long prompts go through
        in blocks, so that memory grows with the prompt and not with its square.

        Raises:
            ValueError: the prompt is empty or holds a token id outside the vocabulary.
            CacheFull: the prompt does not fit.
        """
        if not len(prompt):
            raise ValueError("prefill: the prompt has no tokens")
        cache = self.cache() if cache is None else cache
        cache.require(len(prompt))
        ids = np.asarray(prompt, np.int64)[None]
        logits: Floats = np.empty(0)
        for start in range(0, ids.shape[1], PREFILL_BLOCK):
            logits = self.forward(ids[:, start : start + PREFILL_BLOCK], cache)[0]
        return logits, cache

    def step(self, token: int, cache: Cache) -> Floats:
        """Read one token and return the logits of the next, (vocab,)."""
        row: Floats = self.forward([[token]], cache)[0]
        return row

    def forward(
        self,
        tokens: ArrayLike,
        cache: Cache,
        *,
        counts: Sequence[int] | Ints | None = None,
        positions: Literal["last", "all"] = "last",
    ) -> Floats:
        """Read ``tokens`` after what ``cache`` holds, and append them to it.

        Args:
            tokens: integers of shape (batch, steps).
            cache: of the same batch; its rows may hold different numbers of tokens.
            counts: how many of each row's tokens are real; the rest is padding at the right, is not
                appended, and has logits without meaning. All by default.
            positions: ``"last"`` returns the logits after each row's last real token, (batch, vocab);
                ``"all"`` those after every token, (batch, steps, vocab).

        Raises:
            ValueError: shapes do not fit, a count is outside 1..steps, or an id is not in the vocabulary.
            CacheFull: the tokens do not fit.
        """
        ids = np.asarray(tokens)
        if ids.ndim != 2 or not ids.size or ids.shape[0] != cache.batch or ids.dtype.kind not in "iu":
            raise ValueError(
                f"forward: expected integers of shape ({cache.batch}, steps), found {ids.dtype} {ids.shape}"
            )
        batch, steps = ids.shape
        if ids.min() < 0 or ids.max() >= self.config.vocab_size:
            raise ValueError(f"forward: token ids must be 0 to {self.config.vocab_size - 1}")
        real = np.full(batch, steps) if counts is None else np.asarray(counts, np.int64)
        if real.shape != (batch,) or real.min() < 1 or real.max() > steps:
            raise ValueError(f"forward: counts must be {batch} numbers from 1 to {steps}, found {counts}")
        cache.require(steps)
        at = cache.lengths[:, None] + np.arange(steps)
        cos, sin = (
            self._cos[at].reshape(-1, 1, self._cos.shape[1]),
            self._sin[at].reshape(-1, 1, self._sin.shape[1]),
        )
        hidden = self._hidden(
            self.embedding[ids.reshape(-1)], cache, batch, steps, cos, sin, _mask(at, self.dtype)
        )
        cache.advance(real)
        if positions == "last":
            hidden = hidden.reshape(batch, steps, -1)[np.arange(batch), real - 1]
        normed = _rms_norm(hidden, self.norm, self.config.norm_eps)
        # One row: matrix times vector reads the table in its own order.
        logits: Floats = (self.head @ normed[0])[None] if len(normed) == 1 else normed @ self.head.T
        if positions == "all":
            logits = logits.reshape(batch, steps, self.config.vocab_size)
        return logits

    def _hidden(
        self, x: Floats, cache: Cache, batch: int, steps: int, cos: Floats, sin: Floats, mask: Floats | None
    ) -> Floats:
        """Run the blocks on ``x`` (batch × steps, d_model); see :meth:`forward`."""
        c = self.config
        heads, kv_heads, group, size = c.heads, c.kv_heads, c.heads // c.kv_heads, c.head_dim
        scale = self.dtype.type(1 / math.sqrt(size))
        for i, layer in enumerate(self.layers):
            h = _rms_norm(x, layer.norm1, c.norm_eps) @ layer.qkv
            h = h.reshape(batch * steps, heads + 2 * kv_heads, size)
            qk = _rotate(h[:, : heads + kv_heads], cos, sin).reshape(batch, steps, heads + kv_heads, size)
            v = h[:, heads + kv_heads :].reshape(batch, steps, kv_heads, size)
            keys, values = cache.append(i, qk[:, :, heads:].transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3))
            # The queries that share a KV head stand below each other: one product for the whole group.
            q = qk[:, :, :heads].reshape(batch, steps, kv_heads, group, size).transpose(0, 2, 3, 1, 4)
            q = q.reshape(batch, kv_heads, group * steps, size) * scale
            scores = q @ keys.swapaxes(2, 3)
            if mask is not None:
                # Only the last columns can hide anything from anyone.
                scores.reshape(batch, kv_heads, group, steps, -1)[..., -mask.shape[-1] :] += mask
            scores -= scores.max(-1, keepdims=True)
            np.exp(scores, out=scores)
            # The quotient of the softmax is taken after the mixing, where there is less to divide.
            mixed = scores @ values
            mixed /= scores.sum(-1, keepdims=True)
            mixed = mixed.reshape(batch, kv_heads, group, steps, size)
            x = x + mixed.transpose(0, 3, 1, 2, 4).reshape(batch * steps, heads * size) @ layer.out
            h = _rms_norm(x, layer.norm2, c.norm_eps) @ layer.gate_up
            gate, up = h[:, : c.d_ff], h[:, c.d_ff :]
            # SiLU as z/2 · (1 + tanh z/2): the textbook z / (1 + exp(-z)) overflows for small z.
            half = gate * self.dtype.type(0.5)
            x = x + (half * (1 + np.tanh(half)) * up) @ layer.down
        return x


def _rms_norm(x: Floats, weight: Floats, eps: float) -> Floats:
    """Divide each row by its root mean square; x is (rows, d_model)."""
    mean_square = np.vecdot(x, x) / x.dtype.type(x.shape[1]) + x.dtype.type(eps)
    result: Floats = x / np.sqrt(mean_square)[:, None] * weight
    return result


def _rotate(x: Floats, cos: Floats, sin: Floats) -> Floats:
    """Turn each head's pairs by their position's angles; x is (rows, heads, size)."""
    half = x.shape[2] // 2
    a, b = x[:, :, :half], x[:, :, half:]
    out = np.empty_like(x)
    np.subtract(a * cos, b * sin, out=out[:, :, :half])
    np.add(b * cos, a * sin, out=out[:, :, half:])
    return out


def _mask(at: Ints, dtype: np.dtype[np.floating[Any]]) -> Floats | None:
    """Return what is added to the scores of the last columns, or None if nothing is hidden.

    ``at`` (batch, steps) is each token's position; it may see the columns up to its own, so the columns
    below every row's first position need no mask. The result is (batch, 1, 1, steps, masked columns).
    """
    first, end = int(at[:, 0].min()), int(at[:, -1].max()) + 1
    if end - first == 1:
        return None
    hidden = np.arange(first, end) > at[:, :, None]
    return np.where(hidden, -np.inf, 0.0).astype(dtype)[:, None, None]
