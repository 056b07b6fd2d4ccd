"""Pandocs that go on, one text after the other (``pandoc.lua``): a start costs as much as a page.

There is one for each slot of ``parallel`` and each thread. A fork takes over the one of its slot, which its
parent, who waits, does not use meanwhile; so a Pandoc that has read its tables serves the whole build.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import select
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from . import parallel
from .problems import BuildError

__all__ = ["SCRIPT", "convert", "start"]

SCRIPT = Path(__file__).with_name("pandoc.lua")
_PATIENCE_S = 300  # for one answer; the longest chapter takes a second


class _Converter:
    """One running Pandoc."""

    def __init__(self, executable: str) -> None:
        self.owner = os.getpid()
        self.executable = executable
        self.count = itertools.count()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close; what is wrong with a text is in the answer)
        self.process = subprocess.Popen(
            [executable, "lua", str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
        )
        assert self.process.stdin
        os.set_blocking(self.process.stdin.fileno(), False)  # a write takes what the pipe has room for

    @property
    def ended(self) -> bool:
        """Whether it is gone, as far as this process can tell."""
        return self.errors.closed or (self.owner == os.getpid() and self.process.poll() is not None)

    def convert(self, job: dict[str, Any], text: bytes) -> tuple[str, list[str]]:
        # Not what an earlier conversion, interrupted, left in the pipe.
        number = f"{os.getpid()}-{next(self.count)}"
        try:
            self._send(json.dumps({**job, "number": number, "bytes": len(text)}).encode() + b"\n" + text)
            line, _, rest = self._received(lambda found: b"\n" in found).partition(b"\n")
            head = json.loads(line)
            if head["number"] != number:
                raise ValueError("the answer to something else")
            fine, size = head["fine"], head["bytes"]
            warnings = [m["pretty"].strip() for m in head["log"] if m["verbosity"] == "WARNING"]
            data = self._received(lambda found: len(found) >= size, rest)
            if len(data) != size:
                raise ValueError("more than the answer")
            out = data.decode()
        except (EOFError, OSError, ValueError, KeyError, TypeError) as error:
            raise BuildError([f"pandoc: {self._failure(error, job)}"]) from error
        if not fine:
            raise BuildError([f"pandoc: {out.strip()}"])
        return out, warnings

    def _send(self, data: bytes) -> None:
        stdin = self.process.stdin
        assert stdin
        left = memoryview(data)
        while left:
            self._wait_for(stdin, select.POLLOUT)
            left = left[stdin.write(left) or 0 :]

    def _received(self, whole: Callable[[bytearray], bool], found: bytes = b"") -> bytes:
        stdout = self.process.stdout
        assert stdout
        parts = bytearray(found)
        while not whole(parts):
            self._wait_for(stdout, select.POLLIN)
            if not (more := stdout.read(1 << 16)):
                raise EOFError
            parts += more
        return bytes(parts)

    def _wait_for(self, stream: IO[bytes], event: int) -> None:
        poll = select.poll()
        poll.register(stream, event)
        if not poll.poll(_PATIENCE_S * 1000):
            raise TimeoutError

    def _failure(self, error: Exception, job: dict[str, Any]) -> str:
        """End it, and say what was wrong with it."""
        self.process.kill()
        size = os.fstat(self.errors.fileno()).st_size
        last = os.pread(self.errors.fileno(), 400, max(0, size - 400)).decode(errors="replace").split("\n")
        said = next((line.strip() for line in reversed(last) if line.strip()), "")
        self.close()
        what = "gave no answer that can be read"
        if isinstance(error, TimeoutError):
            what = f"gave no answer in {_PATIENCE_S} s"
        elif isinstance(error, EOFError | OSError):
            what = "ended"
        task = f"{self.executable} {what} while it converted {job['from']} to {job['to']}"
        return f"{task}: {said}" if said else task

    def close(self) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream:
                stream.close()
        self.process.wait()


_running: dict[tuple[int, int, str], _Converter] = {}  # by slot, thread and executable


def convert(executable: str, job: dict[str, Any], text: bytes) -> tuple[str, list[str]]:
    """Convert ``text`` as ``job`` says; return the result and the warnings.

    Raises:
        BuildError: Pandoc refuses the text, or ended.
    """
    return _of_slot(parallel.slot(), executable).convert(job, text)


def start(executable: str, count: int) -> None:
    """Have the Pandocs of the first ``count`` slots running, for the forks to take over."""
    for slot in range(count):
        _of_slot(slot, executable)


def _of_slot(slot: int, executable: str) -> _Converter:
    key = slot, threading.get_ident(), executable
    found = _running.get(key)
    if found and found.ended:
        found.close()
    if found is None or found.ended:
        found = _running[key] = _Converter(executable)
    return found


def _close() -> None:
    for converter in _running.values():
        if converter.owner == os.getpid():
            converter.close()
    _running.clear()


atexit.register(_close)
parallel.if_cut_off(_close)  # a Pandoc may have the rest of an answer in its pipe
