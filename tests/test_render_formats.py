"""What stands beside the pages: Markdown twins, llms.txt, the EPUB, and the links to them."""

from __future__ import annotations

import io
import json
import os
import posixpath
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.render.sample import EXPLORE, write

from render.config import Book, Page
from render.downloads import minutes, page_line
from render.epub import NAME
from render.parallel import Job
from render.problems import BuildError
from render.site import Result, build
from render.twin import twin_name

XHTML, OPF = "{http://www.w3.org/1999/xhtml}", "{http://www.idpf.org/2007/opf}"
NOTEBOOKS = {"notebooks/one.ipynb": b"{}", "notebooks/student/one.ipynb": b"{}"}
PAGES = ["index", "chapters/one", "chapters/two", "references", "chapters/notation"]


def notebooks(*_: object) -> Job[dict[str, bytes]]:
    yield []
    return NOTEBOOKS


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return build(write(tmp_path_factory.mktemp("sample")), extra=notebooks, ebook=True)


@pytest.fixture(scope="module")
def twins(result: Result) -> dict[str, str]:
    return {name: (result.output / f"{name}.md").read_text(encoding="utf-8") for name in PAGES}


def prose(text: str) -> str:
    """A twin without its blocks of code."""
    return re.sub(r"^[ >]*(`{3,}).*?^[ >]*\1$", "", text, flags=re.S | re.M)


# -- Markdown ------------------------------------------------------------------------------------------------


def test_a_twin_holds_no_markup_but_markdown(twins: dict[str, str]) -> None:
    for name, text in twins.items():
        found = re.findall(r":::|\{[#.=]|@[a-z]{3}-|<!--|</?\w[^>\s]*[ >]|\[TABLE\]", prose(text))
        allowed = r"<http|</?su[bp]>"  # addresses; what is raised or lowered
        assert [one for one in found if not re.match(allowed, one)] == [], name
        assert text.startswith("# ") and len(re.findall(r"^# ", prose(text), re.M)) == 1


def test_a_twin_says_what_its_page_says(twins: dict[str, str]) -> None:
    one = twins["chapters/one"]
    for words in (
        "# 1  One call, and its *record*",
        "## 1.1 Inline things",
        "Another, with Equation 1.1",
        "As Figure 1.2 (a) and Figure 1.2 (b), Figure 1.1 show; 1.2 bare; Fig. 1.1 with a word of its own.",
        "> **What you *can* do**",
        "**Definition 1.1 (Model call)**",
        "**Linux**",
        "Figure 1.3: Which curve is *flatter*, and where is $T = 0.7$?",
        "> ``` output\n> 42\n> ```",
        "``` output\nred and green\n```",
        "| Calls $n$ | cost |",
        "It cites (Doe 2020a, 3; Knuth 1984) and says Doe (2020b)",
        "    return f'{x:>3}'",
    ):
        assert words in one, words
    assert "``` output\nnot shown" not in one
    assert "Literate Programming" in twins["references"] and "Literate Programming" not in one
    assert "Section A.1" in twins["chapters/two"] and "Shared text, included." in twins["chapters/two"]


def test_drawings_are_words_with_a_link(result: Result, twins: dict[str, str]) -> None:
    links = re.findall(r"\[Figure: ([^\]]+)\]\(([^#)]+)#([^)]+)\)", twins["chapters/one"])
    assert [words for words, _, _ in links] == [
        "Two curves",
        "Two curves over steps",
        "First curve",
        "Second curve",
    ]
    page = (result.output / "chapters/one.html").read_text(encoding="utf-8")
    assert all(file == "one.html" and f'id="{name}"' in page for _, file, name in links)


def test_what_is_interactive_is_its_table(result: Result, twins: dict[str, str]) -> None:
    assert re.search(
        r"\| T +\| result +\|\n\|-+\|-+\|\n\| 1.0 +\| one 0.5 +\|\n\| 2.0 +\| one 0.7 +\|",
        twins["chapters/one"],
    )
    assert "application/json" not in twins["chapters/one"]
    # On the page itself the markup is as it came.
    markup = EXPLORE.split("\n", 1)[1].rsplit("\n```", 1)[0]
    assert markup in (result.output / "chapters/one.html").read_text(encoding="utf-8")


def test_every_link_of_a_twin_leads_to_a_file(result: Result, twins: dict[str, str]) -> None:
    for name, text in twins.items():
        for address in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
            if not re.match(r"\w+:", address):
                path = posixpath.join(posixpath.dirname(name), address.partition("#")[0])
                assert (result.output / path).is_file(), (name, address)


