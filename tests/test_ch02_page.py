"""The page of chapter 2 against its promises: claims of the source, demonstrations, duties, both nights."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from modelcall import ch02
from modelcall.lab import ledger

ROOT = Path(__file__).resolve().parent.parent
CELLS = list(nbformat.read(ROOT / "chapters" / "02-boundary.ipynb", 4).cells)
PROSE = "\n".join(cell.source for cell in CELLS if cell.cell_type == "markdown")
PRINTED = [
    output.text
    for cell in CELLS
    if cell.cell_type == "code"
    for output in cell.outputs
    if output.output_type == "stream"
]
TABLES = [
    output.data["text/markdown"]
    for cell in CELLS
    if cell.cell_type == "code"
    for output in cell.outputs
    if "text/markdown" in output.get("data", {})
]
ERRATA = ("A-LO-gap", "A-statuses4", "A-NM0.1-or", "A-NM0.1-sat")
NOTE = r"^::: \{(\.column-margin(?: \.erratum)?)\}\n(.*?)\n:::$"


def printed(text: str) -> bool:
    return any(text in block for block in PRINTED)


@pytest.mark.parametrize("claim", [*ERRATA, "A-counts"])
def test_the_margin_links_the_ledger_and_says_what_is_wrong(claim: str) -> None:
    link = f"[{claim}](ledger.ipynb#{claim})"
    assert PROSE.count(link) == 1
    [(kind, note)] = [found for found in re.findall(NOTE, PROSE, flags=re.M | re.S) if link in found[1]]
    assert kind.endswith(" .erratum") == (claim in ERRATA) == note.startswith("**Erratum.** ")


def test_every_wrong_claim_of_the_two_sections_is_in_a_margin() -> None:
    wrong = {
        entry.id
        for entry in ledger.load()
        if entry.section in ("A.0", "A.1") and entry.verdict in ("erratum", "inconsistent")
    }
    assert wrong == set(ERRATA)


@pytest.mark.parametrize(
    "line",
    [
        "V 256,000, B  64: 1.31 GB/s,  4.2 % of the link",
        "V 128,000, B 256: 2.62 GB/s,  8.3 % of the link",
        "V 256,000, B 256: 5.24 GB/s, 16.6 % of the link",
        "V 128,000, B  64: 0.66 GB/s,  2.1 % of the link",
        "PCIe 4 x16: 31.51 GB/s",
        "ids of 4 bytes at B 64: 10.24 KB/s",
        "256,000 bytes against 4: 64,000 to 1",
        "one step of 64: 16.4 MB, 0.52 ms of 25 ms",
    ],
)
def test_both_values_of_the_napkin_are_printed(line: str) -> None:
    assert printed(line)


@pytest.mark.parametrize(
    "line",
    [
        "files left: 3\nfolder unchanged: True",
        "reachable from the proposal: ['dict', 'str']",
        "path traversal  refused: '..' leads out of the folder",
        "absolute path   refused: the path is absolute",
        "through a link  refused: 'today.txt' is a link",
        "another verb    refused: it grants write; got 'delete'",
        "widened grant   refused: not a live capability of this gate",
        "forged grant    refused: not a live capability of this gate",
        "a minute later  refused: the capability has expired",
        "10 in the log, 2 done; keys.txt unchanged: True",
        "replies of none, fail-plausible and balanced identical: True",
        "'fail-stop': (2, True), 'Byzantine': (1, True), 'fail-plausible': (1, False), 'balanced': (1,",
        "shell 3  200, dispatched: 'rm -rf /'",
        "turns beyond the first: 0\n"
        "something kept between calls: False\n"
        "something changed without dispatch: False",
        "yard unchanged: True",
        "second night, kept: False\nstock unchanged: True",
    ],
)
def test_the_page_shows_what_the_prose_says(line: str) -> None:
    assert printed(line)


def test_the_watchdog_s_alarms_are_those_of_the_definitions() -> None:
    [block] = [text for text in PRINTED if "alarms: agreement" in text]
    assert [line.split("alarms: ")[1] for line in block.splitlines()[:5]] == [
        "none",
        "exit code, form, task",
        "agreement",
        "invariant, task",
        "task",
    ]


def test_each_duty_has_a_failure_that_ran_and_a_run_that_went_well() -> None:
    [table] = [text for text in TABLES if text.startswith("| Term | The runtime")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    assert [row[0] for row in rows] == [duty.term for duty in ch02.DUTIES]
    assert all(len(row) == 4 and row[2] and row[3] and row[2] != row[3] for row in rows)
    assert rows[3][2:] == ["taken for done: `rm -rf /`", "quarantined: TRUNCATED"]
    assert rows[4][2:] == ["12 valves from nowhere", "kept: False"]


def test_the_house_server_answers_200_to_whole_cut_refused_and_false() -> None:
    [block] = [text for text in PRINTED if text.startswith("known ")]
    lines = dict(line.split(None, 1) for line in block.splitlines())
    assert list(lines) == ["known", "invented", "capped", "blocked"]
    assert all(line.startswith("200 ") for line in lines.values())
    status = {name: line.split()[1] for name, line in lines.items()}
    assert (status["capped"], status["blocked"]) == ("TRUNCATED", "REFUSED")
    assert "true: False" in lines["invented"], "nothing that it says of an invention is true"


def test_four_checkpoints_have_answers_that_compute() -> None:
    boxes = PROSE.count("::: {.checkpoint}")
    assert boxes == 4 and PROSE.count('title="Answer"') == boxes
    assert PROSE.count("**Predict.**") == 5
