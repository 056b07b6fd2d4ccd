"""Keeping text and notebook together: who wins, what runs, what is refused, and that nothing is lost.

Most tests replace the kernel by a stand-in that answers each cell with its own source, so that what ran
is visible in the outputs; the last ones start real kernels. Jupytext's reader is the oracle for the text.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat import NotebookNode
from nbformat import v4 as nb4

import execute
import notebooks
import sync
import twins
from notebooks import BookError
from twins import Cell

BODY = """
# One call {#sec-one}

Some prose with `code` and *stress*.

```{code-cell}
x = 1
print(x)
```

```{code-cell}
:tags: [nbval-ignore-output]

#| label: fig-one
#| fig-cap: "What?"
assert x == 1
```

## More {#sec-more}

The end.
"""
RUN = {"date": "2026-01-02", "machine": "m, 1 cores", "packages": {}, "python": "3.12.1", "seconds": 1.5}


class Book:
    """A book of one page in a temporary folder, and the notebooks that the stand-in has run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ran: list[str] = []
        (root / "chapters").mkdir()
        self.text_path = root / "chapters" / "01-one.md"
        self.notebook_path = root / "chapters" / "01-one.ipynb"

    @property
    def text(self) -> str:
        return self.text_path.read_bytes().decode()

    @text.setter
    def text(self, value: str) -> None:
        self.text_path.write_bytes(value.encode())

    @property
    def notebook(self) -> NotebookNode:
        return nbformat.read(self.notebook_path, as_version=4)

    @notebook.setter
    def notebook(self, value: NotebookNode) -> None:
        nbformat.write(value, self.notebook_path)

    def edit(self, old: str, new: str) -> None:
        assert old in self.text
        self.text = self.text.replace(old, new)

    def sync(self, *arguments: str) -> int:
        return sync.main(arguments, self.root)

    def files(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.root)): p.read_bytes() for p in self.root.rglob("*") if p.is_file()}

    def runs(self) -> int:
        """How many notebooks ran since the last call."""
        count = len(self.ran)
        self.ran.clear()
        return count

    def outputs(self) -> list[str]:
        return ["".join(o.get("text", "") for o in c.outputs) for c in notebooks.code_cells(self.notebook)]


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Book:
    made = Book(tmp_path)

    def stand_in(notebook: NotebookNode, path: Path, *_: Any) -> tuple[NotebookNode, dict[str, Any]]:
        made.ran.append(path.name)
        done = copy.deepcopy(notebook)
        for cell in notebooks.code_cells(done):
            if "raise" in cell.source:
                raise BookError(f"chapters/{path.name}, cell {cell.id}: Boom")
            cell.outputs = [nb4.new_output("stream", name="stdout", text=f"ran {cell.source}")]
        return done, dict(RUN)

    monkeypatch.setattr(execute, "execute", stand_in)
    made.text = twins.HEADER + BODY
    return made


@pytest.fixture
def synced(book: Book) -> Book:
    assert book.sync() == 0
    assert book.runs() == 1
    return book


