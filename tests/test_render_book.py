"""The sample book, built once: numbers and words as Quarto documents them, strict HTML."""

from __future__ import annotations

import json
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import html5lib
import pytest
from tests.render.sample import write

from render.links import broken_links, inventory, site_pages
from render.pandoc import Pandoc
from render.site import Result, build
from render.svg import palette

XHTML = "{http://www.w3.org/1999/xhtml}"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    root = write(tmp_path_factory.mktemp("sample"))
    return build(root)


@pytest.fixture(scope="module")
def pages(result: Result) -> dict[str, str]:
    return site_pages(result.output)


@pytest.fixture(scope="module")
def said(pages: dict[str, str]) -> dict[str, Any]:
    return inventory(pages)


def test_every_page_parses_strictly(pages: dict[str, str]) -> None:
    assert len(pages) == 7
    for name, text in pages.items():
        parser = html5lib.HTMLParser(strict=True)
        parser.parse(text)  # raises on the first error
        assert not parser.errors, name


def elements(text: str) -> Iterator[ET.Element]:
    tree: ET.Element = html5lib.parse(text, treebuilder="etree", namespaceHTMLElements=True)
    yield from tree.iter()


def test_structure_for_readers_of_all_kinds(pages: dict[str, str]) -> None:
    """One H1, no skipped level, one main, a skip link first, a language, named navigation, alt on images."""
    for name, text in pages.items():
        tags = [(el.tag.removeprefix(XHTML), el) for el in elements(text) if isinstance(el.tag, str)]
        levels = [int(tag[1]) for tag, _ in tags if re.fullmatch(r"h[1-6]", tag)]
        assert levels[0] == 1 and levels.count(1) == 1, name
        assert all(b <= a + 1 for a, b in pairwise(levels)), (name, levels)
        assert sum(tag == "main" for tag, _ in tags) == 1
        assert next(el for tag, el in tags if tag == "html").attrib["lang"] == "en"
        links = [el for tag, el in tags if tag == "a"]
        assert links[0].attrib["href"] == "#content"
        assert all(
            el.attrib.get("aria-label") or el.attrib.get("aria-labelledby") for t, el in tags if t == "nav"
        )
        assert all(el.attrib.get("alt") for tag, el in tags if tag == "img"), name
        for tag, el in tags:
            if tag.endswith("}svg") and el.attrib.get("role") == "img":
                assert el.attrib["aria-label"], name


def test_headings_and_their_numbers(said: dict[str, Any]) -> None:
    def heads(page: str) -> list[tuple[str, str, str]]:
        return [(h["number"], h["text"], h["id"]) for h in said[page]["headings"]]

    assert heads("chapters/one.html") == [
        ("1", "One call, and its record", "sec-one"),
        ("1.1", "Inline things", "sec-inline"),
        ("1.1.1", "A third level", "sec-third"),
        ("1.2", "Boxes", "sec-boxes"),
        ("1.3", "Tables and images", "sec-tables"),
    ]
    assert heads("chapters/two.html") == [
        ("2", "Two", "sec-two"),
        ("2.1", "Across pages", "sec-across"),
        ("", "Not numbered", "not-numbered"),
        ("2.2", "Numbered again", "numbered-again"),
    ]
    assert heads("index.html") == [("", "A sample", "sec-index"), ("", "Unnumbered here", "sec-plain")]
    assert heads("chapters/notation.html") == [
        ("", "Appendix A — Notation", "sec-app"),
        ("A.1", "Symbols", "sec-app-sub"),
    ]


