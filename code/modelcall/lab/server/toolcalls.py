"""Tells a tool call from text while the reply is still being written.

The house model calls a tool by answering with one JSON object, ``{"tool": NAME, "arguments": {...}}``. If
the reply begins with exactly that, for a tool that was offered, what follows is the call's arguments, and
they can be passed on as they come; otherwise it is text. Until one or the other is certain, nothing is
shown. A reply that is cut off leaves arguments that are no JSON: the caller sees ``finish_reason``
``length`` and half an object, as with any vendor.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from modelcall.lab.jsonmask import State, feed

__all__ = ["Part", "ToolStream", "call_head"]


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the reply: text, the name of the tool that is called, or a piece of its arguments."""

    kind: Literal["text", "call", "arguments"]
    data: str


def call_head(name: str) -> str:
    """Return how a call of the tool begins, up to its arguments.

    >>> call_head("get_order")
    '{"tool": "get_order", "arguments": '
    """
    return f'{{"tool": {json.dumps(name)}, "arguments": '


class ToolStream:
    """Sorts the text of one reply.

    Args:
        names: the tools on offer; with none, everything is text.

    >>> stream = ToolStream(["f"])
    >>> [part for text in ('{"tool": "f", ', '"arguments": {"a"', ": 1}}") for part in stream.feed(text)]
    [Part(kind='call', data='f'), Part(kind='arguments', data='{"a"'), Part(kind='arguments', data=': 1}')]
    >>> stream.complete
    True
    """

    def __init__(self, names: Collection[str]) -> None:
        self._heads = {call_head(name): name for name in names}
        self._held = ""
        self._mode: Literal["open", "text", "arguments"] = "open" if names else "text"
        self._state: State | None = None
        self._closed = False

    @property
    def complete(self) -> bool:
        """Whether a whole call has been read."""
        return self._state is not None and self._state.done

    def feed(self, text: str) -> list[Part]:
        """Take more text and return what can be shown."""
        if self._mode == "text":
            return [Part("text", text)] if text else []
        if self._mode == "arguments":
            return self._arguments(text)
        self._held += text
        for head, name in self._heads.items():
            if self._held.startswith(head):
                rest, self._held, self._mode = self._held[len(head) :], "", "arguments"
                self._state = feed(State(), head.encode("utf-8"))
                return [Part("call", name), *self._arguments(rest)]
        if any(head.startswith(self._held) for head in self._heads):
            return []
        return self.finish()

    def finish(self) -> list[Part]:
        """Return what was held back, as text."""
        held, self._held = self._held, ""
        if self._mode == "open":
            self._mode = "text"
        return [Part("text", held)] if held else []

    def _arguments(self, text: str) -> list[Part]:
        shown = ""
        for char in text:
            if not self._closed:
                shown += char
            if self._state is not None:
                self._state = feed(self._state, char.encode("utf-8"))
                # The arguments end where only the outer object is open again.
                if (
                    self._state is not None
                    and self._state.stack == "{"
                    and self._state.mode == "comma or close"
                ):
                    self._closed = True
        return [Part("arguments", shown)] if shown else []
