"""The cells of a reader's notebook, from a page's pieces and its executed twin.

Two forms. *Complete* keeps every code cell and its outputs; the code of a solution is a closed cell.
*Student* has no outputs, and what is folded (solutions, answers) is text in ``<details>``, so that nothing of
it is seen or run before it is asked for. In both, ``#|`` lines are gone: captions are text below the output,
alternative texts a folded description.
"""

from __future__ import annotations

import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from nbformat import NotebookNode

import notebooks
from readers_boxes import Box, wrapped
from readers_prose import Piece, Prose
from render.tree import Node, html_block, plain_text, strings

__all__ = ["Draft", "markdown_outputs", "missing_names", "new_code", "plan", "set_markdown"]

# Tags that mean something to a reader's tools; nbval's are for the book's own checks.
_TAGS = ("exercise", "solution", "gpu", "raises-exception")
_SCRIPTED = re.compile(r"<(?:script|input|select|button|form)\b")


@dataclass
class Draft:
    """A cell to be: a code cell, or Markdown still in Pandoc's form."""

    id: str
    blocks: list[Node] = field(default_factory=list)
    code: NotebookNode | None = None
    attachments: dict[str, Any] = field(default_factory=dict)
    text: str = ""


@dataclass
class _Parts:
    """A code cell of the page with what the notebook says around it."""

    cell: NotebookNode
    options: dict[str, Any]
    source: str  # without the option lines
    fold: Box | None
    captions: list[Node]
    shown: list[list[Node]]

    @property
    def solution(self) -> bool:
        return "solution" in notebooks.tags(self.cell)

    @property
    def evaluated(self) -> bool:
        return self.options.get("eval", True) is not False


def plan(prose: Prose, cells: list[NotebookNode], student: bool) -> list[Draft]:
    """The cells of one form of a page, in order."""
    drafts: list[Draft] = []
    for box in {id(b): b for piece in prose.pieces for b in piece.boxes}.values():
        box.seen = 0
    pieces = [_Part(piece, prose, cells) for piece in prose.pieces]
    headings = {piece.name for piece in prose.pieces}
    i = 0
    while i < len(pieces):
        part = pieces[i]
        end = i + 1
        if student and part.fold is not None:
            # Everything in the fold, its code too, becomes one text cell.
            while end < len(pieces) and pieces[end].fold is part.fold:
                end += 1
            blocks = [b for one in pieces[i:end] for b in _as_text(one)]
            drafts.append(Draft(cells[part.cell - 1].id, wrapped(part.fold, blocks)))
        elif part.code is None:
            name = part.name or cells[part.cell - 1].id
            # The book names a cell after its first heading; here that is the name of what follows it.
            name = f"{name[:57]}-before" if not part.name and name in headings else name
            drafts.append(Draft(name, part.boxed()))
        elif student and part.code.solution:
            fold = Box(strings("Solution"), fold=True)
            drafts.append(Draft(part.code.cell.id, wrapped(fold, _as_text(part))))
        else:
            drafts += _code(part, student)
        i = end
    return _joined(drafts)


class _Part:
    """A piece together with its code cell, if it is one."""

    def __init__(self, piece: Piece, prose: Prose, cells: list[NotebookNode]) -> None:
        self.cell, self.boxes, self.blocks, self.name = piece.cell, piece.boxes, piece.blocks, piece.name
        self.fold = next((box for box in reversed(piece.boxes) if box.fold), None)
        self.code: _Parts | None = None
        if piece.code:
            cell = cells[piece.cell - 1]
            split = notebooks.split(cell.source)
            lines = cell.source.split("\n")
            start = next((i for i, line in enumerate(lines) if not re.match(r"#\||\s*$", line)), len(lines))
            self.code = _Parts(
                cell,
                split.options,
                "\n".join(lines[start:]),
                self.fold,
                prose.captions.get(piece.cell, []),
                prose.shown.get(piece.cell, []),
            )

    def boxed(self) -> list[Node]:
        """The piece's blocks inside the innermost fold, else inside the innermost quotation."""
        box = self.fold or (self.boxes[-1] if self.boxes else None)
        if box is None:
            return self.blocks
        title = box.title
        if box.fold and box.seen:
            title = [*title, *strings(" (continued)")]
        elif box.seen:
            title = []
        return wrapped(box, self.blocks, title)


def _as_text(part: _Part) -> list[Node]:
    """A piece for a fold that holds text only: code as a listing, what it printed below."""
    if part.code is None:
        return part.blocks
    code = part.code
    out: list[Node] = [{"t": "CodeBlock", "c": [["", ["python"], []], code.source]}] if code.source else []
    if code.evaluated and code.options.get("output", True):
        shown = iter(code.shown)
        for output in code.cell.outputs:
            if _is_markdown(output, code.options):
                out += next(shown, [])
            elif output.output_type == "stream":
                out.append({"t": "CodeBlock", "c": [["", ["text"], []], output.text.rstrip("\n")]})
    return [*out, *code.captions]


def _code(part: _Part, student: bool) -> Iterator[Draft]:
    code = part.code
    assert code is not None
    if not code.evaluated:
        listing: Node = {"t": "CodeBlock", "c": [["", ["python"], []], code.source]}
        yield Draft(code.cell.id, [listing, *code.captions])
        return
    if code.source.strip():
        yield Draft(code.cell.id, code=_code_cell(code, student))
    below = [*code.captions, *_descriptions(code)]
    if below and code.options.get("include", True):
        yield Draft(f"{code.cell.id[:56]}-caption", below)


def new_code(identifier: str, source: str) -> NotebookNode:
    """A code cell that was not run; the whole notebook is validated later, which is many times as fast."""
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": identifier,
        "source": source,
        "outputs": [],
        "execution_count": None,
    }
    return NotebookNode({**cell, "metadata": NotebookNode()})


