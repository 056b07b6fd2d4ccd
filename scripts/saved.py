"""One saved cell as Python sees it: what it imports, what it defines, and which global names it reads.

The scopes are Python's own (``symtable``), so a local, a parameter or a comprehension variable is never
taken for a global, and a read inside a function, a default, a decorator or an annotation is. What only
running the code could tell is left to the import of the finished module (see tangle.py).
"""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from dataclasses import dataclass
from typing import Any

from notebooks import BookError

_IPYTHON = re.compile(r"^\s*[%!?]|\?\s*$|=\s*[%!]")


@dataclass(frozen=True, order=True)
class Import:
    """One imported name: ``import module as alias`` (name "") or ``from module import name as alias``."""

    module: str
    name: str
    alias: str

    @property
    def bound(self) -> str:
        """The name that this import binds."""
        return self.alias or self.name or self.module.partition(".")[0]


@dataclass
class Saved:
    """A saved cell: its id, its imports, its other code, and the names it defines and reads."""

    cell: str
    imports: list[Import]
    body: str
    defines: list[str]
    reads: set[str]


def saved_cell(cell_id: str, python: str, where: str) -> Saved:
    """Read one saved cell.

    Raises:
        BookError: it is not plain Python, or it cannot stand in a module.
    """
    tree = _parse(python, where)
    lines = python.split("\n")
    imports: list[Import] = []
    seen: dict[str, ast.stmt] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if any(alias.name == "*" for alias in node.names):
                raise BookError(
                    f"{where}: line {node.lineno} imports * from {node.module}; name what you use"
                )
            if node.level:
                raise BookError(f"{where}: line {node.lineno} has a relative import; write the whole name")
    for position, node in enumerate(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            earlier = seen.get(node.name)
            if earlier is not None and not _is_overload(earlier):
                raise BookError(f"{where}: defines {node.name} twice")
            seen[node.name] = node
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        others = tree.body[:position] + tree.body[position + 1 :]
        span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if any(other.lineno in span or other.end_lineno in span for other in others):
            raise BookError(f"{where}: line {node.lineno}: give the import a line of its own")
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            name = alias.name if module else ""
            imports.append(Import(module or alias.name, name, alias.asname or ""))
        for number in span:
            lines[number - 1] = ""
    body = re.sub(r"\n{4,}", "\n\n\n", "\n".join(line.rstrip() for line in lines)) if imports else python
    body = body.strip("\n").rstrip()
    defines, reads = _names(python, where)
    return Saved(cell_id, imports, body, defines, reads)


def _parse(python: str, where: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(python)
            compile(python, "cell", "exec", dont_inherit=True)
    except SyntaxError as error:
        number = error.lineno or 1
        lines = python.split("\n")
        line = lines[min(number, len(lines)) - 1].strip()
        if any(_IPYTHON.search(each) for each in lines):
            line = next((each.strip() for each in [line, *lines] if _IPYTHON.search(each)), line)
            raise BookError(
                f"{where}: {line!r} is IPython's, not Python's; a saved cell has no magics or shell"
            ) from None
        raise BookError(f"{where}: line {number} is no valid Python ({error.msg}): {line!r}") from None
    return tree


def _is_overload(node: ast.stmt) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(ast.unparse(decorator).rpartition(".")[2] == "overload" for decorator in decorators)


def _names(python: str, where: str) -> tuple[list[str], set[str]]:
    """Return the names that code binds at its top level and the global names that it reads anywhere."""
    # Annotations count as read: readers, type checkers and pydantic all look them up. Without the future
    # import, the symbol table lists them like any other expression.
    plain = re.sub(r"(?m)^from __future__ import .*$", "", python)
    top = symtable.symtable(plain, where, "exec")
    defines = [s.get_name() for s in top.get_symbols() if s.is_assigned() and not s.is_imported()]
    imported = {s.get_name() for s in top.get_symbols() if s.is_imported()}
    reads: set[str] = set()
    pending = [top]
    while pending:
        table = pending.pop()
        pending += table.get_children()
        for symbol in table.get_symbols():
            if symbol.is_global() and (symbol.is_referenced() or symbol.is_declared_global()):
                reads.add(symbol.get_name())
    reads |= _quoted_annotations(ast.parse(plain))
    return defines, reads - set(defines) - imported


def _quoted_annotations(tree: ast.Module) -> set[str]:
    """Return the names inside annotations that are written as strings, such as ``-> "Answer"``."""
    names: set[str] = set()
    for node in ast.walk(tree):
        for where in ("annotation", "returns"):
            annotation = getattr(node, where, None)
            if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
                try:
                    quoted = ast.parse(annotation.value, mode="eval")
                except SyntaxError:
                    continue
                names |= {part.id for part in ast.walk(quoted) if isinstance(part, ast.Name)}
    return names


def bound_names(python: str) -> set[str]:
    """Return the names that an unsaved cell binds at its top level; it may have IPython syntax."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            top = symtable.symtable(python, "cell", "exec")
    except SyntaxError:
        # A magic: let IPython say what Python it stands for.
        from IPython.core.inputtransformer2 import TransformerManager

        manager: Any = TransformerManager  # IPython is only partly typed
        try:
            top = symtable.symtable(manager().transform_cell(python), "cell", "exec")
        except SyntaxError:
            return set()
    return {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
