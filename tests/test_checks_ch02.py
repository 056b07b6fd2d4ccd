"""The checkers of chapter 2 against answers that readers give: each wrong one gets its reason."""

from __future__ import annotations

import os.path
import posixpath
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pytest

from modelcall.ch02 import PCIE, link_share, pcie_bytes_per_s, token_bytes, tokens_per_s
from modelcall.checks import ch02 as check
from modelcall.checks.grading import Exercise

EXERCISES = {name: value for name, value in vars(check).items() if isinstance(value, Exercise)}
Answers = list[Callable[..., Any]]
Wrongs = list[tuple[Callable[..., Any], str]]


# -- 2.1 -----------------------------------------------------------------------------------------------------


def by_normpath(folder: str, path: str) -> bool:
    return posixpath.normpath(posixpath.join(folder, path)).startswith(folder + "/")


def by_commonpath(folder: str, path: str) -> bool:
    whole = os.path.normpath(os.path.join(folder, path))  # noqa: PTH118
    return whole != folder and os.path.commonpath([whole, folder]) == folder


def by_stack(folder: str, path: str) -> bool:
    whole = path if path.startswith("/") else f"{folder}/{path}"
    parts: list[str] = []
    for part in whole.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    top = folder.strip("/").split("/")
    return len(parts) > len(top) and parts[: len(top)] == top


def by_pathlib(folder: str, path: str) -> Any:
    whole = PurePosixPath(posixpath.normpath(PurePosixPath(folder) / path))
    return np.bool_(PurePosixPath(folder) in whole.parents)


RIGHT_1: Answers = [by_normpath, by_commonpath, by_stack, by_pathlib]
WRONG_1: Wrongs = [
    (lambda f, p: True, "every path through"),
    (lambda f, p: False, "no path through"),
    (lambda f, p: posixpath.join(f, p).startswith(f + "/"), "not normalised"),
    (lambda f, p: posixpath.normpath(posixpath.join(f, p)).startswith(f), "a prefix is not a parent"),
    (lambda f, p: ".." not in p and not p.startswith("/"), "'..rc' leads nowhere"),
    (lambda f, p: ".." not in p.split("/") and p[:1] != "/", "'a/../b' stays inside"),
    (lambda f, p: by_normpath(f, p.lstrip("/")), "absolute path replaces the folder"),
    (lambda f, p: by_normpath(f, p) or posixpath.normpath(posixpath.join(f, p)) == f, "not beneath itself"),
    (lambda f, p: "yes", "expected True or False"),
    (lambda f, p: 1, "expected True or False"),
    (print, "prints a result and returns None"),
]

# -- 2.2 -----------------------------------------------------------------------------------------------------

TABLE = {
    "stop": "COMPLETED",
    "tool_calls": "COMPLETED",
    "length": "TRUNCATED",
    "content_filter": "REFUSED",
}


def by_table(code: int | None, finish: str | None) -> str:
    return TABLE.get(finish or "", "TRANSPORT_FAILURE") if code == 200 else "TRANSPORT_FAILURE"


def by_ifs(code: int | None, finish: str | None) -> str:
    if code is None or code != 200:
        return "TRANSPORT_FAILURE"
    if finish in ("stop", "tool_calls"):
        return "COMPLETED"
    if finish == "length":
        return "TRUNCATED"
    return "REFUSED" if finish == "content_filter" else "TRANSPORT_FAILURE"


def by_match(code: int | None, finish: str | None) -> str:
    match code, finish:
        case 200, "stop" | "tool_calls":
            return "COMPLETED"
        case 200, "length":
            return "TRUNCATED"
        case 200, "content_filter":
            return "REFUSED"
    return "TRANSPORT_FAILURE"


RIGHT_2: Answers = [by_table, by_ifs, by_match]
WRONG_2: Wrongs = [
    (lambda c, f: "COMPLETED" if c == 200 else "TRANSPORT_FAILURE", "delivery fallacy"),
    (lambda c, f: TABLE.get(f or "", "TRANSPORT_FAILURE"), "HTTP status is not looked at"),
    (lambda c, f: TABLE.get(f or "", "COMPLETED") if c == 200 else "TRANSPORT_FAILURE", "nobody knows"),
    (lambda c, f: TABLE.get(f or "", "TRUNCATED") if c == 200 else "TRANSPORT_FAILURE", "no TRUNCATED"),
    (lambda c, f: by_table(c, f).replace("TRUNCATED", "COMPLETED"), "'length' is TRUNCATED"),
    (lambda c, f: by_table(c, f).replace("REFUSED", "COMPLETED"), "'content_filter' is REFUSED"),
    (lambda c, f: "TRANSPORT_FAILURE" if f == "tool_calls" else by_table(c, f), "orderly end too"),
    (lambda c, f: by_table(200 if c in (200, 201) else c, f), "expected 'TRANSPORT_FAILURE'"),
    (lambda c, f: by_table(c, f.lower() if f else f), "'STOP' is none of the four"),
    (lambda c, f: by_table(c, f).lower(), "expected"),
    (lambda c, f: (by_table(c, f),), "expected the name of a status"),
    (lambda c, f: TABLE[f], "raises KeyError"),
]

