"""The form of the claim ledger: what one entry says, and how the files are read.

A ledger is a folder of TOML files, one for each section of the two source chapters. Every entry states one
claim in our words, the value printed there, the value found by recomputing, and a verdict. How the value
is recomputed is an expression over functions that the chapters teach (see ``ledger_compute``); an entry
whose chapter is not written yet is *pending* and names that chapter instead.

This module reads and validates. It computes nothing: ``ledger`` does.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from modelcall.lab.paths import data_dir

__all__ = ["Entry", "LedgerError", "Relation", "Severity", "Verdict", "load"]

Verdict = Literal["ok", "rounding", "erratum", "inconsistent", "not-checkable"]
Severity = Literal["material", "minor", "last digit", "notation", "citation"]
Relation = Literal["=", "<", "<=", ">", ">="]

_ID = re.compile(r"[AB](-[A-Za-z0-9.]+)+")
_SECTION = re.compile(r"A\.\d|B\.1\.\d")
_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_CHAPTER = re.compile(r"ch(0[1-9]|1[0-3])")
# An expression may use the package, and of the standard library only what combines values.
_ROOTS = {"modelcall", "builtins", "collections", "math", "operator", "random"}
# what tells an expression's kind -> the keys it may have
_ALLOWED = {
    "call": {"call", "args", "kwargs", "pick", "round"},
    "name": {"name", "pick", "round"},
    "input": {"input", "pick", "round"},
    "each": {"each", "do", "pick", "round"},
    "value": {"value"},
}


class LedgerError(ValueError):
    """A ledger file that cannot be used; the message names the file and, where there is one, the entry."""


class Entry(BaseModel):
    """One claim of a source, and what became of it.

    ``stated`` is what the source prints. Where it says different things in different places, ``places``
    holds them instead. ``computed`` is the value that recomputing must give. ``relation`` is how the claim
    sets the two, read "computed ``relation`` stated"; ``tolerance`` is half a unit of the last printed digit.

    >>> Entry(id="B-x", section="B.1.2", statement="Two and two are five.", stated=5, computed=4,
    ...       verdict="erratum", severity="material", note="It is four.", pending="ch01").source
    'B'
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str
    section: str
    statement: str = Field(min_length=8)
    place: str = ""
    inputs: dict[str, Any] = Field(default_factory=dict)
    stated: Any = None
    places: dict[str, Any] | None = None
    computed: Any = None
    unit: str = ""
    relation: Relation = "="
    tolerance: float | int | None = None
    verdict: Verdict
    severity: Severity | None = None
    note: str = ""
    compute: Any = None
    pending: str | None = None

    @property
    def source(self) -> str:
        """``"A"`` for The Foundation Model, ``"B"`` for The Operational On-Ramp."""
        return self.id[0]

    @field_validator("id")
    @classmethod
    def _id(cls, value: str) -> str:
        if not _ID.fullmatch(value):
            raise ValueError(f"expected A-... or B-... of letters, digits, dots and dashes; got {value!r}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not _SECTION.fullmatch(self.section) or self.section[0] != self.id[0]:
            raise ValueError(
                f"section: expected one of source {self.id[0]}, like A.7 or B.1.2; got {self.section!r}"
            )
        if (self.stated is None) == (self.places is None):
            raise ValueError("expected either 'stated' or 'places'")
        if self.places is not None and (self.verdict != "inconsistent" or len(self.places) < 2):
            raise ValueError("places: expected two or more, and the verdict 'inconsistent'")
        if self.computed is None and self.places is None and self.verdict != "not-checkable":
            raise ValueError(f"computed: missing, and the verdict is {self.verdict!r}")
        if (self.severity is not None) != (self.verdict in ("erratum", "inconsistent")):
            raise ValueError(f"severity: got {self.severity!r} with the verdict {self.verdict!r}")
        if self.verdict in ("not-checkable", "erratum") and not self.note:
            raise ValueError(f"note: missing, and the verdict is {self.verdict!r}")
        if self.tolerance is not None and not 0 < self.tolerance < float("inf"):
            raise ValueError(f"tolerance: expected a positive number; got {self.tolerance!r}")
        if (self.compute is None) == (self.pending is None):
            raise ValueError("expected either 'compute' or 'pending'")
        if self.pending is not None and not _CHAPTER.fullmatch(self.pending):
            raise ValueError(f"pending: expected a chapter, ch01 to ch13; got {self.pending!r}")
        if self.compute is not None:
            if self.computed is None:
                raise ValueError("computed: missing, and there is a 'compute'")
            paths = set(_paths(self.compute, set(self.inputs)))
            if not any(path.startswith("modelcall.") for path in paths):
                raise ValueError("compute: expected a function of the package; found none")
        return self


def _paths(node: Any, inputs: set[str]) -> list[str]:
    """Return the dotted paths in an expression, and refuse a malformed one.

    Raises:
        ValueError: an unknown key, a path that is malformed or outside the allowed roots, an unknown input.
    """
    if isinstance(node, list):
        return [path for item in node for path in _paths(item, inputs)]
    if not isinstance(node, dict):
        return []
    kind = next((key for key in _ALLOWED if key in node), None)
    if kind is None:
        raise ValueError(f"compute: expected one of {sorted(_ALLOWED)}; got the keys {sorted(node)}")
    if extra := set(node) - _ALLOWED[kind]:
        raise ValueError(f"compute: {kind!r} takes no {sorted(extra)}")
    found: list[str] = []
    if kind in ("call", "name"):
        path = node[kind]
        if not isinstance(path, str) or not _PATH.fullmatch(path) or path.split(".")[0] not in _ROOTS:
            raise ValueError(f"compute: expected a dotted path into one of {sorted(_ROOTS)}; got {path!r}")
        found.append(path)
    if kind in ("input", "each") and node[kind] not in inputs:
        raise ValueError(f"compute: there is no input {node[kind]!r}; there are {sorted(inputs)}")
    if kind == "each" and "do" not in node:
        raise ValueError("compute: 'each' needs a 'do'")
    for child in (node.get("args", []), list(node.get("kwargs", {}).values()), node.get("do")):
        found += _paths(child, inputs)
    return found


def load(folder: Path | None = None) -> list[Entry]:
    """Read and validate every file of a ledger; the book's own by default.

    Entries come in the order of the files' names, and within a file in its order.

    Raises:
        LedgerError: a file is no TOML, a key is missing, unknown or wrong, or an id occurs twice.

    >>> next(entry.stated for entry in load() if entry.id == "B-20tok")
    20
    """
    folder = data_dir("ledger") if folder is None else folder
    entries: list[Entry] = []
    seen: dict[str, str] = {}
    for path in sorted(folder.glob("*.toml")):
        for entry in _read(path):
            if entry.id in seen:
                raise LedgerError(f"{path.name}: {entry.id}: already in {seen[entry.id]}")
            seen[entry.id] = path.name
            entries.append(entry)
    if not entries:
        raise LedgerError(f"{folder}: no entries found in *.toml")
    return entries


def section_titles(folder: Path | None = None) -> dict[str, str]:
    """Return the title of every section that has a file, in the order of the files' names.

    Raises:
        LedgerError: a file is no TOML.

    >>> section_titles()["B.1.3"]
    'Sampling'
    """
    folder = data_dir("ledger") if folder is None else folder
    tables = [_table(path) for path in sorted(folder.glob("*.toml"))]
    return {table["section"]: table["title"] for table in tables}


def _table(path: Path) -> dict[str, Any]:
    """Read one file and check its top level."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LedgerError(f"{path.name}: {error}") from error
    if set(table) != {"section", "title", "entry"} or not isinstance(table["entry"], list):
        raise LedgerError(f"{path.name}: expected section, title and [[entry]] tables; got {sorted(table)}")
    return table


def _read(path: Path) -> list[Entry]:
    """Read one file; errors name the file and the entry."""
    table = _table(path)
    entries = []
    for number, raw in enumerate(table["entry"], 1):
        name = raw.get("id", f"entry {number}")
        try:
            if "section" in raw:
                raise ValueError("section: stands at the top of the file, not in an entry")
            entries.append(Entry(section=table["section"], **raw))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            message = first["msg"].removeprefix("Value error, ")
            raise LedgerError(f"{path.name}: {name}: {where + ': ' if where else ''}{message}") from error
        except (TypeError, ValueError) as error:
            raise LedgerError(f"{path.name}: {name}: {error}") from error
    return entries
