"""Building as a whole: the command, the swap, the cache, the server, Quarto's route, and the link check."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.render.sample import SVG, write

from build import main as build_main
from render.links import broken_links, inventory
from render.pandoc import Pandoc, identity, write_atomic
from render.problems import BuildError
from render.site import build, swap
from render.source import _preformatted
from render.svg import inline, palette

BUILD = Path(__file__).parents[1] / "scripts" / "build.py"


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample book that has been built once."""
    root = write(tmp_path_factory.mktemp("warm"))
    build(root)
    return root


@pytest.fixture
def book(warm: Path, tmp_path: Path) -> Path:
    """A copy of the warm book, cache and site included."""
    return Path(shutil.copytree(warm, tmp_path / "book"))


def run(*arguments: str | Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    env = os.environ | ({"PATH": path} if path is not None else {})
    command = [sys.executable, str(BUILD), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=env, check=False)


def snapshot(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


# -- the command ---------------------------------------------------------------------------------------------


def test_output_that_no_build_made_is_refused(book: Path, tmp_path: Path) -> None:
    """A device, a file, and a folder with somebody else's site stay what they are."""
    notes = tmp_path / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("<!DOCTYPE html><title>mine</title>", encoding="utf-8")
    for target in (Path(os.devnull), notes, site):
        done = run("--root", book, "--renderer", "embedded", "--output", target)
        assert done.returncode == 1 and f"--output: {target}" in done.stderr
        assert "Traceback" not in done.stderr
    assert Path(os.devnull).is_char_device()
    assert notes.read_text(encoding="utf-8") == "mine"
    assert [path.name for path in site.iterdir()] == ["index.html"]


def test_a_site_may_be_built_again_in_place(book: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert run("--root", book, "--renderer", "embedded", "--output", tmp_path / "out").returncode == 0


def test_command_says_what_it_did(book: Path) -> None:
    done = run("--root", book, "--renderer", "embedded", "--check-links")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^built 7 pages with the embedded renderer in \d+\.\d\d s$", done.stderr, re.M)
    assert (book / "_book/index.html").as_uri() in done.stderr
    assert "links: every address of 7 pages resolves" in done.stderr


def test_inventory_goes_to_a_file_or_to_stdout(book: Path, tmp_path: Path) -> None:
    done = run("--root", book, "--renderer", "embedded", "--inventory")
    told = json.loads(done.stdout)
    assert run("--root", book, "--renderer", "embedded", "--inventory", tmp_path / "x.json").returncode == 0
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == told
    assert told["chapters/two.html"]["references"][0] == {
        "target": "chapters/one.html#fig-curve",
        "text": "Figure 1.3",
    }


def test_an_inventory_is_a_file_in_a_folder_that_exists(book: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    before = snapshot(tmp_path)
    for target, named in ((folder, folder), (tmp_path / "no" / "x.json", tmp_path / "no")):
        done = run("--root", book, "--renderer", "embedded", "--inventory", target)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert f"--inventory: {named} is " in done.stderr
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "no").exists() and not list(folder.iterdir())
    inside = book / "_book" / "x.json"
    assert run("--root", book, "--renderer", "embedded", "--inventory", inside).returncode == 0
    assert "chapters/two.html" in json.loads(inside.read_text(encoding="utf-8"))


def test_what_the_system_refuses_is_one_line_with_its_path(book: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    done = run("--root", book, "--renderer", "embedded", "--output", notes / "site")
    assert done.returncode == 1
    assert re.fullmatch(rf"build: {re.escape(str(notes))}(/site)?: \S.*\n", done.stderr), done.stderr
    shutil.rmtree(book / ".quarto")
    (book / ".quarto").write_text("mine", encoding="utf-8")
    before = snapshot(tmp_path)
    done = run("--root", book, "--renderer", "embedded")
    assert done.returncode == 1
    assert re.fullmatch(rf"build: {re.escape(str(book / '.quarto'))}\S*: \S.*\n", done.stderr), done.stderr
    assert snapshot(tmp_path) == before


def test_the_output_folder_is_named_and_not_its_temporary_neighbour(
    book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(prefix: str, dir: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(dir / f"{prefix}abc"))

    monkeypatch.setattr("render.site.tempfile.mkdtemp", refuse)
    arguments = ["--root", str(book), "--renderer", "embedded", "--output", str(tmp_path / "site")]
    assert build_main(arguments) == 1
    assert capsys.readouterr().err == f"build: {tmp_path / 'site'}: Permission denied\n"


def test_a_file_that_cannot_be_put_in_place_leaves_no_other(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_atomic(tmp_path / "folder", b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    write_atomic(tmp_path / "x", b"1")
    assert snapshot(tmp_path) == {"x": b"1"}


def test_a_failed_build_leaves_the_site(book: Path) -> None:
    before = snapshot(book / "_book")
    (book / "index.md").write_text("# S {#sec-index .unnumbered}\n\nSee @fig-nope.\n", encoding="utf-8")
    done = run("--root", book, "--renderer", "embedded")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "index.md:3: unresolved reference @fig-nope" in done.stderr
    assert "1 mistake; the site was left as it was" in done.stderr
    assert snapshot(book / "_book") == before
    assert sorted(p.name for p in book.iterdir() if p.name.startswith("._book")) == []


def test_a_page_that_is_gone_leaves_the_site_too(book: Path) -> None:
    (book / "_book/old.html").write_text("old", encoding="utf-8")
    build(book)
    assert not (book / "_book/old.html").exists()


@pytest.mark.parametrize("target", [".", "..", "chapters"])
def test_output_folder_with_sources_is_refused(target: str, book: Path) -> None:
    before = snapshot(book)
    done = run("--root", book, "--renderer", "embedded", "--output", (book / target).resolve())
    assert done.returncode == 1 and "--output:" in done.stderr
    assert snapshot(book) == before


def test_swap_is_one_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swap(tmp_path / "site", {"a/b.txt": b"1"})
    swap(tmp_path / "site", {"c.txt": b"2"})
    assert snapshot(tmp_path) == {"site/c.txt": b"2"}

    def full(self: Path, data: bytes) -> int:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="disk full"):
        swap(tmp_path / "site", {"d.txt": b"3"})
    assert snapshot(tmp_path) == {"site/c.txt": b"2"}


def test_the_old_site_comes_back_if_the_new_one_cannot_be_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swap(tmp_path / "site", {"c.txt": b"2"})
    rename = Path.rename

    def busy(self: Path, to: Path) -> Path:
        if to.name == "site" and not self.name.endswith("-old"):
            raise OSError("busy")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", busy)
    with pytest.raises(OSError, match="busy"):
        swap(tmp_path / "site", {"d.txt": b"3"})
    assert snapshot(tmp_path) == {"site/c.txt": b"2"}


# -- the cache -----------------------------------------------------------------------------------------------


def test_only_what_changed_runs_again(book: Path) -> None:
    assert build(book).pandoc_runs == 0
    index = book / "index.md"
    index.write_text(index.read_text(encoding="utf-8") + "\nMore text.\n", encoding="utf-8")
    assert build(book).pandoc_runs == 3  # the page's tree, its HTML and its Markdown


def test_a_new_number_reaches_every_page(book: Path) -> None:
    """The cache may not keep "Figure 1.3" where a figure was put in before it."""
    path = book / "chapters/one.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    figure = '![New.](images/grey.png){#fig-new fig-alt="new"}'
    title, rest = notebook["cells"][0]["source"].split("\n\n", 1)
    notebook["cells"][0]["source"] = f"{title}\n\n{figure}\n\n{rest}"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    build(book)
    assert ">Figure\xa01.4</a>" in (book / "_book/chapters/two.html").read_text(encoding="utf-8")


def test_a_changed_bibliography_reaches_every_page(book: Path) -> None:
    path = book / "references.bib"
    path.write_text(path.read_text(encoding="utf-8").replace("1984", "1985"), encoding="utf-8")
    build(book)
    for name in ("index.html", "chapters/one.html", "references.html"):
        text = (book / "_book" / name).read_text(encoding="utf-8")
        assert "1985" in text and "1984" not in text, name


def test_a_damaged_cache_is_made_again(book: Path) -> None:
    for path in (book / ".quarto/embedded/pandoc").iterdir():
        path.write_bytes(path.read_bytes()[:20])
    before = snapshot(book / "_book")
    assert build(book).pandoc_runs > 0
    assert snapshot(book / "_book") == before


def test_a_new_wheel_is_another_pandoc_beside_an_old_one_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one gives way to the wheel's, so what is kept depends on the wheel's."""
    (tmp_path / "pandoc").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "pandoc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = set()
    for version in ("1.17", "1.18"):
        monkeypatch.setattr("render.pandoc._wheel_version", lambda version=version: version)
        found.add(identity())
    assert len(found) == 2


def test_old_pandoc_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "pandoc"
    fake.write_text("#!/bin/sh\necho pandoc 2.17.1.1\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("render.pandoc._wheel", lambda: None)
    with pytest.raises(BuildError, match=r"expected 3.8 or newer, found only .*pandoc 2\.17"):
        _ = Pandoc(tmp_path).executable


# -- serving -------------------------------------------------------------------------------------------------


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return str(answer.read().decode())


def eventually(check: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def test_serve_rebuilds_and_survives_a_mistake(book: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        str(BUILD),
        "--root",
        str(book),
        "--renderer",
        "embedded",
        "--serve",
        "--port",
        str(port),
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/"

    def serves(text: str) -> bool:
        try:
            return text in fetch(url)
        except OSError:
            return False

    try:
        eventually(lambda: serves("A sample"))
        assert "/__version" in fetch(url) and "/__version" not in (book / "_book/index.html").read_text(
            encoding="utf-8"
        )
        first = fetch(url + "__version")
        index = book / "index.md"
        good = index.read_text(encoding="utf-8")
        index.write_text(good + "\nSee @fig-nope.\n", encoding="utf-8")
        time.sleep(1.5)
        assert serves("A sample") and fetch(url + "__version") == first
        index.write_text(good + "\nAn added sentence.\n", encoding="utf-8")
        eventually(lambda: serves("An added sentence."))
        eventually(lambda: fetch(url + "__version") != first)
        with pytest.raises(urllib.error.HTTPError) as missing:
            fetch(url + "nope.html")
        assert missing.value.code == 404 and b"does not exist" in missing.value.read()
        missing.value.close()
    finally:
        server.terminate()
        server.wait(10)


# -- Quarto's route ------------------------------------------------------------------------------------------

FAKE = """#!/bin/sh
# Stands for quarto: notes its arguments, writes one page, and says what FAKE_LOG holds.
echo "$@" > "$FAKE_ARGS"
root=$2
while [ $# -gt 0 ]; do [ "$1" = --output-dir ] && out=$root/$2; shift; done
page='<html><meta name="generator" content="quarto-1.10"><main><h1 id="x">From Quarto</h1></main></html>'
mkdir -p "$out" && echo "$page" > "$out/index.html"
printf '%b\\n' "$FAKE_LOG" >&2
exit ${FAKE_STATUS:-0}
"""


@pytest.fixture
def quarto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin/quarto"
    fake.write_text(FAKE, encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_ARGS", str(tmp_path / "args"))
    monkeypatch.setenv("FAKE_LOG", "Output created")
    return tmp_path


def test_quarto_is_used_where_it_is_installed(quarto: Path, book: Path) -> None:
    done = run("--root", book)
    assert done.returncode == 0, done.stderr
    assert "built 1 pages with Quarto" in done.stderr
    assert "From Quarto" in (book / "_book/index.html").read_text(encoding="utf-8")
    assert (
        (quarto / "args")
        .read_text(encoding="utf-8")
        .startswith(f"render {book} --to html --no-execute --output-dir")
    )
    assert "From Quarto" not in (
        run("--root", book, "--renderer", "embedded").stdout or ""
    ) and "A sample" in (book / "_book/index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("log", "status", "expected"),
    [
        ("WARN: ch2.html: Unable to resolve crossref @fig-nope", "0", "Unable to resolve crossref @fig-nope"),
        ("[WARNING] Citeproc: citation nope not found", "0", "citation nope not found"),
        ("\\033[33mWARN: Unable to resolve link target: nope.ipynb\\033[0m", "0", "link target: nope.ipynb"),
        ("ERROR: YAML", "1", "ERROR: YAML"),
        ("nothing said", "3", "quarto ended with status 3"),
    ],
)
def test_quartos_warnings_are_mistakes(
    log: str, status: str, expected: str, quarto: Path, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LOG", log)
    monkeypatch.setenv("FAKE_STATUS", status)
    before = snapshot(book / "_book")
    done = run("--root", book, "--renderer", "quarto")
    assert done.returncode == 1 and expected in done.stderr and "Traceback" not in done.stderr
    assert snapshot(book / "_book") == before
    assert not (book / "._book-quarto").exists()


def test_quarto_asked_for_but_absent(book: Path, tmp_path: Path) -> None:
    done = run("--root", book, "--renderer", "quarto", path=str(tmp_path))
    assert done.returncode == 1 and "no quarto on PATH" in done.stderr


def test_inventory_reads_quartos_markup() -> None:
    """Markup as Quarto 1.4 and later write it, in small."""
    page = """<html><body><nav id="TOC"><a class="quarto-xref" href="#x">no</a></nav>
    <main id="quarto-document-content">
    <header id="title-block-header"><h1 class="title"><span id="sec-one"
    class="quarto-section-identifier"><span class="chapter-number">1</span>&nbsp; <span
    class="chapter-title">One call</span></span></h1></header>
    <section id="sec-a" class="level2" data-number="1.1"><h2 data-number="1.1" class="anchored"
    data-anchor-id="sec-a"><span class="header-section-number">1.1</span> First</h2>
    <p>See <a href="../chapters/two.html#fig-x" class="quarto-xref">Figure&nbsp;<span>2.1</span></a>.</p>
    <div id="fig-y" class="quarto-float quarto-figure anchored">
    <figure class="quarto-float quarto-float-fig figure">
    <div aria-describedby="fig-y-caption-0"><img src="y.png" alt="y"></div><figcaption
    class="quarto-float-caption-bottom quarto-float-caption quarto-float-fig"
    id="fig-y-caption-0ceaefa1">Figure&nbsp;1.1:
    A <em>caption</em></figcaption></figure></div>
    <div id="thm-a" class="theorem"><p>
    <span class="theorem-title"><strong>Theorem 1.1 (Name)</strong></span> Text</p></div>
    </section></main></body></html>"""
    said = inventory({"chapters/one.html": page})["chapters/one.html"]
    assert said["headings"] == [
        {"level": "1", "id": "sec-one", "number": "1", "text": "One call"},
        {"level": "2", "id": "sec-a", "number": "1.1", "text": "First"},
    ]
    assert said["references"] == [{"target": "chapters/two.html#fig-x", "text": "Figure 2.1"}]
    assert said["captions"] == [{"id": "fig-y", "text": "Figure 1.1: A caption"}]
    assert said["boxes"] == [{"id": "thm-a", "text": "Theorem 1.1 (Name)"}]


# -- the link check ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("markup", "wrong"),
    [
        ('<a href="b.html">', None),
        ('<a href="b.html#x">', None),
        ('<a href="b.html#y">', "'b.html' has no id 'y'"),
        ('<a href="#a">', "'a.html' has no id 'a'"),
        ('<a href="c.html">', "the site has no 'c.html'"),
        ('<a href="../up.html">', "the site has no '../up.html'"),
        ('<img src="d.png">', None),
        ('<img src="e.png">', "the site has no 'e.png'"),
        ('<a href="https://e.org/x">', None),
        ('<a href="mailto:a@e.org">', None),
        ('<script src="https://e.org/x.js"></script>', "loads 'https://e.org/x.js' from outside"),
        ('<link rel="stylesheet" href="//e.org/x.css">', "loads '//e.org/x.css' from outside"),
        ("<img src='https://e.org/x.png'>", "from outside"),
        ('<p id="p"></p><p id="p"></p>', "duplicate id 'p'"),
        ("<p\n id='q'></p><a\n href='#q'>", None),
        ('<!-- <a href="c.html"> -->', None),
    ],
)
def test_link_check(markup: str, wrong: str | None) -> None:
    found = broken_links({"a.html": markup, "b.html": '<p id="x"></p>'}, {"d.png"})
    assert [what for _, _, what in found] == [] if wrong is None else wrong in found[0][2]


# -- pieces --------------------------------------------------------------------------------------------------


def test_ids_of_two_drawings_never_meet() -> None:
    one, two = inline(SVG, "f1-", "One"), inline(SVG, "f2-", 'A "quoted" <name>')
    ids = [set(re.findall(r'\bid="([^"]+)"', drawing)) for drawing in (one, two)]
    assert len(ids[0]) == len(ids[1]) == 3 and not ids[0] & ids[1]
    assert 'aria-label="A &quot;quoted&quot; &lt;name&gt;"' in two


def test_every_role_of_the_palette_is_found() -> None:
    for role, (light, _) in palette().items():
        path = f'<path style="fill: {light.upper()}" stroke="{light}"/>'
        text = f'<svg xmlns="http://www.w3.org/2000/svg">{path}</svg>'
        assert inline(text, "p-", "x").count(f"var(--fig-{role})") == 2


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.text(alphabet=st.sampled_from("a<>&`~:\x1b[]0;131m\n\r{}=")))
def test_any_output_is_one_block_of_text(text: str) -> None:
    """Program output can close no fence and open no element, whatever it holds."""
    block = _preformatted(text)
    fence, *body, end = block.split("\n")
    ticks = fence.removesuffix("{=html}")
    assert end == ticks and set(ticks) == {"`"} and len(ticks) >= 3
    assert not any(line.startswith(ticks) for line in body)
    tags = re.findall(r"<[^>]*>", "\n".join(body))
    assert tags[:2] == ["<pre>", "<code>"] and tags[-2:] == ["</code>", "</pre>"]
    inner = tags[2:-2]
    assert all(re.fullmatch(r'<span class="[a-z\d -]+">|</span>', tag) for tag in inner)
    assert inner.count("</span>") * 2 == len(inner)
