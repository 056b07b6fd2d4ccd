"""The exercise of chapter 3 on streams of bytes, re-exported by ``ch03``."""

from __future__ import annotations

import codecs
import random
from collections.abc import Callable
from itertools import pairwise

from modelcall.checks.grading import Answer, Wrong, exercise, sequence
from modelcall.lab import args

__all__ = ["exercise_3_2"]


@exercise(
    "3.2",
    "Show whole characters",
    "show",
    [
        "Join the new bytes to those held back, and decode what is complete.",
        "A character is whole or it is not: hold back at most its first three bytes, never a whole token.",
        "`held.decode('utf-8', 'ignore')` leaves out an unfinished end; `text.encode()` is what was taken.",
    ],
)
def exercise_3_2(answer: Answer, rng: random.Random) -> None:
    cases = [[b"caf", b"\xc3", b"\xa9!"], [b"a\xf0\x9f", b"\x99\x82b"], [b"ok", b"\xe4\xb8"], [b"plain"], []]
    for _ in range(40):
        data = "".join(rng.choices("ae é\u2014\u4e2d\U0001f642", k=rng.randint(1, 8))).encode()
        cuts = sorted(rng.sample(range(1, len(data) + 1), rng.randint(0, min(6, len(data)))))
        ends = [*cuts, rng.randint(cuts[-1] if cuts else 1, len(data))]
        cases.append([data[a:b] for a, b in pairwise([0, *ends])])
    results = []
    for pieces in cases:
        shown = answer.shown(pieces)
        got = sequence(answer(pieces), len(pieces), shown)
        if odd := [each for each in got if not isinstance(each, str)]:
            raise Wrong(f"{shown}: a text is {args.found(odd[0])[4:]}; expected strings")
        results.append((shown, pieces, got, _completed(pieces)))
    wrong = next((r for r in results if r[2] != r[3]), None)
    if wrong is None:
        return
    for way, reason in _SHOWN.items():
        if all(way(pieces) == got for _, pieces, got, _ in results):
            raise Wrong(f"{wrong[0]} {reason}")
    raise Wrong(f"{wrong[0]} returns {wrong[2]}; expected {wrong[3]}")


def _completed(pieces: list[bytes], errors: str = "strict", last: bool = False) -> list[str]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    return [decoder.decode(piece, last and at == len(pieces)) for at, piece in enumerate(pieces, 1)]


def _whole_tokens(pieces: list[bytes]) -> list[str]:
    held, shown = b"", []
    for piece in pieces:
        held += piece
        try:
            text, held = held.decode(), b""
        except UnicodeDecodeError:
            text = ""
        shown.append(text)
    return shown


# what a wrong stream shows in every case -> what to say of it
_SHOWN: dict[Callable[[list[bytes]], list[str]], str] = {
    lambda pieces: [piece.decode("utf-8", "replace") for piece in pieces]: (
        "shows U+FFFD where a character is split; wait for the rest of it"
    ),
    lambda pieces: [piece.decode("utf-8", "ignore") for piece in pieces]: (
        "drops the bytes of split characters; hold them back for the next token"
    ),
    lambda pieces: [
        piece.decode("latin-1") for piece in pieces
    ]: "takes each byte for a character; it is UTF-8",
    lambda pieces: [b"".join(pieces[:n]).decode("utf-8", "ignore") for n in range(1, len(pieces) + 1)]: (
        "returns all the text so far; expected what is new"
    ),
    lambda pieces: [""] * (len(pieces) - 1) + ["".join(_completed(pieces))][: len(pieces)]: (
        "shows all of it at the end; show each character as soon as it is whole"
    ),
    lambda pieces: _completed(pieces, "replace", last=True): (
        "shows U+FFFD at the end; a character that never became whole is not shown"
    ),
    _whole_tokens: "holds back a whole token; show the characters in it that are whole",
}
