"""The two forms of a page: the text that people edit (Jupytext MyST) and the notebook that is read and run.

Both say the same *inputs*: cells with a kind, a source and tags. This module reads and writes each form,
puts a notebook into normal form, and computes the hashes that tie inputs and outputs together, kept in
the notebook's metadata under ``modelcall``:

- ``text_sha256``: the text form as the last sync left it;
- ``inputs_sha256``: every cell, as both forms had it then;
- ``code_sha256``: what the kernel was given; an option such as a caption or a label is not part of it;
- ``outputs_sha256``: by cell id, the outputs that this code gave.

Nothing else about a cell survives: other metadata, empty cells and blank lines around a source are
dropped. What one of the forms cannot hold (raw cells, attachments, Markdown that would read back as
something else) is refused by name.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import nbformat
import yaml
from nbformat import NotebookNode
from nbformat import v4 as nb4

import notebooks
from notebooks import BookError

HEADER = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
    format_version: 0.13
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---
"""
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
# What Jupyter and Quarto read of it; a kernel would add its own version.
LANGUAGE = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}
_FRONT_MATTER = re.compile(r"\A---\n(.*?)^---[ \t]*\n", re.DOTALL | re.MULTILINE)
_FENCED_CELL = re.compile(r"^[ \t>]*(`{3,}|~{3,})[ \t]*\{(code|raw)-cell\}", re.MULTILINE)
# Control characters are no YAML. At some of them, and at the last three, str.splitlines() breaks lines
# where CommonMark does not, and Jupytext uses both.
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u2028\u2029]")
# A widget lives as long as its kernel: a page with one would load its manager from elsewhere.
_WIDGET = "application/vnd.jupyter.widget-view+json"
_EXECUTION_TAGS = frozenset({"raises-exception", "skip-execution"})


@dataclass(frozen=True)
class Cell:
    """One cell of a page, as both forms say it."""

    kind: str  # "markdown" or "code"
    source: str
    tags: tuple[str, ...] = ()