def test_captions(said: dict[str, Any]) -> None:
    assert [(c["id"], c["text"]) for c in said["chapters/one.html"]["captions"]] == [
        ("tbl-prices", "Table 1.1: Prices in dollars per million tokens."),
        ("fig-image", "Figure 1.1: A grey image."),
        ("fig-pair-left", "(a) Left"),
        ("fig-pair-right", "(b) Right"),
        ("fig-pair", "Figure 1.2: Two images."),
        ("lst-hello", "Listing 1.1: A listing"),
        ("fig-curve", "Figure 1.3: Which curve is flatter, and where is T=0.7?"),
        ("fig-both-1", "(a) First"),
        ("fig-both-2", "(b) Second"),
        ("fig-both", "Figure 1.4: Two at once."),
        ("tbl-cost", "Table 1.2: Costs by n."),
        ("lst-cell", "Listing 1.2: A cell as a listing"),
    ]


def test_equations_and_boxes(said: dict[str, Any]) -> None:
    assert [(e["id"], e["text"]) for e in said["chapters/one.html"]["equations"]] == [
        ("eq-chain", "(1.1)"),
        ("eq-softmax", "(1.2)"),
    ]
    assert said["chapters/two.html"]["equations"] == [{"id": "eq-two", "text": "(2.1)"}]
    assert said["chapters/notation.html"]["equations"] == [{"id": "eq-app", "text": "(A.1)"}]
    assert [b["text"] for b in said["chapters/one.html"]["boxes"]] == [
        "What you can do", "Tip", "A heading as title", "Folded", "Caution 1.1: With care",
        "Definition 1.1 (Model call)", "Theorem 1.1 (Sums)", "Exercise 1.1", "Solution", "Answer",
    ]  # fmt: skip


def test_references_across_pages(said: dict[str, Any]) -> None:
    assert [(r["target"], r["text"]) for r in said["chapters/two.html"]["references"]] == [
        ("chapters/one.html#fig-curve", "Figure 1.3"),
        ("chapters/one.html#tbl-prices", "Table 1.1"),
        ("chapters/one.html#eq-chain", "Equation 1.1"),
        ("chapters/one.html#sec-inline", "Section 1.1"),
        ("chapters/one.html#sec-one", "Chapter 1"),
        ("chapters/one.html#exr-first", "Exercise 1.1"),
        ("chapters/one.html#fig-pair-left", "Figure 1.2 (a)"),
        ("chapters/notation.html#sec-app", "Appendix A"),
        ("chapters/notation.html#sec-app-sub", "Section A.1"),
        ("chapters/two.html#eq-two", "Equation 2.1"),
    ]
    words = [r["text"] for r in said["chapters/one.html"]["references"]]
    assert words[8:13] == ["Figure 1.2 (a)", "Figure 1.2 (b)", "Figure 1.1", "1.2", "Fig. 1.1"]
    assert words[-2:] == ["Table 1.2", "Listing 1.2"]  # @Tbl-cost is @tbl-cost


def test_words_of_a_reference_do_not_break(pages: dict[str, str]) -> None:
    assert ">Figure\xa01.3</a>" in pages["chapters/two.html"]


def test_citations_agree_over_the_book(pages: dict[str, str]) -> None:
    """Two works of one author and year keep their letters on every page; what is cited is listed."""
    assert "(Doe 2020b)" in pages["index.html"] or ">Doe 2020b<" in pages["index.html"]
    assert "Doe 2020a" in re.sub(r"<[^>]+>", "", pages["chapters/one.html"])
    entries = re.findall(r'id="ref-([\w]+)"', pages["references.html"])
    assert entries == ["doe20x", "doe20y", "knuth84"]
    assert '../references.html#ref-knuth84"' in pages["chapters/one.html"]
    assert 'href="references.html#ref-knuth84"' in pages["index.html"]


def test_every_link_leads_somewhere(result: Result, pages: dict[str, str]) -> None:
    files = {p.relative_to(result.output).as_posix() for p in result.output.rglob("*") if p.is_file()}
    assert broken_links(pages, files) == []
    assert not re.search(r'(?:href|src)="/', "".join(pages.values())), "an absolute path breaks file://"


