"""The appendix that prints the ledger: every entry once, with the anchor that links need."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from modelcall.lab import ledger, ledger_page

ROOT = Path(__file__).resolve().parent.parent
ENTRIES = ledger.load()


def outputs() -> str:
    """Return all Markdown that the cells of the ledger page printed."""
    notebook = nbformat.read(ROOT / "chapters" / "ledger.ipynb", as_version=4)
    found = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n\n".join(output["data"]["text/markdown"] for output in found)


def test_every_entry_has_its_id_as_an_anchor_once() -> None:
    anchors = Counter(re.findall(r'<span id="([^"]+)">', outputs()))
    assert anchors == {entry.id: 1 for entry in ENTRIES}


def test_the_page_shows_what_the_ledger_says_now() -> None:
    text = outputs()
    assert ledger_page.counts_markdown(ledger.check()) in text
    for section in dict.fromkeys(entry.section for entry in ENTRIES):
        assert ledger_page.section_markdown(ENTRIES, section) in text, f"run the ledger page again: {section}"
    for entry in ENTRIES:
        assert ledger_page.entry_markdown(entry) in text, entry.id


def test_the_errata_come_first() -> None:
    heads = re.findall(r'<span id="([^"]+)">', outputs())
    assert set(heads[:30]) == {entry.id for entry in ENTRIES if entry.verdict == "erratum"}


def test_headings_name_the_sections_as_the_data_does() -> None:
    text = (ROOT / "chapters" / "ledger.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+) \(([AB]\.[\d.]+)\) \{", text, flags=re.M)
    assert {section: title for title, section in headings} == ledger.section_titles()


def test_links_into_the_ledger_find_their_entry() -> None:
    ids = {entry.id for entry in ENTRIES}
    links = 0
    for path in [*sorted((ROOT / "chapters").glob("*.md")), ROOT / "index.md"]:
        for label, target in re.findall(
            r"\[([^\]]+)\]\((?:chapters/)?ledger\.ipynb#([^)]+)\)", path.read_text(encoding="utf-8")
        ):
            links += 1
            assert target in ids or target.startswith("sec-"), f"{path.name}: no entry {target}"
            assert not re.fullmatch(r"[AB]-\S+", label) or label == target, (
                f"{path.name}: {label} leads to {target}"
            )
    assert links
    for target in re.findall(r"\]\(#([^)]+)\)", outputs()):
        assert target in ids


@pytest.mark.parametrize(
    ("value", "relation", "expected"),
    [
        (4096, "=", "4096"),
        (41943040000, "=", "41,943,040,000"),
        (0.006774519716885743, "=", "0.00677452"),
        (True, "=", "yes"),
        ([15, 35], "<", "under 15, under 35"),
        ([[0.2, 0.207], [0.4, 0.835]], "=", "0.2, 0.207; 0.4, 0.835"),
        ({"draft": [0.014, 0.043]}, "=", "draft: 0.014, 0.043"),
        ("TIMED_OUT", "=", "`TIMED_OUT`"),
        ("no stream", "=", "no stream"),
    ],
)
def test_values_read_well(value: object, relation: ledger.Relation, expected: str) -> None:
    assert ledger_page.value_markdown(value, relation) == expected


def test_an_unknown_section_or_severity_is_refused() -> None:
    with pytest.raises(ValueError, match=r"section: there is no 'C.1'"):
        ledger_page.section_markdown(ENTRIES, "C.1")
    with pytest.raises(ValueError, match="severity: no erratum is 'dire'"):
        ledger_page.errata_markdown(ENTRIES, "dire")
