"""Bytes of tokens in, text out, no sooner than it is safe: split characters and stop strings are held back.

A token is a run of bytes and may end in the middle of a character; a stop string may begin in one token
and end three tokens later. Whoever streams must not show half a character, nor the first half of a stop
string. Both are questions about the end of the bytes so far: hold back the longest tail that could still
become something else. UTF-8 is self-synchronizing, so a stop string is found in bytes where, and only
where, it is in the text.

Bytes that are no UTF-8 become U+FFFD, as in every server; the token's own bytes stay in its log
probability entry.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Piece", "TextStream"]


@dataclass(frozen=True, slots=True)
class Piece:
    """What can be shown now.

    Attributes:
        text: new text, perhaps empty.
        tokens: how many further tokens are shown with it: those whose last byte has been shown.
        stopped: the stop string that was found, which is not part of any text; None if none was.
    """

    text: str
    tokens: int
    stopped: str | None = None


class TextStream:
    """Text of one reply.

    Args:
        stop: strings that end the reply; the earliest one found in the text counts.

    >>> stream = TextStream(stop=["END"])
    >>> [stream.feed(piece).text for piece in (b"caf", b"\\xc3", b"\\xa9 E", b"N", b"s")]
    ['caf', '', 'é ', '', 'ENs']
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._stop = [(text, text.encode("utf-8")) for text in stop]
        self._text = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = b""
        # Where each token not yet shown ends, and where the first of them begins; 0 is where what is
        # held begins, so a token of which a part was shown begins below 0.
        self._ends: list[int] = []
        self._begin = 0

    def feed(self, piece: bytes) -> Piece:
        """Take the bytes of one token and return what can be shown."""
        self._held += piece
        self._ends.append(len(self._held))
        found = [(self._held.find(data), text) for text, data in self._stop if data in self._held]
        if found:
            at, text = min(found, key=lambda item: item[0])
            return self._show(at, final=True, stopped=text)
        return self._show(len(self._held) - self._tail(), final=False)

    def finish(self) -> Piece:
        """Return what was held back; the reply is over."""
        return self._show(len(self._held), final=True)

    def _tail(self) -> int:
        """Bytes at the end that may yet become a stop string; half characters the decoder keeps itself."""
        longest = 0
        for _, data in self._stop:
            for size in range(min(len(data) - 1, len(self._held)), longest, -1):
                if data.startswith(self._held[-size:]):
                    longest = size
                    break
        return longest

    def _show(self, count: int, *, final: bool, stopped: str | None = None) -> Piece:
        """Show the first ``count`` of the held bytes, less half a character at their end."""
        text = self._text.decode(self._held[:count], final)
        # The decoder keeps half a character itself; positions count on, so those bytes are before 0.
        inside = len(self._text.getstate()[0])
        if stopped is None:
            shown = sum(end <= count - inside for end in self._ends)
        else:
            # The token that the stop string cuts in two did put its head into the text.
            starts = [self._begin, *self._ends[:-1]]
            shown = sum(start < count for start in starts)
        self._begin = (self._ends[shown - 1] if shown else self._begin) - count
        self._ends = [] if final else [end - count for end in self._ends[shown:]]
        self._held = b"" if final else self._held[count:]
        return Piece(text, shown, stopped)
