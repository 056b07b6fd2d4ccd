"""More answers to the exercises of chapter 3: what engineers write in haste, in doubt, or in another style.

Each wrong one names words of the reason that it must get; each right one must pass. The commonest mistakes
are in ``test_checks_ch03``.
"""

from __future__ import annotations

import ast
import codecs
import contextlib
import itertools
import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.test_checks_ch03 import admitted, guess_error, keep_newest, show

from modelcall.ch03 import merge_bytes

Answer = Callable[..., Any]
Ranks = dict[bytes, int]


def in_passes(piece: bytes, ranks: Ranks) -> list[int]:
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while True:
        done: list[bytes] = []
        at = 0
        while at < len(parts):
            width = 2 if b"".join(parts[at : at + 2]) in ranks and at + 1 < len(parts) else 1
            done.append(b"".join(parts[at : at + width]))
            at += width
        if done == parts:
            return [ranks[part] for part in parts]
        parts = done


def longest_from_the_right(piece: bytes, ranks: Ranks) -> list[int]:
    ids: list[int] = []
    while piece:
        at = min(at for at in range(len(piece)) if piece[at:] in ranks)
        ids.insert(0, ranks[piece[at:]])
        piece = piece[:at]
    return ids


def fewest(piece: bytes, ranks: Ranks) -> list[int]:
    best: list[list[int]] = [[]]
    for end in range(1, len(piece) + 1):
        ways = [[*best[at], ranks[piece[at:end]]] for at in range(end) if piece[at:end] in ranks]
        best.append(min(ways, key=len))
    return best[-1]


def everywhere_at_once(piece: bytes, ranks: Ranks) -> list[int]:
    """As libraries do it: all places of the lowest union in one round. Of a learned table it is the same."""
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while unions := [a + b for a, b in itertools.pairwise(parts) if a + b in ranks]:
        lowest = min(unions, key=lambda union: ranks[union])
        done: list[bytes] = []
        while parts:
            width = 2 if b"".join(parts[:2]) == lowest and len(parts) > 1 else 1
            done.append(b"".join(parts[:width]))
            parts = parts[width:]
        parts = done
    return [ranks[part] for part in parts]


def by_recursion(piece: bytes, ranks: Ranks, parts: Any = None) -> list[int]:
    parts = [bytes([byte]) for byte in piece] if parts is None else parts
    found = [(ranks.get(a + b, math.inf), i) for i, (a, b) in enumerate(itertools.pairwise(parts))]
    rank, i = min(found, default=(math.inf, 0))
    if rank == math.inf:
        return [ranks[part] for part in parts]
    return by_recursion(piece, ranks, [*parts[:i], parts[i] + parts[i + 1], *parts[i + 2 :]])


def flushed(pieces: list[bytes], errors: str) -> list[str]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    return [decoder.decode(piece, final=n == len(pieces)) for n, piece in enumerate(pieces, 1)]


def by_trying(pieces: list[bytes]) -> list[str]:
    shown, held = [], b""
    for piece in pieces:
        held += piece
        for cut in range(len(held), -1, -1):
            with contextlib.suppress(UnicodeDecodeError):
                shown.append(held[:cut].decode())
                held = held[cut:]
                break
    return shown


def by_difference(pieces: list[bytes]) -> list[str]:
    joined = itertools.accumulate(pieces, initial=b"")
    so_far = [data.decode("utf-8", "ignore") for data in joined]
    return [text[len(before) :] for before, text in itertools.pairwise(so_far)]


