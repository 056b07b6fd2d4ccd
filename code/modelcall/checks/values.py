"""Values that checks feed to answers or read from them.

What stands here is for situations that a plain value cannot show: the hash of a text differs between
processes, and a class that a notebook defines is not the package's class of the same name.
"""

from __future__ import annotations

import builtins
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import fields
from types import ModuleType
from typing import Any

__all__ = ["SaltedText", "retyped", "salted_hash"]


class SaltedText(str):
    """A text whose hash depends on ``salt``, as that of every text depends on its process."""

    __slots__ = ("salt",)
    salt: int

    def __new__(cls, text: str, salt: int) -> SaltedText:
        made = super().__new__(cls, text)
        made.salt = salt
        return made

    def __hash__(self) -> int:
        return hash((str(self), self.salt))

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True

    def __deepcopy__(self, memo: dict[int, Any]) -> SaltedText:
        return self


@contextlib.contextmanager
def salted_hash(salt: int) -> Iterator[None]:
    """Let ``hash`` give this thread another value for what has text in it, as another process would."""
    real, here = builtins.hash, threading.get_ident()

    def salted(value: object) -> int:
        plain = real(value)
        return real((salt, plain)) if threading.get_ident() == here and _has_text(value) else plain

    builtins.hash = salted
    try:
        yield
    finally:
        builtins.hash = real


def _has_text(value: object) -> bool:
    if isinstance(value, tuple | frozenset):
        return any(map(_has_text, value))
    return isinstance(value, str | bytes)


def retyped(value: Any, kind: type[Any], module: ModuleType) -> Any:
    """Return a dataclass value as one of ``kind``, its members as classes of the same names in ``module``.

    Raises:
        TypeError, AttributeError: the value has not the fields of ``kind``.
    """
    if isinstance(value, kind):
        return value

    def own(part: Any) -> Any:
        twin = getattr(module, type(part).__name__, None)
        if twin is not None and not isinstance(part, twin):
            return retyped(part, twin, module)
        if isinstance(part, tuple):
            return tuple(own(each) for each in part)
        return {key: own(each) for key, each in part.items()} if isinstance(part, dict) else part

    return kind(**{field.name: own(getattr(value, field.name)) for field in fields(kind)})
