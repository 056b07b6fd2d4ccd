"""What the cells of The Operational On-Ramp print, made anew from the chapters' functions.

The ledger compares these lines with the printed ones, letter by letter. Errors of the source are repeated on
purpose: the claim is that the cell prints this, and whether the number in it is right is another entry.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import Any

import tiktoken

from modelcall import ch01

__all__ = [
    "ANSWERS",
    "ASSERTED",
    "CORPUS",
    "TREATY",
    "asks_for_stream",
    "call_usd",
    "cell_01",
    "cell_02",
    "cell_03",
    "cell_04",
    "cell_05",
    "cell_06",
    "cell_07",
    "cell_08",
    "cell_09",
    "cell_10",
    "cell_11",
    "chi_square",
    "cl100k_count",
    "comparable",
    "example_agrees",
    "gaps_within",
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
# The log probabilities of the false answer, and pairs of (stated confidence, was it right): inputs, typed in.
TREATY = (-0.03, -0.02, -0.05, -0.03, -0.04, -0.02, -0.06, -0.03, -0.02, -0.04)
ANSWERS = (
    *((0.95, 1), (0.92, 0), (0.91, 1), (0.90, 0), (0.72, 1)),
    *((0.70, 0), (0.68, 1), (0.65, 0), (0.55, 1), (0.52, 0)),
)
USAGE = (18, 21)  # tokens of the response shown: prompt, completion
# What the source types in among its measurements, by the names that B-live gives it.
ASSERTED: dict[str, Sequence[Any]] = {
    "treaty log probabilities": TREATY,
    "calibration pairs": ANSWERS,
    "endpoint response": USAGE,
}
PRICES = (0.05, 0.40)  # USD for 1,000 tokens: prompt, output


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


def cell_06() -> list[str]:
    """Return the lines of B-cell-06: the token probabilities of the false answer and their mean.

    That the answer is false is no result: the treaty was made up.

    >>> cell_06()[1]
    'mean per-token confidence: 0.967'
    """
    shares = [ch01.token_confidence(logprob) for logprob in TREATY]
    return [
        f"per-token confidence: {[round(share, 3) for share in shares]}",
        f"mean per-token confidence: {round(math.fsum(shares) / len(shares), 3)}",
        "factual correctness: FALSE — the treaty does not exist",
    ]


def cell_07() -> list[str]:
    """Return the lines of B-cell-07: accuracy by stated confidence, the source's upper end of 1.01 included.

    >>> cell_07()[0]
    'stated 0.9-1.01: empirical accuracy 0.50  (n=4)'
    """
    return [
        f"stated {b.low:.1f}-{1.01 if b.high == 1.0 else b.high:.2f}: "
        f"empirical accuracy {b.accuracy:.2f}  (n={b.count})"
        for b in reversed(ch01.calibration_table(ANSWERS))
    ]


def cell_08() -> list[str]:
    """Return the lines of B-cell-08: what is decided in the three cases.

    >>> cell_08()[2]
    'vague  (0.60 conf, 0.3 evidence): retrieve'
    """
    cases = {"treaty": (0.97, 0.0), "refund": (0.90, 0.9), "vague": (0.60, 0.3)}
    return [
        f"{name:6} ({sure:.2f} conf, {backed:.1f} evidence): {ch01.decide_response(sure, backed)}"
        for name, (sure, backed) in cases.items()
    ]


def cell_09() -> list[str]:
    """Return the lines of B-cell-09: the three times of the simulated call.

    >>> cell_09()[2]
    'total  =  675.6 ms'
    """
    times = ch01.simulate_decode(800, 20)
    count, tpot = len(times), ch01.tpot_ms(times)
    return [
        f"TTFT   = {times[0]:6.1f} ms   (queue + prefill of 800 tokens + first token)",
        f"TPOT   = {tpot:6.1f} ms   (mean gap across {count} tokens)",
        f"total  = {times[-1]:6.1f} ms",
    ]


def gaps_within(times: Sequence[float], low: float, high: float) -> bool:
    """Tell whether each gap between neighbouring times lies from ``low`` to ``high``.

    >>> gaps_within([0.0, 2.0, 5.0], 2.0, 3.0), gaps_within([0.0, 2.0, 5.0], 2.5, 3.0)
    (True, False)
    """
    return all(low <= after - before <= high for before, after in pairwise(times))


def call_usd(prices: Sequence[float], per: int, prompt_tokens: int, output_tokens: int) -> float:
    """Return the USD of a call at two prices, of prompt and output, that hold for ``per`` tokens each.

    >>> call_usd([0.05, 0.4], 1000, 800, 200)
    0.12
    """
    read, written = (price * 1_000_000 / per for price in prices)
    snapshot = ch01.PriceSnapshot(read, written, date(2026, 7, 20), "The Operational On-Ramp")
    return snapshot.call_usd(prompt_tokens, output_tokens)


def cell_10() -> list[str]:
    """Return the lines of B-cell-10: the cost of a resolved task at two success rates.

    >>> cell_10()[1]
    'raw call = 0.1200 USD   success=0.60   cost per resolved task = 0.2000 USD'
    """
    raw = call_usd(PRICES, 1000, 800, 200)
    return [
        f"raw call = {raw:.4f} USD   success={rate:.2f}   "
        f"cost per resolved task = {ch01.cost_per_resolved_usd(raw, rate):.4f} USD"
        for rate in (0.95, 0.60)
    ]


def cell_11() -> list[str]:
    """Return the lines of B-cell-11: what each rung adds, and the sum so far.

    >>> cell_11()[1]
    'one model call       +  0.52 USD/task   cumulative   0.52 USD/task'
    """
    return [
        f"{name:20} +{usd:6.2f} USD/task   cumulative {so_far:6.2f} USD/task"
        for name, usd, so_far in ch01.autonomy_costs(ch01.LADDER)
    ]


def comparable(left: Any, right: Any) -> bool:
    """Tell whether two values have an order; levels of different scales have none.

    >>> comparable(1, 2), comparable(1, "2")
    (True, False)
    """
    try:
        _ = left < right
    except TypeError:
        return False
    return True
