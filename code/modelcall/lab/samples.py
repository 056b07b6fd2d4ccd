"""The shipped samples: texts of the kinds that agents send, for measuring tokens.

``data/samples/README.md`` says what each is and who wrote it. Nothing is measured here.
"""

from __future__ import annotations

from functools import cache

from modelcall.lab import args
from modelcall.lab.paths import data_dir

__all__ = ["names", "sample"]


@cache
def names() -> tuple[str, ...]:
    """Return the names of all samples, in alphabetical order.

    >>> names()[:3]
    ('arabic', 'asan', 'base64')
    """
    return tuple(sorted(path.stem for path in data_dir("samples").glob("*.txt")))


def sample(name: str) -> str:
    """Return the text of a sample.

    Raises:
        ValueError: there is none of that name.

    >>> sample("prose")[:7], len(sample("hex"))
    ('A queue', 3120)
    """
    if name not in names():
        raise ValueError(f"name: expected one of {', '.join(names())}; {args.found(name)}")
    return _text(name)


@cache
def _text(name: str) -> str:
    return (data_dir("samples") / f"{name}.txt").read_bytes().decode("utf-8")
