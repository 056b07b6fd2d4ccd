"""Run a reader's code so that it cannot hurt the check: bounded in time, quiet, on copies of its arguments.

What counts is the time that the code computes, so that a busy machine fails nobody; ten times as much may
pass on the clock. In the main thread of a Unix system a timer interrupts the code, also inside most of a
library's calls. Elsewhere a trace function looks at every line; it slows Python code and sees no call into C.
What neither does: bound memory, or stop code that catches every exception at every line.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from modelcall.lab import args

__all__ = ["CALL_S", "Refused", "Untouched", "Wrong", "call", "time_limit"]

CALL_S = 2.0


class Wrong(Exception):  # noqa: N818 - it is a verdict, not an error of ours
    """Why an answer is not accepted, in words for its author."""


class Untouched(Exception):  # noqa: N818
    """The answer is still the stub."""


class Refused:
    """What ``call`` returns of an answer that raised the exception it had to raise."""


class _TimeUp(BaseException):
    """Not an ``Exception``: a reader's ``except Exception`` must not swallow it."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``Wrong`` in the block once it has run for ``seconds``."""
    main = threading.current_thread() is threading.main_thread()
    timer = main and hasattr(signal, "setitimer") and signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    computed, passed = time.thread_time() + seconds, time.monotonic() + 10 * seconds

    def late() -> bool:
        return time.thread_time() > computed or time.monotonic() > passed

    try:
        with _by_timer(late) if timer else _by_trace(late):
            yield
    except _TimeUp:
        raise Wrong(f"did not finish within {seconds:g} s; does a loop in it end?") from None


@contextlib.contextmanager
def _by_timer(late: Callable[[], bool]) -> Iterator[None]:
    running = True

    def ring(*_: object) -> None:
        if running and late():
            raise _TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    # It rings on: code that swallows one exception gets the next.
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _by_trace(late: Callable[[], bool]) -> Iterator[None]:
    before = sys.gettrace()

    def trace(frame: object, event: str, value: object) -> Any:
        if late():
            raise _TimeUp
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def call(
    function: Callable[..., Any],
    name: str,
    arguments: tuple[Any, ...],
    seconds: float = CALL_S,
    *,
    refusal: type[Exception] | None = None,
) -> Any:
    """Return what ``function`` returns for copies of ``arguments``; ``Refused`` if it raises ``refusal``.

    Raises:
        Wrong: it raised, took too long, printed instead of returning, or changed an argument.
        Untouched: it raised ``NotImplementedError``, or is a stub that returns nothing.
    """
    shown = shown_call(name, arguments)
    wanted = f"; expected a {refusal.__name__}" if refusal else ""
    given = copy.deepcopy(arguments)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), time_limit(seconds):
            result = function(*given)
    except Wrong as error:
        raise Wrong(f"{shown} {error}") from None
    except NotImplementedError:
        raise Untouched from None
    except (Exception, SystemExit) as error:
        if refusal and isinstance(error, refusal):
            return Refused()
        words = f"{type(error).__name__}: {str(error)[:200]}".removesuffix(": ")
        raise Wrong(f"{shown} raises {words}{wanted}") from None
    if result is None and _is_stub(function):
        raise Untouched
    if result is None:
        told = "prints a result and returns None: return it" if printed.getvalue().strip() else "returns None"
        raise Wrong(f"{shown} {told}{wanted}")
    if inspect.iscoroutine(result):
        result.close()
        raise Wrong(f"{shown} returns a coroutine; write it with def, not with async def")
    if not _equal(given, arguments):
        raise Wrong(f"{shown} changes its argument; a caller would find its data altered")
    return result


def shown_call(name: str, arguments: tuple[Any, ...]) -> str:
    """Return a call as it is written, shortened."""
    return f"{name}({', '.join(args.found(a).removeprefix('got ') for a in arguments)})"


def _equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # what cannot be compared was not an argument of ours
        return False


def _is_stub(function: object) -> bool:
    """Say whether a function does nothing: no names, and no constants but its docstring."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    own = set(code.co_consts) - {None, Ellipsis, getattr(function, "__doc__", None)}
    return not (code.co_names or code.co_freevars or own)
