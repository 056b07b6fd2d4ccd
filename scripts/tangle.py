"""Write the package from the chapters: the ``# @save`` cells of a notebook become ``modelcall.chNN``.

``chapters/01-on-ramp.ipynb`` gives ``code/modelcall/ch01/_generated.py``, its saved cells in their
order with the imports hoisted, each block under the id of its cell, and ``__init__.py``, which
re-exports the public names. The same notebooks give the same bytes on every machine.

A chapter must be whole without its unsaved cells, so a saved cell is refused, by name, that uses IPython
syntax, defines a name twice, reads what only an unsaved cell defines, or imports ``*``; and so is a module
that a clean process cannot import. On a refusal nothing is written. Comments on import lines are not kept.
"""

from __future__ import annotations

import argparse
import builtins
import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import quick_imports  # noqa: F401  # before nbformat

# isort: split
from nbformat import NotebookNode

import notebooks
from notebooks import ROOT, BookError, relative
from saved import Import, Saved, bound_names, saved_cell

WIDTH = 110  # the line length that ruff checks
END = "(the end of the file)"
_MODULE_NAMES = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "__package__", "__spec__"}


@dataclass
class Module:
    """What a chapter generates: bytes by file name, and which cell each line came from."""

    package: str
    notebook: str
    files: dict[str, bytes] = field(default_factory=dict)
    lines: list[tuple[int, str]] = field(default_factory=list)


def tangle(notebook: NotebookNode, path: Path, root: Path = ROOT) -> Module | None:
    """Return what the saved cells of ``notebook`` generate, or None if it has none.

    Raises:
        BookError: a rule of this module's docstring is broken.
    """
    name = relative(path, root)
    saved: list[Saved] = []
    unsaved: dict[str, str] = {}
    for cell in notebooks.code_cells(notebook):
        where = f"{name}, cell {cell.id}"
        try:
            code = notebooks.split(cell.source)
        except BookError as error:
            raise BookError(f"{where}: {error}") from None
        if code.saved:
            saved.append(saved_cell(cell.id, code.python, where))
        else:
            for each in bound_names(code.python):
                unsaved.setdefault(each, cell.id)
    if not saved:
        return None
    number = notebooks.chapter_number(path)
    if number is None:
        raise BookError(
            f"{name}, cell {saved[0].cell}: only a numbered chapter (NN-slug.ipynb) may save cells"
        )
    heading = notebooks.title(notebook)
    if heading is None:
        raise BookError(f"{name}: has no heading of level 1 to name its module after")
    _check_names(saved, unsaved, name)
    module = Module(f"ch{number:02d}", name)
    docstring = heading.replace("\\", "").replace('"', "'").replace("`", "")
    _render(module, docstring, saved)
    return module


def _check_names(saved: Sequence[Saved], unsaved: Mapping[str, str], name: str) -> None:
    owner: dict[str, tuple[str, Import | None]] = {}
    for cell in saved:
        bound = [(each, None) for each in cell.defines] + [(each.bound, each) for each in cell.imports]
        for bound_name, imported in bound:
            earlier = owner.setdefault(bound_name, (cell.cell, imported))
            same = imported is not None and earlier[1] is not None and _agree(imported, earlier[1])
            if not same and earlier != (cell.cell, imported):
                raise BookError(
                    f"{name}, cell {cell.cell}: {bound_name} is already defined by cell {earlier[0]}"
                )
    for cell in saved:
        for missing in sorted(cell.reads - owner.keys() - _MODULE_NAMES):
            if missing in unsaved:
                reason = f"which only the unsaved cell {unsaved[missing]} defines"
            else:
                reason = "which no cell of the chapter defines"
            raise BookError(f"{name}, cell {cell.cell}: reads {missing}, {reason}")


def _agree(one: Import, other: Import) -> bool:
    """Say whether two imports bind their name to the same thing (``import a.b`` and ``import a.c`` do)."""
    if one == other:
        return True
    return not (one.name or one.alias or other.name or other.alias)


