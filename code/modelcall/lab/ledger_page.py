"""The ledger as Markdown, for the appendix that prints it.

Each entry is one short paragraph with an anchor, so that 299 of them stay readable on a phone and other pages
can link to any: ``ledger.ipynb#B-20tok``. Errata come first, in full; their sections only point to them.
What is recomputed is computed while the page is made; of a pending entry the recorded value is shown.
"""

from __future__ import annotations

import re
from typing import Any

from modelcall.lab.ledger import Entry, Relation, Report, recompute

__all__ = [
    "counts_markdown",
    "entry_markdown",
    "errata_markdown",
    "number",
    "section_markdown",
    "value_markdown",
]

_RELATION = {"=": "", "<": "under ", "<=": "at most ", ">": "over ", ">=": "at least "}
_PATH = r"'{}': '(modelcall\.[\w.]+)'"


def number(value: float | int) -> str:
    """Return a number for reading: thousands set off, floats to six digits.

    >>> number(256000), number(0.9589271392195755), number(2.788e10)
    ('256,000', '0.958927', '2.788e+10')
    """
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return f"{value:.6g}"


def value_markdown(value: Any, relation: Relation = "=") -> str:
    """Return a value of the ledger in one line of Markdown; ``relation`` goes before each number.

    >>> value_markdown([0.5, 1.0]), value_markdown({"on one device": 80}, "<")
    ('0.5, 1', 'on one device: under 80')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _RELATION[relation] + number(value)
    if isinstance(value, str):
        return f"`{value}`" if re.search(r"[^\w ,.;:+&-]|_|^ | $", value) else value
    if isinstance(value, dict):
        items = [f"{value_markdown(key)}: {value_markdown(item, relation)}" for key, item in value.items()]
        return "; ".join(items)
    mark = "; " if any(isinstance(item, list) for item in value) else ", "
    return mark.join(value_markdown(item, relation) for item in value)


def _with_unit(label: str, value: Any, unit: str, relation: Relation = "=") -> str:
    """Label a value; the unit follows a number or a list of numbers, and stands before anything else."""
    items = value if isinstance(value, list) else [value]
    numbers = all(isinstance(item, int | float) and not isinstance(item, bool) for item in items)
    text = value_markdown(value, relation)
    if not unit:
        return f"{label}: {text}."
    return f"{label}: {text} {unit}." if numbers else f"{label} ({unit}): {text}."


def entry_markdown(entry: Entry) -> str:
    """Return one entry as a paragraph: id, verdict, statement, the two values, the reason.

    >>> from modelcall.lab.ledger import load
    >>> print(entry_markdown(next(e for e in load() if e.id == "B-20tok")).splitlines()[0])
    <span id="B-20tok">**B-20tok**</span> · **erratum**, material\\
    """
    head = f'<span id="{entry.id}">**{entry.id}**</span> · **{entry.verdict}**'
    head += f", {entry.severity}" if entry.severity else ""
    head += f" · {entry.place}" if entry.place else ""
    if entry.pending:
        what = "taken up" if entry.verdict == "not-checkable" else "recomputed"
        head += f" · *to be {what} in chapter {int(entry.pending[2:])}*"
    values = _values(entry)
    lines = [head, entry.statement, *([values] if values else []), *([entry.note] if entry.note else [])]
    return "\\\n".join(lines)


def _values(entry: Entry) -> str:
    computed = entry.computed if entry.pending else recompute(entry)
    if entry.unit == "stdout":
        return "Printed again to the letter by `" + "`, `".join(_functions(entry)) + "`."
    stated = entry.places if entry.places is not None else entry.stated
    how = "" if entry.pending else " With `" + "`, `".join(_functions(entry)) + "`."
    found = "recorded" if entry.pending else "recomputed"
    if entry.relation == "=" and computed is not None and value_markdown(stated) == value_markdown(computed):
        return _with_unit(f"Stated and {found}", stated, entry.unit) + how
    text = _with_unit("Stated", stated, entry.unit, entry.relation)
    return text if computed is None else f"{text} {_with_unit(found.title(), computed, entry.unit)}{how}"


def _functions(entry: Entry) -> list[str]:
    """Return the package's functions that an entry calls, each once, outermost first; else what it names."""
    text = repr(entry.compute)
    found = re.findall(_PATH.format("call"), text) or re.findall(_PATH.format("name"), text)
    return list(dict.fromkeys(found))


def counts_markdown(report: Report) -> str:
    """Return the counts of a report as a Markdown table: verdicts by sources, and what is pending.

    >>> from modelcall.lab.ledger import check
    >>> print(counts_markdown(check()).splitlines()[2])
    | ok | 69 | 37 | 106 |
    """
    columns = [report.verdicts(sources) for sources in ("A", "B", "AB")]
    lines = ["| verdict | A | B | both |", "|---|---:|---:|---:|"]
    rows = {verdict: [column[verdict] for column in columns] for verdict in columns[0]}
    rows["all"] = [sum(column.values()) for column in columns]
    waiting = [[name for name in report.pending if name[0] in sources] for sources in ("A", "B", "AB")]
    rows["of these pending"] = [len(names) for names in waiting]
    lines += [f"| {name} | " + " | ".join(map(str, row)) + " |" for name, row in rows.items()]
    return "\n".join(lines)


def errata_markdown(entries: list[Entry], severity: str) -> str:
    """Return the errata of one severity in full.

    Raises:
        ValueError: there are none.

    >>> from modelcall.lab.ledger import load
    >>> errata_markdown(load(), "material").count("**erratum**")
    13
    """
    chosen = [entry for entry in entries if entry.verdict == "erratum" and entry.severity == severity]
    if not chosen:
        raise ValueError(f"severity: no erratum is {severity!r}")
    return "\n\n".join(entry_markdown(entry) for entry in chosen)


def section_markdown(entries: list[Entry], section: str) -> str:
    """Return the entries of one section; an erratum is a link to its full text.

    Raises:
        ValueError: there is no such section.

    >>> from modelcall.lab.ledger import load
    >>> print(section_markdown(load(), "B.1.2").splitlines()[0])
    <span id="B-run-02">**B-run-02**</span> · **ok**\\
    """
    chosen = [entry for entry in entries if entry.section == section]
    if not chosen:
        raise ValueError(f"section: there is no {section!r}")
    blocks = []
    for entry in chosen:
        if entry.verdict == "erratum":
            blocks.append(
                f"[{entry.id}](#{entry.id}) · **erratum**, {entry.severity}, see above\\\n{entry.statement}"
            )
        else:
            blocks.append(entry_markdown(entry))
    return "\n\n".join(blocks)
