"""Independent pieces of work on all cores: in forks of this process, which have all that it has read.

A fork shares memory until one of them writes, so no tree of a page is copied on the way in; only what a piece
returns travels. Where processes cannot be forked safely (other threads run, or the system is not Linux), and
where there is one piece or one core, the work is done here, one piece after the other.

A *job* is a generator that yields its pieces, is sent their results, and returns what it made of them;
several jobs share the cores.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["Job", "Piece", "beside", "cores", "run", "slot", "together"]

T = TypeVar("T")


@dataclass(frozen=True)
class Piece:
    """Work that counts on nothing that another piece changes; the larger ``size``, the sooner it starts."""

    work: Callable[[], Any]
    size: int = 0


Job = Generator[Sequence[Piece], list[Any], T]
_shared: list[Sequence[Piece]] = []  # the forks find their work here: it cannot be sent
_slots = [0]  # the last is this process's


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def together(*jobs: Job[Any]) -> list[Any]:
    """Run the pieces of all ``jobs`` at once; return what each job returns.

    >>> def sum_of_squares(*numbers):
    ...     squares = yield [Piece(lambda n=n: n * n) for n in numbers]
    ...     return sum(squares)
    >>> together(sum_of_squares(1, 2), sum_of_squares(3, 4))
    [5, 25]
    """
    wanted = [next(job) for job in jobs]
    done = iter(run([piece for pieces in wanted for piece in pieces]))
    made = []
    for job, pieces in zip(jobs, wanted, strict=True):
        try:
            job.send([next(done) for _ in pieces])
        except StopIteration as end:
            made.append(end.value)
        else:
            raise RuntimeError("a job yields once")
    return made


def run(pieces: Sequence[Piece]) -> list[Any]:
    """Do all ``pieces`` and return their results in order; the first that raises ends it."""
    workers = min(cores(), len(pieces))
    if workers < 2 or not _forks():
        return [piece.work() for piece in pieces]
    order = sorted(range(len(pieces)), key=lambda i: -pieces[i].size)
    _shared.append(pieces)
    fork = multiprocessing.get_context("fork")
    try:
        with ProcessPoolExecutor(workers, fork, _take_slot, (fork.Value("i", 0),)) as pool:
            found = dict(zip(order, pool.map(_nth, order), strict=True))
    finally:
        _shared.pop()
    return [found[i] for i in range(len(pieces))]


@contextmanager
def beside(work: Callable[[], object] | None) -> Iterator[None]:
    """Begin ``work`` in a fork now, and wait for it at the end.

    It only fills a cache: what it returns or raises is lost, so who needs it asks for it again afterwards.
    """
    if work is None or cores() < 2 or not _forks():
        yield
        return
    process = multiprocessing.get_context("fork").Process(target=_quietly, args=(work,))
    process.start()
    try:
        yield
    finally:
        process.join()


def _quietly(work: Callable[[], object]) -> None:
    with suppress(Exception):
        work()


def slot() -> int:
    """Which of the forks that run at the same time this is, from 0; 0 too where there is none."""
    return _slots[-1]


def _take_slot(taken: Any) -> None:
    with taken.get_lock():
        _slots.append(taken.value)
        taken.value += 1


def _forks() -> bool:
    return sys.platform == "linux" and threading.active_count() == 1


def _nth(number: int) -> Any:
    return _shared[-1][number].work()