def _render(module: Module, heading: str, saved: Sequence[Saved]) -> None:
    lines = [
        f'"""{heading}',
        "",
        f'Written by scripts/tangle.py from the "# @save" cells of {module.notebook}: edit those.',
        '"""',
    ]
    lines += _import_lines([each for cell in saved for each in cell.imports])
    for cell in saved:
        if cell.body:
            lines += ["", "", f"# cell: {cell.cell}"]
            module.lines.append((len(lines), cell.cell))
            lines += cell.body.split("\n")
    names = {each for cell in saved for each in cell.defines if not each.startswith("_")}
    exported = sorted(names, key=_export_key)
    imports = _wrap(f"from modelcall.{module.package}._generated import ", sorted(names, key=_export_key))
    init = [f'"""{heading}', "", f"The code of {module.notebook}; written by scripts/tangle.py.", '"""', ""]
    if exported:
        init += [*imports, "", *_wrap_all(exported)]
    else:
        init += ["__all__: list[str] = []"]
    module.files = {
        "__init__.py": ("\n".join(init) + "\n").encode(),
        "_generated.py": ("\n".join(lines) + "\n").encode(),
    }


def _export_key(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """Order names as ruff does: constants, classes, the rest; numbers inside a name by their value."""
    kind = 0 if len(name) > 1 and name.isupper() else 1 if name[:1].isupper() else 2
    parts = [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.findall(r"\d+|\D+", name)]
    return kind, parts


def _wrap(head: str, items: Sequence[str]) -> list[str]:
    line = head + ", ".join(items)
    if len(line) <= WIDTH:
        return [line]
    return [f"{head}(", *(f"    {item}," for item in items), ")"]


def _wrap_all(names: Sequence[str]) -> list[str]:
    line = "__all__ = [" + ", ".join(f'"{name}"' for name in names) + "]"
    if len(line) <= WIDTH:
        return [line]
    return ["__all__ = [", *(f'    "{name}",' for name in names), "]"]


def _import_lines(imports: Sequence[Import]) -> list[str]:
    groups: dict[int, set[Import]] = {}
    for each in imports:
        top = each.module.partition(".")[0]
        order = (
            0
            if top == "__future__"
            else 1
            if top in sys.stdlib_module_names
            else 3
            if top == "modelcall"
            else 2
        )
        groups.setdefault(order, set()).add(each)
    lines: list[str] = []
    for order in sorted(groups):
        lines.append("")
        whole = sorted((each for each in groups[order] if not each.name), key=lambda i: (i.module, i.alias))
        lines += [f"import {each.module}" + (f" as {each.alias}" if each.alias else "") for each in whole]
        by_module: dict[str, list[Import]] = {}
        for each in groups[order]:
            if each.name:
                by_module.setdefault(each.module, []).append(each)
        for source in sorted(by_module):
            members = sorted(by_module[source], key=lambda i: (_export_key(i.name), i.alias))
            texts = [each.name + (f" as {each.alias}" if each.alias else "") for each in members]
            lines += _wrap(f"from {source} import ", texts)
    return lines


_PROBE = """
import sys
overlay, source, package = sys.argv[1:]
sys.path.insert(0, source)
import modelcall
modelcall.__path__.insert(0, overlay)
__import__(package)
"""


def check_imports(modules: Sequence[Module], every: Sequence[Module], root: Path = ROOT) -> None:
    """Import each of ``modules``, as ``every`` would generate them, alone in a clean process.

    Raises:
        BookError: one cannot be imported.
    """
    with tempfile.TemporaryDirectory(prefix="tangle-") as folder:
        overlay = Path(folder)
        for module in every:
            for name, data in module.files.items():
                notebooks.write_atomic(overlay / module.package / name, data)

        def probe(module: Module) -> subprocess.CompletedProcess[str]:
            package = f"modelcall.{module.package}"
            command = [sys.executable, "-I", "-B", "-c", _PROBE, folder, str(root / "code"), package]
            return subprocess.run(
                command, check=False, capture_output=True, text=True, encoding="utf-8", timeout=120
            )

        with ThreadPoolExecutor(max_workers=2) as pool:
            results = list(pool.map(probe, modules))
        for module, result in zip(modules, results, strict=True):
            if result.returncode:
                last = result.stderr.strip().splitlines()[-1]
                # The deepest line of the traceback that lies in the module says which cell is at fault.
                here = re.escape(str(overlay / module.package / "_generated.py"))
                numbers = [int(n) for n in re.findall(rf'File "{here}", line (\d+)', result.stderr)]
                owners = [cell for start, cell in module.lines if numbers and start <= numbers[-1]]
                where = module.notebook + (f", cell {owners[-1]}" if owners else "")
                raise BookError(f"{where}: modelcall.{module.package} cannot be imported alone: {last}")


def plan(books: Mapping[Path, NotebookNode], root: Path = ROOT) -> list[Module]:
    """Return what all notebooks of the book generate.

    Raises:
        BookError: a cell is refused, two chapters have one number, or a generated package has no chapter.
    """
    modules: dict[str, Module] = {}
    for path in sorted(books):
        module = tangle(books[path], path, root)
        if module is None:
            continue
        if module.package in modules:
            first = modules[module.package].notebook
            raise BookError(f"{module.notebook} and {first} both generate modelcall.{module.package}")
        modules[module.package] = module
    for stale in sorted((root / "code" / "modelcall").glob("ch[0-9][0-9]/_generated.py")):
        if stale.parent.name not in modules:
            folder = relative(stale.parent, root)
            raise BookError(f"{relative(stale, root)}: no chapter saves cells for it; delete {folder}/")
    return list(modules.values())


def targets(module: Module, root: Path = ROOT) -> dict[Path, bytes]:
    """Return the files of a module by their full path."""
    folder = root / "code" / "modelcall" / module.package
    return {folder / name: data for name, data in module.files.items()}


def drift(module: Module, root: Path = ROOT) -> list[str]:
    """Say how the files on disk differ from what the chapter generates."""
    found = []
    for path, data in targets(module, root).items():
        name = relative(path, root)
        if path.is_dir():
            raise BookError(f"{name}: is a folder; expected the file that {module.notebook} generates")
        if not path.is_file():
            found.append(f"{name}: missing; {module.notebook} generates it")
            continue
        old = path.read_bytes()
        if old != data:
            have, want = old.decode("utf-8", "replace").split("\n"), data.decode().split("\n")
            pairs = list(itertools.zip_longest(have, want, fillvalue=END))
            number, (line, wanted) = next((i, pair) for i, pair in enumerate(pairs, 1) if pair[0] != pair[1])
            found.append(f"{name}: line {number} is {line!r}; {module.notebook} generates {wanted!r}")
    return found


def load(root: Path = ROOT) -> dict[Path, NotebookNode]:
    """Read every notebook of the book."""
    return {path: notebooks.read(path, root) for path in sorted((root / "chapters").glob("*.ipynb"))}


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(description="Write code/modelcall/chNN from the chapters' saved cells.")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if a file is out of date"
    )
    options = parser.parse_args(arguments)
    try:
        modules = plan(load(root), root)
        stale = [module for module in modules if drift(module, root)]
        check_imports(modules if options.check else stale, modules, root)
    except BookError as error:
        print(f"tangle: {error}", file=sys.stderr)
        return 1
    if options.check:
        for line in [line for module in stale for line in drift(module, root)]:
            print(f"tangle: {line}", file=sys.stderr)
        if stale:
            print("tangle: run `make tangle`; edit the chapter, never the generated file", file=sys.stderr)
        return 1 if stale else 0
    for module in stale:
        for path, data in targets(module, root).items():
            if notebooks.write_atomic(path, data):
                print(f"tangle: wrote {relative(path, root)} from {module.notebook}")
    print(f"tangle: {len(modules)} chapters, {len(stale)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
