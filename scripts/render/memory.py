"""What was made of a page, under a key of all that it was made from: an unchanged page is made once.

The folder is a cache: it may be deleted at any time, and a file in it that cannot be read counts as none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from .config import Book
from .crossref import Register
from .pandoc import identity, write_atomic

__all__ = ["Memory", "digest", "numbers"]


def digest(parts: Iterable[bytes]) -> str:
    """Hash parts with their lengths, so that what moves from one to the next gives another key.

    >>> digest([b"ab", b"c"]) == digest([b"a", b"bc"])
    False
    """
    whole = hashlib.sha256()
    for part in parts:
        whole.update(f"{len(part)}:".encode())
        whole.update(part)
    return whole.hexdigest()[:40]


class Memory:
    """What was made, in ``folder``; beside the scripts, all of it depends on ``shared``."""

    def __init__(self, folder: Path, shared: Iterable[bytes] = ()) -> None:
        self.folder = folder
        self.shared = digest([_code().encode(), identity().encode(), *shared])

    def key(self, parts: Iterable[bytes]) -> str:
        return digest([self.shared.encode(), *parts])

    def recall(self, key: str) -> dict[str, Any] | None:
        path = self.folder / f"{key}.json"
        try:
            made = json.loads(path.read_text(encoding="utf-8"))
            os.utime(path)
            return made if isinstance(made, dict) else None
        except (OSError, ValueError):
            return None

    def keep(self, key: str, made: dict[str, Any]) -> None:
        write_atomic(self.folder / f"{key}.json", json.dumps(made, ensure_ascii=False).encode())


@cache
def _code() -> str:
    """A hash of the scripts: what an older version made is not what this one makes."""
    scripts = Path(__file__).parents[1]
    files = [*scripts.glob("*.py"), *scripts.glob("render/*.py"), *scripts.glob("render/*.lua")]
    return digest([path.read_bytes() for path in sorted(files)])


def numbers(register: Register, book: Book) -> bytes:
    """What a page says of the others: the numbers of all targets, and the order and titles of the pages."""
    targets = [[key, t.page.path, t.word, t.number] for key, t in sorted(register.targets.items())]
    pages = [[page.path, page.kind] for page in book.pages]
    return json.dumps([targets, pages, book.site_url, book.repo_url]).encode()