def test_pages_and_the_list_lead_to_the_twins(result: Result) -> None:
    listed = (result.output / "llms.txt").read_text(encoding="utf-8")
    assert listed.startswith("# A Sample\n\n> Every construct, once\n")
    assert re.findall(r"^- \[.*?\]\((.*?)\)", listed, re.M) == [f"{name}.md" for name in PAGES]
    assert re.findall(r"^## (.*)", listed, re.M) == ["Chapters", "First part", "Chapters", "Appendices"]
    for name in PAGES:
        page = (result.output / f"{name}.html").read_text(encoding="utf-8")
        up = "../" * name.count("/")
        assert f'<link rel="alternate" type="text/markdown" href="{up}{name}.md">' in page
        assert twin_name(Page(f"{name}.ipynb", "chapter")) == f"{name}.md"


# -- the line below a title ----------------------------------------------------------------------------------


def line(repo: str = "", files: set[str] | None = None) -> str:
    book = Book(Path(), "T", [], repo_url=repo)
    return page_line(book, Page("chapters/one.ipynb", "chapter"), 1, files or set())


def test_the_line_below_a_title() -> None:
    there = set(NOTEBOOKS)
    assert line() == (
        '<p class="page-line">About 1 minute to read · '
        "<code>make lab</code> in a checkout opens its notebook</p>"
    )
    assert (
        '<a href="../notebooks/student/one.ipynb" download>student</a>, <a href="../notebooks/one.ipynb"'
        in line("", there)
    )
    assert "colab" not in line("", there) and "make lab" in line("", there)
    assert "make lab" not in line("https://github.com/a/b", there)
    assert "colab.research.google.com/github/a/b/blob/gh-pages/notebooks/student/one.ipynb" in line(
        "https://github.com/a/b", there
    )
    assert "colab" not in line("https://example.org/a/b", there)
    assert page_line(Book(Path(), "T", []), Page("index.md", "index"), 1, there) == ""
    assert "to read" not in page_line(Book(Path(), "T", []), Page("a.ipynb", "appendix"), 9, there)


def test_reading_time_counts_prose_alone() -> None:
    words = "word " * 401
    assert minutes(f"<p>{words}</p><pre>{words}</pre><table><tr><td>{words}</td></tr></table>") == 3


def test_notebooks_are_part_of_the_site(result: Result) -> None:
    page = (result.output / "chapters/one.html").read_text(encoding="utf-8")
    assert (result.output / "notebooks/student/one.ipynb").read_bytes() == b"{}"
    assert 'href="../notebooks/student/one.ipynb" download>student</a>' in page
    assert "notebooks/" not in (result.output / "chapters/two.html").read_text(encoding="utf-8")
    assert 'href="../book.epub" download' in page


# -- the EPUB ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def book(result: Result) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO((result.output / NAME).read_bytes()))


def test_a_character_that_xml_has_not_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path)
    path = root / "chapters/one.ipynb"
    whole = path.read_text(encoding="utf-8")
    told = json.loads(whole)
    told["cells"][0]["source"] += "\n\n`\\u0001 and \\b` are text.\n"
    path.write_text(json.dumps(told), encoding="utf-8")
    build(root, ebook=True)
    for odd in ("\x01", "\x0b", "\ufffe"):
        told["cells"][0]["source"] += f"\n\nA {odd} here.\n"
        path.write_text(json.dumps(told), encoding="utf-8")
        with pytest.raises(BuildError, match=r"^chapters/one.ipynb: a character that XML has not"):
            build(root, ebook=True)
        told = json.loads(whole)


def documents(book: zipfile.ZipFile) -> dict[str, ET.Element]:
    return {name: ET.fromstring(book.read(name)) for name in book.namelist() if name.endswith(".xhtml")}


def test_the_container(book: zipfile.ZipFile) -> None:
    """EPUB 3.3, OCF: the media type is first and stored; the package names every file, each of them there."""
    first = book.infolist()[0]
    assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
    assert book.read("mimetype") == b"application/epub+zip"
    rootfile = ET.fromstring(book.read("META-INF/container.xml")).find(".//{*}rootfile")
    assert rootfile is not None and rootfile.attrib["full-path"] == "EPUB/content.opf"
    package = ET.fromstring(book.read("EPUB/content.opf"))
    items = {item.attrib["id"]: item.attrib for item in package.iter(f"{OPF}item")}
    listed = {posixpath.join("EPUB", unquote(item["href"])) for item in items.values()}
    rest = {
        "mimetype",
        "META-INF/container.xml",
        "META-INF/com.apple.ibooks.display-options.xml",
        "EPUB/content.opf",
    }
    assert listed == set(book.namelist()) - rest
    assert [i["href"] for i in items.values() if "nav" in i.get("properties", "").split()] == ["nav.xhtml"]
    assert [i["media-type"] for i in items.values() if "cover-image" in i.get("properties", "")] == [
        "image/svg+xml"
    ]
    spine = [ref.attrib["idref"] for ref in package.iter(f"{OPF}itemref")]
    assert len(spine) == len(set(spine)) > len(PAGES)
    assert all(items[name]["media-type"] == "application/xhtml+xml" for name in spine)
    for item in items.values():  # formulas and scripts are announced
        markup = book.read(posixpath.join("EPUB", item["href"]))
        assert ("mathml" in item.get("properties", "")) == (b"<math" in markup), item
    words = {el.tag.split("}")[1]: el.text for el in package.iter() if el.text and "purl.org" in el.tag}
    assert words["title"] and words["language"] == "en" and words["creator"] == "Nobody"
    modified = [el.text for el in package.iter(f"{OPF}meta") if el.get("property") == "dcterms:modified"]
    assert modified == ["2026-11-29T00:00:00Z"] and str(words["identifier"]).startswith("urn:uuid:")


