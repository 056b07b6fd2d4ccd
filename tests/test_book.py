"""The book keeps its rules, and each rule catches a page that breaks it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat import v4 as nb4

import notebooks
import rules

PAGES = sorted((notebooks.ROOT / "chapters").glob("*.ipynb"))
CHAPTERS = [path for path in PAGES if notebooks.chapter_number(path)]
TITLE = "# Title {#sec-title}"
CODE = "x = 1\nprint(x)"
FIGURE = '#| label: fig-x\n#| fig-cap: "Does it grow?"\n#| fig-alt: "A line that rises from left to right."\n'


def text(said: str, name: str = "stdout") -> NotebookNode:
    return nb4.new_output("stream", name=name, text=said)


def data(mime: str, said: str) -> NotebookNode:
    return nb4.new_output("display_data", data={mime: said})


def code(
    source: str, *outputs: NotebookNode, tags: tuple[str, ...] = (), count: int | None = 1
) -> NotebookNode:
    cell = nb4.new_code_cell(source, id="code", execution_count=count, outputs=list(outputs))
    if tags:
        cell.metadata["tags"] = list(tags)
    return cell


def broken(*cells: NotebookNode, title: str = TITLE) -> list[str]:
    book = nb4.new_notebook(cells=[nb4.new_markdown_cell(title, id="title"), *cells])
    return rules.problems(book, notebooks.ROOT / "chapters" / "01-x.ipynb")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page_keeps_the_rules(path: Path) -> None:
    assert rules.problems(notebooks.read(path), path) == []


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_has_cells_and_outputs(path: Path) -> None:
    """The rules hold of an empty page too; a chapter is none."""
    cells = list(notebooks.code_cells(notebooks.read(path)))
    assert sum(bool(cell.outputs) for cell in cells) >= 5


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_page_holds_a_character_that_the_epub_forbids(path: Path) -> None:
    """XML has no control characters but tab and line ends: a page shows one in visible letters, as ^[."""
    forbidden = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
    cells = notebooks.read(path).cells
    assert [cell.id for cell in cells if any(map(forbidden.search, strings(cell)))] == []


def strings(value: object) -> Iterator[str]:
    """Yield every text in a notebook or a part of one."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


def test_pages_listed_are_the_pages_there() -> None:
    listed = (notebooks.ROOT / "_quarto.yml").read_text(encoding="utf-8")
    assert [path.name for path in PAGES if f"chapters/{path.name}" not in listed] == []


GOOD = [
    code(CODE, text("1\n")),
    code(FIGURE + CODE, data("image/svg+xml", "<svg/>")),
    code("#| eval: false\n" + CODE, count=None),
    code(CODE + "\nassert x", tags=("gpu", "nbval-ignore-output")),
    code("# skipped: needs an endpoint\n" + CODE, tags=("nbval-skip",)),
    code(
        "# @save\ndef f():\n"
        + '    """Doc.\n'
        + "\n    more\n" * 20
        + '    """\n'
        + "    x = 1\n" * 20
        + "    return x"
    ),
    code("x = 1\n# why\n\n" * 20 + "x = 1\n" * 5),
]


@pytest.mark.parametrize("cell", GOOD)
def test_good_cells_pass(cell: NotebookNode) -> None:
    assert broken(cell) == []


BAD = [
    (code(CODE, count=None), "execution count None, expected 1"),
    (code(CODE, count=2), "execution count 2, expected 1"),
    (code("#| eval: false\n" + CODE, count=1), "execution count 1, expected None"),
    (code("x = 1"), "has 1 lines of code, expected 2 to 25"),
    (code("x = 1\n" * 26), "has 26 lines of code, expected 2 to 25"),
    (code("# @save\ndef f():\n" + "    x = 1\n" * 25), "has 26 lines of code, expected 2 to 25"),
    (code(CODE, data("image/png", "")), "draws a figure; expected a label fig-..., found ''"),
    (code(FIGURE.replace("?", ".") + CODE), "its fig-cap asks no question"),
    (code(FIGURE.replace("fig-cap", "fig-x") + CODE), "its fig-cap asks no question"),
    (code(FIGURE.replace("fig-alt", "fig-y") + CODE), "its fig-alt does not say what the figure shows"),
    (code(FIGURE.replace("A line that rises from left to right.", "A line") + CODE), "its fig-alt does not"),
    (code(CODE, tags=("nbval-ignore-output",)), "is tagged nbval-ignore-output and asserts nothing"),
    (code(CODE + "\n# assert x", tags=("nbval-ignore-output",)), "asserts nothing"),
    (code(CODE, tags=("nbval-skip",)), "is tagged nbval-skip and no comment says why"),
    (code(CODE, tags=("nbval-ignore-outputs",)), "has the tag nbval-ignore-outputs"),
    (code("# NBVAL_SKIP\n" + CODE), "has an NBVAL comment"),
    (code(CODE + "\nassert x", tags=("gpu",)), "is tagged gpu and not nbval-ignore-output"),
    (code(CODE, text("careful", "stderr")), "writes to standard error: 'careful'"),
    (code(CODE, data("text/html", "<b>")), "has an HTML output"),
    (
        code(CODE, nb4.new_output("error", ename="KeyError", evalue="x", traceback=[])),
        "has an error as its output",
    ),
    (code(CODE, text("at 12:34:56")), "its output has the time of a clock: '12:34:56'"),
    (code(CODE, data("text/plain", "2026-01-02T03:04")), "its output has the time of a clock"),
    (code(CODE, data("text/plain", "Wall time: 3 ms")), "its output has the time of a clock"),
    (code(CODE, text("read /tmp/x")), "says '/tmp'"),
    (code(CODE, data("text/markdown", "/home/me")), "says '/home'"),
    (code("open('/work/x')\nx = 1"), "says '/work'"),
    (nb4.new_markdown_cell("This is a representative output.", id="code"), "says 'representative output'"),
]


@pytest.mark.parametrize(("cell", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_cells_are_named(cell: NotebookNode, message: str) -> None:
    found = broken(cell)
    assert any(
        line.startswith(f"chapters/01-x.ipynb, cell code: {message}") or message in line for line in found
    )
    assert all("cell code: " in line for line in found if message in line)


@pytest.mark.parametrize(
    ("title", "message"),
    [
        ("no title", "has 0 headings of level 1"),
        (f"{TITLE}\n\n# Other {{#sec-other}}", "has 2 headings of level 1"),
        ("# Title", "its heading 'Title' has no id"),
        ("# Title {#title}", "its heading 'Title' has no id"),
        (f"---\ntitle: T\n---\n\n{TITLE}", "begins with YAML"),
    ],
)
def test_bad_titles_are_named(title: str, message: str) -> None:
    assert any(line.startswith(f"chapters/01-x.ipynb: {message}") for line in broken(title=title))


def test_a_heading_in_a_fence_is_none() -> None:
    assert broken(title=f"{TITLE}\n\n```python\n# comment\n```\n") == []


@pytest.mark.parametrize(("ignored", "ok"), [(1, True), (2, False)])
def test_four_in_five_cells_with_outputs_are_compared(ignored: int, ok: bool) -> None:
    source = "x = 1\nassert x"
    cells = [code(source, text("1"), count=n + 1) for n in range(5)]
    for number, cell in enumerate(cells):
        cell.id = f"code-{number}"
    for cell in cells[:ignored]:
        cell.metadata["tags"] = ["nbval-ignore-output"]
    found = broken(*cells, code(source, tags=("nbval-ignore-output",), count=6))
    assert found == [] if ok else "only 3 of 5 cells with outputs are compared" in found[0]
