"""Measure the models: loading, prefill, decoding, and what the server adds to a token.

``python scripts/bench/model.py [--json FILE] [--quick]``. Each figure is the best of several runs, since
whatever else the machine does only ever makes it slower; the median is printed beside it. The server runs in
a process of its own, as it does for readers, and its figure is the difference of two times taken one after
the other: a token over HTTP and a token of the bare loop. A token is what a long reply takes beyond a reply
of one token, divided by the tokens between: what a request costs but once is a figure of its own. SmolLM2's
figures need ``modelcall fetch smollm2`` and are left out otherwise. Peers that are installed are measured
beside: ``tokenizers`` for encoding.

Exit status 1 if a goal is missed (not with ``--quick``, whose runs are too short to tell).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "code"))

from modelcall.lab import fetch, models
from modelcall.lab.generation import decode
from modelcall.lab.model_errors import ModelError
from modelcall.lab.sampling import Sampler, Sampling

QUESTION = "What did the 1912 Alpine Berry Treaty establish?"
DECODE_TOKENS, PREFILL_TOKENS, SMOLLM2_PROMPT_TOKENS = 256, 512, 38


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number: best and median, its unit, a peer's number, the goal, whether it is met."""

    name: str
    best: float
    median: float
    unit: str
    goal: float | None = None
    peer: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met: rates must reach it, times must stay under it."""
        if self.goal is None:
            return None
        return self.best >= self.goal if self.unit == "tok/s" else self.best <= self.goal


def seconds(work: Callable[[], object], runs: int) -> list[float]:
    """Time a piece of work several times, after once for warming up."""
    work()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return times


def rate(name: str, tokens: int, times: list[float], goal: float | None, peer: float | None = None) -> Figure:
    """Turn times into a rate."""
    return Figure(name, tokens / min(times), tokens / statistics.median(times), "tok/s", goal, peer)


def duration(name: str, times: list[float], goal: float | None, peer: float | None = None) -> Figure:
    """Turn times into milliseconds."""
    return Figure(name, min(times) * 1e3, statistics.median(times) * 1e3, "ms", goal, peer)


def generate(model: models.ChatModel, prompt: list[int], tokens: int) -> float:
    """Generate greedily whatever the end tokens; return seconds a token, the first excepted."""
    cache = model.decoder.cache(len(prompt) + tokens)
    logits, _ = model.decoder.prefill(prompt, cache)
    steps = decode(model.decoder, logits, cache, Sampler(Sampling(temperature=0)), max_tokens=tokens)
    next(steps)
    began = time.perf_counter()
    count = sum(1 for _ in steps)
    return (time.perf_counter() - began) / count


def prompt_of(model: models.ChatModel, tokens: int) -> list[int]:
    """A prompt of this many tokens."""
    ids = model.prompt([models.Message("user", QUESTION)])
    return (ids * (tokens // len(ids) + 1))[:tokens]


def house(runs: int) -> list[Figure]:
    """Figures of the house model without the server."""
    model = models.load("house")
    prompt, long = prompt_of(model, 32), prompt_of(model, PREFILL_TOKENS)
    times = [generate(model, prompt, DECODE_TOKENS) for _ in range(runs + 1)][1:]
    rows = 8
    cache = model.decoder.cache(batch=rows)
    model.decoder.forward([prompt] * rows, cache)

    def batch() -> None:
        for _ in range(32):
            model.decoder.forward([[5]] * rows, cache)
        cache.truncate(len(prompt))

    text = (QUESTION + " Refund order A-1234 after 45 days, please.\n") * 200
    return [
        duration("house: load", seconds(lambda: models.load("house"), runs), 100),
        rate("house: decode, batch 1", 1, times, 1000),
        rate("house: decode, batch 8", 32 * rows, seconds(batch, runs), None),
        rate(
            "house: prefill, 512 tokens",
            PREFILL_TOKENS,
            seconds(lambda: model.decoder.prefill(long), runs),
            10_000,
        ),
        rate(
            "house: encode text",
            len(model.tokenizer.encode(text)),
            seconds(lambda: model.tokenizer.encode(text), runs),
            None,
            peer_encoding(model, text, runs),
        ),
    ]


def peer_encoding(model: models.ChatModel, text: str, runs: int) -> float | None:
    """Tokens a second of Hugging Face tokenizers with the same vocabulary; None if it is not installed."""
    try:
        import tokenizers
    except ImportError:
        return None
    alphabet = bytes_to_text()
    pieces = model.tokenizer.pieces
    vocab = {"".join(alphabet[b] for b in piece): i for i, piece in enumerate(pieces) if piece}
    merges = []
    for piece in pieces:
        if len(piece) > 1:
            # The pair that was merged is what encoding with the earlier tokens leaves.
            parts = [bytes([b]) for b in piece]
            ranks = {data: i for i, data in enumerate(pieces)}
            while len(parts) > 2:
                joined = [ranks.get(a + b, len(pieces)) for a, b in pairwise(parts)]
                at = joined.index(min(joined))
                parts[at : at + 2] = [parts[at] + parts[at + 1]]
            merges.append(tuple("".join(alphabet[b] for b in part) for part in parts))
    peer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=merges))
    pattern = tokenizers.Regex(model.tokenizer.encoding._pat_str)
    peer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(pattern, "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    assert peer.encode(text).ids == model.tokenizer.encode(text), "the peer gives other tokens"
    return len(peer.encode(text).ids) / min(seconds(lambda: peer.encode(text), runs))


def bytes_to_text() -> dict[int, str]:
    """The characters that stand for bytes in the peer's vocabulary."""
    from modelcall.lab.smollm2 import byte_alphabet

    return {byte: char for char, byte in byte_alphabet().items()}


