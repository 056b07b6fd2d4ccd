"""The decoder against a framework, against naive loops, and against itself: cached, in batches, cut back."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from modelcall.lab.engine import Config, Decoder, tensor_shapes
from modelcall.lab.kvcache import KVCache
from modelcall.lab.model_errors import CacheFull, WeightsError

DATA = Path(__file__).parent / "data"
SMALL = Config(vocab_size=37, d_model=12, layers=2, heads=4, kv_heads=2, head_dim=6, d_ff=20, context=64)


def random_tensors(config: Config, seed: int = 0) -> dict[str, NDArray[np.float16]]:
    """Seeded weights, fp16 as they are stored."""
    rng = np.random.default_rng(seed)
    return {
        name: (rng.normal(0, 0.4, shape) + (len(shape) == 1)).astype(np.float16)
        for name, shape in tensor_shapes(config).items()
    }


@pytest.fixture(scope="module")
def small() -> Decoder:
    """A decoder small enough for naive loops."""
    return Decoder(SMALL, random_tensors(SMALL), np.float64)


def naive_logits(config: Config, weights: dict[str, NDArray[Any]], ids: list[int]) -> list[list[float]]:
    """The definition, one number at a time: no matrix product, no cache, no grouping, no tricks."""
    w = {name: data.astype(float).tolist() for name, data in weights.items()}
    c = config

    def matvec(matrix: list[list[float]], x: list[float]) -> list[float]:
        return [math.fsum(a * b for a, b in zip(row, x, strict=True)) for row in matrix]

    def norm(x: list[float], gain: list[float]) -> list[float]:
        scale = math.sqrt(math.fsum(a * a for a in x) / len(x) + c.norm_eps)
        return [a / scale * g for a, g in zip(x, gain, strict=True)]

    def rotated(head: list[float], position: int) -> list[float]:
        half = c.head_dim // 2
        out = [0.0] * c.head_dim
        for j in range(half):
            angle = complex(0, position * c.rope_theta ** (-2 * j / c.head_dim))
            z = complex(head[j], head[j + half]) * (math.e**angle)
            out[j], out[j + half] = z.real, z.imag
        return out

    xs = [list(w["model.embed_tokens.weight"][i]) for i in ids]
    for layer in range(c.layers):
        base = f"model.layers.{layer}."
        hs = [norm(x, w[base + "input_layernorm.weight"]) for x in xs]
        heads: dict[str, list[list[list[float]]]] = {}
        for name in "qkv":
            flat = [matvec(w[f"{base}self_attn.{name}_proj.weight"], h) for h in hs]
            size = c.head_dim
            heads[name] = [[row[i : i + size] for i in range(0, len(row), size)] for row in flat]
        for name in "qk":
            heads[name] = [[rotated(head, t) for head in row] for t, row in enumerate(heads[name])]
        for t in range(len(ids)):
            mixed: list[float] = []
            for h in range(c.heads):
                g = h * c.kv_heads // c.heads
                scores = [
                    math.fsum(a * b for a, b in zip(heads["q"][t][h], heads["k"][s][g], strict=True))
                    / math.sqrt(c.head_dim)
                    for s in range(t + 1)
                ]
                weights_ = [math.exp(score - max(scores)) for score in scores]
                total = math.fsum(weights_)
                for j in range(c.head_dim):
                    mixed.append(math.fsum(p / total * heads["v"][s][g][j] for s, p in enumerate(weights_)))
            out = matvec(w[base + "self_attn.o_proj.weight"], mixed)
            x = [a + b for a, b in zip(xs[t], out, strict=True)]
            h2 = norm(x, w[base + "post_attention_layernorm.weight"])
            gate, up = (
                matvec(w[base + "mlp.gate_proj.weight"], h2),
                matvec(w[base + "mlp.up_proj.weight"], h2),
            )
            inner = [a / (1 + math.exp(-a)) * b for a, b in zip(gate, up, strict=True)]
            down = matvec(w[base + "mlp.down_proj.weight"], inner)
            xs[t] = [a + b for a, b in zip(x, down, strict=True)]
    head = w["model.embed_tokens.weight"] if c.tied else w["lm_head.weight"]
    return [matvec(head, norm(x, w["model.norm.weight"])) for x in xs]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (4, 1)])
def test_equals_the_definition(tied: bool, heads: int, kv_heads: int) -> None:
    config = Config(23, 10, 2, heads, kv_heads, 4, 14, 32, rope_theta=500.0, norm_eps=1e-3, tied=tied)
    tensors = random_tensors(config, seed=heads + kv_heads)
    ids = np.random.default_rng(3).integers(0, 23, 9).tolist()
    model = Decoder(config, tensors, np.float64)
    found = model.forward([ids], model.cache(), positions="all")[0]
    np.testing.assert_allclose(found, naive_logits(config, tensors, ids), rtol=0, atol=1e-11)


@pytest.mark.parametrize("tag", ["tied", "untied"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_the_framework_on_recorded_vectors(tag: str, dtype: type) -> None:
    vectors = np.load(DATA / "llama_vectors.npz")
    prefix = f"{tag}/weights/"
    tensors = {key.removeprefix(prefix): vectors[key] for key in vectors.files if key.startswith(prefix)}
    config = Config.from_hf(json.loads(str(vectors[f"{tag}/config"])))
    assert config.tied is (tag == "tied")
    model = Decoder(config, tensors, dtype)
    ids, positions = vectors[f"{tag}/ids"], vectors[f"{tag}/positions"]
    found = model.forward(ids, model.cache(batch=2), positions="all")[:, positions]
    assert found.dtype == dtype
    assert np.abs(found - vectors[f"{tag}/logits"]).max() < 1e-4
    # Once more in pieces of a prompt's blocks and single steps.
    row, cache = ids[1].tolist(), model.cache()
    logits, _ = model.prefill(row[:-1], cache)
    last = model.step(row[-1], cache)
    assert np.abs(last - vectors[f"{tag}/logits"][1, -1]).max() < 1e-4
    assert not np.allclose(logits, last)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.lists(st.integers(0, 36), min_size=1, max_size=40), st.data())
def test_cached_is_recomputed(small: Decoder, ids: list[int], data: st.DataObject) -> None:
    whole = small.forward([ids], small.cache(), positions="all")[0]
    cache, at = small.cache(), 0
    while at < len(ids):
        size = data.draw(st.integers(1, len(ids) - at))
        part = small.forward([ids[at : at + size]], cache, positions="all")[0]
        np.testing.assert_allclose(part, whole[at : at + size], rtol=0, atol=1e-10)
        at += size
    assert len(cache) == len(ids)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.lists(st.lists(st.integers(0, 36), min_size=1, max_size=12), min_size=1, max_size=4), st.data())
def test_a_batch_is_its_rows(small: Decoder, rows: list[list[int]], data: st.DataObject) -> None:
    """Rows of different lengths, read in two helpings of different sizes, then one step each."""
    cut = [data.draw(st.integers(1, len(row))) for row in rows]
    cache = small.cache(batch=len(rows))

    def read(parts: list[list[int]]) -> NDArray[Any]:
        steps = max(map(len, parts))
        padded = [part + [36] * (steps - len(part)) for part in parts]
        return small.forward(padded, cache, counts=[len(part) for part in parts])

    logits = read([row[:n] for row, n in zip(rows, cut, strict=True)])
    if all(n < len(row) for row, n in zip(rows, cut, strict=True)):
        logits = read([row[n:] for row, n in zip(rows, cut, strict=True)])
    else:
        rows = [row[:n] for row, n in zip(rows, cut, strict=True)]
    assert cache.lengths.tolist() == [len(row) for row in rows]
    after = small.forward([[7]] * len(rows), cache)
    for i, row in enumerate(rows):
        own = small.cache()
        np.testing.assert_allclose(logits[i], small.prefill(row, own)[0], rtol=0, atol=1e-10)
        np.testing.assert_allclose(after[i], small.step(7, own), rtol=0, atol=1e-10)


def test_a_cache_can_be_cut_copied_and_filled_again(small: Decoder) -> None:
    ids = [3, 1, 4, 1, 5, 9, 2, 6]
    expected = small.prefill(ids)[0]
    cache = small.cache(16)
    small.prefill([3, 1, 4, 30, 31, 32], cache)
    copy = cache.prefix(3, capacity=9, batch=2)
    cache.truncate(3)
    np.testing.assert_allclose(small.prefill(ids[3:], cache)[0], expected, rtol=0, atol=1e-10)
    both = small.forward([ids[3:], [30, 31, 32, 0, 0]], copy, counts=[5, 3])
    np.testing.assert_allclose(both[0], expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(both[1], small.prefill([3, 1, 4, 30, 31, 32])[0], rtol=0, atol=1e-10)
    copy.truncate([2, 4])
    assert copy.lengths.tolist() == [2, 4] and copy.room == 5
    with pytest.raises(ValueError, match=r"cannot be cut to \[3, 3\]"):
        copy.truncate(3)
    with pytest.raises(ValueError, match="prefix: 9 tokens of 8"):
        cache.prefix(9, capacity=20)


def test_bytes_of_a_cache_follow_the_formula() -> None:
    cache = KVCache(layers=4, batch=3, kv_heads=2, capacity=100, head_dim=32, dtype=np.float16)
    assert cache.nbytes == 2 * 4 * 3 * 2 * 100 * 32 * 2
    with pytest.raises(ValueError, match="at least 1"):
        KVCache(layers=0, batch=1, kv_heads=1, capacity=1, head_dim=1, dtype=np.float32)


def test_float32_is_close_to_float64(small: Decoder) -> None:
    single = Decoder(SMALL, random_tensors(SMALL), np.float32)
    ids = list(range(30))
    logits, cache = single.prefill(ids)
    assert logits.dtype == cache.keys.dtype == np.float32
    np.testing.assert_allclose(logits, small.prefill(ids)[0], rtol=0, atol=1e-3)


def test_parameters_are_counted() -> None:
    untied = Config(37, 12, 2, 4, 2, 6, 20, 64, tied=False)
    assert untied.parameters - SMALL.parameters == 37 * 12
    assert SMALL.parameters == sum(tensor.size for tensor in random_tensors(SMALL).values())


@pytest.mark.parametrize(
    ("tokens", "counts", "message"),
    [
        ([[37]], None, "token ids must be 0 to 36"),
        ([[-1]], None, "token ids must be 0 to 36"),
        ([[1.5]], None, "expected integers of shape"),
        ([1, 2], None, "expected integers of shape"),
        ([[1], [2]], None, "expected integers of shape"),
        ([[]], None, "expected integers of shape"),
        ([[1, 2]], [3], "counts must be"),
        ([[1, 2]], [0], "counts must be"),
    ],
)
def test_wrong_input_is_named(small: Decoder, tokens: Any, counts: Any, message: str) -> None:
    cache = small.cache()
    with pytest.raises(ValueError, match=message):
        small.forward(tokens, cache, counts=counts)
    assert len(cache) == 0


def test_a_full_cache_says_so(small: Decoder) -> None:
    cache = small.cache(4)
    small.prefill([1, 2, 3], cache)
    with pytest.raises(CacheFull, match="holds 3 of 4 tokens; no room for 2 more"):
        small.prefill([1, 2], cache)
    assert len(cache) == 3
    with pytest.raises(ValueError, match="has no tokens"):
        small.prefill([])
    with pytest.raises(ValueError, match="65 tokens are more than the model's context of 64"):
        small.cache(65)


def test_wrong_weights_are_named() -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    for change, message in (
        (None, f"tensor {name} is missing"),
        (np.zeros((3, 3)), r"has shape \(3, 3\); the configuration says \(20, 12\)"),
        (np.full((20, 12), np.nan), "not a finite number"),
    ):
        tensors: dict[str, Any] = dict(random_tensors(SMALL))
        del tensors[name]
        if change is not None:
            tensors[name] = change
        with pytest.raises(WeightsError, match=message):
            Decoder(SMALL, tensors)
    with pytest.raises(ValueError, match="float32 or float64, found float16"):
        Decoder(SMALL, random_tensors(SMALL), np.float16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": None}, "vocab_size must be a number, found None"),
        ({"hidden_size": "12"}, "hidden_size must be a number"),
        ({"rms_norm_eps": math.nan}, "rms_norm_eps must be a number"),
        ({"num_key_value_heads": 3}, "3 KV heads must divide 4 heads"),
        ({"head_dim": 3}, "head size 3 must be even"),
        ({"num_hidden_layers": 0}, "every size must be at least 1"),
        ({"attention_bias": True}, "attention_bias=True is not supported"),
        ({"rope_scaling": {"type": "yarn"}}, "rope_scaling"),
    ],
)
def test_wrong_configurations_are_named(change: dict[str, Any], message: str) -> None:
    config = {
        "vocab_size": 37,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 6,
        "intermediate_size": 20,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
    }
    assert Config.from_hf(config) == SMALL
    with pytest.raises(WeightsError, match=message):
        Config.from_hf(config | change)


PRINTED = """
import numpy as np, sys
sys.path.insert(0, sys.argv[1])
import test_engine_core as t
from modelcall.lab.engine import Config, Decoder
from modelcall.lab.sampling import Sampler, Sampling, log_softmax
config = Config(vocab_size=300, d_model=96, layers=3, heads=6, kv_heads=2, head_dim=16, d_ff=256, context=256)
model = Decoder(config, t.random_tensors(config, seed=5), np.float64)
logits, cache = model.prefill(np.random.default_rng(1).integers(0, 300, 150).tolist())
sampler = Sampler(Sampling(temperature=0.8, top_p=0.95, seed=4))
for _ in range(60):
    token = sampler.pick(logits)
    print(token, f"{log_softmax(logits)[token]:.6f}")
    logits = model.step(token, cache)
"""


def test_printed_results_are_the_same_on_two_kinds_of_cpu() -> None:
    """float64, rounded: OpenBLAS's kernels for two generations of processors print the same."""

    def printed(core: str) -> str:
        env = os.environ | {"OPENBLAS_CORETYPE": core, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", PRINTED, str(Path(__file__).parent)],
            env=env,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=True,
        )
        return done.stdout

    first = printed("Haswell")
    assert len(first.splitlines()) == 60
    assert first == printed("Nehalem")


def test_a_prompt_of_several_blocks_is_read_as_one(small: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.random.default_rng(4).integers(0, SMALL.vocab_size, 21).tolist()
    whole = small.forward([ids], small.cache())[0]
    for block in (1, 8, 20, 21, 22):
        monkeypatch.setattr("modelcall.lab.engine.PREFILL_BLOCK", block)
        logits, cache = small.prefill(ids)
        np.testing.assert_allclose(logits, whole, rtol=0, atol=1e-12)
        assert len(cache) == 21
