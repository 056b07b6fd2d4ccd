"""More answers to the exercises of chapter 1: what engineers write in haste, in doubt, or in another style.

Each wrong one names words of the reason that it must get; each right one must pass. The commonest mistakes
are in ``test_checks_ch01``.
"""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from tests.test_checks_ch01 import MEMO, PROPOSAL, bits, geometric, keyed, simulated

from modelcall.ch01 import LADDER, bpe_encode, break_even_confidence, sample_token, softmax, train_bpe

Answer = Callable[..., Any]
Wrong = dict[str, list[tuple[Answer, str]]]


def seeded(key: Callable[[str, int], Any]) -> Answer:
    """An answer to 1.3 with a generator of its own for each request, seeded as ``key`` says."""
    return lambda order, probs, seed: {n: sample_token(probs, random.Random(key(n, seed))) for n in order}


def by_the_shared_module(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    made = {}
    for name in order:
        random.seed(f"{seed}/{name}")
        made[name] = random.choices(range(len(probs)), probs)[0]
    return made


def by_numpys_shared_state(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    made = {}
    for name in order:
        np.random.seed(zlib.crc32(f"{seed}/{name}".encode()))
        made[name] = int(np.random.choice(len(probs), p=probs))
    return made


def by_inversion(order: list[str], probs: list[float], seed: int) -> dict[str, int]:
    made = {}
    for name in order:
        u, reach = zlib.crc32(f"{seed}:{name}".encode()) / 2**32, 0.0
        made[name] = -1
        while u >= reach:
            made[name] += 1
            reach += probs[made[name]]
    return made


async def later(logprobs: list[float]) -> tuple[float, float]:
    return geometric(logprobs)


def without_end(logprobs: list[float]) -> Any:
    return without_end(logprobs)


def trained(corpus: list[str], sentence: str, asked: list[int]) -> list[int]:
    return [sum(len(bpe_encode(w, train_bpe(corpus, n))) for w in sentence.split()) for n in asked]


def by_enumeration(logprobs: list[float]) -> tuple[float, float]:
    whole = 1.0
    for count, logprob in enumerate(logprobs, 1):  # noqa: B007
        whole *= math.exp(logprob)
    return whole, math.exp(np.average(logprobs))


def by_rungs(**changes: Any) -> Answer:
    return lambda: (PROPOSAL, replace(MEMO, **changes))


WRONG: Wrong = {
    "1.1": [
        (lambda x: (geometric(x)[0], 1 / geometric(x)[1]), "the perplexity"),
        (lambda x: (geometric(x)[0], geometric(x)[0] / len(x)), "divided by the number of tokens"),
        (lambda x: (geometric(x)[0], sum(x) / len(x)), "second result is still a log probability"),
        (lambda x: tuple(round(v, 4) for v in geometric(x)), "round what you print"),
        (lambda x: tuple(np.float32(v) for v in geometric(x)), "float64"),
        (lambda x: (geometric(x)[0], math.exp(min(x))), "second result is"),
        (lambda x: (1 - geometric(x)[0], geometric(x)[1]), "first result is 0.6321"),
        (lambda x: (100 * geometric(x)[0], 100 * geometric(x)[1]), "first result is 36.79"),
        (later, "not with async def"),
        (without_end, "raises RecursionError"),
        (lambda x: " ".join(map(str, geometric(x))), "returns str"),
        (lambda x: set(geometric(x)), "returns set"),
        (lambda x: (10**400, 1), "beyond the range of a float"),
        (lambda x: (1j, 1), "no number but complex"),
        (lambda x, base: geometric(x), "missing 1 required positional argument"),
        (lambda x: dict(zip(("whole", "mean"), geometric(x), strict=True)), "returns dict"),
    ],
    "1.2": [
        (lambda z, ts: [2**h for h in bits(z, ts)], "the perplexity"),
        (lambda z, ts: [round(h, 4) for h in bits(z, ts)], "round what you print"),
        (lambda z, ts: [h * math.log10(2) for h in bits(z, ts)], "the entropy is"),
        (lambda z, ts: [h / math.log2(len(z)) for h in bits(z, ts)], "the entropy is"),
        (lambda z, ts: sum(bits(z, ts)) / max(1, len(ts)), "returns float"),
        (lambda z, ts: bits(z, sorted(ts)), "the entropy is"),
        (lambda z, ts: [h if t else 0.0 for h, t in zip(bits(z, ts), ts, strict=True)], "at T=0"),
        (lambda z, ts: bits(z, [min(t, 100.0) for t in ts]), "1.9999 bits; expected 2"),
        (lambda z, ts: bits(z, [0.2, 1.0, 3.0]), "returns 3 values"),
        (lambda z, ts: [softmax(z, t)[0] for t in ts], "the entropy is"),
        (lambda z, ts: [-math.log2(max(softmax(z, t))) for t in ts], "the entropy is"),
        (lambda z, ts: [bits(z, ts)], "returns 1 values; expected 3"),
        (lambda z, ts: " ".join(f"{h:.2f}" for h in bits(z, ts)), "returns str"),
    ],
    "1.3": [
        (seeded(lambda n, s: hash(f"{s}/{n}")), "seeds with hash()"),
        (seeded(lambda n, s: hash((s, str(n)))), "seeds with hash()"),
        (seeded(lambda n, s: n.__hash__() + s), "seeds with hash()"),
        (seeded(lambda n, s: id(n) + s), "or id()"),
        (seeded(lambda n, s: s * 256 + ord(n[-1])), "seed with the whole name"),
        (seeded(lambda n, s: 1000 * s + len(n)), "seed with the whole name"),
        (seeded(lambda n, s: s + int(n.split()[-1])), "raises ValueError"),
        (seeded(lambda n, s: (s, n)), "raises TypeError"),
        (by_the_shared_module, "that the whole program shares"),
        (by_numpys_shared_state, "that the whole program shares"),
        (lambda o, p, s: seeded(lambda n, _: f"{s}/{o.index(n)}")(o, p, s), "the place in the order"),
        (lambda o, p, s: {n: ["not", "yes"][i % 2] for n, i in keyed(o, p, s).items()}, "expected the index"),
        (lambda o, p, s: {n: float(i) for n, i in keyed(o, p, s).items()}, "expected the index"),
        (lambda o, p, s: list(keyed(o, p, s).items()), "expected a dict"),
        (lambda o, p, s: {i: n for n, i in keyed(o, p, s).items()}, "every name needs one"),
    ],
    "1.4": [
        (lambda c, s, ns: trained(c[:1], s, ns), "; expected ["),
        (lambda c, s, ns: list(itertools.accumulate(trained(c, s, ns))), "; expected ["),
        (lambda c, s, ns: [sum(trained(c, line, [n])[0] for line in c) for n in ns], "; expected ["),
        (lambda c, s, ns: [len(bpe_encode(s, train_bpe(c, n))) for n in ns], "raises ValueError"),
        (lambda c, s, ns: trained([x.lower() for x in c], s.lower(), ns), "; expected ["),
        (lambda c, s, ns: trained(list(dict.fromkeys(c)), s, ns), "counts twice in training"),
        (lambda c, s, ns: [n / len(s.split()) for n in trained(c, s, ns)], "got [5.83333, 3.5, 2]"),
        (lambda c, s, ns: trained(c, s, [max(ns)] * len(ns)), "; expected ["),
        (lambda c, s, ns: [21, 12, 7], "; expected ["),
        (lambda c, s, ns: [len(s) - n for n in ns], "; expected ["),
        (lambda c, s, ns: trained(c, s, [n + 1 for n in ns]), "; expected ["),
        (lambda c, s, ns: trained(c, s, ns)[::-1], "expected|order of merge_counts"),
        (lambda c, s, ns: [math.inf] * len(ns), "got [inf, inf, inf]"),
    ],
    "1.5": [
        (lambda c, w, h: "answer" if c * h >= (1 - c) * w else "hand off", "answering loses"),
        (lambda c, w, h: "answer" if c >= w / (w + h) else "hand off", "raises ZeroDivisionError"),
        (lambda c, w, h: "answer" if c >= 0.5 else "hand off", "one threshold"),
        (lambda c, w, h: "handoff" if c < 0.5 else "answer", "expected 'answer' or 'hand off'"),
        (lambda c, w, h: "answer" if w < h else "hand off", "on average"),
        (lambda c, w, h: ["answer"], "expected 'answer' or 'hand off'"),
        (lambda c, w, h: (1 - c) * w <= h, "expected 'answer' or 'hand off'"),
        (lambda c, w, h: (1 - c) * w - h, "expected 'answer' or 'hand off'"),
        (lambda c, w, h: "answer" if math.log(c) * w >= -h else "hand off", "raises ValueError"),
        (lambda c, w, h: "answer" if (1 - c) * w <= h + 1 else "hand off", "answering loses"),
        (lambda c, w, h: "answer" if round((1 - c) * w) <= round(h) else "hand off", "answering loses"),
        (lambda c, w, h: "answer" if c * c * w >= w - h else "hand off", "answering loses"),
        (lambda c, w: "answer", "takes 2 positional arguments"),
    ],
    "1.6": [
        (lambda p, k: (26 + 0.4 * p, 18.0 * (k - 1)), "the time of an output token in it"),
        (lambda p, k: (8 + 0.4 * p, 8 + 18.0 * (k - 1)), "paid once, before the first token"),
        (lambda p, k: (8 + 0.4 * (p + k), 18.0 * (k - 1)), "the TTFT is"),
        (lambda p, k: tuple(round(x) for x in simulated(p, k)), "round what you print"),
        (lambda p, k: (8 + 0.4 * p, 18.0 * (k - 2)), "19 gaps between them, not 18"),
        (lambda p, k: (8 + 18.0 * p, 0.4 * (k - 1)), "the TTFT is"),
        (lambda p, k: (8.0, 0.4 * p + 18.0 * (k - 1)), "the TTFT is"),
        (lambda p, k: 8 + 0.4 * p, "returns float"),
        (lambda p, k: [simulated(p, k)], "returns 1 values"),
        (lambda p, k: tuple(f"{x} ms" for x in simulated(p, k)), "no number but str"),
        (lambda p, k: (8 + 0.4 * p, math.inf), "the decode time is inf"),
        (lambda p, k: (8 + 0.4 * p, None), "no number but NoneType"),
        (lambda p, k: tuple(x / 60_000 for x in simulated(p, k)), "the TTFT is"),
    ],
    "1.7": [
        (by_rungs(rungs=()), "buys no step of LADDER"),
        (by_rungs(prompt_cap_tokens=0), "prompt_cap_tokens is 0; expected at least 1"),
        (by_rungs(output_cap_tokens=0), "output_cap_tokens is 0"),
        (by_rungs(review_days=0), "review_days is 0"),
        (by_rungs(outcome=""), "outcome: empty"),
        (by_rungs(authority={"ask": "yes", "pay": None}), "raises TypeError"),
        (by_rungs(ttft_deadline_s=math.nan), "raises ValueError"),
        (lambda: (PROPOSAL, PROPOSAL), "in this order"),
        (lambda: (None, None), "found NoneType"),
        (lambda: {"proposal": PROPOSAL, "memo": MEMO}, "returns dict"),
        (lambda: (replace(PROPOSAL, baseline=" "), replace(MEMO, baseline=" ")), "baseline"),
        (lambda: (replace(PROPOSAL, next_action={}), MEMO), "branch value"),
        (lambda: (replace(PROPOSAL, baseline_right={"a": 1, "b": 0}), MEMO), "raises TypeError"),
        (lambda feature: (PROPOSAL, MEMO), "missing 1 required positional argument"),
    ],
}
RIGHT: dict[str, list[Answer]] = {
    "1.1": [
        by_enumeration,
        lambda x: tuple(Decimal(v) for v in geometric(x)),
        lambda x: (np.exp(np.sum(x)), math.e ** np.mean(x)),
    ],
    "1.2": [
        lambda z, ts: tuple(bits(z, [t])[0] for t in ts),
        lambda z, ts: [sum(-p * math.log2(p) for p in softmax(z, t) if p) for t in ts],
        lambda z, ts: [math.log2(math.prod(p**-p for p in softmax(z, t) if p)) for t in ts],
    ],
    "1.3": [
        seeded(lambda n, s: f"{n}|{s}".encode()),
        seeded(lambda n, s: int.from_bytes(f"{s} {n}".encode(), "little")),
        by_inversion,
    ],
    "1.4": [
        lambda c, s, ns: list(map(lambda n: trained(c, s, [n])[0], ns)),  # noqa: C417
        lambda c, s, ns: np.array(trained(list(c), s, ns), dtype=float),
        lambda c, s, ns: trained([" ".join(c)], s, ns),
    ],
    "1.5": [
        lambda c, w, h: "answer" if c >= break_even_confidence(w, h) else "hand off",
        lambda c, w, h: "hand off" if w * (1 - c) > h else "answer",
        lambda c, w, h: "answer" if (1 - Fraction(c)) * Fraction(w) <= Fraction(h) else "hand off",
    ],
    "1.6": [
        lambda p, k: (8 + p * Decimal("0.4"), 18 * (k - 1)),
        lambda p, k: (8 + p / 2.5, sum(18.0 for _ in range(k - 1))),
        lambda p, k: np.diff([0.0, simulated(p, k)[0], sum(simulated(p, k))]),
    ],
    "1.7": [
        by_rungs(rungs=LADDER),
        by_rungs(authority={"ask": next(iter(MEMO.authority.values())), "pay": None, "close": None}),
        lambda: np.array([PROPOSAL, MEMO], dtype=object),
    ],
}
