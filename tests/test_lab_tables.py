"""Tables from rows: Pandoc, which we did not write, must read back the cells that went in."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pypandoc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelcall.lab.tables import markdown_table, show_table

WORDS = st.text(st.sampled_from("abc 07.,|\n"), max_size=12)


def pandoc_cells(text: str) -> list[list[str]]:
    """The cells of a table, head first, as Pandoc reads them."""
    command = [pypandoc.get_pandoc_path(), "--from", "markdown", "--to", "json"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
    [table] = [block["c"] for block in json.loads(done.stdout)["blocks"] if block["t"] == "Table"]
    rows = [*table[3][1], *(row for body in table[4] for row in body[3])]
    return [["".join(plain(block) for block in cell[4]) for cell in row[1]] for row in rows]


def plain(node: Any) -> str:
    if isinstance(node, list):
        return "".join(map(plain, node))
    if node["t"] == "Str":
        return str(node["c"])
    return " " if node["t"] in ("Space", "SoftBreak") else plain(node["c"])


def words(text: str) -> str:
    return " ".join(re.split(r"\s+", text)).strip()


@given(
    table=st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(WORDS, min_size=n, max_size=n), min_size=2, max_size=4)
    )
)
@settings(derandomize=True, deadline=None, max_examples=12)
def test_pandoc_reads_back_what_was_written(table: list[list[str]]) -> None:
    header = ["h" + cell for cell in table[0]]
    got = pandoc_cells(markdown_table(header, table[1:]))
    assert [[words(cell) for cell in row] for row in got] == [
        [words(cell) for cell in row] for row in [header, *table[1:]]
    ]


def test_columns_of_numbers_are_aligned_to_the_right() -> None:
    rows = [["a 1", -3, "1,000.5", "12 %", "", "3 GB", "1e-05"], ["b", "+2", "−7", "3.0%", "–", "4", "2"]]
    rule = markdown_table(list("abcdefg"), rows).splitlines()[1]
    assert rule == "|---|---:|---:|---:|---|---|---:|"
    rows = [["0.5 GB", "2026-01-02", "3 ms", "1 of 2"], ["12.25 GB", "2026-01-03", "4 s", "2 of 2"]]
    assert markdown_table(list("abcd"), rows).splitlines()[1] == "|---:|---|---|---|"
    assert markdown_table(["a"], []).splitlines()[1] == "|---|"


def test_a_bar_and_a_line_break_stay_inside_their_cell() -> None:
    text = markdown_table(["a|b"], [["c\nd"], [3.5]])
    assert text.splitlines() == [r"| a\|b |", "|---|", "| c d |", "| 3.5 |"]


def test_a_header_alone_is_a_table_and_no_header_is_none() -> None:
    assert markdown_table(["x", "y"], []).splitlines() == ["| x | y |", "|---|---|"]
    with pytest.raises(ValueError, match=r"^header: expected at least one column; got \[\]"):
        markdown_table([], [])


@pytest.mark.parametrize("row", [["1"], ["1", "2", "3"], []])
def test_a_row_of_another_width_is_named(row: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^rows\[1\]: expected 2 cells; got "):
        markdown_table(["x", "y"], [["1", "2"], row])


def test_showing_sends_markdown_to_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr("modelcall.lab.tables.display", sent.append)
    show_table(["x"], [["1"]])
    [shown] = sent
    assert shown._repr_markdown_() == "| x |\n|---:|\n| 1 |"
