"""Every mistake that the renderer refuses, one by one: the message names the file, the cell and the line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.render.sample import BIBLIOGRAPHY, SVG, code, figure, markdown, notebook, png, shown, stream

from render.problems import BuildError
from render.site import build

CONFIG = """\
project: {type: book, output-dir: _book}
book:
  title: T
  chapters: [index.md, chapters/one.ipynb, references.md]
bibliography: references.bib
"""
HEAD = "# One {#sec-one}\n\n"


def book(root: Path, *cells: dict[str, Any], **files: str) -> Path:
    """A minimal book whose one chapter has ``cells``; ``files`` replace or add files by name."""
    texts = {
        "_quarto.yml": CONFIG,
        "index.md": "# Start {#sec-index .unnumbered}\n",
        "references.md": "# References {#sec-references .unnumbered}\n\n::: {#refs}\n:::\n",
        "references.bib": BIBLIOGRAPHY,
    } | files
    notebook(root / "chapters/one.ipynb", *cells)
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def mistakes(root: Path, cache: Path) -> list[str]:
    with pytest.raises(BuildError) as caught:
        build(root, cache=cache)
    assert not (root / "_book").exists(), "a failed build wrote a site"
    return caught.value.lines


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("render-cache")


# What is written in the third line of a Markdown cell -> what the message says after the place.
PROSE = {
    "reference": ("See @fig-nope here.", "unresolved reference @fig-nope"),
    "reference-capital": ("See @Tbl-nope.", "unresolved reference @Tbl-nope"),
    "citation": ("As [@nobody99] says.", "citation @nobody99 is not in the bibliography"),
    "citation-and-reference": (
        "See [@sec-one; @knuth84].",
        "a citation and a cross-reference in one bracket",
    ),
    "unnumbered": ("See @sec-index now.", "@sec-index is an unnumbered heading"),
    "image": ("![Alt](nope.png)", "no image 'chapters/nope.png'"),
    "image-outside": ("![Alt](../../x.png)", "no image '../x.png'"),
    "image-foreign": ("![Alt](https://example.org/x.png)", "is not a file of the book"),
    "image-alt": ("![](grey.png)", "has no alternative text"),
    "figure-alt": ("![A caption](grey.png){#fig-a}", "a figure without fig-alt"),
    "callout": ("::: {.callout-danger}", "div class 'callout-danger' is not supported"),
    "callout-attribute": ('::: {.callout-note colour="red"}', "callout attribute 'colour' is not supported"),
    "callout-id": ("::: {#tip-x .callout-note}", "expected nte-"),
    "callout-title": ('::: {.callout-note title="$x$"}', "words, `code` and *emphasis* only"),
    "column": ("::: {.column-page}", "div class 'column-page' is not supported"),
    "layout": ('::: {layout="[[1,1],[1]]"}', "div attribute 'layout' is not supported"),
    "columns": ('::: {layout-ncol="9"}', "layout-ncol: expected 1 to 6, found '9'"),
    "visible": ('::: {.content-visible when-format="html"}', "div class 'content-visible' is not supported"),
    "span": ("[x]{.content-hidden}", "span class 'content-hidden' is not supported"),
    "shortcode": ("A {{< video x.mp4 >}} here.", "shortcodes are not supported"),
    "include": ("{{< include nope.md >}}", "include: no file 'chapters/nope.md'"),
    "second-h1": ("# Another", "a second H1"),
    "raw-tex": ("A \\newpage here.", "raw tex in the text"),
    "formula": ("A formula $\\nomacro{x}$ here.", "formula '\\\\nomacro{x}': unexpected control sequence"),
    "stray-id": ("$$x$$ and {#eq-x}", "'{#eq-x}' stands in the text"),
    "page-link": ("[x](three.ipynb)", "link to 'chapters/three.ipynb', which is not a page"),
    "page-fragment": ("[x](../index.md#nope)", "has no id 'nope'"),
    "fragment": ("[x](#nope)", "has no id 'nope'"),
    "file-link": ("[x](nope.csv)", "the site has no 'chapters/nope.csv'"),
    "example-list": ("@sec-one.", "is a numbered example for Pandoc"),
    "duplicate-id": ("[x]{#sec-one}", "duplicate id 'sec-one'"),
    "tabset": ("::: {.panel-tabset}", "a tabset starts with a heading"),
    "executable": ("```{python}\n1\n```", "code fence '{python}': cells live in notebooks"),
    "raw-format": ("```{=latex}\n\\x\n```", "raw latex is not supported"),
    "foreign-load": ('<img src="https://example.org/a.png" alt="x">', "loads 'https://example.org/a.png'"),
}


@pytest.mark.parametrize("name", PROSE)
def test_mistake_in_prose(name: str, tmp_path: Path, cache: Path) -> None:
    text, expected = PROSE[name]
    closing = "\nBody.\n\n:::\n" if text.startswith(":::") else "\n"
    root = book(tmp_path, markdown("Before.\n"), markdown(f"{HEAD}{text}\n{closing}"))
    (root / "chapters/grey.png").write_bytes(png())
    found = [line for line in mistakes(root, cache) if expected in line]
    assert found, mistakes(root, cache)
    assert found[0].startswith("chapters/one.ipynb, cell 2, line 3: "), found


def test_mistake_names_the_line_of_the_text_twin(tmp_path: Path, cache: Path) -> None:
    root = book(tmp_path, markdown(f"{HEAD}See @fig-nope here.\n"))
    (root / "chapters/one.md").write_text(
        "---\nx: y\n---\n\n# One {#sec-one}\n\nSee @fig-nope here.\n", encoding="utf-8"
    )
    (line,) = mistakes(root, cache)
    assert line == "chapters/one.ipynb, cell 1, line 3 (chapters/one.md:7): unresolved reference @fig-nope"


# A code cell -> what the message says; the cell is the page's second.
PNG = "iVBORw0KGgo="
CELLS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown-option": (code("#| fig-capt: x\n1"), "unknown cell option 'fig-capt'"),
    "option-value": (
        code("#| echo: maybe\n1"),
        "option 'echo': expected one of (True, False), found 'maybe'",
    ),
    "option-yaml": (code("#| label: [x\n1"), "cell options:"),
    "option-words": (code("#| just words\n1"), "expected `#| key: value` lines"),
    "not-run": (code("1", count=None), "has no execution count"),
    "html": (
        code("df", shown(text_html="<table></table>", text_plain="x")),
        "a text/html output makes Quarto load",
    ),
    "widget": (
        code("w", shown(**{"application/vnd.jupyter.widget-view+json": "{}", "text_plain": "x"})),
        "output of type application/vnd.jupyter.widget-view+json",
    ),
    "error": (
        code("1/0", {"output_type": "error", "ename": "E", "evalue": "v", "traceback": []}),
        "the stored output is an error: E: v",
    ),
    "no-alt": (code("plot()", figure()), "a figure without fig-alt"),
    "no-caption": (code("#| label: fig-a\n#| fig-alt: x\nplot()", figure()), "without fig-cap"),
    "no-figure": (
        code("#| label: fig-a\n#| fig-alt: x\n#| fig-cap: c\nplot()"),
        "stores no output that is a Figure",
    ),
    "no-table": (
        code("#| label: tbl-a\n#| tbl-cap: c\nt()", stream("x")),
        "stores no output that is a Table",
    ),
    "label-kind": (code("#| label: eq-a\n1"), "a cell makes fig- and tbl- targets"),
    "subcaptions": (
        code("#| label: fig-a\n#| fig-cap: c\n#| fig-alt: x\n#| fig-subcap: [a, b]\nplot()", figure()),
        "2 fig-subcap for 1 figures",
    ),
    "not-evaluated": (
        code("#| label: fig-a\n#| fig-cap: c\n#| fig-alt: x\n#| eval: false\nplot()", count=None),
        "a cell that is not evaluated makes no Figure",
    ),
    "script-in-svg": (
        code("#| fig-alt: x\nplot()", figure(SVG.replace("<metadata>", "<script>1</script><metadata>"))),
        "may not hold <script>",
    ),
    "svg-not-xml": (code("#| fig-alt: x\nplot()", figure("<svg")), "SVG figure: not XML"),
    "svg-load": (
        code(
            "#| fig-alt: x\nplot()", figure(SVG.replace('xlink:href="#m1"', 'xlink:href="https://e.org/x"'))
        ),
        "may not load 'https://e.org/x'",
    ),
}


@pytest.mark.parametrize("name", CELLS)
def test_mistake_in_a_cell(name: str, tmp_path: Path, cache: Path) -> None:
    cell, expected = CELLS[name]
    found = [line for line in mistakes(book(tmp_path, markdown(HEAD), cell), cache) if expected in line]
    assert found, mistakes(tmp_path, cache)
    assert found[0].startswith("chapters/one.ipynb, cell 2"), found
    if "#| label: fig-a" in cell["source"]:
        assert "cell 2 [fig-a]" in found[0]


def test_mistakes_of_the_page_as_a_whole(tmp_path: Path, cache: Path) -> None:
    assert mistakes(book(tmp_path / "a", markdown("Text.")), cache) == [
        "chapters/one.ipynb: no H1: every page has exactly one, with an id"
    ]
    assert "the H1 has no id of its own" in mistakes(book(tmp_path / "b", markdown("# One\n")), cache)[0]
    (line,) = mistakes(book(tmp_path / "c", markdown(HEAD + "```python\nx\n"), markdown("Text")), cache)
    assert "a code fence or a comment opened in a Markdown cell is never closed" in line
    (line,) = mistakes(book(tmp_path / "d", markdown(HEAD + "::: {.note}\ntext\n")), cache)
    assert line.startswith("chapters/one.ipynb, cell 1, line 3") and "unclosed" in line
    raw = {"cell_type": "raw", "id": "r", "metadata": {}, "source": "---\ntitle: T\n---\n"}
    (line,) = mistakes(book(tmp_path / "e", raw, markdown(HEAD)), cache)
    assert line == "chapters/one.ipynb, cell 1: a raw cell with YAML; the page's title is its one H1"
    (line,) = mistakes(
        book(tmp_path / "f", markdown(HEAD), **{"index.md": "---\ntitle: T\n---\n\n# S {#sec-s}\n"}), cache
    )
    assert line.startswith("index.md:1: YAML front matter")


def test_id_on_two_pages(tmp_path: Path, cache: Path) -> None:
    index = "# Start {#sec-index .unnumbered}\n\n$$x$$ {#eq-x}\n"
    (line,) = mistakes(book(tmp_path, markdown(HEAD + "$$y$$ {#eq-x}\n"), **{"index.md": index}), cache)
    assert line == "chapters/one.ipynb, cell 1, line 3: id 'eq-x' is already used on index.md"


def test_citation_without_a_references_page(tmp_path: Path, cache: Path) -> None:
    config = CONFIG.replace(", references.md", "")
    (line,) = mistakes(book(tmp_path, markdown(HEAD + "See @knuth84.\n"), **{"_quarto.yml": config}), cache)
    assert line.startswith("chapters/one.ipynb, cell 1, line 3: citation @knuth84, but no page")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("title: T", "title: T\n  sharing: x", "key 'book.sharing' is not supported"),
        ("type: book", "type: website", "project.type: expected 'book'"),
        ("index.md, ", "", "expected index.md first"),
        ("references.md]", "nope.md]", "no file 'nope.md'"),
        ("references.md]", "references.bib]", "'references.bib' is neither .md nor .ipynb"),
        ("references.bib", "nope.bib", "bibliography: no file 'nope.bib'"),
        ("type: book", "type: book, resources: ['*.zip']", "nothing matches '*.zip'"),
        ("title: T", "title: [", "not YAML"),
        ("output-dir: _book", "output-dir: site", "project.output-dir: expected '_book', found 'site'"),
        ("bibliography:", "execute: {enabled: true}\nbibliography:", "execute.enabled: expected false"),
        (
            "bibliography:",
            "format: {html: {html-math-method: katex}}\nbibliography:",
            "expected 'mathml', found 'katex'",
        ),
    ],
)
def test_mistake_in_the_configuration(old: str, new: str, expected: str, tmp_path: Path, cache: Path) -> None:
    assert old in CONFIG
    lines = mistakes(book(tmp_path, markdown(HEAD), **{"_quarto.yml": CONFIG.replace(old, new)}), cache)
    assert any(line.startswith("_quarto.yml: ") and expected in line for line in lines), lines


def test_no_configuration(tmp_path: Path, cache: Path) -> None:
    assert re.fullmatch(r"_quarto.yml: not found in .*", mistakes(tmp_path, cache)[0])


def test_not_a_notebook(tmp_path: Path, cache: Path) -> None:
    root = book(tmp_path, markdown(HEAD))
    (root / "chapters/one.ipynb").write_text("{", encoding="utf-8")
    assert any(line.startswith("chapters/one.ipynb: not a notebook") for line in mistakes(root, cache))


def test_all_mistakes_are_reported_at_once(tmp_path: Path, cache: Path) -> None:
    text = HEAD + "See @fig-a.\n\n$\\nomacro$\n\n![x](nope.png)\n\n[y](#nope)\n"
    root = book(tmp_path, markdown(text), code("#| bad: 1\n1"), **{"index.md": "# S {#sec-s}\n\n@tbl-b x\n"})
    lines = mistakes(root, cache)
    for expected in ("@fig-a", "nomacro", "nope.png", "no id 'nope'", "'bad'", "@tbl-b"):
        assert any(expected in line for line in lines), (expected, lines)


def test_a_correct_book_builds(tmp_path: Path, cache: Path) -> None:
    """The minimal book itself is right, so each mistake above is the one that was put in."""
    root = book(tmp_path, markdown(HEAD + "See @sec-one and @knuth84.\n"), code("1", stream("1\n")))
    assert build(root, cache=cache).pages == 5


def test_subfigures_stand_in_one_column_unless_told(tmp_path: Path, cache: Path) -> None:
    sub = '![A](grey.png){#fig-a-1 fig-alt="x"}'
    root = book(tmp_path, markdown(f"{HEAD}::: {{#fig-a}}\n\n{sub}\n\nBoth.\n:::\n"))
    (root / "chapters/grey.png").write_bytes(png())
    build(root, cache=cache)
    assert 'class="layout" style="--columns:1"' in (root / "_book/chapters/one.html").read_text(
        encoding="utf-8"
    )
