"""Seals: what keeps a recorded value from changing unnoticed before a chapter recomputes it.

A pending entry has nothing to be recomputed by, and no computation can tell what a source printed. So
``seals.txt`` in the ledger's folder holds a short hash of each entry's values. Whoever corrects an entry
replaces its seal by the one that the check prints. Words may change freely, and so may the way to recompute.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from modelcall.lab.ledger_form import Entry, LedgerError
from modelcall.lab.paths import data_dir

__all__ = ["load_seals", "seal"]

_SEALED = (
    "id",
    "inputs",
    "stated",
    "places",
    "computed",
    "unit",
    "relation",
    "tolerance",
    "verdict",
    "severity",
)


def seal(entry: Entry) -> str:
    """Return the first ten hex digits of the SHA-256 of an entry's values.

    >>> common = dict(id="B-x", section="B.1.2", stated=4, computed=4, verdict="ok", pending="ch01")
    >>> one, other = (Entry(statement=s, **common) for s in ("Two twos are 4.", "Twice two is 4."))
    >>> seal(one) == seal(other), seal(one) == seal(one.model_copy(update={"stated": 5}))
    (True, False)
    """
    values = {name: getattr(entry, name) for name in _SEALED}
    text = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:10]


def load_seals(folder: Path | None = None) -> dict[str, str]:
    """Return the seal of each id in a ledger's ``seals.txt``; the book's own by default.

    Raises:
        LedgerError: there is no such file, or a line of it is not an id and a seal.

    >>> len(load_seals())
    299
    """
    path = (data_dir("ledger") if folder is None else folder) / "seals.txt"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise LedgerError(f"{path.name}: {error.strerror}") from error
    seals = {}
    for number, line in enumerate(lines, 1):
        parts = line.split()
        if len(parts) != 2 or parts[0] in seals:
            raise LedgerError(f"{path.name}: line {number}: expected a new id and its seal; got {line!r}")
        seals[parts[0]] = parts[1]
    return seals