def folded(cell: NotebookNode) -> NotebookNode:
    """Close a cell whose source starts with a title: Colab by its view, Jupyter and VS Code by hiding it."""
    cell.metadata = NotebookNode({"cellView": "form", "jupyter": {"source_hidden": True}})
    return cell


def _name(source: str) -> str:
    """What a folded cell is called, by what it asks or shows.

    >>> _name('predicted("1.1", 2)'), _name("print(1)")
    ('What you said', 'The code of this output')
    """
    calls = {"predict": "Predict", "predicted": "What you said", "explore": "The code of this figure"}
    return next(
        (calls[name] for name in calls if re.search(rf"\b{name}\(", source)), "The code of this output"
    )


def _code_cell(code: _Parts, student: bool) -> NotebookNode:
    cell = new_code(code.cell.id, code.source)
    metadata: dict[str, Any] = {}
    options = code.options
    included = options.get("include", True) is not False
    closed = code.fold is not None or code.solution
    if closed or not included or not options.get("echo", True) or options.get("code-fold") is True:
        name = plain_text(code.fold.title) if code.fold else "Solution" if code.solution else ""
        name = name or str(options.get("code-summary", "")) or _name(code.source)
        cell.source = f"# @title {name}\n{code.source}"
        metadata = folded(cell).metadata
        if closed or not included:
            metadata["jupyter"]["outputs_hidden"] = True
    if tags := [tag for tag in _TAGS if tag in notebooks.tags(code.cell)]:
        metadata["tags"] = tags
    cell.metadata = NotebookNode(metadata)
    if not student:
        cell.execution_count = code.cell.execution_count
        if included and options.get("output", True):
            cell.outputs = [_displayed(output, options) for output in code.cell.outputs]
    return cell


def _displayed(output: NotebookNode, options: dict[str, Any]) -> NotebookNode:
    """An output to keep; what the page takes for Markdown is Markdown here, printed or not."""
    kept = NotebookNode(output)  # what is in it is text, which nobody changes
    if "data" in output:
        kept["data"] = NotebookNode(output.data)
    if output.output_type == "stream" and _is_markdown(output, options):
        data = NotebookNode({"text/markdown": output.text, "text/plain": output.text})
        kept = NotebookNode(output_type="display_data", metadata=NotebookNode(), data=data)
    return kept


def _is_markdown(output: NotebookNode, options: dict[str, Any]) -> bool:
    """Whether ``render.source`` reads an output as Markdown."""
    if output.output_type == "stream":
        return options.get("output") == "asis" and output.name == "stdout"
    return "text/markdown" in output.get("data", {})


def _descriptions(code: _Parts) -> list[Node]:
    """The alternative texts of a cell's figures, folded: a notebook cannot give them to the images."""
    alts = code.options.get("fig-alt") or []
    texts = [str(alt).strip() for alt in (alts if isinstance(alts, list) else [alts])]
    if not texts:
        return []
    paragraphs: list[Node] = [{"t": "Para", "c": strings(text)} for text in texts]
    head = "<details>\n<summary>The figure in words</summary>"
    return [html_block(head), *paragraphs, html_block("</details>")]


def _joined(drafts: list[Draft]) -> list[Draft]:
    """Join neighbours that came from one Markdown cell, and give every cell an id of its own."""
    out: list[Draft] = []
    for draft in drafts:
        last = out[-1] if out else None
        if last and draft.code is None and last.code is None and last.id == draft.id:
            last.blocks = [*last.blocks, *draft.blocks]
        else:
            out.append(draft)
    taken: set[str] = set()
    for draft in out:
        wanted, count = draft.id, 1
        while draft.id in taken:
            count += 1
            draft.id = f"{wanted[:60]}-{count}"
        taken.add(draft.id)
        if draft.code is not None:
            draft.code.id = draft.id
    return out


def markdown_outputs(draft: Draft) -> list[NotebookNode]:
    """The outputs of a code cell that hold Markdown."""
    if draft.code is None:
        return []
    return [out for out in draft.code.outputs if "text/markdown" in out.get("data", {})]


def set_markdown(output: NotebookNode, text: str) -> None:
    """Give an output its Markdown. Markup that works with a page's script alone gives way to its words."""
    if _SCRIPTED.search(text):
        del output.data["text/markdown"]
    else:
        output.data["text/markdown"] = text


def missing_names(drafts: list[Draft], removed: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Cells that read a name which only removed cells give: (cell id, name, id of the removed cell)."""
    given: dict[str, str] = {}
    for cell_id, source in removed.items():
        for name in _bound(source):
            given.setdefault(name, cell_id)
    if not given:
        return
    kept: set[str] = set()
    for draft in drafts:
        if draft.code is None:
            continue
        for name in sorted(_read(draft.code.source) & set(given) - kept):
            yield draft.id, name, given[name]
        kept |= _bound(draft.code.source)


@cache
def _table(source: str) -> symtable.SymbolTable | None:
    plain = re.sub(r"(?m)^\s*[%!].*$|^from __future__ import .*$", "", source)
    try:
        return symtable.symtable(plain, "cell", "exec")
    except SyntaxError:
        return None


def _bound(source: str) -> set[str]:
    top = _table(source)
    found = top.get_symbols() if top else []
    return {symbol.get_name() for symbol in found if symbol.is_assigned() or symbol.is_imported()}


def _read(source: str) -> set[str]:
    """Global names that a cell reads and does not bind."""

    def names(table: symtable.SymbolTable) -> Iterator[str]:
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
                yield symbol.get_name()
        for child in table.get_children():
            yield from names(child)

    top = _table(source)
    return (set(names(top)) - _bound(source)) if top else set()