# -- 2.3 -----------------------------------------------------------------------------------------------------


def by_the_book(vocabulary: int, batch: int, rate: float, generation: int) -> float:
    stream = token_bytes(vocabulary) * tokens_per_s(batch, rate)
    return 100 * link_share(stream, pcie_bytes_per_s(generation))


def by_hand(vocabulary: int, batch: int, rate: float, generation: int) -> float:
    transfers, coded = PCIE[generation]
    return vocabulary * 16 * batch * rate / (16 * transfers * coded * 1e9) * 100


def by_numpy(*case: Any) -> Any:
    return np.float64(by_the_book(*case))


def uncoded(vocabulary: int, batch: int, rate: float, generation: int) -> float:
    return vocabulary * 16 * batch * rate / (16 * PCIE[generation][0] * 1e9) * 100


def coded_alike(vocabulary: int, batch: int, rate: float, generation: int) -> float:
    return uncoded(vocabulary, batch, rate, generation) / 128 * 130


def of_ids(vocabulary: int, batch: int, rate: float, generation: int) -> float:
    return 100 * 4 * batch * rate / pcie_bytes_per_s(generation)


RIGHT_3: Answers = [by_the_book, by_hand, by_numpy]
WRONG_3: Wrongs = [
    (lambda *c: by_the_book(*c) / 100, "expected percent"),
    (lambda *c: by_the_book(*c) / 2, "two bytes, not one"),
    (lambda *c: by_the_book(*c) * 2, "not four"),
    (lambda *c: by_the_book(*c) / 8, "eight of them make a byte"),
    (lambda *c: by_the_book(*c) * 8, "one factor of eight"),
    (lambda *c: by_the_book(*c) * 16, "this is one lane"),
    (lambda *c: by_the_book(*c) * 1000**3 / 1024**3, "GiB"),
    (uncoded, "line code is missing"),
    (coded_alike, "generation 6 is coded otherwise"),
    (of_ids, "traffic of the ids"),
    (lambda v, b, r, g: by_the_book(v, 64, r, g), "expected"),
    (lambda *c: f"{by_the_book(*c):.1f} %", "no number but str"),
    (lambda *c: float("nan"), "NaN"),
]

# -- 2.4 -----------------------------------------------------------------------------------------------------

Stock = dict[tuple[str, str], int]
MoveT = tuple[str, str, str, int]


def by_copy(before: Stock, after: Stock, move: MoveT) -> bool:
    item, source, target, count = move
    wanted = dict(before)
    wanted[item, source] -= count
    wanted[item, target] += count
    return after == wanted


def by_changes(before: Stock, after: Stock, move: MoveT) -> bool:
    rows = before.keys() | after.keys()
    changes = {key: after.get(key, 0) - before.get(key, 0) for key in rows}
    return {key: change for key, change in changes.items() if change} == {
        (move[0], move[1]): -move[3],
        (move[0], move[2]): move[3],
    }


def by_rows(before: Stock, after: Stock, move: MoveT) -> bool:
    item, source, target, count = move
    for (what, where), had in before.items():
        change = {source: -count, target: count}.get(where, 0) if what == item else 0
        if after[what, where] != had + change:
            return False
    return before.keys() == after.keys()


def in_place(before: Stock, after: Stock, move: MoveT) -> bool:
    before[move[0], move[1]] -= move[3]
    before[move[0], move[2]] += move[3]
    return before == after


def moved(before: Stock, after: Stock, move: MoveT) -> tuple[int, int]:
    item, source, target, _ = move
    return after[item, source] - before[item, source], after[item, target] - before[item, target]


def items_kept(before: Stock, after: Stock, move: MoveT) -> bool:
    def totals(stock: Stock) -> dict[str, int]:
        return {item: sum(n for (i, _), n in stock.items() if i == item) for item, _ in stock}

    return totals(before) == totals(after)