def test_its_documents(book: zipfile.ZipFile) -> None:
    """Each is XML with ids of its own; every link ends at an id; nothing comes from elsewhere."""
    trees = documents(book)
    ids = {}
    for name, tree in trees.items():
        found = [el.attrib["id"] for el in tree.iter() if "id" in el.attrib]
        assert len(found) == len(set(found)), name
        ids[name] = set(found)
    links = 0
    for name, tree in trees.items():
        for el in tree.iter():
            for key, value in el.attrib.items():
                local = key.rsplit("}", 1)[-1]
                if local == "src" or (local == "href" and el.tag != f"{XHTML}a"):
                    assert not re.match(r"\w+:", value), (name, value)
                if local in ("href", "src") and not re.match(r"\w+:", value):
                    path, _, fragment = value.partition("#")
                    target = (
                        posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
                    )
                    assert target in book.namelist() and (not fragment or fragment in ids[target]), (
                        name,
                        value,
                    )
                    links += 1
        for image in tree.iter(f"{XHTML}img"):
            assert image.attrib["alt"], name
        assert not list(tree.iter(f"{XHTML}script")) and not list(tree.iter(f"{XHTML}input")), name
    assert links > 40


def test_its_words(book: zipfile.ZipFile) -> None:
    text = {name: "".join(tree.itertext()) for name, tree in documents(book).items()}
    whole = "\n".join(text.values())
    for words in (
        "1.1 Inline things",
        "Figure\xa01.3: Which curve",
        "Definition\xa01.1 (Model call)",
        "one 0.7",
        "Show the code",
        "Literate Programming",
        "Return ``x`` two times.",
        ">>> twice(2)",
    ):
        assert words in whole, words
    assert "\nnot shown" not in whole and "{.callout" not in whole
    maths = [
        el
        for tree in documents(book).values()
        for el in tree.iter("{http://www.w3.org/1998/Math/MathML}math")
    ]
    assert len(maths) > 8
    figures = [el for tree in documents(book).values() for el in tree.iter(f"{XHTML}figure")]
    assert len(figures) >= 9 and all(el.find(f".//{XHTML}figcaption") is not None for el in figures)
    drawing = next(
        book.read(name) for name in book.namelist() if name.endswith(".svg") and b"rdf" in book.read(name)
    )
    assert (
        b"#fdfdfb" in drawing and b"var(" not in drawing
    )  # paper of its own, colours that need no style sheet


def test_equal_sources_give_equal_bytes(result: Result, tmp_path: Path) -> None:
    again = build(write(tmp_path / "again"), extra=notebooks, ebook=True)
    assert (again.output / NAME).read_bytes() == (result.output / NAME).read_bytes()


def test_a_work_that_is_not_there_stops_the_ebook_too(tmp_path: Path) -> None:
    root = write(tmp_path)
    (root / "index.md").write_text("# T {#sec-t .unnumbered}\n\n[@nobody]\n", encoding="utf-8")
    with pytest.raises(BuildError, match="@nobody is not in the bibliography"):
        build(root, ebook=True)
    assert not (root / "_book").exists()


def test_epubcheck(result: Result) -> None:
    """The standard's own validator, where there is one: its command, or its jar in MODELCALL_EPUBCHECK."""
    jar, command = os.environ.get("MODELCALL_EPUBCHECK"), shutil.which("epubcheck")
    if not command and not (jar and shutil.which("java")):
        pytest.skip("no epubcheck on this machine: its rules were not run, those of this file were")
    run = [command] if command else ["java", "-jar", str(jar)]
    done = subprocess.run([*run, str(result.output / NAME)], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr  # PyPI's command says nothing of a good book, the jar counts to zero
    assert done.returncode == 0 and not re.search(r"\b(FATAL|ERROR|WARNING)\b", said), said
