"""One call, measured

The code of chapters/01-on-ramp.ipynb; written by scripts/tangle.py.
"""

from modelcall.ch01._generated import (
    END,
    Completion,
    TokenScore,
    Vocabulary,
    bpe_decode,
    bpe_encode,
    count_tokens,
    entropy_bits,
    restrict,
    sample_entropy_bits,
    sample_token,
    softmax,
    top_k_support,
    top_p_support,
    train_bpe,
)

__all__ = [
    "END",
    "Completion",
    "TokenScore",
    "Vocabulary",
    "bpe_decode",
    "bpe_encode",
    "count_tokens",
    "entropy_bits",
    "restrict",
    "sample_entropy_bits",
    "sample_token",
    "softmax",
    "top_k_support",
    "top_p_support",
    "train_bpe",
]