RIGHT_4: Answers = [by_copy, by_changes, by_rows]
WRONG_4: Wrongs = [
    (lambda b, a, m: True, "everything in order"),
    (lambda b, a, m: a != b, "does not show that the right thing"),
    (lambda b, a, m: sum(a.values()) == sum(b.values()), "grand total"),
    (items_kept, "the task may still be undone"),
    (lambda b, a, m: moved(b, a, m)[1] == m[3], "target only"),
    (lambda b, a, m: moved(b, a, m)[0] == -m[3], "source only"),
    (lambda b, a, m: moved(b, a, m) == (-m[3], m[3]), "another row may have changed"),
    (lambda b, a, m: by_copy(b, a, (m[0], m[2], m[1], m[3])), "exchanged"),
    (lambda b, a, m: items_kept(b, a, m) and a != b, "expected False"),
    (in_place, "changes its argument"),
    (lambda b, a, m: a - b, "raises TypeError"),
    (lambda b, a, m: [a == b], "expected True or False"),
]

# -- 2.5 -----------------------------------------------------------------------------------------------------

Grant = dict[str, Any]


def by_fields(grant: Grant, asked: Grant) -> bool:
    inside = (posixpath.normpath(asked["folder"]) + "/").startswith(grant["folder"] + "/")
    small = asked["limit_bytes"] <= grant["limit_bytes"] and asked["expires_s"] <= grant["expires_s"]
    return inside and small and asked["verb"] == grant["verb"]


def by_parents(grant: Grant, asked: Grant) -> bool:
    folder, top = PurePosixPath(posixpath.normpath(asked["folder"])), PurePosixPath(grant["folder"])
    if asked["verb"] != grant["verb"] or not folder.is_relative_to(top):
        return False
    return not any(asked[name] > grant[name] for name in ("limit_bytes", "expires_s"))


def without(name: str) -> Callable[[Grant, Grant], bool]:
    return lambda grant, asked: by_fields(grant, asked | {name: grant[name]})


RIGHT_5: Answers = [by_fields, by_parents]
WRONG_5: Wrongs = [
    (lambda g, a: True, "whatever is asked for"),
    (lambda g, a: False, "not even the grant itself"),
    (lambda g, a: by_fields(a, g), "exchanged"),
    (without("verb"), "verb is not compared"),
    (without("folder"), "folder is not compared"),
    (without("limit_bytes"), "limit is not compared"),
    (without("expires_s"), "must not outlive"),
    (lambda g, a: without("folder")(g, a) and a["folder"].startswith(g["folder"]), "compare whole parts"),
    (lambda g, a: by_fields(g, a) and a["folder"] == g["folder"], "narrower still"),
    (
        lambda g, a: (
            by_fields(g, a) and a["limit_bytes"] < g["limit_bytes"] and a["expires_s"] < g["expires_s"]
        ),
        "equal is narrow enough",
    ),
    (lambda g, a: a["verb"] == g["verb"] or a["folder"] == g["folder"], "expected False"),
    (lambda g, a: g == a, "expected True"),
]

RIGHT = {"2.1": RIGHT_1, "2.2": RIGHT_2, "2.3": RIGHT_3, "2.4": RIGHT_4, "2.5": RIGHT_5}
WRONG = {"2.1": WRONG_1, "2.2": WRONG_2, "2.3": WRONG_3, "2.4": WRONG_4, "2.5": WRONG_5}
BY_NUMBER = {exercise.number: exercise for exercise in EXERCISES.values()}


def test_there_are_five_exercises_each_with_three_hints() -> None:
    assert sorted(BY_NUMBER) == sorted(RIGHT) == sorted(WRONG)
    assert set(EXERCISES) == {f"exercise_2_{i}" for i in range(1, 6)}
    assert {len(exercise.hints) for exercise in EXERCISES.values()} == {3}


@pytest.mark.parametrize("number", sorted(RIGHT))
@pytest.mark.parametrize("at", range(4))
def test_a_right_answer_in_any_style_passes(number: str, at: int) -> None:
    for answer in RIGHT[number][at : at + 1]:
        verdict = BY_NUMBER[number].grade(answer)
        assert (verdict.state, verdict.reason) == ("passed", ""), answer


@pytest.mark.parametrize(("number", "at"), [(n, i) for n in sorted(WRONG) for i in range(len(WRONG[n]))])
def test_a_wrong_answer_is_told_why(number: str, at: int) -> None:
    answer, reason = WRONG[number][at]
    verdict = BY_NUMBER[number].grade(answer)
    assert verdict.state == "wrong" and reason in verdict.reason, verdict


@pytest.mark.parametrize("number", sorted(RIGHT))
def test_an_untouched_stub_is_neither(number: str) -> None:
    def stub(*_: object) -> None:
        """Return something."""
        ...

    assert BY_NUMBER[number].grade(stub).state == "untouched"
    assert BY_NUMBER[number].grade(None).state == "untouched"
    assert BY_NUMBER[number].grade(7).state == "wrong"
