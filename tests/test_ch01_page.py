"""The page of chapter 1 against the chapter it accompanies: what that one prints, this one prints too.

The expected lines are the printed results of *The Operational On-Ramp*, sections 1.1 to 1.3. They must
appear to the letter, in order; where they are wrong, the page has to print the right value as well.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOK = Path(__file__).resolve().parent.parent / "chapters" / "01-on-ramp.ipynb"

STATED = {
    "B-cell-01": ["not covered -> [-0.11, -0.42]"],
    "B-cell-02": [
        "the          ->  1 tokens  ['the</w>']",
        "refund       ->  1 tokens  ['refund</w>']",
        "policy       ->  1 tokens  ['policy</w>']",
        "denies       ->  6 tokens  ['d', 'e', 'n', 'i', 'e', 's</w>']",
        "Wagnersløv   -> 10 tokens  ['W', 'a', 'g', 'n', 'er', 's', 'l', 'ø', 'v', '</w>']",
        "a            ->  1 tokens  ['a</w>']",
        "",
        "7 words -> 20 tokens",
    ],
    "B-cell-03": [
        "first ids: {'</w>': 0, 'W': 1, 'a': 2, 'a</w>': 3, 'd': 4, 'e': 5}",
        "ids for 'refund': [12]",
    ],
    "B-cell-04": [
        "T=0.5:  not=0.747  sometimes=0.184  usually=0.055  always=0.014",
        "T=1.0:  not=0.525  sometimes=0.261  usually=0.143  always=0.071",
        "T=2.0:  not=0.385  sometimes=0.272  usually=0.201  always=0.142",
    ],
    "B-cell-05": [
        "same seed twice: 0 0",
        "seeds 0..5:      ['usually', 'not', 'always', 'not', 'not', 'sometimes']",
        "T=0.5:  top-token share=0.75  entropy=1.08 bits  "
        "{'sometimes': 76, 'not': 301, 'usually': 22, 'always': 1}",
        "T=1.0:  top-token share=0.55  entropy=1.67 bits  "
        "{'usually': 57, 'not': 219, 'always': 24, 'sometimes': 100}",
        "T=2.0:  top-token share=0.40  entropy=1.91 bits  "
        "{'usually': 68, 'not': 159, 'always': 58, 'sometimes': 115}",
    ],
}

# What the page has to print beside a stated value that is wrong or that no run can give.
CORRECTED = {
    "B-20tok": "21 tokens",
    "B-80merges": "65 merges learned, 80 asked for",
    "B-vocab": "341 ids: 256 bytes and 85 learned entries",
    "B-entropy": "T=0.5: distribution 1.08 bits, samples 1.02 bits",
    "B-seeds": "always at T=0.5: expected 5.5, seen 1",
    "B-prompt18": "7 tokens in cl100k_base, 18 stated",
    "B-usage-cl100k": "17 tokens in cl100k_base, 21 stated",
}
EXPLAINED = {*CORRECTED, "B-stream", "B-recorded"}
# Of these, what the source has wrong or contradicts; the others are values that nothing can check.
ERRATA = EXPLAINED - {"B-seeds", "B-prompt18", "B-usage-cl100k"}
MARGIN_NOTE = r"^::: \{(\.column-margin(?: \.erratum)?)\}\n(.*?)\n:::$"


def cells() -> list[nbformat.NotebookNode]:
    return list(nbformat.read(NOTEBOOK, 4).cells)


def printed() -> list[list[str]]:
    return [
        "".join(output.text for output in cell.outputs if output.output_type == "stream").split("\n")
        for cell in cells()
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize("claim", STATED)
def test_the_printed_results_of_the_source_are_printed_here(claim: str) -> None:
    lines = STATED[claim]
    assert any(
        block[start : start + len(lines)] == lines for block in printed() for start in range(len(block))
    ), f"{claim}: no cell prints these lines in a row"


@pytest.mark.parametrize("claim", CORRECTED)
def test_the_corrected_value_is_printed_too(claim: str) -> None:
    assert any(CORRECTED[claim] in line for block in printed() for line in block)


@pytest.mark.parametrize("claim", sorted(EXPLAINED))
def test_the_margin_says_why_and_links_the_ledger(claim: str) -> None:
    prose = "\n".join(cell.source for cell in cells() if cell.cell_type == "markdown")
    link = f"[{claim}](ledger.ipynb#{claim})"
    assert prose.count(link) == 1
    notes = re.findall(MARGIN_NOTE, prose, flags=re.M | re.S)
    [(kind, note)] = [found for found in notes if link in found[1]]
    assert kind.endswith(" .erratum") == (claim in ERRATA) == note.startswith("**Erratum.** ")