def server(runs: int) -> list[Figure]:
    """What the server adds to a token, streamed and not, over the bare loop of the same moment."""
    model = models.load("house")
    prompt = model.prompt([models.Message("user", QUESTION)])
    command = [sys.executable, "-m", "modelcall", "serve", "--model", "house", "--port", "0"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=env) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+(?=/v1)", line)
            if found is None:
                raise SystemExit(f"bench: the server did not start: {line!r}")
            with httpx.Client(base_url=found[0], timeout=60, trust_env=False) as client:
                return _server_figures(client, model, prompt, runs)
        finally:
            process.terminate()


def _server_figures(
    client: httpx.Client, model: models.ChatModel, prompt: list[int], runs: int
) -> list[Figure]:
    request: dict[str, Any] = {
        "model": "house",
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "max_tokens": DECODE_TOKENS,
        "ignore_eos": True,
    }
    for attempt in range(200):
        try:
            client.get("/health")
            break
        except httpx.TransportError:
            if attempt == 199:
                raise
            time.sleep(0.05)

    def streamed() -> tuple[float, float]:
        """Seconds to the first token, and seconds a token after it."""
        began = time.perf_counter()
        with client.stream("POST", "/v1/chat/completions", json=request | {"stream": True}) as answer:
            # The first event with content is the role's, which comes with the first token's.
            arrivals = [time.perf_counter() for row in answer.iter_lines() if '"content":"' in row][1:]
        return arrivals[0] - began, (arrivals[-1] - arrivals[0]) / (DECODE_TOKENS - 1)

    def whole(tokens: int) -> float:
        """Seconds to a reply that is not streamed."""
        began = time.perf_counter()
        client.post("/v1/chat/completions", json=request | {"max_tokens": tokens}).raise_for_status()
        return time.perf_counter() - began

    bare, stream, plain, first, once = [], [], [], [], []
    streamed()
    whole(1)
    # In turns, so that a slow moment is slow for all of them.
    for _ in range(runs):
        bare.append(generate(model, prompt, DECODE_TOKENS))
        ttft, tpot = streamed()
        first.append(ttft)
        stream.append(tpot)
        once.append(whole(1))
        plain.append((whole(DECODE_TOKENS) - once[-1]) / (DECODE_TOKENS - 1))

    def added(served: list[float]) -> tuple[float, float]:
        """Milliseconds above the bare loop: of the best runs, and the median of the pairs."""
        pairs = [b - a for a, b in zip(bare, served, strict=True)]
        return (min(served) - min(bare)) * 1e3, statistics.median(pairs) * 1e3

    return [
        Figure("server: added to a token, streamed", *added(stream), "ms", 0.25),
        Figure("server: added to a token, not streamed", *added(plain), "ms", 0.25),
        duration("server: time to first token, prompt cached", first, None),
        duration("server: a whole reply of one token", once, None),
        duration("server: time per output token, streamed", stream, None, min(bare) * 1e3),
    ]


def smollm2(runs: int) -> list[Figure]:
    """Figures of SmolLM2, if it is here."""
    if fetch.installed() is None:
        print("bench: SmolLM2 is left out; modelcall fetch smollm2 brings it", file=sys.stderr)
        return []
    model = models.load("smollm2")
    prompt = prompt_of(model, SMOLLM2_PROMPT_TOKENS)
    times = [generate(model, prompt, 33) for _ in range(runs + 1)][1:]
    first = seconds(lambda: model.decoder.prefill(prompt, model.decoder.cache(128)), runs)
    return [
        rate("SmolLM2: decode, batch 1", 1, times, 25),
        duration("SmolLM2: time to first token, 38 tokens", first, 250),
    ]


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="bench model", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures as JSON, - for stdout"
    )
    parser.add_argument("--quick", action="store_true", help="two runs of each; goals are not judged")
    arguments = parser.parse_args(argv)
    runs = 2 if arguments.quick else 7
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    load = f", load {busy:.2f} before" if busy else ""
    versions = f"NumPy {np.__version__}, Python {platform.python_version()}"
    print(f"{platform.machine()}, {os.cpu_count()} cores{load}; {versions}")
    try:
        figures = [*house(runs), *server(runs), *smollm2(runs)]
    except ModelError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if busy > 0.5:
        print("bench: the machine is busy; the goals are those of an idle one", file=sys.stderr)
    print(f"{'figure':44} {'best':>11} {'median':>11} {'unit':6} {'goal':>8} {'peer':>11}  met")
    for figure in figures:
        goal = "" if figure.goal is None else f"{figure.goal:,g}"
        peer = "" if figure.peer is None else f"{figure.peer:,.2f}"
        met = "" if figure.met is None else "yes" if figure.met else "NO"
        numbers = f"{figure.best:11,.2f} {figure.median:11,.2f}"
        print(f"{figure.name:44} {numbers} {figure.unit:6} {goal:>8} {peer:>11}  {met}")
    if arguments.json is not None:
        data = {
            figure.name: {
                "value": figure.best,
                "median": figure.median,
                "unit": figure.unit,
                "peer": figure.peer,
                "goal": figure.goal,
                "met": figure.met,
            }
            for figure in figures
        }
        text = json.dumps(data, indent=1) + "\n"
        if str(arguments.json) == "-":
            print(text, end="")
        else:
            temporary = arguments.json.with_name(arguments.json.name + ".part")
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(arguments.json)
    return int(not arguments.quick and any(figure.met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
