"""The rules that every page of the book keeps and that its notebook alone can show.

Counts prove that every cell ran; tags say which outputs are compared, and enough are; figures ask a question
and say in words what they show; cells are short; nothing tells when or where a notebook ran.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

import notebooks
from notebooks import ROOT, Code, relative

CELL_LINES = range(2, 26)
COMPARED_SHARE = 0.8
_CLOCK = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d\d:\d\d:\d\d\b|\b(?:Wall|CPU) times?:")
_FORBIDDEN = re.compile(
    r"(?<![\w.~/-])/(?:work|tmp|root|home|Users)\b|\brepresentative (?:output|run|result)s?\b", re.I
)
_SKIP_REASON = re.compile(r"#\s*(?:not run|skipped)\b.*\w{3}", re.I)


def problems(notebook: NotebookNode, path: Path, root: Path = ROOT) -> list[str]:
    """Say which rules a page breaks, each with its place."""
    name = relative(path, root)
    found = [f"{name}: {problem}" for problem in _page(notebook)]
    count = 0
    for cell in notebook.cells:
        told = list(_text(cell))
        if cell.cell_type == "code":
            code = notebooks.split(cell.source)
            runs = code.options.get("eval", True) is not False
            count += runs
            if cell.execution_count != (count if runs else None):
                told.append(f"execution count {cell.execution_count}, expected {count if runs else None}")
            told += [*_length(code), *_figure(cell, code), *_tags(cell, code), *_outputs(cell)]
        found += [f"{name}, cell {cell.id}: {problem}" for problem in told]
    return found


def _page(notebook: NotebookNode) -> Iterator[str]:
    tops = [
        (text, attributes)
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for level, text, attributes in notebooks.headings(cell.source)
        if level == 1
    ]
    if len(tops) != 1:
        yield f"has {len(tops)} headings of level 1, expected one"
    for text, attributes in tops:
        if not re.search(r"#sec-[\w-]+", attributes):
            yield f"its heading {text!r} has no id; expected {{#sec-...}}"
    if notebook.cells and notebook.cells[0].source.startswith("---\n"):
        yield "begins with YAML; its title is its heading"
    bearing = [cell for cell in notebooks.code_cells(notebook) if cell.outputs]
    compared = [
        cell for cell in bearing if not {"nbval-ignore-output", "nbval-skip"} & set(notebooks.tags(cell))
    ]
    if bearing and len(compared) < COMPARED_SHARE * len(bearing):
        yield (
            f"only {len(compared)} of {len(bearing)} cells with outputs are compared with a fresh run; "
            f"expected at least {COMPARED_SHARE:.0%}"
        )


def _text(cell: NotebookNode) -> Iterator[str]:
    texts = [cell.source]
    for output in cell.get("outputs", []):
        texts += [output.get("text", ""), *output.get("traceback", [])]
        texts += [text for text in output.get("data", {}).values() if isinstance(text, str)]
    for text in texts:
        if match := _FORBIDDEN.search(text):
            yield f"says {match[0]!r}"


def _length(code: Code) -> Iterator[str]:
    lines = {number for number, line in enumerate(code.python.split("\n"), 1) if line.strip()}
    lines -= {n for n in lines if code.python.split("\n")[n - 1].lstrip().startswith("#")}
    try:
        tree = ast.parse(code.python)
    except SyntaxError:
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        # A docstring is the function's contract, not its body.
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            first = node.body[0]
            lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    if code.options.get("echo", True) is not False and len(lines) not in CELL_LINES:
        yield f"has {len(lines)} lines of code, expected {CELL_LINES[0]} to {CELL_LINES[-1]}"


def _figure(cell: NotebookNode, code: Code) -> Iterator[str]:
    label = str(code.options.get("label", ""))
    drawn = any(mime.startswith("image/") for out in cell.outputs for mime in out.get("data", {}))
    if drawn and not label.startswith("fig-"):
        yield f"draws a figure; expected a label fig-..., found {label!r}"
    if drawn or label.startswith("fig-"):
        if "?" not in str(code.options.get("fig-cap", "")):
            yield "its fig-cap asks no question"
        if len(str(code.options.get("fig-alt", ""))) < 20:
            yield "its fig-alt does not say what the figure shows"


def _tags(cell: NotebookNode, code: Code) -> Iterator[str]:
    tags = set(notebooks.tags(cell))
    for tag in sorted(tags):
        if tag.startswith("nbval") and tag not in {"nbval-ignore-output", "nbval-skip"}:
            yield f"has the tag {tag}; expected nbval-ignore-output or nbval-skip"
    if re.search(r"#\s*NBVAL_", code.python, re.I):
        yield "has an NBVAL comment; expected a tag"
    if "nbval-ignore-output" in tags and not _asserts(code.python):
        yield "is tagged nbval-ignore-output and asserts nothing"
    if "nbval-skip" in tags and not _SKIP_REASON.search(code.python):
        yield "is tagged nbval-skip and no comment says why ('# skipped: ...')"
    if "gpu" in tags and "nbval-ignore-output" not in tags:
        yield "is tagged gpu and not nbval-ignore-output"


def _asserts(python: str) -> bool:
    try:
        return any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(python)))
    except SyntaxError:
        return bool(re.search(r"^\s*assert\b", python, re.M))


def _outputs(cell: NotebookNode) -> Iterator[str]:
    for output in cell.outputs:
        if output.get("name") == "stderr":
            yield f"writes to standard error: {output.text[:80]!r}"
        if "text/html" in output.get("data", {}):
            yield "has an HTML output; expected text or Markdown (with a raw-HTML fence where it must be)"
        if output.output_type == "error" and "raises-exception" not in notebooks.tags(cell):
            yield f"has an error as its output: {output.ename}"
        texts = [output.get("text", ""), *map(str, output.get("data", {}).values())]
        for text in texts:
            if match := _CLOCK.search(text):
                yield f"its output has the time of a clock: {match[0]!r}"
