"""Bytes of keys, values and weights (chapter 4): published numbers, the decoder's arrays, plain counting."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall.ch04 import (
    FP8,
    FP16,
    INT4,
    INT8,
    Format,
    ModelProfile,
    attend,
    attention_kind,
    dequantize,
    kv_bytes,
    kv_token_bytes,
    model_profile,
    parameter_count,
    quantize,
)
from modelcall.lab import facts, models
from modelcall.lab.kvcache import KVCache
from modelcall.lab.model_config import Config, tensor_shapes

exact = settings(deadline=None, derandomize=True, max_examples=60)
SMALL = ModelProfile("small", 4, 24, 6, 2, 4, 40, 100)


# --- numbers that others published -----------------------------------------------------------------------


def test_bytes_per_token_as_published() -> None:
    # DeepSeek-AI, "Insights into DeepSeek-V3" (2025), table 1: KB per token in BF16
    assert kv_bytes(model_profile("deepseek-v3"), 1) == 70_272
    assert kv_bytes(model_profile("llama-3-405b"), 1) == 516_096
    # AWS Neuron documentation (2026): GPT-OSS 120B, 131k tokens, 9.66 GB in BF16 and 4.83 GB in FP8
    gpt_oss = [kv_token_bytes(36, 8, 64, wide) * 131_072 / 1e9 for wide in (2, 1)]
    assert [round(gb, 2) for gb in gpt_oss] == [9.66, 4.83]
    # DeepSeek-V3.2 in llama.cpp: 68.625 GiB for 1,048,576 tokens
    assert kv_bytes(model_profile("deepseek-v3"), 2**20) / 2**30 == 68.625


def test_parameters_as_the_published_weight_files_hold() -> None:
    counts = {
        "llama-3-8b": 8_030_261_248,
        "llama-3-70b": 70_553_706_496,
        "llama-3-405b": 405_853_388_800,
        "mistral-7b": 7_241_732_096,
        "gemma-2b": 2_506_172_416,
        "gemma-7b": 8_537_680_896,
        "gemma-2-27b": 27_227_128_320,
    }
    assert {name: parameter_count(model_profile(name)) for name in counts} == counts
    assert parameter_count(model_profile("deepseek-v3")) == 671 * 10**9


def test_formats_are_those_of_the_dated_facts() -> None:
    for fmt, name in ((FP8, "fp8"), (INT8, "q8-0"), (INT4, "q4-0")):
        value = facts.fact(f"format.{name}", today=date(2026, 12, 1)).value
        assert value == {"bits": fmt.bits, "group": fmt.group, "scale_bits": fmt.scale_bits}
    # llama.cpp, pull request 7412: bits per value of the cache in q8_0
    assert 8 * INT8.vector_bytes(128) / 128 == 8.5
    # ik_llama.cpp, issue 92: 68.00 MiB beside 36.00 MiB
    assert INT8.vector_bytes(1024) / INT4.vector_bytes(1024) == 68 / 36


# --- the decoder's own arrays and tensors ------------------------------------------------------------------


@exact
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(1, 8), st.booleans())
def test_counts_equal_the_decoder_s_tensors(layers: int, group: int, kv: int, half: int, tied: bool) -> None:
    config = Config(50, 12, layers, kv * group, kv, 2 * half, 20, 64, tied=tied)
    profile = ModelProfile("x", layers, 12, kv * group, kv, 2 * half, 20, 50, tied=tied)
    assert parameter_count(profile) == sum(math.prod(shape) for shape in tensor_shapes(config).values())
    cache = KVCache(layers=layers, batch=3, kv_heads=kv, capacity=7, head_dim=2 * half, dtype=np.float16)
    assert kv_bytes(profile, 7, sequences=3) == cache.nbytes == 21 * kv_token_bytes(layers, kv, 2 * half)


def test_the_house_model_is_counted_right() -> None:
    decoder = models.load("house").decoder
    c = decoder.config
    profile = ModelProfile(
        "house", c.layers, c.d_model, c.heads, c.kv_heads, c.head_dim, c.d_ff, c.vocab_size, tied=c.tied
    )
    assert parameter_count(profile) == c.parameters
    assert decoder.cache(9).nbytes == kv_bytes(profile, 9, Format("float32", 32))


# --- windows, latents, formats, by counting -----------------------------------------------------------------


@exact
@given(st.integers(0, 40), st.integers(1, 20), st.integers(1, 4), st.integers(1, 3))
def test_a_window_keeps_what_the_next_token_can_see(n: int, window: int, windowed: int, seqs: int) -> None:
    model = replace(SMALL, window=window, windowed_layers=windowed)
    visible = [
        sum(1 for t in range(n) if layer >= windowed or t >= n - window) for layer in range(model.layers)
    ]
    assert kv_bytes(model, n, sequences=seqs) == seqs * sum(visible) * 2 * 2 * 4 * 2


def test_a_latent_is_one_vector_for_all_heads() -> None:
    latent = replace(SMALL, latent=64)
    assert kv_bytes(latent, 10, INT4) == 10 * 4 * INT4.vector_bytes(64) == 10 * 4 * 36
    assert kv_bytes(latent, 10, heads=1) == kv_bytes(latent, 10)
    assert kv_bytes(SMALL, 10, heads=1) == kv_bytes(SMALL, 10) // 2


def test_kinds() -> None:
    kinds = [attention_kind(replace(SMALL, kv_heads=kv)) for kv in (6, 3, 2, 1)]
    assert kinds == ["MHA", "GQA", "GQA", "MQA"]
    assert attention_kind(replace(SMALL, latent=1)) == "MLA"


@exact
@given(st.integers(0, 300), st.integers(1, 16), st.integers(0, 40), st.integers(1, 16))
def test_vector_bytes_by_laying_out_bits(size: int, bits: int, group: int, scale: int) -> None:
    fmt = Format("x", bits, group, scale if group else 0)
    numbers = [i for i in range(size) for _ in range(bits)]  # one entry a bit
    scales = {i // group for i in range(size)} if group else set()
    assert fmt.vector_bytes(size) == math.ceil(len(numbers) / 8) + math.ceil(len(scales) * scale / 8)


@exact
@given(st.sampled_from([INT4, INT8]), st.integers(1, 3), st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_quantized_numbers_are_near_and_take_the_bytes_of_the_formula(
    fmt: Format, groups: int, seed: int, spread: float
) -> None:
    x = spread * np.random.default_rng(seed).normal(size=(2, 3, 32 * groups))
    codes, scales = quantize(x, fmt)
    assert codes.dtype == np.uint8 and scales.dtype == np.float16
    assert codes.nbytes + scales.nbytes == 6 * fmt.vector_bytes(32 * groups)
    back = dequantize(codes, scales, fmt)
    grouped = np.abs(x).reshape(2, 3, groups, 32).max(-1)
    step = grouped / (2 ** (fmt.bits - 1) - 1)
    # half a step, and what fp16 rounds the scale by, at the largest code
    bound = np.repeat(0.5 * step + grouped * 2.0**-10, 32, axis=-1) + 1e-6
    assert (np.abs(back - x) <= bound).all()
    assert (np.sign(back)[np.abs(back) > 0] == np.sign(x)[np.abs(back) > 0]).all()


def test_codes_are_packed_as_described() -> None:
    x = np.zeros(32)
    x[:4] = [7, -7, 1, -2]
    codes, scales = quantize(x, INT4)
    assert scales.tolist() == [1.0]
    assert codes[:2].tolist() == [0x97, 0xE1]  # -7 is 9, -2 is 14; the first is the low half
    assert quantize(np.zeros(32), INT8)[0].tolist() == [0] * 32
    assert quantize(x, INT8)[0].view(np.int8)[0] == 127
    np.testing.assert_array_equal(dequantize(*quantize(x, INT4), INT4), x)


@pytest.mark.parametrize(
    ("values", "fmt"),
    [
        (np.ones(33), INT4),
        (np.ones(32), FP16),
        (np.ones(32), FP8),
        (np.float64(1.0), INT4),
        (np.array([np.nan] * 32), INT8),
        (np.array([np.inf] * 32), INT8),
        (np.full(32, 1e9), INT4),
        (np.ones(33), Format("x", 4, 3, 16)),
        (np.ones(32), Format("x", 5, 32, 16)),
    ],
)
def test_what_cannot_be_quantized_is_refused(values: np.ndarray, fmt: Format) -> None:
    with pytest.raises(ValueError, match="quantize"):
        quantize(values, fmt)


def test_numbers_too_small_for_their_scale_keep_their_sign() -> None:
    """The smallest fp16 scale is 2**-24; a number of 10 such steps does not fit 4 bits, and is cut to 7."""
    tiny = np.zeros(32)
    tiny[:2] = np.array([9.8, -9.8]) * 2.0**-24
    assert dequantize(*quantize(tiny, INT4), INT4)[:2].tolist() == [7 * 2.0**-24, -7 * 2.0**-24]
    assert not dequantize(*quantize(tiny / 1e6, INT4), INT4).any()


def test_codes_of_another_format_are_refused() -> None:
    with pytest.raises(ValueError, match="dequantize"):
        dequantize(*quantize(np.ones(64), INT8), INT4)


# --- attention ----------------------------------------------------------------------------------------------


@exact
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_attention_is_the_definition(kv: int, group: int, tokens: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, (k, v) = rng.normal(size=(kv * group, size)), rng.normal(size=(2, kv, tokens, size))
    found = attend(q, k, v)
    for h in range(kv * group):
        scores = [
            math.fsum(a * b for a, b in zip(q[h], k[h // group, t], strict=True)) for t in range(tokens)
        ]
        weights = [math.exp(score / math.sqrt(size)) for score in scores]
        for j in range(size):
            mean = math.fsum(w * v[h // group, t, j] for t, w in enumerate(weights)) / math.fsum(weights)
            assert found[h, j] == pytest.approx(mean, abs=1e-12)


def test_attention_of_large_scores_does_not_overflow() -> None:
    q, k, v = np.full((1, 1), 1000.0), np.array([[[1.0], [1000.0]]]), np.array([[[1.0], [2.0]]])
    assert attend(q, k, v).tolist() == [[2.0]]


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((3, 2), (2, 5, 2), (2, 5, 2)),
        ((4, 2), (2, 5, 3), (2, 5, 3)),
        ((4, 2), (2, 5, 2), (2, 4, 2)),
        ((4, 2), (2, 0, 2), (2, 0, 2)),
        ((4, 2), (0, 5, 2), (0, 5, 2)),
        ((0, 2), (2, 5, 2), (2, 5, 2)),
        ((4, 1, 2), (2, 5, 2), (2, 5, 2)),
    ],
)
def test_attention_refuses_shapes_that_do_not_fit(
    q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="attend: shapes that do not fit"):
        attend(np.ones(q), np.ones(k), np.ones(v))


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_heads": 5}, "query_heads: no multiple of 2 KV heads"),
        ({"layers": 0}, "layers: expected an integer of at least 1"),
        ({"vocab": 0}, "vocab"),
        ({"query_heads": 0}, "query_heads"),
        ({"windowed_layers": 5, "window": 8}, "windowed_layers: expected an integer from 0 to 4"),
        ({"windowed_layers": 2}, "window: expected with"),
        ({"window": 8}, "window: expected with"),
        ({"latent": -1}, "latent"),
    ],
)
def test_shapes_that_cannot_be_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)  # type: ignore[arg-type]


def test_other_arguments_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"layers: expected an integer; got 2\.5"):
        kv_token_bytes(2.5, 1, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="value_bytes"):
        kv_token_bytes(1, 1, 1, 0)
    for name in ("layers", "kv_heads", "head_dim"):
        with pytest.raises(ValueError, match=name):
            kv_token_bytes(**{"layers": 1, "kv_heads": 1, "head_dim": 1, name: 0})
    with pytest.raises(ValueError, match="tokens"):
        kv_bytes(SMALL, -1)
    with pytest.raises(ValueError, match="sequences"):
        kv_bytes(SMALL, 1, sequences=-1)
    with pytest.raises(ValueError, match="group: expected with scale_bits"):
        Format("x", 4, 32)
    with pytest.raises(ValueError, match="bits"):
        Format("x", 0)
    with pytest.raises(facts.FactsError, match=r"there are model\.llama-3-70b"):
        model_profile("llama-4")
