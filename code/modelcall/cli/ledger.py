"""``modelcall ledger``: recompute the claim ledger, or print one of its entries."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelcall.lab.ledger import Entry, Report

HELP = "recompute every claim of the two source chapters that a chapter has taken up"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``modelcall ledger``."""
    parser.add_argument(
        "--folder", type=Path, help="read the ledger from this folder instead of the book's own"
    )
    parser.add_argument(
        "--check", action="store_true", help="recompute all entries; exit 1 if one does not hold"
    )
    parser.add_argument("--json", action="store_true", help="print the result of --check as JSON")
    actions = parser.add_subparsers(dest="action", metavar="show ID", title="actions")
    show = actions.add_parser("show", help="print one entry", description="Print one entry of the ledger.")
    show.add_argument("id", help="for example B-20tok")
    parser.set_defaults(parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Do what the arguments say and return the exit status."""
    from modelcall.lab import ledger

    if arguments.check == (arguments.action == "show"):
        arguments.parser.error("expected either --check or show ID")
    if arguments.json and not arguments.check:
        arguments.parser.error("--json goes with --check")
    try:
        entries, seals = ledger.load(arguments.folder), ledger.load_seals(arguments.folder)
    except ledger.LedgerError as error:
        print(f"modelcall ledger: {error}", file=sys.stderr)
        return 2
    if arguments.check:
        report = ledger.check(entries, seals)
        print(
            json.dumps(report.as_json(), indent=2, ensure_ascii=False) if arguments.json else summary(report)
        )
        for problem in report.problems:
            print(f"modelcall ledger: {problem}", file=sys.stderr)
        return 1 if report.problems else 0
    found = [entry for entry in entries if entry.id == arguments.id]
    if not found:
        near = [entry.id for entry in entries if arguments.id.lower() in entry.id.lower()]
        hint = f"; there are {', '.join(near[:8])}" if near else ""
        print(f"modelcall ledger: no entry {arguments.id!r}{hint}", file=sys.stderr)
        return 2
    print(describe(found[0]))
    return 0


def summary(report: Report) -> str:
    """Return the counts of a report: entries by source and verdict, computed and pending by section."""
    counts = report.verdicts()
    lines = ["source " + " ".join(f"{name:>13}" for name in counts) + "  total"]
    for name, source in (("A", "A"), ("B", "B"), ("both", "AB")):
        row = report.verdicts(source)
        lines.append(f"{name:6} " + " ".join(f"{n:13}" for n in row.values()) + f" {sum(row.values()):6}")
    lines += ["", "section   computed  pending"]
    for section in dict.fromkeys(entry.section for entry in report.entries):
        inside = [entry for entry in report.entries if entry.section == section]
        chapters = sorted({entry.pending for entry in inside if entry.pending})
        waiting = sum(entry.pending is not None for entry in inside)
        lines.append(f"{section:9} {len(inside) - waiting:8} {waiting:8}  {' '.join(chapters)}".rstrip())
    lines.append(f"{'all':9} {len(report.computed):8} {len(report.pending):8}")
    lines += ["", f"{len(report.problems)} of {len(report.entries)} entries do not hold"]
    return "\n".join(lines)


def describe(entry: Entry) -> str:
    """Return one entry as aligned lines of text."""
    from modelcall.lab import ledger

    rows = {
        "id": entry.id,
        "where": f"{entry.section} {entry.place}".strip(),
        "statement": entry.statement,
        "inputs": entry.inputs or None,
        "stated": entry.stated,
        "places": entry.places,
        "computed": entry.computed,
        "unit": entry.unit or None,
        "relation": None if entry.relation == "=" else f"computed {entry.relation} stated",
        "tolerance": entry.tolerance,
        "verdict": entry.verdict + (f" ({entry.severity})" if entry.severity else ""),
        "note": entry.note or None,
        "pending": entry.pending,
    }
    if entry.pending is None:
        rows["recomputed"] = ledger.recompute(entry)
    lines = []
    for name, value in rows.items():
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            value = "\n           ".join(value)
        if value is not None:
            lines.append(f"{name:10} {value}")
    return "\n".join(lines)
