"""The gate on numbers in the prose: what it catches, what it lets pass, and that the book passes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat import v4 as nb4

import notebooks
import prose_numbers

PAGES = sorted((notebooks.ROOT / "chapters").glob("*.ipynb"))


def page(prose: str, code: str = "x = 1", output: str = "", mime: str = "text/plain") -> NotebookNode:
    cell = nb4.new_code_cell(code, id="code")
    if output:
        cell.outputs = [nb4.new_output("display_data", data={mime: output})]
    return nb4.new_notebook(cells=[nb4.new_markdown_cell(prose, id="prose"), cell])


def missing(prose: str, code: str = "x = 1", output: str = "") -> list[str]:
    return [number.text for number in prose_numbers.unprinted(page(prose, code, output))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_number_in_the_prose_of_the_book_is_printed(path: Path) -> None:
    assert prose_numbers.problems(notebooks.read(path), path) == []


def test_a_wrong_number_is_named_with_its_place() -> None:
    root = notebooks.ROOT
    book = page("The entropy is 1.58 bits, not 1.59 bits.", output="entropy: 1.58 bits")
    (problem,) = prose_numbers.problems(book, root / "chapters" / "01-x.ipynb")
    assert problem.startswith("chapters/01-x.ipynb, cell prose: 1.59 is printed nowhere on the page: ")
    assert "not 1.59 bits" in problem


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_wrong_number_is_found_on_every_page_of_the_book(path: Path) -> None:
    book = notebooks.read(path)
    book.cells.append(nb4.new_markdown_cell("It took 98765.4321 s, all told.", id="wrong"))
    assert [(n.cell, n.text) for n in prose_numbers.unprinted(book) if n.cell == "wrong"] == [
        ("wrong", "98765.4321")
    ]


@pytest.mark.parametrize(
    ("prose", "output"),
    [
        ("about 0.52", "0.52"),
        ("0.5", "0.50"),
        ("1,234,567 bytes", "1234567"),
        ("1234567 bytes", "1,234,567"),
        ("12 345 bytes".replace(" ", "\u202f"), "12345"),
        ("52% of calls", "52 %"),
        ("52 percent", "52%"),
        ("a loss of −0.69", "[-0.69, 1]"),
        ("a log probability 0.69 below zero", "-0.69"),
        ("between 3 and 7", "(3, 7)"),
        ("3–7 tokens, 3-7 tokens", "3 7"),
        ("$0.52$ and $p = 0.52$", "0.52"),
        ("*0.52* and **3**", "0.52 3"),
        ("| a |\n|---|\n| 0.52 |", "0.52"),
        ("1000 draws", "1e3"),
        ("40ms or 7x", "40 7"),
        ('"0.52"', "0.52"),
        ("costs \\$3 or $3.", "3"),
        ("1[a](x.ipynb)2", "1 2"),
    ],
)
def test_printed_numbers_pass(prose: str, output: str) -> None:
    assert missing(prose, output=output) == []
    assert missing(prose) != []


@pytest.mark.parametrize(
    ("prose", "output", "number"),
    [
        ("0.53", "0.52", "0.53"),
        ("0.50", "0.5", "0.50"),
        ("0.52", "0.523", "0.52"),
        ("5", "50 0.5 15", "5"),
        ("a gain of −0.69", "0.69", "−0.69"),
        ("[0.53](other.ipynb#x)", "0.52", "0.53"),
        ("[0.53]{.aside}", "0.52", "0.53"),
        ("x[^1]\n\n[^1]: It is 0.53.", "0.52", "0.53"),
        ("::: {.callout-note title='x'}\n0.53\n:::", "0.52", "0.53"),
        ("- a\n- b 0.53", "0.52", "0.53"),
        ("$$H = 0.53$$", "0.52", "0.53"),
        ("$H = 12$ bits", "0.52", "12"),
        ("chapter text 0.53 in 2024", "0.52", "0.53"),
        ("> quoted 0.53", "0.52", "0.53"),
        ("It is 99.", "0.52", "99"),
        ("**0.52** and **0.53**", "0.52", "0.53"),
    ],
)
def test_unprinted_numbers_are_caught(prose: str, output: str, number: str) -> None:
    assert missing(prose, output=output) == [number]


@pytest.mark.parametrize(
    "prose",
    [
        "`0.53` and ``x = 7``",
        "```\n0.53\n```",
        "# 7 words {#sec-x}\n\ntext",
        "@fig-12 and [@key2024, p. 7] and [-@sec-9]",
        "[erratum 20](ledger.ipynb#B-20tok)",
        "in 2017, 1999 and 2026-11-29",
        "Section 1.3, Sections 2 to 4, Chapter 12, Exercise 1.2, §4.2, Figure B.3",
        "Python 3.11, version 2.0, v1.2.3 and 10.4.2",
        "GPT-4, cl100k_base, SmolLM2-135M, B-20tok, utf-8, H100, 8-bit",
        "the 3rd and 21st",
        "10^9^ and 10⁹ and x~2~",
        "$x_1, \\dots, x_{12}$, $2^{32}$, $t = 1$, $10^6$, $\\mathrm{top12}$",
        "$$p = \\frac{1000 x}{12} \\tag{3}$$ {#eq-x}",
        "seven words, one hundred",
        "1. first\n2. second\n",
        "<!-- 0.53 -->",
    ],
)
def test_exempt_numbers_pass(prose: str) -> None:
    assert missing(prose) == []


def test_literals_of_shown_code_count_and_hidden_ones_do_not() -> None:
    code = 'softmax(z, temperature=0.35)  # not 0.36\nprint("a budget of 1_000 tokens")'
    assert missing("at 0.35, 1000", code) == []
    assert missing("at 0.36", code) == ["0.36"]
    assert missing("at 0.35", f"#| echo: false\n{code}") == ["0.35"]
    assert missing("0.7", "#| output: false\nx", output="0.7") == ["0.7"]
    assert missing("0.7", "#| include: false\nx = 0.7", output="0.7") == ["0.7"]


def test_captions_are_prose_and_other_options_are_no_code() -> None:
    code = '#| label: fig-x\n#| fig-cap: "Is it 0.53?"\n#| fig-alt: "A line at 0.54."\nx = 0.52'
    found = [(n.cell, n.text) for n in prose_numbers.unprinted(page("0.53", code))]
    assert found == [("prose", "0.53"), ("code", "0.53"), ("code", "0.54")]


def test_numbers_in_markdown_output_and_streams_count_but_not_in_drawings() -> None:
    assert prose_numbers.unprinted(page("0.7", output="| 0.7 |", mime="text/markdown")) == []
    drawing = page("0.7", output="<svg><text>0.7</text></svg>", mime="image/svg+xml")
    assert [n.text for n in prose_numbers.unprinted(drawing)] == ["0.7"]
    stream = page("0.7")
    stream.cells[1].outputs = [nb4.new_output("stream", name="stdout", text="p=0.7,")]
    assert prose_numbers.unprinted(stream) == []
