"""Readers' notebooks: valid, free of Quarto syntax, worded as the site, and they run in both forms."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from tests.render.sample import code, markdown, notebook, stream, write

import execute
import readers
import twins
from render.problems import BuildError

ROOT = Path(__file__).resolve().parents[1]
# What must not be left outside code, spelt as the book's sources spell it.
QUARTO = [":::", "@fig-", "@sec-", "@tbl-", "@eq-", "{#", "{.", "[@", "{{<", "```{=html}", "```{code-cell}"]


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    return readers.files(ROOT)


def names() -> list[str]:
    found = sorted(path.name for path in (ROOT / "chapters").glob("*.ipynb"))
    return [f"notebooks/{n}" for n in found] + [f"notebooks/student/{n}" for n in found if n[0].isdigit()]


def parsed(data: bytes) -> Any:
    return nbformat.reads(data.decode(), as_version=4)


def prose(text: str) -> str:
    """Markdown without its code, in which ``@`` and braces are Python's."""
    text = re.sub(
        r"^( {0,3}(?:> ?)*)(`{3,}) ?(?:python|text|bash)?\n.*?^\1\2[ \t]*$", "", text, flags=re.M | re.S
    )
    return re.sub(r"(`+)[^`].*?\1", "", text, flags=re.S)


@pytest.mark.parametrize("name", names())
def test_valid_and_free_of_quarto(made: dict[str, bytes], name: str) -> None:
    found = parsed(made[name])
    nbformat.validate(found)
    assert (found.nbformat, found.nbformat_minor) == (4, 5)
    assert found.metadata.kernelspec.name == "python3"
    ids = [cell.id for cell in found.cells]
    assert len(set(ids)) == len(ids) and ids[0] == "setup"
    shown = 0
    for cell in found.cells:
        texts = [cell.source] if cell.cell_type == "markdown" else []
        texts += [
            o.data["text/markdown"] for o in cell.get("outputs", []) if "text/markdown" in o.get("data", {})
        ]
        for text in texts:
            shown += 1
            left = [mark for mark in QUARTO if mark in prose(text)]
            assert not left, (name, cell.id, left, text)
        if cell.cell_type == "code":
            assert not re.search(r"^#\|", cell.source, re.M), cell.id
    assert shown


@pytest.mark.parametrize("name", names())
def test_links_within_the_notebook_have_targets(made: dict[str, bytes], name: str) -> None:
    text = "\n".join(c.source for c in parsed(made[name]).cells if c.cell_type == "markdown")
    targets = re.findall(r'<a id="([^"]+)"></a>', text)
    assert len(set(targets)) == len(targets)
    wanted = set(re.findall(r"\]\(#([^)\s]+)\)", prose(text)))
    assert wanted <= set(targets), wanted - set(targets)
    # No published address is configured, so nothing leads to a page of the site or to another file.
    assert not re.search(r"\]\([^)#:]*\.(?:html|ipynb|md)", prose(text))


def test_bytes_are_the_same_twice(made: dict[str, bytes]) -> None:
    assert readers.files(ROOT) == made


def test_student_form_has_no_outputs_and_no_solution_to_see(made: dict[str, bytes]) -> None:
    name = "01-on-ramp.ipynb"
    student, complete = (parsed(made[f"{folder}/{name}"]) for folder in (readers.STUDENT, readers.COMPLETE))
    assert not any(cell.get("outputs") for cell in student.cells)
    solved = {c.id for c in complete.cells if "solution" in c.metadata.get("tags", [])}
    assert solved and not solved & {c.id for c in student.cells if c.cell_type == "code"}
    folded = "".join(re.findall(r"<details>.*?</details>", "".join(c.source for c in student.cells), re.S))
    for cell in complete.cells:
        if cell.id in solved:
            assert cell.metadata.jupyter == {"source_hidden": True, "outputs_hidden": True}
            assert cell.source.split("\n", 1)[1] in folded
    stubs = [c.id for c in student.cells if "exercise" in c.metadata.get("tags", [])]
    assert stubs == [c.id for c in complete.cells if "exercise" in c.metadata.get("tags", [])] != []
    assert sum(bool(c.get("outputs")) for c in complete.cells) > 40