def _trim(source: str) -> str:
    """Drop blank lines around a source; both forms are compared in this form."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    return "\n".join(lines)


def _cell(kind: str, source: str, metadata: dict[str, Any]) -> Cell:
    source = _trim(source)
    if kind == "markdown":  # Jupytext reads prose without the spaces that end it, code with them
        source = source.rstrip()
    return Cell(kind, source, tuple(metadata.get("tags", ())))


def from_text(text: str, name: str) -> list[Cell]:
    """Read the text form.

    Raises:
        BookError: it has no front matter of a notebook, or says what a page of this book cannot.
    """
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    match = _FRONT_MATTER.match(text)
    if match is None:
        raise BookError(f"{name}: line 1: expected the front matter of a Jupytext notebook:\n{HEADER}")
    _check_front_matter(match[1], name)
    if odd := _ODD.search(text):
        line = text.count("\n", 0, odd.start()) + 1
        raise BookError(f"{name}: line {line}: the character {odd[0]!r} does not belong in a page")
    offset = match[0].count("\n")
    from jupytext.myst import MystMetadataParsingError, myst_to_notebook

    try:
        notebook = myst_to_notebook(text[match.end() :], add_source_map=True)
    except (MystMetadataParsingError, nbformat.ValidationError, yaml.YAMLError) as error:
        raise BookError(f"{name}: below line {offset}: {' '.join(str(error).split())}") from error
    cells: list[Cell] = []
    for cell, start in zip(notebook.cells, notebook.metadata.source_map, strict=True):
        # Jupytext counts from 0, and for code and raw cells from the line after the fence.
        line = start + offset + (cell.cell_type == "markdown")
        where = f"{name}: cell at line {line}"
        if cell.cell_type == "raw":
            raise BookError(f"{where}: a page has no raw cells")
        if cell.cell_type == "markdown" and (fence := _FENCED_CELL.search(cell.source)):
            at = line + _leading_blank(text, line) + cell.source.count("\n", 0, fence.start())
            raise BookError(
                f"{name}: line {at}: this cell is read as part of the prose before it: it stands in a list, "
                "a quote or an HTML block, or after an open fence; leave a blank line before a cell"
            )
        _check_metadata(cell, where)
        made = _cell(cell.cell_type, cell.source, cell.metadata)
        if made.source:
            cells.append(made)
    return cells


def _leading_blank(text: str, line: int) -> int:
    count = 0
    for each in text.split("\n")[line - 1 :]:
        if each.strip():
            break
        count += 1
    return count


def _check_front_matter(content: str, name: str) -> None:
    try:
        data = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise BookError(
            f"{name}: the front matter is no valid YAML: {' '.join(str(error).split())}"
        ) from error
    keys = set(data) if isinstance(data, dict) else set()
    if extra := keys - {"jupytext", "kernelspec"}:
        raise BookError(
            f"{name}: front matter has {', '.join(sorted(map(str, extra)))}; expected jupytext and "
            "kernelspec only (the title of a page is its first heading)"
        )
    kernel = (data.get("kernelspec") or {}).get("name") if isinstance(data, dict) else None
    if kernel != "python3":
        raise BookError(f"{name}: front matter: expected kernelspec name python3, got {kernel!r}")


def _check_metadata(cell: NotebookNode, where: str) -> None:
    if extra := set(cell.metadata) - {"tags"}:
        raise BookError(
            f"{where}: has the option {sorted(extra)[0]!r}; a cell has tags only (and '#|' options)"
        )


def to_text(cells: Sequence[Cell], name: str) -> str:
    """Write the text form.

    Raises:
        BookError: there is no cell, or one would not read back as it is.
    """
    if not cells:
        raise BookError(f"{name}: has no cells")
    text = _written(cells)
    if not _reads_back(cells):
        # Name the first cell that spoils itself or the one after it.
        after = Cell("code", "0")
        for number, cell in enumerate(cells, 1):
            if not _reads_back([cell, after]) or not _reads_back(cells[:number]):
                first = cell.source.split("\n", 1)[0][:60]
                raise BookError(
                    f"{name}: cell {number} ({first!r}) cannot be written as text: it would read back as "
                    "something else (a line '+++', an open fence, a cell inside the prose, an odd character)"
                )
        raise BookError(f"{name}: cannot be written as text and read back")
    return text


def _written(cells: Sequence[Cell]) -> str:
    from jupytext.myst import notebook_to_myst

    notebook = nb4.new_notebook(cells=[_new(cell) for cell in cells])
    notebook.metadata = NotebookNode()
    return f"{HEADER}\n{notebook_to_myst(notebook)}"


def _reads_back(cells: Sequence[Cell]) -> bool:
    try:
        return from_text(_written(cells), "") == list(cells)
    except BookError:
        return False


def with_header(text: str) -> str:
    """Return the text with the book's own front matter: tools add their versions to it."""
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    return _FRONT_MATTER.sub(lambda _: HEADER, text, count=1)


def from_notebook(notebook: NotebookNode, name: str) -> list[Cell]:
    """Read the inputs of a notebook.

    Raises:
        BookError: a cell holds what the text form cannot.
    """
    cells = []
    for cell in notebook.cells:
        where = f"{name}, cell {cell.id}"
        if cell.cell_type == "raw":
            raise BookError(f"{where}: a page has no raw cells")
        if cell.get("attachments"):
            raise BookError(f"{where}: has an attached file; put it in a folder and link to it")
        if odd := _ODD.search(cell.source):
            raise BookError(f"{where}: the character {odd[0]!r} does not belong in a page")
        made = _cell(cell.cell_type, cell.source, cell.metadata)
        if made.source:
            cells.append(made)
    return cells


def _new(cell: Cell) -> NotebookNode:
    metadata = NotebookNode(tags=list(cell.tags)) if cell.tags else NotebookNode()
    made: NotebookNode
    if cell.kind == "code":
        made = nb4.new_code_cell(source=cell.source, metadata=metadata)
    else:
        made = nb4.new_markdown_cell(source=cell.source, metadata=metadata)
    return made


