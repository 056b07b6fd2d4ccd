"""The exercises of chapter 3. Each test says in its reasons which mistake it found."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from modelcall import ch03
from modelcall.checks.grading import Answer, Wrong, close, exercise, number, sequence
from modelcall.checks.guard import call

__all__ = [f"exercise_3_{n}" for n in range(1, 6)]


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
        value = answer(piece, ranks)
        got = [int(number(i, f"{shown}: an id")) for i in sequence(value, _length(value), shown)]
        results.append((shown, piece, ranks, got, ch03.merge_bytes(piece, ranks)))
    wrong = next((r for r in results if r[3] != r[4]), None)
    if wrong is None:
        return
    for way, reason in _WAYS.items():
        if all(way(piece, ranks) == got for _, piece, ranks, got, _ in results):
            raise Wrong(f"{wrong[0]} {reason}")
    raise Wrong(f"{wrong[0]} returns {wrong[3]}; expected {wrong[4]}")


def _length(value: object) -> int:
    return len(value) if hasattr(value, "__len__") else 0


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


def _highest(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    return _joined(piece, ranks, lambda union: (-union[0], union[1]))


# what a wrong encoder does on every case -> what to say of it
_WAYS: dict[Callable[[bytes, Mapping[bytes, int]], list[int]], str] = {
    _longest_first: "takes the longest token from the left; joins go by rank",
    _leftmost_first: "joins the leftmost pair that has a rank; the lowest rank goes first",
    _rightmost: "joins the rightmost of equal pairs; the leftmost goes first",
    _highest: "joins the highest rank first; the lowest goes first",
    _one_round: "stops after one join; go on until no union has a rank",
    lambda piece, ranks: list(piece): "returns the single bytes; nothing is joined",
}


@exercise(
    "3.2",
    "Find the row",
    "row_range",
    [
        "How many bytes has one row?",
        "A row has `width * value_bytes` bytes, and the rows before it are `token` rows.",
        "The first byte behind a row is the first byte of the next: `(token + 1) * width * value_bytes`.",
    ],
)
def exercise_3_2(answer: Answer, rng: random.Random) -> None:
    cases = [(755, 4096, 2), (0, 192, 2), (711, 4096, 1)]
    cases += [(rng.randrange(200_000), rng.randrange(1, 9000), rng.choice([1, 2, 4])) for _ in range(20)]
    for token, width, size in cases:
        shown = answer.shown(token, width, size)
        pair = sequence(answer(token, width, size), 2, shown)
        start, end = (number(v, f"{shown}: a bound") for v in pair)
        first, row = ch03.row_offset_bytes(token, width, size), width * size
        if (start, end) == (first, first + row):
            continue
        if (start, end) == (first, row):
            raise Wrong(f"{shown}: the second is the length of a row; expected where it ends")
        if (start, end) == (first, first + row - 1):
            raise Wrong(f"{shown}: the second is the last byte of the row; expected the first behind it")
        if start == token * width and size > 1:
            raise Wrong(f"{shown}: this counts values; a value has {size} bytes")
        if start == first - row:
            raise Wrong(f"{shown}: ids count from 0, so the row of id 0 starts at byte 0")
        raise Wrong(f"{shown} returns {(start, end)}; expected {(first, first + row)}")


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
    for i in range(30):
        text = " ".join(rng.choices(words, k=rng.randint(1, 9)))
        true, rate = rng.randint(1, 60), rng.choice([4.0, 2.5, 1.38, 3.0])

        def count(_: str, true: int = true) -> int:
            return true

        shown = f"guess_error({text!r}, count that says {true}, {rate})"
        value = call(answer.function, answer.name, (text, count, rate))
        got = number(value, shown)
        guess = len(text) / rate
        want = (guess - true) / true
        if close(got, want) or abs(got - want) < 1e-12:
            continue
        if close(got, -want):
            raise Wrong(f"{shown}: the sign is turned; a guess that is too low has a negative error")
        if close(got, abs(want)):
            raise Wrong(f"{shown}: the sign is lost, and it says who pays")
        if close(got, 100 * want):
            raise Wrong(f"{shown} is in percent; expected a share")
        if close(got, (guess - true) / guess):
            raise Wrong(f"{shown} compares with the guess; compare with the true count")
        if close(got, guess - true):
            raise Wrong(f"{shown} is a number of tokens; divide by the true count")
        if len(text.encode()) != len(text) and close(got, (len(text.encode()) / rate - true) / true):
            raise Wrong(f"{shown} counts bytes; the rule is about characters")
        if close(got, (len(text) * rate - true) / true):
            raise Wrong(f"{shown} multiplies by the rate; it is characters per token, so divide")
        rounded = (math.ceil(guess), round(guess), int(guess))
        if any(close(got, (whole - true) / true) for whole in rounded):
            raise Wrong(f"{shown} rounds the guess; the error is wanted of the rule as it is")
        raise Wrong(f"{shown} returns {got:.4g}; expected {want:.4g} (case {i + 1})")


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
        value = answer(costs, room)
        got = [int(number(i, f"{shown}: a position")) for i in sequence(value, _length(value), shown)]
        want = _newest(costs, room)
        if got == want:
            continue
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
    try:
        kept = answer.function([10, 1], 9)
    except NotImplementedError:
        raise
    except ValueError:
        return
    except Exception as error:
        raise Wrong(f"keep_newest([10, 1], 9) raises {type(error).__name__}; expected a ValueError") from None
    raise Wrong(f"keep_newest([10, 1], 9) returns {kept!r}; turn 0 does not fit, so raise a ValueError")


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
    cut = call_text[: rng.randint(20, 40)]
    cases: list[tuple[str, str, object, str]] = [
        ("stop", call_text, good, "a whole call is admitted"),
        ("tool_calls", call_text, good, "a call that ended as a tool call is admitted"),
        ("length", call_text, "quarantine", "it parses, and was cut all the same: the end was not reached"),
        ("content_filter", call_text, "quarantine", "a filter ended it"),
        ("", call_text, "quarantine", "nobody knows how it ended"),
        ("stop", cut, "quarantine", "it is not whole JSON; repair nothing"),
        ("stop", "1500", "quarantine", "a number is JSON, and no call"),
        ("stop", '["tool"]', "quarantine", "a list is no call, whatever it holds"),
        ("stop", '"tool"', "quarantine", "a string is no call, whatever it holds"),
        ("stop", '{"amount": 1500}', "quarantine", "it names no tool"),
        ("stop", "", "quarantine", "an empty text is no JSON"),
        ("stop", "null", "quarantine", "null is no call"),
        ("length", cut, "quarantine", "it was cut, and does not parse"),
    ]
    for why, text, want, reason in cases:
        got = answer(why, text)
        if got != want:
            raise Wrong(f"{answer.shown(why, text)} returns {got!r}: {reason}")
