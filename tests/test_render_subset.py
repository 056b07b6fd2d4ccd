"""CONTRIBUTING's table of what pages may use, held against the renderer: each form used, each word read."""

from __future__ import annotations

import html
import re
from itertools import pairwise
from pathlib import Path

import pytest
from tests.render.sample import BIBLIOGRAPHY, code, figure, markdown, notebook, png, shown, stream

from render.crossref import CALLOUTS, KINDS, THEOREMS
from render.site import build
from render.source import OPTIONS

ROOT = Path(__file__).resolve().parent.parent
# Row -> the Markdown that uses all of its forms. The page starts with its title, the rows follow in order.
CASES = {
    "Page title": "# Title {#sec-name}\n\nSee @sec-name and @sec-app.",
    "Section": "## Words {#sec-part}\n\n@sec-part\n\n## Bare {.unnumbered}",
    "Figure": '![Words](grey.png){#fig-a fig-alt="..."}\n\n@fig-a',
    "Subfigures": '::: {#fig-b layout-ncol=2}\n\n![Left](grey.png){#fig-b-left fig-alt="..."}\n\n'
    '![Right](grey.png){#fig-b-right fig-alt="..."}\n\nBoth\n:::\n\n@fig-b-left',
    "Table": "| a | b |\n|---|---|\n| 1 | 2 |\n\n: Words {#tbl-a}\n\n@tbl-a",
    "Listing": '```{#lst-a .python lst-cap="Words"}\nx = 1\n```\n\n@lst-a',
    "Formula": "$$ x $$ {#eq-a}\n\n@eq-a",
    "Reference": "[-@fig-a], [Fig. @fig-a], [@fig-a; @tbl-a]",
    "Citation": "[@knuth84], @knuth84",
    "Theorem": '::: {#thm-a name="Name"}\nT.\n:::\n\n@thm-a',
    "Its kin": "\n\n".join(f"::: {{#{kind}-a}}\nT.\n:::\n\n@{kind}-a" for kind in THEOREMS if kind != "thm"),
    "Proof": "\n\n".join(f"::: {{.{name}}}\nP.\n:::" for name in ("proof", "remark", "solution")),
    "Callout": '::: {.callout-note title="Words"}\nC.\n:::\n\n'
    + "\n\n".join(f"::: {{.callout-{name}}}\nC.\n:::" for name in ("tip", "warning", "important", "caution")),
    "Numbered callout": "\n\n".join(
        f"::: {{#{kind}-a .callout-{word.lower()}}}\nC.\n:::\n\n@{kind}-a" for kind, word in CALLOUTS.items()
    ),
    "Fold": '::: {.callout-tip collapse="true"}\nshut\n:::\n\n::: {.callout-tip collapse="false"}\nopen\n:::',
    "Tabs": '::: {.panel-tabset group="os"}\n\n## Linux\n\nL.\n\n## macOS\n\nM.\n\n:::',
    "Margin": "P.[Words]{.aside}\n\n::: {.column-margin}\nM.\n:::",
    "Include": "{{< include _part.md >}}\n",
}
TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n"
CELLS = [
    code("#| label: fig-c\n#| fig-cap: Words\n#| fig-alt: ...\n#| layout-ncol: 2\n#| fig-subcap:\n"
         "#|   - A\n#|   - B\nf()", figure(), figure()),
    code("#| label: tbl-c\n#| tbl-cap: Words\nf()", shown(text_markdown=TABLE)),
    code("#| lst-label: lst-c\n#| lst-cap: Words\nf()"),
    code("#| echo: false\nunseen", stream("said\n")),
    code("#| eval: false\nf()", count=None),
    code("#| include: false\nunseen", stream("unseen\n")),
    code("#| output: asis\nf()", stream("**asis**\n")),
    code("#| warning: false\nf()", stream("unseen\n", "stderr")),
    code("#| code-fold: true\n#| code-summary: Words\nf()"),
]  # fmt: skip


def rows() -> dict[str, tuple[list[str], list[str]]]:
    """Construct -> its forms and its words, from the table."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## What the pages may use")[2]
    lines = re.findall(r"^\| (?!Construct)([^|]+?) \| (.*) \| (.*?) \|$", text.partition("\n## ")[0], re.M)

    def spans(cell: str) -> list[str]:
        cell = cell.replace("\\|", "|")  # a table's cell ends at a bare one
        return [long.strip() or short for long, short in re.findall(r"````(.+?)````|`([^`]+)`", cell)]

    return {name: (spans(forms), spans(words)) for name, forms, words in lines}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("subset")
    (root / "_quarto.yml").write_text(
        "project: {type: book}\nbook:\n  title: T\n  chapters: [index.md, one.ipynb]\n"
        "  appendices: [app.md]\nbibliography: references.bib\n",
        encoding="utf-8",
    )
    (root / "references.bib").write_text(BIBLIOGRAPHY, encoding="utf-8")
    (root / "index.md").write_text("# T {#sec-t .unnumbered}\n\n::: {#refs}\n:::\n", encoding="utf-8")
    (root / "app.md").write_text("# More {#sec-app}\n", encoding="utf-8")
    (root / "_part.md").write_text("the file’s text\n", encoding="utf-8")
    (root / "grey.png").write_bytes(png())
    notebook(root / "one.ipynb", *map(markdown, CASES.values()), *CELLS)
    return (build(root).output / "one.html").read_text(encoding="utf-8")


def test_the_table_names_every_form() -> None:
    """Each form of the table is used here, and what the renderer knows by a name is in the table."""
    table = rows()
    cells = "\n".join(cell["source"] for cell in CELLS)
    assert list(table) == [*CASES, "Cell, label and captions", "Cell, what shows"]
    for name, (forms, _) in table.items():
        for form in forms:
            source = CASES.get(name, cells)
            parts = form.split(" ... ") if name == "Formula" else [form]
            if form == "$$ {#eq-a}":
                parts = ["$$ x $$ {#eq-a}"]
            assert form == "$$ ... $$" or all(part.strip("{}") in source for part in parts), (name, form)
    text = " ".join(form for forms, _ in table.values() for form in forms)
    assert set(re.findall(r"#\| ([\w-]+):", text)) == set(OPTIONS)
    assert {f"#{kind}-" for kind in KINDS} <= set(re.findall(r"#\w{2,3}-", text))


def test_the_table_says_what_is_read(page: str) -> None:
    article = re.sub(r"<(annotation|script|svg)\b.*?</\1>", "", page.partition("<article>")[2], flags=re.S)
    article = article.partition("</article>")[0]
    text = " ".join(html.unescape(re.sub(r"<[^>]+>", "", article.replace("<p", " <p"))).split())
    for name, (_, words) in rows().items():
        for word in words:
            if not word.startswith("@") and word not in ("Chapter 1", "Appendix A"):
                assert word in text, (name, word)
    assert (
        "See Chapter 1 and Appendix A." in text and "unseen" not in text and "<strong>asis</strong>" in page
    )
    assert "the file’s text" in text and "said" in text
    assert page.count('<details class="callout callout-tip">') == page.count('callout-tip" open>') == 1
    references = re.findall(r'<a href="#([\w-]+)" class="quarto-xref">([^<]+)</a>', page)
    said = {f"@{name}": html.unescape(words).replace("\xa0", " ") for name, words in references[::-1]}
    for name, (_, words) in rows().items():
        for form, meant in pairwise(words):
            assert not form.startswith("@") or said[form] == meant, (name, form)
