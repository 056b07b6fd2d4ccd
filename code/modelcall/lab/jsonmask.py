"""JSON mode: which tokens may come next if the reply is to be a JSON object.

A pushdown automaton reads bytes (RFC 8259: strings are valid UTF-8 without control characters, numbers
have no leading zeros). A token is allowed if the automaton survives all its bytes; the vocabulary stands
in a trie, so that tokens with a common beginning are tried once. An end token is allowed when, and only
when, the object is closed. What was found for a state is kept, because generation comes back to few.

Three limits keep the language finite in every direction a small model likes to run away in: nesting
depth, a run of white space, and surrogate escapes, which are not allowed at all (a lone one is no text).

What is not done here: schemas, packed masks, and speed; the chapter on grammars does those.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["DEPTH_MAX", "WHITESPACE_MAX", "JsonMask", "State", "Vocabulary", "advance", "feed"]

DEPTH_MAX: Final = 32
WHITESPACE_MAX: Final = 32
_STATES_KEPT: Final = 512

_SPACE, _DIGITS, _HEX = b" \t\n\r", b"0123456789", b"0123456789abcdefABCDEF"
_LITERALS: Final = {ord("t"): b"rue", ord("f"): b"alse", ord("n"): b"ull"}


@dataclass(frozen=True, slots=True)
class State:
    """Where the automaton stands.

    Attributes:
        stack: the open containers, outermost first, each ``{`` or ``[``.
        mode: what is expected; see :func:`advance`.
        rest: what the mode still needs: bytes of a literal, ranges of UTF-8 continuation bytes, hex
            digits; the count of white space in the modes between tokens.
        key: whether the string being read is a key.
    """

    stack: str = ""
    mode: str = "start"
    rest: bytes | int = 0
    key: bool = False

    @property
    def done(self) -> bool:
        """Whether the object is closed."""
        return self.mode == "done"


def advance(state: State, byte: int) -> State | None:
    """Return the state after one byte, or None if no JSON object continues so."""
    mode = state.mode
    if mode == "string":
        return _in_string(state, byte)
    if mode in ("utf8", "escape", "hex", "literal"):
        return _inside(state, byte)
    if mode in _NUMBER:
        return _in_number(state, byte)
    if byte in _SPACE:
        run = int(state.rest) + 1
        return State(state.stack, mode, run) if run <= WHITESPACE_MAX and mode != "done" else None
    if mode == "start":
        return _open(state, byte) if byte == ord("{") else None
    if mode in ("key or close", "key"):
        if byte == ord('"'):
            return State(state.stack, "string", key=True)
        return _close(state, byte) if mode == "key or close" else None
    if mode == "colon":
        return State(state.stack, "value") if byte == ord(":") else None
    if mode == "comma or close":
        if byte == ord(","):
            return State(state.stack, "key" if state.stack[-1] == "{" else "value")
        return _close(state, byte)
    if mode in ("value", "value or close"):
        return _value(state, byte)
    return None  # done


def feed(state: State, data: bytes) -> State | None:
    """Return the state after several bytes, or None.

    >>> state = feed(State(), b'{"a": [1, true')
    >>> state.stack, state.mode, feed(state, b"]}").done
    ('{[', 'comma or close', True)
    >>> feed(state, b"}") is None
    True
    """
    current: State | None = state
    for byte in data:
        if current is None:
            return None
        current = advance(current, byte)
    return current


def _open(state: State, byte: int) -> State | None:
    if len(state.stack) == DEPTH_MAX:
        return None
    return State(state.stack + chr(byte), "key or close" if byte == ord("{") else "value or close")


def _close(state: State, byte: int) -> State | None:
    if byte != (ord("}") if state.stack[-1] == "{" else ord("]")):
        return None
    stack = state.stack[:-1]
    return State(stack, "comma or close" if stack else "done")


def _value(state: State, byte: int) -> State | None:
    if byte in b"{[":
        return _open(state, byte)
    if byte == ord('"'):
        return State(state.stack, "string")
    if byte in _LITERALS:
        return State(state.stack, "literal", _LITERALS[byte])
    if byte == ord("-"):
        return State(state.stack, "minus")
    if byte in _DIGITS:
        return State(state.stack, "zero" if byte == ord("0") else "integer")
    return _close(state, byte) if state.mode == "value or close" else None


# For each mode of a number: where digits lead (0 on its own in "minus"), where "." and "e" lead.
_NUMBER: Final[dict[str, tuple[str | None, bool, bool]]] = {
    "minus": ("integer", False, False),
    "zero": (None, True, True),
    "integer": ("integer", True, True),
    "point": ("fraction", False, False),
    "fraction": ("fraction", False, True),
    "e": ("exponent", False, False),
    "sign": ("exponent", False, False),
    "exponent": ("exponent", False, False),
}
_COMPLETE: Final = ("zero", "integer", "fraction", "exponent")


def _in_number(state: State, byte: int) -> State | None:
    digits, point, exponent = _NUMBER[state.mode]
    if byte in _DIGITS:
        if state.mode == "minus" and byte == ord("0"):
            return State(state.stack, "zero")
        return State(state.stack, digits) if digits else None
    if point and byte == ord("."):
        return State(state.stack, "point")
    if exponent and byte in b"eE":
        return State(state.stack, "e")
    if state.mode == "e" and byte in b"+-":
        return State(state.stack, "sign")
    # A number ends where something else begins.
    return advance(State(state.stack, "comma or close"), byte) if state.mode in _COMPLETE else None


def _in_string(state: State, byte: int) -> State | None:
    if byte == ord('"'):
        return State(state.stack, "colon" if state.key else "comma or close")
    if byte == ord("\\"):
        return State(state.stack, "escape", key=state.key)
    if byte < 0x20:
        return None
    if byte < 0x80:
        return state
    ranges = _continuation(byte)
    return State(state.stack, "utf8", ranges, state.key) if ranges else None


def _continuation(byte: int) -> bytes:
    """Return lowest and highest value of each byte to come, or nothing if none starts a character so."""
    plain = b"\x80\xbf"
    if 0xC2 <= byte <= 0xDF:
        return plain
    if 0xE0 <= byte <= 0xEF:
        # No overlong forms, no surrogates.
        return {0xE0: b"\xa0\xbf", 0xED: b"\x80\x9f"}.get(byte, plain) + plain
    if 0xF0 <= byte <= 0xF4:
        return {0xF0: b"\x90\xbf", 0xF4: b"\x80\x8f"}.get(byte, plain) + plain * 2
    return b""


def _inside(state: State, byte: int) -> State | None:
    """Continue a character, an escape or a literal."""
    rest = state.rest if isinstance(state.rest, bytes) else b""
    after = State(state.stack, "string", key=state.key)
    if state.mode == "utf8":
        if not rest[0] <= byte <= rest[1]:
            return None
        return State(state.stack, "utf8", rest[2:], state.key) if len(rest) > 2 else after
    if state.mode == "literal":
        if byte != rest[0]:
            return None
        return (
            State(state.stack, "literal", rest[1:]) if len(rest) > 1 else State(state.stack, "comma or close")
        )
    if state.mode == "escape":
        if byte == ord("u"):
            return State(state.stack, "hex", b"", state.key)
        return after if byte in b'"\\/bfnrt' else None
    # \uD800 to \uDFFF are surrogates: after a "d" only 0 to 7 may follow.
    if byte not in _HEX or (rest in (b"d", b"D") and byte not in b"01234567"):
        return None
    return after if len(rest) == 3 else State(state.stack, "hex", rest + bytes([byte]), state.key)


class _Node:
    """A node of the trie: the tokens that end here, and the bytes that lead on."""

    __slots__ = ("next", "tokens")

    def __init__(self) -> None:
        self.next: dict[int, _Node] = {}
        self.tokens: list[int] = []


class Vocabulary:
    """A vocabulary prepared for masking, and the masks found so far; built once, shared by requests.

    Args:
        pieces: the bytes of each token; tokens without bytes (the special ones) are never part of JSON.
        end_tokens: ids that end a reply.
    """

    def __init__(self, pieces: Sequence[bytes], end_tokens: Collection[int]) -> None:
        self.size = len(pieces)
        self._end = np.array(sorted(end_tokens), np.int64)
        self._root = _Node()
        for token, data in enumerate(pieces):
            if data and token not in end_tokens:
                node = self._root
                for byte in data:
                    node = node.next.setdefault(byte, _Node())
                node.tokens.append(token)
        self._masks: dict[tuple[State, frozenset[bytes]], NDArray[np.bool_]] = {}

    def allowed(self, state: State, heads: frozenset[bytes] = frozenset()) -> NDArray[np.bool_]:
        """Return which tokens may follow, (vocab,); the array is shared and read-only.

        Args:
            state: where the automaton stands.
            heads: byte strings of which one has to come first (what is left of them); none by default.
        """
        found = self._masks.get((state, heads))
        if found is None:
            found = np.zeros(self.size, np.bool_)
            if state.done:
                found[self._end] = True
            else:
                ids: list[int] = []
                self._collect(self._root, state, heads, ids)
                found[ids] = True
            found.flags.writeable = False
            if len(self._masks) >= _STATES_KEPT:
                self._masks.clear()
            self._masks[state, heads] = found
        return found

    def _collect(self, node: _Node, state: State, heads: frozenset[bytes], ids: list[int]) -> None:
        ids += node.tokens
        for byte, child in node.next.items():
            left = heads
            if heads:
                left = frozenset(head[1:] for head in heads if head[0] == byte)
                if not left:
                    continue
                left = left if b"" not in left else frozenset()
            after = advance(state, byte)
            if after is not None:
                self._collect(child, after, left, ids)


class JsonMask:
    """The mask of one reply; see :class:`modelcall.lab.generation.Mask`.

    Args:
        vocabulary: of the model.
        pieces: the bytes of each token.
        heads: if given, the object has to begin with one of these byte strings. None may begin another.

    >>> pieces = [b"{", b"}", b'"a"', b":", b"1", b'{"', b"x", b""]
    >>> mask = JsonMask(Vocabulary(pieces, {7}), pieces)
    >>> np.flatnonzero(mask.allowed()).tolist()
    [0, 5]
    >>> for token in (0, 1): mask.advance(token)
    >>> np.flatnonzero(mask.allowed()).tolist()
    [7]
    """

    def __init__(
        self, vocabulary: Vocabulary, pieces: Sequence[bytes], heads: Collection[bytes] = ()
    ) -> None:
        self._vocabulary, self._pieces = vocabulary, pieces
        self._state = State()
        self._heads = frozenset(heads)

    def allowed(self) -> NDArray[np.bool_]:
        """Return which tokens may come next, (vocab,)."""
        return self._vocabulary.allowed(self._state, self._heads)

    def advance(self, token: int) -> None:
        """Take note of a token; an end token changes nothing.

        Raises:
            ValueError: the token was not allowed.
        """
        data = self._pieces[token]
        if self._heads:
            left = {head[len(data) :] for head in self._heads if head.startswith(data)}
            over = any(data.startswith(head) for head in self._heads)
            if not left and not over:
                raise ValueError(f"JsonMask: token {token} {data!r} does not begin as it must")
            self._heads = frozenset() if over or b"" in left else frozenset(left)
        state = feed(self._state, data)
        if state is None:
            raise ValueError(f"JsonMask: token {token} {data!r} was not allowed")
        self._state = state
