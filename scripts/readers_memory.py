"""A page's notebooks under a key of all they are made from, so that an unchanged page is derived once.

The folder is a cache: it may be deleted at any time, and a file in it that cannot be read counts as none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from render.config import Book
from render.crossref import Register
from render.pandoc import identity, write_atomic

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
    """What was derived, in ``folder``; ``shared`` is what every page's notebooks depend on."""

    def __init__(self, folder: Path, shared: Iterable[bytes]) -> None:
        self.folder = folder
        scripts = Path(__file__).parent
        code = [path.read_bytes() for path in sorted([*scripts.glob("*.py"), *scripts.glob("render/*.py")])]
        self.shared = digest([*code, identity().encode(), *shared])

    def key(self, parts: Iterable[bytes]) -> str:
        return digest([self.shared.encode(), *parts])

    def recall(self, key: str) -> dict[str, bytes] | None:
        path = self.folder / f"{key}.json"
        try:
            made = json.loads(path.read_text(encoding="utf-8"))
            os.utime(path)
            return {name: text.encode() for name, text in made.items()}
        except (OSError, ValueError, AttributeError):
            return None

    def keep(self, key: str, made: dict[str, bytes]) -> None:
        texts = {name: data.decode() for name, data in made.items()}
        write_atomic(self.folder / f"{key}.json", json.dumps(texts, ensure_ascii=False).encode())


def numbers(register: Register, book: Book) -> bytes:
    """What a page says of the others: the numbers of all targets, and the order and titles of the pages."""
    targets = [[key, t.page.path, t.word, t.number] for key, t in sorted(register.targets.items())]
    pages = [[page.path, page.kind] for page in book.pages]
    return json.dumps([targets, pages, book.site_url, book.repo_url]).encode()