def _sha256(data: object) -> str:
    return hashlib.sha256(json.dumps(data, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def inputs_hash(cells: Sequence[Cell]) -> str:
    """Hash everything that people edit."""
    return _sha256([[cell.kind, cell.source, list(cell.tags)] for cell in cells])


def text_hash(text: str) -> str:
    """Hash the text form, whatever ends its lines."""
    return _sha256(text.replace("\r\n", "\n"))


def code_hash(cells: Sequence[Cell]) -> str:
    """Hash what decides the outputs: the code in its order, and whether and how each cell runs."""
    return _sha256(
        [
            [notebooks.split(cell.source).python, runs(cell.source), sorted(_EXECUTION_TAGS & set(cell.tags))]
            for cell in cells
            if cell.kind == "code"
        ]
    )


def runs(source: str) -> bool:
    """Say whether a code cell is executed: ``#| eval: false`` shows it only."""
    return notebooks.split(source).options.get("eval", True) is not False


def outputs_hashes(cells: Sequence[NotebookNode]) -> dict[str, str]:
    """Hash the outputs of each cell that has any, by its id."""
    return {
        cell.id: _sha256(cell.outputs)[:16] for cell in cells if cell.cell_type == "code" and cell.outputs
    }


def blank(cells: Sequence[Cell], name: str) -> NotebookNode:
    """Return the notebook of these inputs, with ids and without outputs.

    Raises:
        BookError: a cell's options are wrong, or two cells have one label.
    """
    made = [_new(cell) for cell in cells]
    for number, cell in enumerate(made, 1):
        if cell.cell_type == "code":
            try:
                notebooks.split(cell.source)
            except BookError as error:
                raise BookError(f"{name}: cell {number}: {error}") from None
    try:
        for cell, cell_id in zip(made, notebooks.cell_ids(made), strict=True):
            cell.id = cell_id
    except BookError as error:
        raise BookError(f"{name}: {error}") from None
    notebook: NotebookNode = nb4.new_notebook(cells=made)
    return notebook


def finish(notebook: NotebookNode, last_run: dict[str, Any], text: str) -> NotebookNode:
    """Return a notebook in normal form, with the hashes of its text, inputs, code and outputs."""
    done = copy.deepcopy(notebook)
    count = 0
    for cell in notebooks.code_cells(done):
        if runs(cell.source):
            count += 1
            cell.execution_count = count
            cell.outputs = normal_outputs(cell.outputs, count)
        else:
            cell.execution_count, cell.outputs = None, []
        cell.metadata.pop("execution", None)
    inputs = [_cell(cell.cell_type, cell.source, cell.metadata) for cell in done.cells]
    done.metadata = nbformat.from_dict(
        {
            "kernelspec": KERNELSPEC,
            "language_info": LANGUAGE,
            "modelcall": {
                "text_sha256": text_hash(text),
                "inputs_sha256": inputs_hash(inputs),
                "code_sha256": code_hash(inputs),
                "outputs_sha256": outputs_hashes(done.cells),
                "last_run": last_run,
            },
        }
    )
    done.nbformat, done.nbformat_minor = 4, 5
    return done


def normal_outputs(outputs: Sequence[NotebookNode], count: int | None) -> list[NotebookNode]:
    """Join neighbouring streams, number results, and drop what only a live kernel knows."""
    result: list[NotebookNode] = []
    for output in copy.deepcopy(list(outputs)):
        output.pop("transient", None)
        if "data" in output:
            output.data.pop(_WIDGET, None)
            if not output.data:
                continue
        if output.output_type == "execute_result":
            output.execution_count = count
        last = result[-1] if result else None
        if (
            last is not None
            and output.output_type == "stream" == last.output_type
            and output.name == last.name
        ):
            last.text += output.text
        else:
            result.append(output)
    return result


def to_bytes(notebook: NotebookNode) -> bytes:
    """Return the file of a notebook: UTF-8, sorted keys, an indent of 1, LF."""
    nbformat.validate(notebook)
    text: str = nb4.writes(notebook)  # nbformat.writes would validate again
    return (text.rstrip("\n") + "\n").encode()