def test_links_to_notebooks_become_links_to_pages(pages: dict[str, str]) -> None:
    assert '<a href="one.html#sec-inline">' in pages["chapters/two.html"]
    assert '<a href="notation.html#B-20tok">' in pages["chapters/two.html"]
    assert '<a href="chapters/one.html#sec-inline">' in pages["index.html"]
    assert not re.search(r'href="[^"]*\.(ipynb|md)', "".join(pages.values()))


def test_drawings_are_inlined(result: Result, pages: dict[str, str]) -> None:
    """Each is XML, named, with ids of its own, in the page's colours, and without what was Matplotlib's."""
    text = pages["chapters/one.html"]
    drawings = re.findall(r"<svg [^>]*class=\"figure-svg\".*?</svg>", text, re.S)
    assert len(drawings) == 4
    for drawing in drawings:
        root = ET.fromstring(drawing)
        assert root.attrib["role"] == "img" and root.attrib["aria-label"] and "width" not in root.attrib
        used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", drawing))
        assert used and used <= {el.attrib["id"] for el in root.iter() if "id" in el.attrib}
        assert "DejaVu" not in drawing and "metadata" not in drawing and "DOCTYPE" not in drawing
        for role, (light, _) in palette().items():
            assert light not in drawing.lower(), role
        assert "var(--fig-c1)" in drawing and "var(--fig-c2)" in drawing
    assert 'aria-label="Second curve"' in drawings[3]
    css = (result.output / "assets/book.css").read_text(encoding="utf-8")
    for role, (light, dark) in palette().items():
        assert f"--fig-{role}:light-dark({light},{dark})" in css


def test_pixel_images_become_files(result: Result, pages: dict[str, str]) -> None:
    names = re.findall(
        r'<img src="\.\./(chapters/one_files/[^"]+)" alt="A grey box" width="40" height="20"',
        pages["chapters/one.html"],
    )
    assert len(names) == 1 and (result.output / names[0]).read_bytes().startswith(b"\x89PNG")


def test_cells(pages: dict[str, str]) -> None:
    text = pages["chapters/one.html"]
    assert "not shown" not in re.sub(r"<[^>]+>", "", text).replace("print(&#39;not shown&#39;)", "").replace(
        "print('not shown')", ""
    )
    assert text.count("#|") == 0, "an option line is shown"
    assert "# @save" in text
    assert "<pre><code>&#39;a &lt;b&gt; &amp; c&#39;" in text or "<pre><code>'a &lt;b&gt; &amp; c'" in text
    assert '<p class="from-cell">Markup <b>from</b> a cell.</p>' in text
    assert '<span class="ansi-31">red</span> and <span class="ansi-1 ansi-32">green</span>' in text
    assert re.search(r'cell-output-stderr">\s*<pre><code>careful', text)
    assert re.search(r'cell-output-error">\s*<pre><code><span class="ansi-31">ZeroDivisionError</span>', text)
    assert re.search(r'<details class="code-fold"><summary>Show the code</summary>', text)
    assert re.search(r"<pre><code>```\n:::\n", text), "output that looks like Markdown is text"
    assert re.search(r'<div id="cell-fig-curve" class="cell">', text)


def test_a_box_may_span_cells(pages: dict[str, str]) -> None:
    solution = re.search(
        r'<details class="callout callout-tip solution-box">.*?</details>', pages["chapters/one.html"], re.S
    )
    assert solution and 'id="fold-me"' in solution[0] and "42" in solution[0]


def test_formulas_are_mathml(pages: dict[str, str]) -> None:
    math = re.findall(r"<math.*?</math>", "".join(pages.values()), re.S)
    assert len(math) == 12
    for formula in math:
        root = ET.fromstring(formula)
        assert root.find(".//{*}annotation") is not None
    assert "<mo>∏</mo>" in pages["chapters/one.html"].replace(' limits="true"', "").replace(
        ' movablelimits="false"', ""
    )


