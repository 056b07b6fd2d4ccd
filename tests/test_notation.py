"""Notation: one symbol, one meaning; and a glossary that knows every term the chapters define."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from modelcall.lab import notation

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = sorted((ROOT / "chapters").glob("[0-9][0-9]-*.md"))
SYMBOLS = [symbol for group in notation.SYMBOLS.values() for symbol in group]


def key(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def defined_terms(text: str) -> list[str]:
    """Return what a page sets in bold in its prose, the run-in headings such as **Predict.** left out."""
    prose = re.sub(r"^(```+).*?^\1$", "", text, flags=re.M | re.S)
    return [found for found in re.findall(r"\*\*([^*\n]+)\*\*", prose) if not found.endswith((".", ":", "?"))]


def test_no_symbol_has_two_meanings_and_no_meaning_two_symbols() -> None:
    assert max(Counter(symbol.tex for symbol in SYMBOLS).values()) == 1
    assert max(Counter(symbol.meaning for symbol in SYMBOLS).values()) == 1


def test_symbols_that_the_sources_confuse_are_kept_apart() -> None:
    meaning = {symbol.tex: symbol for symbol in SYMBOLS}
    assert meaning[r"T_{\max}"].unit == "s" and meaning[r"K_{\max}"].unit == "tokens"
    assert meaning["T"].unit == "" and "temperature" in meaning["T"].meaning
    assert "window" in meaning[r"S_{\max}"].meaning and r"S_{\text{total}}" not in meaning
    assert "parameters" in meaning["P"].meaning and "accepted" in meaning[r"\alpha"].meaning


def test_terms_are_in_alphabetical_order_and_unique() -> None:
    names = [term.name.lower() for term in notation.TERMS]
    assert names == sorted(set(names))
    anchors = [term.anchor for term in notation.TERMS]
    assert len(set(anchors)) == len(anchors)


def test_every_entry_is_a_short_sentence_of_a_planned_chapter() -> None:
    for term in notation.TERMS:
        assert 1 <= term.chapter <= 13, term.name
        assert term.meaning[0].isupper() and term.meaning.endswith((".", "?")), term.name
        assert len(term.meaning.split()) <= 25, term.name


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_term_that_a_chapter_defines_is_in_the_glossary(path: Path) -> None:
    known = {key(term.name) for term in notation.TERMS}
    found = defined_terms(path.read_text(encoding="utf-8"))
    assert found
    unknown = [
        term for term in found if not {re.sub(f"{end}$", "", key(term)) for end in ("", "s", "ed")} & known
    ]
    assert unknown == [], f"{path.name}: set in bold, and not in the glossary"


def test_bold_in_code_and_run_in_headings_are_no_terms() -> None:
    text = "A **logit** is. **Predict.** What?\n\n```{code-cell}\nx = 2 **n** 3\n```\n\n**softmax**\n"
    assert defined_terms(text) == ["logit", "softmax"]


def test_the_chapters_that_exist_are_linked() -> None:
    existing = {int(path.name[:2]): path.with_suffix(".ipynb").name for path in CHAPTERS}
    assert existing == notation.CHAPTERS


def test_the_page_shows_the_tables_of_the_package() -> None:
    notebook = nbformat.read(ROOT / "chapters" / "notation.ipynb", as_version=4)
    found = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = [output["data"]["text/markdown"] for output in found if output.output_type == "execute_result"]
    assert shown == [*map(notation.symbols_markdown, notation.SYMBOLS), notation.terms_markdown()]


def test_an_unknown_group_is_refused() -> None:
    with pytest.raises(ValueError, match="group: expected one of One call"):
        notation.symbols_markdown("Money")
