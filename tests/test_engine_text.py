"""Text that is shown no sooner than it is safe, JSON masks, tool calls."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall.lab.jsonmask import DEPTH_MAX, WHITESPACE_MAX, JsonMask, State, Vocabulary, advance, feed
from modelcall.lab.server.toolcalls import Part, ToolStream, call_head
from modelcall.lab.textstream import Piece, TextStream

FAST = settings(deadline=None, derandomize=True, max_examples=200)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut bytes at places, modulo their length."""
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


@FAST
@given(st.text(max_size=40), st.lists(st.integers(0, 200), max_size=30))
def test_pieces_join_to_the_text_and_no_character_is_split(text: str, places: list[int]) -> None:
    stream, shown, tokens = TextStream(), "", 0
    pieces = cut(text.encode(), places)
    for piece in pieces:
        part = stream.feed(piece)
        shown, tokens = shown + part.text, tokens + part.tokens
        assert text.startswith(shown)
    end = stream.finish()
    assert shown + end.text == text and tokens + end.tokens == len(pieces)


@FAST
@given(st.binary(max_size=30), st.lists(st.integers(0, 200), max_size=20))
def test_bytes_that_are_no_text_are_replaced_as_python_does(data: bytes, places: list[int]) -> None:
    stream = TextStream(stop=["never here"])
    shown = "".join(stream.feed(piece).text for piece in cut(data, places)) + stream.finish().text
    assert shown == data.decode("utf-8", "replace")


@FAST
@given(
    st.text("abé", max_size=25),
    st.lists(st.text("abé", min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.integers(0, 200), max_size=25),
)
def test_stop_strings_are_found_wherever_tokens_end(text: str, stops: list[str], places: list[int]) -> None:
    """The oracle looks at the text token by token, with everything in hand."""
    data = text.encode()
    pieces, stream, shown, tokens, stopped, read = cut(data, places), TextStream(stops), "", 0, None, b""
    for piece in pieces:
        read += piece
        part = stream.feed(piece)
        shown, tokens, stopped = shown + part.text, tokens + part.tokens, part.stopped
        found = min((read.find(stop.encode()) for stop in stops if stop.encode() in read), default=None)
        if found is not None:
            assert stopped is not None and shown.encode() == read[:found]
            assert read[found:].startswith(stopped.encode())
            starts = [len(b"".join(pieces[:i])) for i in range(len(pieces))]
            assert tokens == sum(start < found for start in starts)
            return
        assert stopped is None
        # Nothing shown may turn out to belong to a stop string, and nothing is held back without need.
        held = read[len(shown.encode()) :]
        whole = held.decode("utf-8", "ignore")
        assert not whole or any(
            stop.startswith(whole[-n:]) for stop in stops for n in range(1, len(whole) + 1)
        )
    assert shown + stream.finish().text == text


def test_a_stop_string_over_three_tokens_is_held_back() -> None:
    stream = TextStream(["\nUser:"])
    parts = [stream.feed(piece) for piece in (b"Hi", b".\nU", b"se", b"r", b"!")]
    assert [part.text for part in parts] == ["Hi", ".", "", "", "\nUser!"]
    assert [part.tokens for part in parts] == [1, 0, 0, 0, 4]


def test_a_token_that_a_stop_string_cuts_in_two_is_shown() -> None:
    stream = TextStream(["bb"])
    assert stream.feed(b"ab") == Piece("a", 0)
    assert stream.feed(b"b") == Piece("", 1, "bb")


JSON_TEXT = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@FAST
@given(
    st.dictionaries(st.text(max_size=5), JSON_TEXT, max_size=4), st.booleans(), st.sampled_from([None, 1, 2])
)
def test_every_json_object_is_accepted(value: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    try:
        text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    except UnicodeEncodeError:  # a lone surrogate is no text
        return
    if b"\\ud" in text:
        return
    state: State | None = State()
    for byte in text:
        assert state is not None and not state.done
        state = advance(state, byte)
    assert state is not None and state.done


@FAST
@given(st.dictionaries(st.text(max_size=3), JSON_TEXT, max_size=3), st.integers(0, 300), st.integers(0, 255))
def test_what_is_accepted_is_json(value: dict[str, Any], at: int, byte: int) -> None:
    """One byte of a JSON text is changed; the automaton must not accept what the parser refuses."""
    text = bytearray(json.dumps(value).encode())
    text[at % len(text)] = byte
    state = feed(State(), bytes(text))
    if state is not None and state.done:
        assert isinstance(json.loads(text.decode("utf-8")), dict)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":01}',
        '{"a":1.}',
        '{"a":.5}',
        '{"a":+1}',
        '{"a":1e}',
        '{"a":-}',
        '{"a":-01}',
        "{a:1}",
        "{'a':1}",
        '{"a" 1}',
        '{"a":1,}',
        '{"a":[1,]}',
        '{"a":[}',
        '{"a":]}',
        '{"a":tru}',
        '{"a":True}',
        '{"a":NaN}',
        '{"a":"\n"}',
        '{"a":"\\x"}',
        '{"a":"\\u12g4"}',
        '{"a":"\\ud800"}',
        '{"a":"\\uDFFF"}',
        "[1]",
        '"a"',
        "1",
        "{}{}",
        "{},",
        "x{}",
        "{,}",
        '{"a"}',
    ],
)
def test_what_is_no_json_object_is_refused(text: str) -> None:
    assert feed(State(), text.encode()) is None


