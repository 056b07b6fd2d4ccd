"""The decoder, in PyTorch, for training only: Llama's shape, with Llama's tensor names.

RMSNorm before each sublayer (Zhang & Sennrich 2019), rotary positions in the half-split layout (Su et al.
2021), grouped-query attention (Ainslie et al. 2023), SwiGLU (Shazeer 2020), output head tied to the
embedding. The state dictionary carries the names that published Llama checkpoints use, so any Llama reader
loads the files. Inference for readers is the package's NumPy engine; this module has no cache and no
sampler.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

POSITIONS = 2048


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder; ``head`` is the width of one attention head."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    hidden: int
    vocabulary: int = 1024
    theta: float = 10000.0
    eps: float = 1e-5

    def config(self) -> dict[str, Any]:
        """The keys of a Llama ``config.json``."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.width,
            "intermediate_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head,
            "hidden_act": "silu",
            "rms_norm_eps": self.eps,
            "rope_theta": self.theta,
            "max_position_embeddings": POSITIONS,
            "tie_word_embeddings": True,
            "vocab_size": self.vocabulary,
            "torch_dtype": "float16",
        }


HOUSE = Shape(width=192, layers=4, heads=6, kv_heads=2, head=32, hidden=512)
DRAFT = Shape(width=64, layers=2, heads=4, kv_heads=2, head=16, hidden=192)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each (first half, second half) pair of a head by its position's angle."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    """Causal self-attention in which several query heads share one key-value head."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s = s
        self.q_proj = nn.Linear(s.width, s.heads * s.head, bias=False)
        self.k_proj = nn.Linear(s.width, s.kv_heads * s.head, bias=False)
        self.v_proj = nn.Linear(s.width, s.kv_heads * s.head, bias=False)
        self.o_proj = nn.Linear(s.heads * s.head, s.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        s, (batch, length, _) = self.s, x.shape
        groups = s.heads // s.kv_heads
        q = rotate(self.q_proj(x).view(batch, length, s.heads, s.head).transpose(1, 2), cos, sin)
        k = rotate(self.k_proj(x).view(batch, length, s.kv_heads, s.head).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(batch, length, s.kv_heads, s.head).transpose(1, 2)
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        q, k = q.to(v.dtype), k.to(v.dtype)
        if (
            length <= 512
        ):  # on a CPU the plain form is faster than the tiled kernel while the scores fit the cache
            above = torch.full((length, length), -1e9, dtype=v.dtype).triu(1)
            mixed = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(s.head) + above, -1).to(v.dtype) @ v
        else:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))
        return out


class FeedForward(nn.Module):
    """SwiGLU: a gated hidden layer."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(s.width, s.hidden, bias=False)
        self.up_proj = nn.Linear(s.width, s.hidden, bias=False)
        self.down_proj = nn.Linear(s.hidden, s.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(s.width, eps=s.eps)
        self.self_attn = Attention(s)
        self.post_attention_layernorm = nn.RMSNorm(s.width, eps=s.eps)
        self.mlp = FeedForward(s)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Trunk(nn.Module):
    """Embedding, layers and final norm: everything that has weights."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(s.vocabulary, s.width)
        self.layers = nn.ModuleList(Layer(s) for _ in range(s.layers))
        self.norm = nn.RMSNorm(s.width, eps=s.eps)


class Decoder(nn.Module):
    """Token ids (batch, length) in, logits (batch, length, vocabulary) out."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s = s
        self.model = Trunk(s)
        inverse = s.theta ** (-torch.arange(0, s.head, 2, dtype=torch.float64) / s.head)
        angle = torch.arange(POSITIONS, dtype=torch.float64)[:, None] * inverse
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)
        for name, weight in self.named_parameters():
            if (
                weight.ndim == 2
            ):  # the two matrices that write to the residual stream start smaller, as in GPT-2
                writes = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * s.layers) if writes else 0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.model.embed_tokens(ids)
        length = ids.shape[1]
        cos, sin = self.get_buffer("cos")[:length], self.get_buffer("sin")[:length]
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return functional.linear(self.model.norm(x), self.model.embed_tokens.weight)
