"""Open files beneath a folder by a name that somebody else chose, without ever leaving the folder.

Cleaning up a path and then opening it are two steps, and between them a folder can be swapped for a link.
So the path is walked instead: each part is opened inside the folder opened before it, and no part may be a
link (the method of ``openat`` with ``O_NOFOLLOW``). A name is refused if any system could read it as
something other than names joined by "/". Files are written beside the old one and renamed over it, so that
a hard link into the folder is replaced and never written through.

What is not done: where a system cannot open relative to a folder (Windows), each part is only looked at
before it is used, and a swap in between goes unseen. Nothing here decides *who* may do what: chapter 2
does.
"""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from modelcall.lab import args

__all__ = ["Outside", "delete", "read", "size", "split", "write"]

_AT = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)


class Outside(ValueError):  # noqa: N818 - a verdict on a name
    """A name that does not stay beneath the folder; the message says at which part, and why."""


def split(path: str) -> tuple[str, ...]:
    """Return the parts of a relative path, each a plain name.

    Raises:
        TypeError: ``path`` is no string.
        Outside: an absolute path, "..", an empty or "." part, a backslash, a colon or a NUL.

    >>> split("notes/today.txt")
    ('notes', 'today.txt')
    """
    text = args.text("path", path)
    if text.startswith("/"):
        raise Outside("the path is absolute")
    for sign, name in (("\0", "a NUL"), ("\\", "a backslash"), (":", "a colon")):
        if sign in text:
            raise Outside(f"the path holds {name}")
    parts = tuple(text.split("/"))
    if ".." in parts:
        raise Outside("'..' leads out of the folder")
    if not set(parts).isdisjoint({"", "."}):
        raise Outside("the path has an empty part")
    return parts


def size(folder: str, path: str) -> int:
    """Return the bytes of the file at ``path``.

    Raises:
        TypeError, Outside: as ``split``; a link on the way, or no regular file with one name.
        OSError: there is no such file, or the system refuses it.
    """
    with _opened(folder, path) as file:
        return os.fstat(file).st_size


def read(folder: str, path: str, most: int) -> bytes:
    """Return what the file holds, if that is at most ``most`` bytes.

    Raises:
        TypeError, Outside, OSError: as ``size``.
        ValueError: it holds more.
    """
    with _opened(folder, path) as file, os.fdopen(os.dup(file), "rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"the file holds more than {most} bytes")
    return data


def write(folder: str, path: str, data: bytes) -> None:
    """Replace the file at ``path`` by one that holds ``data``, or make it; half a file is never seen.

    Raises:
        TypeError, Outside: as ``split``; a link on the way or at its end.
        OSError: the folder of the file does not exist, or the system refuses it.
    """
    *folders, name = split(path)
    with _inside(folder, folders) as (at, keywords):
        _no_link(at, name, keywords)
        new = f".{name[:100]}.{uuid.uuid4().hex}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        file = os.open(_join(at, new), flags, 0o666, **keywords)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(data)
            both = {"src_dir_fd": keywords["dir_fd"], "dst_dir_fd": keywords["dir_fd"]} if keywords else {}
            os.replace(_join(at, new), _join(at, name), **both)  # noqa: PTH105 - inside an open folder
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(_join(at, new), **keywords)
            raise


def delete(folder: str, path: str) -> None:
    """Remove the file at ``path``; a link there is refused and stays.

    Raises:
        TypeError, Outside: as ``write``.
        OSError: there is no such file, it is a folder, or the system refuses it.
    """
    *folders, name = split(path)
    with _inside(folder, folders) as (at, keywords):
        _no_link(at, name, keywords)
        os.unlink(_join(at, name), **keywords)


@contextlib.contextmanager
def _inside(folder: str, names: Sequence[str]) -> Iterator[tuple[str, dict[str, int]]]:
    """Walk to a folder; yield how to reach what is in it: a prefix, and keywords for the ``os`` functions."""
    if not _AT:
        prefix = folder
        for name in names:
            _no_link(prefix, name, {})
            prefix = _join(prefix, name)
        yield prefix, {}
        return
    here = os.open(folder, _FOLDER)
    try:
        for name in names:
            _no_link("", name, {"dir_fd": here})
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        yield "", {"dir_fd": here}
    finally:
        os.close(here)


@contextlib.contextmanager
def _opened(folder: str, path: str) -> Iterator[int]:
    *folders, name = split(path)
    with _inside(folder, folders) as (at, keywords):
        _no_link(at, name, keywords)  # for the words; O_NOFOLLOW is what holds
        file = os.open(_join(at, name), _READ, **keywords)
    try:
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode):
            raise Outside(f"{name!r} is no regular file")
        if state.st_nlink > 1:
            raise Outside(f"{name!r} has a second name, perhaps outside")
        yield file
    finally:
        os.close(file)


def _no_link(at: str, name: str, keywords: dict[str, int]) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISLNK(os.lstat(_join(at, name), **keywords).st_mode):
            raise Outside(f"{name!r} is a link")


def _join(at: str, name: str) -> str:
    return str(Path(at, name)) if at else name
