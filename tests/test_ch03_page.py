"""The page of chapter 3: what it says that the source printed, and what it proves by running."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from modelcall.lab import ledger

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "chapters" / "03-tokens.md").read_text(encoding="utf-8")
NOTEBOOK = nbformat.read(ROOT / "chapters" / "03-tokens.ipynb", as_version=4)
BY_ID = {entry.id: entry for entry in ledger.load()}
PRINTED = "\n".join(
    output.get("text", "") for cell in NOTEBOOK.cells if cell.cell_type == "code" for output in cell.outputs
)


def test_what_the_source_printed_is_what_the_ledger_says() -> None:
    [ids] = re.findall(r"^stated = (\[755.*?\])  # input", TEXT, flags=re.M)
    assert ast.literal_eval(ids) == BY_ID["A-tok-unindented"].stated
    densities = {name: float(value) for name, value in re.findall(r'"([\w ]+)": (\d\.\d)[,}]', TEXT)}
    rows = {
        "prose": "prose",
        "Python": "python",
        "plain JSON": "json",
        "escaped call": "escaped",
        "hex": "hex",
    }
    assert densities == {label: BY_ID[f"A-T3-{row}"].stated for label, row in rows.items()}
    claimed: dict[str, Any] = ast.literal_eval(
        re.findall(r"^claimed = (.*?)  #|^claimed = (.*)$", TEXT, flags=re.M)[0][1]
    )
    assert claimed == {"inflation": BY_ID["A-T3-43"].stated["Python"], "loss": BY_ID["A-T3-58"].stated}
    [trace] = re.findall(r"^stated = (\{.*?\})  # input", TEXT, flags=re.M)
    assert ast.literal_eval(trace) == {
        "guess": BY_ID["A-2-heuristic"].stated,
        "true": BY_ID["A-2-trace"].stated,
    }


def test_every_comparison_with_tiktoken_on_the_page_found_no_difference() -> None:
    found = re.findall(r"(\d+) (?:blocks|texts), (\d+) differ, (\d+) do not come back", PRINTED)
    assert len(found) == 7 and sum(int(tried) for tried, _, _ in found) > 7000
    assert {(wrong, back) for _, wrong, back in found} == {("0", "0")}
    assert "500 broken byte strings: 500 as tiktoken, 500 come back" in PRINTED


def test_every_erratum_of_the_section_is_linked() -> None:
    own = [e for e in BY_ID.values() if e.section == "A.2" and "NM0.2" not in e.id and e.id != "A-GBGiB"]
    assert not any(entry.pending for entry in own)
    for entry in own:
        if entry.verdict in ("erratum", "inconsistent"):
            assert f"(ledger.ipynb#{entry.id})" in TEXT, entry.id


@pytest.mark.parametrize("name", ["hex", "uuid", "prose", "python", "json_compact", "escaped_1", "escaped_3"])
def test_densities_in_the_ledger_are_those_of_the_table(name: str) -> None:
    tables = [
        o["data"].get("text/markdown", "")
        for c in NOTEBOOK.cells
        for o in c.get("outputs", [])
        if "data" in o
    ]
    [row] = [line for table in tables for line in table.splitlines() if line.startswith(f"| {name} |")]
    density = float(row.split("|")[4])
    values = [
        value
        for entry in BY_ID.values()
        if entry.id.startswith("A-T3-plaus")
        for value in entry.computed.values()
    ]
    assert density in values
    assert any(
        f"{density:.2f}" in entry.note for entry in BY_ID.values() if entry.id.startswith("A-T3-plaus")
    ) or (name.startswith("escaped"))
