"""SmolLM2-135M-Instruct out of its GGUF file: weights, tokenizer and chat template for the one engine.

Two conventions have to be undone. The file's authors store the rows of the query and key matrices so
that rotary pairs are neighbours; the engine expects them half a head apart. And the vocabulary is spelled
in the alphabet of GPT-2, in which every byte is a printable character.

The tokenizer is the reference's: digits stand alone, then GPT-2's word pattern *within* what is between
digits, then byte-pair merges whose priority is the token id. The model is Apache-2.0; it is not part of
this package (``modelcall fetch smollm2``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from modelcall.lab.engine import Config, Decoder
from modelcall.lab.gguf import GgufFile
from modelcall.lab.model_errors import GgufError, TokenizerError
from modelcall.lab.tokenizer import Tokenizer

__all__ = ["SYSTEM", "byte_alphabet", "load_decoder", "load_tokenizer"]

SYSTEM: Final = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

# GPT-2's pattern with digits alone; a run of blanks before a digit is whole, because for the reference
# the text ends where a digit begins.
PATTERN: Final = r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"

_NAMES: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def byte_alphabet() -> dict[str, int]:
    """Return the byte that each character of GPT-2's alphabet stands for.

    >>> byte_alphabet()["Ġ"], byte_alphabet()["a"], len(byte_alphabet())
    (32, 97, 256)
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(other)}


def load_tokenizer(file: GgufFile) -> Tokenizer:
    """Read the tokenizer.

    Raises:
        GgufError: the file has no vocabulary of this kind.
        TokenizerError: merges and ids disagree.
    """
    tokens: Sequence[str] = _get(file, "tokenizer.ggml.tokens", list)
    kinds: Sequence[int] = _get(file, "tokenizer.ggml.token_type", list)
    merges: Sequence[str] = _get(file, "tokenizer.ggml.merges", list)
    if len(kinds) != len(tokens) or file.metadata.get("tokenizer.ggml.pre") != "smollm":
        raise GgufError(f"{file.path}: its vocabulary is not the one of SmolLM2")
    # The encoder takes an id for a priority; that holds because the ids were given in order of merging.
    if [merge.replace(" ", "") for merge in merges] != list(tokens[len(tokens) - len(merges) :]):
        raise TokenizerError(f"{file.path}: the ids of the tokens are not in the order of the merges")
    alphabet = byte_alphabet()
    ranks, specials = {}, {}
    for i, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
        if kind == 3:
            specials[token] = i
        else:
            try:
                ranks[bytes(alphabet[char] for char in token)] = i
            except KeyError:
                raise TokenizerError(f"{file.path}: token {i} {token!r} is not in GPT-2's alphabet") from None
    return Tokenizer("smollm2", PATTERN, ranks, specials)


def load_decoder(file: GgufFile, dtype: DTypeLike = np.float32) -> Decoder:
    """Read the weights.

    Raises:
        GgufError: the file is not of the architecture ``llama``, or a key is missing.
        WeightsError: a tensor is missing or has another shape.
    """
    if file.metadata.get("general.architecture") != "llama":
        raise GgufError(
            f"{file.path}: architecture {file.metadata.get('general.architecture')!r}, not 'llama'"
        )

    def size(key: str) -> int:
        return int(_get(file, f"llama.{key}", int))

    heads, width = size("attention.head_count"), size("embedding_length")
    config = Config(
        vocab_size=size("vocab_size"),
        d_model=width,
        layers=size("block_count"),
        heads=heads,
        kv_heads=size("attention.head_count_kv"),
        head_dim=width // max(heads, 1),
        d_ff=size("feed_forward_length"),
        context=size("context_length"),
        rope_theta=float(_get(file, "llama.rope.freq_base", float)),
        norm_eps=float(_get(file, "llama.attention.layer_norm_rms_epsilon", float)),
        tied="output.weight" not in file.tensors,
    )
    tensors: dict[str, NDArray[np.generic]] = {
        "model.embed_tokens.weight": file.tensor("token_embd.weight"),
        "model.norm.weight": file.tensor("output_norm.weight"),
    }
    if not config.tied:
        tensors["lm_head.weight"] = file.tensor("output.weight")
    for i in range(config.layers):
        for theirs, ours in _NAMES.items():
            data = file.tensor(f"blk.{i}.{theirs}.weight")
            if theirs in ("attn_q", "attn_k"):
                data = _halves(data, config.heads if theirs == "attn_q" else config.kv_heads, file)
            tensors[f"model.layers.{i}.{ours}.weight"] = data
    return Decoder(config, tensors, dtype)


def _halves(matrix: NDArray[np.float32], heads: int, file: GgufFile) -> NDArray[np.float32]:
    """Reorder rows from neighbouring rotary pairs to pairs half a head apart."""
    if matrix.ndim != 2 or matrix.shape[0] % (2 * heads):
        raise GgufError(f"{file.path}: a matrix of shape {matrix.shape} has no {heads} heads")
    rows, columns = matrix.shape
    return matrix.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _get(file: GgufFile, key: str, kind: type) -> Any:
    value = file.metadata.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise GgufError(f"{file.path}: the key {key} is {'missing' if value is None else repr(value)[:60]}")
    return value


def chat_parts(messages: Sequence[tuple[str, str]]) -> list[str]:
    """Return the template's text as alternating control and content; see :mod:`modelcall.lab.models`.

    A conversation that does not begin with a system message gets the model's own.

    >>> chat_parts([("system", "Be brief."), ("user", "Hi")])[:4]
    ['<|im_start|>', 'system\\nBe brief.', '<|im_end|>', '\\n']
    """
    if not messages or messages[0][0] != "system":
        messages = [("system", SYSTEM), *messages]
    parts = []
    for role, content in messages:
        parts += ["<|im_start|>", f"{role}\n{content}", "<|im_end|>", "\n"]
    return [*parts, "<|im_start|>", "assistant\n"]
