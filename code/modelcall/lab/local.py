"""A reader's predictions and passed exercises, in one JSON file beside the notebook and nowhere else.

The file is ``modelcall-progress.json`` in the folder of the running notebook; ``MODELCALL_PROGRESS`` names
another, or is "off". It is written whole to a temporary file that then takes its place, while a lock keeps
other notebooks out, so that neither a crash nor a neighbour can spoil it. A file that cannot be read is set
aside under another name and never overwritten. Where nothing can be written, progress lasts as long as the
kernel.

What is not kept: answers' source, names, times.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["NAME", "place", "progress", "record"]

NAME = "modelcall-progress.json"
LOCK_WAIT_S, LOCK_STALE_S = 2.0, 10.0
Progress = dict[str, dict[str, Any]]
_memory: Progress = {"predictions": {}, "exercises": {}}


def place() -> Path | None:
    """Return the file of the progress, or None if it is kept in memory only."""
    named = os.environ.get("MODELCALL_PROGRESS", "")
    return None if named == "off" else Path(named or NAME).absolute()


def progress() -> Progress:
    """Return predictions and exercises by number: what was predicted, how often tried, whether passed."""
    path = place()
    if path is None or not path.exists():
        return _copy(_memory) if path is None else {"predictions": {}, "exercises": {}}
    return _read(path) or {"predictions": {}, "exercises": {}}


def record(kind: str, number: str, change: Callable[[Any], Any]) -> str:
    """Put ``change(old)`` in the place of what is kept of a number; return "" or why it is not on disk.

    ``kind`` is "predictions" or "exercises"; ``old`` is None the first time.
    """
    path = place()
    if path is None:
        _memory[kind][number] = change(_memory[kind].get(number))
        return ""
    try:
        with _lock(path):
            kept = _read(path) if path.exists() else None
            if kept is None:
                _set_aside(path)
                kept = {"predictions": {}, "exercises": {}}
            kept[kind][number] = change(kept[kind].get(number))
            _write(path, kept)
    except OSError as error:
        _memory[kind][number] = change(_memory[kind].get(number))
        return f"not kept on disk: {path.name}: {error.strerror or error}"
    return ""


def _copy(kept: Progress) -> Progress:
    return {kind: dict(entries) for kind, entries in kept.items()}


def _read(path: Path) -> Progress | None:
    """The progress in a file, or None if the file holds none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        kept = {kind: dict(data[kind]) for kind in ("predictions", "exercises")}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return kept if all(isinstance(value, dict) for value in kept["exercises"].values()) else None


def _set_aside(path: Path) -> None:
    if path.exists():
        taken = (path.with_name(f"{path.stem}.unreadable-{n}{path.suffix}") for n in range(1, 1000))
        path.rename(next(free for free in taken if not free.exists()))


def _write(path: Path, kept: Progress) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            json.dump({"version": 1, **kept}, stream, indent=1, sort_keys=True, ensure_ascii=False)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(path)
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
