"""More answers to the exercises of chapter 4: what engineers write in haste, in doubt, or in another style.

Each wrong one names words of the reason that it must get; each right one must pass. The commonest mistakes
are in ``test_checks_ch04``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from tests.test_checks_ch04 import blocks, cache, heads, limit, packed, up

Answer = Callable[..., Any]


def dealt(q: int, kv: int, n: int, reads: Callable[[int], int], order: Callable[[int], range]) -> list[int]:
    return [] if q % n else [len({reads(head) for head in order(device)}) for device in range(n)]


def by_groups(q: int, kv: int, n: int) -> list[int]:
    """For each key-value head, count it on every device that its group touches."""
    if q % n:
        return []
    kept = [0] * n
    for head in range(kv):
        first, last = head * q // kv, (head + 1) * q // kv - 1
        for device in range(first * n // q, last * n // q + 1):
            kept[device] += 1
    return kept


def by_writing(prompt: int, written: list[int], size: int) -> int:
    """Token by token: a block is a list, and a writer's first write copies the last one of the prompt."""
    full, rest = divmod(prompt, size)
    made = full + bool(rest)
    for count in written:
        left = rest or size
        for token in range(count):
            made += (token == 0 and rest > 0) or left == size
            left = left % size + 1
    return made


WRONG: dict[str, list[tuple[Answer, str]]] = {
    "4.1": [
        (lambda n, q, kv, d, b, t: 2 * n * kv * d * t * (b // 8), "multiply first and divide last"),
        (lambda n, q, kv, d, b, t: 2 * n * kv * d * t * up(b, 8), "numbers of 4 bits share a byte"),
        (lambda n, q, kv, d, b, t: n * (q // kv) * d * b * t // 4, "keys there are kv_heads"),
        (lambda n, q, kv, d, b, t: n * (q + 2 * kv) * d * b * t // 8, "queries are needed once"),
        (lambda n, q, kv, d, b, t: n * (q + kv) * d * b * t // 8, "; expected "),
        (lambda n, q, kv, d, b, t: cache(n, q, kv, d, b, t) * (t + 1) // 2, "; expected "),
        (lambda n, q, kv, d, b, t: cache(n, q, kv, d, b, max(1, t)), "; expected 0"),
        (lambda n, q, kv, d, b, t: cache(n, q, 8, d, b, t), "; expected "),
        (lambda *x: math.inf, "is inf; bytes, tokens and blocks are whole"),
        (lambda *x: cache(*x) // 10**6, "; expected "),
        (lambda *x: f"{cache(*x)} bytes", "no number but str"),
        (lambda *x: [cache(*x)], "no number but list"),
        (lambda n, kv, d, b, t: 2 * n * kv * d * b * t // 8, "raises TypeError"),
    ],
    "4.2": [
        (lambda c, w, s, t: abs(c - w - s) // t, "what is missing is no room"),
        (lambda c, w, s, t: int((c - w - s) / t), "no context does; return 0"),
        (lambda c, w, s, t: max(1, (c - w - s) // t), "where not one token fits"),
        (lambda c, w, s, t: max(0, (c - w + s) // t), "takes room and gives none"),
        (lambda c, w, s, t: limit(c, w, s, t) or None, "returns None"),
        (lambda c, w, s, t: (c - w - s) // t if c >= w + s else -1, "is -1; expected 0"),
        (lambda c, w, s, t: max(0, (c - w) // (t + s)), "; expected "),
        (lambda c, w, s, t: max(0, (9 * c // 10 - w - s) // t), "; expected "),
        (lambda c, w, s, t: limit(c, w, s, t) // 16 * 16, "is 16; expected 20"),
        (lambda c, w, s, t: max(0, c // t - w // t - s // t), "; expected "),
        (lambda c, w, s, t: math.inf, "is inf"),
        (lambda c, w, s, t: range(limit(c, w, s, t)), "no number but range"),
        (lambda c, w, s, t: limit(c, w, s, t) // (c >= w + s), "raises ZeroDivisionError"),
    ],
    "4.3": [
        (lambda q, kv, n: [] if q % n else [round(kv / n)] * n, "; expected [3, 4, 3]"),
        (lambda q, kv, n: [] if q % n else [min(kv, q // n)] * n, "count the different"),
        (lambda q, kv, n: [] if q % n else [q // n] * n, "count the different"),
        (
            lambda q, kv, n: dealt(q, kv, n, lambda h: h // (q // kv), lambda i: range(i, q, n)),
            "count the diff",
        ),
        (
            lambda q, kv, n: dealt(q, kv, n, lambda h: h % kv, lambda i: range(i * q // n, (i + 1) * q // n)),
            "count the different",
        ),
        (lambda q, kv, n: sorted(heads(q, kv, n)), "; expected [3, 4, 3]"),
        (lambda q, kv, n: [max(heads(q, kv, n))] * n if heads(q, kv, n) else [], "; expected [3, 4, 3]"),
        (
            lambda q, kv, n: (
                []
                if q % n
                else [(i + 1) * (q // n) // (q // kv) - i * (q // n) // (q // kv) for i in range(n)]
            ),
            "; expected ",
        ),
        (lambda q, kv, n: [] if q % n else [kv / n] * n, "are whole"),
        (lambda q, kv, n: "" if q % n else heads(q, kv, n), "returns str"),
        (lambda q, kv, n: dict(enumerate(heads(q, kv, n))), "returns dict"),
        (lambda q, kv, n: (h for h in heads(q, kv, n)), "a generator"),
        (lambda q, kv, n: [heads(q, kv, n)], "no number but list|do not divide"),
        (lambda q, kv, n: heads(q, kv, n) if q % n == 0 else 1 / 0, "raises ZeroDivisionError"),
    ],
    "4.4": [
        (lambda s, g: s // 2 + 2 * (s // g), "round up, twice"),
        (lambda s, g: up(s, 2) + 2 * (s // g + 1), "none is started anew"),
        (lambda s, g: up(s, 2) + 4 * up(s, g), "2 bytes, not four"),
        (lambda s, g: up(s, 2) + 3 * up(s, g), "; expected "),
        (lambda s, g: up(s, 2) + 2 * max(1, s // g), "; expected "),
        (lambda s, g: round(s / 2) + 2 * up(s, g), "; expected "),
        (lambda s, g: (4 * s + 16 * up(s, g)) / 8, "are whole"),
        (lambda s, g: int(s / 2 + 2 * up(s, g)), "needs its last byte"),
        (lambda s, g: 2 * s, "; expected "),
        (lambda s, g: up(s, 2) + 2 * g, "; expected "),
        (lambda s, g: (up(s, 2), 2 * up(s, g)), "no number but tuple"),
        (lambda s, g: packed(g, s), "; expected "),
        (lambda s: up(s, 2), "raises TypeError"),
    ],
    "4.5": [
        (lambda p, w, b: sum(up(p % b + n, b) for n in w if n), "so its blocks stay in use"),
        (lambda p, w, b: blocks(p, w, b) - (p % b > 0 and any(w)), "goes on in the original"),
        (lambda p, w, b: up(p, b) + sum(up((p % b or b) + n, b) for n in w if n), "nobody copies it"),
        (lambda p, w, b: up(p, b) + sum(up(p % b + n, b) + 1 for n in w if n), "the copy is counted already"),
        (lambda p, w, b: up(p, b) * (len(w) + 1) + sum(up(n, b) for n in w), "; expected "),
        (lambda p, w, b: up(p, b) + max([up(p % b + n, b) for n in w], default=0), "; expected "),
        (lambda p, w, b: up(p, b) + len(w), "; expected "),
        (lambda p, w, b: up(p, b) + up(sum(w), b), "; expected "),
        (lambda p, w, b: up(p, b) + sum(up(p % b + n, b) for n in set(w) if n), "; expected "),
        (lambda p, w, b: (p + sum(p % b + n for n in w)) / b, "are whole"),
        (lambda p, w, b: math.inf, "is inf"),
        (lambda p, w, b: blocks(p, w, b) if p else None, "returns None"),
        (lambda p, w, b: blocks(p, w[:1], b), "; expected "),
    ],
}
RIGHT: dict[str, list[Answer]] = {
    "4.1": [
        lambda n, q, kv, d, b, t: sum(d * b * t // 8 for _ in range(n * kv) for _ in "kv"),
        lambda n, q, kv, d, b, t: Decimal(b) / 8 * 2 * n * kv * d * t,
        lambda *x: float(cache(*x)),
    ],
    "4.2": [
        lambda c, w, s, t: len(range(t, c - w - s + 1, t)),
        lambda c, w, s, t: np.maximum(0, np.floor_divide(c - w - s, t)),
        lambda c, w, s, t: 0 if c < w + s else (c - w - s - (c - w - s) % t) // t,
    ],
    "4.3": [
        by_groups,
        lambda q, kv, n: [*heads(q, kv, n)][::-1],  # it reads the same from both ends
        lambda q, kv, n: np.array(heads(q, kv, n), dtype=float),
    ],
    "4.4": [
        lambda s, g: sum(up(min(g, s - at), 2) + 2 for at in range(0, s, g)),
        lambda s, g: len(range(0, s, 2)) + 2 * len(range(0, s, g)),
        lambda s, g: s // 2 + s % 2 + 2 * (s // g) + 2 * (s % g > 0),
    ],
    "4.5": [
        by_writing,
        lambda p, w, b: math.ceil(p / b) + sum(math.ceil((p % b + n) / b) for n in w if n),
        lambda p, w, b: sum([up(p, b)] + [up(p % b + n, b) if n else 0 for n in w]),
    ],
}
