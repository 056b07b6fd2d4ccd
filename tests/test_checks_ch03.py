"""The checks of chapter 3 pass what is right and say of what is wrong why it is."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modelcall import ch03
from modelcall.checks import ch03 as check
from modelcall.checks import titles
from modelcall.checks.grading import Exercise

# -- right ----------------------------------------------------------------------------------------------


def slow(piece: bytes, ranks: dict[bytes, int]) -> list[int]:
    return joined(piece, ranks, min)


def joined(
    piece: bytes, ranks: dict[bytes, int], choose: Callable[..., Any], rounds: int = 10**9
) -> list[int]:
    parts = [piece[i : i + 1] for i in range(len(piece))]
    for _ in range(rounds):
        unions = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]  # noqa: B905, RUF007
        if not unions:
            break
        _, i = choose(unions)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ranks[part] for part in parts]


def show(pieces: list[bytes]) -> list[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    return [decoder.decode(piece) for piece in pieces]


def guess_error(text: str, count: Any, rate: float) -> float:
    return len(text) / rate / count(text) - 1


def keep_newest(costs: list[int], room: int) -> list[int]:
    if costs[0] > room:
        raise ValueError
    best = [0]
    for first in range(len(costs) - 1, 0, -1):
        if costs[0] + sum(costs[first:]) <= room:
            best = [0, *range(first, len(costs))]
    return best


def admitted(why: str, text: str) -> Any:
    if why not in {"stop", "tool_calls"}:
        return "quarantine"
    try:
        call = json.loads(text)
        return call if call["tool"] else "quarantine"
    except (ValueError, TypeError, KeyError):
        return "quarantine"


RIGHT: list[tuple[Exercise, Callable[..., Any]]] = [
    (check.exercise_3_1, slow),
    (check.exercise_3_1, ch03.merge_bytes),
    (check.exercise_3_1, lambda piece, ranks: np.array(ch03.merge_bytes(piece, ranks), dtype=int)),
    (check.exercise_3_2, show),
    (check.exercise_3_2, lambda pieces: tuple(show(pieces))),
    (check.exercise_3_3, guess_error),
    (check.exercise_3_4, keep_newest),
    (check.exercise_3_5, admitted),
]


@pytest.mark.parametrize(("exercise", "answer"), RIGHT)
def test_right_answers_pass(exercise: Exercise, answer: Callable[..., Any]) -> None:
    assert exercise.grade(answer).state == "passed", exercise.grade(answer).reason


# -- wrong ----------------------------------------------------------------------------------------------


def longest(piece: bytes, ranks: dict[bytes, int]) -> list[int]:
    ids = []
    while piece:
        n = max(n for n in range(1, len(piece) + 1) if piece[:n] in ranks)
        ids.append(ranks[piece[:n]])
        piece = piece[n:]
    return ids


def leftmost(piece: bytes, ranks: dict[bytes, int]) -> list[int]:
    return joined(piece, ranks, lambda unions: unions[0])


def rightmost(piece: bytes, ranks: dict[bytes, int]) -> list[int]:
    return joined(piece, ranks, lambda unions: min(unions, key=lambda u: (u[0], -u[1])))


def highest(piece: bytes, ranks: dict[bytes, int]) -> list[int]:
    return joined(piece, ranks, lambda unions: max(unions, key=lambda u: (u[0], -u[1])))


def once(piece: bytes, ranks: dict[bytes, int]) -> list[int]:
    return joined(piece, ranks, min, 1)


def gap(costs: list[int], room: int) -> list[int]:
    if costs[0] > room:
        raise ValueError
    kept, left = [], room - costs[0]
    for i in range(len(costs) - 1, 0, -1):
        if costs[i] <= left:
            kept.append(i)
            left -= costs[i]
    return [0, *sorted(kept)]


def oldest(costs: list[int], room: int) -> list[int]:
    if costs[0] > room:
        raise ValueError
    kept, total = [], 0
    for i, cost in enumerate(costs):
        if total + cost > room:
            break
        total += cost
        kept.append(i)
    return kept


def strict(costs: list[int], room: int) -> list[int]:
    if costs[0] > room:
        raise ValueError
    return keep_newest(costs, max(costs[0], room - 1))


def no_rule(costs: list[int], room: int) -> list[int]:
    return keep_newest(costs, room)[1:]


def silent(costs: list[int], room: int) -> list[int]:
    return keep_newest(costs, room) if costs[0] <= room else []


def backwards(costs: list[int], room: int) -> list[int]:
    first, *rest = keep_newest(costs, room)
    return [first, *reversed(rest)]


def each(errors: str) -> Callable[[list[bytes]], list[str]]:
    return lambda pieces: [piece.decode("utf-8", errors) for piece in pieces]


def so_far(pieces: list[bytes]) -> list[str]:
    return [b"".join(pieces[: n + 1]).decode("utf-8", "ignore") for n in range(len(pieces))]


def at_the_end(pieces: list[bytes]) -> list[str]:
    return [*[""] * (len(pieces) - 1), "".join(show(pieces))] if pieces else []


def whole_tokens(pieces: list[bytes]) -> list[str]:
    shown, held = [], b""
    for piece in pieces:
        held += piece
        whole = held.decode("utf-8", "ignore").encode() == held
        shown.append(held.decode() if whole else "")
        held = b"" if whole else held
    return shown


def repairs(why: str, text: str) -> Any:
    return admitted(why, ch03.close_json(text))


def only_json(why: str, text: str) -> Any:
    return admitted("stop", text)


def only_length(why: str, text: str) -> Any:
    return admitted("length" if why == "length" else "stop", text)


def only_stop(why: str, text: str) -> Any:
    return admitted(why, text) if why == "stop" else "quarantine"


def any_json(why: str, text: str) -> Any:
    try:
        return json.loads(text) if why in ("stop", "tool_calls") else "quarantine"
    except ValueError:
        return "quarantine"


def contains(why: str, text: str) -> Any:
    call = any_json(why, text)
    return call if isinstance(call, dict | list | str) and "tool" in call else "quarantine"


def no_tool(why: str, text: str) -> Any:
    call = any_json(why, text)
    return call if isinstance(call, dict) else "quarantine"


WRONG: list[tuple[Exercise, Callable[..., Any], str]] = [
    (check.exercise_3_1, longest, "takes the longest token from the left"),
    (check.exercise_3_1, leftmost, "joins the leftmost pair that has a rank"),
    (check.exercise_3_1, rightmost, "joins the rightmost of equal pairs"),
    (check.exercise_3_1, highest, "joins the highest rank first"),
    (check.exercise_3_1, once, "stops after one join"),
    (check.exercise_3_1, lambda piece, ranks: list(piece), "nothing is joined"),
    (check.exercise_3_1, lambda piece, ranks: 7, "returns int"),
    (check.exercise_3_2, each("replace"), "wait for the rest"),
    (check.exercise_3_2, each("ignore"), "hold them back for the next token"),
    (check.exercise_3_2, so_far, "returns all the text so far"),
    (check.exercise_3_2, at_the_end, "as soon as it is whole"),
    (check.exercise_3_2, whole_tokens, "holds back a whole token"),
    (check.exercise_3_2, lambda pieces: [""] * len(pieces), "expected"),
    (check.exercise_3_3, lambda x, c, r: 1 - len(x) / r / c(x), "has the sign turned"),
    (check.exercise_3_3, lambda x, c, r: abs(len(x) / r / c(x) - 1), "the sign"),
    (check.exercise_3_3, lambda x, c, r: 100 * (len(x) / r / c(x) - 1), "in percent"),
    (check.exercise_3_3, lambda x, c, r: 1 - c(x) / (len(x) / r), "compares with the guess"),
    (check.exercise_3_3, lambda x, c, r: len(x) / r - c(x), "a number of tokens"),
    (check.exercise_3_3, lambda x, c, r: len(x.encode()) / r / c(x) - 1, "counts bytes"),
    (check.exercise_3_3, lambda x, c, r: len(x) * r / c(x) - 1, "multiplies by the rate"),
    (check.exercise_3_3, lambda x, c, r: math.ceil(len(x) / r) / c(x) - 1, "rounds the guess"),
    (check.exercise_3_4, gap, "leaves a gap"),
    (check.exercise_3_4, oldest, "keeps the oldest"),
    (check.exercise_3_4, strict, "drops a turn that fits exactly"),
    (check.exercise_3_4, no_rule, "drops turn 0"),
    (check.exercise_3_4, silent, "so raise a ValueError"),
    (check.exercise_3_4, backwards, "the positions go in order"),
    (check.exercise_3_4, lambda costs, room: list(range(len(costs))), "keeps more than fits"),
    (check.exercise_3_5, repairs, "repair nothing"),
    (check.exercise_3_5, only_json, "the end was not reached"),
    (check.exercise_3_5, only_length, "a filter ended it"),
    (check.exercise_3_5, only_stop, "ended as a tool call is admitted"),
    (check.exercise_3_5, any_json, "a number is JSON, and no call"),
    (check.exercise_3_5, contains, "a list is no call"),
    (check.exercise_3_5, no_tool, "it names no tool"),
    (check.exercise_3_5, lambda why, text: "quarantine", "a whole call is admitted"),
]


@pytest.mark.parametrize(("exercise", "answer", "reason"), WRONG)
def test_wrong_answers_get_their_reason(exercise: Exercise, answer: Callable[..., Any], reason: str) -> None:
    verdict = exercise.grade(answer)
    assert verdict.state == "wrong"
    assert reason in verdict.reason


@pytest.mark.parametrize("exercise", [getattr(check, name) for name in check.__all__])
def test_stubs_are_untouched_and_titles_known(exercise: Exercise) -> None:
    def stub(*_: object) -> None:
        """Return the answer."""
        ...

    assert exercise.grade(stub).state == "untouched"
    assert titles()[exercise.number] == exercise.title
    assert len(exercise.hints) == 3
