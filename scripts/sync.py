"""Keep the two forms of each page together, and run the notebooks whose code has changed.

``chapters/01-on-ramp.md`` is the text that people edit; ``chapters/01-on-ramp.ipynb`` is its executed twin.
Edit either and run this command: it finds the side that changed since the last sync, brings the other up
to date, tangles (a page may import what it has just defined), and runs a notebook only if its code differs
from the code that gave its outputs. An edit of prose, a caption or a tag keeps the outputs.

Outputs also depend on the package and on the data. A change there runs nothing here: the tests compare
every notebook with a fresh run, and ``--force`` renews the outputs. If both sides changed, nothing is
written, and ``--from text`` or ``--from notebook`` with the name of the page says which one wins.

``--check`` changes and runs nothing: it proves that text, notebook and outputs belong together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import quick_imports  # noqa: F401  # before nbformat

# isort: split
from nbformat import NotebookNode

import execute
import notebooks
import tangle
import twins
from notebooks import ROOT, BookError, relative
from twins import Cell


@dataclass
class Page:
    """A page's two files, what they say, and what the last sync left."""

    text_path: Path
    notebook_path: Path
    text: str | None
    notebook: NotebookNode | None
    text_cells: list[Cell] | None
    notebook_cells: list[Cell] | None

    @property
    def record(self) -> dict[str, Any]:
        """The hashes that the last sync stored."""
        return dict(self.notebook.metadata.get("modelcall", {})) if self.notebook is not None else {}


@dataclass
class Plan:
    """What a page needs: its inputs, its new text if any, and why its notebook has to run, if it has to."""

    page: Page
    cells: list[Cell]
    text: str
    notebook: NotebookNode
    why_run: str


def read_page(stem: str, root: Path) -> Page:
    """Read both forms of a page.

    Raises:
        BookError: one cannot be read, or neither exists.
    """
    text_path, notebook_path = root / "chapters" / f"{stem}.md", root / "chapters" / f"{stem}.ipynb"
    for path in (text_path, notebook_path):
        if path.is_dir():
            raise BookError(f"{relative(path, root)}: is a folder; expected a file")
    text = text_cells = notebook = notebook_cells = None
    if text_path.is_file():
        try:
            text = text_path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise BookError(f"{relative(text_path, root)}: byte {error.start} is no UTF-8") from error
        text_cells = twins.from_text(text, relative(text_path, root))
    if notebook_path.is_file():
        notebook = notebooks.read(notebook_path, root)
        notebook_cells = twins.from_notebook(notebook, relative(notebook_path, root))
    if text is None and notebook is None:
        raise BookError(f"chapters/{stem}: neither {stem}.md nor {stem}.ipynb exists")
    return Page(text_path, notebook_path, text, notebook, text_cells, notebook_cells)


def winner(page: Page, prefer: str | None, root: Path) -> str:
    """Say which form has the inputs: "text" or "notebook".

    Raises:
        BookError: both changed since the last sync, each in its own way.
    """
    if page.text_cells is None or page.notebook_cells is None:
        return "notebook" if page.text_cells is None else "text"
    if page.text_cells == page.notebook_cells:
        return "text"
    if prefer is not None:
        return prefer
    last = page.record.get("inputs_sha256")
    if twins.inputs_hash(page.notebook_cells) == last:
        return "text"
    if twins.inputs_hash(page.text_cells) == last:
        return "notebook"
    text, notebook = relative(page.text_path, root), relative(page.notebook_path, root)
    raise BookError(
        f"{text} and {notebook} both changed since the last sync; they differ: {first_difference(page)}\n"
        f"    Neither was touched. To keep one of them: python scripts/sync.py --from text {text}\n"
        f"    (or --from notebook); to keep parts of both, copy them into one of the files first."
    )


def first_difference(page: Page) -> str:
    """Name the first cell in which the two forms differ, and show the line."""
    text, notebook = page.text_cells or [], page.notebook_cells or []
    number = next((i for i, (a, b) in enumerate(zip(text, notebook, strict=False)) if a != b), None)
    if number is None:
        number = min(len(text), len(notebook))
        side, cells = ("text", text) if len(text) > len(notebook) else ("notebook", notebook)
        return f"cell {number + 1} is in the {side} only: {cells[number].source[:60]!r}"
    one, other = text[number], notebook[number]
    if one.source == other.source:
        sides = f"{one.kind} {list(one.tags)} in the text, {other.kind} {list(other.tags)} in the notebook"
        return f"cell {number + 1}: {sides}"
    ours, theirs = one.source.split("\n"), other.source.split("\n")
    pairs = [(a, b) for a, b in zip([*ours, ""], [*theirs, ""], strict=False) if a != b]
    a, b = pairs[0] if pairs else (ours[-1], theirs[-1])
    return f"cell {number + 1}: {a[:80]!r} in the text, {b[:80]!r} in the notebook"


