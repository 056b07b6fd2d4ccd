"""SmolLM2 where it has been fetched: ids and logits against the recorded reference, and a request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelcall.lab import fetch, models
from modelcall.lab.generation import decode
from modelcall.lab.gguf import GgufFile
from modelcall.lab.sampling import Sampler, Sampling
from modelcall.lab.smollm2 import load_tokenizer

RECORD: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "smollm2_reference.json").read_text(encoding="utf-8")
)
PATH = fetch.installed()
pytestmark = pytest.mark.skipif(PATH is None, reason="SmolLM2 is not in the cache: modelcall fetch smollm2")


@pytest.fixture(scope="module")
def model() -> models.ChatModel:
    """The model, float32."""
    return models.load("smollm2")


def test_the_record_is_of_this_file() -> None:
    assert RECORD["about"]["sha256"] == fetch.SMOLLM2.sha256


@pytest.mark.parametrize("case", RECORD["texts"], ids=lambda case: repr(case["text"][:20]))
def test_ids_equal_the_references(case: dict[str, Any]) -> None:
    assert PATH is not None
    with GgufFile(PATH) as file:
        tokenizer = load_tokenizer(file)
    assert tokenizer.encode(case["text"]) == case["ids"]


def test_logits_equal_the_references(model: models.ChatModel) -> None:
    for case in RECORD["logits"]:
        cache = model.decoder.cache(len(case["ids"]))
        found = model.decoder.forward([case["ids"]], cache, positions="all")[0]
        assert found.argmax(-1).tolist() == case["argmax"]
        for row in case["positions"]:
            logits = found[row["position"]].astype(np.float64)
            for token, value in row["top"] + row["some"]:
                assert abs(logits[token] - value) < 1e-3
            assert abs(np.logaddexp.reduce(logits) - row["logsumexp"]) < 1e-3


def test_the_greedy_reply_equals_the_references(model: models.ChatModel) -> None:
    prompt = model.prompt([models.Message("user", "What is the capital of France?")])
    assert prompt == RECORD["logits"][0]["ids"]
    cache = model.decoder.cache(len(prompt) + 20)
    logits, _ = model.decoder.prefill(prompt, cache)
    sampler = Sampler(Sampling(temperature=0))
    steps = decode(model.decoder, logits, cache, sampler, max_tokens=12, end_tokens=model.end_tokens)
    assert [step.token for step in steps] == RECORD["greedy"]
