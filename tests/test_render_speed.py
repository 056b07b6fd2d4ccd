"""What makes a build quick may not change what it says: forks, Pandocs that go on, and what is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.render.sample import code, markdown, notebook, shown, write

from render import converter, parallel
from render.citations import citations, cited_works
from render.config import load
from render.pandoc import Pandoc
from render.parallel import Piece, beside, run, together
from render.problems import BuildError, Problems
from render.site import build

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="no safe fork on this system")


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork even where a test runner has threads of its own, on two cores at least."""
    monkeypatch.setattr(parallel, "_forks", lambda: sys.platform == "linux")
    monkeypatch.setattr(parallel, "cores", lambda: 2)


# -- pieces --------------------------------------------------------------------------------------------------


@LINUX
def test_pieces_run_elsewhere_and_come_back_in_order(forks: None) -> None:
    found = run([Piece(lambda n=n: (n, os.getpid()), size=n) for n in range(7)])
    assert [n for n, _ in found] == list(range(7))
    assert os.getpid() not in {process for _, process in found} and len({p for _, p in found}) <= 2


def test_one_piece_runs_here(forks: None) -> None:
    assert run([Piece(os.getpid)]) == [os.getpid()]
    assert run([]) == []


def test_nothing_is_forked_beside_a_thread() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert set(run([Piece(os.getpid), Piece(os.getpid)])) == {os.getpid()}
    finally:
        done.set()
        thread.join()


@LINUX
def test_a_mistake_in_a_fork_is_a_mistake_here(forks: None) -> None:
    def wrong() -> None:
        raise BuildError(["a.md: one", "b.md: two"])

    with pytest.raises(BuildError) as caught:
        run([Piece(lambda: 1), Piece(wrong)])
    assert caught.value.lines == ["a.md: one", "b.md: two"] and str(caught.value) == "a.md: one\nb.md: two"
    assert run([Piece(lambda: 1), Piece(lambda: 2)]) == [1, 2]


@LINUX
def test_forks_that_run_at_once_have_slots_of_their_own(forks: None) -> None:
    assert parallel.slot() == 0
    assert set(run([Piece(parallel.slot) for _ in range(40)])) <= {0, 1}


def test_jobs_share_the_cores_and_keep_their_results_apart(forks: None) -> None:
    def job(*values: str) -> Generator[list[Piece], list[str], str]:
        found = yield [Piece(lambda value=value: value.upper()) for value in values]
        return "".join(found)

    assert together(job("a", "b"), job(), job("c")) == ["AB", "", "C"]


def test_a_job_that_yields_twice_is_refused(forks: None) -> None:
    def job() -> Generator[list[Piece], list[Any], None]:
        yield []
        yield []

    with pytest.raises(RuntimeError, match="yields once"):
        together(job())


@LINUX
def test_work_beside_is_done_when_its_block_ends(forks: None, tmp_path: Path) -> None:
    path = tmp_path / "made"
    with beside(lambda: path.write_text(str(os.getpid()), encoding="utf-8")):
        pass
    assert int(path.read_text(encoding="utf-8")) != os.getpid()


def test_work_beside_that_fails_is_left_to_who_needs_it(
    forks: None, capfd: pytest.CaptureFixture[str]
) -> None:
    def wrong() -> None:
        raise ValueError("no")

    with beside(wrong):
        pass
    with beside(None):
        pass
    assert capfd.readouterr() == ("", "")


# -- Pandoc --------------------------------------------------------------------------------------------------


@pytest.fixture
def pandoc(tmp_path: Path) -> Iterator[Pandoc]:
    yield Pandoc(tmp_path / "cache")


