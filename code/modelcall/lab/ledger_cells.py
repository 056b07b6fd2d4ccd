"""What the cells of The Operational On-Ramp print, made anew from the chapters' functions.

The ledger compares these lines with the printed ones, letter by letter. Errors of the source are repeated on
purpose: the claim is that the cell prints this, and whether the number in it is right is another entry.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import tiktoken

from modelcall import ch01

__all__ = [
    "CORPUS",
    "asks_for_stream",
    "cell_01",
    "cell_02",
    "cell_03",
    "cell_04",
    "cell_05",
    "chi_square",
    "cl100k_count",
    "example_agrees",
    "seeded_draws",
    "sentence_pieces",
    "total_tokens",
]

CORPUS = [
    "the refund policy covers the standard window",
    "the policy covers refunds inside the window",
    "a refund after the window needs an exception",
    "the standard refund window is short",
    "refunds and the refund policy and the window",
] * 6
SENTENCE = "the refund policy denies Wagnersløv a refund"
WORDS = ("not", "sometimes", "usually", "always")
LOGITS = (1.6, 0.9, 0.3, -0.4)
TEMPERATURES = (0.5, 1.0, 2.0)
EXAMPLE = ch01.Completion(
    text="not covered",
    token_scores=(ch01.TokenScore("not", -0.11), ch01.TokenScore(" covered", -0.42)),
    prompt_tokens=18,
    output_tokens=2,
    ttft_ms=41.0,
    total_ms=77.0,
)


def asks_for_stream(request: Mapping[str, Any]) -> bool:
    """Tell whether a request to an OpenAI-compatible endpoint asks for a stream.

    >>> asks_for_stream({"model": "m", "stream": True})
    True
    """
    return bool(request.get("stream", False))


def cell_01() -> list[str]:
    """Return the lines of B-cell-01: the example's text and log probabilities.

    >>> cell_01()
    ['not covered -> [-0.11, -0.42]']
    """
    return [f"{EXAMPLE.text} -> {[score.logprob for score in EXAMPLE.token_scores]}"]


def example_agrees() -> bool:
    """Tell whether the example's tokens join to its text and are as many as it says.

    >>> example_agrees()
    True
    """
    tokens = [score.token for score in EXAMPLE.token_scores]
    return "".join(tokens) == EXAMPLE.text and len(tokens) == EXAMPLE.output_tokens


def total_tokens(prompt_tokens: int, output_tokens: int) -> int:
    """Return the tokens of a call in all, from a record that accepts both counts.

    >>> total_tokens(18, 21)
    39
    """
    record = ch01.Completion("", (), prompt_tokens, output_tokens, ttft_ms=0.0, total_ms=0.0)
    return record.prompt_tokens + record.output_tokens


def cl100k_count(text: str) -> int:
    """Return the number of tokens of a text in cl100k_base.

    >>> cl100k_count("hello world")
    2
    """
    return len(tiktoken.get_encoding("cl100k_base").encode(text))


def _encoded() -> dict[str, list[str]]:
    """The source's own bookkeeping: a table keyed by word, in which the second `refund` is lost."""
    merges = ch01.train_bpe(CORPUS, 80)
    return {word: ch01.bpe_encode(word, merges) for word in SENTENCE.split()}


def cell_02() -> list[str]:
    """Return the lines of B-cell-02: the pieces of each word and the total, which is one too low.

    >>> cell_02()[-1]
    '7 words -> 20 tokens'
    """
    table = _encoded()
    rows = [f"{word:12} -> {len(parts):2d} tokens  {parts}" for word, parts in table.items()]
    return [*rows, "", f"{len(SENTENCE.split())} words -> {sum(map(len, table.values()))} tokens"]


def cell_03() -> list[str]:
    """Return the lines of B-cell-03: ids numbered off the pieces of the sentence itself.

    >>> cell_03()[-1]
    "ids for 'refund': [12]"
    """
    table = _encoded()
    order = sorted(set().union(*table.values()))
    first = {piece: order.index(piece) for piece in order[:6]}
    return [f"first ids: {first}", f"ids for 'refund': {[order.index(piece) for piece in table['refund']]}"]


def sentence_pieces(sentence: str) -> dict[str, int]:
    """Return how many distinct pieces a sentence has, and how many the trained vocabulary lacks.

    >>> sentence_pieces("the refund")
    {'pieces that get an id': 2, 'pieces outside the vocabulary': 0}
    """
    merges = ch01.train_bpe(CORPUS, 80)
    pieces = {piece for word in sentence.split() for piece in ch01.bpe_encode(word, merges)}
    known = set(ch01.Vocabulary("".join(CORPUS), merges).pieces)
    return {"pieces that get an id": len(pieces), "pieces outside the vocabulary": len(pieces - known)}


def cell_04() -> list[str]:
    """Return the lines of B-cell-04: four probabilities at three temperatures.

    >>> cell_04()[1]
    'T=1.0:  not=0.525  sometimes=0.261  usually=0.143  always=0.071'
    """
    lines = []
    for t in TEMPERATURES:
        shares = ch01.softmax(LOGITS, t)
        lines.append(f"T={t}:  " + "  ".join(f"{w}={p:.3f}" for w, p in zip(WORDS, shares, strict=True)))
    return lines


def _draw(probs: Sequence[float], seed: int) -> int:
    return ch01.sample_token(probs, random.Random(seed))


def cell_05() -> list[str]:
    """Return the lines of B-cell-05: repeated seeds, and 400 seeds at each temperature.

    >>> cell_05()[0]
    'same seed twice: 0 0'
    """
    plain = ch01.softmax(LOGITS, 1.0)
    lines = [f"same seed twice: {_draw(plain, 3)} {_draw(plain, 3)}"]
    lines.append(f"seeds 0..5:      {[WORDS[_draw(plain, seed)] for seed in range(6)]}")
    for t in TEMPERATURES:
        shares = ch01.softmax(LOGITS, t)
        drawn = Counter(WORDS[index] for index in seeded_draws(shares, 400))
        top, bits = max(drawn.values()) / 400, ch01.entropy_bits(shares)
        lines.append(f"T={t}:  top-token share={top:.2f}  entropy={bits:.2f} bits  {dict(drawn)}")
    return lines


def seeded_draws(probs: Sequence[float], seeds: int) -> list[int]:
    """Return one draw for each of the seeds 0, 1, ... below ``seeds``: the source's way to sample.

    >>> seeded_draws([0.25, 0.75], 3)
    [1, 0, 1]
    """
    return [_draw(probs, seed) for seed in range(seeds)]


def chi_square(draws: Sequence[int], probs: Sequence[float]) -> float:
    """Return Pearson's statistic of drawn indices against the probabilities they were drawn with.

    >>> chi_square([0, 0, 0, 1], [0.5, 0.5])
    1.0
    """
    seen = Counter(draws)
    expected = [len(draws) * p for p in probs]
    return math.fsum((seen[i] - e) ** 2 / e for i, e in enumerate(expected))