# The cells of a complete notebook are the chapter's, which every run of the suite runs twice already.
RUNS = [pytest.param(name, marks=[] if readers.STUDENT in name else [pytest.mark.long]) for name in names()]


@pytest.mark.parametrize("name", RUNS)
def test_it_runs_from_top_to_bottom(made: dict[str, bytes], name: str, tmp_path: Path) -> None:
    """Also the student's: an untouched stub says that it is not done, and later cells go on."""
    found = parsed(made[name])
    for cell in found.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    profile = tmp_path / "profile"
    client = NotebookClient(
        found,
        kernel_name="python3",
        kernel_manager_class=execute._ThisPython,
        timeout=300,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute(env=execute._environment(ROOT, str(profile)))
    first = "".join(out.get("text", "") for out in found.cells[0].outputs)
    assert re.match(r"Python 3\.\d+\.\d+.*, (CPU|GPU).*; the whole notebook took \d+ s \(\d{4}-", first)
    assert first.count("\n") == 1
    for cell in found.cells:
        assert not [o for o in cell.get("outputs", []) if o.get("name") == "stderr"], cell.id
        if "exercise" in cell.metadata.get("tags", []):
            assert "not started" in json.dumps(cell.outputs), cell.id
            assert not [o for o in cell.outputs if o.output_type == "error"]


# -- the first cell --


def first_cell_alone(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the first cell in a Python that has no package at all, the way IPython shows its error."""
    program = (
        "import sys\n"
        "try:\n    exec(compile(sys.stdin.read(), 'cell', 'exec'), {})\n"
        "except Exception as error:\n"
        "    print('\\n'.join(error._render_traceback_()))\n"
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    return subprocess.run(
        command, input=source, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False
    )


def test_the_first_cell_says_what_to_do_where_it_cannot_install(
    made: dict[str, bytes], tmp_path: Path
) -> None:
    """Without the wheel, with another wheel, and in a Python without pip: words, no traceback."""
    source = parsed(made["notebooks/student/01-on-ramp.ipynb"]).cells[0].source
    assert source.count("\n") < 25
    [wheel] = [name for name in made if name.endswith(".whl")]
    path = tmp_path / wheel
    path.parent.mkdir()
    expected = {
        None: "No such file or directory",
        b"PK, and nothing more": "is not the wheel of this notebook",
        made[wheel]: "this Python has no pip",
    }
    for data, reason in expected.items():
        if data is not None:
            path.write_bytes(data)
        done = first_cell_alone(source, tmp_path)
        assert done.returncode == 0 and not done.stderr, done.stderr
        assert reason in done.stdout, done.stdout
        assert f"python -m pip install {path.name}\n" in done.stdout and "make lab" in done.stdout
        assert "Traceback" not in done.stdout


# -- the sample book: every construct --


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = write(tmp_path_factory.mktemp("sample"))
    return {name: parsed(data) for name, data in readers.files(root).items()}


def said(document: Any) -> str:
    return "\n\n".join(cell.source for cell in document.cells if cell.cell_type == "markdown")


def test_numbers_and_words_are_the_sites(sample: dict[str, Any]) -> None:
    text = said(sample["notebooks/one.ipynb"]).replace("\xa0", " ")
    for expected in (
        '# 1 One call, and its *record* <a id="sec-one"></a>',
        '## 1.1 Inline things <a id="sec-inline"></a>',
        "\\tag{1.1}$$",
        '<a id="eq-softmax"></a>',
        '<a id="tbl-prices"></a>**Table 1.1:** Prices in dollars per million tokens.',
        '<a id="fig-curve"></a>**Figure 1.3:** Which curve is *flatter*, and where is $T = 0.7$?',
        '<a id="lst-cell"></a>**Listing 1.2:** A cell as a *listing*',
        "[Equation 1.1](#eq-chain)",
        "> **What you *can* do**",
        "<summary>Folded</summary>",
        '> <a id="def-call"></a>**Definition 1.1 (Model call)** One request and its answer.',
        "> **Predict.** Which is larger, $a$ or $b$?",
        "<sup>1</sup> The note has **two** words in bold",
        "Doe ([2020a](#ref-doe20x), 3; ",
    ):
        assert expected in text or expected.startswith("Doe"), (expected, text)
    two = said(sample["notebooks/two.ipynb"]).replace("\xa0", " ")
    assert "Figure 1.3, Table 1.1, Equation 1.1, Section 1.1, Chapter 1" in two  # other pages: words
    assert "Shared text, included." in two and "[Equation 2.1](#eq-two)" in two
    assert "# Appendix A — Notation" in said(sample["notebooks/notation.ipynb"]).replace("\xa0", " ")


def test_works_cited_stand_at_the_end(sample: dict[str, Any]) -> None:
    last = sample["notebooks/one.ipynb"].cells[-1].source
    assert last.startswith("## References")
    assert {"knuth84", "doe20x"} <= set(re.findall(r'<a id="ref-([^"]+)"></a>', last))
    assert "unused" not in last.lower()


def test_code_cells_of_the_sample(sample: dict[str, Any]) -> None:
    cells = {c.id: c for c in sample["notebooks/one.ipynb"].cells}
    sources = {c.source.split("\n")[0]: c for c in cells.values() if c.cell_type == "code"}
    assert sources["# @title Solution"].metadata.jupyter["outputs_hidden"]  # code in a folded box
    assert sources["# @title Show the code"].metadata == {
        "cellView": "form",
        "jupyter": {"source_hidden": True},
    }
    assert not any(
        "requests.post" in c.source for c in cells.values() if c.cell_type == "code"
    )  # eval: false
    assert any("requests.post" in c.source for c in cells.values() if c.cell_type == "markdown")
    images = [c for c in cells.values() if c.get("attachments")]
    assert images and "(attachment:grey.png)" in images[0].source
    assert "The figure in words" in said(sample["notebooks/one.ipynb"])


def test_a_configured_address_makes_links(tmp_path: Path) -> None:
    root = write(tmp_path)
    config = (root / "_quarto.yml").read_text(encoding="utf-8")
    config = config.replace("book:\n", 'book:\n  site-url: "https://example.org/book/"\n')
    (root / "_quarto.yml").write_text(config, encoding="utf-8")
    text = said(parsed(readers.files(root)["notebooks/two.ipynb"]))
    assert "](https://example.org/book/chapters/one.html#fig-curve)" in text
    assert "[the entry](https://example.org/book/chapters/notation.html#B-20tok)" in text


def test_what_is_kept_is_what_would_be_made_anew(tmp_path: Path) -> None:
    """An unchanged page comes from the cache; a changed output, tag or number of another page does not."""
    config = "project:\n  type: book\nbook:\n  title: Two pages\n  chapters: [index.md, a.ipynb, b.ipynb]\n"
    (tmp_path / "_quarto.yml").write_text(config, encoding="utf-8")
    (tmp_path / "index.md").write_text("# Start {#sec-start .unnumbered}\n", encoding="utf-8")

    def made(headings: str = "", printed: str = "42", tags: Sequence[str] = ()) -> dict[str, bytes]:
        notebook(tmp_path / "a.ipynb", markdown(f"# A {{#sec-a}}\n\n{headings}## Told {{#sec-told}}"))
        cell = code(f"print({printed!r})", stream(f"{printed}\n"), tags=[*tags])
        notebook(tmp_path / "b.ipynb", markdown("# B {#sec-b}"), markdown("See @sec-told."), cell)
        return readers.files(tmp_path)

    cache = tmp_path / ".quarto" / "embedded" / "notebooks"
    first = made()
    kept = {path: path.read_bytes() for path in cache.iterdir()}
    assert len(kept) == 2 and made() == first
    assert {path: path.read_bytes() for path in cache.iterdir()} == kept
    path = next(path for path in kept if b"notebooks/b.ipynb" in kept[path])
    path.write_bytes(kept[path].replace(b"42", b"44"))  # a mark, to see that it is what is taken
    assert made()["notebooks/b.ipynb"] == first["notebooks/b.ipynb"].replace(b"42", b"44")
    path.write_bytes(kept[path])

    assert b"42\\n" in first["notebooks/b.ipynb"] and b"43\\n" in made(printed="43")["notebooks/b.ipynb"]
    for other, number in ((first, "1.1"), (made(headings="## New\n\n"), "1.2")):
        assert f"Section {number}" in said(parsed(other["notebooks/b.ipynb"])).replace("\xa0", " ")
    solved = made(tags=["solution"])["notebooks/student/b.ipynb"]
    assert solved != first["notebooks/student/b.ipynb"] and b"<details>" in solved

    for path in cache.iterdir():  # what cannot be read counts as none
        path.write_text("{", encoding="utf-8")
    assert made() == first


# -- mistakes --


def failing(root: Path) -> list[str]:
    with pytest.raises(BuildError) as caught:
        readers.files(root)
    return caught.value.lines


def test_an_unknown_reference_is_named_with_its_cell(tmp_path: Path) -> None:
    root = write(tmp_path)
    notebook(root / "chapters/two.ipynb", markdown("# Two {#sec-two}"), markdown("See @fig-nowhere."))
    lines = failing(root)
    assert any("chapters/two.ipynb, cell 2" in line and "@fig-nowhere" in line for line in lines), lines


def test_a_name_that_only_a_solution_gives_is_named(tmp_path: Path) -> None:
    root = write(tmp_path)
    notebook(
        root / "chapters/two.ipynb",
        markdown("# Two {#sec-two}"),
        code("given = 6 * 7", tags=["solution"]),
        code("print(given)", stream("42\n"), count=2),
    )
    lines = failing(root)
    assert any("cell c2: reads 'given', which only the folded cell c1 gives" in line for line in lines), lines


@pytest.mark.parametrize("side", ["text", "notebook"])
def test_a_page_that_changed_since_its_sync_is_named(tmp_path: Path, side: str) -> None:
    """The record of the sync vouches for both sides, and for neither once that side was edited."""
    root = write(tmp_path)
    cells = [twins.Cell("markdown", "# Two {#sec-two}"), twins.Cell("markdown", "It is so.")]
    text = twins.to_text(cells, "")
    last_run = {"date": "2026-01-01", "machine": "x", "seconds": 1}
    path = root / "chapters/two.ipynb"
    path.write_bytes(twins.to_bytes(twins.finish(twins.blank(cells, ""), last_run, text)))
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    assert "It is so." in said(parsed(readers.files(root)["notebooks/two.ipynb"]))
    edited = path.with_suffix(".md") if side == "text" else path
    edited.write_text(edited.read_text(encoding="utf-8").replace("It is so.", "It was so."), encoding="utf-8")
    (line,) = failing(root)
    assert line.startswith("chapters/two.ipynb: is not what two.md says: cell 2: ")


def test_a_missing_and_a_stale_twin(tmp_path: Path) -> None:
    root = write(tmp_path)
    (root / "chapters/two.ipynb").unlink()
    assert "_quarto.yml: book.chapters: no file 'chapters/two.ipynb'" in failing(root)
    notebook(root / "chapters/two.ipynb", markdown("# Two {#sec-two}"), markdown("It was so."))
    text = twins.to_text(
        [twins.Cell("markdown", "# Two {#sec-two}"), twins.Cell("markdown", "It is so.")], ""
    )
    (root / "chapters/two.md").write_text(text, encoding="utf-8")
    lines = failing(root)
    assert lines == [
        "chapters/two.ipynb: is not what two.md says: cell 2: 'It is so.' in the text, 'It was so.' in the "
        "notebook; run `make sync`"
    ]
