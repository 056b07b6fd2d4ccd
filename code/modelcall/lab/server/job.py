"""One request as the worker sees it: what to generate, where the results go, when to give up.

A job's results are events in an :class:`Outbox`, which the worker fills from its thread and the event
loop empties. The loop is woken once for however many events have gathered, and for a reply that is not
streamed only at the end: this is what keeps the server's cost a token small.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from modelcall.lab.generation import Mask, Step
from modelcall.lab.models import ChatModel
from modelcall.lab.sampling import Sampling
from modelcall.lab.server.errors import ApiError
from modelcall.lab.server.toolcalls import Part

__all__ = ["Delta", "Done", "Event", "Failed", "Finish", "Job", "Outbox", "Reason", "Started"]

Reason = Literal["stop", "length", "content_filter", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Started:
    """The prompts have been accepted by the worker."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A new piece of choice ``index``.

    Attributes:
        index: of the choice.
        parts: what to show.
        steps: the tokens it shows, if log probabilities were asked for.
        tokens: how many tokens the job has generated so far.
    """

    index: int
    parts: tuple[Part, ...]
    steps: tuple[Step, ...] = ()
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Finish:
    """Choice ``index`` has ended."""

    index: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Done:
    """All choices have ended; counts in tokens."""

    prompt: int
    cached: int
    completion: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The job has ended without a result."""

    error: ApiError


Event = Started | Delta | Finish | Done | Failed


class Outbox:
    """Events from a thread to the event loop that made it.

    Args:
        eager: wake the reader at every event rather than at the last only.
    """

    def __init__(self, *, eager: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._eager = eager
        self._events: deque[Event] = deque()
        self._ready = asyncio.Event()
        self._woken = False

    def put(self, event: Event) -> None:
        """Add an event; from any thread."""
        self._events.append(event)
        if not self._woken and (self._eager or isinstance(event, Done | Failed)):
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._ready.set)
            except RuntimeError:  # the loop is closed: nobody is left to read
                self._events.clear()

    async def take(self) -> list[Event]:
        """Wait for events and return all there are; only from the loop."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            # Before emptying: an event that comes now wakes the next call, at worst for nothing.
            self._woken = False
            events = []
            while self._events:
                events.append(self._events.popleft())
            if events:
                return events


@dataclass(slots=True)
class Job:
    """What to generate.

    Attributes:
        model: the model.
        prompts: token ids of each; a chat has one. Each gets ``n`` choices, numbered through.
        outbox: where events go.
        max_tokens: for each choice, the end token included.
        sampling: of choice ``index``.
        end_tokens: ids that end a reply; none if they are to be ignored.
        top: None without log probabilities, else the number of alternatives.
        stop, blocked: strings that end a reply, with ``stop`` or ``content_filter``.
        tools: names of the tools on offer.
        mask: makes the mask of one choice.
        deadline_s: on the clock of ``time.monotonic``; None for no deadline.
        cancelled: why it was given up; the worker looks between two tokens.
    """

    model: ChatModel
    prompts: list[list[int]]
    outbox: Outbox
    max_tokens: int
    sampling: Callable[[int], Sampling]
    end_tokens: frozenset[int]
    n: int = 1
    top: int | None = None
    stop: Sequence[str] = ()
    blocked: Sequence[str] = ()
    tools: Sequence[str] = ()
    mask: Callable[[], Mask] | None = None
    deadline_s: float | None = None
    deadline_ms: int = 0
    cancelled: str | None = None
    arrived_s: float = field(default_factory=time.monotonic)

    def cancel(self, reason: str) -> None:
        """Give up; the first reason counts."""
        if self.cancelled is None:
            self.cancelled = reason