def _stale(page: Page, cells: Sequence[Cell]) -> str:
    """Say why a notebook's outputs do not belong to this code; "" if they do."""
    if page.notebook is None:
        return "new"
    if not page.record.get("last_run"):
        return "never run"
    code = twins.code_hash(cells)
    if page.record.get("code_sha256") != code or twins.code_hash(page.notebook_cells or []) != code:
        return "its code changed"
    finished = twins.finish(page.notebook, {}, page.text or "")
    found, stored = twins.outputs_hashes(finished.cells), page.record.get("outputs_sha256", {})
    for cell in notebooks.code_cells(page.notebook):
        if found.get(cell.id) != stored.get(cell.id):
            return f"the outputs of cell {cell.id} are not those of its last run"
    return ""


def make_plan(page: Page, prefer: str | None, force: bool, root: Path) -> Plan:
    """Decide what a page needs.

    Raises:
        BookError: a conflict, or a source that cannot be a page.
    """
    side = winner(page, prefer, root)
    name = relative(page.text_path if side == "text" else page.notebook_path, root)
    cells = (page.text_cells if side == "text" else page.notebook_cells) or []
    notebook = twins.blank(cells, name)
    if side == "text":
        text = twins.with_header(page.text or "")
    else:
        text = twins.to_text(cells, name)
    why = _stale(page, cells) or ("--force" if force else "")
    if not why and page.notebook is not None:
        # The code is the same, cell for cell, so the outputs still belong to it.
        old = [cell for cell in notebooks.code_cells(page.notebook) if cell.source.strip()]
        for new, cell in zip(notebooks.code_cells(notebook), old, strict=True):
            new.outputs = cell.outputs
        notebook = twins.finish(notebook, page.record["last_run"], text)
    return Plan(page, cells, text, notebook, why)


def problems(page: Page, root: Path) -> list[str]:
    """Say everything in which text, notebook and outputs do not belong together."""
    text, notebook = relative(page.text_path, root), relative(page.notebook_path, root)
    if page.text is None or page.notebook is None:
        return [f"{text if page.text is None else notebook}: missing"]
    if page.text_cells != page.notebook_cells:
        return [f"{text} and {notebook} differ: {first_difference(page)}"]
    cells = page.text_cells or []
    found = []
    wanted = twins.blank(cells, text)
    if page.text.replace("\r\n", "\n") != twins.with_header(page.text):
        found.append(f"{text}: its front matter is not the book's own")
    if page.record.get("code_sha256") != twins.code_hash(cells):
        return [*found, f"{notebook}: its outputs are of other code; the code has changed since it ran"]
    expected = twins.finish(page.notebook, page.record.get("last_run", {}), page.text)
    hashes, stored = twins.outputs_hashes(expected.cells), page.record.get("outputs_sha256", {})
    for have, want in zip(page.notebook.cells, expected.cells, strict=True):
        if have.cell_type != "code":
            continue
        if hashes.get(have.id) != stored.get(have.id):
            found.append(f"{notebook}, cell {have.id}: its outputs are not those that its code gave")
        if have.execution_count != want.execution_count:
            counts = f"{have.execution_count}; expected {want.execution_count}"
            found.append(f"{notebook}, cell {have.id}: execution count {counts}")
    for have, want in zip(page.notebook.cells, wanted.cells, strict=False):
        if have.id != want.id:
            found.append(f"{notebook}, cell {have.id}: expected the id {want.id}")
    if not page.record.get("last_run"):
        found.append(f"{notebook}: never run")
    if not found and page.notebook_path.read_bytes() != twins.to_bytes(expected):
        found.append(f"{notebook}: is not in normal form (metadata, empty cells or layout)")
    return found


def stems(names: Sequence[str], root: Path) -> list[str]:
    """Return the pages that the arguments name, or all pages.

    Raises:
        BookError: there are no pages, or an argument names none of them.
    """
    folder = root / "chapters"
    if not folder.is_dir():
        raise BookError(f"{folder}: no such folder; expected the book's pages in it")
    every = sorted({path.stem for path in folder.glob("*") if path.suffix in {".md", ".ipynb"}})
    if not names:
        return every
    chosen = []
    for name in names:
        stem = Path(name).name.removesuffix(".md").removesuffix(".ipynb")
        # A path may start at the root, as the messages write it, or where the command is run.
        near = {(start / name).resolve().parent for start in (root, Path.cwd())}
        outside = Path(name).name != name and folder.resolve() not in near
        if stem not in every or outside:
            raise BookError(f"{name}: expected one of the pages {', '.join(every) or '(there are none)'}")
        chosen.append(stem)
    return list(dict.fromkeys(chosen))


