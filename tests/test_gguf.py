"""The GGUF reader: files written here by the format's text, and damaged in every way at hand."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall.lab.gguf import GgufFile, dequantize
from modelcall.lab.model_errors import GgufError, ModelError
from modelcall.lab.smollm2 import load_decoder, load_tokenizer

KINDS = {bool: (7, "?"), int: (4, "I"), float: (6, "f")}


def text(value: str) -> bytes:
    """A GGUF string."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(item: Any) -> bytes:
    """A typed value."""
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    if isinstance(item, list):
        if item and isinstance(item[0], str):
            return struct.pack("<IIQ", 9, 8, len(item)) + b"".join(map(text, item))
        return struct.pack("<IIQ", 9, 5, len(item)) + b"".join(struct.pack("<i", number) for number in item)
    kind, code = KINDS[type(item)]
    return struct.pack("<I" + code, kind, item)


def gguf(
    metadata: dict[str, Any], tensors: dict[str, tuple[int, tuple[int, ...], bytes]], align: int = 32
) -> bytes:
    """A file: tensors are (type, shape, bytes)."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    out += b"".join(text(key) + value(item) for key, item in metadata.items())
    body = b""
    for name, (kind, shape, data) in tensors.items():
        body += b"\0" * (-len(body) % align)
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
        out += struct.pack("<IQ", kind, len(body))
        body += data
    return out + b"\0" * (-len(out) % align) + body


GOOD = gguf(
    {
        "general.architecture": "llama",
        "a.flag": True,
        "a.number": 7,
        "a.real": 0.5,
        "a.list": [1, -2],
        "a.words": ["x", "é"],
    },
    {
        "f32": (0, (2, 3), np.arange(6, dtype="<f4").tobytes()),
        "f16": (1, (4,), np.array([1, 2, 3, 4.5], "<f2").tobytes()),
        "q8": (8, (1, 32), np.array([0.25], "<f2").tobytes() + np.arange(-16, 16, dtype=np.int8).tobytes()),
    },
)


def opened(tmp_path: Path, data: bytes) -> GgufFile:
    """Write the bytes and open them."""
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    return GgufFile(path)


def test_reads_metadata_and_tensors(tmp_path: Path) -> None:
    with opened(tmp_path, GOOD) as file:
        assert file.metadata == {
            "general.architecture": "llama",
            "a.flag": True,
            "a.number": 7,
            "a.real": 0.5,
            "a.list": [1, -2],
            "a.words": ["x", "é"],
        }
        np.testing.assert_array_equal(file.tensor("f32"), np.arange(6.0).reshape(2, 3))
        np.testing.assert_array_equal(file.tensor("f16"), [1, 2, 3, 4.5])
        np.testing.assert_array_equal(file.tensor("q8")[0], np.arange(-16, 16) * 0.25)
        assert file.tensors["q8"].type_name == "Q8_0" and file.tensor("f32").dtype == np.float32
        with pytest.raises(GgufError, match="has no tensor 'nope'"):
            file.tensor("nope")


@settings(deadline=None, derandomize=True, max_examples=50)
@given(
    st.lists(st.integers(0, 15), min_size=64, max_size=64),
    st.floats(-2, 2, width=16),
    st.floats(-2, 2, width=16),
)
def test_nibbles_are_where_the_format_says(nibbles: list[int], scale: float, low: float) -> None:
    """Weight i of a block is the low nibble of byte i for i < 16, the high nibble of byte i - 16 after."""
    blocks40, blocks41 = b"", b""
    for start in (0, 32):
        block = nibbles[start : start + 32]
        packed = bytes(block[i] | block[i + 16] << 4 for i in range(16))
        blocks40 += struct.pack("<e", scale) + packed
        blocks41 += struct.pack("<ee", scale, low) + packed
    found = dequantize(np.frombuffer(blocks40, np.uint8), 2)
    np.testing.assert_array_equal(found, np.array([(n - 8) * scale for n in nibbles], np.float32))
    found = dequantize(np.frombuffer(blocks41, np.uint8), 3)
    np.testing.assert_allclose(found, [n * scale + low for n in nibbles], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cannot be read"),
        (b"GGML" + GOOD[4:], "begins with b'GGML'"),
        (GOOD[:4] + struct.pack("<I", 1) + GOOD[8:], "version 1"),
        (GOOD[:4] + struct.pack(">I", 3) + GOOD[8:], "version 50331648"),
        (GOOD[:8] + struct.pack("<Q", 1 << 60) + GOOD[16:], "cut short|not UTF-8|dimensions|type|shape"),
        (GOOD[:16] + struct.pack("<Q", 1 << 60) + GOOD[24:], "cut short|not UTF-8|unknown type"),
        (GOOD[:-1], "not in the file"),
        (GOOD[:60], "cut short"),
        (gguf({"k": "v"}, {}).replace(b"v", b"\xff"), "not UTF-8"),
        (gguf({"general.alignment": 7}, {}), "alignment of 7"),
        (gguf({"general.alignment": 0}, {}), "alignment of 0"),
        (gguf({}, {"t": (99, (4,), b"")}), "type 99"),
        (gguf({}, {"t": (3, (33,), b"\0" * 40)}), r"shape \(33,\), which blocks of Q4_1 do not fill"),
        (gguf({}, {"t": (0, (1, 1, 1, 1, 1), b"\0" * 4)}), "5 dimensions"),
        (gguf({}, {"t": (0, (1 << 62,), b"\0" * 4)}), "not in the file"),
        (gguf({}, {"t": (0, (0,), b"")}), "shape"),
    ],
)
def test_damage_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(GgufError, match=message) as caught:
        opened(tmp_path, data)
    assert str(tmp_path / "x.gguf") in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.gguf", tmp_path):
        with pytest.raises(GgufError, match="cannot be read"):
            GgufFile(path)


def test_names_given_twice_are_refused(tmp_path: Path) -> None:
    pair = text("k") + value(1)
    with pytest.raises(GgufError, match="names the key 'k' twice"):
        opened(tmp_path, b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + pair + pair)


@settings(deadline=None, derandomize=True, max_examples=400)
@given(st.data())
def test_any_damage_is_a_gguf_error_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    damaged = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = (
        bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
        if data.draw(st.booleans())
        else bytes(damaged)
    )
    path = tmp_path_factory.getbasetemp() / "fuzz.gguf"
    path.write_bytes(cut)
    try:
        with GgufFile(path) as file:
            for name in file.tensors:
                file.tensor(name)
    except GgufError:
        pass


def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, gguf({"general.architecture": "bert"}, {})) as file:
        with pytest.raises(GgufError, match="architecture 'bert', not 'llama'"):
            load_decoder(file)
        with pytest.raises(GgufError, match=r"tokenizer.ggml.tokens is missing"):
            load_tokenizer(file)
    with (
        opened(tmp_path, gguf({"general.architecture": "llama"}, {})) as file,
        pytest.raises(ModelError, match="missing"),
    ):
        load_decoder(file)


def small_llama() -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Metadata and float32 tensors of a tiny model in the file's own order of rows."""
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": 1,
        "llama.context_length": 32,
        "llama.embedding_length": 16,
        "llama.feed_forward_length": 12,
        "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 1,
        "llama.rope.freq_base": 100.0,
        "llama.attention.layer_norm_rms_epsilon": 0.001,
        "llama.vocab_size": 5,
    }
    rng = np.random.default_rng(0)
    shapes = {
        "token_embd": (5, 16),
        "output_norm": (16,),
        "blk.0.attn_norm": (16,),
        "blk.0.attn_q": (16, 16),
        "blk.0.attn_k": (8, 16),
        "blk.0.attn_v": (8, 16),
        "blk.0.attn_output": (16, 16),
        "blk.0.ffn_norm": (16,),
        "blk.0.ffn_gate": (12, 16),
        "blk.0.ffn_up": (12, 16),
        "blk.0.ffn_down": (16, 12),
    }
    return metadata, {
        f"{name}.weight": rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()
    }