def command(pandoc: Pandoc, arguments: list[str], text: str) -> str:
    """The command that everyone else runs."""
    done = subprocess.run(
        [pandoc.executable[0], *arguments],
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


def test_a_pandoc_that_goes_on_says_what_the_command_says(pandoc: Pandoc, tmp_path: Path) -> None:
    root = write(tmp_path)
    texts = [path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.md"))]
    texts += ["", "```\na\tb\n```\n\n| a | b |\n|---|---|\n| " + "long " * 14 + "| c |\n", "é “x” — 🙂 $x^2$"]
    for text in texts:
        tree, _ = pandoc.tree(text)
        assert tree == json.loads(command(pandoc, ["-f", "markdown", "-t", "json"], text))
        flags = ["-f", "json", "-t", "html5", "--mathml", "--wrap=none", "--email-obfuscation=none"]
        html, _ = pandoc.html(tree["blocks"])
        assert html.strip() == command(pandoc, flags, json.dumps({**tree, "meta": {}})).strip()


def test_a_conversion_that_fails_does_not_spoil_the_next(pandoc: Pandoc) -> None:
    with pytest.raises(BuildError, match="nosuchformat"):
        pandoc.write([], "nosuchformat")
    assert pandoc.html([{"t": "Para", "c": [{"t": "Str", "c": "fine"}]}])[0].strip() == "<p>fine</p>"


def test_a_pandoc_that_was_ended_is_started_again(pandoc: Pandoc) -> None:
    assert pandoc.tree("one")[0]["blocks"]
    for running in converter._running.values():
        running.process.kill()
        running.process.wait()
    assert pandoc.tree("two")[0]["blocks"]


def test_an_answer_to_something_else_is_not_taken(pandoc: Pandoc) -> None:
    """As after an interrupt between a question and its answer."""
    pandoc.tree("one")
    key = (0, threading.get_ident(), pandoc.executable[0])
    stdin = converter._running[key].process.stdin
    assert stdin is not None
    stdin.write(b'{"number": "old", "from": "markdown", "to": "json", "options": {}, "bytes": 3}\nold')
    stdin.flush()
    with pytest.raises(BuildError, match="no answer that can be read while it converted markdown to json"):
        pandoc.tree("new")
    assert "new" in json.dumps(pandoc.tree("new")[0])


@LINUX
def test_a_fork_takes_over_the_pandoc_of_its_slot(forks: None, pandoc: Pandoc) -> None:
    (trees,) = together(pandoc.trees([f"text {n}" for n in range(9)]))
    assert [f"{n}" in json.dumps(tree) for n, (tree, _) in enumerate(trees)] == [True] * 9
    assert pandoc.runs == 9  # counted across the forks
    assert pandoc.tree("after")[0]["blocks"]


def test_texts_that_are_kept_are_not_parsed_again(forks: None, pandoc: Pandoc) -> None:
    together(pandoc.trees(["one", "two"]))
    together(pandoc.trees(["one", "two"]))
    assert pandoc.runs == 2


# -- citations -----------------------------------------------------------------------------------------------


def test_citations_are_those_of_a_page_on_its_own(pandoc: Pandoc, tmp_path: Path) -> None:
    """One run for the book, each citation a paragraph of its own, says what citeproc says of a whole page."""
    root = write(tmp_path / "book")
    book = load(root, Problems())
    text = "See @knuth84 and [@doe20x, p. 3; @knuth84]. Doe says so [-@doe20y], [see @doe20y, chap. 2, too]."
    tree, _ = pandoc.tree(text)
    said = citations(book, [tree["blocks"]], pandoc)
    assert not said.warnings
    html, _ = pandoc.html([*said.walk(tree["blocks"]), *said.works])
    whole = ["-f", "markdown", "-t", "html5", "--mathml", "--wrap=none", "--citeproc"]
    whole += ["--bibliography", str(root / "references.bib"), "-M", "link-citations=true"]
    assert html.strip() == command(pandoc, whole, text).strip()
    assert cited_works(tree["blocks"]) == ["knuth84", "doe20x", "doe20y"]


def test_a_page_without_citations_asks_for_none(pandoc: Pandoc, tmp_path: Path) -> None:
    book = load(write(tmp_path / "book"), Problems())
    tree, _ = pandoc.tree("See @fig-one and @sec-two.")
    before = pandoc.runs
    assert citations(book, [tree["blocks"]], pandoc).words == {} and pandoc.runs == before


# -- the whole -----------------------------------------------------------------------------------------------


@LINUX
def test_forks_build_what_one_process_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = []
    for name, safe in (("alone", False), ("forks", True)):
        monkeypatch.setattr(parallel, "_forks", lambda safe=safe: safe)
        monkeypatch.setattr(parallel, "cores", lambda: 2)
        root = write(tmp_path / name)
        result = build(root)
        sites.append({p.relative_to(result.output): p.read_bytes() for p in result.output.rglob("*.*")})
    assert sites[0] == sites[1]


SVG_TEXT = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'><rect width='{}' height='3'/></svg>"


def test_what_a_body_is_made_from_is_in_its_key(tmp_path: Path) -> None:
    """Code, drawings and their words are not in the tree that Pandoc gets, but on the page."""
    config = "project:\n  type: book\nbook:\n  title: One page\n  chapters: [index.md, a.ipynb]\n"
    (tmp_path / "_quarto.yml").write_text(config, encoding="utf-8")
    (tmp_path / "index.md").write_text("# Start {#sec-start .unnumbered}\n", encoding="utf-8")

    def made(width: int = 5, alt: str = "a box", printed: str = "1") -> tuple[str, str]:
        drawing = shown(image_svg=SVG_TEXT.format(width))
        options = f"#| label: fig-box\n#| fig-cap: A box.\n#| fig-alt: {alt}\n"
        notebook(tmp_path / "a.ipynb", markdown("# A {#sec-a}"), code(f"{options}draw({printed})", drawing))
        output = build(tmp_path).output
        return tuple((output / f"a.{kind}").read_text(encoding="utf-8") for kind in ("html", "md"))  # type: ignore[return-value]

    html, text = made()
    assert 'width="5"' in html and "a box" in html and "a box" in text and "draw(1)" in text
    assert 'width="7"' in made(width=7)[0]
    other = made(alt="a bar")
    assert "a bar" in other[0] and "a bar" in other[1] and "a box" not in "".join(other)
    assert "draw(2)" in made(printed="2")[1] and "2" in made(printed="2")[0]
    assert made() == (html, text)


def test_a_kept_body_is_taken_and_a_damaged_one_made_again(tmp_path: Path) -> None:
    root = write(tmp_path)
    output = build(root).output
    page = (output / "chapters/one.html").read_bytes()
    kept = [
        path for path in (root / ".quarto/embedded/bodies").iterdir() if "A First Chapter" in path.read_text()
    ]
    for path in kept:
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("</p>", " MARK</p>"), encoding="utf-8")
    build(root)
    assert not kept or b"MARK" in (output / "chapters/one.html").read_bytes()
    for path in (root / ".quarto/embedded/bodies").iterdir():
        path.write_bytes(path.read_bytes()[:30])
    build(root)
    assert (output / "chapters/one.html").read_bytes() == page
