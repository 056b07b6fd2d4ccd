"""The tokenizer: byte-level BPE of 1,024 tokens, trained with ``tokenizers`` and read with ``tiktoken``.

Byte-pair encoding (Sennrich et al. 2016) on UTF-8 bytes: 256 byte tokens, then merges in the order they were
learnt, then the special tokens. Text is first cut by ``PATTERN``, which keeps every digit alone, so a number
is as many tokens as it has digits. The exported file is tiktoken's own format, one ``base64(bytes) rank`` a
line; ``tokenizer.json`` beside it names the pattern and the specials. ``tests`` hold ids that the original
gave, so that reading needs no ``tokenizers``.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tiktoken

PATTERN = r"\p{N}|'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPECIALS = ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>")
VOCABULARY = 1024
_SPLIT = re.compile("(?:" + "|".join(map(re.escape, SPECIALS)) + ")")


def byte_alphabet() -> dict[str, int]:
    """The printable stand-in that byte-level BPE (GPT-2) gives each byte, as character -> byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(rest)}


def original(vocab: dict[str, int], merges: list[tuple[str, str]]) -> Any:
    """A ``tokenizers`` tokenizer with this vocabulary (needs the ``train`` extra)."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    made = Tokenizer(models.BPE(vocab=vocab, merges=merges) if vocab else models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    return made


def train_ranks(texts: Iterable[str]) -> tuple[dict[bytes, int], Any]:
    """Learn the merges. Returns tiktoken ranks and the equivalent ``tokenizers`` original."""
    from tokenizers import pre_tokenizers, trainers

    pieces = [piece for text in texts for piece in _SPLIT.split(text) if piece]
    learner = original({}, [])
    learner.train_from_iterator(
        pieces,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY - len(SPECIALS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    to_byte = byte_alphabet()
    merges = [tuple(m) for m in json.loads(learner.to_str())["model"]["merges"]]
    vocab = dict(to_byte)
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    ranks = {bytes(to_byte[c] for c in token): rank for token, rank in vocab.items()}
    return ranks, original(vocab, [(a, b) for a, b in merges])


def encoding(ranks: dict[bytes, int]) -> tiktoken.Encoding:
    """The tokenizer as readers load it; specials follow the last rank."""
    specials = {name: len(ranks) + i for i, name in enumerate(SPECIALS)}
    return tiktoken.Encoding("house", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=specials)


def write(ranks: dict[bytes, int], folder: Path) -> None:
    """Write ``house.tiktoken`` and ``tokenizer.json`` into ``folder``."""
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()]
    (folder / "house.tiktoken").write_text("".join(lines), encoding="utf-8", newline="\n")
    meta = {
        "pattern": PATTERN,
        "ranks": "house.tiktoken",
        "special_tokens": {name: len(ranks) + i for i, name in enumerate(SPECIALS)},
    }
    (folder / "tokenizer.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8", newline="\n")


def read(folder: Path) -> tiktoken.Encoding:
    """Read what ``write`` wrote."""
    lines = (folder / "house.tiktoken").read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines)
    return encoding({base64.b64decode(token): int(rank) for token, rank in pairs})


def random_strings(n: int, seed: int = 0) -> list[str]:
    """Strings from all of Unicode (no surrogates), mixed with blanks, digits and words of the corpus."""
    rng = random.Random(seed)
    words = ["refund", " days", "Treaty", '{"tool": "', "  ", "\n\n", "\t", "1912", "'s", " 'll", "–", "é"]

    def piece() -> str:
        if rng.random() < 0.4:
            return rng.choice(words)
        top = rng.choice([0x7F, 0x2FF, 0x30FF, 0x10FFFF])
        return "".join(
            chr(c)
            for c in (rng.randint(0, top) for _ in range(rng.randint(1, 5)))
            if not 0xD800 <= c < 0xE000
        )

    return ["".join(piece() for _ in range(rng.randint(1, 8))) for _ in range(n)]


def record_ids(folder: Path, texts: list[str], n: int = 60) -> int:
    """Hold the exported tokenizer against the original; write ``token_ids.json``; count what was compared.

    Compared are every document of ``texts`` and 20,000 random strings; the record keeps ``n`` of each kind.
    """
    ranks, made = train_ranks(texts)
    ours = read(folder)
    if ours._mergeable_ranks != ranks:
        raise ValueError(f"{folder / 'house.tiktoken'}: not the ranks that this text gives")
    pieces = sorted({p for text in texts for p in _SPLIT.split(text) if p})
    strings = pieces + random_strings(20_000)
    for string, original_ids in zip(strings, made.encode_batch(strings), strict=True):
        if ours.encode_ordinary(string) != original_ids.ids:
            raise ValueError(f"{string!r}: {ours.encode_ordinary(string)} found, expected {original_ids.ids}")
    kept = random.Random(1).sample(pieces, n) + random_strings(n)
    rows = [[s, made.encode(s).ids] for s in kept]
    (folder / "token_ids.json").write_text(
        "[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n", encoding="utf-8", newline="\n"
    )
    return len(strings)
