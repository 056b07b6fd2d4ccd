"""The exercises of chapter 4. Each test says in its reasons which mistake it found."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from modelcall.checks.grading import Answer, Wrong, exercise, sequence, whole

__all__ = [f"exercise_4_{n}" for n in range(1, 6)]


Mistakes = Sequence[tuple[Callable[..., int], str]]


def _judge(answer: Answer, cases: Sequence[Any], right: Callable[..., int], mistakes: Mistakes) -> None:
    """Raise with the mistake that explains every result; nothing if all results are right.

    A mistake must fit all cases: two of them may agree on one, and only the whole tells which it is.
    """
    got = [_whole(answer(*case), answer.shown(*case)) for case in cases]
    wrong = [i for i, case in enumerate(cases) if got[i] != right(*case)]
    if not wrong:
        return
    first = wrong[0]
    call, want = answer.shown(*cases[first]), right(*cases[first])
    for mistake, why in mistakes:
        if got == [mistake(*case) for case in cases]:
            raise Wrong(f"{call} is {got[first]:,} and not {want:,}: {why}")
    raise Wrong(f"{call} is {got[first]:,}; expected {want:,}")


def _whole(value: object, what: str) -> int:
    return whole(value, what, "bytes, tokens and blocks are whole: // and not /")


def _up(a: int, b: int) -> int:
    return -(-a // b)


@exercise(
    "4.1",
    "Bytes from a shape",
    "cache_bytes",
    [
        "Which vectors does a token leave behind in one layer, and for how many heads?",
        "A key and a value, for each key-value head, in each layer. Query heads keep nothing.",
        "`2 * layers * kv_heads * head_dim * tokens * bits // 8`",
    ],
)
def exercise_4_1(answer: Answer, rng: random.Random) -> None:
    cases = [(80, 64, 8, 128, 16, 1), (36, 64, 8, 64, 8, 1000), (4, 6, 2, 32, 16, 0)]
    for _ in range(20):
        kv = rng.choice([1, 2, 4, 8])
        layers, size, tokens = rng.randint(1, 130), 16 * rng.randint(1, 16), rng.randint(1, 200_000)
        cases.append((layers, kv * rng.randint(2, 9), kv, size, rng.choice([4, 8, 16, 32]), tokens))
    _judge(
        answer,
        cases,
        lambda n, q, kv, d, b, t: n * kv * d * b * t // 4,
        [
            (
                lambda n, q, kv, d, b, t: n * kv * d * b * t // 8,
                "half of it: a token keeps a key and a value",
            ),
            (
                lambda n, q, kv, d, b, t: n * q * d * b * t // 4,
                "query heads keep nothing; count key-value heads",
            ),
            (lambda n, q, kv, d, b, t: 2 * n * kv * d * b * t, "these are bits; eight of them are a byte"),
            (lambda n, q, kv, d, b, t: 2 * n * kv * d * t, "one byte a number, whatever the bits"),
            (lambda n, q, kv, d, b, t: 4 * n * kv * d * t, "two bytes a number, whatever the bits"),
            (lambda n, q, kv, d, b, t: kv * d * b * t // 4, "every layer keeps keys and values of its own"),
            (lambda n, q, kv, d, b, t: n * kv * d * b // 4, "this is one token; a sequence has more"),
            (lambda n, q, kv, d, b, t: n * d * b * t // 4, "this is one key-value head; there may be more"),
            (lambda n, q, kv, d, b, t: n * kv * d * b * t // 4 // 1024, "these are KiB; expected bytes"),
            (
                lambda n, q, kv, d, b, t: 2 * n * kv * d * t * (b // 8),
                "of 4 bits, bits // 8 is 0; multiply first and divide last",
            ),
            (lambda n, q, kv, d, b, t: 2 * n * kv * d * t * _up(b, 8), "numbers of 4 bits share a byte"),
            (
                lambda n, q, kv, d, b, t: n * (q // kv) * d * b * t // 4,
                "query_heads // kv_heads is how many query heads share a key; keys there are kv_heads",
            ),
            (
                lambda n, q, kv, d, b, t: n * (q + 2 * kv) * d * b * t // 8,
                "queries are needed once and not kept; keys and values are",
            ),
        ],
    )


@exercise(
    "4.2",
    "How long a context?",
    "context_limit",
    [
        "What is left of the device before the first token?",
        "Divide what is left by the bytes of a token, and round down.",
        "`max(0, (capacity - weights - workspace) // per_token)`",
    ],
)
def exercise_4_2(answer: Answer, rng: random.Random) -> None:
    cases = [(80_000, 70_000, 4_000, 300), (80_000, 70_000, 10_000, 300), (80_000, 81_000, 0, 300)]
    cases += [(100, 30, 10, 20), (100, 100, 0, 7), (10**11, 10**11 + 10**10, 10**9, 1000)]
    for _ in range(40):
        per_token = rng.randint(1, 400_000)
        weights, workspace = rng.randint(0, 10**11), rng.randint(1, 10**10)
        cases.append((weights + workspace + rng.randint(0, 10**11), weights, workspace, per_token))
    _judge(
        answer,
        cases,
        lambda c, w, s, t: max(0, (c - w - s) // t),
        [
            (lambda c, w, s, t: (c - w - s) // t, "where the weights do not fit, no context does; return 0"),
            (lambda c, w, s, t: max(0, _up(c - w - s, t)), "round down: the last token does not fit whole"),
            (lambda c, w, s, t: max(0, round((c - w - s) / t)), "round down, not to the nearest"),
            (lambda c, w, s, t: max(0, (c - w) // t), "the workspace takes room too"),
            (lambda c, w, s, t: max(0, (c - s) // t), "the weights take room too"),
            (lambda c, w, s, t: c // t, "weights and workspace take room too"),
            (lambda c, w, s, t: max(0, (c - w - s - 1) // t), "what fills the device exactly does fit"),
            (lambda c, w, s, t: max(0, c - w - s), "these are bytes; expected tokens"),
            (lambda c, w, s, t: abs(c - w - s) // t, "what is missing is no room; return 0"),
            (
                lambda c, w, s, t: int((c - w - s) / t),
                "where the weights do not fit, no context does; return 0",
            ),
            (lambda c, w, s, t: max(1, (c - w - s) // t), "where not one token fits, the limit is 0"),
            (lambda c, w, s, t: max(0, (c - w + s) // t), "the workspace takes room and gives none"),
        ],
    )


@exercise(
    "4.3",
    "Whose heads?",
    "heads_kept",
    [
        "Deal the query heads out in order. Which key-value heads do those of one device read?",
        "Query head `q` reads key-value head `q // group`, with `group = query_heads // kv_heads`.",
        "For each device, count the different `q // group` over its own query heads.",
    ],
)
def exercise_4_3(answer: Answer, rng: random.Random) -> None:
    cases = [(64, 8, 8), (64, 8, 1), (48, 8, 3), (64, 8, 3), (8, 1, 4), (6, 2, 3), (64, 8, 16), (32, 32, 4)]
    for _ in range(60):
        kv = rng.randint(1, 12)
        cases.append((kv * rng.randint(1, 12), kv, rng.randint(1, 12)))
    results: list[list[int]] = []
    for heads, kv, devices in cases:
        call, result = answer.shown(heads, kv, devices), answer(heads, kv, devices)
        size = len(result) if isinstance(result, list | tuple) or hasattr(result, "tolist") else devices
        got = [_whole(each, f"{call}: a count") for each in sequence(result, size, call)]
        if heads % devices and got:
            raise Wrong(f"{call}: {heads} query heads do not divide by {devices}; return an empty list")
        if heads % devices == 0 and not got:
            raise Wrong(f"{call}: {heads} query heads do divide by {devices}, so there is a split")
        sequence(result, 0 if heads % devices else devices, call)
        results.append(got)
    split = [(case, got) for case, got in zip(cases, results, strict=True) if case[0] % case[2] == 0]
    for (heads, kv, devices), got in split:
        if got != (want := _kept(heads, kv, devices)):
            call = answer.shown(heads, kv, devices)
            raise Wrong(f"{call} is {got}; expected {want}: {_heads_mistake(split)}")


def _kept(heads: int, kv: int, devices: int) -> list[int]:
    share, group = heads // devices, heads // kv
    return [len({q // group for q in range(at, at + share)}) for at in range(0, heads, share)]


def _heads_mistake(split: list[tuple[tuple[int, int, int], list[int]]]) -> str:
    border = "where the border of a device cuts a group, both sides need its key-value head"
    reasons: list[tuple[Callable[[int, int], list[int]], str]] = [
        (lambda kv, n: [kv // n] * n, "a device without a key-value head could not attend; it gets a copy"),
        (
            lambda kv, n: [kv // n + (i < kv % n) for i in range(n)],
            "a head read on two devices is kept on both",
        ),
        (lambda kv, n: [_up(kv, n)] * n, border),
        (lambda kv, n: [max(1, kv // n)] * n, border),
        (lambda kv, n: [kv] * n, "every device keeps all heads, so nothing is split"),
    ]
    for mistake, why in reasons:
        if all(got == mistake(kv, devices) for (_, kv, devices), got in split):
            return why
    return "count the different key-value heads that the device's query heads read"


@exercise(
    "4.4",
    "Four bits, with their scales",
    "packed_bytes",
    [
        "How many bytes do the numbers take, and how many scales are there?",
        "Two numbers share a byte; a group that is started needs its scale. Round both up.",
        "`(size + 1) // 2 + 2 * -(-size // group)`",
    ],
)
def exercise_4_4(answer: Answer, rng: random.Random) -> None:
    cases = [(128, 32), (64, 32), (576, 32), (128, 128), (33, 32), (1, 32), (100, 64), (31, 32), (7, 4)]
    cases += [(rng.randint(1, 2000), rng.choice([4, 16, 32, 64, 128])) for _ in range(40)]
    _judge(
        answer,
        cases,
        lambda s, g: _up(s, 2) + 2 * _up(s, g),
        [
            (lambda s, g: _up(s, 2), "the scales are missing: every group has one, of 2 bytes"),
            (lambda s, g: s + 2 * _up(s, g), "a byte a number; two numbers of 4 bits share one"),
            (lambda s, g: _up(s, 2) + _up(s, g), "a scale has 2 bytes, not one"),
            (lambda s, g: _up(s, 2) + 2 * (s // g), "a group that is started needs a scale too; round up"),
            (lambda s, g: s // 2 + 2 * _up(s, g), "an odd number of codes needs its last byte; round up"),
            (lambda s, g: _up(s, 2) + 2, "one scale for the whole vector; there is one for each group"),
            (lambda s, g: 8 * (_up(s, 2) + 2 * _up(s, g)), "these are bits; expected bytes"),
            (lambda s, g: _up(s, 2) + 4 * _up(s, g), "a scale has 2 bytes, not four"),
            (
                lambda s, g: s // 2 + 2 * (s // g),
                "round up, twice: a code alone needs a byte, a group its scale",
            ),
            (
                lambda s, g: _up(s, 2) + 2 * (s // g + 1),
                "where the groups come out even, none is started anew",
            ),
            (lambda s, g: _up(s, 2) + 2 * s, "a scale for every number; there is one for each group"),
            (
                lambda s, g: _up(_up(s, g) * g, 2) + 2 * _up(s, g),
                "the last group is filled up; only numbers that are there are stored",
            ),
        ],
    )


@exercise(
    "4.5",
    "Blocks after a fork",
    "blocks_in_use",
    [
        "Which blocks of the prompt can everybody read for ever, and which one cannot?",
        "Whoever writes takes a copy of the half-full block first, and goes on in it.",
        "With `full, rest = divmod(prompt, block_tokens)`, a writer of `n` tokens has blocks for `rest + n`.",
    ],
)
def exercise_4_5(answer: Answer, rng: random.Random) -> None:
    cases: list[tuple[int, list[int], int]] = [(21, [1, 4], 8), (16, [1, 1, 1], 16), (100, [40] * 30, 16)]
    cases += [(0, [5, 0], 4), (20, [], 16), (20, [0, 0], 16), (32, [0, 16], 16), (7, [1], 8), (3, [2, 3], 1)]
    for _ in range(40):
        written = [rng.choice([0, 1, rng.randint(1, 60)]) for _ in range(rng.randint(1, 6))]
        cases.append((rng.randint(0, 100), written, rng.choice([1, 4, 8, 16])))

    def right(p: int, w: list[int], b: int) -> int:
        return _up(p, b) + sum(_up(p % b + n, b) for n in w if n)

    _judge(
        answer,
        cases,
        right,
        [
            (
                lambda p, w, b: _up(p, b) + sum(_up(p + n, b) for n in w),
                "nothing is shared: forks read the blocks of the prompt",
            ),
            (
                lambda p, w, b: _up(p, b) + sum(_up(n, b) for n in w),
                "a writer goes on in a copy of the half-full block, not in an empty one",
            ),
            (
                lambda p, w, b: _up(p, b) + sum(_up(p % b + n, b) for n in w),
                "a sequence that writes nothing takes no block: it reads those of the prompt",
            ),
            (
                lambda p, w, b: p // b + sum(_up(p % b + n, b) for n in w if n),
                "the prompt stays open, so its half-full block stays in use",
            ),
            (
                lambda p, w, b: _up(p, b) + sum(_up(p % b + n, b) - (p % b > 0) for n in w if n),
                "a write into a block with other readers would change what they read: it is copied first",
            ),
            (
                lambda p, w, b: sum(_up(p % b + n, b) for n in w if n),
                "the prompt stays open, so its blocks stay in use",
            ),
            (
                lambda p, w, b: right(p, w, b) - (p % b > 0 and any(w)),
                "no writer goes on in the original: the prompt stays open and reads it",
            ),
            (
                lambda p, w, b: _up(p, b) + sum(_up((p % b or b) + n, b) for n in w if n),
                "a full block is not written any more, so nobody copies it",
            ),
            (
                lambda p, w, b: _up(p, b) + sum(_up(p % b + n, b) + 1 for n in w if n),
                "the copy is counted already, among the blocks for rest + n tokens",
            ),
            (lambda p, w, b: _up(p + sum(w), b), "the answers are sequences of their own, not one text"),
            (lambda p, w, b: right(p, w, b) * b, "these are slots for tokens; expected blocks"),
            (lambda p, w, b: p + sum(w), "these are tokens; expected blocks"),
        ],
    )
