"""The page of chapter 1, sections from confidence to exercises, against the chapter it accompanies.

What that one prints, this one prints to the letter, as ``test_ch01_page`` does for the sections before. A
stated value that is wrong stands in a margin note, beside the right one and a link to the ledger.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

import prose_numbers

NOTEBOOK = Path(__file__).resolve().parent.parent / "chapters" / "01-on-ramp.ipynb"

STATED = {
    "B-cell-06": [
        "per-token confidence: [0.97, 0.98, 0.951, 0.97, 0.961, 0.98, 0.942, 0.97, 0.98, 0.961]",
        "mean per-token confidence: 0.967",
        "factual correctness: FALSE — the treaty does not exist",
    ],
    "B-cell-08": [
        "treaty (0.97 conf, 0.0 evidence): abstain",
        "refund (0.90 conf, 0.9 evidence): answer",
        "vague  (0.60 conf, 0.3 evidence): retrieve",
    ],
    "B-cell-09": [
        "TTFT   =  328.0 ms   (queue + prefill of 800 tokens + first token)",
        "TPOT   =   18.3 ms   (mean gap across 20 tokens)",
        "total  =  675.6 ms",
    ],
    "B-cell-10": [
        "raw call = 0.1200 USD   success=0.95   cost per resolved task = 0.1263 USD",
        "raw call = 0.1200 USD   success=0.60   cost per resolved task = 0.2000 USD",
    ],
    "B-cell-11": [
        "conventional         +  0.00 USD/task   cumulative   0.00 USD/task",
        "one model call       +  0.52 USD/task   cumulative   0.52 USD/task",
        "fixed workflow       +  1.06 USD/task   cumulative   1.58 USD/task",
        "bounded agent        +  3.14 USD/task   cumulative   4.72 USD/task",
        "coordinated agents   +  4.34 USD/task   cumulative   9.06 USD/task",
        "delegated operation  +  8.68 USD/task   cumulative  17.74 USD/task",
    ],
}
# claim -> a number of the source and a number of ours that the margin note has to hold
EXPLAINED = {
    "B-live": "",
    "B-calib": "1.01",
    "B-decide": "0.97 0.69 0.60",
    "B-opening": "",
    "B-fig15": "365.9 347.6",
    "B-ttft-def": "8.0",
    "B-price": "1,000 0.00012",
    "B-fig18": "7%",
    "B-callcost": "0.12 0.02 23.96 31%",
    "B-memo": "0.50 0.52",
    "B-levels": "",
}
ERRATA = EXPLAINED.keys() - {"B-live", "B-calib", "B-price"}
INPUTS = ["treaty_logprobs = [", "stated = [0.95", "LADDER: tuple[Rung, ...] = (", "printed = PriceSnapshot("]


def cells() -> list[nbformat.NotebookNode]:
    return list(nbformat.read(NOTEBOOK, 4).cells)


@pytest.mark.parametrize("claim", STATED)
def test_the_printed_results_of_the_source_are_printed_here(claim: str) -> None:
    blocks = [
        "".join(output.text for output in cell.outputs if output.output_type == "stream").split("\n")
        for cell in cells()
        if cell.cell_type == "code"
    ]
    lines = STATED[claim]
    assert any(
        all(got.startswith(want) for got, want in zip(block[start:], lines, strict=False))
        and len(block) - start >= len(lines)
        for block in blocks
        for start in range(len(block))
    ), f"{claim}: no cell prints these lines in a row"


@pytest.mark.parametrize("claim", EXPLAINED)
def test_the_margin_shows_both_values_and_links_the_ledger(claim: str) -> None:
    prose = "\n".join(cell.source for cell in cells() if cell.cell_type == "markdown")
    notes = re.findall(r"^::: \{\.column-margin( \.erratum)?\}\n(.*?)\n:::$", prose, flags=re.M | re.S)
    link = f"[{claim}](ledger.ipynb#{claim})"
    [(kind, note)] = [found for found in notes if link in found[1]]
    assert prose.count(link) == 1
    assert bool(kind) == (claim in ERRATA) == note.startswith("**Erratum.** ")
    assert all(value in note for value in EXPLAINED[claim].split())


@pytest.mark.parametrize("start", INPUTS)
def test_values_that_nothing_here_measured_are_called_inputs(start: str) -> None:
    source = cells()
    [at] = [i for i, cell in enumerate(source) if cell.cell_type == "code" and start in cell.source]
    near = "\n".join(cell.source for cell in source[max(0, at - 4) : at + 2])
    assert re.search(r"\binputs?\b", near, flags=re.I)


def test_the_nine_figures_have_their_numbers() -> None:
    labels = re.findall(r"#\| label: (fig-[\w-]+)", "\n".join(cell.source for cell in cells()))
    assert labels == [
        "fig-call", "fig-temperature", "fig-entropy", "fig-treaty", "fig-confidence", "fig-phases",
        "fig-choice", "fig-ladder", "fig-autonomy",
    ]  # fmt: skip


def test_the_numbers_in_the_words_for_a_figure_are_printed_on_the_page() -> None:
    page = nbformat.read(NOTEBOOK, 4)
    told = re.findall(r'#\| fig-alt: "(.*)"$', "\n".join(cell.source for cell in page.cells), flags=re.M)
    assert len(told) == 9 and sum(bool(re.search(r"\d\.\d", text)) for text in told) >= 5
    page.cells += [nbformat.v4.new_markdown_cell(text, id=f"alt-{i}") for i, text in enumerate(told)]
    page.cells.append(nbformat.v4.new_markdown_cell("Nobody printed 98765.4321.", id="alt-wrong"))
    wrong = [(n.cell, n.text) for n in prose_numbers.unprinted(page) if n.cell.startswith("alt-")]
    assert wrong == [("alt-wrong", "98765.4321")]


def test_seven_exercises_have_a_folded_solution_that_computes() -> None:
    source = cells()
    text = "\n".join(cell.source if cell.cell_type == "markdown" else "<code>" for cell in source)
    exercises = text[text.index("{#sec-exercises}") :]
    assert re.findall(r"^\*\*(\d)\. ", exercises, flags=re.M) == list("1234567")
    found = re.findall(
        r'^::: \{\.callout-tip collapse="true" title="Solution (\d)"\}(.*?)^:::$', exercises, re.M | re.S
    )
    assert [number for number, _ in found] == list("1234567")
    assert all("<code>" in body for _, body in found)