def test_foot_and_neighbours(pages: dict[str, str]) -> None:
    text = pages["chapters/one.html"]
    assert "Last run: 2026-11-29 · Python 3.11.7 · numpy 2.4.0 · 3.2 s · x86_64, 2 cores" in text
    assert "Last run" not in pages["chapters/two.html"]
    assert (
        '<a href="../index.html" rel="prev">' in text and '<a href="../chapters/two.html" rel="next">' in text
    )
    assert 'rel="prev"' not in pages["index.html"] and 'rel="next"' not in pages["chapters/notation.html"]


def test_navigation(pages: dict[str, str]) -> None:
    side = re.search(r'<nav id="sidebar".*?</nav>', pages["chapters/one.html"], re.S)
    assert side
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", side[0]).replace("&nbsp;", " ")).strip()
    expected = (
        "A sample First part 1 One call, and its record 1.1 Inline things 1.2 Boxes 1.3 Tables and images "
        "2 Two References Appendices A Notation"
    )
    assert words == expected
    assert side[0].count('aria-current="page"') == 1


def test_search_index_covers_every_section(result: Result, said: dict[str, Any]) -> None:
    script = (result.output / "assets/search-index.js").read_text(encoding="utf-8")
    index = json.loads(script.removeprefix("window.BOOK_INDEX=").removesuffix(";\n"))
    titles = {entry[0] for entry in index}
    for page in ("index.html", "chapters/one.html", "chapters/two.html", "chapters/notation.html"):
        for head in said[page]["headings"]:
            assert (page if head["level"] == "1" else f"{page}#{head['id']}") in titles
    chain = next(entry for entry in index if entry[0] == "chapters/one.html#sec-inline")
    assert "where each factor is a softmax" in chain[3] and "<" not in chain[3].replace("y<t", "")


def test_plain_text_is_pandocs_own(tmp_path: Path) -> None:
    """What is no construct of Quarto's comes out as Pandoc writes it by itself."""
    text = (
        "A *b* **c** `d` [e](https://example.org) H~2~O^2^ ~~f~~ “g” -- h... \n\n"
        "- i\n\n  j\n- k\n\n1. l\n\n> m\n\n"
        "Term\n:   n\n\n| o | p |\n|---|--:|\n| 1 | 2 |\n\n```c\nint q;\n```\n\n"
        "$r_s$ and\n\n$$t$$\n\nu[^v]\n\n[^v]: w\n"
    )
    pandoc = Pandoc(tmp_path / "cache")
    (tmp_path / "index.md").write_text(f"# T {{#sec-t .unnumbered}}\n\n{text}", encoding="utf-8")
    (tmp_path / "_quarto.yml").write_text(
        "project: {type: book}\nbook: {title: T, chapters: [index.md]}\n", encoding="utf-8"
    )
    page = (build(tmp_path).output / "index.html").read_text(encoding="utf-8")
    ours = re.search(r"<h1.*?</h1>\n(.*)\n</article>", page, re.S)
    command = [pandoc.executable[0], "-f", "markdown", "-t", "html5", "--mathml", "--wrap=none"]
    theirs = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    assert ours
    scroll = re.sub(r'<div class="scroll">\n(<table>.*?</table>)\n</div>', r"\1", ours[1], flags=re.S)
    assert uncoloured(scroll).strip() == uncoloured(theirs).strip()


def uncoloured(page: str) -> str:
    """A page without the colours of its code and the classes around it."""
    return re.sub(
        r'<div class="sourceCode".*?<code[^>]*>(.*?)</code></pre></div>',
        lambda m: "<pre>" + re.sub(r"</?(?:span|a|\w-)(?:\s[^>]*)?>", "", m[1]) + "</pre>",
        page,
        flags=re.S,
    )


def test_a_second_build_is_the_same_bytes(result: Result, tmp_path: Path) -> None:
    again = build(result.output.parent, tmp_path / "again")
    assert again.pandoc_runs == 0

    def contents(root: Path) -> dict[str, bytes]:
        return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}

    assert contents(again.output) == contents(result.output)
