"""The house model's own files on the engine: recorded logits, caching, damage, and what the card promises."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from modelcall.lab import models
from modelcall.lab.fetch import file_sha256
from modelcall.lab.model_errors import ModelError, TokenizerError, WeightsError
from modelcall.lab.paths import data_dir
from modelcall.lab.server import house_server

HOUSE = data_dir("house_model")


@pytest.fixture(scope="module")
def vectors() -> Any:
    """Logits that the training framework gave, float64 arithmetic on the published weights."""
    return np.load(HOUSE / "reference.npz")


@pytest.mark.parametrize("name", sorted(models.HOUSE_STAGES))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_the_training_framework(name: str, dtype: type, vectors: Any) -> None:
    model = models.load(name, dtype).decoder
    stage, prompts = models.HOUSE_STAGES[name], 0
    while f"prompt/{prompts}" in vectors:
        ids, at = vectors[f"prompt/{prompts}"], vectors[f"positions/{prompts}"]
        expected = vectors[f"{stage}/{prompts}"]
        found = model.forward(ids[None], model.cache(len(ids)), positions="all")[0][at]
        assert np.abs(found - expected).max() < 1e-4
        assert at[-1] == len(ids) - 1
        prompts += 1
    assert prompts >= 8 and len(ids) > 1000
    # The longest again, as it is read in practice: block by block, with logits of its last position only.
    last, _ = model.prefill(ids.tolist())
    assert np.abs(last - expected[-1]).max() < 1e-4


def test_shapes_are_those_of_the_house() -> None:
    house, draft = models.load("house"), models.load("house-draft")
    assert house.window >= 2048 and house.tokenizer.size == house.decoder.config.vocab_size == 1024
    assert 1.5e6 < house.decoder.config.parameters < 2.5e6
    assert house.decoder.config.kv_heads < house.decoder.config.heads
    assert draft.decoder.config.parameters < 0.15 * house.decoder.config.parameters
    assert draft.tokenizer.pieces == house.tokenizer.pieces


def test_the_tokenizer_gives_the_ids_of_the_original() -> None:
    cases = json.loads((HOUSE / "token_ids.json").read_text(encoding="utf-8"))
    tokenizer = models.load("house").tokenizer
    assert len(cases) > 10
    for text, ids in cases:
        assert tokenizer.encode(text) == ids
        assert tokenizer.decode(ids) == text


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that loading needs, to be damaged."""
    for name in ("config.json", "tokenizer.json", "house.tiktoken", "tuned.safetensors", "SHA256SUMS"):
        shutil.copy(HOUSE / name, tmp_path / name)
    assert models.load("house", folder=tmp_path).window >= 2048
    return tmp_path


def test_damaged_weights_are_one_line_with_both_hashes(copy: Path) -> None:
    path = copy / "tuned.safetensors"
    expected = file_sha256(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(WeightsError) as caught:
        models.load("house", folder=copy)
    assert str(caught.value) == f"{path}: sha256 is {file_sha256(path)}, expected {expected}"
    path.unlink()
    with pytest.raises(WeightsError, match=r"tuned\.safetensors: is missing"):
        models.load("house", folder=copy)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.json", "{", "is not JSON"),
        ("config.json", "[]", "expected a JSON object"),
        ("config.json", "{}", "has no configuration 'tuned'"),
        ("tokenizer.json", "{}", "needs pattern, ranks and special_tokens"),
        ("house.tiktoken", "x", "sha256 is"),
        ("SHA256SUMS", "", "expected an entry in SHA256SUMS"),
    ],
)
def test_other_damage_is_named(copy: Path, name: str, text: str, message: str) -> None:
    (copy / name).write_text(text, encoding="utf-8")
    with pytest.raises((WeightsError, TokenizerError), match=message) as caught:
        models.load("house", folder=copy)
    assert isinstance(caught.value, ModelError) and "\n" not in str(caught.value)


def test_served_is_the_same_as_run_by_hand() -> None:
    """One request through HTTP, and the same tokens by prefill and arg max, in float64."""
    question = "What did the 1912 Alpine Berry Treaty establish?"
    model = models.load("house", np.float64)
    prompt = model.prompt([models.Message("user", question)])
    logits, cache = model.decoder.prefill(prompt)
    tokens: list[int] = []
    while len(tokens) < 40:
        tokens.append(int(logits.argmax()))
        if tokens[-1] in model.end_tokens:
            break
        logits = model.decoder.step(tokens[-1], cache)
    with house_server(loaded=[model]) as url:
        request = {
            "model": "house",
            "messages": [{"role": "user", "content": question}],
            "temperature": 0,
            "max_tokens": 40,
        }
        body = httpx.post(url + "/v1/chat/completions", json=request, timeout=30, trust_env=False).json()
    assert body["choices"][0]["message"]["content"] == model.tokenizer.decode(tokens)
    assert body["usage"]["completion_tokens"] == len(tokens) and body["usage"]["prompt_tokens"] == len(prompt)