@pytest.mark.parametrize(
    "data", [b'{"\xc0\x80"', b'{"\xed\xa0\x80"', b'{"\xf5"', b'{"\xe0\x80\x80"', b'{"\x80"', b'{"\xc3"']
)
def test_strings_are_utf8(data: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        data.decode()
    assert feed(State(), data) is None


def test_nesting_white_space_and_end_are_bounded() -> None:
    deep = b'{"a":' * (DEPTH_MAX - 1) + b"{"
    assert feed(State(), deep) is not None
    assert feed(State(), b'{"a":' * DEPTH_MAX + b"{") is None
    assert feed(State(), b"{" + b" " * WHITESPACE_MAX) is not None
    assert feed(State(), b"{" + b" " * (WHITESPACE_MAX + 1)) is None
    assert feed(State(), b"{} ") is None


PIECES = [bytes([i]) for i in range(256)] + [
    b'{"',
    b'":',
    b'", "',
    b"true}",
    b"12",
    "é☃".encode(),
    b'"}',
    b"}}",
    b"",
    b"",
]
ENDS = {264, 265}


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_any_walk_under_the_mask_ends_in_json(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask, text = JsonMask(VOCABULARY, PIECES), b""
    for _ in range(400):
        allowed = mask.allowed()
        ids = np.flatnonzero(allowed)
        assert len(ids), text
        # Closing characters are preferred, or a walk would hardly ever end.
        closing = [int(i) for i in ids if PIECES[i] in (b'"', b"}", b"]", b":", b'"}', b"}}") or i in ENDS]
        token = int(rng.choice(closing if closing and rng.random() < 0.5 else ids))
        if token in ENDS:
            assert isinstance(json.loads(text), dict)
            return
        text += PIECES[token]
        mask.advance(token)
    assert feed(State(), text) is not None


VOCABULARY = Vocabulary(PIECES, ENDS)


@FAST
@given(
    st.sampled_from(
        [
            b"",
            b"{",
            b'{"',
            b'{"a',
            b'{"a":',
            b'{"a":1',
            b'{"a":[',
            b'{"a":[-',
            b'{"\xc3',
            b'{"\\u0',
            b"{}",
            b'{"a":t',
        ]
    )
)
def test_the_mask_is_what_the_automaton_says_token_by_token(begin: bytes) -> None:
    state = feed(State(), begin)
    assert state is not None
    allowed = VOCABULARY.allowed(state)
    for token, piece in enumerate(PIECES):
        expected = state.done if token in ENDS else bool(piece) and feed(state, piece) is not None
        assert allowed[token] == expected, piece
    with pytest.raises(ValueError, match="read-only"):
        allowed[0] = True


def test_a_mask_can_ask_for_a_beginning() -> None:
    heads = [b'{"tool": "a"', b'{"tool": "bc"']
    mask = JsonMask(VOCABULARY, PIECES, heads)
    text = b""
    while not any(text.startswith(head) for head in heads):
        ids = np.flatnonzero(mask.allowed())
        assert all(
            any(head.startswith(text + PIECES[i]) or (text + PIECES[i]).startswith(head) for head in heads)
            for i in ids
        )
        token = int(ids[-1])
        text += PIECES[token]
        mask.advance(token)
    assert text.startswith(b'{"tool": "bc"')
    assert len(np.flatnonzero(mask.allowed())) > 1 or text.endswith(b"}")
    with pytest.raises(ValueError, match="was not allowed"):
        mask.advance(ord("x"))
    with pytest.raises(ValueError, match="does not begin as it must"):
        JsonMask(VOCABULARY, PIECES, heads).advance(ord("["))


CALL = '{"tool": "get_order", "arguments": {"order_id": "A-1", "more": {"x": ["}"]}}}'


@FAST
@given(st.lists(st.integers(0, 200), max_size=20))
def test_a_call_is_recognized_however_it_is_cut(places: list[int]) -> None:
    stream = ToolStream(["get_order", "get"])
    parts = [
        part for piece in cut(CALL.encode(), places) for part in stream.feed(piece.decode())
    ] + stream.finish()
    assert parts[0] == Part("call", "get_order") and {part.kind for part in parts[1:]} == {"arguments"}
    assert json.loads("".join(part.data for part in parts[1:])) == json.loads(CALL)["arguments"]
    assert stream.complete


@FAST
@given(
    st.sampled_from(["Hello", '{"tool": "other", "arguments": {}}', '{"tool": "get', "{", "", '{"a": 1}']),
    st.lists(st.integers(0, 99)),
)
def test_what_is_no_call_of_an_offered_tool_is_text(text: str, places: list[int]) -> None:
    stream = ToolStream(["get_order"])
    parts = [
        part for piece in cut(text.encode(), places) for part in stream.feed(piece.decode())
    ] + stream.finish()
    assert {part.kind for part in parts} <= {"text"} and "".join(part.data for part in parts) == text
    assert not stream.complete


def test_a_cut_off_call_is_shown_and_not_complete() -> None:
    stream = ToolStream(["f"])
    parts = stream.feed(call_head("f") + '{"a": "b') + stream.finish()
    assert parts == [Part("call", "f"), Part("arguments", '{"a": "b')] and not stream.complete