def fails(book: Book, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Expect a failure that changes no file; return its message."""
    before = book.files()
    capsys.readouterr()
    assert book.sync(*arguments) == 1
    assert book.files() == before
    return capsys.readouterr().err


def test_a_book_without_pages_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--check"], []):
        assert sync.main(arguments, tmp_path) == 1
        assert capsys.readouterr().err.startswith(f"sync: {tmp_path / 'chapters'}: no such folder")
    assert not list(tmp_path.iterdir())


def test_a_path_outside_the_book_is_refused(
    synced: Book, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = synced.root / "elsewhere" / "chapters"
    other.mkdir(parents=True)
    (other / "01-one.md").write_text("# Mine {#sec-mine}\n", encoding="utf-8")
    before = synced.files()
    capsys.readouterr()
    for name in (
        str(other / "01-one.md"),
        "elsewhere/chapters/01-one.md",
        "../01-one.md",
        "01-one/01-one.md",
    ):
        assert synced.sync(name) == 1
        assert f"sync: {name}: expected one of the pages 01-one" in capsys.readouterr().err
    assert synced.files() == before
    monkeypatch.chdir(synced.root / "chapters")
    for name in (
        "chapters/01-one.md",
        str(synced.text_path),
        "01-one.ipynb",
        "01-one",
        "../chapters/01-one.md",
    ):
        assert synced.sync(name) == 0


def test_new_text_makes_an_executed_notebook(book: Book) -> None:
    assert book.sync() == 0
    notebook = book.notebook
    nbformat.validate(notebook)
    assert notebook.cells[0].id == "sec-one"
    assert [cell.execution_count for cell in notebooks.code_cells(notebook)] == [1, 2]
    assert book.outputs()[0] == "ran x = 1\nprint(x)"
    assert book.text == twins.HEADER + BODY
    assert book.sync("--check") == 0


def test_inputs_are_what_jupytext_reads(synced: Book) -> None:
    read = jupytext.reads(synced.text, fmt="md:myst")
    have = [(c.cell_type, c.source, c.metadata.get("tags", [])) for c in synced.notebook.cells]
    assert have == [(c.cell_type, c.source, c.metadata.get("tags", [])) for c in read.cells]


def test_new_notebook_makes_a_text_that_jupytext_reads_back(book: Book) -> None:
    book.text_path.unlink()
    cells = [nb4.new_markdown_cell("# T {#sec-t}"), nb4.new_markdown_cell("more"), nb4.new_code_cell("x = 1")]
    book.notebook = nb4.new_notebook(cells=cells)
    assert book.sync() == 0
    assert book.runs() == 1
    read = jupytext.reads(book.text, fmt="md:myst")
    assert [(c.cell_type, c.source) for c in read.cells] == [(c.cell_type, c.source) for c in cells]
    assert book.text.startswith(twins.HEADER)
    assert book.sync("--check") == 0


def test_second_sync_changes_and_runs_nothing(synced: Book) -> None:
    before = {p: p.stat().st_mtime_ns for p in synced.root.rglob("*")}
    assert synced.sync() == 0
    assert synced.runs() == 0
    assert {p: p.stat().st_mtime_ns for p in synced.root.rglob("*")} == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Some prose", "Other prose"),
        ("The end.", "The end.\n\n+++\n\nA cell more."),
        ('fig-cap: "What?"', 'fig-cap: "Why?"'),
        ("label: fig-one", "label: fig-two"),
        (":tags: [nbval-ignore-output]\n\n", ""),
    ],
)
def test_an_edit_of_prose_keeps_outputs_and_runs_nothing(synced: Book, old: str, new: str) -> None:
    outputs, run = synced.outputs(), synced.notebook.metadata.modelcall.last_run
    synced.edit(old, new)
    assert synced.sync("--check") == 1
    assert synced.sync() == 0
    assert synced.runs() == 0
    assert synced.outputs() == outputs
    assert synced.notebook.metadata.modelcall.last_run == run
    assert new.split("\n")[0] in synced.notebook_path.read_text(encoding="utf-8").replace('\\"', '"')
    assert synced.sync("--check") == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = 1", "x = 2"),
        ("print(x)", "print(x)  # said"),
        ("## More {#sec-more}", "```{code-cell}\nprint('more')\n```"),
        ("#| label: fig-one", "#| eval: false\n#| label: fig-one"),
        ("[nbval-ignore-output]", "[nbval-ignore-output, raises-exception]"),
    ],
)
def test_an_edit_of_code_runs_the_notebook(synced: Book, old: str, new: str) -> None:
    synced.edit(old, new)
    assert synced.sync() == 0
    assert synced.runs() == 1
    assert synced.sync("--check") == 0


def test_swapped_cells_run_the_notebook(synced: Book) -> None:
    one, two = "```{code-cell}\nx = 1\nprint(x)\n```\n", "```{code-cell}\ny = 1\n```\n"
    synced.edit(one, two + "\n" + one)
    assert synced.sync() == 0
    assert synced.runs() == 1
    synced.edit(two + "\n" + one, one + "\n" + two)
    assert synced.sync() == 0
    assert synced.runs() == 1


def test_force_runs_it_anyway(synced: Book) -> None:
    assert synced.sync("--force") == 0
    assert synced.runs() == 1


def test_paths_limit_the_work(synced: Book) -> None:
    other = synced.root / "chapters" / "notation.md"
    other.write_bytes((twins.HEADER + "\n# Notation {#sec-notation}\n\n```{code-cell}\n1\n```\n").encode())
    synced.edit("x = 1", "x = 2")
    assert synced.sync("chapters/notation.md") == 0
    assert synced.ran == ["notation.ipynb"]
    assert synced.outputs()[0].startswith("ran x = 1")
    assert synced.sync("--check", "notation") == 0
    assert synced.sync("--check") == 1


def test_unknown_page_is_named(synced: Book, capsys: pytest.CaptureFixture[str]) -> None:
    assert "02-two.md: expected one of the pages 01-one" in fails(synced, capsys, "02-two.md")


def test_failing_cell_leaves_everything_as_it_was(synced: Book, capsys: pytest.CaptureFixture[str]) -> None:
    synced.edit("x = 1", "raise ValueError")
    assert "chapters/01-one.ipynb, cell raise-ValueError-print" in fails(synced, capsys)


def test_an_interrupt_leaves_everything_as_it_was(
    synced: Book, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    synced.edit("x = 1", "# @save\nx = 2")
    before = synced.files()
    monkeypatch.setattr(execute, "execute", interrupted)
    assert synced.sync() == 130
    assert synced.files() == before
    assert "sync: interrupted" in capsys.readouterr().err


def jupyter_saves(book: Book, change: Callable[[NotebookNode], None]) -> None:
    """Do to a notebook what Jupyter does when it saves one: its own metadata, counts and versions."""
    notebook = book.notebook
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    notebook.metadata["language_info"] = {
        "name": "python",
        "version": "3.12.1",
        "pygments_lexer": "ipython3",
        "nbconvert_exporter": "python",
    }
    for number, cell in enumerate(notebook.cells):
        cell.metadata["editable"] = True
        cell.metadata["slideshow"] = {"slide_type": ""}
        if cell.cell_type == "code":
            cell.metadata["collapsed"] = False
            cell.metadata["execution"] = {"iopub.status.busy": "2026-01-02T03:04:05Z"}
            cell.execution_count = 40 + number
    change(notebook)
    book.notebook = notebook


def test_a_save_in_jupyter_without_an_edit_is_undone_quietly(synced: Book) -> None:
    before = synced.files()
    jupyter_saves(synced, lambda _: None)
    assert synced.files() != before
    assert synced.sync("--check") == 1
    assert synced.sync() == 0
    assert synced.runs() == 0
    assert synced.files() == before


def test_prose_edited_in_jupyter_reaches_the_text(synced: Book) -> None:
    def change(notebook: NotebookNode) -> None:
        notebook.cells[0].source = notebook.cells[0].source.replace("Some", "New")

    outputs = synced.outputs()
    jupyter_saves(synced, change)
    assert synced.sync() == 0
    assert synced.runs() == 0
    assert synced.text == twins.HEADER + BODY.replace("Some", "New")
    assert synced.outputs() == outputs
    assert synced.sync("--check") == 0


def test_code_edited_and_cells_added_in_jupyter_reach_the_text(synced: Book) -> None:
    def change(notebook: NotebookNode) -> None:
        notebook.cells[1].source = "x = 5\nprint(x)\n"
        notebook.cells[1].outputs = [nb4.new_output("stream", name="stdout", text="5\n")]
        notebook.cells.insert(2, nb4.new_code_cell("y = 6", metadata={"tags": ["nbval-skip"]}))
        notebook.cells.append(nb4.new_code_cell(""))
        notebook.cells.append(nb4.new_markdown_cell(""))

    jupyter_saves(synced, change)
    assert synced.sync() == 0
    assert synced.runs() == 1
    assert "```{code-cell}\nx = 5\nprint(x)\n```\n" in synced.text
    assert "```{code-cell}\n:tags: [nbval-skip]\n\ny = 6\n```\n" in synced.text
    assert synced.outputs()[:2] == ["ran x = 5\nprint(x)", "ran y = 6"]
    assert synced.sync("--check") == 0


def test_outputs_run_in_jupyter_are_run_again(synced: Book) -> None:
    def change(notebook: NotebookNode) -> None:
        notebook.cells[1].outputs = [nb4.new_output("stream", name="stdout", text="by hand")]

    before = synced.files()
    jupyter_saves(synced, change)
    assert synced.sync() == 0
    assert synced.runs() == 1
    assert synced.files() == before


def both_change(book: Book) -> None:
    def change(notebook: NotebookNode) -> None:
        notebook.cells[0].source = notebook.cells[0].source.replace("Some", "Jupyter's")

    book.edit("Some", "Editor's")
    jupyter_saves(book, change)


def test_conflict_is_reported_with_both_names_and_nothing_is_written(
    synced: Book, capsys: pytest.CaptureFixture[str]
) -> None:
    both_change(synced)
    message = fails(synced, capsys)
    assert "chapters/01-one.md and chapters/01-one.ipynb both changed" in message
    assert "Editor's" in message
    assert "Jupyter's" in message
    assert "--from text" in message
    assert synced.runs() == 0


def test_a_conflict_anywhere_stops_the_whole_sync(synced: Book, capsys: pytest.CaptureFixture[str]) -> None:
    both_change(synced)
    (synced.root / "chapters" / "00-zero.md").write_bytes((twins.HEADER + "\n# Z {#sec-z}\n").encode())
    fails(synced, capsys)
    assert synced.runs() == 0


@pytest.mark.parametrize(("side", "word"), [("text", "Editor's"), ("notebook", "Jupyter's")])
def test_from_chooses_the_winner(synced: Book, side: str, word: str) -> None:
    both_change(synced)
    assert synced.sync("--from", side, "01-one") == 0
    assert word in synced.text
    assert word in synced.notebook.cells[0].source
    assert synced.runs() == 0
    assert synced.sync("--check") == 0


def test_from_text_drops_a_cell_that_jupyter_added(synced: Book) -> None:
    before = synced.files()
    jupyter_saves(synced, lambda notebook: notebook.cells.insert(1, nb4.new_code_cell("y = 2")))
    assert synced.sync("--from", "text", "01-one") == 0
    assert synced.runs() == 1
    assert synced.files() == before


def test_from_without_pages_is_refused(synced: Book, capsys: pytest.CaptureFixture[str]) -> None:
    both_change(synced)
    with pytest.raises(SystemExit) as error:
        synced.sync("--from", "text")
    assert error.value.code == 2
    assert "names of the pages" in capsys.readouterr().err


def test_the_same_edit_on_both_sides_is_no_conflict(synced: Book) -> None:
    def change(notebook: NotebookNode) -> None:
        notebook.cells[0].source = notebook.cells[0].source.replace("Some", "New")

    synced.edit("Some", "New")
    jupyter_saves(synced, change)
    assert synced.sync() == 0
    assert synced.sync("--check") == 0


def test_unrelated_notebook_without_a_record_is_a_conflict(
    book: Book, capsys: pytest.CaptureFixture[str]
) -> None:
    book.notebook = nb4.new_notebook(cells=[nb4.new_markdown_cell("# Other {#sec-other}")])
    assert "both changed" in fails(book, capsys)


def change_output(notebook: NotebookNode) -> None:
    notebook.cells[1].outputs[0].text = "ran by hand"


def drop_output(notebook: NotebookNode) -> None:
    notebook.cells[1].outputs = []


def change_count(notebook: NotebookNode) -> None:
    notebook.cells[2].execution_count = 3


def drop_count(notebook: NotebookNode) -> None:
    notebook.cells[2].execution_count = None


def change_id(notebook: NotebookNode) -> None:
    notebook.cells[3].id = "other"


def change_input(notebook: NotebookNode) -> None:
    notebook.cells[1].source = "x = 2\nprint(x)"


def change_tags(notebook: NotebookNode) -> None:
    notebook.cells[2].metadata.tags = []


def drop_record(notebook: NotebookNode) -> None:
    del notebook.metadata["modelcall"]


def add_metadata(notebook: NotebookNode) -> None:
    notebook.metadata.language_info["version"] = "3.12.1"


def change_code_hash(notebook: NotebookNode) -> None:
    notebook.metadata.modelcall.code_sha256 = "0" * 64


def change_inputs_hash(notebook: NotebookNode) -> None:
    notebook.metadata.modelcall.inputs_sha256 = "0" * 64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_output, "01-one.ipynb, cell x-1-print-x-{}: its outputs are not those that its code gave"),
        (drop_output, "01-one.ipynb, cell x-1-print-x-{}: its outputs are not those that its code gave"),
        (change_count, "01-one.ipynb, cell fig-one: execution count 3; expected 2"),
        (drop_count, "01-one.ipynb, cell fig-one: execution count None; expected 2"),
        (change_id, "01-one.ipynb, cell other: expected the id sec-more"),
        (change_input, "cell 2: 'x = 1' in the text, 'x = 2' in the notebook"),
        (change_tags, "cell 3: code ['nbval-ignore-output'] in the text, code [] in the notebook"),
        (drop_record, "01-one.ipynb: its outputs are of other code"),
        (change_code_hash, "01-one.ipynb: its outputs are of other code"),
        (change_inputs_hash, "01-one.ipynb: is not in normal form"),
        (add_metadata, "01-one.ipynb: is not in normal form"),
    ],
)
def test_check_names_what_does_not_belong_together(
    synced: Book,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[NotebookNode], None],
    message: str,
) -> None:
    good = synced.files()
    notebook = synced.notebook
    digest = notebook.cells[1].id.rpartition("-")[2]
    change(notebook)
    synced.notebook = notebook
    assert message.format(digest) in fails(synced, capsys, "--check")
    assert synced.runs() == 0
    assert synced.sync("--from", "text", "01-one") == 0
    assert synced.files() == good


def test_check_names_a_stale_text_and_a_missing_twin(
    synced: Book, capsys: pytest.CaptureFixture[str]
) -> None:
    synced.edit("The end.", "The\nend.")
    message = fails(synced, capsys, "--check")
    assert "chapters/01-one.md and chapters/01-one.ipynb differ: cell 4: 'The' in the text" in message
    synced.notebook_path.unlink()
    assert "chapters/01-one.ipynb: missing" in fails(synced, capsys, "--check")


def test_front_matter_loses_tool_versions_and_keeps_the_body(synced: Book) -> None:
    body = BODY.replace("The end.", "The end.   \n\n\nReally.")
    synced.text = (
        twins.HEADER.replace("    format_version", "    jupytext_version: 1.19.6\n    format_version") + body
    )
    assert synced.sync("--check") == 1
    assert synced.sync() == 0
    assert synced.text == twins.HEADER + body
    assert synced.runs() == 0


def test_crlf_and_bom_are_normalised(book: Book) -> None:
    book.text = "\ufeff" + (twins.HEADER + BODY).replace("\n", "\r\n")
    assert book.sync() == 0
    assert book.text == twins.HEADER + BODY
    assert b"\r" not in book.notebook_path.read_bytes()


BAD_TEXTS = [
    ("# T\n", "line 1: expected the front matter"),
    (twins.HEADER.replace("---\njup", "---\ntitle: T\njup", 1), "front matter has title"),
    (twins.HEADER.replace("name: python3", "name: julia"), "expected kernelspec name python3, got 'julia'"),
    (twins.HEADER.replace("format_name: myst", "format_name: ["), "the front matter is no valid YAML"),
    (
        twins.HEADER + "\n# T\n\n- item\n\n  ```{code-cell}\n  x\n  ```\n",
        "line 17: this cell is read as part",
    ),
    (twins.HEADER + "\n<div>\n```{code-cell}\nx\n```\n", "line 14: this cell is read as part"),
    (twins.HEADER + "\n```text\nopen\n\n````{code-cell}\nx\n````\n", "line 16: this cell is read as part"),
    (twins.HEADER + "\n```{code-cell}\n:label: fig-x\n\nx\n```\n", "cell at line 13: has the option 'label'"),
    (twins.HEADER + "\n```{code-cell}\n:tags: one\n\nx\n```\n", "'one' is not of type 'array'"),
    (twins.HEADER + "\n```{raw-cell}\nx\n```\n", "cell at line 13: a page has no raw cells"),
    (twins.HEADER + "\n# T\n\nodd\u2028line\n", "line 15: the character '\\u2028'"),
    (twins.HEADER + "\n+++ {bad\n\ntext\n", "below line 11: Markdown cell 0"),
    (twins.HEADER + "\n```{code-cell}\n#| a: [\nx\n```\n", 'cell 1: the "#|" options are no valid YAML'),
    (twins.HEADER + "\n```{code-cell}\n#| label: a b\nx\n```\n", "label: expected up to 64 letters"),
    (
        twins.HEADER + "\n```{code-cell}\n#| label: a\nx\n```\n\n```{code-cell}\n#| label: a\ny\n```\n",
        "label 'a'",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD_TEXTS, ids=[message for _, message in BAD_TEXTS])
def test_bad_text_is_refused_by_place(
    synced: Book, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    synced.text = text
    said = fails(synced, capsys)
    assert "sync: chapters/01-one.md" in said
    assert message in said


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (nb4.new_raw_cell("x", id="bad"), "cell bad: a page has no raw cells"),
        (nb4.new_markdown_cell("a\n+++\nb"), "cell 5 ('a') cannot be written as text"),
        (nb4.new_markdown_cell("```text\nopen"), "cell 5 ('```text') cannot be written as text"),
        (nb4.new_markdown_cell("```{code-cell}\nx\n```"), "cell 5 ('```{code-cell}') cannot be written"),
        (nb4.new_markdown_cell("a\x0cb", id="bad"), "cell bad: the character '\\x0c'"),
        (
            nb4.new_markdown_cell(
                "![](attachment:a.png)", id="bad", attachments={"a.png": {"image/png": ""}}
            ),
            "cell bad: has an attached file",
        ),
    ],
)
def test_notebook_that_the_text_cannot_hold_is_refused(
    synced: Book, capsys: pytest.CaptureFixture[str], cell: NotebookNode, message: str
) -> None:
    jupyter_saves(synced, lambda notebook: notebook.cells.extend([cell, nb4.new_code_cell("z = 1")]))
    said = fails(synced, capsys)
    assert "sync: chapters/01-one.ipynb" in said
    assert message in said


def test_ids_do_not_move_when_a_cell_is_inserted(synced: Book) -> None:
    before = [cell.id for cell in synced.notebook.cells]
    synced.edit("Some prose", "A new paragraph.\n\n```{code-cell}\nprint('new')\n```\n\nSome prose")
    assert synced.sync() == 0
    after = [cell.id for cell in synced.notebook.cells]
    assert before[0] == after[0]
    assert after[-3:] == before[1:]


def test_equal_cells_get_different_ids(book: Book) -> None:
    book.text = twins.HEADER + "\n# T {#sec-t}\n" + "\n```{code-cell}\nprint(1)\n```\n" * 3
    assert book.sync() == 0
    ids = [cell.id for cell in notebooks.code_cells(book.notebook)]
    assert ids == [ids[0], f"{ids[0]}-2", f"{ids[0]}-3"]


def test_saved_cells_are_named_after_their_first_public_name_and_tangled(book: Book) -> None:
    package = book.root / "code" / "modelcall"
    package.mkdir(parents=True)
    (package / "__init__.py").write_bytes(b"")
    book.edit("x = 1", "# @save\nx = 1\n_y = 2\n\n\ndef f(): ...")
    book.edit("print(x)", "")
    assert book.sync() == 0
    assert book.notebook.cells[1].id == "x"
    generated = package / "ch01" / "_generated.py"
    assert "# cell: x\nx = 1\n" in generated.read_text(encoding="utf-8")
    before = book.files()
    book.edit("x = 1", "x = 3")
    book.edit("assert x", "raise x")
    assert book.sync() == 1
    after = book.files()
    assert {k: v for k, v in after.items() if not k.endswith(".md")} == {
        k: v for k, v in before.items() if not k.endswith(".md")
    }


def test_tangle_refusal_stops_the_sync(synced: Book, capsys: pytest.CaptureFixture[str]) -> None:
    synced.edit("## More {#sec-more}", "```{code-cell}\n# @save\ny = x\n```")
    assert "chapters/01-one.ipynb, cell y: reads x, which only the unsaved cell" in fails(synced, capsys)
    assert synced.runs() == 0


def test_package_that_does_not_import_stops_the_sync(
    synced: Book, capsys: pytest.CaptureFixture[str]
) -> None:
    package = synced.root / "code" / "modelcall"
    package.mkdir(parents=True)
    (package / "__init__.py").write_bytes(b"")
    synced.edit("## More {#sec-more}", "```{code-cell}\n# @save\ny = 1 / 0\n```")
    message = fails(synced, capsys)
    assert "chapters/01-one.ipynb, cell y: modelcall.ch01 cannot be imported alone: ZeroDivision" in message
    assert synced.runs() == 0


def test_outputs_are_put_in_normal_form() -> None:
    def stream(name: str, text: str) -> NotebookNode:
        return nb4.new_output("stream", name=name, text=text)

    result = nb4.new_output("execute_result", data={"text/plain": "1"}, execution_count=77)
    result["transient"] = {"display_id": "abc"}
    outputs = [
        stream("stdout", "a"),
        stream("stdout", "b"),
        stream("stderr", "c"),
        stream("stdout", "d"),
        result,
    ]
    made = twins.normal_outputs(outputs, 3)
    assert [o.get("text") for o in made] == ["ab", "c", "d", None]
    assert made[-1].execution_count == 3
    assert "transient" not in made[-1]
    assert outputs[0].text == "a"


def test_widgets_do_not_outlive_their_kernel() -> None:
    """Of a bundle the other forms stay; an output that was a widget and nothing else goes."""
    made = twins.blank([Cell("code", "x")], "t")
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "a" * 32}}
    outputs = [view, view | {"text/plain": "3", "text/markdown": "**3**"}]
    made.cells[0].outputs = [nb4.new_output("display_data", data=data) for data in outputs]
    made.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {"a" * 32: {}}}}
    done = twins.finish(made, RUN, "")
    assert [output.data for output in done.cells[0].outputs] == [
        {"text/plain": "3", "text/markdown": "**3**"}
    ]
    assert "widget" not in twins.to_bytes(done).decode()


LINES = st.sampled_from(
    [
        *(
            "",
            " ",
            "plain",
            "# Heading {#sec-x}",
            "- item",
            "    indented",
            "> quote",
            "1. one",
            "<div>",
            "</div>",
        ),
        *(
            "---",
            "+++",
            ":::",
            "::: {.callout-note}",
            "%%",
            "%time x",
            "```",
            "````",
            "~~~",
            "```python",
            "\t",
        ),
        *(
            "```{code-cell}",
            "$$x$$ {#eq-x}",
            ":tags: [a]",
            "#| label: fig-x",
            "# @save",
            "ünïcode → 猫",
            "| a | b |",
        ),
        *(
            "\\",
            "[^1]: note",
            "x = '''",
            "  trailing  ",
            "***",
            "===",
            "<!-- c",
            "-->",
            "&amp;",
            "\ufeff",
            "\u00a0",
        ),
    ]
)
SOURCES = st.lists(LINES, max_size=5).map("\n".join)
CELLS = st.builds(
    lambda kind, source, tags: twins._cell(kind, source, {"tags": tags}),
    st.sampled_from(["markdown", "code"]),
    SOURCES | st.text(st.characters(codec="utf-8"), max_size=20),
    st.lists(st.sampled_from(["a", "nbval-skip", "yes", "1", "ünï", "a: b"]), max_size=2, unique=True),
).filter(lambda cell: bool(cell.source))


def round_trips_or_is_refused(cells: list[Cell]) -> None:
    try:
        text = twins.to_text(cells, "t")
    except BookError as error:
        assert str(error).startswith("t: ")
        return
    assert twins.from_text(text, "t") == cells
    read = jupytext.reads(text, fmt="md:myst")
    assert [twins._cell(c.cell_type, c.source, c.metadata) for c in read.cells] == cells
    assert twins.with_header(text) == text


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(CELLS, max_size=4))
def test_text_round_trips_or_is_refused(cells: list[Cell]) -> None:
    round_trips_or_is_refused(cells)


@pytest.mark.long
@settings(deadline=None, max_examples=10_000)
@given(st.lists(CELLS, max_size=6))
def test_text_round_trips_or_is_refused_many_times(cells: list[Cell]) -> None:
    round_trips_or_is_refused(cells)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.lists(LINES, max_size=12).map("\n".join))
def test_any_text_is_read_as_jupytext_reads_it_or_is_refused(body: str) -> None:
    text = f"{twins.HEADER}\n{body}\n"
    try:
        cells = twins.from_text(text, "t")
    except BookError as error:
        assert str(error).startswith("t: ")
        return
    read = [twins._cell(c.cell_type, c.source, c.metadata) for c in jupytext.reads(text, fmt="md:myst").cells]
    assert cells == [cell for cell in read if cell.source]
    words = [line.strip() for line in body.split("\n") if line.strip().isalpha()]
    said = "\n".join(cell.source for cell in cells)
    assert all(word in said for word in words)


# From here on with real kernels.


@pytest.fixture
def real(tmp_path: Path) -> Book:
    return Book(tmp_path)


def test_real_kernel_runs_deterministically_and_records_the_run(
    real: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    package = real.root / "code" / "modelcall"
    package.mkdir(parents=True)
    (package / "__init__.py").write_bytes(b"")
    real.text = twins.HEADER + (
        "\n# T {#sec-t}\n"
        '\n```{code-cell}\n# @save\ndef double(n: int) -> int:\n    """Double."""\n    return 2 * n\n```\n'
        "\n```{code-cell}\nfrom modelcall.ch01 import double as imported\n"
        "import os\nprint(imported(21))\nprint(os.environ.get('MPLBACKEND', '').rpartition('.')[2])\n```\n"
        "\n```{code-cell}\n#| eval: false\n1 / 0\n```\n"
        "\n```{code-cell}\n:tags: [raises-exception]\n\n1 / 0\n```\n"
        "\n```{code-cell}\nimport pathlib\n(double(1), pathlib.Path('01-one.md').exists())\n```\n"
    )
    assert real.sync() == 0
    cells = list(notebooks.code_cells(real.notebook))
    assert [cell.execution_count for cell in cells] == [1, 2, None, 3, 4]
    assert cells[1].outputs[0].text.split() == ["42", "backend_inline"]
    assert cells[2].outputs == []
    assert cells[2].metadata == {}
    assert cells[3].outputs[0].ename == "ZeroDivisionError"
    assert cells[4].outputs[0].data["text/plain"] == "(2, True)"
    run = real.notebook.metadata.modelcall.last_run
    assert set(run) == {"date", "machine", "packages", "python", "seconds"}
    assert set(run.packages) == {"matplotlib", "numpy", "tiktoken"}
    assert 0 < run.seconds < 60
    assert "execution" not in json.dumps([dict(cell.metadata) for cell in cells])
    assert real.sync("--check") == 0


def test_real_kernel_names_the_failing_cell(real: Book, capsys: pytest.CaptureFixture[str]) -> None:
    real.text = twins.HEADER + "\n# T {#sec-t}\n\n```{code-cell}\n#| label: bad\nd = {}\nd['key']\n```\n"
    message = fails(real, capsys)
    assert "chapters/01-one.ipynb, cell bad: KeyError: 'key'" in message
    assert "----> 3 d['key']" in message


def output(text: str) -> NotebookNode:
    return nb4.new_output("stream", name="stdout", text=text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("at {root}/data/x\n", "a path of this machine (this checkout)"),
        ("{home}/x\n", "a path of this machine (the home folder)"),
        ("'{home}'\n", "a path of this machine (the home folder)"),
        ("{temp}/x.py:1: UserWarning\n", "a path of this machine (the folder of temporary files)"),
        ("<object at 0x7f8a12345678>", "a memory address"),
    ],
)
def test_outputs_that_tell_the_machine_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    root, home, temp = tmp_path / "book", tmp_path / "me", tmp_path / "scratch"
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setattr(execute.tempfile, "gettempdir", lambda: str(temp))
    said = text.format(root=root, home=home, temp=temp)
    data = nb4.new_output("display_data", data={"text/markdown": said})
    for out in (output(said), data):
        with pytest.raises(BookError, match=r"^here: its output has ") as error:
            execute._check_portable(out, "here", root)
        assert reason in str(error.value)


def test_outputs_that_only_look_like_paths_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/root"))
    for text in ("/rootkit", "chapters/root", "a/root/b", "0x7f8a12345678", "root"):
        execute._check_portable(output(text), "here", tmp_path)


def test_atomic_write_leaves_the_old_file_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    assert notebooks.write_atomic(path, b"old")
    assert not notebooks.write_atomic(path, b"old")
    path.chmod(0o640)

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        with pytest.raises(OSError, match="disk full"):
            notebooks.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    assert notebooks.write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
