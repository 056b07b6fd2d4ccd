"""Training on a tiny budget: an interrupted run continues to exactly the weights of an uninterrupted one.

Needs the ``train`` extra; skipped without it.
"""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")

import numpy as np  # noqa: E402
from scripts.house_model import network, packing, train, vocabulary  # noqa: E402

from modelcall.lab.safetensors import load  # noqa: E402

SCALE = 0.001  # four steps a stage


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole")
    assert train.train(out, seed=3, scale=SCALE)
    return out


def test_an_interrupted_run_ends_with_the_same_weights(whole, tmp_path):
    rounds = 0
    while not train.train(tmp_path, seed=3, scale=SCALE, stop_after=3):
        rounds += 1
    assert rounds >= len(train.STAGES)
    for model in train.WEIGHTS:
        a, b = load(whole / f"{model}.safetensors"), load(tmp_path / f"{model}.safetensors")
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[k], b[k]) for k in a), model
    records = [json.loads((p / "training.json").read_text(encoding="utf-8")) for p in (whole, tmp_path)]
    assert [s["loss"] for s in records[0]["stages"].values()] == [
        s["loss"] for s in records[1]["stages"].values()
    ]


def test_a_folder_of_another_seed_is_refused_and_left_alone(whole):
    before = {p.name: p.read_bytes() for p in whole.iterdir()}
    with pytest.raises(SystemExit, match="holds a run with seed 3, asked for 4"):
        train.train(whole, seed=4, scale=SCALE)
    assert {p.name: p.read_bytes() for p in whole.iterdir()} == before


def test_what_is_written_can_be_read_and_matches_its_own_reference(whole):
    model = train.load(whole, "base")
    with np.load(whole / "reference.npz") as vectors:
        for i in range(8):
            ids = torch.from_numpy(vectors[f"prompt/{i}"])[None]
            found = model(ids)[0, vectors[f"positions/{i}"]].numpy()
            np.testing.assert_allclose(found, vectors[f"base/{i}"], atol=1e-4)


def test_a_position_reads_only_what_stands_before_it():
    torch.manual_seed(0)
    model = network.Decoder(network.DRAFT).eval()
    ids = torch.randint(0, 1024, (1, 600))
    changed = ids.clone()
    changed[0, 550] = (changed[0, 550] + 1) % 1024
    with torch.inference_mode():
        for length in (200, 600):  # both attention kernels
            a, b = model(ids[:, -length:]), model(changed[:, -length:])
            at = 550 - (600 - length)
            assert torch.equal(a[:, :at], b[:, :at])
            assert not torch.allclose(a[:, at], b[:, at])


def test_both_attention_kernels_agree():
    torch.manual_seed(0)
    model = network.Decoder(network.DRAFT).eval()
    ids = torch.randint(0, 1024, (1, 513))
    with torch.inference_mode():
        torch.testing.assert_close(model(ids)[:, :512], model(ids[:, :512]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("joined", [0.0, 0.5, 1.0])
def test_packing_keeps_every_document_and_starts_rows_at_one(whole, joined):
    tokenizer = vocabulary.read(whole)
    texts = [f"<|user|>Question {i}?<|assistant|>Answer {i}.<|end|>" for i in range(200)] + ["Plain 7."] * 20
    docs = packing.encode(texts, tokenizer)
    rows = packing.pack(docs, 64, 1018, joined, [0])
    ids, learnt = rows[:, 0], rows[:, 1]
    text = "".join(tokenizer.decode(list(row)) for row in ids)
    for i in range(200):
        assert text.count(texts[i]) == 1
    assert text.count("Plain 7.") == 20
    assert {tokenizer.decode([int(row[0])]) for row in ids} <= {
        "<|user|>",
        tokenizer.decode([int(docs[-1].ids[0])]),
    }
    padding = (ids == 1018) & (np.roll(ids, 1, 1) == 1018)
    assert not learnt[padding].any()
    assert learnt[~padding].all()
    ends = text.count("<|end|><|user|>")
    assert {0.0: ends == 0, 1.0: ends > 100}.get(joined, 0 < ends < 150)


def test_only_replies_are_learnt_in_tuning(whole):
    tokenizer = vocabulary.read(whole)
    text = "<|system|>S.<|user|>Q?<|assistant|>A.<|end|><|tool|>T<|assistant|>B.<|end|>"
    (doc,) = packing.encode([text], tokenizer, replies_only=True)
    assert tokenizer.decode(list(doc.ids[doc.learnt])) == "A.<|end|>B.<|end|>"
