"""The exercises of chapter 4. Each test says in its reasons which mistake it found."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from modelcall.checks.grading import Answer, Wrong, exercise, number, sequence

__all__ = [f"exercise_4_{n}" for n in range(1, 6)]


def _whole(value: object, what: str) -> int:
    got = number(value, what)
    if got != int(got):
        raise Wrong(f"{what} is {got!r}; bytes, tokens and blocks are whole: // and not /")
    return int(got)


def _explain(got: int, want: int, call: str, mistakes: Sequence[tuple[int, str]]) -> None:
    """Raise with the first mistake that gives what was got; nothing if the result is right."""
    if got == want:
        return
    for result, why in mistakes:
        if got == result:
            raise Wrong(f"{call}: {why}")
    raise Wrong(f"{call} is {got:,}; expected {want:,}")


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
    for case in cases:
        layers, heads, kv, size, bits, tokens = case
        call = answer.shown(*case)
        want = 2 * layers * kv * size * bits * tokens // 8
        got = _whole(answer(*case), call)
        mistakes = [
            (want // 2, "half of it: a token keeps a key and a value"),
            (want // kv * heads, "it counts query heads; what is kept belongs to key-value heads"),
            (8 * want, "it counts bits; eight of them are a byte"),
            (want * 8 // bits, "it counts one byte a number, whatever the bits"),
            (2 * want * 8 // bits, "it counts two bytes a number, whatever the bits"),
            (want // layers, "it counts one layer; every layer keeps keys and values of its own"),
            (want // max(tokens, 1), "it counts one token"),
            (want // kv, "it counts one key-value head"),
            (want // 1024, "it is in KiB; expected bytes"),
        ]
        _explain(got, want, call, mistakes)


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
        left = rng.randint(0, 10**11)
        cases.append((weights + workspace + left, weights, workspace, per_token))
    for case in cases:
        capacity, weights, workspace, per_token = case
        call = answer.shown(*case)
        want = max(0, (capacity - weights - workspace) // per_token)
        got = _whole(answer(*case), call)
        if got < 0:
            raise Wrong(f"{call} is {got:,}: where the weights do not fit, no context does; return 0")
        left = capacity - weights - workspace
        mistakes = [
            (max(0, -(-left // per_token)), "it rounds up: the last token does not fit whole"),
            (max(0, (capacity - weights) // per_token), "it leaves the workspace out"),
            (
                max(0, capacity // per_token),
                "it leaves the weights out: the cache shares the device with them",
            ),
            (max(0, (left - 1) // per_token), "it stops one byte early: what fills the device exactly fits"),
            (max(0, left), "it returns bytes; expected tokens"),
            (round(left / per_token), "it rounds to the nearest; expected the largest that fits"),
        ]
        _explain(got, want, call, mistakes)


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
    for case in cases:
        heads, kv, devices = case
        call, result = answer.shown(*case), answer(*case)
        if heads % devices:
            if len(_list(result, call)):
                raise Wrong(f"{call}: {heads} query heads do not divide by {devices}; return an empty list")
            continue
        if not len(_list(result, call)):
            raise Wrong(f"{call}: {heads} query heads do divide by {devices}, so there is a split")
        got = [_whole(each, f"{call}: a count") for each in sequence(result, devices, call)]
        if got != (want := _kept(heads, kv, devices)):
            raise Wrong(f"{call}: {_heads_mistake(got, want, kv, devices)}")


def _list(value: object, call: str) -> list[object]:
    """Return a result as a list of any length."""
    size = len(value) if isinstance(value, list | tuple) or hasattr(value, "tolist") else 0  # type: ignore[arg-type]
    return sequence(value, size, call)


def _kept(heads: int, kv: int, devices: int) -> list[int]:
    share, group = heads // devices, heads // kv
    return [len({q // group for q in range(at, at + share)}) for at in range(0, heads, share)]


def _heads_mistake(got: list[int], want: list[int], kv: int, devices: int) -> str:
    if 0 in got:
        return "a device with no key-value head could not attend; the head that it reads is copied to it"
    if got == [kv] * devices:
        return "every device keeps all heads, so nothing is split"
    if got in ([-(-kv // devices)] * devices, [max(1, kv // devices)] * devices):
        return (
            "it divides the key-value heads; where a border cuts a group, both sides need its head: "
            f"expected {want}"
        )
    if sum(got) == kv and sum(want) > kv:
        return f"its counts add up to the {kv} heads, but a head read on two devices is kept on both"
    return f"got {got}; expected {want}"


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
    for size, group in cases:
        call = answer.shown(size, group)
        codes, scales = -(-size // 2), -(-size // group)
        mistakes = [
            (codes, "the scales are missing: every group has one, of 2 bytes"),
            (size + 2 * scales, "it counts a byte a number; two numbers of 4 bits share one"),
            (codes + scales, "a scale has 2 bytes, not one"),
            (codes + 2 * (size // group), "a group that is started needs a scale too; round up"),
            (size // 2 + 2 * scales, "an odd number of codes needs its last byte; round up"),
            (codes + 2, "it counts one scale for the whole vector; there is one for each group"),
            (8 * (codes + 2 * scales), "it counts bits; expected bytes"),
            (codes + 2 * size, "it counts a scale for every number"),
            (
                -(-scales * group // 2) + 2 * scales,
                "it fills the last group up; only real numbers are stored",
            ),
        ]
        _explain(_whole(answer(size, group), call), codes + 2 * scales, call, mistakes)


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
    for prompt, written, size in cases:
        call = answer.shown(prompt, written, size)
        up: Callable[[int], int] = lambda tokens, size=size: -(-tokens // size)  # type: ignore[misc]  # noqa: E731
        full, rest = divmod(prompt, size)
        want = full + (rest > 0) + sum(up(rest + n) for n in written if n)
        mistakes = [
            (
                up(prompt) + sum(up(prompt + n) for n in written),
                "nothing is shared: forks read the same blocks",
            ),
            (up(prompt) + sum(up(n) for n in written), "a writer goes on in a copy of the half-full block"),
            (
                up(prompt) + sum(up(rest + n) for n in written),
                "a sequence that writes nothing takes no block: it reads those of the prompt",
            ),
            (
                full + sum(up(rest + n) for n in written if n),
                "the prompt stays open, so its half-full block stays in use",
            ),
            (
                up(prompt) + sum(up(rest + n) - (rest > 0) for n in written if n),
                "a write into a block with other readers would change what they read: it is copied first",
            ),
            (up(prompt + sum(written)), "the answers are sequences of their own, not one text"),
            (want * size, "it counts slots for tokens; expected blocks"),
            (prompt + sum(written), "it counts tokens; expected blocks"),
        ]
        _explain(_whole(answer(prompt, list(written), size), call), want, call, mistakes)
