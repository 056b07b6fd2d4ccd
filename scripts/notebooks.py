"""What every tool needs to know about the book's notebooks: where they are, what a cell says, how to write.

A code cell of the book has up to three parts, in this order: Quarto options (``#| key: value`` lines),
the marker ``# @save`` where the cell belongs to the package, and Python. This module takes cells apart
and gives them their ids; it executes nothing and knows nothing of the text twins (see sync.py).
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import quick_imports  # noqa: F401  # before nbformat

# isort: split
import nbformat
import yaml
from nbformat import NotebookNode as NotebookNode
from nbformat.v4.nbjson import JSONReader

from render.source import LOADER

ROOT = Path(__file__).resolve().parent.parent
MARKER = re.compile(r"#\s*@save\s*")
_CHAPTER = re.compile(r"(\d\d)-[a-z0-9]+(?:-[a-z0-9]+)*")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*(?:\{([^{}]*)\})?\s*$")


class BookError(Exception):
    """A mistake in a source of the book; the message names the file and the cell."""


@dataclass(frozen=True)
class Code:
    """A code cell taken apart: its options, whether it is saved, its Python, and where that begins."""

    options: dict[str, Any]
    saved: bool
    python: str
    first_line: int  # of ``python`` in the cell's source, counted from 0


def chapter_number(path: Path) -> int | None:
    """Return 1 for ``01-on-ramp.ipynb``, and None for a page that is no numbered chapter."""
    match = _CHAPTER.fullmatch(path.stem)
    return int(match[1]) if match else None


def relative(path: Path, root: Path) -> str:
    """Return ``path`` as messages write it: from the root of the repository, with forward slashes."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def read(path: Path, root: Path = ROOT) -> NotebookNode:
    """Read a notebook of the book.

    Raises:
        BookError: the file is no notebook in the format 4.
    """
    name = relative(path, root)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("nbformat") != 4:
            raise ValueError("it is not in the format 4 of notebooks")
        if data.get("nbformat_minor", 0) < 5:  # as Colab writes them: cells have no ids yet
            data["nbformat_minor"] = 5
            for number, cell in enumerate(data.get("cells") or [], 1):
                cell["id"] = f"cell-{number}"
        nbformat.validate(data)
        notebook: NotebookNode = JSONReader().to_notebook(data)  # nbformat.reads would validate again
        if not isinstance(notebook.metadata.get("modelcall", {}), dict):
            raise ValueError("its metadata.modelcall, the record of the last sync, is no mapping")
    except (OSError, ValueError, TypeError, KeyError, RecursionError, nbformat.ValidationError) as error:
        reason = (
            getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        ).splitlines()[0]
        raise BookError(f"{name}: cannot be read as a notebook: {reason}") from error
    return notebook


def split(source: str) -> Code:
    """Take a code cell's source apart.

    Raises:
        BookError: the options are no YAML mapping, or the marker is not the first line of code.
    """
    lines = source.split("\n")
    start = 0
    while start < len(lines) and (lines[start].startswith("#|") or not lines[start].strip()):
        start += 1
    options = _options([line[2:] for line in lines[:start] if line.startswith("#|")])
    saved = start < len(lines) and MARKER.fullmatch(lines[start]) is not None
    start += saved
    for line in lines[start:]:
        if MARKER.fullmatch(line.strip()):
            raise BookError('"# @save" must be the first line of code, just after the "#|" options')
    return Code(options, saved, "\n".join(lines[start:]), start)


def _options(lines: Sequence[str]) -> dict[str, Any]:
    try:
        options = yaml.load("\n".join(lines), Loader=LOADER) if lines else {}
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise BookError(f'the "#|" options are no valid YAML: {reason}') from error
    if not isinstance(options, dict):
        raise BookError(f'the "#|" options are no mapping: {lines[0].strip()!r}')
    return options


def tags(cell: NotebookNode) -> list[str]:
    """Return the tags of a cell."""
    return list(cell.metadata.get("tags", []))


def code_cells(notebook: NotebookNode) -> Iterator[NotebookNode]:
    """Yield the code cells in order."""
    return (cell for cell in notebook.cells if cell.cell_type == "code")


def title(notebook: NotebookNode) -> str | None:
    """Return the text of the first heading of level 1, without its id."""
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        for level, text, _ in headings(cell.source):
            if level == 1:
                return text
    return None


def headings(markdown: str) -> Iterator[tuple[int, str, str]]:
    """Yield level, text and attributes of each ATX heading that is not inside a code fence."""
    fence = ""
    for line in markdown.split("\n"):
        mark = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        if mark:
            fence = mark[1]
        elif match := _HEADING.match(line):
            yield len(match[1]), match[2], match[3] or ""


def public_names(python: str) -> list[str]:
    """Return the names that a cell's code defines at its top level and that do not begin with ``_``."""
    try:
        tree = ast.parse(python)
    except SyntaxError:
        return []
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def cell_ids(cells: Sequence[NotebookNode]) -> list[str]:
    """Return an id for each cell that says what it is and does not depend on where it stands.

    A label gives the id; else the first public name that a saved cell defines; else the id of a
    heading; else the cell's first words and a hash of its source. Equal ids get a number.

    Raises:
        BookError: a cell cannot be taken apart, or two cells have one label.
    """
    taken: set[str] = set()
    labels = [_label(cell) for cell in cells]
    for label in labels:
        if label is not None and label in taken:
            raise BookError(f"two cells have the label {label!r}")
        if label is not None:
            taken.add(label)
    result: list[str] = []
    for cell, label in zip(cells, labels, strict=True):
        wanted = label or _describe(cell)
        chosen, count = wanted, 1
        while label is None and chosen in taken:
            count += 1
            chosen = f"{wanted[:60]}-{count}"
        taken.add(chosen)
        result.append(chosen)
    return result


def _label(cell: NotebookNode) -> str | None:
    if cell.cell_type != "code":
        return None
    label = split(cell.source).options.get("label")
    if label is None:
        return None
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", str(label)):
        raise BookError(f"label: expected up to 64 letters, digits, - and _, got {str(label)!r}")
    return str(label)


def _describe(cell: NotebookNode) -> str:
    if cell.cell_type == "code":
        code = split(cell.source)
        if code.saved:
            for name in public_names(code.python):
                return _slug(name, 64)
        words = code.python
    else:
        for _, _, attributes in headings(cell.source):
            if match := re.search(r"#([A-Za-z][A-Za-z0-9_-]{0,63})(?=\s|$)", attributes):
                return match[1]
        words = cell.source
    digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:6]
    return f"{_slug(words, 24) or cell.cell_type}-{digest}"


def _slug(text: str, length: int) -> str:
    words = re.findall(r"[A-Za-z0-9_]+", text[:200])
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word[:length]
        if len(longer) > length:
            break
        slug = longer
    return slug


def write_atomic(path: Path, data: bytes) -> bool:
    """Write a file so that readers see the old bytes or the new ones; return False if they are equal.

    Raises:
        BookError: there is a folder in the file's place.
    """
    if path.is_dir():
        raise BookError(f"{path}: is a folder; expected a file")
    if path.is_file() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        # mkstemp makes the file private; a source file has the mode of its elders, or of the umask.
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