def _report(error: BookError) -> None:
    print(f"sync: {error}", file=sys.stderr)


def check(pages: Sequence[str], root: Path) -> int:
    """Print every problem of the pages; return the exit status."""
    count = 0
    for stem in pages:
        try:
            found = problems(read_page(stem, root), root)
        except BookError as error:
            found = [str(error)]
        for line in found:
            print(f"sync: {line}", file=sys.stderr)
        count += bool(found)
    if count:
        print("sync: run `make sync`", file=sys.stderr)
    return 1 if count else 0


def synchronize(pages: Sequence[str], prefer: str | None, force: bool, root: Path) -> int:
    """Bring the pages up to date; return the exit status."""
    plans: list[Plan] = []
    failed = False
    for stem in pages:
        try:
            plans.append(make_plan(read_page(stem, root), prefer, force, root))
        except BookError as error:
            _report(error)
            failed = True
    if failed:
        return 1  # nothing has been written yet
    try:
        mine = {plan.page.notebook_path: plan.notebook for plan in plans}
        others = [path for path in (root / "chapters").glob("*.ipynb") if path not in mine]
        books = mine | {path: notebooks.read(path, root) for path in others}
        modules = tangle.plan(books, root)
        changed = [module for module in modules if tangle.drift(module, root)]
        tangle.check_imports(changed, modules, root)
    except BookError as error:
        _report(error)
        return 1
    before: dict[Path, bytes | None] = {}
    for module in changed:
        for path, data in tangle.targets(module, root).items():
            before[path] = path.read_bytes() if path.is_file() else None
            notebooks.write_atomic(path, data)
    for plan in plans:
        try:
            _finish(plan, root)
        except BaseException as error:  # an interrupt too: nothing stays half done
            _restore(before, plan, root)
            if not isinstance(error, BookError):
                raise
            _report(error)
            failed = True
    return 1 if failed else 0


def _restore(before: dict[Path, bytes | None], plan: Plan, root: Path) -> None:
    """Put back the generated files of a page that failed: its old notebook is what they belong to."""
    number = notebooks.chapter_number(plan.page.notebook_path)
    for path, data in before.items():
        if number is not None and path.parent.name == f"ch{number:02d}":
            if data is None:
                path.unlink()
            else:
                notebooks.write_atomic(path, data)


def _finish(plan: Plan, root: Path) -> None:
    page, notebook = plan.page, plan.notebook
    name = relative(page.notebook_path, root)
    done = []
    if plan.why_run:
        print(f"sync: {name}: running ({plan.why_run})", file=sys.stderr, flush=True)
        progress = _cell_progress if sys.stderr.isatty() else lambda _: None
        executed, last_run = execute.execute(notebook, page.notebook_path, root, progress)
        notebook = twins.finish(executed, last_run, plan.text)
        done.append(f"ran in {last_run['seconds']} s")
    if notebooks.write_atomic(page.notebook_path, twins.to_bytes(notebook)):
        done.append("notebook written")
    if notebooks.write_atomic(page.text_path, plan.text.encode()):
        done.append("text written")
    print(f"sync: {name}: {', '.join(done) or 'up to date'}", file=sys.stderr, flush=True)


def _cell_progress(line: str) -> None:
    print(f"\x1b[2K    {line}", end="\r", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(description="Bring text and notebooks together; run stale notebooks.")
    parser.add_argument(
        "pages", nargs="*", help="pages to work on, such as chapters/01-on-ramp.md (default: all)"
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if something does not fit"
    )
    parser.add_argument(
        "--force", action="store_true", help="run the notebooks even if their code is unchanged"
    )
    parser.add_argument(
        "--from", dest="prefer", choices=("text", "notebook"), help="the form that wins where the two differ"
    )
    options = parser.parse_args(arguments)
    if options.prefer and not options.pages:
        parser.error("--from discards the other form's changes, so it needs the names of the pages")
    try:
        pages = stems(options.pages, root)
    except BookError as error:
        _report(error)
        return 1
    if options.check:
        return check(pages, root)
    try:
        return synchronize(pages, options.prefer, options.force, root)
    except KeyboardInterrupt:
        print("sync: interrupted; the page being run was left as it was", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
