"""Independent pieces of work on all cores: in forks of this process, which have all that it has read.

A fork shares memory until one of them writes, so no tree of a page is copied on the way in; only what a piece
returns travels. Where processes cannot be forked safely (other threads run, or the system is not Linux), and
where there is one piece or one core, the work is done here, one piece after the other.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

__all__ = ["cores", "run"]

T = TypeVar("T")
_shared: list[Sequence[Callable[[], object]]] = []  # the forks find their work here: it cannot be sent


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(pieces: Sequence[Callable[[], T]]) -> list[T]:
    """Call each of ``pieces`` and return the results in their order; the first that raises ends it.

    They are begun in this order, so the longest come first. A piece must not count on what another changes.

    >>> run([lambda: "a", lambda: "b"])
    ['a', 'b']
    """
    workers = min(cores(), len(pieces))
    if workers < 2 or not _forks():
        return [piece() for piece in pieces]
    _shared.append(pieces)
    try:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
            return list(pool.map(_nth, range(len(pieces))))  # type: ignore[arg-type]
    finally:
        _shared.pop()


def _forks() -> bool:
    return sys.platform == "linux" and threading.active_count() == 1


def _nth(number: int) -> object:
    return _shared[-1][number]()
