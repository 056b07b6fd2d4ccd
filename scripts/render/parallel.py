"""Independent pieces of work on all cores: in forks of this process, which have all that it has read.

A fork shares memory until one of them writes, so no tree of a page is copied on the way in; only what a piece
returns travels. Where processes cannot be forked safely (other threads run, or the system is not Linux), and
where there is one piece or one core, the work is done here, one piece after the other.

The forks end with this process, whatever ends it; an interrupt is this process's to answer. One that ends
before its work is done ends the build.

A *job* is a generator that yields its pieces, is sent their results, and returns what it made of them;
several jobs share the cores.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from .problems import BuildError

__all__ = ["Job", "Piece", "beside", "cores", "if_cut_off", "run", "slot", "together"]

T = TypeVar("T")


@dataclass(frozen=True)
class Piece:
    """Work that counts on nothing that another piece changes; the larger ``size``, the sooner it starts."""

    work: Callable[[], Any]
    size: int = 0


Job = Generator[Sequence[Piece], list[Any], T]
_slots = [0]  # the last is this process's
_cut_off: list[Callable[[], None]] = []
_PATIENCE_S = 1  # for a fork that is told to end
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


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
    """Do all ``pieces`` and return their results in order; raise what the first that fails raises.

    Raises:
        BuildError: a fork ended before its work was done.
    """
    workers = min(cores(), len(pieces))
    if workers < 2 or not _forks():
        return [piece.work() for piece in pieces]
    waiting = sorted(range(len(pieces)), key=lambda i: pieces[i].size)  # the last is next
    forks: dict[Connection, BaseProcess] = {}
    busy: dict[Connection, int] = {}
    found: dict[int, Any] = {}
    failed: dict[int, BaseException] = {}
    try:
        for number in range(workers):
            ours, theirs = multiprocessing.Pipe()
            forks[ours] = _fork(_serve, theirs, pieces, number)
            theirs.close()
            busy[ours] = waiting.pop()
            ours.send(busy[ours])
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                fine, made = _received(ready, forks[ready])
                number = busy.pop(ready)
                (found if fine else failed)[number] = made
                while waiting and ready not in busy:
                    number = waiting.pop()
                    if number < min(
                        failed, default=len(pieces)
                    ):  # what would come after a mistake is not asked
                        busy[ready] = number
                        ready.send(number)
    finally:
        for ready in forks.keys() - busy.keys():
            forks[ready].kill()  # it has nothing to tidy
        _end(forks.values())
        for connection in forks:
            connection.close()
        if busy:
            for then in _cut_off:
                then()
    if failed:
        raise failed[min(failed)]
    return [found[i] for i in range(len(pieces))]


def if_cut_off(then: Callable[[], None]) -> None:
    """Call ``then`` whenever forks were ended amid their work: what they shared may be in any state."""
    _cut_off.append(then)


@contextmanager
def beside(work: Callable[[], object] | None) -> Iterator[None]:
    """Begin ``work`` in a fork now, and wait for it at the end.

    It only fills a cache: what it returns or raises is lost, so who needs it asks for it again afterwards.
    """
    if work is None or cores() < 2 or not _forks():
        yield
        return
    process = _fork(_quietly, work)
    try:
        yield
        process.join()
    finally:
        _end([process])


def _quietly(work: Callable[[], object]) -> None:
    with suppress(Exception):
        work()


def slot() -> int:
    """Which of the forks that run at the same time this is, from 0; 0 too where there is none."""
    return _slots[-1]


def _forks() -> bool:
    return sys.platform == "linux" and threading.active_count() == 1


def _fork(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    process = multiprocessing.get_context("fork").Process(
        target=_child, args=(os.getpid(), work, *arguments), daemon=True
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def _child(parent: int, work: Callable[..., None], *arguments: Any) -> None:
    signal.signal(signal.SIGINT, lambda *_: None)  # an ignored one would be ignored by a Pandoc too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # it takes its temporary files with it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() == parent:
        work(*arguments)


def _serve(connection: Connection, pieces: Sequence[Piece], number: int) -> None:
    _slots.append(number)
    while True:
        try:
            answer = True, pieces[connection.recv()].work()
        except EOFError:
            return
        except Exception as error:
            answer = False, _portable(error)
        connection.send(answer)


def _portable(error: BaseException) -> BaseException:
    """The error as it can be sent, with its traceback as a note."""
    trace = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(f"In a fork:\n{trace}")
    return error


def _received(connection: Connection, fork: BaseProcess) -> tuple[bool, Any]:
    try:
        fine, made = connection.recv()
    except (EOFError, ConnectionResetError):
        fork.join()
        status = f"a process of the build ended with status {fork.exitcode}"
        raise BuildError([f"{status}; if memory is short, allow fewer cores"]) from None
    return fine, made


def _end(forks: Iterable[BaseProcess]) -> None:
    for fork in forks:
        fork.terminate()
    for fork in forks:
        fork.join(_PATIENCE_S)
        fork.kill()
        fork.join()
