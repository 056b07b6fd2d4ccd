"""The exercises of chapter 3, but for the one on streams, which is in ``ch03_stream``.

Each test says in its reasons which mistake it found.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from modelcall import ch03
from modelcall.checks.ch03_stream import exercise_3_2
from modelcall.checks.grading import Answer, Mistakes, Wrong, apart, close, exercise, number, places
from modelcall.checks.guard import Refused, call
from modelcall.lab import args

__all__ = ["exercise_3_1", "exercise_3_2", "exercise_3_3", "exercise_3_4", "exercise_3_5"]


@exercise(
    "3.1",
    "Encode slowly",
    "encode_piece",
    [
        "Start from single bytes: `[piece[i : i + 1] for i in range(len(piece))]`.",
        "Each round looks at the unions of neighbours, `parts[i] + parts[i + 1]`, that have a rank.",
        "`min((rank, i))` over those unions is the lowest rank and, among equals, the leftmost.",
    ],
)
def exercise_3_1(answer: Answer, rng: random.Random) -> None:
    base = {bytes([value]): value for value in range(256)}
    cases: list[tuple[bytes, dict[bytes, int]]] = [
        # By rank a, bc, d; from the left ab, c, d; by length the whole.
        (b"abcd", base | {b"bc": 256, b"ab": 257, b"abcd": 258}),
        (b"aaaa", base | {b"aa": 256, b"aaa": 257}),
        (b"", base),
        (b"z", base),
        (b"aaa", base | {b"aa": 256}),
    ]
    for _ in range(60):
        strings = {bytes(rng.choices(b"abc", k=rng.randint(2, 4))) for _ in range(rng.randint(1, 9))}
        shuffled = rng.sample(sorted(strings), len(strings))
        ranks = base | {token: 256 + i for i, token in enumerate(shuffled)}
        cases.append((bytes(rng.choices(b"abc", k=rng.randint(2, 12))), ranks))
    results = []
    for piece, ranks in cases:
        shown = f"encode_piece({piece!r}, ranks of {[t.decode() for t, i in ranks.items() if i > 255]})"
        got = places(answer(piece, ranks), shown, "an id")
        results.append((shown, piece, ranks, got, ch03.merge_bytes(piece, ranks)))
    wrong = next((r for r in results if r[3] != r[4]), None)
    if wrong is None:
        return
    for way, reason in _WAYS.items():
        if all(way(piece, ranks) == got for _, piece, ranks, got, _ in results):
            raise Wrong(f"{wrong[0]} {reason}")
    if all(len(got) == _fewest(piece, ranks) for _, piece, ranks, got, _ in results):
        raise Wrong(f"{wrong[0]} finds the fewest tokens; joins go by rank, whatever comes of it")
    raise Wrong(f"{wrong[0]} returns {wrong[3]}; expected {wrong[4]}")


def _longest_first(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    ids, at = [], 0
    while at < len(piece):
        end = next(e for e in range(len(piece), at, -1) if piece[at:e] in ranks)
        ids.append(ranks[piece[at:end]])
        at = end
    return ids


def _joined(piece: bytes, ranks: Mapping[bytes, int], key: Any, rounds: float = math.inf) -> list[int]:
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while rounds > 0:
        unions = [
            (ranks[parts[i] + parts[i + 1]], i)
            for i in range(len(parts) - 1)
            if parts[i] + parts[i + 1] in ranks
        ]
        if not unions:
            break
        _, i = min(unions, key=key)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
        rounds -= 1
    return [ranks[part] for part in parts]


def _leftmost_first(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    return _joined(piece, ranks, lambda union: union[1])


def _rightmost(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    return _joined(piece, ranks, lambda union: (union[0], -union[1]))


def _one_round(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    return _joined(piece, ranks, lambda union: union, 1)


def _whole_first(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    return [ranks[piece]] if piece in ranks else ch03.merge_bytes(piece, ranks)


def _in_passes(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    parts, joined = [piece[i : i + 1] for i in range(len(piece))], True
    while joined:
        done: list[bytes] = []
        joined = False
        while parts:
            width = 2 if len(parts) > 1 and parts[0] + parts[1] in ranks else 1
            done.append(b"".join(parts[:width]))
            parts, joined = parts[width:], joined or width == 2
        parts = done
    return [ranks[part] for part in parts]


def _fewest(piece: bytes, ranks: Mapping[bytes, int]) -> int:
    best = [0]
    for end in range(1, len(piece) + 1):
        best.append(1 + min(best[at] for at in range(end) if piece[at:end] in ranks))
    return best[-1]


def _highest(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    return _joined(piece, ranks, lambda union: (-union[0], union[1]))


# what a wrong encoder does on every case -> what to say of it
_WAYS: dict[Callable[[bytes, Mapping[bytes, int]], list[int]], str] = {
    _longest_first: "takes the longest token from the left; joins go by rank",
    _leftmost_first: "joins the leftmost pair that has a rank; the lowest rank goes first",
    _rightmost: "joins the rightmost of equal pairs; the leftmost goes first",
    _highest: "joins the highest rank first; the lowest goes first",
    _one_round: "stops after one join; go on until no union has a rank",
    _whole_first: "looks the whole piece up first; that is right only where joins lead to every token",
    _in_passes: "joins what it meets from left to right, pass by pass; the lowest rank goes first",
    lambda piece, ranks: list(piece): "returns the single bytes; nothing is joined",
}


@exercise(
    "3.3",
    "Grade a guess",
    "guess_error",
    [
        "The guess is the number of characters, divided by the rate; it need not be whole.",
        "A relative error compares with what is true: `(guess - true) / true`.",
        "`count(text)` is the true number; do not count words or bytes yourself.",
    ],
)
def exercise_3_3(answer: Answer, rng: random.Random) -> None:
    words = ["build", "失败", "0x7fcc", "é", "{}", "refund", "🚀"]
    cases: list[tuple[str, int, float]] = []
    got: list[float] = []
    calls: list[str] = []
    for _ in range(30):
        text = " ".join(rng.choices(words, k=rng.randint(1, 9))) + rng.choice(["", "\n", "  "])
        true, rate = rng.randint(1, 60), rng.choice([4.0, 2.5, 1.38, 3.0])
        counted: list[object] = []

        def count(given: object, true: int = true, counted: list[object] = counted) -> int:
            counted.append(given)
            return true

        shown = f"guess_error({text!r}, count that says {true}, {rate})"
        value = call(answer.function, answer.name, (text, count, rate))
        if any(given != text for given in counted):
            other = next(given for given in counted if given != text)
            raise Wrong(
                f"{shown} counts something else: count {args.found(other)}; expected the text as it is"
            )
        got.append(number(value, shown))
        cases.append((text, true, rate))
        calls.append(shown)
    wrong = [i for i, case in enumerate(cases) if not close(got[i], _off(len(case[0]), *case[1:]))]
    if not wrong:
        return
    for mistake, why in _GUESSES:
        if all(close(have, mistake(*case)) for have, case in zip(got, cases, strict=True)):
            raise Wrong(f"{calls[wrong[0]]} {why}")
    text, true, rate = cases[wrong[0]]
    raise Wrong(f"{calls[wrong[0]]} returns {apart(got[wrong[0]], _off(len(text), true, rate))}")


def _off(length: float, true: int, rate: float) -> float:
    return (length / rate - true) / true


_ROUNDED = "rounds the guess; the error is wanted of the rule as it is"
_GUESSES: Mistakes = [
    (
        lambda x, n, r: -_off(len(x), n, r),
        "has the sign turned; a guess that is too low has a negative error",
    ),
    (lambda x, n, r: abs(_off(len(x), n, r)), "loses the sign, and it says who pays"),
    (lambda x, n, r: 100 * _off(len(x), n, r), "is in percent; expected a share"),
    (lambda x, n, r: 1 - n * r / len(x), "compares with the guess; compare with the true count"),
    (lambda x, n, r: len(x) / r - n, "is a number of tokens; divide by the true count"),
    (lambda x, n, r: len(x) / r / n, "is the guess as a share of the true count; by how much is it off?"),
    (lambda x, n, r: _off(len(x.encode()), n, r), "counts bytes; the rule is about characters"),
    (lambda x, n, r: _off(len(x.split()), n, r), "counts words; the rule is about characters"),
    (lambda x, n, r: _off(len(x.strip()), n, r), "leaves out the space at the ends; it costs tokens too"),
    (
        lambda x, n, r: _off(len(x) * r * r, n, r),
        "multiplies by the rate; it is characters per token, so divide",
    ),
    (lambda x, n, r: _off(r * math.ceil(len(x) / r), n, r), _ROUNDED),
    (lambda x, n, r: _off(r * round(len(x) / r), n, r), _ROUNDED),
    (lambda x, n, r: _off(r * int(len(x) / r), n, r), _ROUNDED),
]


@exercise(
    "3.4",
    "Keep the newest",
    "keep_newest",
    [
        "Pay for turn 0 first; what is left is for the others.",
        "Walk from the last turn backwards, and stop at the first that does not fit.",
        "A turn that costs exactly what is left still fits.",
    ],
)
def exercise_3_4(answer: Answer, rng: random.Random) -> None:
    cases: list[tuple[list[int], int]] = [
        ([10, 20, 30], 60), ([10, 20, 30], 59), ([10], 10), ([10, 5], 10), ([10, 3, 50, 4], 20),
    ]  # fmt: skip
    for _ in range(60):
        costs = [rng.randint(1, 30) for _ in range(rng.randint(1, 9))]
        cases.append((costs, costs[0] + rng.randint(0, sum(costs))))
    for costs, room in cases:
        shown = answer.shown(costs, room)
        got = places(answer(costs, room), shown, "a position")
        want = _newest(costs, room)
        if got == want:
            continue
        if got == [costs[i] for i in want]:
            raise Wrong(f"{shown} returns {got}, the costs of the turns; expected their positions, {want}")
        if len(set(got)) < len(got):
            raise Wrong(f"{shown} returns {got}; each position once")
        if sorted(got) == want:
            raise Wrong(f"{shown} returns {got}; the positions go in order")
        if 0 not in got:
            raise Wrong(f"{shown} drops turn 0, the rule; it always stays")
        if sum(costs[i] for i in set(got) if 0 <= i < len(costs)) > room:
            raise Wrong(f"{shown} keeps more than fits")
        if got == list(range(len(got))) and len(costs) > 1 and len(got) > 1 and got[-1] != len(costs) - 1:
            raise Wrong(f"{shown} keeps the oldest turns; the newest are wanted")
        if set(got) > set(want):
            raise Wrong(f"{shown} leaves a gap: it goes on behind a turn that does not fit")
        if set(got) < set(want) and got == _newest(costs, room - 1):
            raise Wrong(f"{shown} drops a turn that fits exactly")
        raise Wrong(f"{shown} returns {got}; expected {want}")
    for costs, room in (([10, 1], 9), ([10], 5), ([7, 1, 1], 0)):
        kept = call(answer.function, answer.name, (costs, room), refusal=ValueError)
        if not isinstance(kept, Refused):
            raise Wrong(
                f"{answer.shown(costs, room)} returns {kept!r}; turn 0 does not fit, so raise a ValueError"
            )


def _newest(costs: list[int], room: int) -> list[int]:
    first, left = len(costs), room - costs[0]
    while first > 1 and costs[first - 1] <= left:
        first -= 1
        left -= costs[first]
    return [0, *range(first, len(costs))]


@exercise(
    "3.5",
    "Quarantine",
    "admitted",
    [
        "Look at the finish reason before you look at the text.",
        "Two finish reasons say that the reply ended by itself: `stop` and `tool_calls`.",
        "`json.loads` in a `try`, then `isinstance(call, dict)`; a list or a number is no call.",
    ],
)
def exercise_3_5(answer: Answer, rng: random.Random) -> None:
    call_text = '{"tool": "pay", "arguments": {"amount": 1500}}'
    good = json.loads(call_text)
    urgent = '{"tool": "ship", "arguments": {"urgent": true, "note": null}}'
    cut = call_text[: rng.randint(20, 40)]
    cases: list[tuple[str, str, object, str]] = [
        ("stop", call_text, good, "a whole call is admitted"),
        ("tool_calls", call_text, good, "a call that ended as a tool call is admitted"),
        ("stop", urgent, json.loads(urgent), "true and null are JSON, and so this is a whole call"),
        ("stop", '{"tool": "noop"}', {"tool": "noop"}, "a tool is all that a call needs"),
        ("length", call_text, "quarantine", "it parses, and was cut all the same: the end was not reached"),
        ("content_filter", call_text, "quarantine", "a filter ended it"),
        ("", call_text, "quarantine", "nobody knows how it ended"),
        ("stop", cut, "quarantine", "it is not whole JSON; repair nothing"),
        ("stop", call_text[:-1], "quarantine", "its last brace is missing; repair nothing"),
        ("stop", f"```\n{call_text}\n```", "quarantine", "a fence around it is no JSON; repair nothing"),
        ("stop", f"Sure: {call_text}", "quarantine", "words around it are no JSON; repair nothing"),
        ("stop", "{'tool': 'pay'}", "quarantine", "that is Python, and no JSON"),
        ("stop", "1500", "quarantine", "a number is JSON, and no call"),
        ("stop", '["tool"]', "quarantine", "a list is no call, whatever it holds"),
        ("stop", '"tool"', "quarantine", "a string is no call, whatever it holds"),
        ("stop", '{"amount": 1500}', "quarantine", "it names no tool"),
        ("stop", '{"arguments": {"tool": "pay"}}', "quarantine", "it names no tool at its top"),
        ("stop", "", "quarantine", "an empty text is no JSON"),
        ("stop", "null", "quarantine", "null is no call"),
        ("length", cut, "quarantine", "it was cut, and does not parse"),
    ]
    for why, text, want, reason in cases:
        got = answer(why, text)
        if got != want:
            expected = "the call as a dict" if isinstance(want, dict) else repr(want)
            shown = f"admitted({why!r}, {text!r})"
            raise Wrong(f"{shown} returns {args.found(got)[4:]}; expected {expected}: {reason}")
