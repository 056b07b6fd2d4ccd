"""The claim ledger: every checked claim of the two source chapters, recomputed by the book's own functions.

The ledger holds 299 claims. ``check`` does three things to each. It recomputes the value from the functions
that the chapters teach and compares it with the recorded one; it derives the verdict from what the
source stated and from that value; and it holds recorded values to their seals (see ``ledger_seal``). So
neither a wrong number nor a wrong verdict can stay. Words are compared as words: that a sentence of ours
says what the source says is for a reader to judge.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from modelcall.lab.ledger_compute import evaluate, plain
from modelcall.lab.ledger_form import Entry, LedgerError, Relation, Verdict, load, section_titles
from modelcall.lab.ledger_seal import load_seals, seal
from modelcall.lab.ledger_words import missing_numbers

__all__ = [
    "Entry",
    "LedgerError",
    "Problem",
    "Relation",
    "Report",
    "agrees",
    "check",
    "expected_verdict",
    "load",
    "load_seals",
    "recompute",
    "section_titles",
]

_EXACT = 1e-9  # relative: two float computations of one formula, in whatever order


@dataclass(frozen=True)
class Problem:
    """One entry that does not hold: what was expected, what was got."""

    id: str
    what: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.id}: {self.what}: expected {self.expected!r}, got {self.got!r}"


@dataclass(frozen=True)
class Report:
    """What a check found. ``computed`` and ``pending`` hold entry ids; a good report has no problems."""

    entries: list[Entry]
    computed: list[str]
    pending: list[str]
    problems: list[Problem]

    def verdicts(self, source: str = "AB") -> dict[str, int]:
        """Return how many entries of the source or sources have each verdict."""
        counts = Counter(entry.verdict for entry in self.entries if entry.source in source)
        order: tuple[Verdict, ...] = ("ok", "rounding", "erratum", "inconsistent", "not-checkable")
        return {verdict: counts[verdict] for verdict in order}

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain data, for ``modelcall ledger --check --json``."""
        return {
            "total": len(self.entries),
            "verdicts": self.verdicts(),
            "sources": {source: self.verdicts(source) for source in "AB"},
            "computed": self.computed,
            "pending": {
                chapter: [e.id for e in self.entries if e.pending == chapter]
                for chapter in sorted({e.pending for e in self.entries if e.pending})
            },
            "problems": [vars(problem) for problem in self.problems],
        }


def recompute(entry: Entry) -> Any:
    """Return the value that the chapters' functions give for an entry, in the types of TOML.

    Raises:
        LedgerError: the entry is pending, or its expression cannot be evaluated; the message says why.

    >>> recompute(next(entry for entry in load() if entry.id == "B-ceiling"))
    2.0
    """
    if entry.pending is not None:
        raise LedgerError(f"{entry.id}: pending, will be computed by {entry.pending}")
    try:
        return plain(evaluate(entry.compute, entry.inputs))
    except Exception as error:
        raise LedgerError(f"{entry.id}: compute: {type(error).__name__}: {error}") from error


def agrees(left: Any, right: Any, relation: Relation = "=", tolerance: float = 0.0) -> bool:
    """Tell whether ``left relation right`` holds for every number or text in two values of one shape.

    Numbers are equal within ``tolerance``, or within rounding error of float64; a truth value is no number.

    Raises:
        TypeError: the shapes differ, or an order is asked of what has none.

    >>> agrees([4.099, 3], [4.10, 3], tolerance=0.005), agrees(2.097, 2.1, ">")
    (True, False)
    """
    if isinstance(left, dict) and isinstance(right, dict) and set(left) == set(right):
        results = [agrees(left[key], right[key], relation, tolerance) for key in right]
        return all(results)  # after the list, so that a wrong shape further on is still an error
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            if relation == "=":
                return False
            raise TypeError(f"cannot compare {len(left)} values with {len(right)}")
        results = [agrees(a, b, relation, tolerance) for a, b in zip(left, right, strict=True)]
        return all(results)
    if _is_number(left) and _is_number(right):
        same = math.isclose(left, right, rel_tol=_EXACT, abs_tol=tolerance * (1 + _EXACT))
        above = left > right and not same
        return {"=": same, ">": above, "<": not same and not above, ">=": same or above, "<=": not above}[
            relation
        ]
    if type(left) is type(right) and isinstance(left, str | bool) and relation == "=":
        return bool(left == right)
    raise TypeError(f"cannot compare {left!r} with {right!r} by {relation!r}")