def by_leading_byte(pieces: list[bytes]) -> tuple[str, ...]:
    """Count the bytes that each character still needs."""
    shown, held, lacking = [], bytearray(), 0
    for piece in pieces:
        text = ""
        for byte in piece:
            lacking = lacking - 1 if lacking else (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
            held.append(byte)
            if not lacking:
                text += held.decode()
                held.clear()
        shown.append(text)
    return tuple(shown)


def by_accumulating(costs: list[int], room: int) -> list[int]:
    if costs[0] > room:
        raise ValueError(f"room: expected at least {costs[0]}, got {room}")
    sums = itertools.accumulate(reversed(costs[1:]), initial=costs[0])
    kept = sum(total <= room for total in sums) - 1
    return [0, *range(len(costs) - kept, len(costs))]


def dropping(costs: list[int], room: int) -> list[int]:
    kept = list(range(len(costs)))
    while sum(costs[i] for i in kept) > room:
        if len(kept) == 1:
            raise ValueError("turn 0 does not fit")
        kept.pop(1)
    return kept


def dropping_for_ever(costs: list[int], room: int) -> list[int]:
    kept = list(range(len(costs)))
    while sum(costs[i] for i in kept) > room:
        kept = kept[:1] + kept[2:]
    return kept


def shouting(costs: list[int], room: int) -> list[int]:
    print("keeping")
    return keep_newest(costs, room)


def refused(costs: list[int], room: int, how: Callable[[], Any]) -> Any:
    return keep_newest(costs, room) if costs[0] <= room else how()


def parsed(why: str, text: str, read: Callable[[str], Any] = json.loads) -> Any:
    with contextlib.suppress(Exception):
        call = read(text)
        if why in ("stop", "tool_calls") and isinstance(call, dict) and "tool" in call:
            return call
    return "quarantine"


WRONG: dict[str, list[tuple[Answer, str]]] = {
    "3.1": [
        (lambda p, r: [i + 0.5 for i in merge_bytes(p, r)], "97.5; expected a whole number"),
        (in_passes, "pass by pass"),
        (lambda p, r: [r[p]] if p in r else merge_bytes(p, r), "looks the whole piece up first"),
        (longest_from_the_right, "expected [97, 256, 100]"),
        (fewest, "finds the fewest tokens"),
        (lambda p, r: merge_bytes(p, r)[::-1], "returns [100, 256, 97]"),
        (lambda p, r: [bytes([byte]) for byte in p], "no number but bytes"),
        (lambda p, r: merge_bytes(p, r) or None, "returns None"),
        (lambda p, r: bytes(i % 256 for i in merge_bytes(p, r)), "returns bytes"),
        (lambda p, r: (i for i in merge_bytes(p, r)), "a generator"),
        (lambda p, r: [str(i) for i in merge_bytes(p, r)], "no number but str"),
        (lambda p, r: [r[p]], "raises KeyError|expected [97, 256, 100]"),
        (lambda p, r: r.clear() or [], "changes its argument"),  # type: ignore[func-returns-value]
        (lambda p, r: [math.inf], "inf; expected a whole number"),
    ],
    "3.2": [
        (lambda p: flushed(p, "replace"), "a character that never became whole is not shown"),
        (lambda p: flushed(p, "backslashreplace"), "expected"),
        (lambda p: flushed(p, "strict"), "raises UnicodeDecodeError"),
        (lambda p: [piece.decode() for piece in p], "raises UnicodeDecodeError"),
        (lambda p: [str(piece) for piece in p], "expected ['caf', '', 'é!']"),
        (lambda p: [piece.decode("latin-1") for piece in p], "takes each byte for a character"),
        (lambda p: "".join(show(p)), "returns str"),
        (lambda p: [text for text in show(p) if text], "returns 2 values; expected 3"),
        (lambda p: [*show(p), ""], "returns 4 values; expected 3"),
        (lambda p: (text for text in show(p)), "a generator"),
        (lambda p: [text.encode() for text in show(p)], "expected strings"),
        (lambda p: [text or None for text in show(p)], "a text is None; expected strings"),
        (lambda p: [text.strip() for text in show(p)], "expected"),
        (lambda p: [char for text in show(p) for char in text][: len(p)], "expected"),
        (lambda p: print(*show(p)), "prints a result and returns None"),
        (lambda p: show([p.pop() for _ in list(p)][::-1]), "changes its argument"),
        (lambda p, more: show(p), "raises TypeError"),
    ],
    "3.3": [
        (lambda x, c, r: len(x) / r / c(x.split()) - 1, "counts something else: count got ["),
        (lambda x, c, r: len(x) / r / c(x.encode()) - 1, "counts something else: count got b'"),
        (lambda x, c, r: len(x) / r / c("") - 1, "counts something else: count got ''"),
        (lambda x, c, r: len(x) / r / c(x.strip()) - 1, "counts something else"),
        (lambda x, c, r: len(x.strip()) / r / c(x) - 1, "leaves out the space at the ends"),
        (lambda x, c, r: round(guess_error(x, c, r), 2), "round what you print"),
        (lambda x, c, r: len(x) / r / c(x), "as a share of the true count"),
        (lambda x, c, r: len(x) / c(x) - r, "expected"),
        (lambda x, c, r: len(x.split()) / r / c(x) - 1, "counts words"),
        (lambda x, c, r: max(1.0, len(x) / r) / c(x) - 1, "expected"),
        (lambda x, c, r: c / r, "raises TypeError"),
        (lambda x, c, r: f"{guess_error(x, c, r):.0%}", "no number but str"),
        (lambda x, c, r: (guess_error(x, c, r), c(x)), "no number but tuple"),
    ],
    "3.4": [
        (lambda c, r: [c[i] for i in keep_newest(c, r)], "the costs of the turns"),
        (lambda c, r: [0, *keep_newest(c, r)], "each position once"),
        (lambda c, r: [i + 0.4 for i in keep_newest(c, r)], "0.4; expected a whole number"),
        (lambda c, r: [i for i in range(len(c)) if sum(c[i:]) <= r], "drops turn 0"),
        (lambda c, r: len(keep_newest(c, r)), "returns int (3); expected a list"),
        (lambda c, r: [0, *(i - len(c) for i in keep_newest(c, r)[1:])], "returns [0, -2, -1]"),
        (
            lambda c, r: refused(c, r, lambda: [0] if len(c) == 1 else keep_newest(c, r)),
            "([10], 5) returns [0]",
        ),
        (lambda c, r: refused(c, r, lambda: {}[0]), "raises KeyError: 0; expected a ValueError"),
        (lambda c, r: refused(c, r, lambda: None), "returns None; expected a ValueError"),
        (lambda c, r: refused(c, r, lambda: ValueError("no")), "returns ValueError('no')"),
        (dropping_for_ever, "did not finish"),
        (lambda c, r: keep_newest(c, r) if sum(c) <= r else keep_newest([], r), "raises IndexError"),
        (lambda c, r: set(keep_newest(c, r)), "returns set"),
        (lambda c, r: refused(c, r, lambda: 0) and keep_newest([0, *c[1:]], r), "keeps more than fits"),
        (lambda c, r: [0], "expected [0, 1, 2]"),
    ],
    "3.5": [
        (lambda w, x: parsed(w, x, ast.literal_eval), "true and null are JSON"),
        (lambda w, x: parsed(w, x, eval), "true and null are JSON"),
        (lambda w, x: x if parsed(w, x) != "quarantine" else "quarantine", "expected the call as a dict"),
        (lambda w, x: parsed(w, x) if parsed(w, x) != "quarantine" else None, "returns None"),
        (
            lambda w, x: "Quarantine" if parsed(w, x) == "quarantine" else parsed(w, x),
            "expected 'quarantine'",
        ),
        (lambda w, x: parsed(w, x) != "quarantine" and parsed(w, x), "returns False; expected 'quarantine'"),
        (lambda w, x: parsed("stop" if w != "length" else w, x), "a filter ended it"),
        (lambda w, x: parsed(w, (re.findall(r"\{.*\}", x, re.S) or [""])[0]), "a fence around it"),
        (lambda w, x: parsed(w, x.strip("`")), "a fence around it"),
        (lambda w, x: parsed(w, x.removeprefix("Sure: ")), "words around it"),
        (lambda w, x: parsed(w, x.replace("'", '"')), "that is Python"),
        (lambda w, x: parsed(w, x + "}" * (x.count("{") - x.count("}"))), "repair nothing"),
        (
            lambda w, x: json.loads(x) if w in ("stop", "tool_calls") else "quarantine",
            "raises JSONDecodeError",
        ),
        (
            lambda w, x: (
                parsed(w, x) if '"tool"' not in x else parsed(w, x, lambda t: {"tool": 1, **json.loads(t)})
            ),
            "expected the call as a dict|it names no tool at its top",
        ),
        (lambda w, x: {"tool": "pay", "arguments": {"amount": 1500}}, "expected"),
    ],
}
RIGHT: dict[str, list[Answer]] = {
    "3.1": [everywhere_at_once, by_recursion, lambda p, r: tuple(np.int32(i) for i in merge_bytes(p, r))],
    "3.2": [
        by_trying,
        by_difference,
        by_leading_byte,
    ],
    "3.3": [
        lambda x, c, r: len(x) / (r * c(x)) - 1,
        lambda x, c, r: (len(list(x)) - r * c(x)) / (r * c(x)),
        lambda x, c, r: np.float64(len(x)) / r / c(text) - 1 if (text := x) else 0,
    ],
    "3.4": [by_accumulating, dropping, shouting],
    "3.5": [
        parsed,
        admitted,
        lambda w, x: parsed(w, x, lambda text: json.JSONDecoder().decode(text)),
    ],
}
