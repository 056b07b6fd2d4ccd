"""Dated facts: shapes of models and sizes of devices, each with its document, its date and a shelf life.

A fact is a small table of values that some document states. ``data/facts.toml`` says which document, when
it was published, and when somebody last compared the two. Facts age: a device is sold in another size, a
default changes. So each has a *shelf life*, counted from the day it was checked, and reading one that is
past it warns, with the document to check again. A stale fact is still returned: it may well hold.

Nothing is fetched here, and nothing is derived: what follows from a fact is computed where it is used.
"""

from __future__ import annotations

import re
import tomllib
import warnings
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from modelcall.lab.paths import data_file

__all__ = ["Fact", "FactsError", "StaleFact", "fact", "known", "load", "stale"]

_ID = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)+")
_PUBLISHED = re.compile(r"\d{4}(?:-\d\d(?:-\d\d)?)?")


class FactsError(ValueError):
    """A file of facts that cannot be used, or a fact that is not in it."""


class StaleFact(UserWarning):
    """A fact that nobody has compared with its document for longer than its shelf life."""


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("expected some words")
    return text


Words = Annotated[str, AfterValidator(_said)]


class Fact(BaseModel):
    """One dated fact.

    Attributes:
        id: unique, such as ``"model.llama-3-70b"``.
        value: what the document states, by name; units are part of the names.
        title: the document; ``where``: how to find it; ``published``: its date, as precise as is known.
        checked: the day on which the value was last compared with the document.
        shelf_life_days: how long to rely on it from that day.

    >>> f = Fact(id="device.x", value={"capacity_GB": 80}, title="X data sheet", where="page 2",
    ...          published="2023", checked=date(2026, 1, 1), shelf_life_days=365)
    >>> f.expires, f.is_stale(date(2026, 12, 31)), f.is_stale(date(2027, 1, 2))
    (datetime.date(2027, 1, 1), False, True)
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str = Field(pattern=_ID.pattern)
    value: dict[str, bool | int | float | str] = Field(min_length=1)
    title: Words
    where: Words
    published: str = Field(pattern=f"^{_PUBLISHED.pattern}$")
    checked: date
    shelf_life_days: int = Field(ge=1)
    note: str = ""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.published > self.checked.isoformat():
            raise ValueError(f"checked on {self.checked}, before it was published ({self.published})")
        return self

    @property
    def expires(self) -> date:
        """The last day of the shelf life."""
        return self.checked + timedelta(days=self.shelf_life_days)

    def is_stale(self, today: date) -> bool:
        """Say whether the shelf life is over."""
        return today > self.expires


def load(path: Path | None = None, *, today: date | None = None) -> dict[str, Fact]:
    """Read all facts, the book's own by default, and warn of each that is past its shelf life.

    Raises:
        FactsError: the file cannot be read, or an entry is not a fact; the message names both.

    >>> load(today=date(2026, 12, 1))["model.llama-3-70b"].value["layers"]
    80
    """
    facts = _read(data_file("facts.toml") if path is None else path)
    for each in stale(facts, today):
        _warn(each, stacklevel=3)
    return dict(facts)


def fact(identifier: str, path: Path | None = None, *, today: date | None = None) -> Fact:
    """Return one fact, and warn if it is past its shelf life.

    Raises:
        FactsError: there is no such fact; the message lists those whose names begin alike.

    >>> fact("device.h100-80.label", today=date(2026, 12, 1)).value
    {'capacity_GB': 80}
    """
    facts = _read(data_file("facts.toml") if path is None else path)
    if identifier not in facts:
        family = identifier.partition(".")[0] + "."
        near = [name for name in facts if name.startswith(family)] or list(facts)
        raise FactsError(f"no fact {identifier!r}; there are {', '.join(near)}")
    found = facts[identifier]
    if found.is_stale(today or date.today()):
        _warn(found, stacklevel=3)
    return found


def known(prefix: str = "") -> tuple[str, ...]:
    """Return the names of the book's facts that begin with ``prefix``, in the order of the file.

    >>> known("device.h100-80")
    ('device.h100-80.label', 'device.h100-80.driver')
    """
    return tuple(name for name in _read(data_file("facts.toml")) if name.startswith(prefix))


def stale(facts: dict[str, Fact], today: date | None = None) -> list[Fact]:
    """Return the facts that are past their shelf life, in the order of the file."""
    day = today or date.today()
    return [each for each in facts.values() if each.is_stale(day)]


def _warn(old: Fact, stacklevel: int) -> None:
    message = (
        f"{old.id}: checked on {old.checked} and good until {old.expires}; "
        f"compare it with {old.title} ({old.where}) and set `checked` in data/facts.toml"
    )
    warnings.warn(message, StaleFact, stacklevel=stacklevel)


@cache
def _read(path: Path) -> dict[str, Fact]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FactsError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FactsError(f"{path}: not TOML in UTF-8: {error}") from None
    entries = table.pop("fact", None)
    if table or not isinstance(entries, list) or not entries:
        raise FactsError(f"{path}: expected [[fact]] tables and nothing else")
    facts: dict[str, Fact] = {}
    for place, entry in enumerate(entries, 1):
        name = entry.get("id", f"number {place}") if isinstance(entry, dict) else f"number {place}"
        try:
            read = Fact.model_validate(entry)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "entry"
            raise FactsError(f"{path}, fact {name}: {field}: {first['msg']}") from None
        if read.id in facts:
            raise FactsError(f"{path}, fact {read.id}: is there twice")
        facts[read.id] = read
    return facts