def expected_verdict(entry: Entry, value: Any) -> set[Verdict]:
    """Return the verdicts that the stated and the recomputed value allow.

    Equal is ok. Equal once rounded, which is within the tolerance, is rounding. Anything else is an erratum
    or an inconsistency; which of the two is a judgement that the entry records.

    Raises:
        TypeError: stated and recomputed value cannot be compared.

    >>> entry = Entry(id="A-x", section="A.2", statement="A density of 4.10.", stated=4.1, computed=4.0995,
    ...               tolerance=0.005, verdict="rounding", pending="ch03")
    >>> expected_verdict(entry, 4.0995), expected_verdict(entry, 4.2) == {"erratum", "inconsistent"}
    ({'rounding'}, True)
    """
    if entry.places is not None:
        values = list(entry.places.values())
        if all(type(item) is type(values[0]) and item == values[0] for item in values):
            return {"ok"}
        return {"inconsistent"}
    if entry.relation != "=":
        holds = agrees(value, entry.stated, entry.relation, entry.tolerance or 0.0)
        return {"ok"} if holds else {"erratum", "inconsistent"}
    if agrees(value, entry.stated):
        return {"ok"}
    if entry.tolerance and agrees(value, entry.stated, "=", entry.tolerance):
        return {"rounding"}
    return {"erratum", "inconsistent"}


def check(entries: list[Entry] | None = None, seals: dict[str, str] | None = None) -> Report:
    """Recompute every entry that is not pending and derive every verdict anew; the book's ledger by default.

    An entry that is still pending is held to its recorded value. With ``seals``, recorded values are also
    held to these; the book's own ledger always is.

    Raises:
        LedgerError: the ledger cannot be read. What does not hold is no error: it is in the report.

    >>> report = check()
    >>> len(report.entries), report.problems
    (299, [])
    """
    if entries is None:
        entries, seals = load(), load_seals()
    computed: list[str] = []
    problems = [] if seals is None else _seal_problems(entries, seals)
    for entry in entries:
        value = entry.computed
        if entry.pending is None:
            try:
                value = recompute(entry)
            except LedgerError as error:
                problems.append(Problem(entry.id, "recomputed value", entry.computed, str(error)))
                continue
            computed.append(entry.id)
            if not _same(value, entry.computed):
                problems.append(Problem(entry.id, "recomputed value", entry.computed, value))
                continue
        problems += _verdict_problems(entry, value)
    pending = [entry.id for entry in entries if entry.pending is not None]
    return Report(entries, computed, pending, problems)


def _seal_problems(entries: list[Entry], seals: dict[str, str]) -> list[Problem]:
    found = {entry.id: seal(entry) for entry in entries}
    what = "seal of the recorded values (a correction replaces it in seals.txt)"
    return [
        Problem(identifier, what, seals.get(identifier), found.get(identifier))
        for identifier in {**found, **seals}
        if seals.get(identifier) != found.get(identifier)
    ]


def _verdict_problems(entry: Entry, value: Any) -> list[Problem]:
    if entry.relation == "=" and (missing := missing_numbers(entry.statement, entry.stated)):
        return [Problem(entry.id, "statement", f"the stated {missing[0]!r} in it", entry.statement)]
    if entry.verdict == "not-checkable":
        return []
    if entry.tolerance and entry.verdict == "rounding" and not _is_last_digit(entry.stated, entry.tolerance):
        return [Problem(entry.id, "tolerance", "half a unit of the last digit stated", entry.tolerance)]
    try:
        allowed = expected_verdict(entry, value)
    except TypeError as error:
        return [Problem(entry.id, "stated and computed", "values of one shape", str(error))]
    if entry.verdict in allowed:
        return []
    return [Problem(entry.id, "verdict", " or ".join(sorted(allowed)), entry.verdict)]


def _same(left: Any, right: Any) -> bool:
    try:
        return agrees(left, right)
    except TypeError:
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_last_digit(stated: Any, tolerance: float) -> bool:
    """Tell whether a tolerance is at most half a unit of the last digit that some stated number shows."""
    if isinstance(stated, list | dict):
        items = stated.values() if isinstance(stated, dict) else stated
        return any(_is_last_digit(item, tolerance) for item in items)
    if not _is_number(stated):
        return False
    if stated == 0:
        return tolerance < 0.5
    exponent = Decimal(repr(stated)).normalize().as_tuple().exponent
    return tolerance <= 0.5 * 10.0 ** int(exponent) * (1 + _EXACT)