def test_query_and_key_rows_are_put_back(tmp_path: Path) -> None:
    """Against rotary positions written down for neighbouring pairs, the file's convention."""
    metadata, tensors = small_llama()
    data = gguf(metadata, {name: (0, array.shape, array.tobytes()) for name, array in tensors.items()})
    with opened(tmp_path, data) as file:
        model = load_decoder(file, np.float64)
    w = {name.removesuffix(".weight"): array.astype(np.float64) for name, array in tensors.items()}
    ids = [1, 4, 0, 2]

    def norm(x: np.ndarray[Any, Any], gain: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.001) * gain

    def turn(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """(positions, heads, 8): entries 0 and 1 are a pair, 2 and 3 the next, and so on."""
        z = x[..., 0::2] + 1j * x[..., 1::2]
        z = z * np.exp(1j * np.arange(len(x))[:, None, None] * 100.0 ** (-np.arange(4) / 4))
        return np.stack([z.real, z.imag], -1).reshape(x.shape)

    x = w["token_embd"][ids]
    h = norm(x, w["blk.0.attn_norm"])
    q = turn((h @ w["blk.0.attn_q"].T).reshape(4, 2, 8))
    k = turn((h @ w["blk.0.attn_k"].T).reshape(4, 1, 8))[:, 0]
    v = h @ w["blk.0.attn_v"].T
    scores = np.einsum("thd,sd->hts", q, k) / 8**0.5 + np.where(np.tri(4), 0, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    x = x + np.einsum("hts,sd->thd", p, v).reshape(4, 16) @ w["blk.0.attn_output"].T
    h = norm(x, w["blk.0.ffn_norm"])
    gate = h @ w["blk.0.ffn_gate"].T
    x = x + (gate / (1 + np.exp(-gate)) * (h @ w["blk.0.ffn_up"].T)) @ w["blk.0.ffn_down"].T
    expected = norm(x, w["output_norm"]) @ w["token_embd"].T
    found = model.forward([ids], model.cache(), positions="all")[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_a_tensor_that_is_missing_is_named(tmp_path: Path) -> None:
    metadata, tensors = small_llama()
    del tensors["blk.0.attn_v.weight"]
    data = gguf(metadata, {name: (0, array.shape, array.tobytes()) for name, array in tensors.items()})
    with opened(tmp_path, data) as file, pytest.raises(GgufError, match=r"no tensor 'blk.0.attn_v.weight'"):
        load_decoder(file)
