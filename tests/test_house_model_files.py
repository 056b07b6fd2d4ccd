"""The published house model: whole files, the shapes its card states, its tokenizer, and the card."""

import json
import random
import re

import numpy as np
import pytest
import tiktoken
from scripts.house_model import card, corpora, vocabulary
from scripts.house_model.world import build_world

from modelcall.lab.paths import data_dir
from modelcall.lab.safetensors import load

HOME = data_dir("house_model")
CONFIG = json.loads((HOME / "config.json").read_text(encoding="utf-8"))
CARD = (HOME / "README.md").read_text(encoding="utf-8")
RECORDS = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(HOME.glob("records/*-evaluation.json"))]
TRAINING = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(HOME.glob("records/*-training.json"))]


def expected_shapes(c):
    """Tensor shapes of a Llama decoder with a tied head, from its configuration."""
    d, kv, f = c["hidden_size"], c["num_key_value_heads"] * c["head_dim"], c["intermediate_size"]
    q = c["num_attention_heads"] * c["head_dim"]
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], d), "model.norm.weight": (d,)}
    for i in range(c["num_hidden_layers"]):
        layer = {
            "self_attn.q_proj": (q, d),
            "self_attn.k_proj": (kv, d),
            "self_attn.v_proj": (kv, d),
            "self_attn.o_proj": (d, q),
            "mlp.gate_proj": (f, d),
            "mlp.up_proj": (f, d),
            "mlp.down_proj": (d, f),
            "input_layernorm": (d,),
            "post_attention_layernorm": (d,),
        }
        shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return shapes


@pytest.mark.parametrize("model", ["base", "tuned", "draft"])
def test_weights_have_the_shapes_of_their_configuration(model):
    weights = load(HOME / f"{model}.safetensors")
    assert {name: w.shape for name, w in weights.items()} == expected_shapes(CONFIG[model])
    assert {w.dtype for w in weights.values()} == {np.dtype(np.float16)}
    assert all(np.isfinite(w).all() for w in weights.values())
    count = sum(w.size for w in weights.values())
    assert count == RECORDS[0]["models"][model]["parameters"]
    assert f"| `{model}` | {count:,} |" in CARD


def test_sizes_are_what_a_book_can_carry():
    base, draft = (sum(w.size for w in load(HOME / f"{m}.safetensors").values()) for m in ("base", "draft"))
    assert 1.5e6 < base < 2.5e6
    assert 0.05 < draft / base < 0.15
    assert sum(p.stat().st_size for p in HOME.rglob("*")) < 15e6
    assert CONFIG["base"] == CONFIG["tuned"]
    assert CONFIG["base"]["max_position_embeddings"] == CONFIG["draft"]["max_position_embeddings"] == 2048


def test_the_card_is_the_one_its_files_give():
    assert card.card(HOME) == CARD, "run: python -m scripts.house_model.card"


def test_every_hash_of_the_card_matches(tmp_path):
    import hashlib

    listed = dict(re.findall(r"^\| ([\w./-]+) \| [\d,]+ \| `([0-9a-f]{64})` \|$", CARD, re.M))
    files = {
        p.relative_to(HOME).as_posix(): p for p in HOME.rglob("*") if p.is_file() and p.name != "README.md"
    }
    assert listed.keys() == files.keys()
    for name, path in files.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == listed[name], name


def test_the_truth_table_is_the_generators():
    published = json.loads((HOME / "truth.json").read_text(encoding="utf-8"))
    assert published == json.loads(json.dumps(corpora.truth_table(build_world())))


def tokenizer() -> tiktoken.Encoding:
    return vocabulary.read(HOME)


def test_the_tokenizer_gives_the_originals_ids():
    ours, rows = tokenizer(), json.loads((HOME / "token_ids.json").read_text(encoding="utf-8"))
    assert len(rows) >= 100
    assert len({i for _, ids in rows for i in ids}) > 300
    for text, ids in rows:
        assert ours.encode_ordinary(text) == ids
        assert ours.decode(ids) == text


def test_the_tokenizer_is_byte_level_with_single_digits():
    ours, meta = tokenizer(), json.loads((HOME / "tokenizer.json").read_text(encoding="utf-8"))
    assert ours.n_vocab == CONFIG["base"]["vocab_size"] == 1024
    assert ours._special_tokens == meta["special_tokens"]
    assert ours._pat_str == meta["pattern"]
    assert [ours.decode_single_token_bytes(b) for b in range(256)] == [bytes([b]) for b in range(256)]
    for token in range(256, 1018):
        assert not re.search(rb"\d.|.\d", ours.decode_single_token_bytes(token), re.S)
    rng = random.Random(3)
    for _ in range(200):
        data = rng.randbytes(rng.randint(0, 40))
        text = data.decode("latin-1")
        assert ours.decode(ours.encode(text, disallowed_special=())) == text


def test_reference_logits_are_complete():
    with np.load(HOME / "reference.npz") as vectors:
        prompts = [k for k in vectors.files if k.startswith("prompt/")]
        assert len(prompts) == 8
        assert max(len(vectors[k]) for k in prompts) > 1000
        for key in prompts:
            i = key.removeprefix("prompt/")
            for model in ("base", "tuned", "draft"):
                assert vectors[f"{model}/{i}"].shape == (len(vectors[f"positions/{i}"]), 1024)
                assert np.isfinite(vectors[f"{model}/{i}"]).all()


def test_three_seeds_keep_the_floor():
    """A fact that two documents state is a matter of luck: its floor holds on average, and beats a guess."""
    assert [r["seed"] for r in RECORDS] == [t["seed"] for t in TRAINING] == [0, 1, 2]
    for record, training in zip(RECORDS, TRAINING, strict=True):
        assert training["scale"] == 1
        base = record["models"]["base"]
        floor = {"x128": 1.0, "x32": 1.0, "x8": 0.68, "x2": 0.2}
        for group, least in floor.items():
            assert base["treaties"][group]["accuracy"] >= least, (record["seed"], group)
        assert base["tool_calls"]["exact"] == 1.0
        assert base["positions"]["loops_exact"]["exact"] == 1.0
        assert base["treaties"]["invented"]["answered"] >= 0.98
        assert base["treaties"]["folk"]["accuracy"] == 0.0
    assert np.mean([r["models"]["base"]["treaties"]["x2"]["accuracy"] for r in RECORDS]) >= 0.25
