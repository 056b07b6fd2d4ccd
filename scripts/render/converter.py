"""Pandocs that go on, one text after the other (``pandoc.lua``): a start costs as much as a page.

There is one for each slot of ``parallel`` and each thread. A fork takes over the one of its slot, which its
parent, who waits, does not use meanwhile; so a Pandoc that has read its tables serves the whole build.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

from . import parallel
from .problems import BuildError

__all__ = ["SCRIPT", "convert", "start"]

SCRIPT = Path(__file__).with_name("pandoc.lua")


class _Converter:
    """One running Pandoc."""

    def __init__(self, executable: str) -> None:
        self.owner = os.getpid()
        self.count = itertools.count()
        self.process = subprocess.Popen(
            [executable, "lua", str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what it has to say is in its answers
        )

    @property
    def ended(self) -> bool:
        """Whether it is gone, as far as its owner can tell."""
        return self.owner == os.getpid() and self.process.poll() is not None

    def convert(self, job: dict[str, Any], text: bytes) -> tuple[str, list[str]]:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin and stdout
        # Not what an earlier conversion, interrupted, left in the pipe.
        number = f"{os.getpid()}-{next(self.count)}"
        try:
            stdin.write(json.dumps({**job, "number": number, "bytes": len(text)}).encode() + b"\n" + text)
            stdin.flush()
            head = json.loads(stdout.readline())
            out = stdout.read(head["bytes"]).decode()
            if head["number"] != number:
                raise ValueError("the answer to something else")
        except (OSError, ValueError) as error:
            self.close()
            raise BuildError([f"pandoc: ended while it converted {job['from']} to {job['to']}"]) from error
        if not head["fine"]:
            raise BuildError([f"pandoc: {out.strip()}"])
        return out, [m["pretty"].strip() for m in head["log"] if m["verbosity"] == "WARNING"]

    def close(self) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
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
