"""Tokenizing measured: the encoder beside tiktoken, the trainer beside Hugging Face ``tokenizers``.

    make bench NAME=tokens               a table
    make bench NAME=tokens ARGS=--json   {figure: {value, unit, peer, goal, met}}

One text of about a megabyte, half of it English (the manual pages that Python carries), half Python (the
standard library). Each time is the best of several runs, and the runs of the two sides take turns, so that a
busy moment hits both. *Cold* is a new encoder that has seen nothing; *warm* has encoded the text once.
Encoders, ours and tiktoken's, run in one thread and are measured in CPU time, which other programs disturb
least. ``tokenizers`` trains in as many threads as it likes, so both trainers are measured in real time.
Ids and learned strings are compared first, and a difference is an error. Goals are reported, never enforced.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import sysconfig
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import tiktoken
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from modelcall.ch03 import BYTE_ORDER, BytePairTokenizer, load_encoding, train_byte_bpe

HALF = 500_000
MERGES = 768
ROUNDS = 7
# The pattern of cl100k_base as first published: the same pieces, in the syntax of every engine.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
Figures = dict[str, dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench/tokens.py", description="Measure tokenizing.")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    args = parser.parse_args()
    text = corpus()
    reference, ours = tiktoken.get_encoding("cl100k_base"), load_encoding("cl100k_base")
    if ours.encode(text) != reference.encode_ordinary(text):
        print("tokens: the ids differ from tiktoken's", file=sys.stderr)
        return 1
    if [*train_byte_bpe(text, MERGES).ranks] != peer_strings(peer_trained(text)):
        print("tokens: the learned strings differ from those of tokenizers", file=sys.stderr)
        return 1
    figures = encoding(text, reference, ours) | training(text) | linearity(text, ours)
    print(json.dumps(figures, indent=1) if args.json else table(figures, text))
    return 0


def corpus() -> str:
    """Return the text: English, then Python."""
    english = "\n".join(topics[name] for name in sorted(topics))
    library = Path(sysconfig.get_paths()["stdlib"])
    code = ""
    for path in sorted(library.glob("*.py")):
        if len(code) >= HALF:
            break
        code += path.read_text(encoding="utf-8")
    return english[:HALF] + code[:HALF]


def fresh(ours: BytePairTokenizer) -> BytePairTokenizer:
    """Return the same encoder with nothing remembered."""
    return BytePairTokenizer(ours.pattern, ours.ranks, ours.specials)


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return what ``work`` takes: CPU time of this process, or another clock's."""
    start = clock()
    work()
    return clock() - start


def encoding(text: str, reference: tiktoken.Encoding, ours: BytePairTokenizer) -> Figures:
    """Measure the encoder, cold and warm, in turns with tiktoken."""
    peer, cold, warm = [], [], []
    for _ in range(ROUNDS):
        new = fresh(ours)
        peer.append(seconds(lambda: reference.encode_ordinary(text)))
        cold.append(seconds(partial(new.encode, text)))
        warm.append(seconds(partial(new.encode, text)))
    size = len(text.encode()) / 1e6
    rate = size / min(peer)
    return {
        "encode, tiktoken": figure(rate, "MB/s"),
        "encode, cold": figure(size / min(cold), "MB/s"),
        "encode, warm": figure(size / min(warm), "MB/s"),
        "cold over tiktoken": figure(min(peer) / min(cold), "ratio", "tiktoken", 0.25),
        "warm over tiktoken": figure(min(peer) / min(warm), "ratio", "tiktoken", 0.5),
    }


def training(text: str) -> Figures:
    """Measure the trainer in turns with that of ``tokenizers``."""
    peer, ours = [], []
    for _ in range(ROUNDS):
        peer.append(seconds(lambda: peer_trained(text), time.perf_counter))
        ours.append(seconds(lambda: train_byte_bpe(text, MERGES), time.perf_counter))
    return {
        f"train {MERGES} merges, tokenizers": figure(min(peer), "s"),
        f"train {MERGES} merges": figure(min(ours), "s"),
        "training time over tokenizers": figure(min(ours) / min(peer), "ratio", "tokenizers", 2.0, most=True),
    }


def linearity(text: str, ours: BytePairTokenizer) -> Figures:
    """Measure three sizes, each with English and Python in equal parts; 1.0 would be exactly linear."""
    sizes = (1, 2, 4)
    parts = {n: text[: HALF * n // 4] + text[HALF : HALF + HALF * n // 4] for n in sizes}
    found: Figures = {}
    works: dict[str, Callable[[str], object]] = {
        "cold encoding": lambda part: fresh(ours).encode(part),
        "training": lambda part: train_byte_bpe(part, MERGES),
    }
    for name, work in works.items():
        times = {n: min(seconds(partial(work, parts[n])) for _ in range(ROUNDS)) for n in sizes}
        for n in sizes:
            found[f"{name}, {len(parts[n]):,} characters"] = figure(times[n], "s")
        growth = times[4] / times[1] / 4
        found[f"{name}: growth from 1 to 4, over 4"] = figure(growth, "ratio", "linear", 1.5, most=True)
    return found


def peer_trained(text: str) -> Tokenizer:
    """Train ``tokenizers`` on the text with the same pieces and the same bytes."""
    made = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(PATTERN), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=256 + MERGES, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([text], trainer)
    return made


def peer_strings(trained: Tokenizer) -> list[bytes]:
    """Return what it learned as bytes, in the order of ids; it writes a byte as a printable character."""
    printable = [chr(byte) if i < 188 else chr(256 + i - 188) for i, byte in enumerate(BYTE_ORDER)]
    byte_of = dict(zip(printable, BYTE_ORDER, strict=True))
    tokens = sorted(trained.get_vocab().items(), key=lambda item: item[1])
    return [bytes(byte_of[char] for char in token) for token, _ in tokens]


def figure(
    value: float, unit: str, peer: str | None = None, goal: float | None = None, most: bool = False
) -> dict[str, Any]:
    met = None if goal is None else (value <= goal if most else value >= goal)
    return {"value": round(value, 3), "unit": unit, "peer": peer, "goal": goal, "met": met}


def table(figures: Figures, text: str) -> str:
    lines = [f"{len(text):,} characters; Python {platform.python_version()}, tiktoken {version('tiktoken')},"]
    lines[0] += f" tokenizers {version('tokenizers')}, {platform.machine()}"
    for name, entry in figures.items():
        goal = "" if entry["goal"] is None else f"goal {entry['goal']}: {'met' if entry['met'] else 'MISSED'}"
        lines.append(f"{name:46} {entry['value']:9.3f} {entry['unit']:6} {goal}".rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
