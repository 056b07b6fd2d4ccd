"""The exercises of chapter 2 on what a state became and what a grant allows.

Each test runs an answer on fixed and on drawn cases, compares with a rule of its own or of the chapter, and
before it reports two values that differ, asks whether a known misconception gives just these answers.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Callable
from typing import Any

from modelcall import ch02
from modelcall.checks.grading import Answer, agree, exercise

__all__ = ["exercise_2_4", "exercise_2_5"]

# -- 2.4 -----------------------------------------------------------------------------------------------------


def _as_asked(before: ch02.Stock, after: ch02.Stock, move: tuple[str, str, str, int]) -> bool:
    return after == ch02.Move(*move).applied(before)


def _total(stock: ch02.Stock) -> int:
    return sum(stock.values())


def _changes(before: ch02.Stock, after: ch02.Stock, move: tuple[str, str, str, int]) -> list[int]:
    item, source, target, _ = move
    return [after[item, place] - before[item, place] for place in (source, target)]


def _keeps(before: ch02.Stock, after: ch02.Stock) -> bool:
    return all(
        sum(n for (i, _), n in before.items() if i == item)
        == sum(n for (i, _), n in after.items() if i == item)
        for item, _ in before
    )


_SOUND = [
    (lambda before, after, move: True, "it finds everything in order"),
    (
        lambda before, after, move: before != after,
        "that something changed does not show that the right thing did",
    ),
    (
        lambda before, after, move: _total(before) == _total(after),
        "the grand total is a weak invariant: a valve may have become a gasket",
    ),
    (
        lambda before, after, move: _keeps(before, after),
        "the invariant holds and the task may still be undone: compare with what was asked for",
    ),
    (
        lambda before, after, move: _changes(before, after, move)[1] == move[3],
        "it looks at the target only; nothing has to have left the source",
    ),
    (
        lambda before, after, move: _changes(before, after, move)[0] == -move[3],
        "it looks at the source only; nothing has to have arrived",
    ),
    (
        lambda before, after, move: _changes(before, after, move) == [-move[3], move[3]],
        "source and target are right, and another row may have changed with them: compare all of them",
    ),
    (
        lambda before, after, move: (
            sorted(after.values()) == sorted(ch02.Move(*move).applied(before).values())
        ),
        "the counts are right and may stand in the wrong rows: compare row by row",
    ),
    (
        lambda before, after, move: _as_asked(before, after, (move[0], move[2], move[1], move[3])),
        "source and target are exchanged, or the two states",
    ),
]

_WIDER = [
    (
        lambda before, after, move: True,
        "it looks only at the rows of `before`; the new state may have one more, from nowhere",
    )
]


@exercise(
    "2.4",
    "Catch the plausible fault",
    "sound",
    [
        "What must every row hold afterwards, also those that the move does not name?",
        "Compute the state that was asked for from `before` and `move`.",
        "Copy `before`, take the count from the source, add it to the target, and compare with `after`.",
    ],
)
def exercise_2_4(answer: Answer, rng: random.Random) -> None:
    cases: list[tuple[Any, ...]] = []
    told: list[str] = []
    wider: list[tuple[Any, ...]] = []
    for _ in range(12):
        places = rng.sample(["north", "south", "dock"], 3)
        items = rng.sample(["valve", "gasket", "bolt"], 2)
        before = {(i, p): rng.randint(20, 90) for i in items for p in places}
        move = (items[0], places[0], places[1], rng.randint(1, 20))
        right = ch02.Move(*move).applied(before)
        more, less = dict(right), dict(right)
        more[items[0], places[0]] += move[3]  # came from nowhere
        less[items[0], places[1]] -= move[3]  # went nowhere
        other = ch02.Move(items[1], *move[1:]).applied(before)
        back = ch02.Move(move[0], move[2], move[1], move[3]).applied(before)
        extra = dict(right)
        extra[items[1], places[2]] += 1
        swapped = dict(right)
        swapped[items[1], places[2]] += 1
        swapped[items[1], places[1]] -= 1
        trade = dict(before)
        trade[items[0], places[0]] -= move[3]
        trade[items[1], places[1]] += move[3]
        half = ch02.Move(move[0], move[1], move[2], move[3] + 1).applied(before)
        permuted = dict(right)
        first, second = (items[1], places[0]), (items[1], places[2])
        permuted[first], permuted[second] = right[second], right[first]
        states = {
            "the state that was asked for": right,
            "the state before the move": dict(before),
            "units that came from nowhere": more,
            "units that went nowhere": less,
            "another item moved instead": other,
            "the move made backwards": back,
            "one unit more of another item": extra,
            "a unit of another item moved too": swapped,
            "units of one item that became another": trade,
            "one unit too many moved": half,
            "two rows of another item exchanged": permuted,
        }
        cases += [(before, state, move) for state in states.values()]
        told += states
        wider.append((before, right | {("washer", places[0]): 3}, move))
    agree(answer, cases, _as_asked, _SOUND, bool, told)
    # Only now, as with any other mistake the reason would be that one.
    agree(answer, wider, _as_asked, _WIDER, bool, ["a row that was not there before"] * len(wider))


# -- 2.5 -----------------------------------------------------------------------------------------------------


def _narrower(grant: dict[str, Any], asked: dict[str, Any]) -> bool:
    return all(_parts(grant, asked).values())


def _parts(grant: dict[str, Any], asked: dict[str, Any]) -> dict[str, bool]:
    return {
        "verb": asked["verb"] == grant["verb"],
        "folder": (posixpath.normpath(asked["folder"]) + "/").startswith(grant["folder"] + "/"),
        "limit_bytes": asked["limit_bytes"] <= grant["limit_bytes"],
        "expires_s": asked["expires_s"] <= grant["expires_s"],
    }


def _without(name: str) -> Callable[..., bool]:
    return lambda grant, asked: all(fine for key, fine in _parts(grant, asked).items() if key != name)


def _by_prefix(grant: dict[str, Any], asked: dict[str, Any]) -> bool:
    return _without("folder")(grant, asked) is True and asked["folder"].startswith(grant["folder"])


def _strictly(grant: dict[str, Any], asked: dict[str, Any]) -> bool:
    less = asked["limit_bytes"] < grant["limit_bytes"] and asked["expires_s"] < grant["expires_s"]
    return _narrower(grant, asked) and less


def _same_folder(grant: dict[str, Any], asked: dict[str, Any]) -> bool:
    return _without("folder")(grant, asked) is True and asked["folder"] == grant["folder"]


def _reads_too(grant: dict[str, Any], asked: dict[str, Any]) -> bool:
    return _without("verb")(grant, asked) is True and asked["verb"] in ("read", grant["verb"])


_GRANTS = [
    (lambda grant, asked: True, "it hands on whatever is asked for"),
    (lambda grant, asked: False, "it hands on nothing, not even the grant itself"),
    (lambda grant, asked: _narrower(asked, grant), "the two are exchanged: the new one must be the narrower"),
    (_without("verb"), "the verb is not compared; a right to read must not become one to delete"),
    (_without("folder"), "the folder is not compared"),
    (_without("limit_bytes"), "the limit is not compared"),
    (_without("expires_s"), "the end is not compared; a copy must not outlive its original"),
    (_by_prefix, "'/srv/notes-old' begins with '/srv/notes' and lies beside it: compare whole parts"),
    (_reads_too, "a right to write is no right to read: a verb contains no other"),
    (_strictly, "equal is narrow enough"),
    (_same_folder, "a folder beneath the granted one is narrower still"),
    (
        lambda grant, asked: any(_parts(grant, asked).values()),
        "one field that fits is not enough: all have to",
    ),
]

_CLIMBING = [
    (
        lambda grant, asked: True,
        "the folder is compared as it is written, and '/srv/notes/../keys' leaves '/srv/notes': follow the "
        "'..' first",
    )
]


@exercise(
    "2.5",
    "Hand on less than you have",
    "narrower",
    [
        "A grant that is handed on must not allow anything that the original does not.",
        "Four fields, four comparisons, and all must hold. Equal is allowed.",
        'With `ends = posixpath.normpath(asked["folder"])`, it is `(ends + "/").startswith(grant["folder"] + '
        '"/")`.',
    ],
)
def exercise_2_5(answer: Answer, rng: random.Random) -> None:
    grant: dict[str, Any] = {"verb": "write", "folder": "/srv/notes", "limit_bytes": 200, "expires_s": 60.0}
    folders = ["/srv/notes", "/srv/notes/a", "/srv/notes-old", "/srv", "/srv/other/notes"]
    cases: list[tuple[Any, ...]] = [(grant, dict(grant))]
    for folder in folders:
        for verb in ("write", "read", "delete"):
            for limit in (199, 200, 201):
                end = rng.choice([59.0, 60.0, 61.0])
                cases.append(
                    (grant, {"verb": verb, "folder": folder, "limit_bytes": limit, "expires_s": end})
                )
    for key, value in (("limit_bytes", 10), ("expires_s", 5.0), ("expires_s", 600.0)):
        cases.append((grant, grant | {key: value}))
    cases.append((grant, grant | {"limit_bytes": 199, "expires_s": 59.0}))
    cases.append((grant, grant | {"folder": "/srv/notes/a"}))
    cases.append((grant, grant | {"folder": "/srv/notes-old"}))
    other = {"verb": "read", "folder": "/home/ann", "limit_bytes": 9, "expires_s": 3.5}
    for change in ({}, {"folder": "/home/ann/box"}, {"folder": "/home/anna"}, {"folder": "/srv/notes"}):
        cases.append((other, other | change))
    cases += [(other, grant), (other, other | {"limit_bytes": 10}), (other, other | {"expires_s": 3.6})]
    agree(answer, cases, _narrower, _GRANTS, bool)
    climbing = [(grant, grant | {"folder": f"/srv/notes/{path}"}) for path in ("../keys", "a/../../keys")]
    agree(answer, climbing, _narrower, _CLIMBING, bool)
