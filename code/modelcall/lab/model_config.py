"""The shape of a decoder: its sizes, read from a ``config.json``, and the tensors that follow from them.

Names and shapes are those of Hugging Face's Llama checkpoints; what such a file can ask for and the engine
does not do (biases, scaled rotary positions) is an error. No weights are read here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from modelcall.lab.model_errors import WeightsError

__all__ = ["Config", "tensor_shapes"]


@dataclass(frozen=True, slots=True)
class Config:
    """The shape of a decoder.

    Attributes:
        vocab_size, d_model, layers, heads, kv_heads, head_dim, d_ff: sizes.
        context: positions the model is meant for, in tokens.
        rope_theta: base of the rotary frequencies.
        norm_eps: added to the mean square in RMSNorm.
        tied: the output matrix is the embedding table.
    """

    vocab_size: int
    d_model: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    d_ff: int
    context: int
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    tied: bool = True

    def __post_init__(self) -> None:
        """Refuse shapes that are no decoder.

        Raises:
            WeightsError: a size is not positive, the head size is odd, or the KV heads do not divide
                the query heads.
        """
        sizes = (self.vocab_size, self.d_model, self.layers, self.heads, self.kv_heads, self.head_dim)
        if min(*sizes, self.d_ff, self.context) < 1:
            raise WeightsError(f"configuration: every size must be at least 1, found {self}")
        if self.heads % self.kv_heads or self.head_dim % 2:
            raise WeightsError(
                f"configuration: {self.kv_heads} KV heads must divide {self.heads} heads, "
                f"and the head size {self.head_dim} must be even"
            )

    @classmethod
    def from_hf(cls, data: Mapping[str, object]) -> Config:
        """Read the keys of a Hugging Face ``config.json``.

        Raises:
            WeightsError: a key is missing or no number, or asks for what this engine does not do.
        """

        def number(key: str, default: float | None = None) -> float:
            value = data.get(key, default)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise WeightsError(f"configuration: {key} must be a number, found {value!r}")
            return value

        for key in ("attention_bias", "mlp_bias", "rope_scaling"):
            if data.get(key):
                raise WeightsError(f"configuration: {key}={data[key]!r} is not supported")
        rope = data.get("rope_parameters")
        theta = rope.get("rope_theta") if isinstance(rope, Mapping) else None
        heads = int(number("num_attention_heads"))
        return cls(
            vocab_size=int(number("vocab_size")),
            d_model=int(number("hidden_size")),
            layers=int(number("num_hidden_layers")),
            heads=heads,
            kv_heads=int(number("num_key_value_heads", heads)),
            head_dim=int(number("head_dim", number("hidden_size") // max(heads, 1))),
            d_ff=int(number("intermediate_size")),
            context=int(number("max_position_embeddings")),
            rope_theta=float(theta) if isinstance(theta, int | float) else number("rope_theta", 10_000.0),
            norm_eps=number("rms_norm_eps", 1e-5),
            tied=bool(data.get("tie_word_embeddings", False)),
        )

    @property
    def parameters(self) -> int:
        """Number of weights; a tied output matrix counts once.

        >>> Config(vocab_size=10, d_model=4, layers=1, heads=2, kv_heads=1, head_dim=2, d_ff=6,
        ...        context=8).parameters
        172
        """
        return sum(math.prod(shape) for shape in tensor_shapes(self).values())


def tensor_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every tensor, in Hugging Face's names; matrices are (out, in)."""
    c = config
    width, kv_width = c.heads * c.head_dim, c.kv_heads * c.head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (c.vocab_size, c.d_model)}
    for i in range(c.layers):
        base = f"model.layers.{i}."
        shapes |= {
            base + "input_layernorm.weight": (c.d_model,),
            base + "self_attn.q_proj.weight": (width, c.d_model),
            base + "self_attn.k_proj.weight": (kv_width, c.d_model),
            base + "self_attn.v_proj.weight": (kv_width, c.d_model),
            base + "self_attn.o_proj.weight": (c.d_model, width),
            base + "post_attention_layernorm.weight": (c.d_model,),
            base + "mlp.gate_proj.weight": (c.d_ff, c.d_model),
            base + "mlp.up_proj.weight": (c.d_ff, c.d_model),
            base + "mlp.down_proj.weight": (c.d_model, c.d_ff),
        }
    shapes["model.norm.weight"] = (c.d_model,)
    if not c.tied:
        shapes["lm_head.weight"] = (c.vocab_size, c.d_model)
    return shapes
