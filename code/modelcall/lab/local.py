"""A reader's predictions and passed exercises, in one JSON file beside the notebook and nowhere else.

The file is ``modelcall-progress.json`` in the folder of the running notebook; ``MODELCALL_PROGRESS`` names
another, or is "off". It is written whole to a temporary file that then takes its place, while a lock keeps
other notebooks out, so that neither a crash nor a neighbour can spoil it. A file that holds no progress is
set aside under another name and never overwritten, and one that cannot be read is left alone. What cannot be
written lasts as long as the kernel, and is written as soon as it can be.

What is not kept: answers' source, names, times.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["NAME", "place", "progress", "record", "trouble"]

NAME = "modelcall-progress.json"
LOCK_WAIT_S, LOCK_STALE_S = 2.0, 10.0
Progress = dict[str, dict[str, Any]]
KINDS = ("predictions", "exercises")
_memory: Progress = {kind: {} for kind in KINDS}
_unwritten: dict[Path, Progress] = {}  # what could not be written, until it can


def place() -> Path | None:
    """Return the file of the progress, or None if it is kept in memory only."""
    named = os.environ.get("MODELCALL_PROGRESS", "")
    return None if named.lower() == "off" else Path(named or NAME).absolute()


def progress() -> Progress:
    """Return predictions and exercises by number: what was predicted, how often tried, whether passed."""
    path = place()
    if path is None:
        return _copy(_memory)
    kept: dict[str, Any] | None = None
    with contextlib.suppress(OSError):
        kept = _read(path)
    return _copy(_with_unwritten(path, kept or {}))


def trouble() -> str:
    """Return why what is in the file cannot be shown, or "" if it can."""
    path = place()
    if path is None:
        return ""
    try:
        if _read(path) is None:
            return f"{path.name} holds no progress; the next answer sets it aside and begins a new one"
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror or error}"
    return ""


def record(kind: str, number: str, change: Callable[[Any], Any]) -> str:
    """Put ``change(old)`` in the place of what is kept of a number; return "" or what its reader should know.

    ``kind`` is "predictions" or "exercises"; ``old`` is None the first time. What cannot be written now is
    written with the next that can.
    """
    path = place()
    if path is None:
        _memory[kind][number] = change(_memory[kind].get(number))
        return ""
    note = ""
    try:
        with _lock(path):
            try:
                kept = _read(path)
            except FileNotFoundError:
                kept = {}
            if kept is None:
                aside = _set_aside(path)
                note = f"{path.name} held no progress and is now {aside.name}"
                kept = {}
            kept = _with_unwritten(path, kept)
            kept[kind][number] = change(kept[kind].get(number))
            _write(path, kept)
            _unwritten.pop(path, None)
    except OSError as error:
        waiting = _unwritten.setdefault(path, _nothing())[kind]
        waiting[number] = change(progress()[kind].get(number))
        return f"not kept on disk: {path.name}: {error.strerror or error}"
    return note


def _nothing() -> Progress:
    return {kind: {} for kind in KINDS}


def _copy(kept: dict[str, Any]) -> Progress:
    return {kind: dict(kept[kind]) for kind in KINDS}


def _with_unwritten(path: Path, kept: dict[str, Any]) -> dict[str, Any]:
    waiting = _unwritten.get(path, _nothing())
    return kept | {kind: kept.get(kind, {}) | waiting[kind] for kind in KINDS}


def _read(path: Path) -> dict[str, Any] | None:
    """What is in a file, also what this version does not know; None if there is no progress in it.

    Raises:
        OSError: the file cannot be read; a folder never can.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        kept = dict(data) | {kind: dict(data[kind]) for kind in KINDS}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return kept if all(isinstance(value, dict) for value in kept["exercises"].values()) else None


def _set_aside(path: Path) -> Path:
    taken = (path.with_name(f"{path.stem}.unreadable-{n}{path.suffix}") for n in itertools.count(1))
    return path.rename(next(free for free in taken if not free.exists()))


def _write(path: Path, kept: dict[str, Any]) -> None:
    target = path.resolve()  # a link stays one
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            json.dump({"version": 1, **kept}, stream, indent=1, sort_keys=True, ensure_ascii=False)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock file, the one thing that is exclusive on every system; a lock left behind is broken."""
    lock = path.with_name(f".{path.name}.lock")
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - lock.stat().st_mtime > LOCK_STALE_S:
                    lock.unlink()
            if time.monotonic() > deadline:
                raise OSError(None, "another notebook is writing it") from None
            time.sleep(0.01)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
